/** A colour scale with its two ends written under it. */
import { css, type Scale } from './color';

const STEPS = 24;

export function drawLegend(
  root: HTMLElement,
  scale: Scale,
  low: number,
  high: number,
  ends: readonly [string, string],
): void {
  const stops = Array.from({ length: STEPS }, (_, i) =>
    css(scale(low + ((high - low) * i) / (STEPS - 1))),
  );
  const bar = document.createElement('span');
  bar.className = 'legend-bar';
  bar.style.background = `linear-gradient(to right, ${stops.join(', ')})`;
  root.replaceChildren(ends[0], bar, ends[1]);
  root.classList.add('legend');
}
