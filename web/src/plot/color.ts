/**
 * Colour scales. Both begin at the paper's colour, so that nothing is drawn where nothing is; their
 * lightness changes in one direction, so that order survives in grey and for every kind of colour
 * vision.
 */

export type Rgb = readonly [number, number, number];
export type Scale = (value: number) => Rgb;

const SEQUENTIAL = {
  light: ['#fbfaf7', '#fde3b4', '#f8b26a', '#e7714f', '#bb3a63', '#7a1f6c', '#38124f', '#12061f'],
  dark: ['#1b1a21', '#3b1b52', '#742468', '#b3375f', '#e0644a', '#f5a45b', '#fbdc9c', '#fffdf2'],
};
/** Negative, none, positive. */
const DIVERGING = {
  light: ['#123f73', '#3f7cb8', '#a5c6e0', '#fbfaf7', '#f2bd93', '#cf6a2e', '#7c2e07'],
  dark: ['#a9d4ff', '#5d9fdd', '#2c5680', '#1b1a21', '#7d4a26', '#d98449', '#ffd2a8'],
};
/** Cells that the mask hides. */
const HIDDEN = { light: [238, 236, 230] as Rgb, dark: [38, 37, 45] as Rgb };

export type Theme = 'light' | 'dark';

function rgb(hex: string): Rgb {
  const bits = parseInt(hex.slice(1), 16);
  return [bits >> 16, (bits >> 8) & 255, bits & 255];
}

/** An odd number, so that there is one in the middle. */
const STEPS = 257;

/** Steps between evenly spaced stops, mixed in light rather than in code values. */
function ramp(stops: readonly string[]): readonly Rgb[] {
  const colors = stops.map(rgb);
  return Array.from({ length: STEPS }, (_, i) => {
    const at = (i / (STEPS - 1)) * (colors.length - 1);
    const from = Math.min(Math.floor(at), colors.length - 2);
    return [0, 1, 2].map((c) => {
      const [a, b] = [colors[from][c] ** 2, colors[from + 1][c] ** 2];
      return Math.round(Math.sqrt(a + (b - a) * (at - from)));
    }) as unknown as Rgb;
  });
}

const RAMPS = {
  sequential: { light: ramp(SEQUENTIAL.light), dark: ramp(SEQUENTIAL.dark) },
  diverging: { light: ramp(DIVERGING.light), dark: ramp(DIVERGING.dark) },
};

function along(steps: readonly Rgb[], theme: Theme, share: number): Rgb {
  if (Number.isNaN(share)) return HIDDEN[theme];
  return steps[Math.max(0, Math.min(STEPS - 1, Math.round((STEPS - 1) * share)))];
}

export function sequential(theme: Theme, high = 1, root = false): Scale {
  const steps = RAMPS.sequential[theme];
  return (value) => {
    const share = value / high;
    return along(steps, theme, root ? Math.sqrt(Math.max(0, share)) : share);
  };
}

/** Zero in the middle, whatever the values. */
export function diverging(theme: Theme, size: number): Scale {
  const steps = RAMPS.diverging[theme];
  return (value) => along(steps, theme, 0.5 + value / (2 * size || 1));
}

export function css([r, g, b]: Rgb): string {
  return `rgb(${r} ${g} ${b})`;
}
