import { describe, expect, it } from 'vitest';
import { scaleLog } from 'd3-scale';
import { fittingTicks } from '../src/plot/chart';
import { cssColor, diverging, sequential, stepOf, STEPS } from '../src/plot/color';
import { normProfile } from '../src/views/norms';

const lightness = (color: string) => {
  const [r, g, b] = color.match(/\d+/g)!.map(Number) as [number, number, number];
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
};

describe('colors', () => {
  for (const theme of ['light', 'dark'] as const) {
    it(`change lightness in one direction (${theme})`, () => {
      const scale = sequential(theme);
      const steps = Array.from({ length: 65 }, (_, i) => lightness(cssColor(scale, i / 64)));
      const sign = theme === 'light' ? -1 : 1;
      for (let i = 1; i < steps.length; i++)
        expect(sign * (steps[i]! - steps[i - 1]!)).toBeGreaterThan(-0.5);
    });

    it(`are computed once and cached within a limit (${theme})`, () => {
      const firstScale = sequential(theme, 0.125);
      expect(sequential(theme, 0.125)).toBe(firstScale);
      for (let i = 1; i <= 300; i++) sequential(theme, i);
      expect(sequential(theme, 0.125)).not.toBe(firstScale);
      expect(sequential(theme, 0.125, true)).not.toBe(sequential(theme, 0.125));
      expect(diverging(theme, 0.125)).not.toBe(sequential(theme, 0.125));
    });

    it(`of a diverging scale meet in the middle (${theme})`, () => {
      expect(cssColor(diverging(theme, 1), 0)).toBe(cssColor(sequential(theme), 0));
      expect(cssColor(diverging(theme, 1), 1)).not.toBe(cssColor(diverging(theme, 1), -1));
    });

    it(`have one for hidden cells (${theme})`, () => {
      expect(cssColor(sequential(theme), NaN)).not.toBe(cssColor(sequential(theme), 0));
    });
  }

  it('equal their stops at the ends, and are mixed in linear light between them', () => {
    const [light, dark] = [sequential('light'), sequential('dark')];
    expect([0, 1].map((value) => cssColor(light, value))).toMatchSnapshot();
    expect([0, 1].map((value) => cssColor(dark, value))).toMatchSnapshot();
    // Between #e7714f and #bb3a63: sqrt((231² + 187²) / 2), and so on.
    expect(cssColor(light, 0.5)).toBe('rgb(210 90 90)');
    expect([-2, 2].map((value) => cssColor(diverging('light', 2), value))).toMatchSnapshot();
    expect(cssColor(light, NaN)).toBe('rgb(238 236 230)');
    expect(cssColor(dark, NaN)).toBe('rgb(38 37 45)');
    // The bytes of ImageData: red first, and opaque.
    expect([...new Uint8Array(Uint32Array.of(light.hidden).buffer)]).toEqual([238, 236, 230, 255]);
  });

  it('treat a scale of width 0 as one of width 1, and have a middle step', () => {
    const flatScale = sequential('light', 0);
    expect([stepOf(flatScale, 0), stepOf(flatScale, 0.5), stepOf(flatScale, 1)]).toEqual([
      0, 128, 256,
    ]);
    expect(stepOf(sequential('light', 1, true), -1)).toBe(0);
    expect(sequential('light').colors).toHaveLength(257);
  });

  it('are clamped to the scale, and show small values on the square-root scale', () => {
    const scale = sequential('light', 2);
    expect([stepOf(scale, -1), stepOf(scale, 2), stepOf(scale, 3), stepOf(scale, 99)]).toEqual([
      0,
      STEPS - 1,
      STEPS - 1,
      STEPS - 1,
    ]);
    expect([stepOf(scale, 0.5), stepOf(sequential('light', 2, true), 0.5)]).toEqual([64, 128]);
    expect([2.4, 2.6].map((step) => stepOf(scale, step / 128))).toEqual([2, 3]);
    expect(sequential('light', 2)).toBe(scale);
  });

  it('are cached for two hundred scales, and created again after eviction', () => {
    const scaleOf = (i: number) => sequential('light', 1000 + i);
    const scales = Array.from({ length: 200 }, (_, i) => scaleOf(i));
    // Earlier scales of this file fill the cache: the last ones stay, the first were evicted.
    expect(scaleOf(199)).toBe(scales[199]);
    Array.from({ length: 200 }, (_, i) => scaleOf(200 + i));
    expect(scaleOf(0)).not.toBe(scales[0]);
    expect([sequential('dark').high, sequential('dark').isSquareRoot]).toEqual([1, false]);
  });
});

describe('a logarithmic axis', () => {
  const ticks = (low: number, high: number) => {
    const y = scaleLog().domain([low, high]).range([150, 20]);
    return fittingTicks(y.ticks(), y).sort((a, b) => a - b);
  };

  it('is labeled over its whole range, the roundest values first, without overlaps', () => {
    expect(ticks(1.6, 21)).toEqual([2, 3, 5, 7, 10, 20]);
    expect(ticks(0.001, 1000)).toEqual([0.001, 0.01, 0.1, 1, 10, 100, 1000]);
    // In floating point 0.3 / 0.1 is a little less than 3, but 0.3 must not count as rounder than 0.4.
    expect(fittingTicks([0.4, 0.3], () => 0)).toEqual([0.4]);
    expect(fittingTicks([0.4, 0.2], () => 0)).toEqual([0.2]);
  });
});

describe('norm profiles', () => {
  it('compare the first token with the mean of the others, over heads', () => {
    const data = Float32Array.from([10, 1, 3, 20, 2, 4]);
    const tensor = { shape: [1, 2, 3], data };
    expect(normProfile(tensor)).toEqual({ first: [15], others: [2.5] });
    expect(normProfile({ shape: [2, 3], data })).toEqual({ first: [10, 20], others: [2, 3] });
    const incomplete = Float32Array.from([...data.subarray(0, 3), NaN, NaN, NaN]);
    expect(normProfile({ shape: [1, 2, 3], data: incomplete })).toEqual({
      first: [10],
      others: [2],
    });
  });
});
