/** A colour scale with its two ends written beside it. */
import { css, type Scale } from './color';

const STEPS = 24;
const drawn = new WeakMap<HTMLElement, { scale: Scale; ends: string }>();

export function drawLegend(root: HTMLElement, scale: Scale, ends: readonly [string, string]): void {
  const before = drawn.get(root);
  if (before?.scale === scale && before.ends === ends.join()) return;
  drawn.set(root, { scale, ends: ends.join() });
  const { low, high } = scale;
  const stops = Array.from({ length: STEPS }, (_, i) =>
    css(scale, low + ((high - low) * i) / (STEPS - 1)),
  );
  const bar = document.createElement('span');
  bar.className = 'legend-bar';
  bar.style.background = `linear-gradient(to right, ${stops.join(', ')})`;
  root.replaceChildren(ends[0], bar, ends[1]);
  root.classList.remove('scale');
  root.classList.add('legend');
}

/** Numbers that stand on a scale of attention weights. */
function ticksOf({ low, high, root }: Scale): readonly number[] {
  if (low < 0) return [low, 0, high];
  return root ? [0, 0.1, 0.25, 0.5, 1] : [0, 0.25, 0.5, 0.75, 1];
}

/** What the bar shows, and how numbers are spaced on it. */
export const scaleName = ({ root }: Scale, what: string): string =>
  root ? `${what} (square-root scale)` : what;

/** Where a value is on the bar, from 0 to 1. */
function placeOf({ low, high, root }: Scale, value: number): number {
  const share = (value - low) / (high - low);
  return root ? Math.sqrt(share) : share;
}

/** The colour scale of attention weights; its numbers stand under the bar, each at its place. */
export function drawScale(root: HTMLElement, scale: Scale): void {
  const ticks = ticksOf(scale);
  const key = ticks.join();
  const before = drawn.get(root);
  if (before?.scale === scale && before.ends === key) return;
  drawn.set(root, { scale, ends: key });
  const { low, high } = scale;
  const stops = Array.from({ length: STEPS }, (_, i) => {
    const share = i / (STEPS - 1);
    return css(scale, low + (high - low) * (scale.root ? share ** 2 : share));
  });
  const bar = document.createElement('span');
  bar.className = 'legend-bar';
  bar.style.background = `linear-gradient(to right, ${stops.join(', ')})`;
  const numbers = ticks.map((value) => {
    const tick = document.createElement('span');
    tick.className = 'tick';
    tick.style.left = `${100 * placeOf(scale, value)}%`;
    tick.textContent = value === 0 ? '0' : `${Math.round(100 * value)}%`.replace('-', '−');
    return tick;
  });
  root.replaceChildren(bar, ...numbers);
  root.classList.remove('legend');
  root.classList.add('scale');
}
