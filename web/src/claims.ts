/**
 * Claims about a head's attention map. The kind of a claim is computed only from the cells that are drawn, so the claim
 * is true of the picture on any text, at any step, with rows normalized or not. Its number is a mean if there are
 * several prompts.
 * Every sentence about the map is made from one claim: lead, caption, remark and label.
 */
import type { State } from './ask/state';
import {
  attentionOf,
  cellsOf,
  comparableKeyCount,
  drawnMap,
  firstKey,
  firstTokenWeights,
  headAt,
  usesRawWeights,
  mapsOf,
  mean,
  ofHead,
  rowSumOf,
  type Frame,
  type Head,
} from './frame';

export interface Column {
  /**
   * `rows` leaves out the first row; `strongRows` counts those whose cell in the column is above half of the full scale
   * and above half of the row: where rows sum to more than 1, a large weight may be no more than an even share.
   */
  readonly rows: number;
  readonly strongRows: number;
  /** The mean magnitude of the column's cells in the rows after the first one. */
  readonly mean: number;
  /** What `mean` would be if the magnitudes of each row were spread evenly over the keys that it sees. */
  readonly uniform: number;
  /** The magnitude of the mean over all rows, the first one included, as of alpha_1. */
  readonly alpha: number;
  /** `rowSum` is the mean over all rows; `sums` are the smallest and the largest. */
  readonly rowSum: number;
  readonly sums: readonly [number, number];
}

/**
 * Measures a column of a map.
 * @param cells [T, T], or [queries, T] in cross-attention; signed weights included; NaN where nothing is drawn
 * @param key the index of the column, which is 0 except in recordings with another first token
 * @param ownRow the row of the column's own token, which is left out; -1 in cross-attention
 */
export function columnOf(cells: ArrayLike<number>, T: number, key = 0, ownRow = key): Column {
  const queries = cells.length / T;
  let unseenRows = 0;
  let [strongRows, columnSum, uniform, alphaSum] = [0, 0, 0, 0];
  const sums: number[] = [];
  for (let t = 0; t < queries; t++) {
    const row = Array.from({ length: T }, (_, k) => cells[t * T + k]!).filter(Number.isFinite);
    const size = row.reduce((a, b) => a + Math.abs(b), 0);
    const weight = cells[t * T + key]!;
    sums.push(row.reduce((a, b) => a + b, 0));
    if (t < key && Number.isNaN(weight)) unseenRows++;
    if (Number.isNaN(weight)) continue;
    alphaSum += weight;
    if (t === ownRow) continue;
    if (Math.abs(weight) > 0.5 * Math.max(1, size)) strongRows++;
    columnSum += Math.abs(weight);
    uniform += size / row.length;
  }
  const rows = queries - (ownRow < 0 ? 0 : 1) - unseenRows;
  return {
    ...{ rows, strongRows, mean: columnSum / rows, uniform: uniform / rows },
    ...{ alpha: Math.abs(alphaSum) / (queries - unseenRows), rowSum: mean(sums) },
    sums: [Math.min(...sums), Math.max(...sums)],
  };
}

/**
 * How strong the first column is: `empty` if the map is almost blank, since its rows sum to almost nothing; `all` and
 * `many` by the number of strong rows; `weak` if its mean is visible and above twice uniform attention; else `none`. A
 * text in which heads are not counted is `short`: there an even spread, too, looks like a sink.
 */
export type Kind = 'all' | 'many' | 'weak' | 'none' | 'empty' | 'short';

/** Why heads are not counted in a short text. */
export const TOO_SHORT =
  'too short to count heads with a sink: attention that is spread evenly would pass the threshold, too';

/** The sentence of each kind about a token, which is the object or the subject. */
const KIND_SENTENCES: Readonly<Record<Kind, (token: string, query: string) => string>> = {
  all: (token, query) => `Almost every ${query} attends to ${token}.`,
  many: (token, query) => `Many ${query}s attend mostly to ${token}.`,
  weak: (token) => `More attention than an even share goes to ${token}.`,
  none: (token) => `This head does not single out ${token}.`,
  short: () => `This text is ${TOO_SHORT}.`,
  empty: () => 'This head gives the tokens almost no attention: its rows sum to almost nothing.',
};

/** Says what the picture of a head shows. @param token the first token's name  @param query what the rows are of */
export const kindSentence = (kind: Kind, token: string, query = 'token'): string =>
  KIND_SENTENCES[kind](token, query);

/** Whether the picture shows that rows attend to the first token. */
export const attendsToFirst = (kind: Kind | undefined): boolean =>
  kind === 'all' || kind === 'many' || kind === 'weak';

/** A column with a mean below this is hardly darker than the background, as is a map whose rows sum to less. */
const MIN_VISIBLE = 0.05;

export function kindOf({
  rows,
  strongRows,
  mean,
  uniform,
  rowSum,
}: Pick<Column, 'rows' | 'strongRows' | 'mean' | 'uniform' | 'rowSum'>): Exclude<Kind, 'short'> {
  if (rowSum < MIN_VISIBLE) return 'empty';
  if (rows > 0 && strongRows >= 0.75 * rows) return 'all';
  if (rows > 0 && strongRows >= 0.4 * rows) return 'many';
  return mean > Math.max(MIN_VISIBLE, 2 * uniform) ? 'weak' : 'none';
}

/** Whether heads with a sink can be counted: uniform attention is at most ε. All that a text shows asks this alone. */
export const canCount = (frame: Pick<Frame, 'tensors' | 'eps' | 'firstAt'>): boolean =>
  frame.tensors.alpha_uniform!.data[firstKey(frame)]! <= frame.eps;

/** Whether a head with this attention on the first token has a sink; the core compares floats of 32 bits, too. */
export const hasSink = (frame: Frame, attention: number | undefined): boolean =>
  canCount(frame) && attention !== undefined && attention > Math.fround(frame.eps);

/** A later token that is a head's sink: its attention is the mean over the rows that see it. */
export interface LaterSink {
  readonly at: Head;
  readonly key: number;
  readonly attention: number;
  /** Whether no other later token is a sink of the head. */
  readonly isOnly: boolean;
}

/**
 * Returns the later token that gets most from a head without a sink at the first one, if that is a sink: over ε, where an
 * even spread would not be, and in enough rows. Undefined for means over prompts, whose tokens differ.
 */
export function laterSink(frame: Frame, at: Head): LaterSink | undefined {
  const alphas = ofHead(attentionOf(frame), at);
  const first = firstKey(frame);
  if (frame.queries || frame.sequences > 1 || !canCount(frame) || hasSink(frame, alphas[first]))
    return undefined;
  const { data: even } = frame.tensors.alpha_uniform!;
  const eps = Math.fround(frame.eps);
  let later: LaterSink | undefined;
  for (let key = first + 1; key < comparableKeyCount(frame); key++) {
    const attention = alphas[key]!;
    if (!(attention > eps && even[key]! <= frame.eps)) continue;
    later =
      later && attention <= later.attention
        ? { ...later, isOnly: false }
        : { at, key, attention, isOnly: !later };
  }
  return later;
}

/** Returns the heads whose sink is at a later token, the strongest first. */
export function laterSinks(frame: Frame): LaterSink[] {
  const { L, H } = frame.architecture;
  return Array.from({ length: L * H }, (_, i) => laterSink(frame, headAt(i, H)) ?? [])
    .flat()
    .sort((a, b) => b.attention - a.attention);
}

export interface Claim {
  readonly at: Head;
  /** Undefined without a picture, for a single token, and for means over blocks. */
  readonly column: Column | undefined;
  readonly kind: Kind | undefined;
  /** The head's attention on the first token: the mean over all rows, and over the prompts if there are several. */
  readonly attention: number;
  /** The first token's share of the row, averaged like `attention`; equal to it if rows sum to 1. */
  readonly share: number;
  /** What `attention` would be under uniform attention; only if rows sum to 1. */
  readonly uniform: number;
  /** Whether the numbers are shares of the row: it sums to 1, the reader normalizes it, or weights have signs. */
  readonly isShare: boolean;
  readonly rowSum: number;
  readonly sums: readonly [number, number];
  /** Whether the model has no head that gives the first token more, by the measure of `attention`. */
  readonly isStrongest: boolean;
}

export function claimOf(
  frame: Frame,
  at: Head,
  state: Parameters<typeof cellsOf>[1] = { normalize: 'no' },
): Claim {
  const { T, tensors, sequences, pooled } = frame;
  const hasShares = usesRawWeights(frame);
  const isShare = !hasShares || state.normalize === 'yes';
  const isDrawn = frame.head?.layer === at.layer && frame.head.head === at.head;
  const maps = isDrawn && !pooled && T > 1 ? mapsOf(frame) : undefined;
  const key = firstKey(frame);
  const cells = maps && cellsOf(maps, { normalize: isShare ? 'yes' : 'no' });
  // Like the metrics, shares are those of magnitudes.
  const column =
    cells && columnOf(isShare ? cells.map(Math.abs) : cells, T, key, frame.queries && -1);
  const weights = firstTokenWeights(frame);
  // Without a picture, the sums are those before any normalization for the reader.
  const rowMass = tensors.row_mass_summary ? ofHead(tensors.row_mass_summary, at) : [];
  const [rowSum = NaN, least = NaN, most = NaN] = column
    ? [column.rowSum, ...column.sums]
    : rowMass;
  const weight = weights[at.layer * frame.architecture.H + at.head]!;
  const share = ofHead(tensors.alpha!, at)[key]!;
  const attention = isShare ? share : weight;
  const drawnKind = column && kindOf(column);
  // A head that is counted is singled out by something, even where an even spread comes close to the threshold.
  const countedKind = drawnKind === 'none' && hasSink(frame, column?.alpha) ? 'weak' : drawnKind;
  return {
    at,
    column,
    kind: column && (canCount(frame) ? countedKind : 'short'),
    attention: sequences === 1 && column ? column.alpha : attention,
    share,
    uniform: tensors.alpha_uniform!.data[key]!,
    isShare,
    rowSum,
    sums: [least, most],
    // Without raw weights the first token's weights are the shares.
    isStrongest:
      hasShares && isShare
        ? !Array.from(weights).some(
            (_, i) => ofHead(tensors.alpha!, headAt(i, frame.architecture.H))[key]! > share,
          )
        : !weights.some((other) => other > weight),
  };
}

/** What one row of the drawn map gives to the first token, and to all tokens together. */
export interface RowClaim {
  readonly query: number;
  readonly attention: number;
  readonly sum: number;
}

/** Claims something about each drawn row that sees the first token; nothing about means over blocks or signed weights. */
function rowClaims(frame: Frame, state: Parameters<typeof cellsOf>[1]): RowClaim[] {
  const { T, operation } = frame;
  const cells = T > 1 && operation.proxy !== 'share_abs' ? drawnMap(frame, state) : undefined;
  return Array.from({ length: (cells?.length ?? 0) / T }, (_, query) => {
    const attention = cells![query * T + firstKey(frame)]!;
    return { query, attention, sum: rowSumOf(cells!, T, query) };
  }).filter(({ attention }) => Number.isFinite(attention));
}

/**
 * Returns the row that is an example of a map: of its last two thirds the row whose attention on the first token is nearest to
 * the mean over all rows. A row of a word that occurs once comes before one of another word, that before one of a part of a
 * word, and that before a sign.
 */
function typicalRow(frame: Frame, rows: readonly RowClaim[]): RowClaim | undefined {
  const tokens = frame.queries ?? frame.tokens;
  const attention = mean(rows.map((row) => row.attention));
  const seenWords = new Set<string>();
  const repeatedWords = new Set<string>();
  for (const word of tokens.map(({ text }) => text.trim()))
    (seenWords.has(word) ? repeatedWords : seenWords).add(word);
  const rank = ({ query }: RowClaim): number => {
    const { text = '', special } = tokens[query] ?? {};
    if (special || !/\p{L}/u.test(text)) return 4;
    const [before, after] = [tokens[query - 1], tokens[query + 1]];
    const begins =
      /^\s/.test(text) || before?.special || !/[\p{L}\p{N}_]$/u.test(before?.text ?? '');
    const ends = after?.special || !/^['’]?[\p{L}\p{N}_]/u.test(after?.text ?? '');
    return (begins && ends ? 0 : 2) + (repeatedWords.has(text.trim()) ? 1 : 0);
  };
  return rows
    .filter(({ query }) => query > firstKey(frame) && 3 * query >= tokens.length)
    .toSorted(
      (a, b) =>
        rank(a) - rank(b) || Math.abs(a.attention - attention) - Math.abs(b.attention - attention),
    )[0];
}

/**
 * Returns the row of a map that is read to the reader: the chosen one, or the typical row of the first map, which is that
 * of the other maps, too, where they have the same token there.
 */
export function rowToRead(
  frame: Frame,
  state: Pick<State, 'normalize' | 'query'>,
  first = frame,
): RowClaim | undefined {
  const rows = rowClaims(frame, state);
  const typical = first === frame ? undefined : rowToRead(first, state)?.query;
  const isShared =
    typical !== undefined && frame.tokens[typical]?.text === first.tokens[typical]?.text;
  const query = isShared ? typical : state.query;
  return rows.find((row) => row.query === query) ?? typicalRow(frame, rows);
}

/** What several keys receive together, in the drawn cells. */
export interface Span {
  readonly from: number;
  /** Inclusive. */
  readonly to: number;
  /** How many queries see all of the keys. */
  readonly queries: number;
  /** The mean over these queries of the sum of the cells. */
  readonly attention: number;
  /** The same under uniform attention. */
  readonly uniform: number;
  /** Whether the cells are shares of the row. */
  readonly isShare: boolean;
}

/** Sums the cells of the selected keys; undefined for a single key, for means over blocks, and if no query sees them all. */
export function spanOf(
  frame: Frame,
  state: Pick<State, 'key' | 'lastKey' | 'normalize'>,
): Span | undefined {
  const { T, pooled } = frame;
  const [from, to] = [state.key, state.lastKey].sort((a, b) => a - b) as [number, number];
  const maps = pooled ? undefined : mapsOf(frame);
  if (!maps || from < 0 || from === to || to >= T) return undefined;
  const cells = cellsOf(maps, state);
  const sums: number[] = [];
  let uniform = 0;
  for (let t = 0; t * T < cells.length; t++) {
    const row = cells.subarray(t * T, (t + 1) * T);
    const seen = row.filter((x) => !Number.isNaN(x)).length;
    const sum = row.subarray(from, to + 1).reduce((a, b) => a + b, 0);
    if (Number.isNaN(sum)) continue;
    sums.push(sum);
    uniform += (to - from + 1) / seen;
  }
  const queries = sums.length;
  if (!queries) return undefined;
  const isShare = frame.operation.normalizes || state.normalize === 'yes';
  return { from, to, queries, attention: mean(sums), uniform: uniform / queries, isShare };
}

/** Whether the first token's weight and its share of the row disagree: one exceeds ε, and the other does not. */
export const disagrees = (
  { attention, share, isShare }: Claim,
  { eps }: Pick<Frame, 'eps'>,
): boolean => !isShare && attention > Math.fround(eps) !== share > Math.fround(eps);
