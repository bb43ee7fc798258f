/** Draws color scales as bars, with numbers next to or on the bar. */
import { cssColor, inkOn, type Scale } from './color';

const BAR_STOPS = 24;
const drawnLegends = new WeakMap<HTMLElement, { scale: Scale; ticks: string }>();

/** Returns the value at a position on the bar, from 0 to 1. */
const valueAt = ({ low, high, isSquareRoot }: Scale, place: number): number =>
  low + (high - low) * (isSquareRoot ? place ** 2 : place);

function placeOf({ low, high, isSquareRoot }: Scale, value: number): number {
  const fraction = (value - low) / (high - low);
  return isSquareRoot ? Math.sqrt(fraction) : fraction;
}

/** Fills a legend with a bar, unless it has that one; `renderParts` returns the bar with its numbers. */
function fillLegend(
  root: HTMLElement,
  scale: Scale,
  name: 'legend' | 'scale',
  ticks: readonly unknown[],
  renderParts: (bar: HTMLElement) => readonly (string | Node)[],
): void {
  const previousLegend = drawnLegends.get(root);
  if (previousLegend?.scale === scale && previousLegend.ticks === ticks.join()) return;
  drawnLegends.set(root, { scale, ticks: ticks.join() });
  const stops = Array.from({ length: BAR_STOPS }, (_, i) =>
    cssColor(scale, valueAt(scale, i / (BAR_STOPS - 1))),
  );
  const bar = document.createElement('span');
  bar.className = 'legend-bar';
  bar.style.background = `linear-gradient(to right, ${stops.join(', ')})`;
  root.replaceChildren(...renderParts(bar));
  root.classList.remove('legend', 'scale');
  root.classList.add(name);
}

export function drawLegend(root: HTMLElement, scale: Scale, ends: readonly [string, string]): void {
  fillLegend(root, scale, 'legend', ends, (bar) => [ends[0], bar, ends[1]]);
}

function ticksOf({ low, high, isSquareRoot }: Scale): readonly number[] {
  if (low < 0) return [low, 0, high];
  return (isSquareRoot ? [0, 0.1, 0.3, 0.5, 1] : [0, 0.25, 0.5, 0.75, 1]).map((x) => x * high);
}

export const scaleName = ({ isSquareRoot }: Scale, what: string): string =>
  isSquareRoot ? `${what} (square-root scale)` : what;

/** Draws the color scale of attention weights, with numbers at their positions on the bar. */
export function drawScale(root: HTMLElement, scale: Scale): void {
  const ticks = ticksOf(scale);
  fillLegend(root, scale, 'scale', ticks, (bar) => [
    bar,
    ...ticks.map((value) => {
      const tick = document.createElement('span');
      tick.className = 'tick';
      tick.style.left = `${100 * placeOf(scale, value)}%`;
      tick.style.color = inkOn(scale, value);
      tick.textContent = value === 0 ? '0' : `${Math.round(100 * value)}%`.replace('-', '−');
      return tick;
    }),
  ]);
}
