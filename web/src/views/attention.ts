/** Draws the attention map of the chosen head: queries down, keys across. */
import { html, render, type TemplateResult } from 'lit';
import {
  blockWords,
  cellsOf,
  EXACT_SIDE,
  exactOf,
  firstKey,
  gridOf,
  largest,
  mapsOf,
  massOfRow,
  visibleKeyEnd,
  type Exact,
  type Frame,
  type Maps,
} from '../frame';
import { defaults, type State } from '../ask/state';
import { claimOf } from '../claims';
import { diverging, sequential } from '../plot/color';
import { segmented } from '../page/controls';
import { createHeatmap, paint, type Cell } from '../plot/heatmap';
import { drawLegend, drawScale, scaleName } from '../plot/legend';
import { quantity, type Quantity } from '../save/numbers';
import {
  givenWords,
  headWords,
  isBelow,
  judged,
  percent,
  quote,
  tooShortWords,
  show,
  sumWords,
  word,
} from '../words';
import { cacheLast, addElement, setText, type DrawOptions, type View } from '../page/view';

/**
 * Returns the color scale of attention weights.
 * @param pooled set if cells are means over blocks, whose scale ends at the largest, since all are small
 */
export function weightScale(
  { frames, state, theme }: Pick<DrawOptions, 'frames' | 'state' | 'theme'>,
  pooled?: readonly ArrayLike<number>[],
) {
  const high = pooled ? largest(pooled) : 1;
  const isSigned = frames.some(({ operation }) => operation.proxy === 'share_abs');
  return isSigned ? diverging(theme, high) : sequential(theme, high, state.scale === 'root');
}

/** Returns the name of a map's numbers, and the names of its axes. */
export function axesOf({ pooled }: Frame): readonly [string, string, string] {
  return pooled ? ['mean_weight', 'query_block', 'key_block'] : ['weight', 'query', 'key'];
}

/** Returns the readout of a pooled cell: the mean over the keys that its queries see, and the largest weight. */
function sayBlock(frame: Frame, { weights, largest: most, side }: Maps, { row, col }: Cell) {
  const [queries, keys] = [row, col].map((place) => blockWords(frame, place));
  if (row < 0 && col < 0) return '';
  if (col < 0) return `queries ${queries}`;
  if (row < 0) return `keys ${keys}`;
  const mean = weights[row * side + col]!;
  const meanWords = Number.isNaN(mean)
    ? 'not visible (later tokens)'
    : `mean weight ${show(mean, 4)}`;
  const largestWords =
    most && !Number.isNaN(mean) ? `, largest ${show(most[row * side + col]!, 4)}` : '';
  return `queries ${queries} → keys ${keys}: ${meanWords}${largestWords}`;
}

/** Returns the readout of a cell of a whole map, or of the exact cells of a long one. */
function sayCell(
  frame: Frame,
  drawn: Pick<Maps, 'weights' | 'shares' | 'side'> & Partial<Exact>,
  cell: Cell,
  { state, isPlain }: Pick<DrawOptions, 'state' | 'isPlain'>,
): string {
  const { weights, shares, side, query = 0, key = 0 } = drawn;
  const [row, col] = [cell.row < 0 ? -1 : cell.row + query, cell.col < 0 ? -1 : cell.col + key];
  const at = cell.row * side + cell.col;
  if (row < 0 && col < 0) return '';
  if (row >= 0 && col < 0)
    return isPlain ? `${quote(frame, row)} attends to` : `query ${row} ${quote(frame, row)}`;
  if (row < 0)
    return isPlain ? `attention on ${quote(frame, col)}` : `key ${col} ${quote(frame, col)}`;
  const share = percent(shares[at]!, 1);
  if (isPlain) {
    const [who, what] = [quote(frame, row), quote(frame, col)];
    if (col >= visibleKeyEnd(frame, row)) return `${who} cannot attend to ${what}, a later token`;
    return `${who} attends to ${what}: ${percent(cellsOf(drawn, state)[at]!)}`;
  }
  const names = `query ${row} ${quote(frame, row)} → key ${col} ${quote(frame, col)}`;
  if (col >= visibleKeyEnd(frame, row)) return `${names}: not visible (later token)`;
  if (Number.isNaN(shares[at])) return `${names}: forgotten (not in the cache)`;
  const weight = show(weights[at]!, 4);
  if (frame.operation.normalizes) return `${names}: ${weight}`;
  const sum = drawn.sums?.[cell.row] ?? massOfRow(weights, frame.T, row);
  return `${names}: ${share} of the row, weight ${weight} of row sum ${show(sum, 3)}`;
}

/** Creates a thumbnail of the whole map that frames the exact cells; a click on it shows other exact cells. */
function createLocator(root: HTMLElement, onMove: (row: number, col: number) => void) {
  // The thumbnail is in the page only next to exact cells; otherwise the map must be the figure's only picture.
  const place = Object.assign(document.createElement('div'), { className: 'locator' });
  // Hides the thumbnail from screen readers, since the exact cells themselves can be controlled by keys.
  place.setAttribute('aria-hidden', 'true');
  const canvas = addElement(place, '', 'canvas') as HTMLCanvasElement;
  const frame = addElement(place, 'mark');
  place.addEventListener('click', (event) => {
    const { left, top, width, height } = place.getBoundingClientRect();
    onMove((event.clientY - top) / height, (event.clientX - left) / width);
  });
  return (
    T: number,
    maps: Omit<Parameters<typeof paint>[1], 'rows' | 'cols'> & Maps,
    at?: Exact,
  ) => {
    if (!at) return place.remove();
    root.append(place);
    paint(canvas, { ...maps, rows: maps.side, cols: maps.side });
    const percentOf = (tokens: number) => `${(100 * tokens) / T}%`;
    Object.assign(frame.style, {
      left: percentOf(at.key),
      top: percentOf(at.query),
      width: percentOf(at.side),
      height: percentOf(at.side),
    });
  };
}

const exactWords = ({ query, key, side }: Exact): string =>
  `Shown exactly: queries ${query}-${query + side - 1}, keys ${key}-${key + side - 1}.`;

/** Returns the controls of a long map: means or maxima of blocks; while exact cells are shown, a way to the whole map. */
function lensControls(
  exact: Exact | undefined,
  { pool }: State,
  set: (change: Partial<State>) => void,
  leave: () => void,
): TemplateResult {
  if (exact)
    return html`<button type="button" @click=${leave}>Whole map</button>
      <span class="hint">${exactWords(exact)} Arrow keys move on.</span>`;
  const choose = (name: State['pool']) => set({ pool: name });
  return html`${segmented(
      'Blocks',
      [
        ['mean', 'Mean'],
        ['largest', 'Largest'],
      ] as const,
      pool,
      choose,
    )} <span class="hint">Select a block to see its exact cells.</span>`;
}

/** Returns the numbers of a long map: the maximum of each block, and the shown exact cells. */
function blockNumbers(frame: Frame, { largest: data, side }: Maps): Quantity[] {
  const exact = exactOf(frame);
  const [, ...axes] = axesOf(frame);
  return [
    ...(data ? [quantity('largest_weight', axes, { shape: [side, side], data })] : []),
    ...(exact
      ? [
          {
            ...quantity('weight', ['query', 'key'], {
              shape: [exact.side, exact.side],
              data: exact.weights,
            }),
            from: [exact.query, exact.key],
          },
        ]
      : []),
  ];
}

/** The label on the gray triangle. */
const LATER = { kind: 'later', text: 'later tokens: not visible' };

export const attention: View = {
  name: 'attention',
  title: 'Attention map',
  question: 'Which tokens does each token attend to?',
  how:
    'Row: query. Column: key. A sink is a column that nearly every row attends to. Point at a cell, or use ' +
    'the arrow keys, to read its weight. Colors are raw weights: where rows need not sum to 1, a row may be ' +
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
    const { weights, side } = maps;
    const [name, ...axes] = axesOf(frame);
    const map = quantity(name, axes, { shape: [side, side], data: weights });
    if (frame.pooled) return [map, ...blockNumbers(frame, maps)];
    const masses = Float32Array.from({ length: T }, (_, t) => massOfRow(weights, T, t));
    return [map, quantity('row_mass', ['query'], { shape: [T], data: masses })];
  },
  says: (frame, at, state = defaults) => {
    const { T, eps, title, operation } = frame;
    const verdict = judged(frame);
    const mapClaim = claimOf(frame, at, state);
    const { column } = mapClaim;
    // The picture and its number show only the first prompt.
    const isOne = frame.sequences > 1 && column !== undefined;
    const claim = isOne ? { ...mapClaim, given: column.given, isMost: false } : mapClaim;
    const shortNote = verdict.conclusive ? '' : ` ${tooShortWords(verdict, T, eps)}`;
    const number = givenWords(claim);
    const received = claim.isShare
      ? `${number} ${operation.normalizes ? 'on average' : 'of what its rows carry, on average'}`
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
    const subject = isOne ? `In the first of ${frame.sequences} prompts the` : 'The';
    return (
      `Attention weights of ${headWords(at, frame)} of ${title}: ${T} queries by ${T} keys${cells}. ${subject} first token, ` +
      `${quote(frame, firstKey(frame))}, receives ${received}${sums}.${shortNote}`
    );
  },
  draw(root, { set, point, pointed, effect }) {
    const head = addElement(root, 'map-head');
    const title = addElement(head, 'subtitle', 'p');
    const key = addElement(head, 'map-key', 'span');
    const scaleTitle = addElement(key, 'scale-name', 'span');
    const legend = addElement(key, 'legend-place', 'span');
    const lens = addElement(root, 'lens');
    const controls = addElement(lens, '');
    /**
     * The number of tokens per cell, the first query and key, and the side of the grid. Elsewhere on the page the first
     * token of a block stands for the block.
     */
    let grid = { block: 1, query: 0, key: 0, side: 0, isExact: false, canZoom: false };
    const tokensOf = ({ row, col }: Cell) => ({
      query: grid.query + row * grid.block,
      key: grid.key + col * grid.block,
    });
    const cellOf = (query: number, key: number): Cell | undefined => {
      const place = (t: number, from: number) => (t < 0 ? -1 : Math.floor((t - from) / grid.block));
      const [row, col] = [place(query, grid.query), place(key, grid.key)];
      const isInside = (t: number, i: number) => t < 0 || (i >= 0 && i < grid.side);
      const isSeen = (query >= 0 || key >= 0) && isInside(query, row) && isInside(key, col);
      return isSeen ? { row, col } : undefined;
    };
    let T = 0;
    const zoom = (query: number, key: number): Partial<State> => {
      const fit = (t: number) => Math.max(0, Math.min(Math.round(t), T - EXACT_SIDE));
      return { zoomQuery: fit(query), zoomKey: fit(key) };
    };
    const leave = () => set({ zoomQuery: -1, zoomKey: -1 });
    const heatmap = createHeatmap(addElement(root, 'plot'), {
      onPoint: (cell) => point(cell ? tokensOf(cell) : {}),
      onChoose: (cell) => {
        const { query, key } = tokensOf(cell);
        const half = (EXACT_SIDE - grid.block) / 2;
        set({ query, key, ...(grid.canZoom ? zoom(query - half, key - half) : {}) });
      },
      onBeyond: ([down, right]) => {
        if (grid.isExact) set(zoom(grid.query + down, grid.key + right));
      },
    });
    const locate = createLocator(lens, (row, col) => {
      set(zoom(row * T - EXACT_SIDE / 2, col * T - EXACT_SIDE / 2));
    });
    root.addEventListener('keydown', (event) => {
      if (event.key === 'Escape' && grid.isExact) leave();
    });
    effect(() => {
      const { query = -1, key = -1 } = pointed.value;
      heatmap.light(cellOf(query, key));
    });
    const wordsOf = cacheLast((tokens: Frame['tokens']) => tokens.map(({ text }) => word(text)));
    return (frame, options) => {
      const maps = mapsOf(frame);
      if (!maps) return;
      const { state, isPlain } = options;
      // Shows the previous head in picture and words until the selected head is read, or if it cannot be.
      const at = frame.head ?? options.at;
      T = frame.T;
      const canZoom = Boolean(frame.pooled && maps.largest);
      const exact = state.zoomQuery >= 0 && canZoom ? exactOf(frame) : undefined;
      const isBlocks = Boolean(frame.pooled) && !exact;
      const isMost = state.pool === 'largest' && maps.largest !== undefined;
      const { block } = maps;
      grid = exact
        ? { ...exact, block: 1, isExact: true, canZoom: false }
        : { query: 0, key: 0, block, side: maps.side, isExact: false, canZoom };
      const blocks = isMost ? maps.largest! : maps.weights;
      const cells = isBlocks ? blocks : cellsOf(exact ?? maps, state);
      const overview = weightScale(options, frame.pooled && !isMost ? [blocks] : undefined);
      const scale = isBlocks ? overview : weightScale(options);
      const of = !isBlocks
        ? ''
        : block > 1
          ? ` · each cell is the ${isMost ? 'largest' : 'mean'} over ${block} × ${block} tokens`
          : ' · weights rounded to 8 bits';
      setText(title, `${headWords(at, frame)} · ${frame.operation.label}${of}`);
      title.hidden = key.hidden = Boolean(isPlain && !frame.pooled);
      setText(
        scaleTitle,
        isBlocks && !isMost
          ? ''
          : scaleName(scale, isBlocks ? 'largest weight' : 'attention weight'),
      );
      if (isBlocks && !isMost) drawLegend(legend, scale, ['mean weight 0', show(scale.high, 3)]);
      else drawScale(legend, scale);
      lens.hidden = !canZoom;
      if (canZoom) render(lensControls(exact, state, set, leave), controls);
      locate(T, { ...maps, data: blocks, scale: overview }, exact);
      const words = isBlocks ? undefined : wordsOf(frame.tokens);
      const wordsFrom = (from: number) => (exact ? words?.slice(from, from + exact.side) : words);
      const isQuiet = isPlain && !frame.pooled;
      const axis = (name: string) =>
        isBlocks && block > 1 ? `${name} (blocks of ${block} tokens)` : name;
      const shown = exact ? ` ${exactWords(exact)}` : '';
      heatmap.draw({
        rows: grid.side,
        cols: grid.side,
        data: cells,
        scale,
        rowTitle: isQuiet ? '' : axis('attending token (query)'),
        colTitle: isQuiet ? '' : axis('attended to (key)'),
        rowWords: wordsFrom(grid.query),
        colWords: wordsFrom(grid.key),
        // Labels the triangle only if it is in the picture, which it is not for cells far below the diagonal.
        remark: options.remark ?? (Number.isNaN(cells[grid.side >> 1]) ? LATER : undefined),
        label: `${attention.says(frame, at, state)}${shown}`,
        chosen: cellOf(state.query, state.key),
        describe: (cell) =>
          isBlocks ? sayBlock(frame, maps, cell) : sayCell(frame, exact ?? maps, cell, options),
      });
    };
  },
};
