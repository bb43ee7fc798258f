/** The attention map of the chosen head: queries down, keys across. */
import {
  cellsOf,
  firstKey,
  gridOf,
  isBidirectional,
  largest,
  mapsOf,
  massOfRow,
  seenBy,
  type Frame,
  type Maps,
} from '../frame';
import { defaults } from '../ask/state';
import { claimOf } from '../claims';
import { diverging, sequential } from '../plot/color';
import { createHeatmap, type Cell } from '../plot/heatmap';
import { drawLegend, drawScale, scaleName } from '../plot/legend';
import { quantity } from '../save/numbers';
import {
  givenWords,
  headWords,
  isBelow,
  judged,
  percent,
  quote,
  shortWords,
  show,
  sumWords,
  word,
} from '../words';
import { lastOf, part, say, type DrawOptions, type View } from '../page/view';

/** @param pooled cells that are means over blocks: their scale ends at the largest, for all are small */
export function weightScale(
  { frames, state, theme }: Pick<DrawOptions, 'frames' | 'state' | 'theme'>,
  pooled?: ArrayLike<number>,
) {
  const high = pooled ? largest([pooled]) : 1;
  const isSigned = frames.some(({ operation }) => operation.proxy === 'share_abs');
  return isSigned ? diverging(theme, high) : sequential(theme, high, state.scale === 'root');
}

/** The name of a map's numbers, and of its axes. */
export function axesOf({ pooled }: Frame): readonly [string, string, string] {
  return pooled ? ['mean_weight', 'query_block', 'key_block'] : ['weight', 'query', 'key'];
}

/** The tokens of a row or column of a pooled map: "tokens 8-11". */
function blockWords({ T }: Frame, { block }: Maps, place: number): string {
  const [from, to] = [place * block, Math.min(T, (place + 1) * block) - 1];
  return from === to ? String(from) : `${from}-${to}`;
}

/** What a cell of a pooled map says: a mean over the keys that its queries see. */
function sayBlock(frame: Frame, maps: Maps, { row, col }: Cell): string {
  const [queries, keys] = [row, col].map((place) => blockWords(frame, maps, place));
  if (row < 0 && col < 0) return '';
  if (col < 0) return `queries ${queries}`;
  if (row < 0) return `keys ${keys}`;
  const mean = maps.weights[row * maps.side + col]!;
  const said = Number.isNaN(mean) ? 'not visible (later tokens)' : `mean weight ${show(mean, 4)}`;
  return `queries ${queries} → keys ${keys}: ${said}`;
}

function sayCell(
  frame: Frame,
  maps: Maps,
  cell: Cell,
  { state, isPlain }: Pick<DrawOptions, 'state' | 'isPlain'>,
): string {
  if (frame.pooled) return sayBlock(frame, maps, cell);
  const { weights, shares } = maps;
  const { row, col } = cell;
  if (row < 0 && col < 0) return '';
  if (row >= 0 && col < 0)
    return isPlain ? `${quote(frame, row)} attends to` : `query ${row} ${quote(frame, row)}`;
  if (row < 0)
    return isPlain ? `attention on ${quote(frame, col)}` : `key ${col} ${quote(frame, col)}`;
  const share = percent(shares[row * frame.T + col]!, 1);
  if (isPlain) {
    const [who, what] = [quote(frame, row), quote(frame, col)];
    if (col >= seenBy(frame, row)) return `${who} cannot attend to ${what}, a later token`;
    return `${who} attends to ${what}: ${percent(cellsOf(maps, state)[row * frame.T + col]!)}`;
  }
  const names = `query ${row} ${quote(frame, row)} → key ${col} ${quote(frame, col)}`;
  if (col >= seenBy(frame, row)) return `${names}: not visible (later token)`;
  if (Number.isNaN(shares[row * frame.T + col])) return `${names}: forgotten (not in the cache)`;
  const weight = show(weights[row * frame.T + col]!, 4);
  if (frame.operation.normalises) return `${names}: ${weight}`;
  return `${names}: ${share} of the row, weight ${weight} of row sum ${show(massOfRow(weights, frame.T, row), 3)}`;
}

/** What the grey triangle is. */
const LATER = { kind: 'later', text: 'later tokens: not visible' };

export const attention: View = {
  name: 'attention',
  title: 'Attention map',
  question: 'Which tokens does each token attend to?',
  how:
    'Row: query. Column: key. A sink is a column that nearly every row attends to. Point at a cell, or use ' +
    'the arrow keys, to read its weight. Colors are raw weights: where rows need not sum to 1, a row may be ' +
    'nearly empty; “normalize rows” shows shares of each row instead. Of a long text a cell may be the mean over a block of tokens; numbers in the text are exact.',
  formula: 'A = softmax(q·k / √K), or what the operation says',
  source: 'Vaswani et al., 2017, section 3.2.1',
  reads: [],
  headReads: ['att'],
  numbers: (frame) => {
    const { T } = frame;
    const maps = mapsOf(frame);
    if (!maps) return [];
    const { weights, side } = maps;
    const [name, ...axes] = axesOf(frame);
    const map = quantity(name, axes, { shape: [side, side], data: weights });
    if (frame.pooled) return [map];
    const masses = Float32Array.from({ length: T }, (_, t) => massOfRow(weights, T, t));
    return [map, quantity('row_mass', ['query'], { shape: [T], data: masses })];
  },
  says: (frame, at, state = defaults) => {
    const { T, eps, title, operation } = frame;
    const verdict = judged(frame);
    const known = claimOf(frame, at, state);
    const { column } = known;
    // The picture is of the first prompt, and so is its number.
    const isOne = frame.sequences > 1 && column !== undefined;
    const claim = isOne ? { ...known, given: column.given, isMost: false } : known;
    const short = verdict.conclusive ? '' : ` ${shortWords(verdict, T, eps)}`;
    const number = givenWords(claim);
    const received = claim.isShare
      ? `${number} ${operation.normalises ? 'on average' : 'of what its rows carry, on average'}`
      : isBelow(claim)
        ? `a weight of ${number} at most, the most that any head gives it`
        : `a mean weight of ${number}`;
    const sums = claim.isShare
      ? `; uniform attention would give it ${percent(verdict.even, 0)}`
      : `; rows sum to ${sumWords(claim.rowSum)} on average`;
    const { side, block } = gridOf(frame);
    const cells = frame.pooled
      ? `, as ${side} by ${side} means over blocks of ${block} by ${block} tokens`
      : '';
    const where = isOne ? `In the first of ${frame.sequences} prompts the` : 'The';
    return (
      `Attention weights of ${headWords(at, frame)} of ${title}: ${T} queries by ${T} keys${cells}. ${where} first token, ` +
      `${quote(frame, firstKey(frame))}, receives ${received}${sums}.${short}`
    );
  },
  draw(root, { set, point, pointed, effect }) {
    const head = part(root, 'map-head');
    const title = part(head, 'subtitle', 'p');
    const key = part(head, 'map-key', 'span');
    const what = part(key, 'scale-name', 'span');
    const legend = part(key, 'legend-place', 'span');
    /** Tokens of a row, and of a column; elsewhere on the page the first one of a block represents it. */
    let block = 1;
    const tokensOf = ({ row, col }: Cell) => ({ query: row * block, key: col * block });
    const cellOf = (query: number, key: number): Cell | undefined =>
      query < 0 && key < 0
        ? undefined
        : { row: Math.floor(query / block), col: Math.floor(key / block) };
    const heatmap = createHeatmap(part(root, 'plot'), {
      onPoint: (cell) => point(cell ? tokensOf(cell) : {}),
      onChoose: (cell) => set(tokensOf(cell)),
    });
    effect(() => {
      const { query = -1, key = -1 } = pointed.value;
      heatmap.light(cellOf(query, key));
    });
    const wordsOf = lastOf((tokens: Frame['tokens']) => tokens.map(({ text }) => word(text)));
    return (frame, options) => {
      const maps = mapsOf(frame);
      if (!maps) return;
      const { state, isPlain } = options;
      // While another head is read, or where its text cannot be, the picture is of the head before, and so are its words.
      const at = frame.head ?? options.at;
      block = maps.block;
      const cells = frame.pooled ? maps.weights : cellsOf(maps, state);
      const scale = weightScale(options, frame.pooled ? maps.weights : undefined);
      const of = !frame.pooled
        ? ''
        : block > 1
          ? ` · each cell is the mean over ${block} × ${block} tokens`
          : ' · weights rounded to 8 bits';
      say(title, `${headWords(at, frame)} · ${frame.operation.label}${of}`);
      title.hidden = key.hidden = Boolean(isPlain && !frame.pooled);
      say(what, frame.pooled ? '' : scaleName(scale, 'weight'));
      if (frame.pooled) drawLegend(legend, scale, ['mean weight 0', show(scale.high, 3)]);
      else drawScale(legend, scale);
      const words = frame.pooled ? undefined : wordsOf(frame.tokens);
      const isQuiet = isPlain && !frame.pooled;
      const axis = (name: string) => (block > 1 ? `${name} (blocks of ${block} tokens)` : name);
      heatmap.draw({
        rows: maps.side,
        cols: maps.side,
        data: cells,
        scale,
        rowTitle: isQuiet ? '' : axis('query'),
        colTitle: isQuiet ? '' : axis('key'),
        rowWords: words,
        colWords: words,
        remark: options.remark ?? (isBidirectional(frame) || maps.side < 2 ? undefined : LATER),
        label: attention.says(frame, at, state),
        chosen: cellOf(state.query, state.key),
        describe: (cell) => sayCell(frame, maps, cell, options),
      });
    };
  },
};
