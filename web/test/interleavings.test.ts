/**
 * The queue and the models' shelf under a scheduler that decides in which order the engine answers. Commands of a reader
 * come in between: other texts, views and models, Stop, Generate, failures. Each number that the fake engine returns is a
 * hash of the weights, edits, tokens and metric that it was computed from, so that a frame can be checked number by
 * number: what is drawn belongs to the state that is drawn beside it. After the last command all is quiet.
 */
import { effect } from '@preact/signals-core';
import fc, { type Scheduler } from 'fast-check';
import { afterEach, expect, it, vi } from 'vitest';
import {
  SinkscopeError,
  type Describe,
  type Edit,
  type Engine,
  type RunOptions,
  type RunRead,
} from 'sinkscope';
import { questionOf } from '../src/ask/question';
import { defaults } from '../src/ask/state';
import { withoutEdits } from '../src/ask/subject';
import type { Card, Zoo } from '../src/ask/zoo';
import type { Frame } from '../src/frame';
import { Models } from '../src/run/models';
import { Queue } from '../src/run/queue';
import type { Request } from '../src/run/request';
import { andAll, tensor } from './fixture';

const hub = vi.hoisted(() => ({
  openTokenizer: vi.fn(),
  planTokenizer: vi.fn(),
  modelFiles: ({ id }: { id: string }) => id,
  cacheClear: async () => {},
}));
vi.mock('sinkscope', async (load) => ({ ...(await load<object>()), ...hub }));
vi.mock('sinkscope/internal', async (load) => ({ ...(await load<object>()), ...hub }));
vi.mock('../../wasm/loading/plan', async (load) => ({ ...(await load<object>()), ...hub }));
vi.mock('../../wasm/text/plan_tokenizer', () => hub);
afterEach(() => void vi.unstubAllGlobals());

const HUB = 'hub:o/n';
const EDITED = 'a~silence(0,1)';
const SUBJECTS = ['a', EDITED, 'b', HUB];
const TEXTS = ['ab', 'abc', 'x', 'xyz'];
const METRICS = [
  ...['alpha', 'alpha_raw', 'sink_ratio', 'sink_ratio_raw', 'row_mass_summary', 'loss_mean'],
  ...['value_ratio', 'alpha_uniform'],
];
const MAPS = ['att', 'scores'];
const L = 1;
const H = 2;
const describe_ = {
  operations: [{ name: 'softmax', label: 'softmax', parameters: [], normalizes: true }],
  metrics: METRICS.map((name) => ({
    ...{ name, averaged: name !== 'alpha_uniform', arguments: [], fields: [], shape: [] },
  })),
  fields: [
    { name: 'att', needs: null, standard: true, shape: ['L', 'H', 'T', 'T'] },
    { name: 'next', needs: null, standard: true, shape: ['V'] },
    { name: 'scores', needs: null, standard: false, shape: ['L', 'H', 'T', 'T'] },
  ],
  edits: [
    {
      ...{ name: 'silence', label: 'x', counterfactual: true, fields: [] },
      parameters: ['layer', 'head'].map((name, i) => ({ name, type: 'index', below: 'LH'[i] })),
    },
  ],
} as unknown as Describe;
const tokenizer = {
  ...{ bos: null, size: 200, special: [], specials: [] },
  encode: (text: string) =>
    Array.from(text, (letter) => ({ id: letter.charCodeAt(0), text: letter, special: false })),
  piece: (id: number) => String.fromCharCode(id),
  close: () => {},
};
const idsOfText = (text: string) => tokenizer.encode(text).map(({ id }) => id);

/** Returns a number from 0 to 1 that differs with whatever it is computed from. */
function hash(...parts: unknown[]): number {
  let h = 2166136261;
  for (const letter of JSON.stringify(parts)) h = Math.imul(h ^ letter.charCodeAt(0), 16777619);
  return Math.fround((h >>> 8) / 2 ** 24);
}

/** What a run's numbers are computed from. */
interface Origin {
  readonly weights: string;
  readonly edits: readonly Edit[];
  readonly ids: readonly number[];
}

const isPerHead = (name: string) => name === 'alpha' || name === 'alpha_raw' || MAPS.includes(name);

/** The fake engine's answer. */
function answerTo({ weights, edits, ids }: Origin, read: RunRead) {
  const name = 'metric' in read ? read.metric : read.field;
  const valueAt = (layer: number, head: number) => hash(weights, edits, ids, name, layer, head);
  if (!isPerHead(name))
    return tensor(
      [3],
      [0, 1, 2].map((i) => hash(weights, edits, ids, name, i)),
    );
  if (read.layer !== undefined) return tensor([1, 1], [valueAt(read.layer, read.head!)]);
  return tensor([L, H, 1], [valueAt(0, 0), valueAt(0, 1)]);
}

/** Checks every number of a frame against what the frame says that it is of. */
function expectTrue(frame: Frame, subject: string): void {
  expect(frame.subject).toBe(subject);
  const { model, edits, ids, tokens, tensors, spread, head, generated, question } = frame;
  expect(model.id).toBe(withoutEdits(subject));
  expect(edits).toHaveLength(subject === withoutEdits(subject) ? 0 : 1);
  expect(tokens.map(({ id }) => id)).toEqual(ids[0]);
  expect(question.ids ?? ids[0]).toEqual(ids[0]);
  const typedIds = idsOfText(question.prompt);
  const readIds = ids.length === 1 ? ids[0]!.slice(0, ids[0]!.length - generated) : ids.flat();
  expect(readIds).toEqual(typedIds.slice(0, readIds.length));
  expect(frame.sequences).toBe(ids.length);
  const weights = model.id;
  const meanOf = (name: string) => {
    const answers = ids.map((one) => answerTo({ weights, edits, ids: one }, { metric: name }).data);
    return answers[0]!.map((_, i) => answers.reduce((sum, data) => sum + data[i]!, 0) / ids.length);
  };
  for (const [name, { data }] of Object.entries(tensors)) {
    // Measurements with runs of their own, and numbers that the page derives from others.
    if (!METRICS.includes(name) && !MAPS.includes(name) && name !== 'next') continue;
    const expected =
      name in spread
        ? meanOf(name)
        : answerTo({ weights, edits, ids: ids[0]! }, { metric: name }).data;
    expected.forEach((value, i) => expect(data[i], `${subject} ${name}`).toBeCloseTo(value, 5));
  }
  for (const [name, { data }] of Object.entries(head?.tensors ?? {}))
    expect(data[0], `${subject} ${name} of a head`).toBe(
      hash(weights, edits, ids[0], name, head!.layer, head!.head),
    );
}

/** Stands for everything outside the queue and the shelf. Each answer waits until the scheduler releases it. */
class World {
  readonly openRuns = new Set<string>();
  readonly openModels = new Set<string>();
  readonly timers = new Set<object>();
  readonly #scheduler: Scheduler;
  /** The codes of the errors with which the next acts of the engine fail. */
  failures: string[] = [];
  now = 0;
  #runCount = 0;
  #modelCount = 0;

  constructor(scheduler: Scheduler) {
    this.#scheduler = scheduler;
    vi.stubGlobal('setTimeout', (run: () => void) => {
      const timer = {};
      this.timers.add(timer);
      void this.#wait('timer').then(() => this.timers.delete(timer) && run());
      return timer;
    });
    vi.stubGlobal('clearTimeout', (timer: object) => this.timers.delete(timer));
    vi.stubGlobal('performance', { now: () => this.now });
    vi.stubGlobal('fetch', async () => new Response('text'));
    hub.openTokenizer.mockImplementation(() => this.#act('tokenizer', () => tokenizer));
    hub.planTokenizer.mockImplementation((_plan, _model, { signal }) =>
      this.#act('tokenizer', () => ({ ...tokenizer }), signal),
    );
  }

  #wait = (label: string) => this.#scheduler.schedule(Promise.resolve(), label);

  /** Acts when the scheduler says so, unless the signal aborts earlier. */
  async #act<T>(label: string, act: () => T, signal?: AbortSignal): Promise<T> {
    const aborted = new Promise<never>((_, reject) =>
      signal?.addEventListener('abort', () => reject(signal.reason)),
    );
    await Promise.race([this.#wait(label), aborted]);
    signal?.throwIfAborted();
    const code = this.failures.shift();
    if (code) throw new SinkscopeError(code, 'engine', 'it failed');
    return act();
  }

  get engine(): Engine {
    const open = (files: unknown, { signal }: { signal?: AbortSignal }) =>
      this.#act('open', () => this.#openModel(String(files)), signal);
    return { describe: describe_, open } as unknown as Engine;
  }

  get zoo(): Zoo {
    const packed = { file: 'p', bytes: 1, config: {} };
    const card = (id: string, change: object) =>
      ({ id, title: id, parameters: 8, tokenizer: 'a', ...change }) as unknown as Card;
    return {
      cards: [card('a', { packed }), card('b', {})],
      files: async (id: string) => id,
      forget: () => {},
    } as unknown as Zoo;
  }

  #openModel(files: string) {
    const weights = files.replace('[object Object]', 'b');
    const key = `${weights} ${this.#modelCount++}`;
    this.openModels.add(key);
    const expectOpen = () => {
      if (!this.openModels.has(key)) throw new SinkscopeError('closed', weights, 'is closed');
    };
    const attention = { operation: 'softmax' };
    return {
      describe: describe_,
      architecture: { L, H, G: 1, E: 0, V: 200, context: 9, mask: { kind: 'causal' }, attention },
      close: async () => void this.openModels.delete(key),
      run: async (tokens: readonly number[], { edits = [], from, signal }: RunOptions) => {
        // A run begins only from one of the same model and tokens.
        if (from) expect(from.run).toMatchObject({ model: key, tokens: [...tokens] });
        const open = () => this.#openRun(weights, [...tokens], edits, expectOpen);
        return this.#act('run', () => ({ ...open(), model: key }), signal);
      },
    };
  }

  #openRun(weights: string, tokens: number[], edits: readonly Edit[], expectModel: () => void) {
    const key = `${weights} ${this.#runCount++}`;
    this.openRuns.add(key);
    // Acts on one run form a chain.
    let last: Promise<unknown> = Promise.resolve();
    const chain = <T>(label: string, act: () => T, signal?: AbortSignal): Promise<T> => {
      const result = last.then(() =>
        this.#act(
          label,
          () => {
            expectModel();
            if (!this.openRuns.has(key)) throw new SinkscopeError('closed', key, 'is closed');
            return act();
          },
          signal,
        ),
      );
      last = result.catch(() => {});
      return result;
    };
    const origin = () => ({ weights, edits, ids: [...tokens] });
    const read = (reads: RunRead[]) =>
      chain('read', () => reads.map((one) => answerTo(origin(), one)));
    async function* generate(options: { count: number; signal: AbortSignal }) {
      for (let i = 0; i < options.count; i++) {
        options.signal.throwIfAborted();
        // A token that is being drawn when the reader stops is added all the same.
        yield await chain('token', () => {
          const token = 65 + Math.floor(26 * hash(origin(), 'next token'));
          tokens.push(token);
          return { token };
        });
      }
    }
    return {
      ...{ tokens, edits, read, generate },
      update: (ids: number[], { signal }: { signal?: AbortSignal }) =>
        chain('update', () => void tokens.splice(0, Infinity, ...ids), signal),
      metric: async (name: string) => (await read([{ metric: name } as RunRead]))[0],
      close: async () => void this.openRuns.delete(key),
    };
  }
}

const shown = {
  subjects: fc.uniqueArray(fc.constantFrom(...SUBJECTS), { maxLength: 3 }),
  prompt: fc.constantFrom(...TEXTS),
  n: fc.constantFrom(1, 1, 2),
  reads: fc.subarray(['value_ratio', 'effect']),
  headReads: fc.subarray(MAPS),
  head: fc.constantFrom(-1, 1),
  isFixed: fc.boolean(),
  isStudied: fc.boolean(),
};
type Shown = {
  [Name in keyof typeof shown]: (typeof shown)[Name] extends fc.Arbitrary<infer T> ? T : never;
};
const NOTHING: Shown = {
  ...{ subjects: [], prompt: 'x', n: 1, reads: [], headReads: [], head: -1 },
  ...{ isFixed: false, isStudied: false },
};

function requestOf({ subjects, prompt, n, head, isStudied, ...reads }: Shown): Request {
  const question = questionOf({ ...defaults, prompt, n, T: 2 });
  const baselines = subjects.includes(EDITED) && !subjects.includes('a') ? ['a'] : [];
  const study = { subject: 'b', question, measures: ['loss_mean'] };
  return {
    ...{ ...reads, question, subjects: [...subjects, ...baselines] },
    head: head < 0 ? { layer: -1, head: -1 } : { layer: 0, head },
    follows: Object.fromEntries(baselines.map((base) => [base, EDITED])),
    studies: isStudied ? [study] : [],
  };
}

interface Reader {
  readonly queue: Queue;
  readonly models: Models;
  readonly world: World;
  /** What the reader looks at. */
  shown: Shown;
  /** The frames when the reader pressed Stop, until the next request: no stopped job adds one. */
  stopped?: readonly (Frame | undefined)[] | undefined;
}

const framesOf = ({ queue, shown }: Reader) => [
  ...[...queue.entries.value.values()].map(({ frame }) => frame),
  ...requestOf(shown).studies!.map((study) => queue.studyEntry(study)?.frame),
];

/** What a reader does, or what goes wrong. */
interface Act {
  readonly name: string;
  readonly perform: (reader: Reader) => void;
}

const quiet = (promise: Promise<unknown>) => void promise.catch(() => {});
const SAMPLING = { count: 3, temperature: 0, topK: 0, seed: 1 };
const plan = { id: HUB, bytes: 1, files: {} } as never;
const actOf = (name: string, perform: Act['perform']) => fc.constant<Act>({ name, perform });

/** Acts that ask for what is shown with some parts changed. */
const asks = (...names: (keyof Shown)[]) =>
  fc
    .record(Object.fromEntries(names.map((name) => [name, shown[name] as fc.Arbitrary<unknown>])))
    .map((change): Act => {
      return {
        name: `ask ${JSON.stringify(change)}`,
        perform: (reader) => {
          reader.shown = { ...reader.shown, ...change };
          reader.stopped = undefined;
          reader.queue.ask(requestOf(reader.shown));
        },
      };
    });

const acts = fc.oneof(
  { weight: 3, arbitrary: asks(...(Object.keys(shown) as (keyof Shown)[])) },
  { weight: 3, arbitrary: asks('prompt') },
  { weight: 3, arbitrary: asks('reads', 'headReads', 'head') },
  { weight: 2, arbitrary: asks('subjects') },
  actOf('stop', (reader) => {
    reader.queue.stop();
    reader.stopped = framesOf(reader);
  }),
  actOf('retry', (reader) => {
    reader.stopped = undefined;
    reader.queue.retry();
  }),
  fc.subarray(SUBJECTS, { minLength: 1 }).map((subjects) => ({
    name: `generate ${subjects.join()}`,
    perform: (reader: Reader) => {
      reader.stopped = undefined;
      quiet(reader.queue.generate(subjects, SAMPLING));
    },
  })),
  actOf('stop generating', ({ queue }) => queue.stopGenerating()),
  actOf('a minute passes', ({ world }) => void (world.now += 60_000)),
  actOf('the engine is lost', ({ world }) => void world.failures.push('lost')),
  actOf('the memory is full', ({ world }) => void world.failures.push('memory')),
  actOf('the dialog opens', ({ models }) => {
    models.pin(HUB);
    const { signal } = new AbortController();
    quiet(models.get(HUB, { signal, onProgress: () => {} }));
  }),
  actOf('the dialog stops', ({ models }) => {
    models.unpin(HUB);
    models.stop(HUB);
  }),
);
const steps = fc.array(fc.record({ act: acts, releases: fc.nat(4) }), {
  ...{ minLength: 2, maxLength: 20, size: 'max' },
});

/** Expects that a request without failures is answered in every part. */
function expectAnswered(queue: Queue, request: Request): void {
  const { subjects, reads, headReads, head, question, studies = [], follows = {} } = request;
  const entryOf = (subject: string) => queue.entries.peek().get(subject)!;
  for (const subject of subjects) {
    const { frame, isStale, error } = entryOf(subject);
    expect([subject, error, isStale]).toEqual([subject, undefined, false]);
    const names = [...reads, 'alpha', 'sink_ratio'];
    expect(Object.keys(frame!.tensors)).toEqual(expect.arrayContaining(names));
    expect(Object.keys(frame!.head?.tensors ?? {})).toEqual(expect.arrayContaining([...headReads]));
    if (head.head >= 0 && headReads.length) expect(frame!.head!.head).toBe(head.head);
    expect(frame!.question.prompt).toBe(question.prompt);
    const edited = follows[subject];
    if (edited) expect(frame!.ids).toEqual(entryOf(edited).frame!.ids);
  }
  for (const study of studies) expect(queue.studyEntry(study)?.frame).toBeDefined();
}

async function play(scheduler: Scheduler, list: readonly { act: Act; releases: number }[]) {
  const world = new World(scheduler);
  const models = new Models(world.engine, world.zoo);
  models.admit(HUB, { title: 'n', source: 'hub', plan });
  const queue = new Queue({ models, texts: async () => [], admit: async () => true });
  const reader: Reader = { queue, models, world, shown: NOTHING };
  let published = 0;
  const problems: unknown[] = [];
  const expectCurrent = () => {
    for (const { frame, isStale } of queue.entries.peek().values()) {
      const { prompt, n } = reader.shown;
      if (frame && !isStale) expect(frame.question).toMatchObject({ prompt, n });
    }
    // A baseline is of the text of its edited subject, and a queue without work waits for nothing.
    const [base, edited] = ['a', EDITED].map((subject) => queue.entries.peek().get(subject));
    const areCurrent = base?.frame && edited?.frame && !base.isStale && !edited.isStale;
    if (areCurrent && !reader.shown.subjects.includes('a'))
      expect(base.frame.ids).toEqual(edited.frame.ids);
    if (!queue.work.peek()) expect(world.timers.size).toBe(0);
  };
  const end = effect(() => {
    try {
      for (const [subject, { frame, error }] of queue.entries.value) {
        published++;
        if (frame) expectTrue(frame, subject);
        if (error) expect(error).toMatch(/^Stopped\.|it failed/);
      }
    } catch (problem) {
      problems.push(problem);
    }
  });
  const release = async () => {
    await scheduler.waitOne(andAll);
    if (problems.length) throw problems[0];
    expectCurrent();
    if (reader.stopped) expect(framesOf(reader)).toEqual(reader.stopped);
  };
  const settle = async () => {
    while (scheduler.count()) await release();
    expect(queue.work.peek()).toBeUndefined();
    expect(queue.isGenerating).toBe(false);
  };
  for (const { act, releases } of list) {
    await andAll(() => act.perform(reader));
    if (problems.length) throw problems[0];
    expectCurrent();
    for (let i = 0; i < releases && scheduler.count(); i++) await release();
  }
  await settle();
  world.failures = [];
  reader.stopped = undefined;
  queue.ask(requestOf(reader.shown));
  await andAll(() => queue.retry());
  await settle();
  expectAnswered(queue, requestOf(reader.shown));
  end();
  // Without figures all runs are closed, and all models but those of the zoo.
  models.unpin(HUB);
  queue.ask(requestOf((reader.shown = NOTHING)));
  await andAll(() => models.release(new Set()));
  await settle();
  expect([...world.openRuns]).toEqual([]);
  expect([...world.openModels].filter((key) => !/^[ab] \d/.test(key))).toEqual([]);
  return published;
}

/** Draws of one test; `SINKSCOPE_RUNS=5000` draws more. */
const RUNS = Number(process.env.SINKSCOPE_RUNS ?? 100);

it('draws only numbers of the state beside them, in whatever order answers come, and is quiet after the last', async () => {
  let actCount = 0;
  let published = 0;
  const property = fc.asyncProperty(fc.scheduler(), steps, async (scheduler, list) => {
    actCount += list.length;
    published += await play(scheduler, list);
  });
  // A module that the page fetches when it first needs it is no answer that the scheduler orders.
  await import('../src/ask/outside');
  // To shrink a failure takes minutes: replace `endOnFailure` by the seed that it prints.
  await fc.assert(property, { numRuns: RUNS, endOnFailure: true });
  console.log(`${RUNS} interleavings of ${actCount} acts, ${published} entries checked`);
}, 3_600_000);
