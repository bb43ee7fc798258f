/**
 * A frame is the immutable answer of one subject to one question, with everything that the views draw: means and their
 * spread over the prompts, and tensors of the first prompt. Views get frames and never call the engine.
 */
import type {
  Architecture,
  Conditions,
  Edit,
  Operation,
  Recording,
  Tensor,
  Token,
} from 'sinkscope';
import type { Question, SpecialWords } from './ask/question';

/** Where the weights are from: trained for this page, a hub, the reader's disk; a recording has none. */
export type Source = 'zoo' | 'hub' | 'disk' | 'recording';

export interface StepFacts {
  readonly step: number;
  /** The last step of the training run. */
  readonly of: number;
  /** What is known of a checkpoint that is stored with the page; absent in a series of recordings. */
  readonly weights?: {
    /** Average number of bits per stored weight. */
    readonly bits: number;
    readonly measured: Readonly<Record<string, number>>;
    readonly stored: Readonly<Record<string, number>>;
  };
}

/** How well a number represents the model. */
export type NumberClass = 'measured' | 'counterfactual' | 'edited';

export type Head = { readonly layer: number; readonly head: number };

/** Exact rows of a map that is otherwise pooled into blocks; `query` and `key` are the first ones to show. */
interface Rows {
  readonly query: number;
  readonly key: number;
  /** [n, T] */
  readonly att: Tensor;
}

/** What is known of a model's architecture: of a recording its sizes, which recordings of maps alone lack in part. */
export type FrameArchitecture = Partial<Architecture> &
  Omit<Recording['architecture'], 'D' | 'K' | 'U' | 'V' | 'blocks' | 'layers'> &
  Pick<Architecture, 'context' | 'mask_token' | 'bias_key' | 'gate'>;

export interface Frame {
  readonly subject: string;
  readonly title: string;
  readonly model: {
    readonly id: string;
    readonly title: string;
    readonly source: Source;
    readonly commit?: string;
    readonly sha256?: string;
    /** Only for a checkpoint. */
    readonly step?: StepFacts;
    /** The step that is shown in place of the subject's, which is not stored. */
    readonly nearestStep?: number;
    /** Bits per weight, if fewer than in training. */
    readonly bits?: number;
  };
  readonly recording?: Conditions;
  /** Only for a recording of prompts with an image: that of the first one. `picture` is [height, width, 3]. */
  readonly image?: NonNullable<Conditions['images']>[number] & {
    readonly picture?: Tensor;
  };
  /** Only for a recording: the key that counts as the first token, and whether it is the same token in all prompts. */
  readonly firstAt?: { readonly key: number; readonly isCommon: boolean };
  /** Only of cross-attention: the decoder's tokens, one for each row; `tokens` and T are then those of the keys. */
  readonly queries?: readonly Token[];
  /** For each missing number, the reason: a recording lacks it, or maps of a long text are not read. */
  readonly lacks?: Readonly<Record<string, string>>;
  readonly pooled?: number;
  readonly class: NumberClass;
  readonly architecture: FrameArchitecture;
  /** The model's own operation, or the one of an edit. */
  readonly operation: Operation;
  readonly edits: readonly Edit[];
  readonly labels: readonly string[];
  /** For each edit, the labels of its parameters' values. */
  readonly choices: readonly Readonly<Record<string, string>>[];
  /** The frame of the same model without the edits, if it was requested. */
  readonly base?: Frame;
  readonly question: Question;
  readonly tokens: readonly Token[];
  readonly T: number;
  readonly eps: number;
  readonly ids: readonly (readonly number[])[];
  /** How many tokens of the text no prompt has, because T or the model's context is shorter. */
  readonly dropped: number;
  readonly generated: number;
  readonly first: readonly string[];
  readonly special: SpecialWords;
  /** Only for a masked model whose description or tokenizer names a mask token. */
  readonly maskToken?: number;
  /** How many prompts were measured. */
  readonly sequences: number;
  /**
   * Metrics and fields by their names in describe. Names that are also in `spread` are means over the prompts. Over
   * several prompts `first_alphas` has alpha of the first key in every head of each prompt, [prompts, L * H], and
   * `first_raw_alphas` the means of its weights.
   */
  readonly tensors: Readonly<Record<string, Tensor>>;
  /** Standard deviations over the prompts (n - 1), for each mean; NaN for one prompt. */
  readonly spread: Readonly<Record<string, Float32Array>>;
  readonly perPrompt: Readonly<Record<string, readonly number[]>>;
  /** The tensors of one head of the first prompt, by the names in describe. */
  readonly head?: Head & {
    readonly tensors: Readonly<Record<string, Tensor>>;
    readonly rows?: Rows;
  };
  /** In falling order of probability. */
  readonly next: readonly { readonly text: string; readonly probability: number }[];
  /** What the model writes after the text, if the room requested it. */
  readonly writes?: string;
  readonly milliseconds: number;
  /** Whether the frame is not of this visit: it was saved with the page. */
  readonly isSaved?: boolean;
  /** The conditions of a figure's numbers in words, if the question does not state them. */
  readonly setting?: string;
  /** The bytes of a run that kept only the keys in its cache, and what all keys would take. */
  readonly bytes?: { readonly held: number; readonly all: number };
}

export function ofHead(tensor: Tensor, { layer, head }: Head): Float32Array {
  const [, H, n] = tensor.shape as [number, number, number];
  const start = (layer * H + head) * n;
  return (tensor.data as Float32Array).subarray(start, start + n);
}

/** Returns the key that counts as the first token, which is 0 except in some recordings. */
export const firstKey = ({ firstAt }: Pick<Frame, 'firstAt'>): number => firstAt?.key ?? 0;

/** Returns the model's number of a layer with attention; a hybrid model also counts layers without attention. */
export const layerNumber = ({ architecture }: Pick<Frame, 'architecture'>, layer: number): number =>
  architecture.layers?.[layer] ?? layer;

/** Whether all prompts have the same token at a position; of recorded ones this is known of the first token alone. */
export function isCommonToken(
  { firstAt, sequences, recording, ids }: Frame,
  position: number,
): boolean {
  if (firstAt?.key === position) return firstAt.isCommon;
  if (sequences === 1) return true;
  return !recording && ids.every((prompt) => prompt[position] === ids[0]![position]);
}

/** Over how many prompts a tensor's numbers are means; 1 if they are those of the first prompt. */
export const promptCountOf = (
  { spread, sequences }: Pick<Frame, 'spread' | 'sequences'>,
  name: string,
): number => (name in spread ? sequences : 1);

/** Whether every token sees all others, so that the model predicts no next token. */
export const isBidirectional = ({ architecture }: Pick<Frame, 'architecture'>): boolean =>
  architecture.mask.kind === 'bidirectional';

/** Whether the file has no output head, as files of base models: the model has maps and states, but no logits. */
export const isHeadless = ({ architecture }: Pick<Frame, 'architecture'>): boolean =>
  architecture.head === false;

/** Whether the model gives each token a probability from the tokens before it. */
export const predictsNext = (frame: Pick<Frame, 'architecture'>): boolean =>
  !isBidirectional(frame) && !isHeadless(frame);

export const isMasked = (frame: Pick<Frame, 'architecture' | 'maskToken'>): boolean =>
  isBidirectional(frame) && !isHeadless(frame) && frame.maskToken !== undefined;

/** Returns one more than the last key that a query sees, which can be after the query. */
export function visibleKeyEnd(
  { architecture: { mask }, T }: Pick<Frame, 'architecture' | 'T'>,
  query: number,
): number {
  if (mask.kind === 'bidirectional') return T;
  const end = mask.prefix === undefined ? query + 1 : Math.max(query + 1, mask.prefix);
  return Math.min(T, end);
}

/** Returns the side of a map that has at most `cells` cells a side; undefined if it need not be pooled. */
export const pooledSide = (T: number, cells: number): number | undefined =>
  T > cells ? Math.ceil(T / Math.ceil(T / cells)) : undefined;

/** Returns columns and rows of a map, and how many tokens each has; of cross-attention a row is a query. */
export function gridOf({ pooled, T, queries }: Pick<Frame, 'pooled' | 'T' | 'queries'>) {
  const side = pooled ?? T;
  const block = Math.ceil(T / side);
  return { side, block, rows: queries?.length ?? side, rowBlock: queries ? 1 : block };
}

/** Returns weights [side, side] with NaN for keys that the query, or the last query of a block, does not see. */
export function maskHidden(
  frame: Pick<Frame, 'architecture' | 'T' | 'pooled' | 'queries'>,
  weights: ArrayLike<number>,
) {
  const { side, block, rows } = gridOf(frame);
  const map = Float32Array.from(weights);
  for (let row = 0; row < rows; row++) {
    const keyEnd = visibleKeyEnd(frame, Math.min(frame.T, (row + 1) * block) - 1);
    map.fill(NaN, row * side + Math.ceil(keyEnd / block), (row + 1) * side);
  }
  return map;
}

/** Returns the rows from `query` on, [n, T], with NaN for masked and evicted keys. */
function visibleRows(frame: Frame, weights: ArrayLike<number>, query: number): Float32Array {
  const { T, tensors, architecture, head } = frame;
  /** For each key the first query after its eviction from the head's cache. */
  const evictions = tensors.evicted?.data.subarray((head!.layer * architecture.H + head!.head) * T);
  const visible = Float32Array.from(weights);
  for (let r = 0; r * T < visible.length; r++) {
    const keyEnd = visibleKeyEnd(frame, query + r);
    for (let k = 0; k < T; k++)
      if (k >= keyEnd || (evictions && query + r >= evictions[k]!)) visible[r * T + k] = NaN;
  }
  return visible;
}

/** Names the tokens of the block with index `place` in a pooled map: "8-11". */
export function blockWords(frame: Pick<Frame, 'pooled' | 'T'>, place: number): string {
  const { block } = gridOf(frame);
  const [from, to] = [place * block, Math.min(frame.T, (place + 1) * block) - 1];
  return from === to ? String(from) : `${from}-${to}`;
}

export function rowSumOf(map: Float32Array, T: number, query: number): number {
  const row = map.subarray(query * T, (query + 1) * T);
  return row.reduce((sum, weight) => sum + (Number.isNaN(weight) ? 0 : weight), 0);
}

/** Returns the map with every row divided by its sum; signed rows by the sum of magnitudes. */
export function sharesOf(map: Float32Array, T: number): Float32Array {
  const shares = map.slice();
  for (let t = 0; t * T < map.length; t++) {
    const row = shares.subarray(t * T, (t + 1) * T);
    const size = row.reduce((sum, weight) => sum + (weight === weight ? Math.abs(weight) : 0), 0);
    if (size > 0) row.forEach((weight, i) => (row[i] = weight / size));
  }
  return shares;
}

/** Maps [rows, side]: `shares` are shares of each row, if rows need not sum to 1. */
export interface Maps extends ReturnType<typeof gridOf> {
  readonly weights: Float32Array;
  readonly shares: Float32Array;
  /** The largest weight in each block; absent if the run did not read it. */
  readonly largest?: Float32Array;
}

const mapsCache = new WeakMap<Tensor, Maps>();

export function mapsOf(frame: Frame): Maps | undefined {
  const att = frame.head?.tensors.att;
  const grid = gridOf(frame);
  const { side } = grid;
  if (!att || att.shape.at(-1) !== side) return undefined;
  const cached = mapsCache.get(att);
  if (cached) return cached;
  const size = grid.rows * side;
  const weights = frame.pooled
    ? maskHidden(frame, att.data.subarray(0, size))
    : visibleRows(frame, att.data, 0);
  const maps = {
    weights,
    shares: frame.operation.normalizes ? weights : sharesOf(weights, side),
    ...grid,
    ...(att.data.length > size ? { largest: maskHidden(frame, att.data.subarray(size)) } : {}),
  };
  mapsCache.set(att, maps);
  return maps;
}

/** A long map shows this many exact cells a side: as many as there is room for words. */
export const EXACT_SIDE = 40;

/** A square of exact cells of a long map, [side, side], which begins at `query` and `key`. */
export interface ExactCells extends Pick<Maps, 'weights' | 'shares' | 'side'> {
  readonly query: number;
  readonly key: number;
  readonly sums: readonly number[];
}

const exactCache = new WeakMap<Rows, ExactCells>();

export function exactCellsOf(frame: Frame): ExactCells | undefined {
  const { T, head } = frame;
  const rows = head?.rows;
  if (!rows || !frame.pooled) return undefined;
  const cached = exactCache.get(rows);
  if (cached) return cached;
  const { query, key, att } = rows;
  const side = att.shape[0]!;
  const wholeRows = visibleRows(frame, att.data, query);
  const crop = (cells: Float32Array) =>
    Float32Array.from(
      { length: side * side },
      (_, i) => cells[Math.floor(i / side) * T + key + (i % side)]!,
    );
  const weights = crop(wholeRows);
  const exactCells = {
    ...{ query, key, side, weights },
    shares: frame.operation.normalizes ? weights : crop(sharesOf(wholeRows, T)),
    sums: Array.from({ length: side }, (_, row) => rowSumOf(wholeRows, T, row)),
  };
  exactCache.set(rows, exactCells);
  return exactCells;
}

/** Returns the cells of the picture: raw weights, or shares of each row if the reader normalizes rows. */
export function cellsOf(
  { weights, shares }: Pick<Maps, 'weights' | 'shares'>,
  { normalize }: { readonly normalize: 'no' | 'yes' },
): Float32Array {
  return normalize === 'yes' ? shares : weights;
}

/** Returns the drawn cells, [T, T], from which captions are computed; undefined for a pooled map. */
export function drawnMap(
  frame: Frame,
  state: Parameters<typeof cellsOf>[1],
): Float32Array | undefined {
  const maps = frame.pooled ? undefined : mapsOf(frame);
  return maps && cellsOf(maps, state);
}

/** Returns the numbers of one key in every head, [L, H], of a tensor [L, H, T]. */
export function numbersOfKey({ data, shape }: Tensor, key: number): Float32Array {
  const T = shape.at(-1)!;
  return Float32Array.from({ length: data.length / T }, (_, i) => data[i * T + key]!);
}

/**
 * Whether attention and its share of the row are two numbers, because rows need not sum to 1. Weights with signs cancel
 * in a mean, so that of these attention is the share of the row's sizes, as in the authors' code.
 */
export const usesRawWeights = ({ operation }: Pick<Frame, 'operation'>): boolean =>
  !operation.normalizes && operation.proxy !== 'share_abs';

/**
 * Returns the attention of every head on every key, [L, H, T]: the mean weight that the model uses. Its share of the row
 * would mislead where rows need not sum to 1: a row with a tiny sum may give all of it to one token. A recording may
 * have the shares alone.
 */
export function attentionOf({ tensors, ...frame }: Pick<Frame, 'tensors' | 'operation'>): Tensor {
  const { alpha, alpha_raw } = tensors;
  return usesRawWeights(frame) && alpha_raw?.data.some(Number.isFinite) ? alpha_raw : alpha!;
}

/** Returns the name of the metric that counts heads by their attention. */
export const sinkName = (frame: Pick<Frame, 'operation'>) =>
  usesRawWeights(frame) ? 'sink_ratio_raw' : 'sink_ratio';

/** Returns the share of heads with a sink at key 0; NaN if it was not measured. */
export const sinkShare = (frame: Pick<Frame, 'tensors' | 'operation'>): number =>
  frame.tensors[sinkName(frame)]?.data[0] ?? NaN;

export const alphaOfKey = (frame: Pick<Frame, 'tensors' | 'operation'>, key: number) =>
  numbersOfKey(attentionOf(frame), key);

/** The weights that rows give to a key without a token; undefined without one. */
export const extraKeyWeights = ({ architecture, tensors }: Frame) =>
  architecture.bias_key ? tensors.att_bias : undefined;

/** Operations whose denominator has one more term, to which a part of each row goes that no token gets. */
const SLOT_OPERATIONS = ['softmax1', 'sink_logit'];

const hasSlotTerm = ({ operation }: Frame): boolean => SLOT_OPERATIONS.includes(operation.name);

/** Returns what each head gives an extra slot on average: a key bias, or such a term; undefined without one. */
export function slotShares(frame: Frame): ArrayLike<number> | undefined {
  const { alpha_bias, row_mass_summary } = frame.tensors;
  if (frame.architecture.bias_key) return alpha_bias?.data;
  // The summary's rows are mean, minimum and maximum.
  return hasSlotTerm(frame) && row_mass_summary
    ? Array.from(
        row_mass_summary.data.filter((_, i) => i % 3 === 0),
        (sum) => 1 - sum,
      )
    : undefined;
}

/** Returns what each row of the drawn map gives an extra slot; undefined without one. */
export function slotWeights(frame: Frame, at: Head): Float32Array | undefined {
  const weights = extraKeyWeights(frame);
  if (weights) return ofHead(weights, at);
  const maps = hasSlotTerm(frame) && !frame.pooled ? mapsOf(frame) : undefined;
  return (
    maps &&
    Float32Array.from({ length: maps.rows }, (_, t) => 1 - rowSumOf(maps.weights, frame.T, t))
  );
}

/** The mean loss in nats per token; NaN where the model predicts no next token. */
export const lossOf = (frame: Frame | undefined): number =>
  frame?.tensors.loss_mean?.data[0] ?? NaN;

export const firstTokenWeights = (frame: Frame): Float32Array => alphaOfKey(frame, firstKey(frame));

/** Returns the first prompt's numbers, [L, H], of a tensor with a row for each prompt, if there is one. */
function rowOfFirstPrompt(
  { tensors, architecture: { L, H } }: Frame,
  name: 'first_alphas' | 'first_raw_alphas',
): Float32Array | undefined {
  const tensor = tensors[name];
  return tensor && Float32Array.from({ length: L * H }, (_, i) => tensor.data[i]!);
}

export function firstPromptWeights(frame: Frame): Float32Array | undefined {
  const { sequences, operation, tensors, pooled, T } = frame;
  const { rows } = gridOf(frame);
  if (sequences === 1) return firstTokenWeights(frame);
  const row = rowOfFirstPrompt(frame, usesRawWeights(frame) ? 'first_raw_alphas' : 'first_alphas');
  if (row) return row;
  const { L, H } = frame.architecture;
  const maps = pooled ? undefined : tensors.att?.data;
  const key = firstKey(frame);
  const cells =
    maps && operation.proxy === 'share_abs' ? sharesOf(Float32Array.from(maps), T) : maps;
  return (
    cells &&
    Float32Array.from({ length: L * H }, (_, i) => {
      const column = Array.from({ length: rows }, (_, t) =>
        Math.abs(cells[(i * rows + t) * T + key]!),
      );
      return mean(column, isBidirectional(frame) ? 0 : key);
    })
  );
}

/** Fewer queries than this see the last keys, which would therefore seem to be sinks. */
const MIN_QUERIES = 8;

/** Returns how many keys, counted from the first, are seen by enough queries to be compared. */
export const comparableKeyCount = (frame: Pick<Frame, 'T' | 'architecture'>): number =>
  isBidirectional(frame) ? frame.T : Math.max(1, frame.T - MIN_QUERIES + 1);

export function indexOfMax(values: ArrayLike<number>): number {
  let best = 0;
  for (let i = 1; i < values.length; i++)
    if (values[i]! > values[best]! || Number.isNaN(values[best])) best = i;
  return best;
}

export const headAt = (i: number, H: number): Head => ({ layer: Math.floor(i / H), head: i % H });

/** Returns a head as links and edits name it, with the model's number of its layer. */
export function modelHead(frame: Pick<Frame, 'architecture'>, { layer, head }: Head): Head {
  return { layer: layerNumber(frame, layer), head };
}

/** Returns the index, among the layers with attention, of the layer with this number, or of the last one before it. */
export function layerIndex(
  { architecture: { L, layers } }: Pick<Frame, 'architecture'>,
  number: number,
): number {
  const countUpTo = layers?.filter((layer) => layer <= number).length ?? number + 1;
  return Math.min(Math.max(countUpTo, 1), L) - 1;
}

/** Whether a request names one head; −1 stands for any. */
export const isHeadNamed = ({ layer, head }: Head): boolean => layer >= 0 && head >= 0;

/** Returns the requested head, by the model's layers, or else the one that gives the first token the largest weight. */
export function selectedHead(frame: Frame, requested: Head): Head {
  const { H } = frame.architecture;
  if (isHeadNamed(requested))
    return { layer: layerIndex(frame, requested.layer), head: Math.min(requested.head, H - 1) };
  // A study of other metrics has no alpha.
  const best = frame.tensors.alpha ? indexOfMax(firstTokenWeights(frame)) : 0;
  return headAt(best, H);
}

/** Returns the head that views show; of an edited frame and its baseline the same, by default the baseline's. */
export function headShown(
  frame: Frame,
  views: readonly { readonly needsBaseline?: boolean }[],
  requestedHead: Head,
): Head {
  const isCompared = frame.base && views.some(({ needsBaseline }) => needsBaseline);
  return selectedHead(isCompared ? frame.base! : frame, requestedHead);
}

/** Returns the number of layers before a hidden state: the chosen, or with the largest value over the median. */
export function hiddenLayer(
  { tensors, architecture }: Pick<Frame, 'tensors' | 'architecture'>,
  layer = -1,
): number {
  const { L, blocks = L } = architecture;
  if (layer >= 0) return layerNumber({ architecture }, Math.min(layer, L - 1)) + 1;
  const sizes = tensors.massive!.data;
  return indexOfMax(
    Array.from({ length: blocks + 1 }, (_, l) => sizes[4 * l]! / sizes[4 * l + 3]!),
  );
}

/** Returns the largest number in the residual stream and the first layer that has it, if the run read it. */
export function massiveOf({ tensors: { massive, massive_at } }: Pick<Frame, 'tensors'>) {
  if (!massive?.data.length || !massive_at) return undefined;
  const [sizes, places] = [massive.data, massive_at.data];
  let layer = 0;
  for (let l = 0; 4 * l < sizes.length; l++) if (sizes[4 * l]! > sizes[4 * layer]!) layer = l;
  return {
    layer,
    channel: places[6 * layer]!,
    token: places[6 * layer + 1]!,
    size: sizes[4 * layer]!,
    median: sizes[4 * layer + 3]!,
  };
}

/**
 * Returns the super weight of the layer that writes the largest number: a weight of its down projection that helps to
 * write this number, the number's token, and the weight's share of the number. Undefined for a model with experts, for
 * which the core finds none.
 */
export function superWeightOf({ tensors: { super_weight } }: Pick<Frame, 'tensors'>) {
  const data = super_weight?.data ?? [];
  const outputs = Array.from({ length: data.length / 6 }, (_, l) => Math.abs(data[6 * l + 5]!));
  const layer = indexOfMax(outputs);
  if (!Number.isFinite(outputs[layer])) return undefined;
  const [row, column, token, weight, input, output] = Array.from(data).slice(6 * layer);
  return { layer, row: row!, column: column!, token: token!, share: (weight! * input!) / output! };
}

/** Returns the key/value head that a head uses; layers may differ in their number of key/value heads. */
export function groupOf(
  { architecture: { H, G, sizes } }: Pick<Frame, 'architecture'>,
  { layer, head }: Head,
): number {
  return Math.floor(head / (H / (sizes?.[layer]?.G ?? G)));
}

/** Returns the values without NaN, which stands for a key/value head that a layer lacks. */
export const withoutNaN = (values: ArrayLike<number>): number[] =>
  Array.from(values).filter((value) => !Number.isNaN(value));

export function mean(values: ArrayLike<number>, from = 0): number {
  let sum = 0;
  for (let i = from; i < values.length; i++) sum += values[i]!;
  return sum / (values.length - from);
}

export function deviation(values: readonly number[]): number {
  const n = values.length;
  if (n < 2) return NaN;
  const average = mean(values);
  return Math.sqrt(values.reduce((sum, x) => sum + (x - average) ** 2, 0) / (n - 1));
}

export function statisticsOverPrompts({ perPrompt }: Frame, name: string) {
  const values = perPrompt[name] ?? [];
  return { mean: mean(values), deviation: deviation(values) };
}

/** Returns the largest absolute finite value in the arrays, at least `least`. */
export function largestMagnitude(arrays: readonly ArrayLike<number>[], least = 1e-9): number {
  let size = least;
  for (const array of arrays)
    for (let i = 0; i < array.length; i++) {
      const value = Math.abs(array[i]!);
      if (value > size && value < Infinity) size = value;
    }
  return size;
}
