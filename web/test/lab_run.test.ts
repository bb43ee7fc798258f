/** One lab over a mocked engine and clock: a step takes as long as the test sets. */
import { beforeEach, describe, expect, it, vi } from 'vitest';
import { createEngine, SinkscopeError, type LogEntry } from 'sinkscope';
import { Lab } from '../src/lab/lab';
import type { Settings } from '../src/lab/settings';
import { SILENCE_MS, type SavedTraining } from '../src/lab/store';
import type { Setup } from '../src/lab/setup';

const heldLoss = vi.hoisted(() => vi.fn());
const storedTrainings = vi.hoisted(() => {
  // Half of the cores are for the other lab.
  vi.stubGlobal('navigator', { hardwareConcurrency: 7 });
  return new Map<string, unknown>();
});
vi.mock('idb-keyval', async () => (await import('./fixture')).fakeKeyval(storedTrainings));
vi.mock('sinkscope', async (original) => ({
  ...(await original<object>()),
  createEngine: vi.fn(),
}));
vi.mock('sinkscope/internal', async (original) => ({
  ...(await original<object>()),
  heldLoss,
}));

const SETTINGS = { triggers: 7, steps: 5 };
const PAIR = '1.0 triggers:7 triggers:8';
const STORAGE_KEY = `lab-1 ${PAIR}`;
const setup = { options: { config: '{}' }, piece: (id: number) => `<${id}>` } as unknown as Setup;

let clock = 0;
/** The milliseconds of a step and of each forward pass in turn, and what happens at a step. */
let stepTime = 50;
let lookTimes: number[] = [];
let onStep: (step: number) => void = () => {};
let samples: readonly (readonly number[])[] = [];
const calls = { read: 0, state: 0, closed: 0, ended: 0, single: 0 };
let trainerOptions: Record<string, unknown>[] = [];

function trainer(options: Record<string, unknown>) {
  trainerOptions.push(options);
  let step = (options.state as Uint8Array | undefined)?.[0] ?? 0;
  const entry = () => {
    onStep(step);
    clock += stepTime;
    return { step: -1, loss: 10 - step++ } as unknown as LogEntry;
  };
  return {
    sample: async (i = 0) => samples[i] ?? [0, 9, 9],
    look: async () => {
      clock += lookTimes.shift() ?? 20;
      return { step, loss: 10 - step };
    },
    read: async (ids: readonly number[], reads: readonly object[]) => {
      calls.read++;
      return [{ data: Float32Array.of(step, ids.length), shape: [1, 1, 1, 2], reads }];
    },
    async *run(count: number, { signal }: { signal: AbortSignal }) {
      for (let i = 0; i < count; i++) {
        await Promise.resolve();
        signal.throwIfAborted();
        yield entry();
      }
    },
    step: async () => {
      calls.single++;
      return [entry()];
    },
    state: async () => {
      calls.state++;
      return Uint8Array.of(step);
    },
    weights: async () => Uint8Array.of(1, 2),
    close: async () => void calls.closed++,
  };
}

const engine = {
  describe: {
    version: '1.0',
    training: { parts: 2, settings: [{ name: 'batch', default: 32 }] },
  },
  train: vi.fn(async (options: Record<string, unknown>) => trainer(options)),
  close: async () => void calls.ended++,
};

beforeEach(() => {
  storedTrainings.clear();
  Object.assign(calls, { read: 0, state: 0, closed: 0, ended: 0, single: 0 });
  [trainerOptions, samples, lookTimes, stepTime, onStep, clock] = [[], [], [], 50, () => {}, 1000];
  engine.train.mockReset().mockImplementation(async (options) => trainer(options));
  vi.mocked(createEngine)
    .mockReset()
    .mockResolvedValue(engine as never);
  vi.spyOn(performance, 'now').mockImplementation(() => clock);
  vi.spyOn(globalThis, 'setTimeout').mockImplementation(((done: () => void, ms = 0) => {
    // The storage answers within its limit.
    if (ms === SILENCE_MS) return;
    clock += ms;
    queueMicrotask(done);
  }) as never);
});

async function readyLab(settings: Settings = SETTINGS) {
  const lab = new Lab(1, async () => setup);
  await lab.start(settings, PAIR);
  return lab;
}

describe('a lab that is closed', () => {
  it('ends its worker, and a later start creates another', async () => {
    const lab = await readyLab();
    expect(createEngine).toHaveBeenCalledExactlyOnceWith(
      expect.objectContaining({ lab: true, workers: 3 }),
    );
    await lab.end();
    expect([calls.ended, lab.hasModel]).toEqual([1, false]);
    await lab.end();
    expect(calls.ended).toBe(1);
    await lab.start(SETTINGS);
    expect([vi.mocked(createEngine).mock.calls.length, lab.stage]).toEqual([2, 'ready']);
  });
});

describe('a lab that starts', () => {
  it('has a model, the map of its sample, and an estimate of the time of a step', async () => {
    lookTimes = [100, 20];
    const lab = new Lab(1, async () => setup);
    expect([lab.stage, lab.hasModel, lab.words, lab.step]).toEqual(['loading', false, [], 0]);
    await lab.start(SETTINGS);
    expect([lab.stage, lab.hasModel, lab.isRunning, lab.error]).toEqual(['ready', true, false, '']);
    expect([...lab.picture!.data]).toEqual([0, 3]);
    expect((lab.picture as unknown as { reads: object[] }).reads).toEqual([{ field: 'att' }]);
    expect(lab.words).toEqual(['<0>', '<9>', '<9>']);
    // A step takes 3.3 times as long as the faster of two forward passes.
    expect(lab.stepSeconds).toBeCloseTo(3.3 * 0.02, 9);
    expect(trainerOptions[0]).toMatchObject({ config: '{}', workers: 2 });
    expect(trainerOptions[0]).not.toHaveProperty('state');
    expect(lab.changes.value).toBe(2);
  });

  it('shows the first sample with two triggers, whose ids are 1 to the number of triggers', async () => {
    samples = [
      [0, 9, 9],
      [0, 7, 9],
      [0, 8, 0],
      [0, 1, 7],
      [1, 2, 3],
    ];
    expect((await readyLab()).sample).toEqual([0, 1, 7]);
  });

  it('shows the best of twenty samples if none has two triggers, the first of equal ones', async () => {
    samples = Array.from({ length: 21 }, (_, i) => [
      0,
      i === 5 || i === 7 ? i : 9,
      i === 20 ? 1 : 9,
      10 + i,
    ]);
    expect((await readyLab()).sample).toEqual([0, 5, 9, 15]);
    samples = Array.from({ length: 21 }, (_, i) => [0, 9, 10 + i]);
    expect((await readyLab()).sample).toEqual([0, 9, 10]);
    samples = Array.from({ length: 21 }, (_, i) => (i < 20 ? [0, 9] : [1, 2]));
    expect((await readyLab()).sample).toEqual([0, 9]);
    samples = Array.from({ length: 20 }, (_, i) => (i < 19 ? [0, 9] : [1, 2]));
    expect((await readyLab()).sample).toEqual([1, 2]);
  });

  it('shows the first sample if there are no triggers', async () => {
    samples = [
      [0, 5],
      [1, 2],
    ];
    expect((await readyLab({ steps: 5 })).sample).toEqual([0, 5]);
  });

  it('closes the previous model first', async () => {
    const lab = await readyLab();
    await lab.run(2);
    await lab.start(SETTINGS, PAIR);
    expect([calls.closed, lab.step, lab.seconds, lab.savedTraining]).toEqual([1, 0, 0, undefined]);
  });

  it('trains nothing if it is outdated when its settings are prepared', async () => {
    let release = (_: Setup) => {};
    const prepared = new Promise<Setup>((resolve) => (release = resolve));
    const lab = new Lab(1, async ({ steps }) => (steps ? setup : prepared));
    const outdated = lab.start({});
    await lab.start(SETTINGS);
    release(setup);
    await outdated;
    expect([lab.stage, engine.train.mock.calls.length]).toEqual(['ready', 1]);
  });

  it('reports a rejected setting, and clears the error when it starts again', async () => {
    let isBroken = true;
    const lab = new Lab(0, async () => {
      if (isBroken) throw new Error('no such text');
      return setup;
    });
    await lab.start(SETTINGS);
    expect([lab.stage, lab.hasModel]).toEqual(['refused', false]);
    expect(lab.error).toContain('no such text');
    lab.adjust({ ...SETTINGS, steps: 0 });
    expect(lab.stage).toBe('refused');
    await expect(lab.exportTrained()).rejects.toThrow('still loading');
    isBroken = false;
    await lab.start(SETTINGS);
    expect([lab.stage, lab.error]).toEqual(['ready', '']);
  });

  it('loads the engine again after a failure', async () => {
    vi.mocked(createEngine).mockRejectedValueOnce(new Error('offline'));
    const lab = new Lab(0, async () => setup);
    await lab.start(SETTINGS);
    expect(lab.stage).toBe('refused');
    await lab.start(SETTINGS);
    await lab.start(SETTINGS);
    expect([lab.stage, vi.mocked(createEngine).mock.calls.length]).toEqual(['ready', 2]);
    expect(vi.mocked(createEngine).mock.calls[0]![0]).toMatchObject({
      lab: true,
      workers: 3,
    });
  });
});

describe('a lab that trains', () => {
  it('counts its steps and seconds, and ends at the last one', async () => {
    const lab = await readyLab();
    const run = lab.run(3);
    expect([lab.stage, lab.isRunning]).toEqual(['running', true]);
    await lab.run(4);
    await run;
    expect(lab.log.map(({ step, loss }) => [step, loss])).toEqual([
      [0, 10],
      [1, 9],
      [2, 8],
    ]);
    expect(lab.stage).toBe('ready');
    expect(lab.seconds).toBeCloseTo(0.15, 9);
    expect(lab.stepSeconds).toBeCloseTo(0.05, 9);
    expect(lab.savedTraining).toEqual({
      step: 3,
      seconds: lab.seconds,
      log: lab.log,
      state: Uint8Array.of(3),
    });
    expect(storedTrainings.get(STORAGE_KEY)).toEqual(lab.savedTraining);
    await lab.run(3);
    expect(lab.step).toBe(3);
    await lab.run(5);
    expect([lab.stage, lab.step]).toEqual(['ended', 5]);
    const secondLab = await readyLab();
    await secondLab.run(1);
    expect([secondLab.step, secondLab.log.length]).toEqual([1, 1]);
    await lab.run(9);
    expect(lab.step).toBe(5);
  });

  it.each([Infinity, 50])(
    'measures the loss on held-out text before every tenth step and after the last (pace %s)',
    async (pace) => {
      const heldOut = ['old'];
      let losses = 0;
      heldLoss.mockReset().mockImplementation(async () => ++losses);
      const lab = new Lab(1, async () => ({ ...setup, heldOut }) as never);
      await lab.start({ ...SETTINGS, steps: 25 });
      await lab.run(14, pace);
      expect(lab.current).toEqual({ step: 14, loss: -4, loss_held: 4 });
      onStep = () => expect(lab.current).toBeUndefined();
      await lab.run(25, pace);
      expect(lab.current).toEqual({ step: 25, loss: -15, loss_held: 6 });
      expect(heldLoss.mock.calls.map(([, texts]) => texts)).toEqual(Array(6).fill(heldOut));
      const measuredEntries = lab.log.filter((entry) => 'loss_held' in entry);
      expect([
        lab.log.length,
        ...measuredEntries.map(({ step, loss_held }) => [step, loss_held]),
      ]).toEqual([...[25, [0, 2], [10, 3], [20, 5]]]);
      const otherLab = await readyLab();
      await otherLab.run(5);
      expect(heldLoss).toHaveBeenCalledTimes(6);
    },
  );

  it('redraws every tenth of a second, and at its end', async () => {
    const lab = await readyLab();
    const [readsBefore, changesBefore] = [calls.read, lab.changes.value];
    await lab.run(4);
    // The lab draws after 100 ms, after 200 ms, and at the end.
    expect([calls.read - readsBefore, lab.changes.value - changesBefore]).toEqual([3, 5]);
    expect([...lab.picture!.data]).toEqual([4, 3]);
  });

  it('stores its state every three seconds, and at its end', async () => {
    stepTime = 1000;
    const lab = await readyLab({ ...SETTINGS, steps: 20 });
    await lab.run(3);
    expect(calls.state).toBe(1);
    await lab.run(12);
    // The lab stores its state after 4 and 8 more seconds, and at the end.
    expect(calls.state).toBe(4);
  });

  it('limits the steps per second to the chosen speed', async () => {
    const lab = await readyLab();
    clock = 0;
    await lab.run(4, 10);
    // After the last step the lab looks at its weights, which takes 20 ms.
    expect([calls.single, lab.step, clock]).toEqual([4, 4, 4 * (50 + 100) + 20]);
  });

  it.each([Infinity, 10])('pauses, and continues from the same step (pace %s)', async (pace) => {
    const lab = await readyLab();
    let pausing: Promise<void> | undefined;
    onStep = (step) => {
      if (step === 1) pausing ??= lab.pause();
    };
    await lab.run(5, pace);
    await pausing;
    expect([lab.stage, lab.step, lab.savedTraining?.step]).toEqual(['ready', 2, 2]);
    expect(lab.current).toMatchObject({ step: 2 });
    await lab.run(5, pace);
    expect([lab.stage, lab.step]).toEqual(['ended', 5]);
  });

  it.each([
    ['diverged', 'diverged', true],
    ['lost', 'lost', false],
    ['closed', 'lost', false],
    ['memory', 'lost', true],
  ] as const)('that fails as %s is %s', async (code, stage, isThere) => {
    const lab = await readyLab();
    onStep = (step) => {
      if (step === 2) throw new SinkscopeError(code as never, 'training', 'it broke');
    };
    await lab.run(5);
    expect([lab.stage, lab.step, lab.hasModel]).toEqual([stage, 2, isThere]);
    expect(lab.error).toContain('it broke');
    lab.adjust({ ...SETTINGS, steps: 1 });
    expect(lab.stage).toBe(stage);
  });

  it('is finished or not depending on its new number of steps', async () => {
    const lab = await readyLab();
    await lab.run(3);
    const stageAt = (steps: number) => {
      lab.adjust({ ...SETTINGS, steps });
      return lab.stage;
    };
    expect([4, 3, 2, 9].map(stageAt)).toEqual(['ready', 'ended', 'ended', 'ready']);
  });

  it('exports its weights with everything needed to reproduce them', async () => {
    const lab = await readyLab();
    await lab.run(2);
    expect(await lab.exportTrained()).toEqual({
      setup,
      weights: Uint8Array.of(1, 2),
      steps: 2,
      defaults: { batch: 32 },
    });
  });
});

describe('a lab of the last visit', () => {
  const log = [{ step: 0 }, { step: 1 }] as unknown as LogEntry[];
  const savedTraining: SavedTraining = { step: 2, seconds: 4, log, state: Uint8Array.of(2) };

  it('resumes at its step', async () => {
    storedTrainings.set(STORAGE_KEY, savedTraining);
    const lab = new Lab(1, async () => setup);
    expect(await lab.readSaved(SETTINGS, PAIR)).toBe(savedTraining);
    expect([lab.stage, lab.settings]).toEqual(['loading', SETTINGS]);
    await lab.start(SETTINGS, PAIR, savedTraining);
    expect([lab.stage, lab.step, lab.seconds, lab.stepSeconds]).toEqual(['ready', 2, 4, 2]);
    expect(trainerOptions).toHaveLength(1);
    expect(trainerOptions[0]!.state).toEqual(Uint8Array.of(2));
    expect(lab.current).toMatchObject({ step: 2 });
    expect(storedTrainings.size).toBe(1);
    await lab.run(5);
    expect([lab.stage, log.length]).toEqual(['ended', 2]);
  });

  it('stays finished after a reload', async () => {
    const lab = new Lab(1, async () => setup);
    await lab.start({ ...SETTINGS, steps: 2 }, PAIR, savedTraining);
    expect(lab.stage).toBe('ended');
  });

  it.each([
    ['with other settings', 'lab-1 1.0 triggers:7 triggers:9', savedTraining],
    ['of the other side', `lab-0 ${PAIR}`, savedTraining],
    ['whose log is cut', STORAGE_KEY, { ...savedTraining, step: 3 }],
    ['without a state', STORAGE_KEY, { ...savedTraining, state: 'x' }],
    ['that is nothing', STORAGE_KEY, undefined],
  ])('is not read from a run %s', async (_, key, stored) => {
    storedTrainings.set(key, stored);
    const lab = new Lab(1, async () => setup);
    expect(await lab.readSaved(SETTINGS, PAIR)).toBeUndefined();
  });

  it('saves its last steps before another run is read, and shows nothing of them from then on', async () => {
    const lab = await readyLab();
    await lab.run(3);
    const run = lab.run(5);
    await Promise.resolve();
    const shown = () => [lab.step, lab.picture, lab.setup, lab.current, lab.savedTraining];
    const read = lab.readSaved({ triggers: 6 }, 'another pair');
    expect(shown()).toEqual([0, undefined, undefined, undefined, undefined]);
    await Promise.all([read, run]);
    expect(shown()).toEqual([0, undefined, undefined, undefined, undefined]);
    const saved = storedTrainings.get(STORAGE_KEY) as SavedTraining;
    expect(saved.step).toBeGreaterThanOrEqual(3);
    expect(saved.log.map(({ step }) => step)).toEqual(saved.log.map((_, i) => i));
  });

  it('keeps the runs of the last four pairs, and is not saved without a pair', async () => {
    storedTrainings.set('lab-text', 'the own text');
    const lab = new Lab(1, async () => setup);
    for (const pair of ['a', 'b', 'c', 'd', 'a', 'e', undefined]) {
      await lab.start(SETTINGS, pair);
      await lab.run(1);
    }
    expect([...storedTrainings.keys()].sort()).toEqual([
      ...['lab-1 a', 'lab-1 c', 'lab-1 d', 'lab-1 e'],
      ...['lab-pairs', 'lab-text'],
    ]);
  });
});
