import { expect, test } from 'vitest';
import type { OpenModel } from '../src/run/opened';
import { exchangeOf, measurements } from '../src/run/measurements';
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
