/**
 * Color scales, sequential and diverging. Zero has the paper's color, so that it is invisible. Lightness is monotonic,
 * so that the order of values survives in gray and for every kind of color vision. A scale is a table of colors, in
 * which a map looks up each cell.
 */

export type Theme = 'light' | 'dark';

export interface Scale {
  readonly low: number;
  readonly high: number;
  /** Whether colors follow the square root of a value, so that small values are visible. */
  readonly isSquareRoot: boolean;
  /** Colors from low to high, as the bytes of a pixel: [STEPS]. */
  readonly colors: Uint32Array;
  readonly hidden: number;
  /** The color of the lines of hatched cells. */
  readonly hatch: number;
}

const SEQUENTIAL = {
  light: ['#fbfaf7', '#fde3b4', '#f8b26a', '#e7714f', '#bb3a63', '#7a1f6c', '#38124f', '#12061f'],
  dark: ['#1b1a21', '#3b1b52', '#742468', '#b3375f', '#e0644a', '#f5a45b', '#fbdc9c', '#fffdf2'],
};
const DIVERGING = {
  light: ['#123f73', '#3f7cb8', '#a5c6e0', '#fbfaf7', '#f2bd93', '#cf6a2e', '#7c2e07'],
  dark: ['#a9d4ff', '#5d9fdd', '#2c5680', '#1b1a21', '#7d4a26', '#d98449', '#ffd2a8'],
};
/** The color of masked cells. */
const HIDDEN = { light: '#eeece6', dark: '#26252d' };
const HATCH = { light: '#b4b1a8', dark: '#55535f' };

function rgb(hex: string): number[] {
  const bits = parseInt(hex.slice(1), 16);
  return [bits >> 16, (bits >> 8) & 255, bits & 255];
}

/** Packs a color as ImageData stores it on little-endian machines, such as all that run browsers. */
function pixel([r, g, b]: readonly number[]): number {
  return ((255 << 24) | (b! << 16) | (g! << 8) | r!) >>> 0;
}

/** The number of colors of a scale, which is odd so that one color is in the middle. */
export const STEPS = 257;

/** Interpolates between evenly spaced stops in linear light. */
function ramp(stops: readonly string[]): Uint32Array {
  const colors = stops.map(rgb);
  return Uint32Array.from({ length: STEPS }, (_, i) => {
    const position = (i / (STEPS - 1)) * (colors.length - 1);
    const lower = Math.min(Math.floor(position), colors.length - 2);
    const channels = [0, 1, 2].map((c) => {
      const [a, b] = [colors[lower]![c]! ** 2, colors[lower + 1]![c]! ** 2];
      return Math.round(Math.sqrt(a + (b - a) * (position - lower)));
    });
    return pixel(channels);
  });
}

const scaleCache = new Map<string, Scale>();
/** The largest number of cached scales: a figure whose range keeps changing would otherwise fill the memory. */
const MAX_SCALES = 200;

/** Returns a scale, which is cached by theme and range, so that `===` detects a change. */
function cachedScale(
  stops: Record<Theme, readonly string[]>,
  theme: Theme,
  ends: Omit<Scale, 'colors' | 'hidden' | 'hatch'>,
) {
  const key = [stops === SEQUENTIAL, theme, ends.low, ends.high, ends.isSquareRoot].join();
  const cached = scaleCache.get(key);
  if (cached) return cached;
  if (scaleCache.size === MAX_SCALES) scaleCache.clear();
  const [hidden, hatch] = [HIDDEN, HATCH].map((colors) => pixel(rgb(colors[theme])));
  const result = { ...ends, colors: ramp(stops[theme]), hidden: hidden!, hatch: hatch! };
  scaleCache.set(key, result);
  return result;
}

export const sequential = (theme: Theme, high = 1, isSquareRoot = false): Scale =>
  cachedScale(SEQUENTIAL, theme, { low: 0, high, isSquareRoot });

export const diverging = (theme: Theme, size: number): Scale =>
  cachedScale(DIVERGING, theme, { low: -size, high: size, isSquareRoot: false });

/** Returns the index of a value in the table of colors; -1 for NaN, the value of masked cells. */
export function stepOf({ low, high, isSquareRoot }: Scale, value: number): number {
  if (value !== value) return -1;
  const share = (value - low) / (high - low || 1);
  const fraction = isSquareRoot ? Math.sqrt(share > 0 ? share : 0) : share;
  return fraction <= 0 ? 0 : fraction >= 1 ? STEPS - 1 : Math.round((STEPS - 1) * fraction);
}

function bytesOf(scale: Scale, value: number): readonly [number, number, number] {
  const step = stepOf(scale, value);
  const bits = step < 0 ? scale.hidden : scale.colors[step]!;
  return [bits & 255, (bits >> 8) & 255, (bits >> 16) & 255];
}

export const cssColor = (scale: Scale, value: number): string =>
  `rgb(${bytesOf(scale, value).join(' ')})`;

/** Returns black or white, whichever has more contrast with a value's color. */
export function inkOn(scale: Scale, value: number): '#000' | '#fff' {
  const [r, g, b] = bytesOf(scale, value).map((byte) => (byte / 255) ** 2.2);
  const luminance = 0.2126 * r! + 0.7152 * g! + 0.0722 * b!;
  // Black and white have equal contrast at (luminance + 0.05) / 0.05 = 1.05 / (luminance + 0.05).
  return luminance > 0.179 ? '#000' : '#fff';
}
