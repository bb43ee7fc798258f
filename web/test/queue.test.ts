import { effect } from '@preact/signals-core';
import { describe, expect, it, vi } from 'vitest';
import {
  SinkscopeError,
  type Describe,
  type Edit,
  type RunRead,
  type Run,
  type Tokenizer,
} from 'sinkscope';
import type { Models } from '../src/run/models';
import type { OpenModel } from '../src/run/opened';
import { Queue } from '../src/run/queue';
import type { Request } from '../src/run/request';
import { questionOf } from '../src/ask/question';
import { defaults } from '../src/ask/state';
import { tensor } from './fixture';

const recordStudy = vi.hoisted(() => vi.fn());
vi.mock('sinkscope', async (load) => ({ ...(await load<object>()), recordStudy }));

const metric = (name: string, averaged = true) => ({
  ...{ name, averaged, arguments: [], fields: [], shape: [] },
});
const describe_ = {
  operations: [
    { name: 'softmax', label: 'softmax', parameters: [], normalizes: true, features: 'none' },
  ],
  metrics: [
    ...[
      'alpha',
      'alpha_raw',
      'sink_ratio',
      'sink_ratio_raw',
      'row_mass_summary',
      'loss_mean',
      'value_ratio',
    ].map((name) => metric(name)),
    metric('alpha_uniform', false),
    { ...metric('bad', false), fields: ['att'] },
  ],
  fields: [
    { name: 'att', needs: null, standard: true },
    { name: 'next', needs: null, standard: true },
    { name: 'scores', needs: null, standard: false },
    { name: 'router', needs: 'E', standard: true },
  ],
  edits: [
    {
      name: 'silence',
      label: 'x',
      counterfactual: true,
      fields: [],
      parameters: [
        { name: 'layer', type: 'index', below: 'L' },
        { name: 'head', type: 'index', below: 'H' },
      ],
    },
  ],
} as unknown as Describe;

const tokenizer = {
  bos: null,
  size: 9,
  special: [],
  specials: [],
  encode: (text: string) => Array.from(text, () => ({ id: 1, text: 'x', special: false })),
  piece: () => 'x',
} as unknown as Tokenizer;

interface Options {
  readonly edits?: readonly Edit[];
  readonly signal?: AbortSignal;
  readonly capacity: number;
  readonly from?: { readonly run: Run };
}

/** A progress report while a model is opened. */
type Report = [what: string, done: number, total: number, more?: object];

/** Returns a queue over mocked models, which a test can delay and which record their calls. */
function stageOf(
  bytes: Record<string, number> = {},
  context = 9,
  turn?: () => Promise<() => void>,
) {
  const log: string[] = [];
  const runs = () => log.filter((line) => /^(run|update)/.test(line));
  const gates = new Map<string, Promise<void>>();
  // Two heads: the first attends most to token 1; in the model “other” the second does.
  const answer = (read: RunRead, id: string) =>
    'metric' in read && read.metric === 'alpha'
      ? tensor([1, 2, 2], id === 'other' ? [0.1, 0, 0.9, 0] : [0.9, 0, 0.1, 0])
      : tensor([3], [0.5, 0.5, 0.5]);
  const report: Report[] = [];
  const open = new Set<string>();
  const made = new Map<string, OpenModel>();
  const opened = (id: string, isPreview = false): OpenModel => {
    const key = `${id} ${isPreview}`;
    made.set(key, made.get(key) ?? make(id, isPreview));
    return made.get(key)!;
  };
  const make = (id: string, isPreview: boolean): OpenModel =>
    ({
      id,
      isPreview,
      title: id,
      source: 'zoo',
      tokenizer,
      model: {
        describe: describe_,
        architecture: {
          L: 1,
          H: 2,
          G: 1,
          E: 0,
          context,
          mask: { kind: 'causal' },
          attention: { operation: 'softmax' },
        },
        run: async (ids: readonly number[], { edits = [], signal, capacity, from }: Options) => {
          log.push(`run ${id}${from ? ` from ${from.run.tokens.length}` : ''}`);
          const tokens = [...ids];
          const wait = async (signal?: AbortSignal) => {
            await gates.get(id);
            signal?.throwIfAborted();
            if (id === 'refused') throw new SinkscopeError('memory', 'engine', 'there is no room');
            if (id === 'lost' || (id === 'once' && runs().length < 2))
              throw new SinkscopeError('lost', 'engine', 'it is gone');
          };
          await wait(signal);
          const update = async (ids: readonly number[], { signal }: Options) => {
            log.push(`update ${id}`);
            await wait(signal);
            tokens.splice(0, Infinity, ...ids);
          };
          const read = async (reads: RunRead[]) => {
            log.push(
              `read ${reads.map((one) => ('metric' in one ? one.metric : one.field)).join()}`,
            );
            await gates.get(`read ${id}`);
            if (reads.some((one) => 'metric' in one && one.metric === 'bad'))
              throw new Error('it cannot');
            return reads.map((read) => answer(read, id));
          };
          const metric = async () => tensor([1], [0.25]);
          async function* generate({ count }: { count: number }) {
            if (tokens.length + count > capacity) throw new Error('no room');
            for (let i = 0; i < count; i++) {
              tokens.push(2);
              yield { token: 2 };
            }
          }
          const close = async () => void log.push(`end ${id}`);
          return { read, metric, generate, update, edits, tokens, close };
        },
      },
    }) as unknown as OpenModel;
  const models = {
    describe: describe_,
    canOpen: () => true,
    bytesOf: (id: string) => bytes[id],
    get: async (id: string, { onProgress }: { onProgress: (...all: Report) => void }) => {
      log.push(`open ${id}`);
      for (const one of report.splice(0)) onProgress(...one);
      if (id === 'broken') throw new Error('no such thing');
      await gates.get(`open ${id}`);
      open.add(id);
      return opened(id);
    },
    getPreview: async (id: string) => {
      if (open.has(id)) return opened(id);
      log.push(`open ${id} rounded`);
      return opened(id, true);
    },
    isOpen: (id: string) => open.has(id),
    release: async (kept: Set<string>) => void log.push(`keep ${[...kept].join()}`),
  } as unknown as Models;
  const queue = new Queue({
    ...{ models, texts: async () => [], admit: async () => false },
    ...(turn ? { turn } : {}),
  });
  const hold = (id: string) => {
    let open = () => {};
    gates.set(id, new Promise((done) => (open = done)));
    return open;
  };
  const idle = async () => {
    do await new Promise((done) => setTimeout(done, 5));
    while (queue.work.peek());
  };
  const ask = (subjects: string[], change: Partial<Request> = {}, prompt = 'ab') =>
    queue.ask({
      subjects,
      question: questionOf({ ...defaults, prompt, T: 512 }),
      reads: [],
      headReads: [],
      head: { layer: -1, head: -1 },
      ...change,
    });
  const of = (subject: string) => queue.entries.peek().get(subject);
  return { queue, ask, of, log, runs, hold, idle, report };
}

describe('the queue', () => {
  it('answers one subject after the other, and none twice', async () => {
    const { ask, of, runs, idle } = stageOf();
    ask(['a', 'b']);
    await idle();
    ask(['b', 'a', 'c']);
    await idle();
    expect(runs()).toEqual(['run a', 'run b', 'run c']);
    expect(of('a')!.frame).toMatchObject({ subject: 'a', T: 2, sequences: 1, class: 'measured' });
    expect(of('a')!.frame!.perPrompt.sink_ratio).toEqual([0.5]);
  });

  it('measures experiments after the shown subjects, those of one model together, and none twice', async () => {
    const { queue, ask, runs, log, idle } = stageOf();
    const question = questionOf({ ...defaults, prompt: 'ab' });
    const study = (subject: string) => ({ subject, question, measures: ['loss_mean'] });
    const studies = [study('a'), study('broken'), study('b')];
    ask(['a'], { studies });
    await idle();
    expect(runs()).toEqual(['run a', 'run a', 'run b']);
    expect(queue.studyEntry(study('a'))!.frame!.perPrompt).toEqual({ loss_mean: [0.5] });
    expect(queue.studyEntry(study('broken'))!.error).toBe('no such thing');
    ask(['a'], { studies: [study('b'), study('a')] });
    await idle();
    expect(runs()).toHaveLength(3);
    expect(log.filter((line) => line.startsWith('end'))).toEqual(['end a', 'end b']);
  });

  it('stops experiments together with the subjects, until a new request', async () => {
    const { queue, ask, hold, idle } = stageOf();
    const question = questionOf({ ...defaults, prompt: 'ab' });
    const study = { subject: 'b', question, measures: ['loss_mean'] };
    ask(['a']);
    await idle();
    const open = hold('b');
    ask(['a'], { studies: [study] });
    await new Promise((done) => setTimeout(done, 20));
    queue.stop();
    open();
    await idle();
    expect(queue.studyEntry(study)).toEqual({ error: 'Stopped.' });
    queue.retry();
    await idle();
    expect(queue.studyEntry(study)!.frame).toBeDefined();
  });

  it('reads further fields and metrics of a view from the open run', async () => {
    const { ask, of, runs, idle, log } = stageOf();
    ask(['a']);
    await idle();
    ask(['a'], { reads: ['value_ratio', 'router'], headReads: ['att'] });
    await idle();
    expect(runs()).toEqual(['run a']);
    expect(log.filter((line) => line.startsWith('read')).slice(1)).toEqual([
      'read value_ratio,att',
    ]);
    expect(of('a')!.frame!.head).toMatchObject({ layer: 0, head: 0 });
  });

  it('reads other metrics after a failed read, and does not repeat the failed one', async () => {
    const { ask, of, idle, log } = stageOf();
    ask(['a']);
    await idle();
    const tries = () => log.filter((line) => line.includes('bad')).length;
    ask(['a'], { reads: ['bad'] });
    await idle();
    expect([of('a')!.error, tries()]).toEqual(['it cannot', 1]);
    ask(['a'], { reads: ['bad'], head: { layer: 0, head: 1 } });
    await idle();
    expect([of('a')!.error, tries()]).toEqual(['it cannot', 1]);
    ask(['a'], { reads: ['value_ratio'] });
    await idle();
    expect(of('a')!.error).toBeUndefined();
    expect(of('a')!.frame!.tensors.value_ratio).toBeDefined();
  });

  it('closes a run after a failed read', async () => {
    const { ask, of, idle, log } = stageOf();
    ask(['a'], { reads: ['bad'] });
    await idle();
    expect(of('a')!.error).toBe('it cannot');
    expect(log.filter((line) => /^(run|end)/.test(line))).toEqual(['run a', 'end a']);
  });

  it('ablates heads after the shown run, until no room requests it', async () => {
    const { ask, of, runs, idle, hold } = stageOf();
    ask(['a']);
    await idle();
    const open = hold('a');
    ask(['a'], { reads: ['effect'] });
    await new Promise((done) => setTimeout(done, 10));
    expect(of('a')!.frame!.tensors.effect).toBeUndefined();
    ask(['a'], { reads: ['value_ratio'] });
    open();
    await idle();
    expect(of('a')!.error).toBeUndefined();
    expect(Object.keys(of('a')!.frame!.tensors)).not.toContain('effect');
    const before = runs().length;
    ask(['a'], { reads: ['effect'] });
    await idle();
    expect(of('a')!.frame!.tensors.effect).toEqual(tensor([1, 2], [0.25, 0.25]));
    expect(runs()).toHaveLength(before + 3);
  });

  it('publishes the first frame of a model at once, and replaced frames of all models together', async () => {
    const { queue, ask, hold, idle } = stageOf();
    const reported: string[] = [];
    effect(() => {
      const all = [...queue.entries.value.values()];
      reported.push(all.map(({ frame }) => frame?.question.prompt ?? '-').join(' '));
    });
    const open = hold('b');
    ask(['a', 'b'], {}, 'one');
    await new Promise((done) => setTimeout(done, 20));
    expect(reported.at(-1)).toBe('one -');
    open();
    await idle();
    reported.length = 0;
    ask(['a', 'b'], {}, 'two');
    await idle();
    expect(reported).toEqual(['two two']);
    const late = hold('b');
    ask(['a', 'b'], {}, 'three');
    await new Promise((done) => setTimeout(done, 200));
    expect(reported.at(-1)).toBe('three two');
    expect(queue.entries.peek().get('b')!.isStale).toBe(true);
    late();
    await idle();
    expect(reported.at(-1)).toBe('three three');
  });

  it('publishes a failure before the next subject is ready', async () => {
    const { queue, ask, idle } = stageOf();
    const reported: string[] = [];
    effect(() => {
      const all = [...queue.entries.value.values()];
      reported.push(all.map(({ frame, error }) => error ?? (frame ? 'frame' : '-')).join(', '));
    });
    ask(['broken', 'b']);
    await idle();
    expect(reported).toEqual(['', '-, -', 'no such thing, -', 'no such thing, frame']);
  });

  it('marks a frame as stale while another text runs, and publishes nothing if the text is the same', async () => {
    const { queue, ask, of, hold, idle } = stageOf();
    ask(['a', 'b'], {}, 'one');
    await idle();
    const known = queue.entries.peek();
    ask(['a', 'b'], {}, 'one');
    await idle();
    expect(queue.entries.peek()).toBe(known);
    ask(['a'], {}, 'one');
    expect([...queue.entries.peek().keys()]).toEqual(['a']);
    const open = hold('a');
    ask(['a', 'b'], {}, 'two');
    await vi.waitFor(() => expect(of('a')!.isStale).toBe(true));
    expect(of('a')!.frame!.question.prompt).toBe('one');
    open();
    await idle();
    expect(['a', 'b'].map((id) => of(id)!.isStale)).not.toContain(true);
  });

  it('reports its work: the bytes of a download, and the finished share', async () => {
    const { queue, ask, idle, report } = stageOf();
    const said: unknown[] = [];
    effect(() => {
      const work = queue.work.value;
      if (work) said.push([work.text, work.share]);
    });
    report.push(
      ['Loading a', 5e6, 2e7, { stage: 'read', rate: 1e6 }],
      ['Reading', 1, 4],
      ['Compiling', 1, 0],
    );
    ask(['a']);
    await idle();
    expect(said).toEqual([
      ['Running', NaN],
      ['Loading a: 5.0 MB of 20 MB · 1.0 MB/s', 0.25],
      ['Reading', 0.25],
      ['Compiling', NaN],
    ]);
    expect(queue.work.peek()).toBeUndefined();
  });

  it('does not run a model whose opening was stopped', async () => {
    const { queue, ask, of, runs, hold, idle } = stageOf();
    const open = hold('open a');
    ask(['a']);
    await new Promise((done) => setTimeout(done, 5));
    queue.stop();
    open();
    await idle();
    expect([runs(), of('a')!.error]).toEqual([[], 'Stopped.']);
  });

  it('opens the other models while the first one runs', async () => {
    const { ask, log, hold, idle } = stageOf();
    const open = hold('a');
    ask(['a', 'b']);
    await new Promise((done) => setTimeout(done, 10));
    expect(log).toContain('open b');
    expect(log).not.toContain('run b');
    open();
    await idle();
    expect(log.filter((line) => line.startsWith('run'))).toEqual(['run a', 'run b']);
  });

  it('stops a long run for another question, and no run for another view', async () => {
    vi.useFakeTimers({ toFake: ['performance'] });
    const { ask, of, runs, idle, hold } = stageOf();
    const open = hold('a');
    ask(['a'], {}, 'one');
    await new Promise((done) => setTimeout(done, 10));
    vi.advanceTimersByTime(60_000);
    ask(['a'], { reads: ['value_ratio'] }, 'one');
    open();
    await idle();
    expect(runs()).toHaveLength(1);
    expect(of('a')!.frame!.question.prompt).toBe('one');
    const again = hold('a');
    ask(['a'], {}, 'two');
    await new Promise((done) => setTimeout(done, 10));
    vi.advanceTimersByTime(60_000);
    ask(['a'], {}, 'three');
    again();
    await idle();
    vi.useRealTimers();
    // The second run was stopped, so its answer is never shown.
    expect(of('a')!.frame!.question.prompt).toBe('three');
    expect(of('a')!.error).toBeUndefined();
  });

  it('reads the strongest head of each subject, or the head requested for it', async () => {
    const { ask, of, idle } = stageOf();
    const request = { headReads: ['att'], head: { layer: -1, head: -1 } };
    ask(['a', 'other'], request);
    await idle();
    expect([of('a'), of('other')].map((one) => one!.frame!.head!.head)).toEqual([0, 1]);
    const heads = { a: { layer: 0, head: 1 }, other: { layer: 0, head: 0 } };
    ask(['a', 'other'], { ...request, heads });
    await idle();
    expect([of('a'), of('other')].map((one) => one!.frame!.head!.head)).toEqual([1, 0]);
  });

  it('finishes a quick run, then answers only the newest question', async () => {
    const { ask, of, runs, idle, hold } = stageOf();
    const open = hold('a');
    ask(['a'], {}, 'one');
    await new Promise((done) => setTimeout(done, 10));
    for (const text of ['two', 'three', 'four']) ask(['a'], {}, text);
    open();
    await idle();
    expect(runs()).toHaveLength(2);
    expect(of('a')!.frame!.question.prompt).toBe('four');
    expect(of('a')!.isStale).toBeFalsy();
  });

  it('keeps the last good frame when a question fails, reports the reason, and tries again on request', async () => {
    const { ask, of, queue, idle, log } = stageOf();
    ask(['a', 'broken']);
    await idle();
    expect(of('broken')).toMatchObject({ error: 'no such thing' });
    expect(of('a')!.frame).toBeDefined();
    ask(['a'], {}, ' ');
    await idle();
    expect(of('a')).toMatchObject({ isStale: true, error: expect.stringMatching(/no text yet/) });
    expect(of('a')!.frame!.question.prompt).toBe('ab');
    ask(['broken']);
    await idle();
    const tries = () => log.filter((line) => line === 'open broken').length;
    const before = tries();
    ask(['broken'], { reads: ['alpha'] });
    await idle();
    expect(tries()).toBe(before);
    queue.retry();
    await idle();
    expect(tries()).toBe(before + 1);
  });

  it('closes a run before its replacement begins, and reads nothing more from it', async () => {
    const { ask, of, queue, log, runs, hold, idle } = stageOf({}, 300);
    // A run has room for 64 tokens more than its text.
    const text = 'a'.repeat(70);
    ask(['a'], {}, 'ab');
    await idle();
    ask(['a'], {}, text);
    await idle();
    expect(log.filter((line) => /^(run|update|end)/.test(line))).toEqual([
      'run a',
      'end a',
      'run a',
    ]);
    // After a stopped measurement has closed the run, the frame, which needs no run, answers the question again.
    const open = hold('a');
    ask(['a'], {}, 'a'.repeat(140));
    await new Promise((done) => setTimeout(done, 5));
    queue.stop();
    open();
    await idle();
    expect(of('a')).toMatchObject({ isStale: true, error: 'Stopped.', frame: { T: 70 } });
    ask(['a'], {}, text);
    await idle();
    expect(of('a')).toMatchObject({ isStale: false, error: undefined });
    expect(runs()).toHaveLength(3);
    ask(['a'], { reads: ['value_ratio'] }, text);
    await idle();
    expect(runs()).toHaveLength(4);
    expect(of('a')!.frame!.tensors.value_ratio).toBeDefined();
  });

  it('generates further tokens in a run with room for them, up to the context', async () => {
    const { ask, of, queue, log, idle } = stageOf({}, 80);
    ask(['a']);
    await idle();
    const go = (count: number) =>
      queue.generate(['a'], { count, temperature: 0, topK: 0, seed: 1 });
    await go(60);
    await go(30);
    expect(of('a')!.frame).toMatchObject({ T: 80, generated: 78 });
    expect(of('a')!.error).toBeUndefined();
    expect(log.filter((line) => /^(run|end)/.test(line))).toEqual(['run a', 'end a', 'run a']);
    await go(1);
    expect(of('a')!.error).toMatch(/no room for more tokens/);
  });

  it('updates the run as the reader types, and bases edited runs on the unedited one', async () => {
    const { ask, of, log, idle } = stageOf();
    const acts = () => log.filter((line) => /^(run|update|end)/.test(line));
    const edited = 'a~silence(0,1)';
    ask(['a', edited]);
    await idle();
    expect(acts()).toEqual(['run a', 'run a from 2']);
    ask(['a', edited], {}, 'abc');
    await idle();
    expect(acts().slice(2)).toEqual(['update a', 'update a']);
    expect(of('a')!.frame!.T).toBe(3);
    ask([edited], {}, 'abc');
    ask(['a~silence(0,0)'], {}, 'abc');
    await idle();
    expect(acts().slice(4)).toEqual(['end a', 'run a from 3']);
    ask(['b~silence(0,0)'], {}, 'abc');
    await idle();
    expect(acts().slice(6)).toEqual(['end a', 'end a', 'run b']);
  });

  it('runs again if an update is impossible, for further fields or beyond the capacity', async () => {
    const { ask, log, idle } = stageOf({}, 300);
    ask(['a'], {}, 'abc');
    await idle();
    ask(['a'], {}, 'ab');
    await idle();
    ask(['a'], {}, 'a'.repeat(70));
    await idle();
    ask(['a'], { headReads: ['scores'] }, 'abc');
    await idle();
    expect(log.filter((line) => /^(run|update|end)/.test(line))).toEqual([
      'run a',
      'update a',
      'end a',
      'run a',
      'end a',
      'run a',
    ]);
  });

  it('waits for its turn among figures, then works on the latest request, and releases its turn', async () => {
    const turns: (() => void)[] = [];
    let given = 0;
    const turn = () => new Promise<() => void>((go) => turns.push(() => go(() => void given++)));
    const { ask, runs, idle } = stageOf({}, 9, turn);
    ask(['a', 'broken']);
    await new Promise((done) => setTimeout(done, 20));
    expect([runs(), turns.length]).toEqual([[], 1]);
    ask(['b', 'broken']);
    turns[0]!();
    await expect.poll(() => turns.length).toBe(2);
    expect([runs(), given]).toEqual([['run b'], 1]);
    turns[1]!();
    await idle();
    expect(given).toBe(2);
    // When its turn comes, the page no longer asks for anything.
    ask(['c']);
    ask([]);
    turns[2]!();
    await idle();
    expect([runs(), given]).toEqual([['run b'], 3]);
  });

  it('runs again for a figure with a fixed list of reads if this list changes', async () => {
    const { ask, runs, idle } = stageOf();
    ask(['a'], { isFixed: true, reads: ['value_ratio'] });
    await idle();
    ask(['a'], { isFixed: true, reads: ['value_ratio'], headReads: ['att'] });
    await idle();
    expect(runs()).toEqual(['run a']);
    ask(['a'], { isFixed: true, reads: ['sink_ratio'] });
    await idle();
    expect(runs()).toEqual(['run a', 'update a']);
  });

  it('continues from a stopped update, but not from a failed run', async () => {
    const { ask, of, log, hold, idle, queue } = stageOf();
    ask(['a']);
    await idle();
    const open = hold('a');
    ask(['a'], {}, 'abc');
    await new Promise((done) => setTimeout(done, 20));
    queue.stop();
    open();
    await idle();
    expect(of('a')).toMatchObject({ isStale: true, error: 'Stopped.' });
    // The answer to the previous text is kept, and its run is still open.
    ask(['a'], { reads: ['value_ratio'] });
    await idle();
    expect(of('a')).toMatchObject({ isStale: false, error: undefined, frame: { T: 2 } });
    ask(['a'], {}, 'abcd');
    await idle();
    expect(of('a')!.frame!.T).toBe(4);
    expect(log.filter((line) => /^(run|update|end)/.test(line))).toEqual([
      'run a',
      'update a',
      'update a',
    ]);
  });

  it('keeps a run that was stopped during reads, so that the next text updates it', async () => {
    const { ask, of, log, hold, idle, queue } = stageOf();
    const open = hold('read a');
    ask(['a']);
    await vi.waitUntil(() => log.some((line) => line.startsWith('read')));
    queue.stop();
    open();
    await idle();
    expect(of('a')).toMatchObject({ error: 'Stopped.' });
    ask(['a'], {}, 'abc');
    await idle();
    expect(of('a')!.frame!.T).toBe(3);
    expect(log.filter((line) => /^(run|update|end)/.test(line))).toEqual(['run a', 'update a']);
  });

  it('stops on request, and continues with the next question', async () => {
    const { ask, of, queue, idle, hold } = stageOf();
    const open = hold('a');
    ask(['a']);
    await new Promise((done) => setTimeout(done, 5));
    queue.stop();
    open();
    await idle();
    expect(of('a')).toMatchObject({ error: 'Stopped.' });
    ask(['a'], {}, 'other');
    await idle();
    expect(of('a')!.frame!.question.prompt).toBe('other');
  });

  it('tries again once after its engine is lost, then reports the error', async () => {
    const { ask, of, idle, runs, queue } = stageOf();
    ask(['once', 'lost']);
    await idle();
    expect(of('once')!.frame).toBeDefined();
    expect(runs().filter((line) => line === 'run lost')).toHaveLength(2);
    expect(of('lost')!.error).toMatch(/it is gone/);
    queue.retry();
    await idle();
    expect(runs().filter((line) => line === 'run lost')).toHaveLength(4);
    // After another error the queue does not try again, since the error would only repeat.
    ask(['refused']);
    await idle();
    expect([runs().filter((line) => line === 'run refused').length, of('refused')!.error]).toEqual([
      ...[1, 'engine: there is no room (memory)'],
    ]);
  });

  it('does not open a model of a hub before the reader agrees', async () => {
    const { ask, of, idle, log } = stageOf();
    ask(['hub:owner/name']);
    await idle();
    expect(of('hub:owner/name')!.error).toMatch(/owner\/name is not loaded yet/);
    expect(log.filter((line) => line.startsWith('open'))).toEqual([]);
  });

  it('closes runs that no room requests, and never keeps two models that together exceed the memory', async () => {
    const { ask, idle, log } = stageOf({ big: 2 ** 30, huge: 2 ** 30 });
    ask(['big', 'huge']);
    await idle();
    expect(
      log.filter((line) => line.startsWith('keep')).every((line) => !/big.*huge/.test(line)),
    ).toBe(true);
    ask(['a']);
    await idle();
    expect(log).toContain('end big');
  });

  it('keeps a single model of any size, and several that fit the memory together', async () => {
    const bytes = { half: 2 ** 29, other: 2 ** 29, huge: 2 ** 30 + 1 };
    const { ask, idle, log } = stageOf(bytes);
    for (const subjects of [['huge'], ['half', 'other']]) {
      ask(subjects);
      await idle();
      expect(log.filter((line) => line.startsWith('keep')).at(-1)).toBe(`keep ${subjects.join()}`);
    }
  });

  it('answers with a preview if possible, and again with exact numbers on request', async () => {
    const { ask, of, runs, hold, idle, log } = stageOf();
    const come = hold('open a');
    ask(['a'], { isPreview: true });
    await idle();
    const preview = of('a')!.frame;
    ask(['a'], { isPreview: true }, 'abc');
    await idle();
    expect(of('a')!.frame).not.toBe(preview);
    expect(runs()).toHaveLength(2);
    expect(log).not.toContain('open a');
    ask(['a'], {}, 'abc');
    await expect.poll(() => log.at(-1)).toBe('open a');
    expect(of('a')!.frame).toBeTruthy();
    expect(of('a')!.isStale).toBeFalsy();
    come();
    await idle();
    expect(runs()).toHaveLength(3);
    expect(of('a')!.frame!.T).toBe(3);
    const kept = log.filter((line) => line.startsWith('keep')).map((line) => line.slice(5));
    expect([kept[0], kept.at(-1)]).toEqual(['a,a preview', 'a']);
    // Exact weights that are loaded answer in place of a preview.
    log.length = 0;
    ask(['a'], { isPreview: true }, 'ab');
    await idle();
    expect(runs()).toHaveLength(1);
    expect(log).not.toContain('open a rounded');
    // Requests other than the first screen's wait for the exact weights, and many prompts are not measured twice.
    ask(['b']);
    ask(['c'], {
      isPreview: true,
      question: questionOf({ ...defaults, prompt: 'abcdef', T: 2, n: 3 }),
    });
    await idle();
    expect(log).not.toContain('open b rounded');
    expect(log).not.toContain('open c rounded');
  });

  it('measures every prompt, and gives means with their spread', async () => {
    const { ask, of, idle } = stageOf();
    ask(['a'], { question: questionOf({ ...defaults, prompt: 'abcdef', T: 2, n: 3 }) });
    await idle();
    const { frame } = of('a')!;
    expect(frame!.sequences).toBe(3);
    expect(frame!.perPrompt.sink_ratio).toEqual([0.5, 0.5, 0.5]);
    expect([...frame!.spread.sink_ratio!]).toEqual([0, 0, 0]);
    expect(frame!.tensors).not.toHaveProperty('bad');
  });

  it('runs each prompt only once for a figure that reads only averages', async () => {
    const { ask, of, queue, runs, idle } = stageOf();
    const question = questionOf({ ...defaults, prompt: 'abcdef', T: 2, n: 3 });
    const figure = { question, isFixed: true, reads: ['sink_ratio'] };
    ask(['a'], figure);
    await idle();
    expect([runs().length, of('a')!.frame!.sequences]).toEqual([3, 3]);
    await queue.generate(['a'], { count: 1, temperature: 0, topK: 0, seed: 1 });
    expect([runs().length, of('a')!.frame!.T]).toEqual([4, 3]);
    ask(['a'], { ...figure, headReads: ['att'] });
    await idle();
    expect(of('a')!.frame!.head!.tensors).toHaveProperty('att');
  });

  it('measures the subject once more for a recording', async () => {
    const { queue, ask, idle } = stageOf();
    const bytes = new Uint8Array(3);
    recordStudy.mockResolvedValue(bytes);
    await expect(queue.record('a', 'your text')).rejects.toThrow('a is not measured yet.');
    ask(['a', 'broken']);
    await idle();
    await expect(queue.record('broken', '')).rejects.toThrow('broken is not measured yet.');
    expect(recordStudy).not.toHaveBeenCalled();
    expect(await queue.record('a', 'your text')).toBe(bytes);
    const [{ describe: own }, ids, options] = recordStudy.mock.lastCall!;
    expect([own, ids]).toEqual([describe_, [[1, 1]]]);
    expect(options).toMatchObject({
      ...{ edits: [], eps: [0.3], fields: ['att', 'q', 'k', 'v'], source: 'your text' },
      model: { id: 'a', revision: null, sha256: null },
    });
    expect(options.strings([1, 1])).toEqual(['x', 'x']);
    ask(['a'], { cells: 1 });
    await idle();
    await queue.record('a', 'your text');
    expect(recordStudy.mock.lastCall![2].fields).toEqual([]);
    ask(['a']);
    await queue.generate(['a'], { count: 2, temperature: 0, topK: 0, seed: 0 });
    await idle();
    await queue.record('a', '');
    expect(recordStudy.mock.lastCall![1]).toEqual([[1, 1, 2, 2]]);
  });

  it('adds no more tokens once it is stopped', async () => {
    const { queue, ask, idle, of } = stageOf();
    ask(['a']);
    await idle();
    const generating = queue.generate(['a'], { count: 7, temperature: 0, topK: 0, seed: 1 });
    await vi.waitUntil(() => queue.isGenerating);
    queue.stopGenerating();
    await generating;
    expect(queue.isGenerating).toBe(false);
    expect(of('a')!.frame!.generated).toBeLessThan(7);
  });

  it('stops generating for another question, but not for another view', async () => {
    const { queue, ask, idle } = stageOf();
    const stop = vi.spyOn(queue, 'stopGenerating');
    ask(['a']);
    ask(['a', 'b'], { reads: ['value_ratio'] });
    expect(stop).not.toHaveBeenCalled();
    ask(['a'], {}, 'abc');
    expect(stop).toHaveBeenCalledTimes(1);
    await idle();
  });
});
