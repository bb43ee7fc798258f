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
  root.classList.add('legend');
}
