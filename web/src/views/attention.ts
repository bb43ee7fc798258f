/** Draws the attention map of the chosen head: queries down, keys across. */
import { html, nothing, render, type TemplateResult } from 'lit';
import {
  extraKeyWeights,
  blockWords,
  cellsOf,
  EXACT_SIDE,
  exactCellsOf,
  firstKey,
  gridOf,
  largestMagnitude,
  mapsOf,
  rowSumOf,
  slotWeights,
  usesRawWeights,
  visibleKeyEnd,
  type ExactCells,
  type Frame,
  type Head,
  type Maps,
  mean,
} from '../frame';
import { defaults, type State } from '../ask/state';
import { type Claim, claimOf, disagrees, hasSink, laterSink, spanOf } from '../claims';
import { cssColor, diverging, sequential, type Scale } from '../plot/color';
import { segmentedControl } from '../page/controls';
import { createHeatmap, paint, type Cell } from '../plot/heatmap';
import { drawLegend, drawScale, scaleName } from '../plot/legend';
import { quantity, type Quantity } from '../save/numbers';
import {
  amountOf,
  attentionWords,
  averageWords,
  capitalize,
  compare,
  firstName,
  firstTokenName,
  keyName,
  keyText,
  keyUnit,
  modelName,
  rowSumSentence,
  tokenText,
  firstPromptWords,
  headWords,
  laterSinkText,
  isBelowUniform,
  verdictOf,
  formatPercent,
  queryName,
  quoteQuery,
  sumWords,
  tooShortNote,
  formatValue,
  shareWords,
  spanSentence,
  tokenWord,
  isFirstHidden,
  wholePercent,
  mapWords,
} from '../words';
import {
  cacheLast,
  addElement,
  setText,
  type DrawOptions,
  type View,
  type ViewApi,
} from '../page/view';

/**
 * Returns the color scale of attention weights.
 * @param means the cells, if they are means over blocks: all are small, so the scale ends at the largest one
 * @param end where the scale of other cells ends
 */
export function weightScale(
  { frames, state, theme }: Pick<DrawOptions, 'frames' | 'state' | 'theme'>,
  means?: readonly ArrayLike<number>[],
  end = 1,
) {
  const maximum = means ? largestMagnitude(means) : end;
  const isSigned = frames.some(({ operation }) => operation.proxy === 'share_abs');
  return isSigned ? diverging(theme, maximum) : sequential(theme, maximum, state.scale === 'root');
}

/** Row sums beyond this are no shares of 100%. */
export const MAX_SHARES = 1.5;

/**
 * Returns where the color scale of a map ends whose rows sum to far more than 100%: at its largest weight, if that is over
 * 100%; undefined for other maps.
 */
export function ownEnd(cells: ArrayLike<number>, rows: number): number | undefined {
  let sum = 0;
  for (let i = 0; i < cells.length; i++) sum += cells[i]! || 0;
  return sum > MAX_SHARES * rows ? largestMagnitude([cells], 1) : undefined;
}

/** Returns the name of a map's numbers and the names of its two axes, for saved files. */
export function axesOf({ pooled, queries }: Frame): readonly [string, string, string] {
  if (!pooled) return ['weight', 'query', 'key'];
  return ['mean_weight', queries ? 'query' : 'query_block', 'key_block'];
}

/** Describes the block under the pointer: its mean weight over the keys that are seen, and its largest. */
function formatBlock(frame: Frame, { weights, largest: maxima, side }: Maps, { row, col }: Cell) {
  const keys = `keys ${blockWords(frame, col)}`;
  const queries = frame.queries ? queryName(frame, row) : `queries ${blockWords(frame, row)}`;
  if (row < 0 && col < 0) return '';
  if (col < 0) return queries;
  if (row < 0) return keys;
  const mean = weights[row * side + col]!;
  const meanWords = Number.isNaN(mean)
    ? 'not visible (later tokens)'
    : `mean weight ${formatValue(mean, 4)}`;
  const largestWords =
    maxima && !Number.isNaN(mean) ? `, largest ${formatValue(maxima[row * side + col]!, 4)}` : '';
  return `${queries} → ${keys}: ${meanWords}${largestWords}`;
}

function formatCell(
  frame: Frame,
  map: Pick<Maps, 'weights' | 'shares' | 'side'> & Partial<ExactCells>,
  cell: Cell,
  { state, isPlain, frames }: Pick<DrawOptions, 'state' | 'isPlain' | 'frames'>,
): string {
  const { weights, shares, side, query = 0, key = 0 } = map;
  const [row, col] = [cell.row < 0 ? -1 : cell.row + query, cell.col < 0 ? -1 : cell.col + key];
  const index = cell.row * side + cell.col;
  if (row < 0 && col < 0) return '';
  const isOneOfSeveral = frames.length > 1 || frame.model.step !== undefined;
  const model = isOneOfSeveral ? ` in ${modelName(frame)}` : '';
  if (row >= 0 && col < 0)
    return isPlain ? `row of ${quoteQuery(frame, row)}` : queryName(frame, row);
  if (row < 0) return isPlain ? `attention on ${keyText(frame, col)}` : keyName(frame, col);
  if (isPlain) {
    const [queryText, keyWords] = [quoteQuery(frame, row), keyText(frame, col)];
    if (col >= visibleKeyEnd(frame, row))
      return `${queryText} cannot attend to ${keyWords}, a later token`;
    const weight = cellsOf(map, state)[index]!;
    return `${queryText} attends to ${keyWords}: ${formatPercent(weight)}${model}`;
  }
  const cellName = `${queryName(frame, row)} → ${keyName(frame, col)}${model}`;
  if (col >= visibleKeyEnd(frame, row)) return `${cellName}: not visible (later token)`;
  if (Number.isNaN(shares[index])) return `${cellName}: forgotten (not in the cache)`;
  const weightText = formatValue(weights[index]!, 4);
  if (frame.operation.normalizes) return `${cellName}: ${weightText}`;
  const sum = map.sums?.[cell.row] ?? rowSumOf(weights, frame.T, row);
  return `${cellName}: ${formatPercent(shares[index]!, 1)} of the row, weight ${weightText} of row sum ${formatValue(sum, 3)}`;
}

/** Adds how to read maps, and their scale; returns a function that draws both. */
export function addMapLegend(legend: HTMLElement) {
  const words = addElement(legend, '', 'span');
  const scalePlace = addElement(legend, 'scale-place', 'span');
  return (options: Parameters<typeof weightScale>[0]): void => {
    setText(words, mapWords(options.frames));
    drawScale(scalePlace, weightScale(options));
  };
}

/** Creates a thumbnail of the whole map with a frame that encloses the exact cells; a click on it moves the frame. */
function createLocator(root: HTMLElement, onMove: (row: number, col: number) => void) {
  // The thumbnail is in the page only while the map shows exact cells: a whole map must be the figure's only picture.
  const thumbnail = Object.assign(document.createElement('div'), { className: 'locator' });
  // Hides the thumbnail from screen readers, since the arrow keys move the exact cells, too.
  thumbnail.setAttribute('aria-hidden', 'true');
  const canvas = addElement(thumbnail, '', 'canvas') as HTMLCanvasElement;
  const outline = addElement(thumbnail, 'mark');
  thumbnail.addEventListener('click', (event) => {
    const { left, top, width, height } = thumbnail.getBoundingClientRect();
    onMove((event.clientY - top) / height, (event.clientX - left) / width);
  });
  return (
    T: number,
    maps: Omit<Parameters<typeof paint>[1], 'rows' | 'cols'> & Maps,
    at?: ExactCells,
  ) => {
    if (!at) return thumbnail.remove();
    root.append(thumbnail);
    paint(canvas, { ...maps, cols: maps.side });
    const percentOf = (tokens: number) => `${(100 * tokens) / T}%`;
    Object.assign(outline.style, {
      left: percentOf(at.key),
      top: percentOf(at.query),
      width: percentOf(at.side),
      height: percentOf(at.side),
    });
  };
}

const exactWords = ({ query, key, side }: ExactCells): string =>
  `Shown exactly: queries ${query}-${query + side - 1}, keys ${key}-${key + side - 1}.`;

const POOLS = [
  ['mean', 'Mean'],
  ['largest', 'Largest'],
] as const;

function zoomControls(
  exactCells: ExactCells | undefined,
  { pool }: State,
  set: (change: Partial<State>) => void,
  resetZoom: () => void,
): TemplateResult {
  if (exactCells)
    return html`<button type="button" @click=${resetZoom}>Whole map</button>
      <span class="hint">${exactWords(exactCells)} Arrow keys move on.</span>`;
  return html`${segmentedControl('Blocks', POOLS, pool, (name) => set({ pool: name }))}
    <span class="hint">Select a block to see its exact cells.</span>`;
}

/** Returns more numbers of a long map: the maximum of each block, and the exact cells if they are shown. */
function blockNumbers(frame: Frame, { largest: data, rows, side }: Maps): Quantity[] {
  const exactCells = exactCellsOf(frame);
  const [, ...axes] = axesOf(frame);
  const size = exactCells?.side ?? 0;
  return [
    data && quantity('largest_weight', axes, { shape: [rows, side], data }),
    exactCells && {
      ...quantity('weight', ['query', 'key'], { shape: [size, size], data: exactCells.weights }),
      from: [exactCells.query, exactCells.key],
    },
  ].filter((entry) => entry !== undefined);
}

/** Draws the color scale with its name; means over blocks have only its ends. */
function drawKey(
  title: HTMLElement,
  legend: HTMLElement,
  scale: ReturnType<typeof weightScale>,
  { hasBlocks, hasMaxima }: { readonly hasBlocks: boolean; readonly hasMaxima: boolean },
): void {
  const areMeans = hasBlocks && !hasMaxima;
  const name = scaleName(scale, hasBlocks ? 'largest weight' : 'attention weight');
  setText(title, areMeans ? '' : name);
  if (areMeans) drawLegend(legend, scale, ['mean weight 0', formatValue(scale.high, 3)]);
  else drawScale(legend, scale);
}

/**
 * The drawn grid: tokens per row and column, first query and key, and numbers of columns and rows. The state names a
 * block by its first token.
 */
type Grid = typeof EMPTY_GRID;
const EMPTY_GRID = {
  ...{ block: 1, rowBlock: 1, query: 0, key: 0, side: 0, rows: 0 },
  ...{ isExact: false, canZoom: false },
};

function cellIn(grid: Grid, query: number, key: number): Cell | undefined {
  const cellIndex = (t: number, from: number, block: number) =>
    t < 0 ? -1 : Math.floor((t - from) / block);
  const row = cellIndex(query, grid.query, grid.rowBlock);
  const col = cellIndex(key, grid.key, grid.block);
  const isInside = (t: number, i: number, n: number) => t < 0 || (i >= 0 && i < n);
  const isInMap =
    (query >= 0 || key >= 0) && isInside(query, row, grid.rows) && isInside(key, col, grid.side);
  return isInMap ? { row, col } : undefined;
}

/** Returns the titles of both axes. @param block tokens per cell */
function axisTitles(frame: Frame, block: number): readonly [string, string] {
  const title = (name: string, unit = 'token') =>
    block > 1 ? `${name} (blocks of ${block} ${unit}s)` : name;
  return frame.queries
    ? ['decoder token (query)', title(`${keyUnit(frame)} (key)`, 'position')]
    : [title('attending token (query)'), title('attended to (key)')];
}

/** Creates the sentence about several selected keys, which extend from the first one that was chosen. */
function createSpan(root: HTMLElement, set: (change: Partial<State>) => void) {
  const words = addElement(root, 'span-words', 'p');
  words.setAttribute('role', 'status');
  let selected = { key: -1, lastKey: -1 };
  const choose = (change: Partial<State>) => {
    set({ ...change, ...(selected.lastKey >= 0 ? { lastKey: -1 } : {}) });
    selected = { key: change.key ?? -1, lastKey: -1 };
  };
  const extend = (from: number, { query, key: lastKey }: { query: number; key: number }) => {
    selected = { key: selected.key < 0 ? from : selected.key, lastKey };
    set({ query, ...selected });
  };
  root.addEventListener('keydown', ({ key }) => {
    if (key === 'Escape' && !words.hidden) set({ lastKey: -1 });
  });
  const update = (frame: Frame, state: State) => {
    selected = state;
    const span = spanOf(frame, state);
    words.hidden = !span;
    setText(words, spanSentence(span, frame));
    if (!span) return undefined;
    const marked = { chosen: { row: -1, col: span.from }, chosenCols: span.to - span.from + 1 };
    return { note: ` ${spanSentence(span, frame)}`, marked };
  };
  return { choose, extend, update };
}

/** Adds the elements of a map, and what a reader does with them. `shown` is what the map shows at the moment. */
function createMap(root: HTMLElement, { set, point, pointed, effect }: ViewApi) {
  const header = addElement(root, 'map-head');
  const title = addElement(header, 'subtitle', 'p');
  const legendRow = addElement(header, 'map-key', 'span');
  const scaleTitle = addElement(legendRow, 'scale-name', 'span');
  const legend = addElement(legendRow, 'legend-place', 'span');
  const zoomBar = addElement(root, 'lens');
  const controls = addElement(zoomBar, '');
  const shown = { grid: { ...EMPTY_GRID }, T: 0 };
  const tokensOf = ({ row, col }: Cell) => ({
    query: shown.grid.query + row * shown.grid.rowBlock,
    key: shown.grid.key + col * shown.grid.block,
  });
  const zoomTo = (query: number, key: number): Partial<State> => {
    const clampStart = (t: number) => Math.max(0, Math.min(Math.round(t), shown.T - EXACT_SIDE));
    return { zoomQuery: clampStart(query), zoomKey: clampStart(key) };
  };
  const resetZoom = () => set({ zoomQuery: -1, zoomKey: -1 });
  const heatmap = createHeatmap(addElement(root, 'plot'), {
    onPoint: (cell) => point(cell ? tokensOf(cell) : {}),
    onChoose: (cell) => {
      const { query, key } = tokensOf(cell);
      const margin = (EXACT_SIDE - shown.grid.block) / 2;
      const zoom = shown.grid.canZoom ? zoomTo(query - margin, key - margin) : {};
      span.choose({ query, key, ...zoom });
    },
    onExtend: (from, to) => {
      const { canZoom, isExact } = shown.grid;
      if (!canZoom && !isExact) span.extend(tokensOf(from).key, tokensOf(to));
    },
    onBeyond: ([down, right]) => {
      const { isExact, query, key } = shown.grid;
      if (isExact) set(zoomTo(query + down, key + right));
    },
  });
  const span = createSpan(root, set);
  const drawLocator = createLocator(zoomBar, (row, col) => {
    const start = (part: number) => part * shown.T - EXACT_SIDE / 2;
    set(zoomTo(start(row), start(col)));
  });
  root.addEventListener('keydown', (event) => {
    if (event.key === 'Escape' && shown.grid.isExact) resetZoom();
  });
  effect(() => {
    const { query = -1, key = -1 } = pointed.value;
    heatmap.highlight(cellIn(shown.grid, query, key));
  });
  const places = { title, legendRow, scaleTitle, legend, zoomBar, controls };
  return { ...places, shown, heatmap, span, drawLocator, resetZoom };
}

/** Returns what is drawn of a map: exact cells or means over blocks, with the scale of their colors. */
function cellsToDraw(frame: Frame, maps: Maps, options: DrawOptions) {
  const { state } = options;
  const canZoom = Boolean(frame.pooled && maps.largest);
  const exactCells = state.zoomQuery >= 0 && canZoom ? exactCellsOf(frame) : undefined;
  const hasBlocks = Boolean(frame.pooled) && !exactCells;
  const hasMaxima = state.pool === 'largest' && maps.largest !== undefined;
  const { block, rowBlock, rows, side } = maps;
  const exactGrid = { block: 1, rowBlock: 1, isExact: true, canZoom: false };
  const grid: Grid = exactCells
    ? { ...exactCells, rows: exactCells.side, ...exactGrid }
    : { query: 0, key: 0, block, rowBlock, rows, side, isExact: false, canZoom };
  const blockValues = hasMaxima ? maps.largest! : maps.weights;
  const cells = hasBlocks ? blockValues : cellsOf(exactCells ?? maps, state);
  const blockScale = weightScale(options, frame.pooled && !hasMaxima ? [blockValues] : undefined);
  const end = ownEnd(cells, grid.rows);
  const scale = hasBlocks ? blockScale : weightScale(options, undefined, end);
  return { canZoom, exactCells, hasBlocks, hasMaxima, grid, blockValues, cells, blockScale, scale };
}

/** Says what a cell of a long map is. */
function cellNote(frame: Frame, { block }: Maps, hasMaxima: boolean): string {
  if (block <= 1) return ' · weights rounded to 8 bits';
  const cells = frame.queries ? `${block} ${keyUnit(frame)}s` : `${block} × ${block} tokens`;
  return ` · each cell is the ${hasMaxima ? 'largest' : 'mean'} over ${cells}`;
}

const timesWords = (sum: number): string => `${sum.toFixed(sum < 9.5 ? 1 : 0)} times 100%`;

/** Says what the rows of a map sum to whose mean is far over 100%; where half of them are below it, the mean says little. */
function largeSumsWords(cells: Float32Array, { rows, side }: Maps): string {
  const sums = Array.from({ length: rows }, (_, t) => rowSumOf(cells, side, t)).sort(
    (a, b) => a - b,
  );
  const median = sums[rows >> 1]!;
  return median < 1
    ? `half the rows sum to <${Math.floor(100 * median) + 1}%, the largest to ${timesWords(sums.at(-1)!)}`
    : `rows sum to ${timesWords(mean(sums))} on average`;
}

/** What the drawn map gives the first token: that of the first prompt, as the map is. */
const drawnAttention = ({ column, attention }: Claim): number => column?.alpha ?? attention;

/**
 * Returns the label inside a map, which is about its first column and its rows: the same in every room.
 * @param isShort for a small map: only how much the first column or an extra slot gets
 */
export function labelOf(
  frame: Frame,
  at: Head,
  state: State,
  isShort = false,
): DrawOptions['remark'] {
  const claim = claimOf(frame, at, state);
  const { column, isShare, kind, rowSum } = claim;
  if (!isShort && (!kind || !column)) return undefined;
  const sum = isShare ? '' : `; rows sum to ${sumWords(rowSum)} on average`;
  const attention = drawnAttention(claim);
  const amount = `${amountOf({ ...claim, attention })} on ${firstName(frame)}`;
  // Where the reader sees shares of rows, heads are counted by weight all the same.
  const byWeight =
    isShare && usesRawWeights(frame) ? drawnAttention(claimOf(frame, at)) : attention;
  const isOtherByWeight = hasSink(frame, attention) !== hasSink(frame, byWeight);
  const isSink = hasSink(frame, attention) && !isOtherByWeight;
  const slot = isShort || extraKeyWeights(frame) ? slotWeights(frame, at) : undefined;
  if (slot && !isSink) return { kind: 'slot', text: `${wholePercent(mean(slot))} on the slot ∗ ▶` };
  const maps = mapsOf(frame);
  const cells = maps && cellsOf(maps, state);
  const end = cells && ownEnd(cells, maps.rows);
  if (end) {
    const scale = end > 1 ? `; own scale: 0 to ${wholePercent(end)}` : '';
    const sums = `${largeSumsWords(cells, maps)}${scale}`;
    if (isShort || kind === 'short') return { kind: 'none', text: sums };
    // A large weight is no sink where each token gets one: the verdict is what the picture shows.
    const even = ['less than', 'about', 'more than'][1 + compare(column!.mean, column!.uniform)]!;
    const verdict = kind === 'none' ? 'not singled out' : `${even} an even share`;
    return { kind: 'none', text: `◀ ${amount} on average, ${verdict}; ${sums}` };
  }
  // A reader who sees shares of rows sees no weights of later columns.
  const later = isShare && usesRawWeights(frame) ? undefined : laterSink(frame, at);
  const its = later?.isOnly ? 'its sink' : 'its strongest sink';
  const laterText = later ? `; ${its} is later: ${laterSinkText(frame, later)}` : '';
  if (isShort && !isOtherByWeight)
    return isSink
      ? { kind: 'sink', text: `◀ ${amount}: a sink` }
      : { kind: 'weak', text: `◀ ${amount}${laterText}` };
  if (kind === 'short') return { kind: 'none', text: 'short text: heads are not counted' };
  if (kind === 'empty') return { kind: 'none', text: `almost empty${sum}` };
  if (isOtherByWeight)
    return {
      kind: 'weak',
      text: `${amount} as a share; by weight ${formatPercent(byWeight)}: ${hasSink(frame, byWeight) ? 'a' : 'no'} sink`,
    };
  // Beside a large share of small rows, the weight is said instead.
  if (kind === 'none' && disagrees(claim, frame)) return { kind: 'none', text: `${amount}${sum}` };
  if (kind === 'none')
    return { kind: 'none', text: `◀ ${amount} on average${laterText || ': no sink'}` };
  const threshold = `over ${formatPercent(frame.eps, 0)}`;
  return isSink
    ? { kind: 'sink', text: `◀ ${amount} on average: a sink (${threshold})` }
    : { kind: 'weak', text: `◀ ${amount} on average, not ${threshold}${laterText}` };
}

const LATER_TOKENS_REMARK = { kind: 'later', text: 'later tokens: not visible' };

/** Draws the weights that the rows give to an extra slot, right of their map, with its name below. */
export const columnOf = (weights: Float32Array, scale: Scale): TemplateResult =>
  html`<b>∗ slot</b
    >${Array.from(weights, (weight) => html`<i style="background: ${cssColor(scale, weight)}"></i>`)}`;

export const attention: View = {
  name: 'attention',
  title: 'Attention map',
  question: 'Which tokens does each token attend to?',
  how:
    'Row: query. Column: key. A sink is a column that nearly every row attends to. Point at a cell, or use ' +
    'the arrow keys, to read its weight; with Shift you select several keys, whose attention is summed. Colors are raw weights: where rows need not sum to 1, a row may be ' +
    'nearly empty; “normalize rows” shows shares of each row instead. Of a long text a cell is the mean, or the largest, of a block; select ' +
    'a block to see its exact cells, move on with the arrow keys, and go back with Escape. Numbers in the text are exact.',
  formula: 'A = softmax(q·k / √K), or what the operation says',
  source: 'Vaswani et al., 2017, section 3.2.1',
  reads: [],
  headReads: ['att'],
  numbers: (frame) => {
    const { T } = frame;
    const maps = mapsOf(frame);
    if (!maps) return [];
    const { weights, rows, side } = maps;
    const [name, ...axes] = axesOf(frame);
    const map = quantity(name, axes, { shape: [rows, side], data: weights });
    if (frame.pooled) return [map, ...blockNumbers(frame, maps)];
    const masses = Float32Array.from({ length: rows }, (_, t) => rowSumOf(weights, T, t));
    return [map, quantity('row_mass', ['query'], { shape: [rows], data: masses })];
  },
  says: (frame, at, state = defaults) => {
    const { T, operation } = frame;
    const verdict = verdictOf(frame);
    const mapClaim = claimOf(frame, at, state);
    const { column } = mapClaim;
    // With several prompts, the map and its number are those of the first prompt; without a column the number is a mean.
    const isFirstPromptOnly = frame.sequences > 1 && column !== undefined;
    const averageNote = isFirstPromptOnly ? '' : averageWords(frame);
    const claim = isFirstPromptOnly
      ? { ...mapClaim, attention: column.alpha, isStrongest: false }
      : mapClaim;
    const shortNote = tooShortNote(frame) && ` ${tooShortNote(frame)}`;
    const weightText = attentionWords(claim);
    const receivedWords = claim.isShare
      ? `${weightText}${operation.normalizes ? '' : ` ${usesRawWeights(frame) ? 'of what its rows carry' : shareWords(frame)},`}${averageNote || ' on average'}`
      : isBelowUniform(claim)
        ? `a mean weight of ${amountOf(claim)}${averageNote}, the most that any head gives it`
        : `a mean weight of ${weightText}${averageNote}`;
    const sumsNote = claim.isShare
      ? isFirstHidden(frame)
        ? ''
        : `; uniform attention would give it ${formatPercent(verdict.even, 0)}`
      : `. ${rowSumSentence(claim, frame)}`.replace(/\.$/, '');
    const { side, block, rows } = gridOf(frame);
    const blocksNote = frame.pooled
      ? `, as ${rows} by ${side} means over blocks of ${frame.queries ? '' : `${block} by `}${block} ${keyUnit(frame)}s${firstPromptWords(frame)}`
      : '';
    const sizes = frame.queries
      ? `${frame.queries.length} queries of the decoder by ${T} ${keyUnit(frame)}s`
      : `${T} queries by ${T} keys`;
    const opening = isFirstPromptOnly ? `In the first of ${frame.sequences} prompts, ` : '';
    const token = isFirstPromptOnly
      ? frame.queries
        ? firstName(frame)
        : `the first token, ${tokenText(frame, firstKey(frame))},`
      : firstTokenName(frame);
    return (
      `Attention weights of ${headWords(at, frame)} of ${modelName(frame)}: ${sizes}${blocksNote}. ` +
      `${capitalize(`${opening}${token}`)} receives ${receivedWords}${sumsNote}.${shortNote}`
    );
  },
  draw(root, api) {
    const map = createMap(root, api);
    const extraKey = addElement(root.querySelector('.heatmap') ?? root, 'extra-key');
    const toWords = (tokens: Frame['tokens']) => tokens.map(({ text }) => tokenWord(text));
    const [rowWordsOf, colWordsOf] = [cacheLast(toWords), cacheLast(toWords)];
    return (frame, options) => {
      const maps = mapsOf(frame);
      if (!maps) return;
      const { state, isPlain } = options;
      // Keeps showing the previous head until the selected head's map is read, or if a recording lacks it.
      const at = frame.head ?? options.at;
      const drawn = cellsToDraw(frame, maps, options);
      const { exactCells, hasBlocks, hasMaxima, grid, cells, scale } = drawn;
      Object.assign(map.shown, { grid, T: frame.T });
      const note = hasBlocks ? cellNote(frame, maps, hasMaxima) : '';
      setText(map.title, `${headWords(at, frame)} · ${frame.operation.label}${note}`);
      const isUnlabeled = Boolean(isPlain && !frame.pooled);
      map.title.hidden = map.legendRow.hidden = isUnlabeled;
      drawKey(map.scaleTitle, map.legend, scale, { hasBlocks, hasMaxima });
      map.zoomBar.hidden = !drawn.canZoom;
      if (drawn.canZoom)
        render(zoomControls(exactCells, state, api.set, map.resetZoom), map.controls);
      const thumbnail = { ...maps, data: drawn.blockValues, scale: drawn.blockScale };
      map.drawLocator(frame.T, thumbnail, exactCells);
      const rowWords =
        hasBlocks && !frame.queries
          ? undefined
          : rowWordsOf(frame.queries ?? frame.tokens).slice(grid.query, grid.query + grid.rows);
      const colWords = hasBlocks
        ? undefined
        : colWordsOf(frame.tokens).slice(grid.key, grid.key + grid.side);
      const plainTitles = options.isTitled ? ['token that looks', 'token looked at'] : [];
      const [rowTitle = '', colTitle = ''] =
        isUnlabeled && !frame.queries ? plainTitles : axisTitles(frame, hasBlocks ? maps.block : 1);
      const shownSpan = map.span.update(frame, state);
      // What goes to no token has its own column, right of the map.
      const slot = isUnlabeled ? slotWeights(frame, at) : undefined;
      extraKey.hidden = !slot;
      render(slot ? columnOf(slot, scale) : nothing, extraKey);
      const exactNote = exactCells ? ` ${exactWords(exactCells)}` : '';
      map.heatmap.draw({
        rows: grid.rows,
        cols: grid.side,
        // A short text by many frames would be a thin strip.
        cellShape: frame.queries && Math.min(1, (2 * grid.rows) / grid.side),
        data: cells,
        scale,
        rowTitle,
        colTitle,
        rowWords,
        colWords,
        isHatched: isUnlabeled && Boolean(frame.tensors.evicted),
        // Labels the triangle only where it is in the picture: exact cells far below the diagonal do not show it.
        remark:
          options.remark ?? (Number.isNaN(cells[grid.side >> 1]) ? LATER_TOKENS_REMARK : undefined),
        outlined: hasBlocks ? undefined : options.outlined,
        label: `${attention.says(frame, at, state)}${exactNote}${shownSpan?.note ?? ''}`,
        ...(options.readRow === undefined || hasBlocks
          ? { chosen: cellIn(grid, state.query, state.key) }
          : {
              chosen: { row: options.readRow, col: 0 },
              chosenCols: visibleKeyEnd(frame, options.readRow),
              boldRow: options.readRow,
            }),
        ...shownSpan?.marked,
        describe: (cell) =>
          hasBlocks
            ? formatBlock(frame, maps, cell)
            : formatCell(frame, exactCells ?? maps, cell, options),
      });
    };
  },
};
