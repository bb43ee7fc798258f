// @vitest-environment happy-dom
/** The lab as a figure, with Train pressed at each moment of its loading. The pair of labs is a fake that waits. */
import { signal } from '@preact/signals-core';
import { beforeEach, describe, expect, it, vi } from 'vitest';
import { build } from '../src/lab/embedded';
import { turn } from './fixture';
import { pageOf, roomOf } from './page';

const fake = vi.hoisted(() => ({
  /** Ends the stage of loading that the pair waits in. */
  proceed: (_?: Error) => {},
  calls: [] as string[],
}));
vi.mock('../src/lab/pair', () => ({
  Pair: class {
    isReady = false;
    isRunning = false;
    step = 0;
    steps = 700;
    canTrain = true;
    isOver = false;
    trainWord = 'Train';
    tables = { fromScratch: [], fineTune: [] };
    columns = [];
    labs = [0, 1].map(() => ({ changes: signal(0), picture: undefined }));
    #wait(stage: string) {
      fake.calls.push(stage);
      return new Promise<void>((resolve, fail) => {
        fake.proceed = (error) => (error ? fail(error) : resolve());
      });
    }
    async openEngine() {
      await this.#wait('engine');
      this.isReady = true;
    }
    reset = () => this.#wait('models');
    requestedSettings = () => [{ problems: [] }, { problems: [] }];
    namedLabs = () => [{ name: 'softmax' }, { name: 'sigmoid' }];
    train() {
      fake.calls.push('train');
      this.isRunning = true;
    }
    toggle() {
      fake.calls.push('toggle');
    }
  },
}));
vi.mock('../src/plot/heatmap', async () => (await import('./drawn')).plots.heatmap);
vi.mock('../src/plot/chart', async () => (await import('./drawn')).plots.chart);

beforeEach(() => void fake.calls.splice(0));

/** Builds the figure on Start, or on a host's page, before there is an engine. */
function renderFigure(isEmbed = false) {
  const fail = vi.fn();
  const page = pageOf({}, [], { fail });
  const engine = page.engine.peek();
  page.engine.value = undefined;
  const room = roomOf((root, context, scope) => build(root, context, scope, isEmbed), page);
  const proceed = async (error?: Error) => {
    fake.proceed(error);
    await turn();
  };
  /** The stages of loading, in order. After each, the next one waits. */
  const stages: readonly (() => Promise<void>)[] = [
    async () => void (page.engine.value = engine),
    proceed,
    proceed,
  ];
  return { ...room, fail, proceed, stages, train: () => room.button('Train') };
}

describe('Train on Start', () => {
  const moments = ['there is no engine', 'the engine that trains loads', 'its models load'];
  const rows = moments.map((moment, at) => ({ moment, at }));
  it.each(rows)('is kept if pressed while $moment', async ({ at }) => {
    const { stages, train, text } = renderFigure();
    for (const enterStage of stages.slice(0, at)) await enterStage();
    expect(train().disabled).toBe(false);
    train().click();
    expect([train().disabled, text('.lab-step')]).toEqual([true, 'loading …']);
    for (const enterStage of stages.slice(at)) await enterStage();
    expect(fake.calls).toEqual(['engine', 'models', 'train']);
  });

  it('trains nothing by itself, and toggles once the models are there', async () => {
    const { stages, train } = renderFigure();
    for (const enterStage of stages) await enterStage();
    expect(fake.calls).toEqual(['engine', 'models']);
    train().click();
    expect(fake.calls.at(-1)).toBe('toggle');
  });

  it('reports a failure only after a press, and tries again at the next', async () => {
    const { stages, proceed, train, fail } = renderFigure();
    await stages[0]!();
    await proceed(new Error('offline'));
    expect(fail).not.toHaveBeenCalled();
    train().click();
    expect(fake.calls).toEqual(['engine', 'engine']);
    await proceed(new Error('offline'));
    expect(fail).toHaveBeenCalledOnce();
    expect(train().disabled).toBe(false);
    train().click();
    await proceed();
    await proceed();
    expect(fake.calls).toEqual(['engine', 'engine', 'engine', 'models', 'train']);
  });

  it('fetches the engine of an embed when it is pressed', async () => {
    const { stages, train } = renderFigure(true);
    await stages[0]!();
    await turn();
    expect(fake.calls).toEqual([]);
    train().click();
    for (const enterStage of stages.slice(1)) await enterStage();
    expect(fake.calls).toEqual(['engine', 'models', 'train']);
  });
});
