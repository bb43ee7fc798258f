import { describe, expect, it, vi } from 'vitest';
import type { Describe } from 'sinkscope';
import {
  measureAllAverages,
  measureAverages,
  addPromptNumbers,
  measureWindowLoss,
} from '../src/run/averages';
import { statisticsOverPrompts } from '../src/frame';
import type { OpenModel, Watch } from '../src/run/opened';
import type { Prompts } from '../src/ask/question';
import { frameOf, tensor } from './fixture';

const watch: Watch = { signal: new AbortController().signal, onProgress: () => {} };

const metric = (name: string, more: object = {}) => ({
  name,
  averaged: true,
  summary: true,
  arguments: [] as string[],
  fields: [] as string[],
  ...more,
});

const describe_ = {
  metrics: [
    metric('loss_mean'),
    metric('loss_at'),
    metric('alpha_uniform', { averaged: false }),
    metric('massive_at', { averaged: false, fields: ['hidden'] }),
    metric('alpha', { averaged: false, fields: ['hidden'] }),
    metric('alpha_raw', { averaged: false, fields: ['hidden'] }),
    metric('kl_mean', { arguments: ['base'] }),
    metric('qk_dot', { arguments: ['layer', 'head'] }),
  ],
  fields: [{ name: 'hidden' }],
  edits: [{ name: 'hide_key', waits: false, fields: [] }],
  defaults: { eps: 0.3 },
} as unknown as Describe;

function modelOf(
  answer: (metric: string, ids: readonly number[], edits: readonly unknown[]) => number[],
) {
  const requests: { ids: readonly number[]; metrics: string[] }[] = [];
  const model = {
    describe: describe_,
    architecture: { context: 99 },
    run: async (ids: readonly number[], { edits = [] }: { edits?: readonly unknown[] } = {}) => ({
      close: async () => {},
      read: async (reads: readonly { metric: string }[]) => {
        requests.push({ ids: [...ids], metrics: reads.map(({ metric: name }) => name) });
        return reads.map(({ metric: name }) => {
          const values = answer(name, ids, edits);
          return tensor([values.length], values);
        });
      },
    }),
  };
  return { openModel: { model, title: 'M' } as unknown as OpenModel, requests };
}

const promptsOf = (...ids: number[][]) => ({ ids }) as unknown as Prompts;

describe('averages over prompts', () => {
  it('have means and sample deviations, and keep the number of each prompt', async () => {
    const { openModel } = modelOf((_, ids) => [ids[0]!]);
    const prompts = promptsOf([1, 0], [2, 0], [6, 0]);
    const [average] = await measureAverages(
      openModel,
      prompts,
      [[]],
      { eps: 0.3, metrics: ['loss_mean'] },
      watch,
    );
    expect([...average!.tensors.loss_mean!.data]).toEqual([3]);
    // (4 + 1 + 9) / 2 = 7
    expect(average!.spread.loss_mean![0]).toBeCloseTo(Math.sqrt(7), 6);
    expect(average!.perPrompt).toEqual({ loss_mean: [1, 2, 6] });
    const statistics = statisticsOverPrompts(
      frameOf({ perPrompt: average!.perPrompt }),
      'loss_mean',
    );
    expect(statistics.mean).toBe(3);
    expect(statistics.deviation).toBeCloseTo(Math.sqrt(7), 12);
    expect(statisticsOverPrompts(frameOf({ perPrompt: {} }), 'loss_mean').mean).toBeNaN();
  });

  it('separate the numbers of different settings', async () => {
    const { openModel } = modelOf((_, ids, edits) => [ids[0]! + (edits.length ? 10 : 0)]);
    const averages = await measureAverages(
      openModel,
      promptsOf([1, 0], [2, 0]),
      [[], [{ kind: 'hide_key' }]] as never,
      { eps: 0.3, metrics: ['loss_mean'] },
      watch,
    );
    expect(averages.map(({ perPrompt }) => perPrompt)).toEqual([
      { loss_mean: [1, 2] },
      { loss_mean: [11, 12] },
    ]);
  });

  it('keep what each head of each prompt gives <s>', async () => {
    const { openModel } = modelOf((_, ids) => [ids[0]!, 9]);
    const options = { eps: 0.3, metrics: ['alpha', 'alpha_raw'] };
    const prompts = promptsOf([1, 0], [2, 0]);
    const [found] = await measureAverages(openModel, prompts, [[]], options, watch);
    expect(found!.tensors.first_alphas).toEqual(tensor([2, 1], [1, 2]));
    expect(found!.tensors.first_raw_alphas).toEqual(tensor([2, 1], [1, 2]));
    expect(found!.tensors.alpha).toEqual(tensor([2], [1.5, 9]));
  });

  it('have no deviation for a single prompt, and NaN for undefined values', async () => {
    const { openModel } = modelOf(() => [4, NaN]);
    const [average] = await measureAverages(
      openModel,
      promptsOf([1, 0]),
      [[]],
      { eps: 0.3, metrics: ['loss_mean'] },
      watch,
    );
    expect([...average!.tensors.loss_mean!.data]).toEqual([4, NaN]);
    expect(average!.spread.loss_mean![0]).toBeNaN();
  });

  it('omit metrics of a single head, and comparisons if no run is edited', async () => {
    const { openModel, requests } = modelOf(() => [1]);
    const measureAll = (edits: { kind: string }[]) =>
      measureAllAverages(
        describe_,
        openModel,
        promptsOf([1, 2]),
        { edits: edits as never, eps: 0.3 },
        watch,
      );
    await measureAll([]);
    expect(requests.at(-1)!.metrics).toEqual(['loss_mean', 'loss_at', 'alpha_uniform']);
    await measureAll([{ kind: 'hide_key' }]);
    expect(requests.at(-1)!.metrics).toEqual(['loss_mean', 'loss_at', 'alpha_uniform', 'kl_mean']);
    // A figure reads only its own numbers.
    await measureAllAverages(
      describe_,
      openModel,
      promptsOf([1, 2]),
      { edits: [], eps: 0.3, onlyMetrics: ['att'] },
      watch,
    );
    expect(requests.at(-1)!.metrics).toEqual(['loss_mean', 'alpha_uniform']);
  });

  it('report the progress, and the prompts per second of all workers together', async () => {
    // A prompt takes as many milliseconds as the id of its first token; the clock does not start at 0.
    let now = 7;
    vi.spyOn(performance, 'now').mockImplementation(() => now);
    const { openModel } = modelOf((name, [ms]) => [name === 'loss_mean' ? (now += ms!) : 1]);
    const reports: unknown[][] = [];
    const watching = { ...watch, onProgress: (...all: unknown[]) => void reports.push(all) };
    for (const ids of [
      [[8, 2]],
      [[100, 2]],
      [[101, 2]],
      [
        [100, 2],
        [100, 2],
      ],
    ])
      await measureAllAverages(
        describe_,
        openModel,
        promptsOf(...ids),
        { edits: [], eps: 0.3 },
        watching,
      );
    vi.restoreAllMocks();
    expect(reports.slice(0, 3)).toEqual([
      ['M, 1 of 1 prompts, 125 a second', 1, 1],
      ['M, 1 of 1 prompts, 10 a second', 1, 1],
      ['M, 1 of 1 prompts, 9.9 a second', 1, 1],
    ]);
    expect(reports.at(-1)).toEqual(['M, 2 of 2 prompts, 10 a second', 2, 2]);
  });
});

describe('losses predicted from a window before each token', () => {
  // The made-up loss encodes the token's id and the number of tokens before it; it is NaN for the first token.
  const answer = (_: string, ids: readonly number[]) => ids.map((id, t) => (t ? 10 * id + t : NaN));

  it('predict each token from the window before it, and the first tokens together', async () => {
    const { openModel, requests } = modelOf(answer);
    const average = await measureWindowLoss(
      openModel,
      promptsOf([1, 2, 3, 4, 5, 6]),
      2,
      { edits: [], eps: 0.3 },
      watch,
    );
    expect(requests.map(({ ids }) => ids)).toEqual([
      [1, 2, 3],
      [2, 3, 4],
      [3, 4, 5],
      [4, 5, 6],
    ]);
    expect(average.tensors.loss_mean!.shape).toEqual([1]);
    expect([...average.tensors.loss_at!.data]).toEqual([NaN, 21, 32, 42, 52, 62]);
    expect(average.tensors.loss_mean!.data[0]).toBeCloseTo((21 + 32 + 42 + 52 + 62) / 5, 5);
    expect(average.perPrompt.loss_mean).toEqual([(21 + 32 + 42 + 52 + 62) / 5]);
  });

  it('are averaged over the prompts position by position', async () => {
    const { openModel } = modelOf(answer);
    const average = await measureWindowLoss(
      openModel,
      promptsOf([1, 2, 3], [3, 4, 7]),
      1,
      { edits: [], eps: 0.3 },
      watch,
    );
    expect(average.tensors.loss_mean!.shape).toEqual([1]);
    expect([...average.tensors.loss_at!.data]).toEqual([NaN, 31, 51]);
    expect([...average.spread.loss_at!]).toEqual([
      NaN,
      Math.fround(Math.sqrt(200)),
      Math.fround(Math.sqrt(800)),
    ]);
    expect(average.perPrompt.loss_mean).toEqual([26, 56]);
    expect(average.spread.loss_mean![0]).toBeCloseTo(Math.sqrt(450), 5);
  });

  it('equal those of one run when the window is as long as the text', async () => {
    const { openModel, requests } = modelOf(answer);
    await measureWindowLoss(openModel, promptsOf([1, 2, 3]), 9, { edits: [], eps: 0.3 }, watch);
    expect(requests.map(({ ids }) => ids)).toEqual([[1, 2, 3]]);
  });
});

describe('the single number of a prompt', () => {
  it('is the first value of a ratio, the mean row sum or the mean value ratio', () => {
    const numbers: Record<string, number[]> = {};
    const tensors = {
      sink_ratio: tensor([3], [0.5, 0.1, 0.2]),
      sink_ratio_raw: tensor([3], [0.25, 0, 0]),
      sink_ratio_bias: tensor([1], [0.75]),
      loss_mean: tensor([1], [2]),
      kl_mean: tensor([1], [0.125]),
      row_mass_summary: tensor([1, 2, 3], [0.5, 0, 9, 1.5, 0, 9]),
      // The second layer lacks a key/value head.
      value_ratio: tensor([2, 2], [1, 4, 2.5, NaN]),
      alpha: tensor([1], [7]),
    };
    addPromptNumbers(numbers, tensors);
    addPromptNumbers(numbers, { loss_mean: tensor([1], [3]) });
    expect(numbers).toEqual({
      sink_ratio: [0.5],
      sink_ratio_raw: [0.25],
      sink_ratio_bias: [0.75],
      loss_mean: [2, 3],
      kl_mean: [0.125],
      row_mass_summary: [1],
      value_ratio: [2.5],
    });
  });
});
