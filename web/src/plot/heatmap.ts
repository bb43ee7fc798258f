/**
 * A matrix as colours: one pixel a cell, scaled up without smoothing. It knows no attention: arrays
 * in, picture and events out.
 *
 * The cell under the pointer, or the one that the arrow keys move, is marked and named; a click or
 * Enter chooses it.
 */
import type { Scale } from './color';

export interface Cell {
  readonly row: number;
  readonly col: number;
}

export interface HeatmapData {
  readonly rows: number;
  readonly cols: number;
  readonly data: ArrayLike<number>;
  readonly scale: Scale;
  /** One sentence that stands for the picture. */
  readonly label: string;
  /** Marked cells: chosen, and lit from elsewhere. A negative index marks a whole line. */
  readonly chosen?: Cell;
  readonly lit?: Cell;
  /** Cells that stand out for what they hold. */
  readonly outlined?: readonly Cell[];
  readonly rowTitle?: string;
  readonly colTitle?: string;
  /** Width of a cell over its height; 1 if absent. */
  readonly cellShape?: number;
  /** What a cell says when it is pointed at. */
  readonly describe: (cell: Cell) => string;
}

export interface HeatmapEvents {
  /** undefined when the pointer leaves. */
  readonly onPoint?: (cell: Cell | undefined) => void;
  readonly onChoose?: (cell: Cell) => void;
}

export interface Heatmap {
  draw(data: HeatmapData): void;
}

const ARROWS: Readonly<Record<string, readonly [number, number]>> = {
  ArrowUp: [-1, 0],
  ArrowDown: [1, 0],
  ArrowLeft: [0, -1],
  ArrowRight: [0, 1],
};

function element(name: string, parent: Element): HTMLElement {
  const made = document.createElement('div');
  made.className = name;
  parent.append(made);
  return made;
}

/** Draws a matrix into a canvas of one pixel a cell. */
export function paint(
  canvas: HTMLCanvasElement,
  { rows, cols, data, scale }: Pick<HeatmapData, 'rows' | 'cols' | 'data' | 'scale'>,
): void {
  canvas.width = cols;
  canvas.height = rows;
  const context = canvas.getContext('2d');
  if (!context) return;
  const image = context.createImageData(cols, rows);
  for (let i = 0; i < rows * cols; i++) {
    const [r, g, b] = scale(data[i]);
    image.data.set([r, g, b, 255], 4 * i);
  }
  context.putImageData(image, 0, 0);
}

/** Puts a frame round a cell, or round a whole row or column where one index is negative. */
function mark(frame: HTMLElement, cell: Cell | undefined, rows: number, cols: number): void {
  frame.hidden = !cell || (cell.row < 0 && cell.col < 0) || cell.row >= rows || cell.col >= cols;
  if (!cell || frame.hidden) return;
  const wide = cell.col < 0;
  const tall = cell.row < 0;
  frame.style.left = `${wide ? 0 : (100 * cell.col) / cols}%`;
  frame.style.width = `${wide ? 100 : 100 / cols}%`;
  frame.style.top = `${tall ? 0 : (100 * cell.row) / rows}%`;
  frame.style.height = `${tall ? 100 : 100 / rows}%`;
}

/** Frames round the cells that stand out, one element each. */
function outline(plot: HTMLElement, { outlined = [], rows, cols }: HeatmapData): void {
  for (const old of plot.querySelectorAll('.mark.outlined')) old.remove();
  for (const cell of outlined) mark(element('mark outlined', plot), cell, rows, cols);
}

export function createHeatmap(root: Element, events: HeatmapEvents = {}): Heatmap {
  const plot = element('heatmap', root);
  const canvas = document.createElement('canvas');
  plot.append(canvas);
  const lit = element('mark lit', plot);
  const chosen = element('mark chosen', plot);
  const readout = element('readout', root);
  plot.tabIndex = 0;
  plot.setAttribute('role', 'application');
  plot.setAttribute('aria-roledescription', 'matrix');
  readout.setAttribute('aria-live', 'polite');
  let shown: HeatmapData | undefined;
  let at: Cell | undefined;

  const point = (cell: Cell | undefined) => {
    at = cell;
    if (!shown) return;
    mark(lit, cell ?? shown.lit, shown.rows, shown.cols);
    readout.textContent = shown.describe(cell ?? shown.lit ?? shown.chosen ?? { row: -1, col: -1 });
    events.onPoint?.(cell);
  };
  const under = (event: PointerEvent): Cell | undefined => {
    if (!shown) return undefined;
    const box = plot.getBoundingClientRect();
    const col = Math.floor(((event.clientX - box.left) / box.width) * shown.cols);
    const row = Math.floor(((event.clientY - box.top) / box.height) * shown.rows);
    const inside = row >= 0 && col >= 0 && row < shown.rows && col < shown.cols;
    return inside ? { row, col } : undefined;
  };

  plot.addEventListener('pointermove', (event) => {
    const cell = under(event);
    if (cell?.row !== at?.row || cell?.col !== at?.col) point(cell);
  });
  plot.addEventListener('pointerleave', () => point(undefined));
  plot.addEventListener('click', (event) => {
    const cell = under(event as PointerEvent);
    if (cell) events.onChoose?.(cell);
  });
  plot.addEventListener('keydown', (event) => {
    if (!shown) return;
    const from = at ?? shown.chosen ?? { row: 0, col: 0 };
    const start = { row: Math.max(0, from.row), col: Math.max(0, from.col) };
    if (event.key === 'Enter' || event.key === ' ') events.onChoose?.(start);
    const step = ARROWS[event.key];
    if (step)
      point({
        row: Math.min(shown.rows - 1, Math.max(0, start.row + step[0])),
        col: Math.min(shown.cols - 1, Math.max(0, start.col + step[1])),
      });
    if (step || event.key === 'Enter' || event.key === ' ') event.preventDefault();
  });
  plot.addEventListener('blur', () => point(undefined));

  return {
    draw(data) {
      const repaint = !shown || shown.data !== data.data || shown.scale !== data.scale;
      shown = data;
      plot.style.aspectRatio = `${data.cols * (data.cellShape ?? 1)} / ${data.rows}`;
      plot.setAttribute('aria-label', data.label);
      plot.dataset.row = data.rowTitle ?? '';
      plot.dataset.col = data.colTitle ?? '';
      if (repaint) paint(canvas, data);
      outline(plot, data);
      mark(chosen, data.chosen, data.rows, data.cols);
      mark(lit, at ?? data.lit, data.rows, data.cols);
      readout.textContent = data.describe(at ?? data.lit ?? data.chosen ?? { row: -1, col: -1 });
    },
  };
}
