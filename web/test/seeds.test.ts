import { describe, expect, it, vi } from 'vitest';
import {
  bandOf,
  formatNumber,
  halfInterval,
  halfIntervalWords,
  OUTCOMES,
  statisticsByStep,
  seedRuns,
  seedWords,
  spreadOf,
  type SeedRun,
} from '../src/timeline/seeds';
import { studentT } from '../src/timeline/student';
import { seedsOf, type Card } from '../src/ask/zoo';

const createRun = (seed: number, ...sinks: (number | null)[]): SeedRun => ({
  seed,
  training: { steps: 12_000 },
  sink_tokens: [1],
  points: sinks.map((sink, i) => ({ step: 2000 * i, 'sink_0.3': sink, eviction: null })),
});

describe('runs over seeds', () => {
  const threeRuns = [createRun(1, 0, 10, 20, 70), createRun(2, 0, 30, 40), createRun(3, 0, 20, 60)];

  it('have mean, minimum, maximum and interval at each step, over the runs that reached it', () => {
    const [, , at, lastStep] = statisticsByStep(threeRuns, 'sink_0.3');
    expect(at).toMatchObject({ step: 4000, seeds: 3, mean: 40, low: 20, high: 60 });
    expect(lastStep).toMatchObject({ step: 6000, seeds: 1 });
    // Uses Student's t of three degrees of freedom; the deviation of the four values is the root of 1000 / 3.
    const shareRange = [0, 100] as const;
    expect(halfInterval([35, 45, 55, 65], shareRange)).toBeCloseTo(
      (3.18245 * Math.sqrt(500 / 3)) / 2,
      4,
    );
    expect(halfInterval([20, 40, 60], shareRange)).toBeNaN();
    // An interval that rounding would hide is small, and not 0.
    expect([0.0004, 0.0005, 0.0006, 0].map((half) => halfIntervalWords(half, 3))).toEqual([
      '<0.001',
      '0.001',
      '0.001',
      '0.000',
    ]);
  });

  it('use Student’s t for any number of seeds', () => {
    // Tables of the 97.5th percentile, by degrees of freedom; 1.960 is that of a normal distribution.
    const quantiles = { 1: 12.706, 2: 4.303, 3: 3.182, 9: 2.262, 10: 2.228, 11: 2.201, 30: 2.042 };
    for (const [freedom, t] of Object.entries(quantiles))
      expect(studentT(Number(freedom)), freedom).toBeCloseTo(t, 3);
    expect(studentT(120)).toBeCloseTo(1.98, 3);
    const elevenValues = Array.from({ length: 11 }, (_, i) => i);
    expect(halfInterval(elevenValues, [-99, 99])).toBeCloseTo(
      (2.2281 * Math.sqrt(11)) / Math.sqrt(11),
      3,
    );
  });

  it('have a band at steps that at least two runs reached', () => {
    expect(bandOf(threeRuns, 'sink_0.3').map(({ step }) => step)).toEqual([0, 2000, 4000]);
    expect(bandOf(threeRuns.slice(0, 1), 'sink_0.3')).toEqual([]);
    expect(bandOf(threeRuns.slice(0, 2), 'sink_0.3').map(({ seeds }) => seeds)).toEqual([2, 2, 2]);
    const lateRun = {
      ...threeRuns[1]!,
      points: [{ step: 1000, 'sink_0.3': 5 }],
    } as unknown as SeedRun;
    expect(statisticsByStep([threeRuns[0]!, lateRun], 'sink_0.3').map(({ step }) => step)).toEqual([
      0, 1000, 2000, 4000, 6000,
    ]);
    expect(bandOf(threeRuns, 'eviction')).toEqual([]);
    expect(bandOf([], 'loss')).toEqual([]);
  });

  it('are fetched once, and again after a failure', async () => {
    const [[id, seeds]] = Object.entries(SEEDS) as [[string, readonly number[]]];
    const fetchLog = vi.fn(async (url: URL | string) => {
      if (fetchLog.mock.calls.length <= seeds.length) throw new Error('no network');
      return new Response(JSON.stringify(createRun(Number(/(\d+)\.json$/.exec(String(url))![1]))));
    });
    vi.stubGlobal('fetch', fetchLog);
    await expect(seedRuns(id)).rejects.toThrow();
    expect((await seedRuns(id)).map(({ seed }) => seed)).toEqual(seeds);
    const callCount = fetchLog.mock.calls.length;
    await seedRuns(id);
    expect([fetchLog.mock.calls.length, await seedRuns('none')]).toEqual([callCount, []]);
    vi.unstubAllGlobals();
  });

  it('report the range of an outcome at the last step that all of at least two runs reached', () => {
    expect(seedWords(threeRuns)).toMatchSnapshot();
    const sinkOutcome = {
      name: 'sink_0.3',
      title: 'sink',
      unit: '',
      digits: 0,
      possibleRange: [0, 100],
    } as const;
    expect(seedWords(threeRuns, [sinkOutcome])).toMatch(/12,000: sink 20 to 60\.$/);
    expect(seedWords(threeRuns, [{ ...sinkOutcome, name: 'eviction' }])).toBe('');
    expect(seedWords([threeRuns[0]!, threeRuns[1]!, createRun(3, 0, 90)])).toMatchSnapshot();
    expect(seedWords([threeRuns[0]!, createRun(3, 0, 90)])).toBe('');
    // The values are at the runs' last step, or at the last step of a model that ended earlier.
    const farRuns = [createRun(1, 0, 10, 20, 70), createRun(2, 0, 30, 40, 50)];
    expect([Infinity, 4000].map((last) => spreadOf(farRuns, undefined, last)!.values)).toEqual(
      [
        [70, 50],
        [20, 40],
      ].map((sinks) => expect.objectContaining({ 'sink_0.3': sinks })),
    );
    const movedRuns = threeRuns.map((run) => ({ ...run, sink_tokens: [1, 2] }));
    expect(seedWords(movedRuns)).toMatchSnapshot();
  });
  it('report each outcome with its bounds and precision', () => {
    expect(
      OUTCOMES.map(({ name, possibleRange, digits }) => [name, ...possibleRange, digits]),
    ).toEqual([
      ['sink_0.3', 0, 100, 1],
      ['alpha', -1, 1, 3],
      ['value_ratio', 0, Infinity, 2],
      ['eviction', -Infinity, Infinity, 3],
      ['loss', 0, Infinity, 3],
    ]);
    const values = [1, 2, 3, 4];
    const halfWidth = halfInterval(values, [-Infinity, Infinity]);
    expect(halfInterval(values, [2.5 - halfWidth, 2.5 + halfWidth])).toBe(halfWidth);
    expect(halfInterval(values, [2.5 - halfWidth + 1e-9, 9])).toBeNaN();
    expect(halfInterval(values, [-9, 2.5 + halfWidth - 1e-9])).toBeNaN();
    expect([
      formatNumber(-0.04, 1),
      formatNumber(-0.05, 1),
      formatNumber(-1.25, 2),
      formatNumber(0, 0),
    ]).toEqual(['0.0', '−0.1', '−1.25', '0']);
    const longRun = { ...threeRuns[0]!, sink_tokens: [2] };
    expect(seedWords([longRun, { ...threeRuns[1]!, sink_tokens: [2] }])).toMatchSnapshot();
    const fourRuns = [
      createRun(1, 0, 0, 40),
      createRun(2, 0, 0, 45),
      createRun(3, 0, 0, 55),
      createRun(4, 0, 0, 60),
    ];
    // Mean 50, deviation √(250 / 3), t of three degrees of freedom.
    expect(seedWords(fourRuns)).toMatch(
      /Sink₁ 40\.0 to 60\.0% \(mean 50\.0 ± 14\.5, 95% interval\)\.$/,
    );
  });

  it('have no interval beyond the range of the outcome', () => {
    const outcome = OUTCOMES.find(({ name }) => name === 'sink_0.3')!;
    // Tries sets of four to seven shares on a coarse grid, from all equal ones to both ends of the scale.
    let wideCount = 0;
    for (let code = 0; code < 5 ** 4; code++) {
      const n = 4 + (code % 4);
      const values = Array.from({ length: n }, (_, i) => 25 * (Math.floor(code / 5 ** i) % 5));
      const halfWidth = halfInterval(values, outcome.possibleRange);
      const center = values.reduce((a, b) => a + b) / n;
      if (Number.isNaN(halfWidth)) wideCount++;
      else expect(center - halfWidth >= 0 && center + halfWidth <= 100, values.join()).toBe(true);
      const sentence = seedWords(values.map((value, seed) => createRun(seed, 0, 0, value)));
      const numbers = /mean ([\d.]+) ± <?([\d.]+)/.exec(sentence)?.slice(1).map(Number);
      if (numbers)
        expect(
          numbers[0]! - numbers[1]! > -0.1 && numbers[0]! + numbers[1]! < 100.1,
          sentence,
        ).toBe(true);
    }
    expect(wideCount).toBeGreaterThan(100);
  });

  it('are listed on the card of a recipe, beside the seed of its weights', () => {
    const measured = { sink_1: 60.3, value_ratio: 0.4, loss: 3.4 };
    const otherSeed = { seed: 2, sink_1: 20, value_ratio: 0.5, loss: 3.5 };
    const card = { measured, seed: 4, further_seeds: [otherSeed] } as unknown as Card;
    expect(seedsOf(card)).toEqual({ shippedSeed: 4, all: [{ seed: 4, ...measured }, otherSeed] });
    expect(seedsOf({ measured } as unknown as Card).all).toHaveLength(1);
  });
});
