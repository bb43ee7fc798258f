import { readdirSync, readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import {
  panelOf,
  drawablePoints,
  pointOf,
  pointsOfRuns,
  rankCorrelation,
  scatterWords,
  type Point,
} from '../src/rooms/scatter';
import { defaults, type State } from '../src/ask/state';
import type { Frame } from '../src/frame';
import { OTHER_VOCABULARIES } from '../src/words';
import type { SeedRun } from '../src/timeline/seeds';

const createPoint = (alpha: number, ratio: number, more: Partial<Point> = {}): Point => ({
  ...{ title: 'a', alpha, ratio, loss: 3, size: 1e6 },
  ...more,
});

const zoo = `${import.meta.dirname}/../../models/zoo`;
const runsOf = (id: string): SeedRun[] =>
  readdirSync(`${zoo}/${id}/seeds`).map((file) =>
    JSON.parse(readFileSync(`${zoo}/${id}/seeds/${file}`, 'utf8')),
  );

describe('the scatter of models', () => {
  it('has the rank correlation that SciPy gives', () => {
    // scipy.stats.spearmanr([1, 2, 2, 5, 9], [0.1, 0.3, 0.2, 0.2, 0.9])
    const rho = rankCorrelation([1, 2, 2, 5, 9], [0.1, 0.3, 0.2, 0.2, 0.9]);
    expect(rho).toBeCloseTo(0.7631578947368421, 12);
    expect(rankCorrelation([1, 1], [1, 2])).toBeNaN();
  });

  it('places a frame by α₁ above uniform attention and the largest ratio after a layer', () => {
    const data = (...values: number[]) => ({ data: Float32Array.from(values) });
    const frameWith = (tensors: object) =>
      ({
        ...{ title: 'Softmax', T: 2, eps: 0.3, operation: { normalizes: true } },
        architecture: { L: 1, H: 2, parameters: 700_000, mask: { kind: 'causal' } },
        tensors: {
          // [L, H, T]: the first column of two heads.
          alpha: { shape: [1, 2, 2], ...data(0.9, 0.2, 0.8, 0.4) },
          row_mass: { shape: [1, 2, 2], ...data(1, 1, 1, 1) },
          // The ratio of 50 is at the embedding, before any layer.
          hidden_ratio: data(50, 4, 3),
          loss_mean: data(2.5),
          ...tensors,
        },
      }) as unknown as Frame;
    const { alpha, ...rest } = pointOf(frameWith({}));
    expect(alpha).toBeCloseTo(0.1, 6);
    // Uniform attention is less for rows that sum to less, as with a bias key. If rows need not sum to 1, raw weights
    // count.
    const smallerSums = { row_mass: { shape: [1, 2, 2], ...data(0.5, 0.4, 0.3, 0.2) } };
    expect(pointOf(frameWith(smallerSums)).alpha).toBeCloseTo(
      0.85 - (0.5 + 0.2 + 0.3 + 0.1) / 4,
      6,
    );
    const rawTensors = { alpha_raw: { shape: [1, 2, 2], ...data(0.3, 0.2, 0.5, 0.4) } };
    expect(pointOf(frameWith({ ...smallerSums, ...rawTensors })).alpha).toBeCloseTo(
      0.4 - 1.1 / 4,
      6,
    );
    expect(rest).toEqual({ title: 'Softmax', ratio: 4, loss: 2.5, size: 700_000 });
  });

  it('counts sinks without a large norm, and large norms without a sink, by hand', () => {
    const points = [
      createPoint(0.5, 1.5),
      createPoint(0.4, 8),
      createPoint(0.02, 6),
      createPoint(0.3, 3),
      createPoint(0, 1),
    ];
    expect(scatterWords(points, 'ratio')).toMatch(
      /Of 3 with a sink .*, 1 \(a\) has a hidden ratio below 2; of 2 with a hidden ratio of 5 or more, 1 \(a\) has no sink\./,
    );
    const spikes = (n: number) => Array.from({ length: n }, () => createPoint(0, 9));
    const threeSpikes = scatterWords([...spikes(3), createPoint(0, 3)], 'ratio');
    expect(threeSpikes).toMatch(/None has a sink .*3 \(a, a, a\) have no sink/);
    const lowNorms = Array.from({ length: 4 }, () => createPoint(0.5, 3));
    expect(scatterWords(lowNorms, 'ratio')).toMatch(/; none has a hidden ratio of 5 or more\./);
    expect(scatterWords(spikes(4), 'ratio')).toContain('4 have no sink');
    expect(scatterWords(lowNorms.slice(0, 2), 'ratio')).toMatchSnapshot();
    // Losses per token of models with different vocabularies cannot be compared.
    const pointsWithLoss = points.map((point, i) => ({ ...point, loss: i }));
    expect(scatterWords(pointsWithLoss, 'loss')).toMatch(/rank correlation/);
    expect(scatterWords(pointsWithLoss, 'loss', OTHER_VOCABULARIES)).toBe(OTHER_VOCABULARIES);
    expect(scatterWords(points.slice(0, 1), 'loss')).toMatchSnapshot();
    expect(scatterWords([], 'ratio')).toBe('');
    expect(
      drawablePoints([createPoint(NaN, 2), createPoint(0.1, 0), createPoint(0.1, 2)], 'ratio'),
    ).toHaveLength(1);
  });

  it('is opened by a link that names its axis or its checkpoints', () => {
    const panelWith = (change: Partial<State>) => panelOf({ ...defaults, ...change });
    expect([
      panelWith({}),
      panelWith({ xAxis: 'loss' }),
      panelWith({ checkpoints: 'all' }),
      panelWith({ columns: ['loss'] }),
      panelWith({ panel: 'seeds', xAxis: 'loss' } as never),
    ]).toEqual(['none', 'scatter', 'scatter', 'numbers', 'seeds']);
  });

  it('has a point for each measured step of each run', () => {
    const runs = runsOf('softmax');
    const points = pointsOfRuns([['Softmax', 1_449_600, runs]]);
    expect(points).toHaveLength(runs.flatMap((run) => run.points).length);
    const lastPoint = runs[2]!.points.at(-1)!;
    expect(points).toContainEqual({
      title: `Softmax, seed ${runs[2]!.seed}, step ${lastPoint.step!.toLocaleString('en')}`,
      ...{
        alpha: lastPoint.alpha,
        ratio: lastPoint.hidden_ratio,
        loss: lastPoint.loss,
        size: 1_449_600,
      },
    });
  });
});
