/**
 * One lab trains, pauses and resets a model in a worker of its own. Its fields are its state; the signal `changes`
 * counts their updates, at most ten a second while the model trains.
 */
import { signal } from '@preact/signals-core';
import { createEngine, SinkscopeError, type Engine, type LogEntry, type Training } from 'sinkscope';
import { heldLoss } from 'sinkscope/internal';
import { base } from '../base';
import { errorSentence } from '../ask/errors';
import type { TrainedModel } from './files';
import type { Settings } from './settings';
import type { Setup } from './setup';
import { saveTraining, readTraining, type SavedTraining } from './store';

export type Stage = 'loading' | 'ready' | 'running' | 'ended' | 'diverged' | 'lost' | 'refused';

const FRAME_MS = 100;
/** Milliseconds between two saved states, from which training resumes if its worker ends. */
const SAVE_MS = 3000;
/** The number of steps between two measurements of the loss on held-out text. */
const HELD_OUT_STEPS = 10;
/** The tokens of the sample, the first ones of a sequence; and its fewest triggers, so that there is something to copy. */
const [SHOWN_TOKENS, MIN_TRIGGERS] = [16, 2] as const;
/** The number of workers of each lab: half of the cores, since two labs train. The results do not depend on it. */
const WORKER_COUNT = Math.max(1, Math.min(4, Math.floor(navigator.hardwareConcurrency / 2)));
/** The cost of a training step, in forward passes. */
const STEP_COST = 3.3;

/** The attention weights of the fixed sample, [L, H, T, T]. */
interface Picture {
  readonly data: Float32Array;
  readonly shape: readonly number[];
  /** The weights of the extra key, which belongs to no token, [L, H, T]; absent without one. */
  readonly extraKey?: Float32Array;
}

/** Returns the seconds of a forward pass; the first one may include compilation. */
async function timeForward(training: Training): Promise<number> {
  const startTime = performance.now();
  await training.look();
  return (performance.now() - startTime) / 1000;
}

/** Returns the first of twenty samples that has enough triggers, or else the one with the most. */
async function chooseSample(
  training: Training,
  { triggers }: Settings,
): Promise<readonly number[]> {
  const sampleOf = async (i = 0) => (await training.sample(i)).slice(0, SHOWN_TOKENS);
  if (triggers === undefined) return sampleOf();
  let bestSample: readonly number[] = [];
  const countTriggers = (ids: readonly number[]) =>
    ids.filter((id) => id >= 1 && id <= Number(triggers)).length;
  for (let i = 0; i < 20 && countTriggers(bestSample) < MIN_TRIGGERS; i++) {
    const ids = await sampleOf(i);
    if (!bestSample.length || countTriggers(ids) > countTriggers(bestSample)) bestSample = ids;
  }
  return bestSample;
}

/**
 * Returns the sample of the run that differs in its start token alone, which has one, so that both maps can be compared;
 * undefined for texts that have one, and those of a file.
 */
async function sampleWithStart(
  engine: Engine,
  { options }: Setup,
  settings: Settings,
): Promise<readonly number[] | undefined> {
  if (settings.first !== 'any' || settings.triggers === undefined) return undefined;
  const recipe = { ...(options.recipe as object), first: 0 };
  const training = await engine.train({ ...options, recipe } as typeof options);
  try {
    return await chooseSample(training, settings);
  } finally {
    await training.close();
  }
}

/** Returns the first token of a run's samples that is a letter and no trigger. */
async function chooseFirst(
  training: Training,
  { triggers }: Settings,
  { piece }: Setup,
): Promise<number> {
  let first = 0;
  for (let i = 0; i < 20; i++) {
    [first = 0] = await training.sample(i);
    if (first > Number(triggers) && /^[a-z]$/.test(piece(first))) break;
  }
  return first;
}

async function pictureOf(
  training: Training,
  sample: readonly number[],
  { options: { config } }: Setup,
): Promise<Picture> {
  const { bias_key } = (config as { sinkscope?: { bias_key?: string } }).sinkscope ?? {};
  const fields = bias_key ? ['att', 'att_bias'] : ['att'];
  const [att, extraKey] = await training.read(
    sample,
    fields.map((field) => ({ field })),
  );
  return { ...att, extraKey: extraKey?.data } as Picture;
}

async function measureHeldOut(
  training: Training,
  { heldOut }: Setup,
): Promise<Readonly<Record<string, number>>> {
  return heldOut ? { loss_held: await heldLoss(training, heldOut) } : {};
}

/** Measures what the command line prints after its last step. */
async function measureCurrent(training: Training, setup: Setup): Promise<LogEntry> {
  return { ...(await training.look()), ...(await measureHeldOut(training, setup)) };
}

/** What one training has shown and saved. A training that ends after others have begun writes into its own. */
interface Run {
  readonly log: LogEntry[];
  current?: LogEntry;
  sample: readonly number[];
  picture?: Picture;
  setup?: Setup;
  seconds: number;
  savedTraining?: SavedTraining;
  /** The pair of runs under which this one is saved; undefined: it is not saved. */
  readonly pairKey?: string;
}

const EMPTY_RUN = { log: [], sample: [], seconds: 0 } satisfies Run;

export class Lab {
  readonly changes = signal(0);
  stage: Stage = 'loading';
  /** Why the lab cannot train; '' if it can. */
  error = '';
  settings: Settings = {};
  readonly #prepare: (settings: Settings) => Promise<Setup>;
  #forwardSeconds = NaN;
  #engine: Promise<Engine> | undefined;
  #training: Training | undefined;
  #job: AbortController | undefined;
  #currentRun: Promise<void> | undefined;
  /** Aborts when a later start begins or the lab ends. */
  #start = new AbortController();

  readonly #side: number;
  /** The run of the settings. */
  #shown: Run = EMPTY_RUN;

  /** Creates a lab without a model. */
  constructor(side: number, prepare: (settings: Settings) => Promise<Setup>) {
    this.#side = side;
    this.#prepare = prepare;
  }

  get log(): readonly LogEntry[] {
    return this.#shown.log;
  }

  /**
   * The measures of the weights after the last step, since each entry of the log is measured before its step; undefined
   * while the lab trains.
   */
  get current(): LogEntry | undefined {
    return this.#shown.current;
  }

  get sample(): readonly number[] {
    return this.#shown.sample;
  }

  get picture(): Picture | undefined {
    return this.#shown.picture;
  }

  /** The model and its recipe; undefined before the first model is ready. */
  get setup(): Setup | undefined {
    return this.#shown.setup;
  }

  get seconds(): number {
    return this.#shown.seconds;
  }

  /** The last saved state, from which training continues if its worker ends; undefined if none was saved. */
  get savedTraining(): SavedTraining | undefined {
    return this.#shown.savedTraining;
  }

  /** Whether the lab has a model; if its worker was lost, only the picture is left. */
  get hasModel(): boolean {
    return this.#training !== undefined;
  }

  get isRunning(): boolean {
    return this.stage === 'running';
  }

  /** The number of updates of the weights: each has an entry in the log. */
  get step(): number {
    return this.log.length;
  }

  /** The seconds of a step on this machine, estimated before the first one. */
  get stepSeconds(): number {
    return this.step ? this.seconds / this.step : STEP_COST * this.#forwardSeconds;
  }

  get words(): readonly string[] {
    return this.sample.map((id) => this.setup?.piece(id) ?? '');
  }

  engine(): Promise<Engine> {
    this.#engine ??= createEngine({
      base: new URL(ENGINE, base),
      lab: true,
      workers: WORKER_COUNT,
    });
    this.#engine.catch(() => (this.#engine = undefined));
    return this.#engine;
  }

  /** Shows that the training of these settings is being restored, and reads it. */
  async readSaved(settings: Settings, pairKey?: string): Promise<SavedTraining | undefined> {
    this.#begin(settings, EMPTY_RUN);
    await this.pause();
    return pairKey === undefined ? undefined : readTraining(this.#side, pairKey);
  }

  /** Continues from the last saved state after the worker was lost. */
  resume(): Promise<void> {
    return this.start(this.settings, this.#shown.pairKey, this.savedTraining);
  }

  /** Makes earlier starts outdated; the returned signal aborts when this one is. */
  #begin(settings: Settings, run: Run): AbortSignal {
    this.#start.abort();
    this.#start = new AbortController();
    this.settings = settings;
    this.#shown = run;
    this.#setStage('loading');
    return this.#start.signal;
  }

  /**
   * Starts a training, or continues a saved one.
   * @param pairKey the pair of runs under which it is saved; undefined: it is not saved
   */
  async start(settings: Settings, pairKey?: string, savedTraining?: SavedTraining): Promise<void> {
    // A run that continues keeps its picture.
    const { sample, picture, setup }: Run = savedTraining ? this.#shown : EMPTY_RUN;
    const { log, seconds } = savedTraining ?? EMPTY_RUN;
    const run = { log: [...log], seconds, sample, picture, setup, savedTraining, pairKey };
    const signal = this.#begin(settings, run);
    await this.pause();
    // The worker closes this model before it begins another.
    void this.#training?.close().catch(() => {});
    this.#training = undefined;
    let training: Training | undefined;
    try {
      const [engine, setup] = await Promise.all([this.engine(), this.#prepare(settings)]);
      signal.throwIfAborted();
      const state = savedTraining ? { state: savedTraining.state } : {};
      const workers = Math.min(WORKER_COUNT, engine.describe.training!.parts);
      const firstIds = await sampleWithStart(engine, setup, settings);
      training = await engine.train({ ...setup.options, ...state, workers });
      const sample = firstIds
        ? [await chooseFirst(training, settings, setup), ...firstIds.slice(1)]
        : await chooseSample(training, settings);
      const picture = await pictureOf(training, sample, setup);
      const forwardSeconds = Math.min(await timeForward(training), await timeForward(training));
      const current = await measureCurrent(training, setup);
      // Here a start takes effect, if no later one has begun.
      signal.throwIfAborted();
      this.#training = training;
      Object.assign(run, { setup, sample, picture, current });
      this.#forwardSeconds = forwardSeconds;
      this.#showStage();
    } catch (error) {
      void training?.close().catch(() => {});
      if (!signal.aborted) this.#fail(error, 'refused');
    }
  }

  /**
   * Trains until a step, or until `pause`.
   * @param lastStep the step after which training stops
   * @param pace the most steps in a second
   */
  async run(lastStep: number, pace = Infinity): Promise<void> {
    const training = this.#training;
    if (!training || this.stage !== 'ready' || this.step >= lastStep) return;
    const job = new AbortController();
    this.#job = job;
    this.#setStage('running');
    this.#currentRun = this.#train(training, lastStep, pace, job.signal);
    await this.#currentRun;
  }

  async #train(training: Training, lastStep: number, pace: number, signal: AbortSignal) {
    const [start, run] = [this.#start.signal, this.#shown];
    let drawnAt = performance.now();
    let savedAt = drawnAt;
    const drawFrame = async () => {
      run.picture = await pictureOf(training, run.sample, run.setup!);
      const time = performance.now();
      run.seconds += (time - drawnAt) / 1000;
      drawnAt = time;
      if (time - savedAt > SAVE_MS) {
        await this.#save(training, run);
        savedAt = time;
      }
      this.changes.value = this.changes.peek() + 1;
    };
    const finish = async () => {
      await drawFrame();
      await this.#save(training, run);
      run.current = await measureCurrent(training, run.setup!);
    };
    const takeSteps = async () => {
      for await (const entry of this.#takeSteps(training, run, lastStep, pace, signal)) {
        run.log.push({ ...entry, step: run.log.length });
        if (performance.now() - drawnAt >= FRAME_MS) await drawFrame();
      }
    };
    run.current = undefined;
    const failure = await takeSteps()
      .catch((error: unknown) => {
        if (!signal.aborted) throw error;
      })
      .then(finish)
      .catch((error: unknown) => error);
    // A start that stops this run shows that it loads.
    if (start.aborted) return;
    if (failure === undefined) this.#showStage();
    else this.#fail(failure, 'lost');
  }

  async #save(training: Training, run: Run): Promise<void> {
    const [step, log, { seconds, pairKey }] = [run.log.length, [...run.log], run];
    run.savedTraining = { step, seconds, log, state: await training.state() };
    if (pairKey !== undefined) await saveTraining(this.#side, pairKey, run.savedTraining);
  }

  /** Trains until a step and yields the entries; every tenth also has the loss on held-out text before its step. */
  async *#takeSteps(
    training: Training,
    { log, setup }: Run,
    lastStep: number,
    pace: number,
    signal: AbortSignal,
  ) {
    const hasHeldOut = setup?.heldOut !== undefined;
    for (let remaining = lastStep - log.length; remaining > 0;) {
      const stepsSinceHeldOut = log.length % HELD_OUT_STEPS;
      const chunk = hasHeldOut
        ? Math.min(remaining, HELD_OUT_STEPS - stepsSinceHeldOut)
        : remaining;
      let heldMeasures = stepsSinceHeldOut ? {} : await measureHeldOut(training, setup!);
      for await (const entry of this.#takePacedSteps(training, chunk, pace, signal)) {
        yield { ...heldMeasures, ...entry };
        heldMeasures = {};
      }
      remaining -= chunk;
    }
  }

  async *#takePacedSteps(training: Training, count: number, pace: number, signal: AbortSignal) {
    if (pace === Infinity) {
      yield* training.run(count, { signal });
      return;
    }
    for (let i = 0; i < count; i++) {
      yield* await training.step();
      await new Promise((done) => setTimeout(done, 1000 / pace));
      signal.throwIfAborted();
    }
  }

  /** Applies settings that the results do not depend on, such as another last step or another shown head. */
  adjust(settings: Settings): void {
    this.settings = settings;
    if (this.stage === 'ended' || this.stage === 'ready') this.#showStage();
  }

  async pause(): Promise<void> {
    this.#job?.abort();
    await this.#currentRun;
  }

  async end(): Promise<void> {
    this.#start.abort();
    await this.pause();
    const engine = this.#engine;
    this.#engine = undefined;
    this.#training = undefined;
    await (await engine)?.close();
  }

  async exportTrained(): Promise<TrainedModel> {
    if (!this.#training || !this.setup) throw new Error('The model is still loading.');
    const { describe } = await this.engine();
    const settings = describe.training!.settings.map((row) => [row.name, row.default] as const);
    return {
      setup: this.setup,
      weights: await this.#training.weights(),
      steps: this.step,
      defaults: Object.fromEntries(settings),
    };
  }

  #fail(error: unknown, stage: 'lost' | 'refused'): void {
    const code = error instanceof SinkscopeError ? error.code : '';
    this.error = errorSentence(error);
    // Drops the training, which is lost with its worker; the engine starts another worker for the next training.
    if (code === 'lost' || code === 'closed') this.#training = undefined;
    this.#setStage(code === 'diverged' ? 'diverged' : stage);
  }

  /** Shows whether steps are left. */
  #showStage(): void {
    this.#setStage(this.step >= Number(this.settings.steps) ? 'ended' : 'ready');
  }

  #setStage(stage: Stage): void {
    this.stage = stage;
    if (stage === 'ready' || stage === 'running' || stage === 'loading') this.error = '';
    this.changes.value = this.changes.peek() + 1;
  }
}
