import { describe, expect, it } from 'vitest';
import type { Operation, Read, Tensor, Tokenizer } from 'sinkscope';
import { parsePicks } from '../src/compare/picks';
import type { Models, OpenModel } from '../src/models';
import { Runner, type Request } from '../src/study/runner';
import { defaults } from '../src/state';

const SHAPES: Record<string, number[]> = {
  sink_ratio: [2],
  sink_ratio_raw: [2],
  sink_ratio_bias: [1],
  near_eps: [2],
  alpha: [1, 1, 2],
  alpha_uniform: [2],
  qk_cos: [2, 2],
  row_mass_summary: [1, 1, 3],
  entropy_mean: [1, 1],
  cos_gap: [1, 1],
  hidden_ratio: [2],
  key_ratio: [1, 1],
  value_ratio: [1, 1],
  loss_mean: [1],
};

function tensorOf(read: Read): Tensor {
  const shape = SHAPES['metric' in read ? read.metric : ''];
  return { shape, data: new Float32Array(shape.reduce((a, b) => a * b)).fill(0.5) };
}

const tokenizer = {
  bos: null,
  size: 9,
  special: [],
  specials: [],
  encode: (text: string) => Array.from(text, () => ({ id: 1, text: 'x', special: false })),
  piece: () => 'x',
} as unknown as Tokenizer;

const operations = [
  { name: 'softmax', label: 'softmax', parameters: [] },
] as unknown as Operation[];

/** Models that can be told to wait, and remember what was done to them. */
function stageOf(bytes: Record<string, number> = {}) {
  const log: string[] = [];
  const gates = new Map<string, Promise<void>>();
  const opened = (id: string): OpenModel =>
    ({
      id,
      title: id,
      source: 'zoo',
      tokenizer,
      model: {
        architecture: { L: 1, H: 1, G: 1, context: 9, attention: { operation: 'softmax' } },
        run: async (_: unknown, { signal }: { signal?: AbortSignal }) => {
          await gates.get(id);
          signal?.throwIfAborted();
          return { read: async (reads: Read[]) => reads.map(tensorOf), close: async () => {} };
        },
      },
    }) as unknown as OpenModel;
  const models = {
    knows: () => true,
    bytesOf: (id: string) => bytes[id],
    stop: (id: string) => log.push(`stop ${id}`),
    get: async (id: string) => {
      log.push(`open ${id}`);
      if (id === 'broken') throw new Error('no such thing');
      return opened(id);
    },
    close: async (ids: string[]) => void log.push(...ids.map((id) => `close ${id}`)),
  } as unknown as Models;
  let wake = () => {};
  const runner = new Runner({
    models,
    operations,
    shownElsewhere: () => ['elsewhere'],
    changed: () => wake(),
  });
  const hold = (id: string) => {
    let open = () => {};
    gates.set(id, new Promise((done) => (open = done)));
    return open;
  };
  const until = async (holds: () => boolean) => {
    while (!holds()) await new Promise<void>((done) => ((wake = done), setTimeout(done, 5)));
  };
  return { runner, log, hold, until };
}

function ask(picks: string[], change: Partial<Request> = {}): Request {
  const state = { ...defaults, T: 2, bos: false };
  const texts = async () => ['aaa', 'bbb', 'ccc'];
  return { picks: parsePicks(picks).picks, state, setting: 's', n: 2, texts, ...change };
}

describe('a study’s runner', () => {
  it('measures one model after another, and again nothing that is there', async () => {
    const { runner, log, until } = stageOf();
    runner.ask(ask(['a', 'b']));
    await until(() => runner.resultOf('b') !== undefined && !runner.work);
    expect(runner.resultOf('a')).toMatchObject({ sequences: 2, T: 2, title: 'a' });
    runner.ask(ask(['a', 'b', 'c']));
    await until(() => runner.resultOf('c') !== undefined && !runner.work);
    expect(log).toEqual(['open a', 'open b', 'open c']);
  });

  it('is content with a study where a first look is asked for, and not the other way', async () => {
    const { runner, log, until } = stageOf();
    runner.ask(ask(['a'], { n: 1 }));
    await until(() => runner.resultOf('a') !== undefined && !runner.work);
    runner.ask(ask(['a'], { n: 3 }));
    expect(runner.isStale('a')).toBe(true);
    await until(() => runner.resultOf('a')?.sequences === 3);
    runner.ask(ask(['a'], { n: 1 }));
    expect(runner.isStale('a')).toBe(false);
    expect(log).toEqual(['open a', 'open a']);
  });

  it('goes on where more is picked, and stops what is picked no more', async () => {
    const { runner, log, hold, until } = stageOf();
    const open = hold('a');
    runner.ask(ask(['a']));
    await until(() => log.includes('open a'));
    runner.ask(ask(['a', 'b']));
    expect(runner.work).toBeDefined();
    runner.ask(ask(['b']));
    await until(() => runner.resultOf('b') !== undefined && !runner.work);
    open();
    await new Promise((done) => setTimeout(done, 20));
    expect(runner.resultOf('a')).toBeUndefined();
    expect(log).toEqual(['open a', 'close a', 'open b']);
  });

  it('keeps what was measured when it is stopped, and does not go on by itself', async () => {
    const { runner, log, hold, until } = stageOf({ b: 7 });
    const open = hold('b');
    runner.ask(ask(['a', 'b']));
    await until(() => log.includes('open b'));
    runner.stop();
    open();
    await new Promise((done) => setTimeout(done, 20));
    expect(runner.work).toBeUndefined();
    expect(runner.resultOf('a')).toBeDefined();
    expect(runner.resultOf('b')).toBeUndefined();
    expect(log).toEqual(['open a', 'open b', 'stop b']);
  });

  it('says why a model has no result, and tries once', async () => {
    const { runner, log, until } = stageOf();
    const picks = ['broken', 'a', 'a~relu'];
    runner.ask(ask(picks));
    await until(() => runner.resultOf('a') !== undefined && !runner.work);
    expect(runner.failureOf('broken')).toContain('no such thing');
    expect(runner.failureOf('a~relu')).toContain('expected an operation of softmax');
    runner.ask(ask(picks));
    await until(() => !runner.work);
    expect(log.filter((one) => one === 'open broken')).toHaveLength(1);
    runner.retry();
    await until(() => log.filter((one) => one === 'open broken').length === 2);
  });

  it('keeps the last good result of a question that fails', async () => {
    const { runner, until } = stageOf();
    runner.ask(ask(['a']));
    await until(() => runner.resultOf('a') !== undefined && !runner.work);
    runner.ask(ask(['a'], { setting: 'long', state: { ...defaults, T: 50, bos: false } }));
    await until(() => runner.failureOf('a') !== undefined);
    expect(runner.failureOf('a')).toContain('T of at most 9');
    expect(runner.resultOf('a')!.T).toBe(2);
    expect(runner.isStale('a')).toBe(true);
  });

  it('opens a checkpoint by its step, and stops its loading', async () => {
    const { runner, log, hold, until } = stageOf();
    runner.ask(ask(['a@3']));
    await until(() => runner.resultOf('a@3') !== undefined && !runner.work);
    expect(runner.resultOf('a@3')!.title).toBe('a@3');
    const open = hold('a@7');
    runner.ask(ask(['a@7']));
    await until(() => log.includes('open a@7'));
    runner.stop();
    open();
    expect(log).toEqual(['open a@3', 'close a@3', 'open a@7', 'stop a@7']);
  });

  it('holds no two models that would fill the memory, and none when it is closed', async () => {
    const large = 800 * 2 ** 20;
    const { runner, log, until } = stageOf({ a: large, b: large, elsewhere: large });
    runner.ask(ask(['a', 'b', 'elsewhere', 'c']));
    await until(() => runner.resultOf('c') !== undefined && !runner.work);
    expect(log).toEqual(['open a', 'close a', 'open b', 'close b', 'open elsewhere', 'open c']);
    runner.close();
    expect(log.slice(6)).toEqual(['close c']);
    expect(runner.resultOf('a')).toBeDefined();
  });
});
