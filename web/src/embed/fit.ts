/**
 * Lays out a figure in a box of a fixed size, an iframe or an element of a given height. The picture takes at least 65%
 * of the box's smaller side. If other parts leave too little room, they are hidden, first the conditions, then
 * captions, then controls, and a button shows them.
 */
import { html, render } from 'lit';
import { isPrinting } from '../plot/paper';

const PICTURE_SELECTOR =
  '.heatmap, .chart-picture, .arrows > svg, .thumbs, .outputs, .unmask-text, .next, table';
/** The picture takes at least this share of the box's smaller side. */
const MIN_PICTURE_SHARE = 0.65;
const HIDEABLE_PARTS = ['conditions', 'captions', 'controls', 'axes'] as const;
/** Letters may grow by a factor f of ZOOMS in a box whose sides have at least f * SMALL_SCREEN pixels. */
const [ZOOMS, SMALL_SCREEN] = [[2, 1.6, 1.3], 700];
/** Milliseconds until a chart has been redrawn in its new width. */
const SETTLED_MS = 100;
/** Steps of the bisection between the smallest and the full width. */
const HALVINGS = 4;

const DEFAULT_LAYOUT = {
  zoom: 1,
  /** The number of hidden parts, in the order of HIDEABLE. */
  hiddenCount: 0,
  /** Whether only one subject is visible at a time. */
  isSingle: false,
  /** Whether captions and controls are beside the picture. */
  isSide: false,
  /** Whether the pictures of a view are side by side. */
  hasColumns: false,
  /** Whether the reader scrolls to the parts below the first picture. */
  scrolls: false,
};
type Layout = Readonly<typeof DEFAULT_LAYOUT>;

/** Returns the layouts to try, the one with all parts first. */
function layoutsFor(
  { width, height }: DOMRect,
  cellCount: number,
  pictureCount: number,
): readonly Layout[] {
  const columnOptions = pictureCount > cellCount ? [false, true] : [false];
  const variants = (change: Partial<Layout>) =>
    columnOptions.flatMap((hasColumns) =>
      [false, true].map((isSide) => ({ ...DEFAULT_LAYOUT, isSide, hasColumns, ...change })),
    );
  const zooms = ZOOMS.filter((zoom) => Math.min(width, height) >= zoom * SMALL_SCREEN);
  const hiddenCounts = [...HIDEABLE_PARTS.keys(), HIDEABLE_PARTS.length];
  return [
    ...zooms.flatMap((zoom) => variants({ zoom })),
    ...(cellCount > 1 ? [false, true] : [false]).flatMap((isSingle) =>
      hiddenCounts.flatMap((hiddenCount) => variants({ hiddenCount, isSingle })),
    ),
    ...hiddenCounts.map((hiddenCount) => ({
      ...DEFAULT_LAYOUT,
      hiddenCount,
      isSingle: cellCount > 1,
      scrolls: true,
    })),
  ];
}

const isVisible = (element: Element) => element.checkVisibility();

function hasOverflow(room: HTMLElement, { scrolls }: Layout): boolean {
  const isOutside = (element: Element) =>
    (!(scrolls && element.matches('.figure')) && element.scrollHeight > element.clientHeight + 1) ||
    element.scrollWidth > element.clientWidth + 1;
  return [room, ...room.children, ...room.querySelectorAll('.table-place')].some(isOutside);
}

/** Returns the visible pictures; if the reader scrolls, only the first. */
function visiblePictures(room: HTMLElement, { scrolls }: Layout): Element[] {
  const pictures = [...room.querySelectorAll(PICTURE_SELECTOR)].filter(isVisible);
  return scrolls ? pictures.slice(0, 1) : pictures;
}

function largestSide(pictures: readonly Element[]): number {
  return Math.max(
    ...pictures.map((picture) => {
      const { width, height } = picture.getBoundingClientRect();
      return Math.max(width, height);
    }),
  );
}

/** In pixels; a narrower chart would have smaller text. */
const MIN_CHART_WIDTH = 180;
const isTooNarrow = (picture: Element) =>
  picture.matches('.chart-picture') && picture.getBoundingClientRect().width < MIN_CHART_WIDTH;

function applyLayout(room: HTMLElement, layout: Layout, width = '100%'): void {
  const { zoom, hiddenCount, isSingle, isSide, hasColumns, scrolls } = layout;
  room.style.setProperty('--zoom', String(zoom));
  room.style.setProperty('--fit', width);
  room.dataset.without = HIDEABLE_PARTS.slice(0, hiddenCount).join(' ');
  room.classList.toggle('single', isSingle);
  room.classList.toggle('side', isSide);
  room.classList.toggle('columns', hasColumns);
  room.classList.toggle('scrolls', scrolls);
}

/** Applies a layout with the largest picture that fits into the box; returns false if none fits. */
function tryLayout(room: HTMLElement, box: DOMRect, layout: Layout): boolean {
  applyLayout(room, layout);
  const pictures = visiblePictures(room, layout);
  if (!pictures.length) return !hasOverflow(room, layout);
  const requiredSide = MIN_PICTURE_SHARE * Math.min(box.width, box.height);
  const side = largestSide(pictures);
  const isInside = () => {
    const { bottom } = pictures[0]!.getBoundingClientRect();
    return (
      !layout.scrolls || bottom <= room.querySelector('.figure')!.getBoundingClientRect().bottom
    );
  };
  const isFitting = () => !hasOverflow(room, layout) && isInside();
  if (side < requiredSide || pictures.some(isTooNarrow)) return false;
  if (isFitting()) return true;
  const cellsPlace = room.querySelector<HTMLElement>('.cells')!;
  const cellCount = [...cellsPlace.children].filter(isVisible).length;
  const fullWidth = cellsPlace.getBoundingClientRect().width;
  const minWidth = fullWidth - cellCount * (side - requiredSide) + cellCount;
  // The letters' zoom and a deck of slides scale what the style sets.
  const scale = cellsPlace.offsetWidth ? fullWidth / cellsPlace.offsetWidth : layout.zoom;
  const setWidth = (width: number) => applyLayout(room, layout, `${Math.floor(width / scale)}px`);
  setWidth(minWidth);
  if (!isFitting()) return false;
  let [low, high] = [minWidth, fullWidth];
  for (let i = 0; i < HALVINGS; i++) {
    const middle = (low + high) / 2;
    setWidth(middle);
    if (isFitting()) low = middle;
    else high = middle;
  }
  setWidth(low);
  // Checks again: a picture that is taller than wide shrinks by more than its container.
  return largestSide(pictures) >= requiredSide;
}

/** Draws buttons for choosing the visible subject, if only one is visible at a time. */
function drawCellSwitch(room: HTMLElement, chosen: number, choose: (i: number) => void): void {
  const cells = [...room.querySelectorAll('.cells > .cell')];
  const currentIndex = Math.min(chosen, cells.length - 1);
  cells.forEach((cell, i) => cell.classList.toggle('current', i === currentIndex));
  const head = room.querySelector('.figure-head');
  if (!head || cells.length < 2) return;
  let buttonGroup = head.querySelector<HTMLElement>('.cell-switch');
  if (!buttonGroup) {
    buttonGroup = Object.assign(document.createElement('div'), { className: 'cell-switch' });
    buttonGroup.setAttribute('role', 'group');
    buttonGroup.setAttribute('aria-label', 'Model');
    head.prepend(buttonGroup);
  }
  render(
    cells.map(
      (cell, i) =>
        html`<button type="button" aria-pressed=${i === currentIndex} @click=${() => choose(i)}>
          ${cell.querySelector('.cell-head strong')?.textContent}
        </button>`,
    ),
    buttonGroup,
  );
}

/**
 * Fits the figure of `roomOf` into its box.
 * @returns `look`, which the caller calls when the figure or the box changes, `pause`, which restores the figure's own
 *   height until the next look, and `end`, which restores it for good
 */
export function createFitter(
  roomOf: () => HTMLElement | null,
  boxOf: () => DOMRect,
): { readonly look: () => void; readonly pause: () => void; readonly end: () => void } {
  let lastMeasurements = '';
  let layoutIndex = 0;
  let chosenCell = 0;
  let lastRoom: HTMLElement | undefined;
  let isScheduled = false;
  let hasEnded = false;

  const fitRoom = (room: HTMLElement) => {
    const box = boxOf();
    const cellCount = room.querySelectorAll('.cells > .cell').length;
    const pictureCount = room.querySelectorAll(PICTURE_SELECTOR).length;
    const hasFigure = room.querySelector('.figure') !== null;
    room.classList.toggle('fit', hasFigure);
    if (!hasFigure || !box.width || !box.height || isPrinting.peek()) return;
    if (room !== lastRoom) room.addEventListener('click', toggle);
    lastRoom = room;
    if (room.classList.contains('open')) return;
    drawCellSwitch(room, chosenCell, (i) => {
      chosenCell = i;
      lastMeasurements = '';
      schedule();
    });
    const measurements = [box.width, box.height, cellCount, pictureCount].map(Math.round).join(' ');
    const layouts = layoutsFor(box, cellCount, pictureCount);
    const hasChanged = measurements !== lastMeasurements;
    if (!hasChanged && !hasOverflow(room, layouts[layoutIndex]!)) return;
    lastMeasurements = measurements;
    const firstLayout = hasChanged ? 0 : layoutIndex;
    const index = layouts.findIndex(
      (layout, i) => i >= firstLayout && tryLayout(room, box, layout),
    );
    layoutIndex = index < 0 ? layouts.length - 1 : index;
    if (index < 0) applyLayout(room, layouts.at(-1)!);
    else setTimeout(schedule, SETTLED_MS);
  };
  const toggle = ({ target }: Event) => {
    const button = (target as Element).closest('.info');
    if (!button || !lastRoom) return;
    const isOpen = lastRoom.classList.toggle('open');
    button.setAttribute('aria-expanded', String(isOpen));
    if (isOpen) applyLayout(lastRoom, DEFAULT_LAYOUT);
    lastMeasurements = '';
    schedule();
  };
  const schedule = () => {
    if (isScheduled || hasEnded) return;
    isScheduled = true;
    requestAnimationFrame(() => {
      isScheduled = false;
      const room = roomOf();
      if (room && !hasEnded) fitRoom(room);
    });
  };
  const pause = () => {
    lastMeasurements = '';
    lastRoom?.classList.remove('fit', 'open');
    if (lastRoom) applyLayout(lastRoom, DEFAULT_LAYOUT);
  };
  return {
    look: schedule,
    pause,
    end() {
      hasEnded = true;
      pause();
    },
  };
}
