// @vitest-environment happy-dom
/** Views that start runs of their own at the press of a button: a search for a suffix, tasks, and unmasking. */
import type {
  SuffixResult,
  SuffixOptions,
  SuffixPair,
  TaskResult,
  UnmaskResult,
  UnmaskStep,
} from 'sinkscope';
import { describe, expect, it, vi } from 'vitest';
import { defaults, type State } from '../src/ask/state';
import type { Frame } from '../src/frame';
import type { OpenModel } from '../src/run/opened';
import { maskedLoss } from '../src/views/masked_loss';
import { suffix } from '../src/views/suffix';
import { tasks } from '../src/views/tasks';
import { unmasking } from '../src/views/unmasking';
import { drawView } from './drawn';
import { frameOf, tensor, turn } from './fixture';
import { shows, showsNow } from './picture';

vi.mock('../src/plot/heatmap', async () => (await import('./drawn')).plots.heatmap);
vi.mock('../src/plot/chart', async () => (await import('./drawn')).plots.chart);

const at = { layer: 0, head: 0 };
const tokensOf = (...texts: string[]) =>
  texts.map((text, id) => ({ id, text, start: 0, end: 0, special: false }));
/** Returns a promise, and functions with which a test resolves or rejects it. */
function deferred<Result>() {
  let resolve: (result: Result) => void = () => {};
  let reject: (error: unknown) => void = () => {};
  const promise = new Promise<Result>(
    (onResolve, onReject) => ([resolve, reject] = [onResolve, onReject]),
  );
  return {
    promise,
    end: (result: Result) => resolve(result),
    fail: (error: unknown) => reject(error),
  };
}
interface Of {
  readonly frame: Frame;
  readonly signal: AbortSignal;
}

describe('a search for a suffix', () => {
  const result: SuffixResult = {
    suffix: [5, 6],
    score: 4.5,
    start: 4,
    path: [{ suffix: [5, 6], score: 4.5 }],
    evaluated: 385,
    none: 3.5,
    random: { mean: 3.75, low: 3.5, high: 4, best: 4.25 },
    shuffled: 4.125,
    others: null,
  };
  const architecture = { ...frameOf().architecture, context: 9 };
  const frame = () => frameOf({ T: 5, tokens: tokensOf('a', 'b', 'c', 'd', 'e'), architecture });

  function startSearch(searchedFrame = frame(), change: object = {}) {
    const job = deferred<{ result: SuffixResult; text: string }>();
    const measureCalls: [SuffixPair, SuffixOptions][] = [];
    type Options = SuffixOptions & { pair: SuffixPair };
    const measure = (_: string, { signal }: Of, { pair, ...options }: Options) => {
      measureCalls.push([pair, { ...options, signal }]);
      return job.promise;
    };
    const view = drawView(suffix, searchedFrame, { api: { measure }, ...change });
    return { ...view, job, measureCalls, searchedFrame };
  }

  it('uses the halves of the text, shows its progress, and can be stopped and repeated', async () => {
    const view = startSearch();
    const { click, text, all, measureCalls, root, lines, draw, searchedFrame } = view;
    showsNow(view);
    click('Search');
    const [pair, { onStep, signal, ...options }] = measureCalls[0]!;
    expect(pair).toEqual({ prompt: [0, 1, 2], continuation: [3, 4] });
    expect(options).toEqual({ goal: 'loss', length: 5, steps: 12, width: 32, seed: 1 });
    showsNow(view);
    onStep!({ suffix: [1], score: 4 } as never, 0 as never);
    onStep!({ suffix: [1], score: 4.25 } as never, 1 as never);
    showsNow(view);
    click('Stop');
    expect([signal!.aborted, text('.primary'), 'busy' in root.dataset]).toEqual([
      true,
      'Search',
      false,
    ]);
    onStep!({ suffix: [1], score: 9 } as never, 2 as never);
    expect(lines()).toEqual([['found', 4, 4.25]]);
    click('Search');
    expect([measureCalls.length, all('.plot')[0]!.hidden]).toEqual([2, true]);
    draw(searchedFrame, { suffix: 3 });
    expect([measureCalls[1]![1].signal!.aborted, text('.primary')]).toEqual([true, 'Search']);
  });

  it('ends with its curve beside random suffixes, in words and numbers', async () => {
    const view = startSearch();
    const { click, job, searchedFrame, lines, draw } = view;
    click('Search');
    job.end({ result, text: ' was' });
    await turn();
    showsNow(view, suffix, searchedFrame);
    expect(suffix.says(searchedFrame, at)).toBe(view.text('.caption'));
    draw(searchedFrame, {});
    expect(lines()).toHaveLength(4);
    draw(searchedFrame, { goal: 'away' });
    expect(suffix.numbers(searchedFrame, at)).toEqual([]);
  });

  it('draws weights as shares, and reports a failure', async () => {
    const view = startSearch(frame(), { goal: 'away', suffix: 2 });
    view.click('weaken the sink');
    expect(view.set).toHaveBeenCalledWith({ goal: 'away' });
    view.click('Search');
    expect(view.measureCalls[0]![1]).toMatchObject({ goal: 'away', length: 2 });
    const path = [{ suffix: [5], score: -0.25 }];
    const found = { ...result, none: null, score: -0.25, start: -0.5, path };
    view.job.end({ result: found, text: 'x' });
    await turn();
    showsNow(view);
    const failingSearch = startSearch();
    failingSearch.click('Search');
    failingSearch.job.fail(new Error('no room'));
    await turn();
    expect([failingSearch.fail.mock.calls.length, failingSearch.text('.primary')]).toEqual([
      1,
      'Search',
    ]);
    const stoppedSearch = startSearch();
    stoppedSearch.click('Search');
    stoppedSearch.click('Stop');
    stoppedSearch.job.fail(new Error('aborted'));
    await turn();
    expect(stoppedSearch.fail).not.toHaveBeenCalled();
    // The context has room for the text and one token of a suffix.
    const fullSearch = startSearch(
      frameOf({ T: 9, tokens: tokensOf('a', 'b', 'c', 'd'), architecture }),
    );
    expect(fullSearch.all('input')[0]!.getAttribute('max')).toBe('1');
    const longSearch = startSearch(
      frameOf({ T: 9, tokens: tokensOf('a', 'b'), architecture: { ...architecture, context: 99 } }),
    );
    expect(longSearch.all('input')[0]!.getAttribute('max')).toBe('32');
  });
});

describe('unmasking', () => {
  const MASK = 9;
  const architecture = {
    ...frameOf().architecture,
    ...{ context: 8, mask: { kind: 'bidirectional' } },
  } as unknown as Frame['architecture'];
  const frame = (change: Partial<Frame> = { maskToken: MASK }) =>
    frameOf({ T: 2, tokens: tokensOf('a', 'b'), architecture, ...change });
  const step = (tokens: number[], place: number, filled: number): UnmaskStep => ({
    tokens,
    filled: [{ place: filled, token: tokens[filled]!, probability: 0.5 }],
    alpha: tensor(
      [4],
      tokens.map((_, t) => (t === place ? 0.5 : 0.125)),
    ),
    sink: { place, alpha: 0.5 },
    without: null,
  });
  const steps = [step([0, 1, MASK, 5], 0, 3), step([0, 1, 6, 5], 3, 2)];
  const opened = { tokenizer: { piece: (id: number) => `w${id}` } } as unknown as OpenModel;

  function startUnmasking(change: object = {}) {
    const job = deferred<void>();
    const measureCalls: {
      ids: readonly number[];
      count: number;
      without: string | undefined;
      signal: AbortSignal;
      onStep: (i: number) => void;
    }[] = [];
    interface Options {
      readonly tokens: readonly number[];
      readonly steps: number;
      readonly without?: string;
      readonly onStep: (...all: unknown[]) => void;
    }
    const run = (_: string, { signal }: Of, { tokens, steps: count, without, onStep }: Options) => {
      const report = (i: number) => onStep(steps[i], opened);
      measureCalls.push({ ids: tokens, count, without, signal, onStep: report });
      return job.promise;
    };
    const unmaskedFrame = frame();
    const options = { masked: 2, denoise: 12, hiddenKey: 'none' as const, ...change };
    return {
      ...drawView(unmasking, unmaskedFrame, { api: { measure: run }, ...options }),
      job,
      measureCalls,
      unmaskedFrame,
      options,
    };
  }

  it('puts masks after the text, fills them step by step, and shows each step', async () => {
    const view = startUnmasking();
    const { click, text, measureCalls, map, all, job, unmaskedFrame, draw, options } = view;
    showsNow(view);
    click('Unmask');
    expect(measureCalls[0]).toMatchObject({ ids: [0, 1, MASK, MASK], count: 2 });
    measureCalls[0]!.onStep(0);
    showsNow(view);
    measureCalls[0]!.onStep(1);
    job.end();
    await turn();
    showsNow(view);
    const [slider] = all('input[type=range]') as HTMLInputElement[];
    expect([slider!.max, slider!.value]).toEqual(['1', '1']);
    slider!.value = '0';
    slider!.dispatchEvent(new Event('input'));
    expect([text('.range span'), map.data.chosen]).toEqual(['step 1 of 2', { row: 0, col: -1 }]);
    map.events.onChoose!({ row: 1, col: 0 });
    expect(text('.range span')).toBe('step 2 of 2');
    expect(unmasking.numbers(unmaskedFrame, at)[0]).toMatchObject({ name: 'alpha', shape: [2, 4] });
    draw(unmaskedFrame, options);
    expect(unmasking.says(unmaskedFrame, at)).not.toBe('');
    draw(unmaskedFrame, { ...options, masked: 1 });
    expect([
      unmasking.says(unmaskedFrame, at),
      unmasking.numbers(unmaskedFrame, at),
      all('.plot')[0]!.hidden,
    ]).toEqual(['', [], true]);
  });

  it('reports its progress when it is stopped, and ignores late results', () => {
    const { click, text, measureCalls, map, unmaskedFrame } = startUnmasking({ denoise: 1 });
    click('Unmask');
    expect(measureCalls[0]!.count).toBe(1);
    const hidingRun = startUnmasking({ hiddenKey: 'random' });
    hidingRun.click('Unmask');
    expect([measureCalls[0]!.without, hidingRun.measureCalls[0]!.without]).toEqual([
      undefined,
      'random',
    ]);
    const otherRun = startUnmasking();
    otherRun.click('Unmask');
    otherRun.measureCalls[0]!.onStep(0);
    otherRun.click('Stop');
    expect([otherRun.text('.caption'), otherRun.measureCalls[0]!.signal.aborted]).toEqual([
      'Step 1 of 2.',
      true,
    ]);
    otherRun.measureCalls[0]!.onStep(1);
    expect(otherRun.map.data.outlined).toHaveLength(1);
    expect([text('.primary'), map.data, unmasking.says(unmaskedFrame, at)]).toEqual([
      'Stop',
      undefined,
      '',
    ]);
    expect(otherRun.map.data.cellShape).toBe(1);
    showsNow(drawView(unmasking, frame({})));
    const wideRun = startUnmasking({ masked: 7, denoise: 1 });
    wideRun.click('Unmask');
    wideRun.measureCalls[0]!.onStep(0);
    expect(wideRun.map.data.cellShape).toBe(3 / 8);
  });
});

describe('the conditions of a view that hides keys', () => {
  const frame = frameOf({ maskToken: 9, tokens: tokensOf('a', 'b') });
  const encoder = { ...frame, architecture: { ...frame.architecture, context: 8 } } as Frame;
  const masked = {
    ...encoder,
    architecture: { ...encoder.architecture, mask: { kind: 'bidirectional' } },
  } as Frame;
  const conditionsOf = (change: Partial<State>) =>
    unmasking.conditions!(masked, { ...defaults, masked: 3, ...change });

  it('name the text with its masked positions, and the hidden key', () => {
    expect(conditionsOf({})).toEqual({ T: 5, sequences: 1 });
    expect(conditionsOf({ hiddenKey: 'strongest' })).toMatchSnapshot();
    expect(conditionsOf({ hiddenKey: 'random' }).title).toMatch(
      /, a random key of each step hidden$/,
    );
    expect(unmasking.conditions!(encoder, defaults)).toEqual({});
  });

  it('are counterfactual if a key is hidden in some runs', () => {
    for (const view of [tasks, maskedLoss])
      expect(view.conditions!(masked, defaults)).toMatchObject({
        class: 'counterfactual',
        title: expect.stringMatching(/^Softmax model, with and without/),
      });
    expect(tasks.conditions!({ ...masked, sequences: 8 }, defaults).sequences).toBe(8);
  });
});

describe('the loss at masked tokens', () => {
  const score = (mean: number, change: number, error: number | null = 0.01) => ({
    ...{ mean, error: 0.25 },
    change: { mean: change, error },
  });
  const conditions = (loss: number, strongest: number, random: number, alpha: number) => {
    const scores = (change: number) => ({
      loss: score(loss + change, change),
      accuracy: score(0.5, 0),
    });
    return {
      ...{ baseline: scores(0), strongest: scores(strongest), random: scores(random) },
      alpha: { mean: alpha, error: null },
    };
  };
  const result: UnmaskResult = {
    ...{ prompts: 8, predicted: 64, steps: 8, moves: { mean: 0, error: 0 } },
    ...conditions(4.25, 0.015, -0.05, 0.125),
    causal: conditions(3.5, 0.25, -0.01, 0.5),
  };
  const frame = frameOf({ maskToken: 9, tokens: tokensOf('a', 'b') });

  async function startMeasuring(result: object) {
    const job = deferred<object>();
    const calls: [Frame, AbortSignal, (share: number) => void][] = [];
    const api = {
      measure: (
        _: string,
        { frame, signal }: Of,
        { onShare }: { onShare: (share: number) => void },
      ) => {
        calls.push([frame, signal, onShare]);
        return job.promise;
      },
    };
    const otherView = drawView(maskedLoss, { ...frame, tokens: [...frame.tokens] }, { api });
    otherView.click('Measure');
    expect(otherView.text('.unmask-controls')).toBe('Stop 0%');
    calls[0]![2](0.5);
    expect([otherView.text('.unmask-controls'), otherView.all('.plot')[0]!.hidden]).toEqual([
      'Stop 50%',
      true,
    ]);
    job.end(result);
    await turn();
    return { ...otherView, frame: calls[0]![0] };
  }

  it('draws the changes of both models, with a sentence of the same numbers', async () => {
    const view = await startMeasuring({ result, causal: 'Softmax' });
    showsNow(view, maskedLoss, view.frame);
  });

  it('has one curve without a causal model, and no error bars for one prompt', async () => {
    const singlePrompt = { ...result, prompts: 1, causal: null };
    const withoutCausal = {
      ...singlePrompt,
      strongest: { ...singlePrompt.strongest, loss: score(4.3, 0.05, null) },
    };
    showsNow(await startMeasuring({ result: withoutCausal }));
  });
});

describe('the view of tasks', () => {
  const score = (mean: number, error: number | null = 0.125) => ({
    ...{ mean, error },
    change: { mean: 0, error },
  });
  const scores = (mean: number, loss: number, error?: number | null) => ({
    accuracy: score(mean, error),
    loss: score(loss),
    choice: null,
  });
  const task = (name: string, mean: number, more: object = {}): TaskResult => ({
    ...{ name, prompts: 8, predicted: 64, chance: 0, can: true },
    ...{ baseline: scores(mean, 1), first: scores(0, 4), other: scores(mean, 2) },
    unseen: scores(0.25, 3, null),
    ...more,
  });

  it('measures the tasks in turn, and draws points for each', async () => {
    const job = deferred<void>();
    type Given = [Frame, AbortSignal, (task: TaskResult) => void, (share: number) => void];
    interface Reports {
      readonly onTask: Given[2];
      readonly onShare: Given[3];
    }
    const measureCalls: Given[] = [];
    const measure = (_: string, { frame, signal }: Of, { onTask, onShare }: Reports) => {
      measureCalls.push([frame, signal, onTask, onShare]);
      return job.promise;
    };
    const frame = frameOf({ T: 5, tokens: tokensOf('a', 'b', 'c', 'd', 'e') });
    const view = drawView(tasks, frame, { api: { measure } });
    const { click, text } = view;
    shows(tasks, frame);
    click('Measure');
    const [measuredFrame, , onTask, onProgress] = measureCalls[0]!;
    expect(measuredFrame).toBe(frame);
    expect(text('.unmask-controls')).toBe('Stop 0%');
    onProgress(0.5);
    expect(text('.unmask-controls')).toBe('Stop 50%');
    onTask(task('next', 0.5));
    onTask(task('copy', 0.75, { can: false }));
    // While the job runs there is no caption, which a screen reader would read out. The conditions have no order, so no
    // line connects them.
    showsNow(view);
    job.end();
    await turn();
    showsNow(view, tasks, frame);
    expect(tasks.says(frame, at)).toBe(view.text('.caption'));
  });
});
