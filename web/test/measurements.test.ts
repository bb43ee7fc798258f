import { expect, test } from 'vitest';
import type { OpenModel } from '../src/run/opened';
import { exchangeOf, lengthsUpTo, measurements } from '../src/run/measurements';
import { tensor } from './fixture';

test('an early token, but never the first, is replaced by another token of the text', () => {
  expect(exchangeOf([0, 11, 12, 13, 14, 15, 16, 17], 1)).toEqual({ at: 5, token: 17 });
  expect(exchangeOf([11, 12, 13, 14, 15, 16, 15], 0)).toEqual({ at: 4, token: 16 });
  // In a short text the measurement replaces the last token but one by the last one.
  expect(exchangeOf([0, 11, 12, 13], 1)).toEqual({ at: 2, token: 13 });
  expect(exchangeOf([0, 11, 12], 1)).toBeUndefined();
  expect(exchangeOf([0, 7, 7, 7, 7, 7, 7, 7], 1)).toBeUndefined();
  expect(exchangeOf([0], 1)).toBeUndefined();
});

/**
 * Returns the influence of a changed token in some texts, and every pair of runs that was compared. The model's special
 * tokens are below 10.
 */
async function viewApiOf(...ids: number[][]) {
  const compared: [changed: string, base: string][] = [];
  const openRuns = new Set<object>();
  const reports: string[] = [];
  const model = {
    run: async (runIds: readonly number[]) => {
      const run = {
        name: runIds.join(' '),
        metric: async (name: string, options?: { base: { name: string } }) => {
          expect(openRuns).toContain(run);
          if (options) compared.push([run.name, options.base.name]);
          return tensor([2], name === 'mixing' ? [runIds.length, 0] : [runIds[0]!, 1]);
        },
        close: async () => void openRuns.delete(run),
      };
      openRuns.add(run);
      return run;
    },
  };
  const openModel = { model, tokenizer: { special: [0, 1, 2] } } as unknown as OpenModel;
  const measurement = await measurements
    .find(({ names }) => names.includes('reach'))!
    .measure({
      openModel,
      ids,
      edits: [],
      eps: 0.3,
      signal: new AbortController().signal,
      onProgress: (done, total) => reports.push(`${done}/${total}`),
    });
  expect(openRuns.size).toBe(0);
  return { ...measurement, compared, reports };
}

test('the influence of a token is measured with the special tokens and without them', async () => {
  const { compared, reports, tensors, spread } = await viewApiOf(
    [0, 1, 11, 12, 13, 14, 15, 16, 17],
    [0, 1, 31, 12, 13, 14, 15, 16, 18],
  );
  expect(compared).toEqual([
    ['0 1 11 12 13 14 17 16 17', '0 1 11 12 13 14 15 16 17'],
    ['0 1 31 12 13 14 18 16 18', '0 1 31 12 13 14 15 16 18'],
    ['11 12 13 14 17 16 17', '11 12 13 14 15 16 17'],
    ['31 12 13 14 18 16 18', '31 12 13 14 15 16 18'],
  ]);
  expect(reports).toEqual(['1/2', '2/2']);
  expect([...tensors.reach!.data]).toEqual([0, 1]);
  expect([...tensors.reach_bare!.data]).toEqual([21, 1]);
  expect([...tensors.mixing_bare!.data]).toEqual([7, 0]);
  // The deviation of 11 and 31, with n - 1.
  expect(spread.reach_bare![0]).toBeCloseTo(Math.sqrt(200), 5);
});

test('a text without special tokens has one measurement, and one with nothing else has none', async () => {
  const withoutStart = await viewApiOf([11, 12, 13, 14, 15, 16]);
  expect(withoutStart.compared).toEqual([['11 12 13 14 16 16', '11 12 13 14 15 16']]);
  expect(withoutStart.tensors.reach_bare!.data).toHaveLength(0);
  const withStart = await viewApiOf([0, 1, 2, 1, 0, 2, 1]);
  expect(withStart.compared).toEqual([]);
  expect(withStart.reports).toEqual(['1/1']);
});

test('alpha of the first key by length comes from one growing run, averaged over prompts', async () => {
  expect(lengthsUpTo(64)).toEqual([16, 23, 32, 45, 64]);
  expect(lengthsUpTo(20)).toEqual([16, 20]);
  const acts: string[] = [];
  const model = {
    architecture: { mask: { kind: 'causal' }, bias_key: 'head' },
    run: async (ids: readonly number[], { capacity }: { capacity: number }) => {
      acts.push(`run ${ids.length} of ${capacity}`);
      let T = ids.length;
      return {
        update: async (more: readonly number[]) => {
          expect(more.slice(0, T)).toEqual(Array(T).fill(ids[0]));
          T = more.length;
          acts.push(`update ${T}`);
        },
        // The values of two heads: that of the first key depends on the length; the others are negative.
        read: async ([, { eps }]: [object, { eps: number }]) => {
          const firstAlphas = [T + ids[0]!, T + 0.5 + ids[0]!];
          const others = Array<number>(T - 1).fill(-1);
          const sinkRatio = firstAlphas.filter((alpha) => alpha > eps).length / 2;
          return [
            tensor(
              [1, 2, T],
              firstAlphas.flatMap((alpha) => [alpha, ...others]),
            ),
            tensor([T], [sinkRatio, ...others]),
          ];
        },
        close: async () => void acts.push('close'),
      };
    },
  };
  const reports: string[] = [];
  const { tensors, spread } = await measurements
    .find(({ names }) => names.includes('alpha_by_length'))!
    .measure({
      openModel: { model } as unknown as OpenModel,
      ids: [Array(25).fill(1), Array(25).fill(3)],
      edits: [],
      eps: 18,
      signal: new AbortController().signal,
      onProgress: (done, total) => reports.push(`${done}/${total}`),
    });
  const actsPerHead = ['close', 'run 16 of 25', 'update 23', 'update 25'];
  expect(acts.toSorted()).toEqual(actsPerHead.flatMap((act) => [act, act]));
  expect([...tensors.lengths!.data]).toEqual([16, 23, 25]);
  expect(tensors.alpha_by_length).toEqual(tensor([3, 2], [18, 18.5, 25, 25.5, 27, 27.5]));
  expect(spread.alpha_by_length![0]).toBeCloseTo(Math.SQRT2);
  // Above 18 are no head of the first prompt (17 and 17.5) and both of the second (19 and 19.5): half on average, while
  // of the means, 18 and 18.5, one is.
  expect(tensors.sink_by_length).toEqual(tensor([3], [0.5, 1, 1]));
  // The sum of 1/2, ..., 1/(T + 1) over T, since a bias key is one more key.
  const uniform = [...tensors.uniform_by_length!.data].map((alpha) => Number(alpha.toFixed(4)));
  expect(uniform).toEqual([0.1525, 0.1207, 0.1142]);
  expect(reports.at(-1)).toBe('6/6');
});
