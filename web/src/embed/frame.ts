/**
 * embed.html in a frame. Without a word from the frame's holder the embed fits into the frame that it got. Where
 * the holder has sink-scope.js, that script lets the frame follow the height that the embed reports, and says
 * the theme of the holder's page.
 *
 * A height is no secret, so any holder may read it; sink-scope.js listens to frames of this site alone.
 */
import type { Theme } from '../plot/color';

/**
 * Ways to lay out, the most legible first: the zoom, whether the caption is at the figure's side and the parts of a
 * figure beside each other, and the figure's width.
 */
interface Layout {
  readonly zoom: number;
  readonly isSide: boolean;
  readonly share: number;
  readonly hasColumns: boolean;
}
const LAYOUTS: readonly Layout[] = [1, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4].flatMap((zoom) =>
  (
    [
      [false, 1],
      [false, 0.85],
      [true, 1],
      [true, 0.85],
      [false, 1, true],
      [true, 1, true],
      [false, 0.7],
      [true, 0.7],
      [false, 0.75, true],
      [true, 0.75, true],
      [false, 0.55],
      [true, 0.55],
      [false, 0.45],
      [true, 0.4],
    ] as const
  ).map(([isSide, share, hasColumns = false]) => ({ zoom, isSide, share, hasColumns })),
);

/** After which a chart has been drawn in the width that it got. */
const SETTLED_MS = 100;

const { body } = document;

/** Whether anything of the embed is outside of the frame. */
function isCut(room: Element): boolean {
  const beyond = (one: Element) =>
    one.scrollHeight > one.clientHeight + 1 || one.scrollWidth > one.clientWidth + 1;
  const parts = [room, ...room.children, ...room.querySelectorAll('.table-place')];
  return beyond(document.documentElement) || parts.some(beyond);
}

function lay({ zoom, isSide, share, hasColumns }: Layout): void {
  body.style.setProperty('--zoom', String(zoom));
  body.style.setProperty('--fit', `${Math.round(100 * share)}%`);
  body.classList.toggle('side', isSide);
  body.classList.toggle('columns', hasColumns);
}

/** Lays out the room again. @param from the first layout that is tried @returns the layout's place */
function fit(room: Element, from: number): number {
  body.classList.remove('scrolls');
  for (let i = from; i < LAYOUTS.length; i++) {
    lay(LAYOUTS[i]!);
    if (!isCut(room)) return i;
  }
  // A long table in a small frame: its controls and its caption stay where they are.
  body.classList.add('scrolls');
  lay({ zoom: 0.7, isSide: false, share: 1, hasColumns: false });
  return LAYOUTS.length;
}

/** @param onTheme called with the theme of the holder's page */
export function startFrame(onTheme: (theme: Theme) => void): void {
  if (parent === window) return;
  body.classList.add('fit');
  const main = document.querySelector('main')!;
  let fitted = '';
  let place = 0;
  let isDue = false;
  const look = () => {
    if (isDue) return;
    isDue = true;
    requestAnimationFrame(() => {
      isDue = false;
      const isFit = body.classList.contains('fit');
      const room = document.querySelector('.room-figure');
      const size = `${innerWidth} ${innerHeight}`;
      const isResized = size !== fitted;
      if (isFit && room && (isResized || isCut(room))) {
        fitted = size;
        const from = isResized || room !== last.room ? 0 : place;
        last.room = room;
        if (from < LAYOUTS.length) {
          place = fit(room, from);
          // A chart takes its new width a moment later, and may then need the next layout.
          setTimeout(look, SETTLED_MS);
        }
      }
      report();
    });
  };
  const last: { height: number; room?: Element } = { height: 0 };
  const report = () => {
    const wanted = Math.ceil(body.getBoundingClientRect().height);
    if (wanted === last.height) return;
    last.height = wanted;
    parent.postMessage({ sinkscope: 'height', height: wanted }, '*');
  };
  addEventListener('resize', look);
  new MutationObserver(look).observe(main, {
    childList: true,
    characterData: true,
    subtree: true,
  });
  new ResizeObserver(look).observe(body);
  addEventListener('message', ({ source, data }) => {
    if (source !== parent || data?.sinkscope !== 'host') return;
    if (data.theme === 'light' || data.theme === 'dark') onTheme(data.theme);
    if (!data.follows) return;
    body.classList.remove('fit', 'side', 'columns', 'scrolls');
    look();
  });
}
