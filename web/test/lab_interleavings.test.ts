// @vitest-environment happy-dom
/**
 * The pair of labs under a scheduler that decides in which order the engine and the storage answer. Acts of a reader
 * come in between: other settings, Train, Pause, Reset, another room, a hidden tab, a reload, a lost worker. Each number
 * of the fake trainer is a hash of the recipe and the step that it belongs to. What a lab shows belongs to the settings
 * beside it, and after the last act all is quiet and both labs have the settings of the link.
 */
import { signal } from '@preact/signals-core';
import fc, { type Scheduler } from 'fast-check';
import { afterEach, expect, it, vi } from 'vitest';
import { SinkscopeError } from 'sinkscope';
import { defaults } from '../src/ask/state';
import type { Lab } from '../src/lab/lab';
import { recipeOf } from '../src/lab/settings';
import { Scope } from '../src/page/context';
import type { Pair as PairType } from '../src/lab/pair';
import { andAll } from './fixture';

const outside = vi.hoisted(() => ({
  ...{ createEngine: vi.fn(), storage: vi.fn(), stored: new Map<string, unknown>() },
}));
vi.mock('sinkscope', async (load) => ({
  ...(await load<object>()),
  ...{ createEngine: outside.createEngine, heldLoss: async () => 0 },
}));
vi.mock('idb-keyval', async () =>
  (await import('./fixture')).fakeKeyval(outside.stored, (act) => outside.storage(act)),
);
afterEach(() => void vi.unstubAllGlobals());

const SETTINGS = ['steps:9', 'steps:9,seed:6', 'steps:9,width:32', 'steps:5', 'steps:9,head:2'];
const trainerSettings = {
  ...{ steps: 700, seed: 5, batch: 32, length: 32, triggers: 8, first: 0, optimizer: 'sgd' },
  ...{ learning_rate: 0.003, weight_decay: 0.01, first_value_gradient: 1, planted: 0 },
  ...{ embedding_deviation: 1, deviation: 0.02, task: 'backcopy' },
};
const describe_ = {
  version: '1.0',
  operations: [
    { name: 'softmax', label: 'softmax', trainable: true, features: 'none', normalizes: true },
  ],
  training: {
    ...{ parts: 2, log: [] },
    settings: Object.entries(trainerSettings).map(([name, value]) => ({ name, default: value })),
  },
};

/** What a training's numbers are computed from: everything of a recipe except its number of steps. */
function keyOf({ config, recipe }: { config?: unknown; recipe?: unknown }): string {
  const { steps: _, ...others } = recipe as Record<string, unknown>;
  return JSON.stringify([config, others]);
}

function hash(...parts: unknown[]): number {
  let h = 2166136261;
  for (const letter of JSON.stringify(parts)) h = Math.imul(h ^ letter.charCodeAt(0), 16777619);
  return Math.fround((h >>> 8) / 2 ** 24);
}

/** Stands for the engine and the storage. Each answer waits until the scheduler releases it. */
class World {
  /** The trainings of the present visit: a reload ends the workers. */
  openTrainings = new Set<object>();
  readonly #scheduler: Scheduler;
  #lastTransaction: Promise<unknown> = Promise.resolve();
  failures: string[] = [];
  now = 0;

  constructor(scheduler: Scheduler) {
    this.#scheduler = scheduler;
    vi.stubGlobal('performance', { now: () => this.now });
    outside.stored.clear();
    // Transactions of one store follow one another.
    outside.storage.mockImplementation((act: () => unknown) => {
      const transaction = this.#lastTransaction.then(() => this.#act('storage', act));
      this.#lastTransaction = transaction;
      return transaction;
    });
    outside.createEngine.mockImplementation(async () => this.#engine(this.openTrainings));
  }

  #engine(openTrainings: Set<object>) {
    return {
      describe: describe_,
      train: (options: { state?: Uint8Array; config?: unknown; recipe?: unknown }) =>
        this.#act('train', () => this.#training(options, openTrainings), keyOf(options)),
      close: async () => {},
    };
  }

  /** @param key of the training that fails; absent for the storage */
  async #act<T>(label: string, act: () => T, key?: string, onLost = () => {}): Promise<T> {
    await this.#scheduler.schedule(Promise.resolve(), label);
    const code = key && this.failures.shift();
    if (!code) return act();
    // The trainings of a lost worker are lost with it.
    if (code === 'lost') onLost();
    throw new SinkscopeError(code, key, 'it failed');
  }

  #training(
    options: { state?: Uint8Array; config?: unknown; recipe?: unknown },
    openTrainings: Set<object>,
  ) {
    const key = keyOf(options);
    const saved = options.state && JSON.parse(new TextDecoder().decode(options.state));
    if (saved) expect(saved.key).toBe(key);
    let step = saved?.step ?? 0;
    const training = {
      sample: async () => [0, 1, 1],
      look: () => act('look', () => ({ loss: hash(key, step) })),
      read: () =>
        act('read', () => [{ data: Float32Array.of(hash(key, step), step), shape: [1, 1, 1, 2] }]),
      step: () => act('step', () => [{ loss: hash(key, step++) }]),
      async *run(count: number, { signal: stop }: { signal: AbortSignal }) {
        for (let i = 0; i < count; i++) {
          const entry = await act('step', () => stop.aborted || { loss: hash(key, step++) });
          stop.throwIfAborted();
          yield entry;
        }
      },
      state: () => act('state', () => new TextEncoder().encode(JSON.stringify({ key, step }))),
      weights: async () => Uint8Array.of(1),
      close: async () => void openTrainings.delete(training),
    };
    const act = <T>(label: string, run: () => T) =>
      this.#act(
        label,
        () => {
          if (!openTrainings.has(training)) throw new SinkscopeError('closed', key, 'is closed');
          return run();
        },
        key,
        () => openTrainings.delete(training),
      );
    openTrainings.add(training);
    return training;
  }
}

/** Checks what a lab shows while it does not load. */
function expectTrue(lab: Lab): void {
  if (lab.stage === 'lost' || lab.stage === 'refused')
    for (const [name, key] of [
      ['seed', 'seed'],
      ['n_embd', 'width'],
    ] as const)
      expect(lab.error).toContain(`"${name}":${lab.settings[key]}`);
  if (!['ready', 'running', 'ended'].includes(lab.stage)) return;
  expect(lab.hasModel, lab.stage).toBe(true);
  const key = keyOf(lab.setup!.options);
  const { steps: _, ...recipe } = lab.setup!.options.recipe as Record<string, unknown>;
  expect(recipe).toMatchObject({ seed: Number(lab.settings.seed) });
  expect(lab.setup!.options.config).toMatchObject({ n_embd: Number(lab.settings.width) });
  lab.log.forEach(({ loss }, i) => expect(loss, `step ${i}`).toBe(hash(key, i)));
  const [number, step] = lab.picture!.data;
  expect(number).toBe(hash(key, step));
  if (lab.stage !== 'running') expect(step).toBe(lab.step);
  else expect(step).toBeLessThanOrEqual(lab.step);
  if (lab.current) expect(lab.current.loss).toBe(hash(key, lab.step));
}

/** A visit of the page with its own labs: a reload is another visit. */
async function visit(runs: readonly string[]) {
  vi.resetModules();
  const { Pair } = await import('../src/lab/pair');
  const state = signal({ ...defaults, leftRun: runs[0]!, rightRun: runs[1]! });
  const context = {
    ...{ state, notify: () => {} },
    set: (change: object) => void (state.value = { ...state.peek(), ...change }),
  };
  let scope = new Scope();
  let pair: PairType;
  const enter = async () => {
    scope = new Scope();
    pair = new Pair(context as never, scope);
    await pair.openEngine({ zoo: { cards: [] } } as never);
    await Promise.all(pair.labs.map((lab) => lab.engine()));
    pair.applyState();
  };
  await enter();
  return {
    state,
    get pair() {
      return pair;
    },
    set: (change: object) => {
      context.set(change);
      pair.applyState();
    },
    leave: () => scope.end(),
    enter,
  };
}
type Visit = Awaited<ReturnType<typeof visit>>;

interface Act {
  readonly name: string;
  readonly perform: (page: Visit, world: World) => void | Promise<unknown>;
}
const actOf = (name: string, perform: Act['perform']) => fc.constant<Act>({ name, perform });
const hide = (isHidden: boolean) => {
  Object.defineProperty(document, 'hidden', { configurable: true, value: isHidden });
  document.dispatchEvent(new Event('visibilitychange'));
};
const acts = fc.oneof(
  {
    weight: 4,
    arbitrary: fc
      .record({
        leftRun: fc.constantFrom(...SETTINGS),
        rightRun: fc.constantFrom(...SETTINGS),
      })
      .map((change): Act => ({
        name: JSON.stringify(change),
        perform: (page) => page.set(change),
      })),
  },
  { weight: 4, arbitrary: actOf('train', ({ pair }) => pair.train()) },
  actOf('pause', ({ pair }) => void pair.pause()),
  actOf('toggle', ({ pair }) => pair.toggle()),
  actOf('one step', ({ pair }) => pair.trainOneStep()),
  actOf('reset', ({ pair }) => void pair.reset()),
  actOf('hide the tab', () => hide(true)),
  actOf('show the tab', () => hide(false)),
  actOf('another room, and back', async (page) => {
    page.leave();
    await page.enter();
  }),
  actOf('time passes', (_, world) => void (world.now += 4000)),
  actOf('the worker is lost', (_, world) => void world.failures.push('lost')),
  actOf('the memory is full', (_, world) => void world.failures.push('memory')),
  actOf('reload', () => 'reload' as never),
);
const steps = fc.array(fc.record({ act: acts, releases: fc.nat(12) }), {
  ...{ minLength: 2, maxLength: 16, size: 'max' },
});

async function play(scheduler: Scheduler, list: readonly { act: Act; releases: number }[]) {
  const world = new World(scheduler);
  hide(false);
  let page = await visit(['steps:9', 'steps:9,seed:6']);
  let checked = 0;
  const check = () => {
    for (const lab of page.pair.labs) expectTrue(lab);
    checked += 2;
  };
  const release = async () => {
    await scheduler.waitOne(andAll);
    check();
  };
  for (const { act, releases } of list) {
    if (act.name === 'reload') {
      const { leftRun, rightRun } = page.state.peek();
      page.leave();
      world.openTrainings = new Set();
      page = await visit([leftRun, rightRun]);
    } else await andAll(() => act.perform(page, world));
    check();
    for (let i = 0; i < releases && scheduler.count(); i++) await release();
  }
  world.failures = [];
  hide(false);
  await andAll(() => void page.pair.pause());
  while (scheduler.count()) await release();
  // A lab whose worker was lost has its settings, but trains again only on request.
  page.pair.labs.forEach((lab, i) => {
    const { settings } = page.pair.requestedSettings()[i]!;
    expect(recipeOf(lab.settings)).toBe(recipeOf(settings));
    expect(lab.stage).toMatch(/^(ready|ended|lost|refused)$/);
  });
  expect(world.openTrainings.size).toBe(page.pair.labs.filter((lab) => lab.hasModel).length);
  page.leave();
  while (scheduler.count()) await scheduler.waitOne(andAll);
  return checked;
}

/** Draws of one test; `SINKSCOPE_RUNS=5000` draws more. */
const RUNS = Number(process.env.SINKSCOPE_RUNS ?? 200);

it('shows only numbers of the settings beside them, in whatever order answers come', async () => {
  let actCount = 0;
  let checked = 0;
  const property = fc.asyncProperty(fc.scheduler(), steps, async (scheduler, list) => {
    actCount += list.length;
    checked += await play(scheduler, list);
  });
  // To shrink a failure takes minutes: replace `endOnFailure` by the seed that it prints.
  await fc.assert(property, { numRuns: RUNS, endOnFailure: true });
  console.log(`${RUNS} interleavings of ${actCount} acts, ${checked} labs checked`);
}, 3_600_000);

it('loses no training to another tab that restores the pair meanwhile', async () => {
  const runs = ['steps:3', 'steps:3,seed:6'];
  const property = fc.asyncProperty(fc.scheduler(), fc.nat(60), async (scheduler, releases) => {
    new World(scheduler);
    const tabs: Visit[] = [];
    const openTab = async () => (tabs[tabs.length] = await visit(runs)).pair;
    const release = async (count = Infinity) => {
      for (let i = 0; i < count && scheduler.count(); i++) await scheduler.waitOne(andAll);
    };
    const trainingPair = await openTab();
    await release();
    await andAll(() => trainingPair.train());
    await release(releases);
    await openTab();
    await release();
    const { labs } = await openTab();
    await release();
    for (const tab of tabs) tab.leave();
    expect(labs.map(({ step }) => step)).toEqual([3, 3]);
  });
  await fc.assert(property, { numRuns: RUNS / 4, endOnFailure: true });
}, 3_600_000);
