/**
 * Draws a matrix as colors: one pixel per cell, scaled up without smoothing, without knowledge of attention. The
 * pointer or the arrow keys point at a cell, which is marked and described; a click or Enter chooses the cell. Words
 * label rows and columns, as far as they fit.
 */
import { stepOf, type Scale } from './color';

export interface Cell {
  readonly row: number;
  readonly col: number;
}

interface HeatmapData {
  readonly rows: number;
  readonly cols: number;
  readonly data: ArrayLike<number>;
  readonly scale: Scale;
  /** One sentence that describes the picture. */
  readonly label: string;
  /** The chosen cell, which is marked; a negative index marks a whole row or column. */
  readonly chosen?: Cell;
  /** Cells that are outlined for their values. */
  readonly outlined?: readonly Cell[];
  readonly rowTitle?: string;
  readonly colTitle?: string;
  readonly rowWords?: readonly string[];
  readonly colWords?: readonly string[];
  /** A remark that is written next to the column that it describes. */
  readonly remark?: { readonly text: string; readonly kind: string };
  /** The ratio of a cell's width to its height; 1 if absent. */
  readonly cellShape?: number;
  /** Returns the readout of a cell under the pointer. */
  readonly describe: (cell: Cell) => string;
}

interface HeatmapEvents {
  /** Called with the cell under the pointer; with undefined when the pointer leaves the map. */
  readonly onPoint?: (cell: Cell | undefined) => void;
  readonly onChoose?: (cell: Cell) => void;
  /** Called when an arrow key leaves the picture, with its step in rows down and columns to the right. */
  readonly onBeyond?: (step: readonly [number, number]) => void;
}

export interface Heatmap {
  draw(data: HeatmapData): void;
  /** Marks the cell that is pointed at in another map. */
  light(cell: Cell | undefined): void;
}

const ARROWS: Readonly<Record<string, readonly [number, number]>> = {
  ArrowUp: [-1, 0],
  ArrowDown: [1, 0],
  ArrowLeft: [0, -1],
  ArrowRight: [0, 1],
};
/** The most words that are legible side by side; a longer text labels only every second, third, ... row and column. */
const [MOST_WORDS, SOME_WORDS] = [44, 30];
/** The number of pixels that a word takes along a map: letters of 11 pixels and a gap. */
const WORD_PX = 12;

function element(name: string, parent: Element): HTMLElement {
  const node = document.createElement('div');
  node.className = name;
  parent.append(node);
  return node;
}

/** Draws a matrix into a canvas of one pixel a cell. */
export function paint(
  canvas: HTMLCanvasElement,
  { rows, cols, data, scale }: Pick<HeatmapData, 'rows' | 'cols' | 'data' | 'scale'>,
): void {
  if (canvas.width !== cols) canvas.width = cols;
  if (canvas.height !== rows) canvas.height = rows;
  const context = canvas.getContext('2d');
  if (!context) return;
  const image = context.createImageData(cols, rows);
  const pixels = new Uint32Array(image.data.buffer);
  pixels.forEach((_, i) => {
    const step = stepOf(scale, data[i]!);
    pixels[i] = step < 0 ? scale.hidden : scale.colors[step]!;
  });
  context.putImageData(image, 0, 0);
}

/** Frames a cell, or a whole row or column if one index is negative. */
function mark(frame: HTMLElement, cell: Cell | undefined, rows: number, cols: number): void {
  frame.hidden = !cell || (cell.row < 0 && cell.col < 0) || cell.row >= rows || cell.col >= cols;
  if (!cell) return;
  const isRow = cell.col < 0;
  const isColumn = cell.row < 0;
  frame.style.left = `${isRow ? 0 : (100 * cell.col) / cols}%`;
  frame.style.width = `${isRow ? 100 : 100 / cols}%`;
  frame.style.top = `${isColumn ? 0 : (100 * cell.row) / rows}%`;
  frame.style.height = `${isColumn ? 100 : 100 / rows}%`;
}

/** Gives a place the number of children, and updates each; existing children are reused. */
function updateChildren(
  place: HTMLElement,
  count: number,
  each: (element: HTMLElement, i: number) => void,
): void {
  while (place.childElementCount > count) place.lastElementChild!.remove();
  while (place.childElementCount < count) place.append(document.createElement('span'));
  [...place.children].forEach((child, i) => each(child as HTMLElement, i));
}

/** The number of letters of a label that fit next to every map. */
const LABEL_LETTERS = 6;

/**
 * Returns labels for words; words that are too long and begin alike are cut at the start, where they begin to differ.
 */
export function distinctLabels(words: readonly string[]): string[] {
  const groups = new Map<string, Set<string>>();
  const startOf = (one: string) => one.slice(0, LABEL_LETTERS);
  for (const one of words)
    groups.set(startOf(one), (groups.get(startOf(one)) ?? new Set()).add(one));
  return words.map((one) => {
    const sameStart = [...groups.get(startOf(one))!];
    if (one.length <= LABEL_LETTERS || sameStart.length < 2) return one;
    let common = LABEL_LETTERS;
    while (sameStart.every((other) => other.slice(0, common + 1) === one.slice(0, common + 1)))
      common++;
    return `…${one.slice(Math.min(common, one.length - 1))}`;
  });
}

/**
 * Writes the labels of rows or columns.
 * @param words none if they are too many to be legible
 */
function writeLabels(place: HTMLElement, words: readonly string[] = []): void {
  const labels = distinctLabels(words);
  updateChildren(place, words.length, (span, i) => {
    // Style sheets truncate a label that is too long; the title has the whole word.
    if (span.textContent !== labels[i]) span.textContent = labels[i]!;
    if (span.title !== words[i]) span.title = words[i]!;
  });
}

export function createHeatmap(root: Element, events: HeatmapEvents = {}): Heatmap {
  const place = element('map-place', root);
  const inner = element('map-inner', place);
  const rowWords = element('row-words', inner);
  const plot = element('heatmap', inner);
  const colWords = element('col-words', inner);
  for (const side of [rowWords, colWords]) side.setAttribute('aria-hidden', 'true');
  const canvas = document.createElement('canvas');
  plot.append(canvas);
  const lit = element('mark lit', plot);
  const chosen = element('mark chosen', plot);
  const remark = element('remark', plot);
  const outlines: HTMLElement[] = [];
  const readout = element('readout', root);
  lit.hidden = chosen.hidden = remark.hidden = true;
  plot.tabIndex = 0;
  plot.setAttribute('role', 'application');
  plot.setAttribute('aria-roledescription', 'matrix');
  readout.setAttribute('aria-live', 'polite');
  let shown: HeatmapData | undefined;
  /** Returns the map's size on the screen in pixels; 0 before the map is drawn. */
  let size = { width: 0, height: 0 };
  let at: Cell | undefined;
  let elsewhere: Cell | undefined;

  const say = () => {
    if (!shown) return;
    const text = shown.describe(at ?? elsewhere ?? shown.chosen ?? { row: -1, col: -1 });
    if (readout.textContent !== text) readout.textContent = text;
  };
  const point = (cell: Cell | undefined) => {
    if (cell?.row === at?.row && cell?.col === at?.col) return;
    at = cell;
    if (!shown) return;
    mark(lit, cell ?? elsewhere, shown.rows, shown.cols);
    say();
    events.onPoint?.(cell);
  };
  const under = (event: MouseEvent): Cell | undefined => {
    if (!shown) return undefined;
    const box = plot.getBoundingClientRect();
    const col = Math.floor(((event.clientX - box.left) / box.width) * shown.cols);
    const row = Math.floor(((event.clientY - box.top) / box.height) * shown.rows);
    const inside = row >= 0 && col >= 0 && row < shown.rows && col < shown.cols;
    return inside ? { row, col } : undefined;
  };

  plot.addEventListener('pointermove', (event) => point(under(event)));
  plot.addEventListener('pointerleave', () => point(undefined));
  plot.addEventListener('click', (event) => {
    const cell = under(event);
    if (!cell) return;
    // Points at a cell that is touched.
    point(cell);
    events.onChoose?.(cell);
  });
  plot.addEventListener('keydown', (event) => {
    if (!shown) return;
    const from = at ?? shown.chosen ?? { row: 0, col: 0 };
    const start = { row: Math.max(0, from.row), col: Math.max(0, from.col) };
    const step = ARROWS[event.key];
    const isChoice = event.key === 'Enter' || event.key === ' ';
    if (isChoice) events.onChoose?.(start);
    if (step) {
      const inside = (i: number, n: number) => Math.min(n - 1, Math.max(0, i));
      const next = {
        row: inside(start.row + step[0], shown.rows),
        col: inside(start.col + step[1], shown.cols),
      };
      if (at && next.row === at.row && next.col === at.col) events.onBeyond?.(step);
      else point(next);
    }
    if (step || isChoice) event.preventDefault();
  });
  plot.addEventListener('blur', () => point(undefined));

  /** Labels as many rows and columns as are legible. */
  const writeWords = () => {
    if (!shown) return;
    const { rows, cols, rowWords: down = [], colWords: across = [] } = shown;
    const side = Math.max(rows, cols);
    const cell = Math.min(size.height / rows, size.width / cols);
    const room = cell ? WORD_PX / cell : side > MOST_WORDS ? side / SOME_WORDS : 1;
    const every = Math.max(1, Math.ceil(room));
    const thinned = (words: readonly string[]) => words.map((one, i) => (i % every ? '' : one));
    const [rowNames, colNames] = down.length ? [thinned(down), thinned(across)] : [[], []];
    const longest = Math.max(0, ...colNames.map(({ length }) => length));
    inner.style.setProperty('--longest', String(longest));
    inner.style.setProperty('--every', String(every));
    writeLabels(rowWords, rowNames);
    writeLabels(colWords, colNames);
  };
  if (typeof ResizeObserver !== 'undefined')
    new ResizeObserver(([entry]) => {
      size = entry!.contentRect;
      writeWords();
    }).observe(plot);

  return {
    draw(data) {
      const repaint = !shown || shown.data !== data.data || shown.scale !== data.scale;
      shown = data;
      const { rows, cols, outlined = [] } = data;
      place.classList.toggle('bare', !data.rowWords?.length);
      inner.style.setProperty('--cols', String(cols));
      inner.style.setProperty('--rows', String(rows));
      plot.style.aspectRatio = `${cols * (data.cellShape ?? 1)} / ${rows}`;
      plot.setAttribute('aria-label', data.label);
      inner.dataset.row = data.rowTitle ?? '';
      inner.dataset.col = data.colTitle ?? '';
      if (repaint) paint(canvas, data);
      writeWords();
      while (outlines.length > outlined.length) outlines.pop()!.remove();
      while (outlines.length < outlined.length) outlines.push(element('mark outlined', plot));
      outlined.forEach((cell, i) => mark(outlines[i]!, cell, rows, cols));
      remark.hidden = !data.remark;
      remark.className = `remark ${data.remark?.kind ?? ''}`;
      if (remark.textContent !== data.remark?.text) remark.textContent = data.remark?.text ?? '';
      mark(chosen, data.chosen, rows, cols);
      mark(lit, at ?? elsewhere, rows, cols);
      say();
    },
    light(cell) {
      elsewhere = cell;
      if (!shown || at) return;
      mark(lit, cell, shown.rows, shown.cols);
      say();
    },
  };
}
