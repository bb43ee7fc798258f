/**
 * One lab: a model in training, in a worker of its own. It trains, pauses, begins again; what it shows
 * is in its fields, and `changed` counts the times that there was something new, ten a second at most.
 */
import { signal } from '@preact/signals-core';
import { createEngine, SinkscopeError, type Engine, type LogEntry, type Training } from 'sinkscope';
import { base } from '../base';
import { sentence } from '../open/words';
import type { Settings } from './settings';
import type { Setup } from './setup';

export type Stage = 'loading' | 'ready' | 'running' | 'ended' | 'diverged' | 'lost' | 'refused';

/** Between two pictures. */
const FRAME_MS = 100;
/** Between two checkpoints, for the case that the worker ends. */
const KEEP_MS = 3000;
/** A sample should have something to copy. */
const TRIGGERS = 2;
/** Cores of one of two labs; the digits do not depend on them. */
const WORKERS = Math.max(1, Math.min(4, Math.floor(navigator.hardwareConcurrency / 2)));
/** What a step costs, in passes forwards. */
const STEP_COST = 3.3;

/** Attention of the fixed sample, [L, H, T, T]. */
export interface Picture {
  readonly data: Float32Array;
  readonly shape: readonly number[];
}

/** Seconds of a pass forwards; the first one may have to be compiled. */
async function timed(training: Training): Promise<number> {
  const began = performance.now();
  await training.look();
  return (performance.now() - began) / 1000;
}

export class Lab {
  readonly changed = signal(0);
  stage: Stage = 'loading';
  /** Why it is not ready. */
  trouble = '';
  settings: Settings = {};
  log: LogEntry[] = [];
  sample: readonly number[] = [];
  picture: Picture | undefined;
  /** What is trained; undefined: nothing yet. */
  setup: Setup | undefined;
  /** Seconds that it has trained. */
  seconds = 0;
  /** Of the weights that are kept; undefined: none are. */
  kept: { readonly step: number; readonly weights: Uint8Array } | undefined;
  readonly #prepare: (settings: Settings) => Promise<Setup>;
  /** Of a pass forwards, before anything was trained. */
  #lookSeconds = NaN;
  #engine: Promise<Engine> | undefined;
  #training: Training | undefined;
  #job: AbortController | undefined;
  #running: Promise<void> | undefined;
  /** One beginning after the other. */
  #turn = 0;

  constructor(prepare: (settings: Settings) => Promise<Setup>) {
    this.#prepare = prepare;
  }

  /** Whether there is a model; one that was refused or lost leaves its picture behind. */
  get isThere(): boolean {
    return this.#training !== undefined;
  }

  get isRunning(): boolean {
    return this.stage === 'running';
  }

  /** Updates that the weights have had: an entry was made before each. */
  get step(): number {
    return this.log.length;
  }

  /** Of a step on this machine; a guess before the first. */
  get stepSeconds(): number {
    return this.step ? this.seconds / this.step : STEP_COST * this.#lookSeconds;
  }

  /** The sample's tokens as they read. */
  get words(): readonly string[] {
    return this.sample.map((id) => this.setup?.piece(id) ?? '');
  }

  /** The engine, which is fetched with the first lab. */
  engine(): Promise<Engine> {
    this.#engine ??= createEngine({ base: new URL(ENGINE, base), lab: true, workers: WORKERS });
    this.#engine.catch(() => (this.#engine = undefined));
    return this.#engine;
  }

  /** A new model with these settings, or from the weights that are kept. */
  async begin(settings: Settings, from?: { readonly step: number; readonly weights: Uint8Array }) {
    const turn = ++this.#turn;
    this.settings = settings;
    this.#show('loading');
    await this.pause();
    if (turn !== this.#turn) return;
    this.log = this.log.slice(0, from?.step ?? 0);
    this.kept = from;
    if (!from) {
      this.seconds = 0;
      this.picture = undefined;
    }
    const old = this.#training;
    this.#training = undefined;
    await old?.close().catch(() => {});
    try {
      const [engine, setup] = await Promise.all([this.engine(), this.#prepare(settings)]);
      if (turn !== this.#turn) return;
      const begin = from ? { begin: from.weights } : {};
      const workers = Math.min(WORKERS, engine.describe.training!.parts);
      const training = await engine.train({ ...setup.options, ...begin, workers });
      if (turn !== this.#turn) return void training.close().catch(() => {});
      this.#training = training;
      this.setup = setup;
      this.sample = await this.#choose(training);
      await this.#look();
      this.#lookSeconds = Math.min(await timed(training), await timed(training));
      if (turn === this.#turn) this.#show('ready');
    } catch (error) {
      if (turn === this.#turn) this.#fail(error, 'refused');
    }
  }

  /** The first sample with enough triggers, of the first twenty. */
  async #choose(training: Training): Promise<readonly number[]> {
    const { triggers } = this.settings;
    if (triggers === undefined) return training.sample();
    let best: readonly number[] = [];
    const count = (ids: readonly number[]) =>
      ids.filter((id) => id >= 1 && id <= Number(triggers)).length;
    for (let i = 0; i < 20 && count(best) < TRIGGERS; i++) {
      const ids = await training.sample(i);
      if (!best.length || count(ids) > count(best)) best = ids;
    }
    return best;
  }

  /**
   * Trains until that step, or until it is paused.
   * @param pace steps in a second, at most
   */
  async run(until: number, pace = Infinity): Promise<void> {
    const training = this.#training;
    if (!training || this.stage !== 'ready' || this.step >= until) return;
    const job = new AbortController();
    this.#job = job;
    this.#show('running');
    this.#running = this.#train(training, until, pace, job.signal);
    await this.#running;
  }

  async #train(training: Training, until: number, pace: number, signal: AbortSignal) {
    let drawn = performance.now();
    let kept = drawn;
    const frame = async () => {
      await this.#look();
      const now = performance.now();
      this.seconds += (now - drawn) / 1000;
      drawn = now;
      if (now - kept > KEEP_MS) {
        this.kept = { step: this.step, weights: await training.weights() };
        kept = now;
      }
      this.changed.value = this.changed.peek() + 1;
    };
    try {
      for await (const entry of this.#steps(training, until - this.step, pace, signal)) {
        this.log.push({ ...entry, step: this.step });
        if (performance.now() - drawn >= FRAME_MS) await frame();
      }
      await frame();
      this.#show(this.step >= Number(this.settings.steps) ? 'ended' : 'ready');
    } catch (error) {
      if (signal.aborted) {
        await frame().catch(() => {});
        this.#show('ready');
      } else this.#fail(error, 'lost');
    }
  }

  async *#steps(training: Training, count: number, pace: number, signal: AbortSignal) {
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

  /** Settings that no number depends on: another end, another head. */
  adjust(settings: Settings): void {
    this.settings = settings;
    const steps = Number(settings.steps);
    if (this.stage === 'ended' || this.stage === 'ready')
      this.#show(this.step >= steps ? 'ended' : 'ready');
  }

  async pause(): Promise<void> {
    this.#job?.abort();
    await this.#running;
  }

  /** What the sample does with the weights as they are. */
  async #look(): Promise<void> {
    if (!this.#training) return;
    const [att] = await this.#training.read(this.sample, [{ field: 'att' }]);
    this.picture = att as Picture;
  }

  async weights(): Promise<Uint8Array> {
    if (!this.#training) throw new Error('There is no model yet.');
    return this.#training.weights();
  }

  #fail(error: unknown, otherwise: 'lost' | 'refused'): void {
    const code = error instanceof SinkscopeError ? error.code : '';
    this.trouble = sentence(error);
    // A worker that ended took its training with it; the engine starts another for the next one.
    if (code === 'lost' || code === 'closed') this.#training = undefined;
    this.#show(code === 'diverged' ? 'diverged' : otherwise);
  }

  #show(stage: Stage): void {
    this.stage = stage;
    if (stage === 'ready' || stage === 'running' || stage === 'loading') this.trouble = '';
    this.changed.value = this.changed.peek() + 1;
  }
}
