/**
 * Lays out a figure in a box of a fixed size, an iframe or an element of a given height. The picture takes at least 65%
 * of the box's smaller side. If other parts leave too little room, they are hidden, first the conditions, then
 * captions, then controls, and a button shows them.
 */
import { html, render } from 'lit';
import { isPrinting } from '../plot/paper';

/** Selects the pictures of views; charts and maps fill the width that they get. */
const PICTURES =
  '.heatmap, .chart-picture, .arrows > svg, .thumbs, .outputs, .rose, .unmask-text, .next, table';
/** The smallest share of the box's smaller side that the picture takes. */
const LEAST_SHARE = 0.65;
/** The parts that can be hidden, in the order of hiding. */
const HIDEABLE = ['conditions', 'captions', 'controls', 'axes'] as const;
/** The factors of larger letters, each for boxes as many times as large as a small screen, and that screen's pixels. */
const [ZOOMS, SMALL_SCREEN] = [[2, 1.6, 1.3], 700];
/** The delay after which a chart has been redrawn in its new width. */
const SETTLED_MS = 100;
/** The number of steps of the bisection between the smallest and the full width. */
const HALVINGS = 4;

interface Layout {
  readonly zoom: number;
  /** How many of `GIVING` are hidden. */
  readonly without: number;
  /** Whether one subject is shown at a time. */
  readonly isSingle: boolean;
  /** Whether captions and controls are to the side of the picture, and the pictures of a view side by side. */
  readonly isSide: boolean;
  readonly hasColumns: boolean;
  /** Whether the reader scrolls to the parts below the first picture. */
  readonly scrolls: boolean;
}

const PLAIN: Layout = {
  ...{ zoom: 1, without: 0 },
  ...{ isSingle: false, isSide: false, hasColumns: false, scrolls: false },
};

/** Returns the layouts to try, from that with all parts to that with the fewest. */
function layoutsFor(
  { width, height }: DOMRect,
  cells: number,
  pictures: number,
): readonly Layout[] {
  const columns = pictures > cells ? [false, true] : [false];
  const arranged = (change: Partial<Layout>) =>
    columns.flatMap((hasColumns) =>
      [false, true].map((isSide) => ({ ...PLAIN, isSide, hasColumns, ...change })),
    );
  const larger = ZOOMS.filter((zoom) => Math.min(width, height) >= zoom * SMALL_SCREEN);
  const steps = [...HIDEABLE.keys(), HIDEABLE.length];
  return [
    ...larger.flatMap((zoom) => arranged({ zoom })),
    ...(cells > 1 ? [false, true] : [false]).flatMap((isSingle) =>
      steps.flatMap((without) => arranged({ without, isSingle })),
    ),
    ...steps.map((without) => ({ ...PLAIN, without, isSingle: cells > 1, scrolls: true })),
  ];
}

const isSeen = (one: Element) => one.checkVisibility();

function isCut(room: HTMLElement, { scrolls }: Layout): boolean {
  const isOutside = (one: Element) =>
    (!(scrolls && one.matches('.figure')) && one.scrollHeight > one.clientHeight + 1) ||
    one.scrollWidth > one.clientWidth + 1;
  return [room, ...room.children, ...room.querySelectorAll('.table-place')].some(isOutside);
}

/** Returns the visible pictures; only the first if the reader scrolls to the others. */
function readPictures(room: HTMLElement, { scrolls }: Layout): Element[] {
  const all = [...room.querySelectorAll(PICTURES)].filter(isSeen);
  return scrolls ? all.slice(0, 1) : all;
}

/** Returns the longer side of the largest picture, in pixels. */
function sideOf(pictures: readonly Element[]): number {
  return Math.max(
    ...pictures.map((one) => {
      const { width, height } = one.getBoundingClientRect();
      return Math.max(width, height);
    }),
  );
}

/** The width in pixels below which a chart shrinks its letters. */
const CHART_PX = 180;
const isTooNarrow = (one: Element) =>
  one.matches('.chart-picture') && one.getBoundingClientRect().width < CHART_PX;

/** Applies a layout to the figure. */
function applyLayout(room: HTMLElement, layout: Layout, width = '100%'): void {
  const { zoom, without, isSingle, isSide, hasColumns, scrolls } = layout;
  room.style.setProperty('--zoom', String(zoom));
  room.style.setProperty('--fit', width);
  room.dataset.without = HIDEABLE.slice(0, without).join(' ');
  room.classList.toggle('single', isSingle);
  room.classList.toggle('side', isSide);
  room.classList.toggle('columns', hasColumns);
  room.classList.toggle('scrolls', scrolls);
}

/** Applies a layout with the largest picture that fits into the box; returns whether one fits. */
function tryLayout(room: HTMLElement, box: DOMRect, layout: Layout): boolean {
  applyLayout(room, layout);
  const pictures = readPictures(room, layout);
  if (!pictures.length) return !isCut(room, layout);
  const need = LEAST_SHARE * Math.min(box.width, box.height);
  const side = sideOf(pictures);
  const isInside = () => {
    const { bottom } = pictures[0]!.getBoundingClientRect();
    return (
      !layout.scrolls || bottom <= room.querySelector('.figure')!.getBoundingClientRect().bottom
    );
  };
  const holds = () => !isCut(room, layout) && isInside();
  if (side < need || pictures.some(isTooNarrow)) return false;
  if (holds()) return true;
  // A map is square, and the parts to its side keep their width.
  const place = room.querySelector('.cells')!;
  const cells = [...place.children].filter(isSeen).length;
  const full = place.getBoundingClientRect().width;
  const least = full - cells * (side - need) + cells;
  const setWidth = (width: number) =>
    applyLayout(room, layout, `${Math.floor(width / layout.zoom)}px`);
  setWidth(least);
  if (!holds()) return false;
  let [low, high] = [least, full];
  for (let i = 0; i < HALVINGS; i++) {
    const middle = (low + high) / 2;
    setWidth(middle);
    if (holds()) low = middle;
    else high = middle;
  }
  setWidth(low);
  // Checks again, since a picture that is taller than wide shrinks by more than its place.
  return sideOf(pictures) >= need;
}

/** Draws buttons that choose the visible subject, if only one is visible at a time. */
function drawSwitch(room: HTMLElement, chosen: number, choose: (i: number) => void): void {
  const cells = [...room.querySelectorAll('.cells > .cell')];
  const at = Math.min(chosen, cells.length - 1);
  cells.forEach((cell, i) => cell.classList.toggle('current', i === at));
  const head = room.querySelector('.figure-head');
  if (!head || cells.length < 2) return;
  let place = head.querySelector<HTMLElement>('.cell-switch');
  if (!place) {
    place = Object.assign(document.createElement('div'), { className: 'cell-switch' });
    place.setAttribute('role', 'group');
    place.setAttribute('aria-label', 'Model');
    head.prepend(place);
  }
  render(
    cells.map(
      (cell, i) =>
        html`<button type="button" aria-pressed=${i === at} @click=${() => choose(i)}>
          ${cell.querySelector('.cell-head strong')?.textContent}
        </button>`,
    ),
    place,
  );
}

/**
 * Fits the figure of `roomOf` into its box.
 * @returns `look`, to call after a change of figure or box, and `end`, which restores the figure's own height
 */
export function fitting(
  roomOf: () => HTMLElement | null,
  boxOf: () => DOMRect,
): { readonly look: () => void; readonly end: () => void } {
  let fitted = '';
  let place = 0;
  let layoutIndex = 0;
  let last: HTMLElement | undefined;
  let isDue = false;
  let isOver = false;

  const settle = (room: HTMLElement) => {
    const box = boxOf();
    const cells = room.querySelectorAll('.cells > .cell').length;
    const pictures = room.querySelectorAll(PICTURES).length;
    const isWhole = !room.querySelector('.figure');
    room.classList.toggle('fit', !isWhole);
    if (isWhole || !box.width || !box.height || isPrinting.peek()) return;
    if (room !== last) room.addEventListener('click', toggle);
    last = room;
    if (room.classList.contains('open')) return;
    drawSwitch(room, layoutIndex, (i) => {
      layoutIndex = i;
      fitted = '';
      look();
    });
    const measurements = [box.width, box.height, cells, pictures]
      .map((one) => one.toFixed(0))
      .join(' ');
    const layouts = layoutsFor(box, cells, pictures);
    const isOther = measurements !== fitted;
    if (!isOther && !isCut(room, layouts[place]!)) return;
    fitted = measurements;
    const firstLayout = isOther ? 0 : place;
    const index = layouts.findIndex(
      (layout, i) => i >= firstLayout && tryLayout(room, box, layout),
    );
    place = index < 0 ? layouts.length - 1 : index;
    if (index < 0) applyLayout(room, layouts.at(-1)!);
    // A chart takes its new width a moment later, and may then need the next layout.
    else setTimeout(look, SETTLED_MS);
  };
  const toggle = ({ target }: Event) => {
    const button = (target as Element).closest('.info');
    if (!button || !last) return;
    const isOpen = last.classList.toggle('open');
    button.setAttribute('aria-expanded', String(isOpen));
    if (isOpen) applyLayout(last, PLAIN);
    fitted = '';
    look();
  };
  const look = () => {
    if (isDue || isOver) return;
    isDue = true;
    requestAnimationFrame(() => {
      isDue = false;
      const room = roomOf();
      if (room && !isOver) settle(room);
    });
  };
  return {
    look,
    end() {
      isOver = true;
      last?.classList.remove('fit', 'open');
      if (last) applyLayout(last, PLAIN);
    },
  };
}
