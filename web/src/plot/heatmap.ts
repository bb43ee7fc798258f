/**
 * Draws any matrix as colors: one pixel per cell, scaled up without smoothing. The pointer or the arrow keys point at a
 * cell, which is marked and described; a click or Enter chooses the cell, and with Shift extends the choice to it. Words
 * label rows and columns, as far as they fit.
 */
import { html, render } from 'lit';
import { partOf } from '../parts';
import { stepOf, type Scale } from './color';

export type Cell = { readonly row: number; readonly col: number };

interface HeatmapData {
  readonly rows: number;
  readonly cols: number;
  readonly data: ArrayLike<number>;
  readonly scale: Scale;
  readonly label: string;
  /** The chosen cell, which is marked; a negative index marks a whole row or column. */
  readonly chosen?: Cell;
  readonly chosenCols?: number;
  /** The row whose word is bold, and always there. */
  readonly boldRow?: number | undefined;
  /** Cells that are outlined for their values. */
  readonly outlined?: readonly Cell[];
  /** Notes beside the last cells of rows, where later tokens are not visible. */
  readonly rowMarks?: readonly (readonly [row: number, text: string])[];
  readonly rowTitle?: string;
  readonly colTitle?: string;
  readonly rowWords?: readonly string[];
  readonly colWords?: readonly string[];
  /** Whether masked cells below the diagonal are hatched: their keys were evicted. */
  readonly isHatched?: boolean;
  /** The pixels that a word takes along the map; WORD_PX if absent. */
  readonly wordPx?: number;
  /** A remark that is written on the map. `kind` is a CSS class, which sets its place and color; `col` is its column. */
  readonly remark?: { readonly text: string; readonly kind: string; readonly col?: number };
  /** The ratio of a cell's width to its height; 1 if absent. */
  readonly cellShape?: number;
  /** Returns the readout of the pointed, chosen or remotely pointed cell; row and column are -1 if there is none. */
  readonly describe: (cell: Cell) => string;
}

interface HeatmapEvents {
  /** Called with the cell under the pointer; with undefined when the pointer leaves the map. */
  readonly onPoint?: (cell: Cell | undefined) => void;
  readonly onChoose?: (cell: Cell) => void;
  /** Called when the choice is extended from one cell to another: by a click with Shift, or by Shift and an arrow key. */
  readonly onExtend?: (from: Cell, to: Cell) => void;
  /** Called when an arrow key leaves the picture, with its step in rows down and columns to the right. */
  readonly onBeyond?: (step: readonly [number, number]) => void;
}

export interface Heatmap {
  draw(data: HeatmapData): void;
  /** Marks the cell that is pointed at in another map. */
  highlight(cell: Cell | undefined): void;
}

const ARROWS: Readonly<Record<string, readonly [number, number]>> = {
  ArrowUp: [-1, 0],
  ArrowDown: [1, 0],
  ArrowLeft: [0, -1],
  ArrowRight: [0, 1],
};
/** Until its size on the screen is known, a map of up to MAX_WORDS rows has all labels, others about THINNED_WORDS. */
const [MAX_WORDS, THINNED_WORDS] = [44, 30];
/** The number of pixels that a word takes along a map: letters of 11 pixels and a gap. */
const WORD_PX = 12;

function addDiv(name: string, parent: Element): HTMLElement {
  const node = document.createElement('div');
  node.className = name;
  parent.append(node);
  return node;
}

/** Draws a matrix into a canvas of one pixel a cell. */
export function paint(
  canvas: HTMLCanvasElement,
  {
    rows,
    cols,
    data,
    scale,
    isHatched,
  }: Pick<HeatmapData, 'rows' | 'cols' | 'data' | 'scale' | 'isHatched'>,
): void {
  if (canvas.width !== cols) canvas.width = cols;
  if (canvas.height !== rows) canvas.height = rows;
  const context = canvas.getContext('2d');
  if (!context) return;
  const image = context.createImageData(cols, rows);
  const pixels = new Uint32Array(image.data.buffer);
  pixels.forEach((_, i) => {
    const step = stepOf(scale, data[i]!);
    const [row, col] = [Math.floor(i / cols), i % cols];
    const isLine = isHatched && col <= row && (row + col) % 4 === 0;
    pixels[i] = step >= 0 ? scale.colors[step]! : isLine ? scale.hatch : scale.hidden;
  });
  context.putImageData(image, 0, 0);
}

/** Frames a cell, or a whole row or column if one index is negative; `span` columns if it is more than 1. */
function mark(
  frame: HTMLElement,
  cell: Cell | undefined,
  { rows, cols }: Pick<HeatmapData, 'rows' | 'cols'>,
  span = 1,
): void {
  frame.hidden = !cell || (cell.row < 0 && cell.col < 0) || cell.row >= rows || cell.col >= cols;
  if (!cell) return;
  const isRow = cell.col < 0;
  const isColumn = cell.row < 0;
  frame.style.left = `${isRow ? 0 : (100 * cell.col) / cols}%`;
  frame.style.width = `${isRow ? 100 : (100 * span) / cols}%`;
  frame.style.top = `${isColumn ? 0 : (100 * cell.row) / rows}%`;
  frame.style.height = `${isColumn ? 100 : 100 / rows}%`;
}

/** The number of letters of a label that fit next to every map. */
const LABEL_LETTERS = 6;

/** Returns labels for words. Long words that begin alike lose their common beginning, so that their labels differ. */
export function distinctLabels(words: readonly string[]): string[] {
  const wordsByPrefix = new Map<string, Set<string>>();
  const prefixOf = (word: string) => word.slice(0, LABEL_LETTERS);
  for (const word of words)
    wordsByPrefix.set(prefixOf(word), (wordsByPrefix.get(prefixOf(word)) ?? new Set()).add(word));
  return words.map((word) => {
    const samePrefix = [...wordsByPrefix.get(prefixOf(word))!];
    if (word.length <= LABEL_LETTERS || samePrefix.length < 2) return word;
    let commonLength = LABEL_LETTERS;
    while (
      samePrefix.every(
        (other) => other.slice(0, commonLength + 1) === word.slice(0, commonLength + 1),
      )
    )
      commonLength++;
    return `…${word.slice(Math.min(commonLength, word.length - 1))}`;
  });
}

/** Writes the labels of rows or columns; '' means none. */
function writeLabels(container: HTMLElement, words: readonly string[] = [], bold = -1): void {
  // Style sheets truncate a label that is too long; the title has the whole word.
  const spans = distinctLabels(words).map(
    (label, i) =>
      html`<span
        class=${`${label.trim().length > 1 ? '' : 'letter'} ${i === bold ? 'bold' : ''}`.trim()}
        title=${words[i]!}
        >${label}</span
      >`,
  );
  render(spans, container);
}

/** Names a map's role, and lets its readout be said while arrow keys move in the map: the room announces new results. */
function describeMatrix(plot: HTMLElement, readout: HTMLElement): void {
  plot.tabIndex = 0;
  plot.setAttribute('role', 'application');
  plot.setAttribute('aria-roledescription', 'matrix');
  plot.setAttribute('aria-label', 'Not drawn yet');
  plot.addEventListener('focus', () => readout.setAttribute('aria-live', 'polite'));
  plot.addEventListener('blur', () => readout.removeAttribute('aria-live'));
}

/** Returns the cell under the pointer; undefined beside the map. */
function cellAt(
  plot: Element,
  { clientX, clientY }: MouseEvent,
  { rows, cols }: Pick<HeatmapData, 'rows' | 'cols'>,
): Cell | undefined {
  const { left, top, width, height } = plot.getBoundingClientRect();
  const col = Math.floor(((clientX - left) / width) * cols);
  const row = Math.floor(((clientY - top) / height) * rows);
  const isInside = row >= 0 && col >= 0 && row < rows && col < cols;
  return isInside ? { row, col } : undefined;
}

/** Moves a cell by a step of an arrow key, at most to the border. */
const movedCell = (
  { row, col }: Cell,
  [down, right]: readonly [number, number],
  { rows, cols }: Pick<HeatmapData, 'rows' | 'cols'>,
): Cell => ({
  row: Math.min(rows - 1, Math.max(0, row + down)),
  col: Math.min(cols - 1, Math.max(0, col + right)),
});

class DrawnHeatmap implements Heatmap {
  readonly #events: HeatmapEvents;
  readonly #container: HTMLElement;
  readonly #inner: HTMLElement;
  readonly #rowLabels: HTMLElement;
  readonly #plot: HTMLElement;
  readonly #colLabels: HTMLElement;
  readonly #canvas = document.createElement('canvas');
  readonly #pointedMark: HTMLElement;
  readonly #chosenMark: HTMLElement;
  readonly #remark: HTMLElement;
  readonly #outlines: HTMLElement[] = [];
  readonly #rowMarks: HTMLElement[] = [];
  readonly #readout: HTMLElement;
  #data: HeatmapData | undefined;
  /** The map's size on the screen in pixels; 0 before the map is drawn. */
  #size = { width: 0, height: 0 };
  #pointedCell: Cell | undefined;
  #remoteCell: Cell | undefined;

  constructor(root: Element, events: HeatmapEvents) {
    this.#events = events;
    this.#container = addDiv('map-place', root);
    this.#inner = addDiv('map-inner', this.#container);
    this.#rowLabels = addDiv('row-words', this.#inner);
    this.#plot = addDiv('heatmap', this.#inner);
    this.#colLabels = addDiv('col-words', this.#inner);
    for (const labels of [this.#rowLabels, this.#colLabels])
      labels.setAttribute('aria-hidden', 'true');
    this.#plot.append(this.#canvas);
    this.#pointedMark = addDiv('mark lit', this.#plot);
    this.#chosenMark = addDiv('mark chosen', this.#plot);
    this.#remark = addDiv('remark', this.#plot);
    this.#readout = addDiv('readout', root);
    this.#pointedMark.hidden = this.#chosenMark.hidden = this.#remark.hidden = true;
    describeMatrix(this.#plot, this.#readout);
    this.#listen();
  }

  #listen(): void {
    const plot = this.#plot;
    const cellUnder = (event: MouseEvent) => this.#data && cellAt(plot, event, this.#data);
    plot.addEventListener('pointermove', (event) => this.#pointAt(cellUnder(event)));
    plot.addEventListener('pointerleave', () => this.#pointAt(undefined));
    plot.addEventListener('blur', () => this.#pointAt(undefined));
    plot.addEventListener('click', (event) => {
      const cell = cellUnder(event);
      if (!cell) return;
      // A tap sends no pointermove, so the click points at its cell.
      this.#pointAt(cell);
      const { chosen } = this.#data ?? {};
      const { onChoose, onExtend } = this.#events;
      if (event.shiftKey && chosen && onExtend) onExtend(chosen, cell);
      else onChoose?.(cell);
    });
    plot.addEventListener('keydown', (event) => this.#handleKey(event));
    if (typeof ResizeObserver !== 'undefined')
      new ResizeObserver(([entry]) => {
        this.#size = entry!.contentRect;
        this.#labelAxes();
      }).observe(plot);
  }

  #handleKey(event: KeyboardEvent): void {
    if (!this.#data) return;
    const { row, col } = this.#pointedCell ?? this.#data.chosen ?? { row: 0, col: 0 };
    const cell = { row: Math.max(0, row), col: Math.max(0, col) };
    const step = ARROWS[event.key];
    const isChoice = event.key === 'Enter' || event.key === ' ';
    if (!step && !isChoice) return;
    event.preventDefault();
    const { onBeyond, onChoose, onExtend } = this.#events;
    if (!step) return onChoose?.(cell);
    const next = movedCell(cell, step, this.#data);
    const { row: pointedRow, col: pointedCol } = this.#pointedCell ?? {};
    if (next.row === pointedRow && next.col === pointedCol) return onBeyond?.(step);
    this.#pointAt(next);
    if (event.shiftKey) onExtend?.(cell, next);
  }

  #pointAt(cell: Cell | undefined): void {
    if (cell?.row === this.#pointedCell?.row && cell?.col === this.#pointedCell?.col) return;
    this.#pointedCell = cell;
    if (!this.#data) return;
    this.#drawPointed(this.#data);
    this.#events.onPoint?.(cell);
  }

  #drawPointed(data: HeatmapData): void {
    const cell = this.#pointedCell ?? this.#remoteCell;
    mark(this.#pointedMark, cell, data);
    const text = data.describe(cell ?? data.chosen ?? { row: -1, col: -1 });
    if (this.#readout.textContent !== text) this.#readout.textContent = text;
  }

  #labelAxes(): void {
    if (!this.#data) return;
    const { rows, cols, rowWords = [], colWords = [], wordPx = WORD_PX, boldRow } = this.#data;
    const side = Math.max(rows, cols);
    const cell = Math.min(this.#size.height / rows, this.#size.width / cols);
    const cellsPerWord = cell ? wordPx / cell : side > MAX_WORDS ? side / THINNED_WORDS : 1;
    const stride = Math.max(1, Math.ceil(cellsPerWord));
    const thinOut = (words: readonly string[], kept = 0) => {
      // Characters of several tokens have a rhythm of their own.
      let next = partOf(words[kept] ?? '') ? 0 : kept % stride;
      return words.map((word, i) => {
        // Where not all words fit, a character whose bytes are tokens has one label.
        const { character = word, part = 1 } = (stride > 1 && partOf(word)) || {};
        if (i !== kept && (i < next || part > 1 || (i < kept && i + stride > kept))) return '';
        next = i + stride;
        return character;
      });
    };
    const [rowNames, colNames] = rowWords.length
      ? [thinOut(rowWords, boldRow), thinOut(colWords)]
      : [[], []];
    const maxLabelLength = Math.max(0, ...colNames.map(({ length }) => length));
    this.#inner.style.setProperty('--longest', String(maxLabelLength));
    this.#inner.style.setProperty('--every', String(stride));
    writeLabels(this.#rowLabels, rowNames, boldRow);
    writeLabels(this.#colLabels, colNames);
  }

  #drawRowMarks({ rows, cols, rowMarks = [] }: HeatmapData): void {
    const marks = this.#rowMarks;
    while (marks.length > rowMarks.length) marks.pop()!.remove();
    while (marks.length < rowMarks.length) marks.push(addDiv('row-mark', this.#plot));
    rowMarks.forEach(([row, text], i) => {
      marks[i]!.style.top = `${(100 * (row + 0.5)) / rows}%`;
      // The diagonal ends in the last column.
      marks[i]!.style.left = `${(100 * (row + 1.5 + cols - rows)) / cols}%`;
      marks[i]!.textContent = text;
    });
  }

  draw(data: HeatmapData): void {
    const needsPaint = this.#data?.data !== data.data || this.#data.scale !== data.scale;
    this.#data = data;
    const { rows, cols, outlined = [], remark } = data;
    const [plot, inner, outlines] = [this.#plot, this.#inner, this.#outlines];
    this.#container.classList.toggle('bare', !data.rowWords?.length);
    inner.style.setProperty('--cols', String(cols));
    inner.style.setProperty('--rows', String(rows));
    plot.style.aspectRatio = `${cols * (data.cellShape ?? 1)} / ${rows}`;
    plot.setAttribute('aria-label', data.label);
    inner.dataset.row = data.rowTitle ?? '';
    inner.dataset.col = data.colTitle ?? '';
    if (needsPaint) paint(this.#canvas, data);
    this.#labelAxes();
    while (outlines.length > outlined.length) outlines.pop()!.remove();
    while (outlines.length < outlined.length) outlines.push(addDiv('mark outlined', plot));
    outlined.forEach((cell, i) => mark(outlines[i]!, cell, data));
    this.#drawRowMarks(data);
    this.#remark.hidden = !remark;
    this.#remark.className = `remark ${remark?.kind ?? ''}`;
    this.#remark.style.setProperty('--col', String(remark?.col ?? 0));
    // Without a gray corner the remark is on cells.
    this.#remark.classList.toggle('covering', !Number.isNaN(data.data[cols - 1]));
    if (this.#remark.textContent !== remark?.text) this.#remark.textContent = remark?.text ?? '';
    mark(this.#chosenMark, data.chosen, data, data.chosenCols);
    this.#drawPointed(data);
  }

  highlight(cell: Cell | undefined): void {
    this.#remoteCell = cell;
    if (!this.#pointedCell && this.#data) this.#drawPointed(this.#data);
  }
}

export const createHeatmap = (root: Element, events: HeatmapEvents = {}): Heatmap =>
  new DrawnHeatmap(root, events);
