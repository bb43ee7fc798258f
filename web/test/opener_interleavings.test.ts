// @vitest-environment happy-dom
/**
 * The opener under a scheduler that decides in which order hosts, the disk and the engine answer. Acts of a reader come
 * in between: other names, files, Load, Back, a closed dialog, a lookup that fails. What the dialog shows belongs to what
 * the reader asked for last, and after the last act no step is in progress.
 */
import fc, { type Scheduler } from 'fast-check';
import { expect, it, vi } from 'vitest';
import { SinkscopeError, type Plan } from 'sinkscope';
import { Opener } from '../src/open/opener';
import { andAll } from './fixture';

const outside = vi.hoisted(() => ({
  ...{ resolveHub: vi.fn(), planFiles: vi.fn(), cacheList: vi.fn(), idOfFiles: vi.fn() },
  cacheBytes: async () => 0,
}));
vi.mock('../src/ask/outside', () => outside);
vi.mock('../src/ask/ids', async (load) => ({
  ...(await load<object>()),
  idOfFiles: outside.idOfFiles,
}));
vi.mock('../src/ask/recordings', async (load) => ({
  ...(await load<object>()),
  isRecordingFile: async (file: File) => file.name.endsWith('.rec'),
  idOfRecordingFile: async (file: File) => `recording:disk/${file.name}`,
}));

const NAMES = ['o/a', 'o/b'];
const FILES = ['file-c', 'file-d', 'two-files', 'file.rec'];
const RECORDING = 'record9';
const ADDRESS = `https://other.example/${RECORDING}.safetensors`;

const planOf = (id: string): Plan =>
  ({
    ...{ id, bytes: 5, memory: 5, choices: [], revision: 'main', format: 'safetensors' },
    ...(NAMES.includes(id) ? { commit: '0123456789abcdef' } : {}),
    files: { weights: [{ name: 'm', bytes: 5, url: NAMES.includes(id) ? id : undefined }] },
  }) as unknown as Plan;

/** What the reader asked for last: a name, files or an address; undefined after Back, Close and a success. */
let asked: string | undefined;

class World {
  readonly problems: unknown[] = [];
  readonly opener: Opener;
  /** How many of the next answers are errors. */
  failures = 0;
  readonly #scheduler: Scheduler;

  constructor(scheduler: Scheduler) {
    this.#scheduler = scheduler;
    asked = undefined;
    outside.resolveHub.mockImplementation((name, { signal }) =>
      this.#act(name, () => planOf(name), signal),
    );
    outside.planFiles.mockImplementation(([{ path }]) =>
      this.#act(path, () => (path === 'two-files' ? ['file-c', 'file-d'] : [path]).map(planOf)),
    );
    outside.idOfFiles.mockImplementation(({ id }) => this.#act(id, () => `disk:0/${id}`));
    outside.cacheList.mockImplementation(() => this.#act('cache', () => []));
    const get = (id: string, { signal }: { signal: AbortSignal }) =>
      this.#act(id, () => {}, signal);
    const size = (id: string, signal: AbortSignal) => this.#act(id, () => 3, signal);
    const nothing = { admit() {}, forget() {}, pin() {}, unpin() {}, stop() {} };
    const models = { ...nothing, get, recordings: { ...nothing, get, size } };
    this.opener = new Opener({
      models: () => models as never,
      onOpened: (id) => {
        this.#check(() => expect(id).toContain(asked));
        asked = undefined;
      },
      onFailed: (text) => this.#check(() => expect(text).toContain(asked)),
      onChanged: () => this.#check(() => this.#expectTrue()),
    });
  }

  #check(expectations: () => void): void {
    try {
      expectations();
    } catch (problem) {
      this.problems.push(problem);
    }
  }

  async #act<T>(label: string, act: () => T, signal?: AbortSignal): Promise<T> {
    const aborted = new Promise<never>((_, reject) =>
      signal?.addEventListener('abort', () => reject(signal.reason)),
    );
    await Promise.race([this.#scheduler.schedule(Promise.resolve(), label), aborted]);
    signal?.throwIfAborted();
    if (label === 'cache' || !this.failures) return act();
    this.failures--;
    throw new SinkscopeError('read', label, 'it failed');
  }

  #expectTrue(): void {
    const { stage, error } = this.opener;
    if (stage.name === 'looking' && stage.text !== 'Reading the files' && stage.text !== 'Loading')
      expect(stage.text).toContain(asked);
    if (stage.name === 'plan' || stage.name === 'loading') expect(stage.plan.id).toBe(asked);
    if (stage.name === 'several') expect(asked).toBe('two-files');
    if (stage.name === 'recording') expect(asked).toBe(RECORDING);
    if (stage.name !== 'choose') expect(asked).toBeDefined();
    if (error) expect(error).toContain(asked);
  }
}

interface Act {
  readonly name: string;
  readonly perform: (world: World) => void;
}
const actOf = (name: string, perform: Act['perform']) => fc.constant<Act>({ name, perform });
const ask = (name: string, perform: (opener: Opener) => Promise<void>): Act => ({
  name,
  perform: ({ opener }) => {
    asked = name;
    void perform(opener);
  },
});
const acts = fc.oneof(
  {
    weight: 4,
    arbitrary: fc
      .constantFrom(...NAMES, RECORDING)
      .map((name) => ask(name, (opener) => opener.lookUp(name === RECORDING ? ADDRESS : name))),
  },
  {
    weight: 2,
    arbitrary: fc
      .constantFrom(...FILES)
      .map((path) =>
        ask(path, (opener) => opener.openFiles([{ path, file: new File(['x'], path) }])),
      ),
  },
  {
    weight: 4,
    arbitrary: actOf('the main button', ({ opener }) => {
      const { stage } = opener;
      if (stage.name === 'plan') void opener.load(stage.plan);
      if (stage.name === 'recording') void opener.loadRecording(stage.id);
      if (stage.name !== 'several') return;
      asked = (stage.models[0]!.source as Plan).id;
      void opener.chooseCandidate(stage.models[0]!);
    }),
  },
  actOf('back', ({ opener }) => {
    asked = undefined;
    opener.goBack();
  }),
  actOf('show', ({ opener }) => opener.show()),
  actOf('close', ({ opener }) => {
    if (opener.isShown) asked = undefined;
    opener.hide();
  }),
  { weight: 3, arbitrary: actOf('an answer fails', (world) => void world.failures++) },
);
const steps = fc.array(fc.record({ act: acts, releases: fc.nat(4) }), {
  ...{ minLength: 2, maxLength: 16, size: 'max' },
});

async function play(scheduler: Scheduler, list: readonly { act: Act; releases: number }[]) {
  const world = new World(scheduler);
  const { opener, problems } = world;
  const release = async () => {
    await scheduler.waitOne(andAll);
    if (problems.length) throw problems[0];
  };
  for (const { act, releases } of list) {
    await andAll(() => act.perform(world));
    if (problems.length) throw problems[0];
    for (let i = 0; i < releases && scheduler.count(); i++) await release();
  }
  while (scheduler.count()) await release();
  expect(opener.work).toBeUndefined();
}

/** Draws of one test; `SINKSCOPE_RUNS=5000` draws more. */
const RUNS = Number(process.env.SINKSCOPE_RUNS ?? 500);

it('shows only what belongs to the last request, in whatever order answers come, and is quiet after the last', async () => {
  let actCount = 0;
  const property = fc.asyncProperty(fc.scheduler(), steps, async (scheduler, list) => {
    actCount += list.length;
    await play(scheduler, list);
  });
  await fc.assert(property, { numRuns: RUNS });
  console.log(`${RUNS} interleavings of ${actCount} acts`);
}, 3_600_000);
