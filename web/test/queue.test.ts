import { effect } from '@preact/signals-core';
import { describe, expect, it, vi } from 'vitest';
import {
  SinkscopeError,
  type Describe,
  type Edit,
  type Progress,
  type RunRead,
  type Run,
  type Tokenizer,
} from 'sinkscope';
import type { Frame } from '../src/frame';
import type { Models } from '../src/run/models';
import type { OpenModel, Watch } from '../src/run/opened';
import { Queue } from '../src/run/queue';
import type { Request } from '../src/run/request';
import { lossStudies, WITHOUT_FIRST } from '../src/rooms/loss_change';
import { questionOf } from '../src/ask/question';
import { defaults } from '../src/ask/state';
import { PATIENCE, tensor } from './fixture';

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
    {
      ...{ name: 'hide_key', label: 'x', counterfactual: true, fields: [] },
      parameters: ['key', 'query'].map((name) => ({ name, type: 'index', below: 'T' })),
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
  const answerTo = (read: RunRead, id: string) =>
    'metric' in read && ['alpha', 'alpha_raw'].includes(read.metric)
      ? tensor([1, 2, 2], id === 'other' ? [0.1, 0, 0.9, 0] : [0.9, 0, 0.1, 0])
      : tensor([3], [0.5, 0.5, 0.5]);
  const reports: Report[] = [];
  const watches: Watch[] = [];
  const openRuns = new Set<string>();
  const openedModels = new Map<string, OpenModel>();
  const openModel = (id: string): OpenModel => {
    openedModels.set(id, openedModels.get(id) ?? createModel(id));
    return openedModels.get(id)!;
  };
  const createModel = (id: string): OpenModel =>
    ({
      id,
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
              `read ${reads.map((read) => ('metric' in read ? read.metric : read.field)).join()}`,
            );
            await gates.get(`read ${id}`);
            if (reads.some((read) => 'metric' in read && read.metric === 'bad'))
              throw new Error('it cannot');
            return reads.map((read) => answerTo(read, id));
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
    get: async (id: string, watch: Watch) => {
      log.push(`open ${id}`);
      watches.push(watch);
      for (const [what, done, total, more] of reports.splice(0))
        watch.onProgress(what, done, total, more as Progress);
      if (id === 'broken') throw new Error('no such thing');
      await gates.get(`open ${id}`);
      openRuns.add(id);
      return openModel(id);
    },
    isOpen: (id: string) => openRuns.has(id),
    stopOpening: (id: string) => void log.push(`stop ${id}`),
    release: async (kept: Set<string>) => void log.push(`keep ${[...kept].join()}`),
  } as unknown as Models;
  const queue = new Queue({
    ...{
      models,
      texts: async () => [],
      admit: async (id: string) => /^hub:\w+\/admitted/.test(id),
    },
    ...(turn ? { turn } : {}),
  });
  const idle = async () => {
    do await new Promise((resolve) => setTimeout(resolve, 5));
    while (queue.work.peek());
  };
  /** Delays what has this name; the returned function releases it, and waits until the queue is idle. */
  const hold = (id: string) => {
    let release = () => {};
    gates.set(id, new Promise((resolve) => (release = resolve)));
    return () => (release(), idle());
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
  /** Asks, and waits for the answer. */
  const answer = (...request: Parameters<typeof ask>) => (ask(...request), idle());
  const entryOf = (subject: string) => queue.entries.peek().get(subject);
  const linesLike = (pattern: RegExp) => log.filter((line) => pattern.test(line));
  return { queue, ask, answer, entryOf, log, linesLike, runs, hold, idle, reports, watches };
}

/** The names in the log of what happens to runs. */
const ACTS = /^(run|update|end)/;
const studyOf = (subject: string) => ({
  ...{ subject, question: questionOf({ ...defaults, prompt: 'ab' }), measures: ['loss_mean'] },
});
const wait = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));
const samplingOf = (count: number) => ({ count, temperature: 0, topK: 0, seed: 1 });

describe('the queue', () => {
  it('answers one subject after the other, and none twice', async () => {
    const { answer, entryOf, runs } = stageOf();
    await answer(['a', 'b']);
    await answer(['b', 'a', 'c']);
    expect(runs()).toEqual(['run a', 'run b', 'run c']);
    expect(entryOf('a')!.frame).toMatchObject({
      subject: 'a',
      T: 2,
      sequences: 1,
      class: 'measured',
    });
    expect(entryOf('a')!.frame!.perPrompt.sink_ratio).toEqual([0.5]);
    // Views keep results by the list of tokens, so models with one tokenizer must not share it.
    expect(entryOf('a')!.frame!.tokens).toEqual(entryOf('b')!.frame!.tokens);
    expect(entryOf('a')!.frame!.tokens).not.toBe(entryOf('b')!.frame!.tokens);
  });

  it('measures experiments after the shown subjects, those of one model together, and none twice', async () => {
    const { queue, answer, linesLike, runs } = stageOf();
    const studies = ['a', 'broken', 'b'].map(studyOf);
    await answer(['a'], { studies });
    expect(runs()).toEqual(['run a', 'run a', 'run b']);
    expect(queue.studyEntry(studyOf('a'))!.frame!.perPrompt).toEqual({ loss_mean: [0.5] });
    expect(queue.studyEntry(studyOf('broken'))!.error).toBe('no such thing');
    await answer(['a'], { studies: [studyOf('b'), studyOf('a'), studyOf('a~silence(0,1)')] });
    expect(runs().slice(3)).toEqual(['run a']);
    expect(linesLike(/^end/)).toEqual(['end a', 'end b', 'end a']);
  });

  it('stops experiments together with the subjects, until a new request', async () => {
    const { queue, ask, answer, hold, idle } = stageOf();
    const study = studyOf('b');
    await answer(['a']);
    const release = hold('b');
    ask(['a'], { studies: [study] });
    await wait(20);
    queue.stop();
    await release();
    expect(queue.studyEntry(study)).toEqual({ error: 'Stopped.' });
    queue.retry();
    await idle();
    expect(queue.studyEntry(study)!.frame).toBeDefined();
  });

  it('reads further fields and metrics of a view from the open run', async () => {
    const { answer, entryOf, linesLike, runs } = stageOf();
    await answer(['a']);
    await answer(['a'], { reads: ['value_ratio', 'router'], headReads: ['att'] });
    expect(runs()).toEqual(['run a']);
    expect(linesLike(/^read/).slice(1)).toEqual(['read value_ratio,att']);
    expect(entryOf('a')!.frame!.head).toMatchObject({ layer: 0, head: 0 });
  });

  it('reads other metrics after a failed read, and does not repeat the failed one', async () => {
    const { answer, entryOf, log } = stageOf();
    await answer(['a']);
    const tries = () => log.filter((line) => line.includes('bad')).length;
    await answer(['a'], { reads: ['bad'] });
    expect([entryOf('a')!.error, tries()]).toEqual(['it cannot', 1]);
    await answer(['a'], { reads: ['bad'], head: { layer: 0, head: 1 } });
    expect([entryOf('a')!.error, tries()]).toEqual(['it cannot', 1]);
    await answer(['a'], { reads: ['value_ratio'] });
    expect(entryOf('a')!.error).toBeUndefined();
    expect(entryOf('a')!.frame!.tensors.value_ratio).toBeDefined();
  });

  it('closes a run after a failed read', async () => {
    const { answer, entryOf, linesLike } = stageOf();
    await answer(['a'], { reads: ['bad'] });
    expect(entryOf('a')!.error).toBe('it cannot');
    expect(linesLike(/^(run|end)/)).toEqual(['run a', 'end a']);
  });

  it('ablates heads after the shown run, until no room requests it', async () => {
    const { ask, answer, entryOf, runs, hold } = stageOf();
    await answer(['a']);
    const release = hold('a');
    ask(['a'], { reads: ['effect'] });
    await wait(10);
    expect(entryOf('a')!.frame!.tensors.effect).toBeUndefined();
    ask(['a'], { reads: ['value_ratio'] });
    await release();
    expect(entryOf('a')!.error).toBeUndefined();
    expect(Object.keys(entryOf('a')!.frame!.tensors)).not.toContain('effect');
    const runCount = runs().length;
    await answer(['a'], { reads: ['effect'] });
    expect(entryOf('a')!.frame!.tensors.effect).toEqual(tensor([1, 2], [0.25, 0.25]));
    expect(runs()).toHaveLength(runCount + 3);
  });

  it('publishes the first frame of a model and that frames are stale at once, and replaced frames of all models together', async () => {
    const { queue, ask, answer, hold, idle } = stageOf();
    const reports: string[] = [];
    effect(() => {
      const entries = [...queue.entries.value.values()];
      const wordOf = ({ frame, isStale }: (typeof entries)[number]) =>
        frame ? `${frame.question.prompt}${isStale ? '?' : ''}` : '-';
      reports.push(entries.map(wordOf).join(' '));
    });
    const release = hold('b');
    ask(['a', 'b'], {}, 'one');
    await wait(20);
    expect(reports.at(-1)).toBe('one -');
    await release();
    reports.length = 0;
    await answer(['a', 'b'], {}, 'two');
    expect(reports).toEqual(['one? one?', 'two two']);
    const lateRelease = hold('b');
    ask(['a', 'b'], {}, 'three');
    await wait(200);
    expect(reports.at(-1)).toBe('three two?');
    void lateRelease();
    await idle();
    expect(reports.at(-1)).toBe('three three');
  });

  it('publishes a failure before the next subject is ready', async () => {
    const { queue, answer } = stageOf();
    const reports: string[] = [];
    effect(() => {
      const entries = [...queue.entries.value.values()];
      reports.push(entries.map(({ frame, error }) => error ?? (frame ? 'frame' : '-')).join(', '));
    });
    await answer(['broken', 'b']);
    expect(reports).toEqual(['', '-, -', 'no such thing, -', 'no such thing, frame']);
  });

  it('marks a frame as stale while another text runs, and publishes nothing if the text is the same', async () => {
    const { queue, ask, answer, entryOf, hold } = stageOf();
    await answer(['a', 'b'], {}, 'one');
    const knownEntries = queue.entries.peek();
    await answer(['a', 'b'], {}, 'one');
    expect(queue.entries.peek()).toBe(knownEntries);
    ask(['a'], {}, 'one');
    expect([...queue.entries.peek().keys()]).toEqual(['a']);
    const release = hold('a');
    ask(['a', 'b'], {}, 'two');
    await vi.waitFor(() => expect(entryOf('a')!.isStale).toBe(true), PATIENCE);
    expect(entryOf('a')!.frame!.question.prompt).toBe('one');
    await release();
    expect(['a', 'b'].map((id) => entryOf(id)!.isStale)).not.toContain(true);
    const releaseAgain = hold('a');
    ask(['a', 'b'], {}, 'six');
    await vi.waitFor(() => expect(entryOf('a')!.isStale).toBe(true), PATIENCE);
    await releaseAgain();
  });

  it('shows no frame of a subject that left and came back, since its model may be closed', async () => {
    const { ask, answer, entryOf, runs, idle } = stageOf();
    await answer(['a']);
    await answer(['b']);
    ask(['a']);
    expect(entryOf('a')!.frame).toBeUndefined();
    await idle();
    expect(runs()).toEqual(['run a', 'run b', 'run a']);
  });

  it('reports its work: the bytes of a download, and the finished share', async () => {
    const { queue, answer, reports } = stageOf();
    const workTexts: unknown[] = [];
    effect(() => {
      const work = queue.work.value;
      if (work) workTexts.push([work.text, work.share]);
    });
    reports.push(
      ['Loading a', 5e6, 2e7, { stage: 'read', rate: 1e6 }],
      ['Reading', 1, 4],
      ['Compiling', 1, 0],
    );
    await answer(['a']);
    expect(workTexts).toMatchSnapshot();
    expect(queue.work.peek()).toBeUndefined();
  });

  it('does not run a model whose opening was stopped', async () => {
    const { queue, ask, entryOf, runs, hold } = stageOf();
    const release = hold('open a');
    ask(['a']);
    await wait(5);
    queue.stop();
    await release();
    expect([runs(), entryOf('a')!.error]).toEqual([[], 'Stopped.']);
  });

  it('opens the other models while the first one runs', async () => {
    const { queue, ask, log, linesLike, hold, watches } = stageOf();
    const release = hold('a');
    ask(['a', 'b', 'hub:c/admitted']);
    await wait(10);
    expect(log).toContain('open b');
    expect(log).not.toContain('run b');
    // A model of a hub is large, and opens in its turn.
    expect(log).not.toContain('open hub:c/admitted');
    ask(['a', 'b']);
    await release();
    expect(linesLike(/^run/)).toEqual(['run a', 'run b']);
    for (const { onProgress } of watches) onProgress('Loading', 1, 2);
    expect(queue.work.peek()).toBeUndefined();
  });

  it('stops a long run for another question, and no run for another view', async () => {
    vi.useFakeTimers({ toFake: ['performance'] });
    const { ask, entryOf, linesLike, runs, hold } = stageOf();
    const readCount = () => linesLike(/^read/).length;
    const release = hold('a');
    ask(['a'], {}, 'one');
    await wait(10);
    vi.advanceTimersByTime(60_000);
    ask(['a'], { reads: ['value_ratio'] }, 'one');
    await release();
    expect(runs()).toHaveLength(1);
    const readsBefore = readCount();
    expect(entryOf('a')!.frame!.question.prompt).toBe('one');
    const releaseAgain = hold('a');
    ask(['a'], {}, 'two');
    await wait(10);
    vi.advanceTimersByTime(60_000);
    ask(['a'], {}, 'three');
    await releaseAgain();
    vi.useRealTimers();
    // The second run was stopped, so its answer is never read.
    expect(readCount() - readsBefore).toBe(1);
    expect(entryOf('a')!.frame!.question.prompt).toBe('three');
    expect(entryOf('a')!.error).toBeUndefined();
  });

  it('reads the strongest head of each subject, or the head requested for it', async () => {
    const { answer, entryOf } = stageOf();
    const request = { headReads: ['att'], head: { layer: -1, head: -1 } };
    await answer(['a', 'other'], request);
    expect([entryOf('a'), entryOf('other')].map((entry) => entry!.frame!.head!.head)).toEqual([
      0, 1,
    ]);
    const heads = { a: { layer: 0, head: 1 }, other: { layer: 0, head: 0 } };
    await answer(['a', 'other'], { ...request, heads });
    expect([entryOf('a'), entryOf('other')].map((entry) => entry!.frame!.head!.head)).toEqual([
      1, 0,
    ]);
  });

  it('finishes a quick run, then answers only the newest question', async () => {
    const { ask, entryOf, runs, hold } = stageOf();
    const release = hold('a');
    ask(['a'], {}, 'one');
    await wait(10);
    for (const text of ['two', 'three', 'four']) ask(['a'], {}, text);
    await release();
    expect(runs()).toHaveLength(2);
    expect(entryOf('a')!.frame!.question.prompt).toBe('four');
    expect(entryOf('a')!.isStale).toBeFalsy();
  });

  it('refuses an edit of a token that the text lacks, also within the memory of its run', async () => {
    const { queue, answer, entryOf } = stageOf();
    const subject = 'a~hide_key(1,2)~hide_key(7,2)~silence(7,7)';
    await answer([subject], {}, 'ab');
    const error = 'the text has 2 tokens, numbered from 0, and so no token 2 and no token 7.';
    expect(entryOf(subject)).toMatchObject({ error, frame: undefined });
    await answer([subject], {}, 'abcdefgh');
    expect(entryOf(subject)).toMatchObject({ error: undefined, frame: { T: 8 } });
    const study = { subject: 'a~hide_key(9)', question: entryOf(subject)!.frame!.question };
    await answer(['a'], { studies: [{ ...study, measures: ['loss_mean'] }] }, 'abcdefgh');
    expect(queue.studyEntry({ ...study, measures: ['loss_mean'] })).toMatchObject({
      error: expect.stringContaining('no token 9'),
    });
  });

  it('keeps the last good frame when a question fails, reports the reason, and tries again on request', async () => {
    const { queue, answer, entryOf, log, idle } = stageOf();
    await answer(['a', 'broken']);
    expect(entryOf('broken')).toMatchObject({ error: 'no such thing' });
    expect(entryOf('a')!.frame).toBeDefined();
    await answer(['a'], {}, ' ');
    expect(entryOf('a')).toMatchObject({
      isStale: true,
      error: expect.stringMatching(/no text yet/),
    });
    expect(entryOf('a')!.frame!.question.prompt).toBe('ab');
    await answer(['broken']);
    const tries = () => log.filter((line) => line === 'open broken').length;
    const tryCount = tries();
    await answer(['broken'], { reads: ['alpha'] });
    expect(tries()).toBe(tryCount);
    queue.retry();
    await idle();
    expect(tries()).toBe(tryCount + 1);
  });

  it('closes a run before its replacement begins, and reads nothing more from it', async () => {
    const { queue, ask, answer, entryOf, linesLike, runs, hold } = stageOf({}, 300);
    // A run has room for 64 tokens more than its text.
    const text = 'a'.repeat(70);
    await answer(['a'], {}, 'ab');
    await answer(['a'], {}, text);
    expect(linesLike(ACTS)).toEqual(['run a', 'end a', 'run a']);
    // After a stopped measurement has closed the run, the frame, which needs no run, answers the question again.
    const release = hold('a');
    ask(['a'], {}, 'a'.repeat(140));
    await wait(5);
    queue.stop();
    await release();
    expect(entryOf('a')).toMatchObject({ isStale: true, error: 'Stopped.', frame: { T: 70 } });
    await answer(['a'], {}, text);
    expect(entryOf('a')).toMatchObject({ isStale: false, error: undefined });
    expect(runs()).toHaveLength(3);
    await answer(['a'], { reads: ['value_ratio'] }, text);
    expect(runs()).toHaveLength(4);
    expect(entryOf('a')!.frame!.tensors.value_ratio).toBeDefined();
  });

  it('generates further tokens in a run with room for them, up to the context', async () => {
    const { queue, answer, entryOf, linesLike } = stageOf({}, 80);
    await answer(['a']);
    const generate = (count: number) =>
      queue.generate(['a'], { count, temperature: 0, topK: 0, seed: 1 });
    await generate(60);
    await generate(30);
    expect(entryOf('a')!.frame).toMatchObject({ T: 80, generated: 78 });
    expect(entryOf('a')!.error).toBeUndefined();
    expect(linesLike(/^(run|end)/)).toEqual(['run a', 'end a', 'run a']);
    await expect(generate(1)).rejects.toThrow(/no room for more tokens/);
    expect(entryOf('a')!.error).toBeUndefined();
  });

  it('lets a model write after the text where a room requests it, once, and up to its context', async () => {
    const { queue, ask, answer, entryOf, linesLike } = stageOf();
    const writes = () => entryOf('a')!.frame!.writes;
    await answer(['a']);
    expect(writes()).toBeUndefined();
    for (let i = 0; i < 2; i++) {
      await answer(['a'], { writes: 4 });
      expect(writes()).toBe('xxxx');
    }
    expect(linesLike(/^(run|end)/)).toEqual(['run a', 'run a', 'end a']);
    // What is generated belongs to the text.
    ask(['a']);
    await queue.generate(['a'], samplingOf(1));
    expect(writes()).toBeUndefined();
    await answer(['a'], { writes: 4 }, 'a'.repeat(7));
    expect(writes()).toBe('xx');
    await answer(['a'], { writes: 4 }, 'a'.repeat(9));
    expect([entryOf('a')!.isStale, writes()]).toEqual([false, undefined]);
  });

  it('keeps the generated tokens when a view needs a further run, and measures its studies on them', async () => {
    const { queue, answer, entryOf, runs } = stageOf({}, 80);
    await answer(['a']);
    await queue.generate(['a'], samplingOf(3));
    await answer(['a'], { headReads: ['scores'] });
    expect(runs()).toEqual(['run a', 'run a']);
    const { frame } = entryOf('a')!;
    expect(frame).toMatchObject({ T: 5, generated: 3, ids: [[1, 1, 2, 2, 2]] });
    expect(frame!.head!.tensors).toHaveProperty('scores');
    const [study] = lossStudies(frame!, [WITHOUT_FIRST]);
    await answer(['a'], { headReads: ['scores'], studies: [study] });
    expect(queue.studyEntry(study)!.frame).toMatchObject({ T: 5, ids: frame!.ids });
    await answer(['a'], { headReads: ['scores'] }, 'abc');
    expect(entryOf('a')!.frame).toMatchObject({ T: 3, generated: 0 });
  });

  it('reads the generated tokens of an edited subject also without the edits, once they are all there', async () => {
    const { queue, ask, answer, entryOf, runs, idle } = stageOf({}, 80);
    const edited = 'a~silence(0,1)';
    const change = { follows: { a: edited } };
    const generate = () => queue.generate(['a', edited], samplingOf(3));
    const lengths = new Set<number | undefined>();
    effect(() => void lengths.add(queue.entries.value.get('a')?.frame?.T));
    const idsOfBoth = () => [edited, 'a'].map((subject) => entryOf(subject)!.frame!.ids[0]);
    await answer([edited, 'a'], change);
    for (const count of [3, 6]) {
      const generating = generate();
      // Another view of the room does not end the generation.
      ask([edited, 'a'], { ...change, reads: ['value_ratio'] });
      await generating;
      await idle();
      const ids = [1, 1, ...Array(count).fill(2)];
      expect(idsOfBoth()).toEqual([ids, ids]);
      expect(entryOf(edited)!.frame!.generated).toBe(count);
    }
    expect([...lengths]).toEqual([undefined, 2, 5, 8]);
    const runCount = runs().length;
    await answer([edited, 'a'], { ...change, reads: ['value_ratio'] });
    expect([runs().length, entryOf('a')!.isStale]).toEqual([runCount, false]);
    await answer([edited, 'a'], change, 'abc');
    expect(idsOfBoth()).toEqual([
      [1, 1, 1],
      [1, 1, 1],
    ]);
    // Without an edited subject that it follows, a subject has the text of its own.
    await queue.generate(['a'], samplingOf(2));
    await answer([edited, 'a'], change, 'abc');
    expect(idsOfBoth()[1]).toEqual([1, 1, 1]);
  });

  it('adds no more to the text of a subject that becomes a baseline while it grows', async () => {
    const { queue, ask, answer, entryOf, idle } = stageOf({}, 80);
    const edited = 'a~silence(0,1)';
    await answer(['a']);
    const end = effect(() => {
      if (queue.entries.value.get('a')?.frame?.generated !== 2) return;
      queueMicrotask(() => (end(), ask([edited, 'a'], { follows: { a: edited } })));
    });
    await queue.generate(['a'], samplingOf(9));
    await idle();
    const [base, follower] = ['a', edited].map((subject) => entryOf(subject)!);
    expect(base!.frame!.generated).toBeLessThan(9);
    expect([base!.isStale, base!.frame!.ids]).toEqual([false, follower!.frame!.ids]);
  });

  it('measures an intervention on the generated text that the reader sees, until the question changes', async () => {
    const { queue, answer, entryOf } = stageOf({}, 80);
    const edited = 'a~silence(0,1)';
    await answer(['a']);
    await queue.generate(['a'], samplingOf(3));
    await answer([edited, 'a'], { follows: { a: edited } });
    const ids = [1, 1, 2, 2, 2];
    for (const subject of [edited, 'a'])
      expect(entryOf(subject)).toMatchObject({
        isStale: false,
        frame: { ids: [ids], generated: 3 },
      });
    expect(entryOf(edited)!.frame!.question.ids).toEqual(ids);
    await answer(['a~silence(0,0)', 'b']);
    expect(entryOf('a~silence(0,0)')!.frame!.ids).toEqual([ids]);
    expect(entryOf('b')!.frame!.ids).toEqual([[1, 1]]);
    await answer(['a~silence(0,0)'], {}, 'abc');
    expect(entryOf('a~silence(0,0)')!.frame).toMatchObject({ ids: [[1, 1, 1]], generated: 0 });
  });

  it('stops a long measurement to generate text, and takes it again afterwards', async () => {
    const { queue, ask, answer, entryOf, runs, hold, idle } = stageOf({}, 80);
    await answer(['a']);
    const release = hold('a');
    ask(['a'], { reads: ['effect'] });
    await vi.waitUntil(() => runs().length > 1, PATIENCE);
    const measuredFrames: Frame[] = [];
    effect(() => {
      const { frame } = queue.entries.value.get('a')!;
      if (frame && 'effect' in frame.tensors) measuredFrames.push(frame);
    });
    const generating = queue.generate(['a'], samplingOf(2));
    void release();
    await generating;
    expect(entryOf('a')!.frame).toMatchObject({ generated: 2 });
    await idle();
    expect(entryOf('a')!.frame!.tensors).toHaveProperty('effect');
    expect(measuredFrames.map(({ generated }) => generated)).toEqual([2]);
  });

  it('updates the run as the reader types, and bases edited runs on the unedited one', async () => {
    const { ask, answer, entryOf, linesLike } = stageOf();
    const acts = () => linesLike(ACTS);
    const editedSubject = 'a~silence(0,1)';
    await answer(['a', editedSubject]);
    expect(acts()).toEqual(['run a', 'run a from 2']);
    await answer(['a', editedSubject], {}, 'abc');
    expect(acts().slice(2)).toEqual(['update a', 'update a']);
    expect(entryOf('a')!.frame!.T).toBe(3);
    ask([editedSubject], {}, 'abc');
    await answer(['a~silence(0,0)'], {}, 'abc');
    expect(acts().slice(4)).toEqual(['end a', 'run a from 3']);
    await answer(['b~silence(0,0)'], {}, 'abc');
    expect(acts().slice(6)).toEqual(['end a', 'end a', 'run b']);
    // No run begins from one with other edits.
    await answer(['b~silence(0,0)', 'b~silence(0,1)'], {}, 'abc');
    expect(acts().slice(9)).toEqual(['run b']);
  });

  it('runs again if an update is impossible, for further fields or beyond the capacity', async () => {
    const { answer, linesLike } = stageOf({}, 300);
    await answer(['a'], {}, 'abc');
    await answer(['a'], {}, 'ab');
    await answer(['a'], {}, 'a'.repeat(70));
    await answer(['a'], { headReads: ['scores'] }, 'abc');
    expect(linesLike(ACTS)).toEqual(['run a', 'update a', 'end a', 'run a', 'end a', 'run a']);
  });

  it('waits for its turn among figures, then works on the latest request, and releases its turn', async () => {
    const turns: (() => void)[] = [];
    let givenBack = 0;
    const turn = () =>
      new Promise<() => void>((grant) => turns.push(() => grant(() => void givenBack++)));
    const { ask, runs, idle } = stageOf({}, 9, turn);
    ask(['a', 'broken']);
    await wait(20);
    expect([runs(), turns.length]).toEqual([[], 1]);
    ask(['b', 'broken']);
    turns[0]!();
    await expect.poll(() => turns.length).toBe(2);
    expect([runs(), givenBack]).toEqual([['run b'], 1]);
    turns[1]!();
    await idle();
    expect(givenBack).toBe(2);
    // When its turn comes, the page no longer asks for anything.
    ask(['c']);
    ask([]);
    turns[2]!();
    await idle();
    expect([runs(), givenBack]).toEqual([['run b'], 3]);
  });

  it('runs again for a figure with a fixed list of reads if this list changes', async () => {
    const { answer, runs } = stageOf();
    await answer(['a'], { isFixed: true, reads: ['value_ratio'] });
    await answer(['a'], { isFixed: true, reads: ['value_ratio'], headReads: ['att'] });
    expect(runs()).toEqual(['run a']);
    await answer(['a'], { isFixed: true, reads: ['sink_ratio'] });
    expect(runs()).toEqual(['run a', 'update a']);
  });

  it('continues from a stopped update, but not from a failed run', async () => {
    const { queue, ask, answer, entryOf, linesLike, hold } = stageOf();
    await answer(['a']);
    const release = hold('a');
    ask(['a'], {}, 'abc');
    await wait(20);
    queue.stop();
    await release();
    expect(entryOf('a')).toMatchObject({ isStale: true, error: 'Stopped.' });
    // The answer to the previous text is kept, and its run is still open.
    await answer(['a'], { reads: ['value_ratio'] });
    expect(entryOf('a')).toMatchObject({ isStale: false, error: undefined, frame: { T: 2 } });
    await answer(['a'], {}, 'abcd');
    expect(entryOf('a')!.frame!.T).toBe(4);
    expect(linesLike(ACTS)).toEqual(['run a', 'update a', 'update a']);
  });

  it('keeps a run that was stopped during reads, so that the next text updates it', async () => {
    const { queue, ask, answer, entryOf, linesLike, hold } = stageOf();
    const release = hold('read a');
    ask(['a']);
    await vi.waitUntil(() => linesLike(/^read/).length, PATIENCE);
    queue.stop();
    await release();
    expect(entryOf('a')).toMatchObject({ error: 'Stopped.' });
    await answer(['a'], {}, 'abc');
    expect(entryOf('a')!.frame!.T).toBe(3);
    expect(linesLike(ACTS)).toEqual(['run a', 'update a']);
  });

  it('stops nothing that is done', async () => {
    const { queue, ask, entryOf, hold } = stageOf();
    const release = hold('b');
    ask(['a', 'b']);
    await vi.waitUntil(() => entryOf('a')!.frame, PATIENCE);
    queue.stop();
    await release();
    expect(['a', 'b'].map((id) => entryOf(id)!.error)).toEqual([undefined, 'Stopped.']);
  });

  it('stops no download that an experiment needs, and reports no progress of what was stopped', async () => {
    const { queue, ask, log, linesLike, hold, watches } = stageOf();
    const subject = 'hub:o/admitted';
    const release = hold(`open ${subject}`);
    ask([subject]);
    await vi.waitUntil(() => log.includes(`open ${subject}`), PATIENCE);
    watches[0]!.onProgress('Loading it', 1, 4);
    expect(queue.work.peek()!.text).toBe('Loading it');
    ask([], { studies: [studyOf(subject)] });
    expect(linesLike(/^stop/)).toEqual([]);
    watches[0]!.onProgress('Loading it late', 2, 4);
    expect(queue.work.peek()!.text).toBe('Loading it');
    await release();
  });

  it('adds nothing of an experiment that is stopped at its last number', async () => {
    const { queue, ask, linesLike, hold } = stageOf();
    const study = studyOf('b');
    const release = hold('read b');
    ask([], { studies: [study] });
    await vi.waitUntil(() => linesLike(/^read/).length, PATIENCE);
    queue.stop();
    await release();
    expect(queue.studyEntry(study)).toEqual({ error: 'Stopped.' });
  });

  it('stops an experiment for another one', async () => {
    const { queue, ask, runs, hold } = stageOf();
    const release = hold('b');
    ask([], { studies: [studyOf('b')] });
    await vi.waitUntil(() => runs().includes('run b'), PATIENCE);
    ask([], { studies: [studyOf('c')] });
    await release();
    expect(['b', 'c'].map((id) => Boolean(queue.studyEntry(studyOf(id))?.frame))).toEqual([
      false,
      true,
    ]);
  });

  it('stops the download of a model that is no longer wanted, or on request, but not for another text', async () => {
    const { queue, ask, entryOf, log, linesLike, hold } = stageOf();
    const [first, second] = ['hub:o/admitted@step1', 'hub:o/admitted@step2'];
    const releases = [first, second].map((id) => hold(`open ${id}`));
    const stopped = () => linesLike(/^stop/);
    ask([first]);
    await vi.waitUntil(() => log.includes(`open ${first}`), PATIENCE);
    ask([first], {}, 'other');
    ask([`${first}~sigmoid`, 'a']);
    expect(stopped()).toEqual([]);
    ask([second]);
    expect(stopped()).toEqual([`stop ${first}`]);
    void releases[0]!();
    await vi.waitUntil(() => log.includes(`open ${second}`), PATIENCE);
    queue.stop();
    expect(stopped()).toEqual([`stop ${first}`, `stop ${second}`]);
    await releases[1]!();
    expect(entryOf(second)).toMatchObject({ error: 'Stopped.' });
    // The page stops no download of the zoo.
    const release = hold('open a');
    ask(['a']);
    await vi.waitUntil(() => log.includes('open a'), PATIENCE);
    queue.stop();
    await release();
    expect(stopped()).toHaveLength(2);
  });

  it('tries again once after its engine is lost, then reports the error', async () => {
    const { queue, answer, entryOf, runs, idle } = stageOf();
    await answer(['once', 'lost']);
    expect(entryOf('once')!.frame).toBeDefined();
    expect(runs().filter((line) => line === 'run lost')).toHaveLength(2);
    expect(entryOf('lost')!.error).toMatch(/it is gone/);
    queue.retry();
    await idle();
    expect(runs().filter((line) => line === 'run lost')).toHaveLength(4);
    // After another error the queue does not try again, since the error would only repeat.
    await answer(['refused']);
    expect([
      runs().filter((line) => line === 'run refused').length,
      entryOf('refused')!.error,
    ]).toMatchSnapshot();
  });

  it('measures no study of a sweep alone if the sweep was stopped or its engine lost', async () => {
    const studiesOf = (id: string) => [0, 1].map((head) => studyOf(`${id}~silence(0,${head})`));
    const { queue, ask, answer, log, linesLike, runs, hold } = stageOf();
    await answer([], { studies: studiesOf('lost') });
    // Twice for both studies, then twice for the second one.
    expect(runs()).toHaveLength(4);
    expect(queue.studyEntry(studiesOf('lost')[0]!)!.error).toContain('it is gone');
    log.length = 0;
    const release = hold('a');
    ask([], { studies: studiesOf('a') });
    await vi.waitUntil(() => runs().length, PATIENCE);
    queue.stop();
    await release();
    expect(linesLike(/^(open|run)/)).toEqual(['open a', 'run a']);
  });

  it('does not open a model of a hub before the reader agrees', async () => {
    const { answer, entryOf, linesLike } = stageOf();
    await answer(['hub:owner/name']);
    expect(entryOf('hub:owner/name')!.error).toMatch(/owner\/name is not loaded yet/);
    expect(linesLike(/^open/)).toEqual([]);
  });

  it('closes runs that no room requests, and never keeps two models that together exceed the memory', async () => {
    const { answer, log, linesLike } = stageOf({ big: 2 ** 30, huge: 2 ** 30 });
    await answer(['big', 'huge']);
    const kept = linesLike(/^keep/);
    expect(kept.filter((line, i) => line !== kept[i - 1])).toEqual([
      'keep big',
      'keep huge',
      'keep ',
    ]);
    await answer(['a']);
    expect(log).toContain('end big');
  });

  it('keeps a single model of any size, and several that fit the memory together', async () => {
    const bytes = { half: 2 ** 29, other: 2 ** 29, huge: 2 ** 30 + 1 };
    const { answer, linesLike } = stageOf(bytes);
    for (const subjects of [['huge'], ['half', 'other']]) {
      await answer(subjects);
      expect(linesLike(/^keep/).at(-1)).toBe(`keep ${subjects.join()}`);
    }
  });

  it('runs each prompt only once for a figure that reads only averages', async () => {
    const { queue, answer, entryOf, log, runs } = stageOf();
    const question = questionOf({ ...defaults, prompt: 'abcdef', T: 2, n: 3 });
    const figureRequest = { question, isFixed: true, reads: ['sink_ratio'] };
    await answer(['a'], figureRequest);
    expect([runs().length, entryOf('a')!.frame!.sequences]).toEqual([3, 3]);
    expect(entryOf('a')!.frame!.tensors).not.toHaveProperty('value_ratio');
    await queue.generate(['a'], samplingOf(1));
    expect([runs().length, entryOf('a')!.frame!.T]).toEqual([4, 3]);
    await answer(['a'], { ...figureRequest, headReads: ['att'] });
    expect(entryOf('a')!.frame!.head!.tensors).toHaveProperty('att');
    await answer(['a'], { ...figureRequest, question: { ...question, eps: 0.5 } });
    const countOf = (word: string) => log.filter((line) => line.startsWith(word)).length;
    expect(countOf('end')).toBe(countOf('run'));
  });

  it('measures the subject once more for a recording', async () => {
    const { queue, ask, answer, idle } = stageOf();
    const bytes = new Uint8Array(3);
    recordStudy.mockResolvedValue(bytes);
    await expect(queue.record('a', 'your text')).rejects.toThrow('a is not measured yet.');
    await answer(['a', 'broken']);
    await expect(queue.record('broken', '')).rejects.toThrowErrorMatchingSnapshot();
    expect(recordStudy).not.toHaveBeenCalled();
    expect(await queue.record('a', 'your text')).toBe(bytes);
    const [{ describe: ownDescribe }, ids, options] = recordStudy.mock.lastCall!;
    expect([ownDescribe, ids]).toEqual([describe_, [[1, 1]]]);
    expect(options).toMatchObject({
      ...{ edits: [], eps: [0.3], fields: ['att', 'q', 'k', 'v'], source: 'your text' },
      model: { id: 'a', revision: null, sha256: null },
    });
    expect(options.strings([1, 1])).toEqual(['x', 'x']);
    await answer(['a'], { cells: 1 });
    await queue.record('a', 'your text');
    expect(recordStudy.mock.lastCall![2].fields).toEqual([]);
    ask(['a']);
    await queue.generate(['a'], { count: 2, temperature: 0, topK: 0, seed: 0 });
    await idle();
    await queue.record('a', '');
    expect(recordStudy.mock.lastCall![1]).toEqual([[1, 1, 2, 2]]);
  });

  it('adds no more tokens once it is stopped', async () => {
    const { queue, answer, entryOf } = stageOf();
    await answer(['a']);
    const generating = queue.generate(['a'], samplingOf(7));
    await vi.waitUntil(() => queue.isGenerating, PATIENCE);
    queue.stopGenerating();
    await generating;
    expect(queue.isGenerating).toBe(false);
    expect(entryOf('a')!.frame!.generated).toBeLessThan(7);
  });

  it('ends each generation: one that had not begun, one before another, one of a subject that left', async () => {
    const { queue, ask, entryOf, log, linesLike, hold, idle } = stageOf({}, 80);
    const sampling = samplingOf(3);
    const generatedBy = (id: string) => entryOf(id)?.frame?.generated;
    const release = hold('a');
    ask(['a', 'b']);
    await vi.waitUntil(() => log.includes('run a'), PATIENCE);
    const unbegun = queue.generate(['a'], sampling);
    queue.stopGenerating();
    await unbegun;
    await release();
    expect(generatedBy('a')).toBe(0);
    // To stop a text stops no run.
    expect(log.filter((line) => line === 'run a')).toHaveLength(1);
    const begin = async (subjects: string[]) => {
      log.length = 0;
      const generating = queue.generate(subjects, sampling);
      await vi.waitUntil(() => linesLike(/^read/).length, PATIENCE);
      return { generating };
    };
    const releaseRead = hold('read a');
    const first = await begin(['a']);
    const second = queue.generate(['b'], sampling);
    void releaseRead();
    await Promise.all([first.generating, second]);
    expect(['a', 'b'].map(generatedBy)).toEqual([0, 3]);
    await idle();
    // The run of the first subject has a token that no frame has, which it loses before the next text.
    log.length = 0;
    await queue.generate(['a'], sampling);
    expect([log.filter((line) => line === 'update a'), generatedBy('a')]).toEqual([
      ['update a'],
      3,
    ]);
    const releaseLast = hold('read a');
    const third = await begin(['a', 'b']);
    ask(['b']);
    void releaseLast();
    await third.generating;
    await idle();
    expect(generatedBy('b')).toBe(3);
  });

  it('generates nothing after the text of an earlier question', async () => {
    const { queue, answer, entryOf } = stageOf({}, 80);
    await answer(['a']);
    await answer(['a'], { reads: ['bad'] }, 'abc');
    expect(entryOf('a')).toMatchObject({
      isStale: true,
      error: expect.stringContaining('it cannot'),
    });
    await queue.generate(['a'], samplingOf(3));
    expect(entryOf('a')!.frame!.generated).toBe(0);
  });

  it('reads nothing from a run with a token that no frame has', async () => {
    const { queue, answer, entryOf, log, linesLike, hold } = stageOf();
    await answer(['a']);
    log.length = 0;
    const release = hold('read a');
    const generating = queue.generate(['a'], samplingOf(1));
    await vi.waitUntil(() => linesLike(/^read/).length, PATIENCE);
    queue.stopGenerating();
    void release();
    await generating;
    await answer(['a'], { reads: ['value_ratio'] });
    expect(entryOf('a')!.frame).toMatchObject({ T: 2, generated: 0 });
    expect(linesLike(ACTS)).toEqual(['update a']);
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
