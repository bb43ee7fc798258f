/** Generates text: adds tokens to the runs of the shown causal models, one at a time. */
import { signal } from '@preact/signals-core';
import { InputError, errorSentence } from '../ask/errors';
import { editsOf, parseSubject } from '../ask/subject';
import { isBidirectional, type Frame } from '../frame';
import type { Entry } from './request';
import { idsOf, isOpen, EXTRA_TOKENS, type CachedRun, type CachedRuns, type OpenRun } from './runs';

interface Sampling {
  readonly count: number;
  readonly temperature: number;
  readonly topK: number;
  readonly seed: number;
}

interface Answers {
  readonly entry: (subject: string) => Entry | undefined;
  readonly set: (subject: string, change: Entry) => void;
  readonly complete: (frame: Frame, cachedRun: OpenRun) => Promise<Frame>;
}

/** Returns the frame with one more token and without numbers, which are then read from the run. */
function withToken(frame: Frame, id: number, text: string): Frame {
  const tokens = [...frame.tokens, { id, text, start: 0, end: 0, special: false }];
  const { head: _, ...rest } = frame;
  return {
    ...rest,
    tokens,
    T: tokens.length,
    ids: [idsOf(tokens)],
    generated: frame.generated + 1,
    sequences: 1,
    tensors: {},
    spread: {},
    perPrompt: {},
    next: [],
  };
}

export class Generation {
  readonly #runs: CachedRuns;
  readonly #answers: Answers;
  readonly #job = signal<AbortController | undefined>(undefined);

  constructor(runs: CachedRuns, answers: Answers) {
    this.#runs = runs;
    this.#answers = answers;
  }

  /** Whether text is being generated. An effect that reads this runs again when generation begins or ends. */
  get isRunning(): boolean {
    return this.#job.value !== undefined;
  }

  get isRunningUntracked(): boolean {
    return this.#job.peek() !== undefined;
  }

  stop(): void {
    this.#job.peek()?.abort();
    this.#job.value = undefined;
  }

  /** Adds at most `count` tokens to each subject, and publishes a frame after each token. */
  async generate(subjects: readonly string[], options: Sampling): Promise<void> {
    const job = new AbortController();
    this.#job.value = job;
    try {
      for (const subject of subjects) await this.#extend(subject, options, job.signal);
    } finally {
      if (this.#job.peek() === job) this.#job.value = undefined;
    }
  }

  async #extend(
    subject: string,
    { count, ...options }: Sampling,
    signal: AbortSignal,
  ): Promise<void> {
    const cachedRun = this.#runs.get(subject);
    const frame = this.#answers.entry(subject)?.frame;
    if (!cachedRun || !frame || isBidirectional(frame) || signal.aborted) return;
    const { model, tokenizer } = cachedRun.openModel;
    const limit = Math.min(count, model.architecture.context - frame.T);
    try {
      if (limit < 1) throw new InputError(`${frame.title} has no room for more tokens.`);
      const openRun = await this.#reserveRun(frame, cachedRun, limit, signal);
      if (!openRun) return;
      for await (const { token } of openRun.run.generate({ ...options, count: limit, signal })) {
        const { frame: lastFrame } = this.#answers.entry(subject)!;
        if (!lastFrame || signal.aborted) return;
        const nextFrame = withToken(lastFrame, token, tokenizer.piece(token));
        const fullFrame = await this.#answers.complete(nextFrame, openRun);
        if (signal.aborted) return;
        this.#answers.set(subject, { frame: fullFrame });
      }
    } catch (error) {
      if (!signal.aborted) this.#answers.set(subject, { error: errorSentence(error) });
    }
  }

  /**
   * Returns the frame's run with memory for `more` tokens; undefined if another question was answered meanwhile. If the
   * run's memory is too small, runs the text again, which gives the same bits.
   */
  async #reserveRun(
    { subject, tokens, T }: Frame,
    cachedRun: CachedRun,
    extraTokens: number,
    signal: AbortSignal,
  ): Promise<OpenRun | undefined> {
    // If the reader stopped while a token was sampled, the run has a token that no frame has.
    if (isOpen(cachedRun) && T + extraTokens <= cachedRun.capacity) {
      if (cachedRun.run.tokens.length > T) await cachedRun.run.update(idsOf(tokens), { signal });
      return cachedRun;
    }
    this.#runs.take(subject, () => false);
    const { model } = cachedRun.openModel;
    const capacity = Math.min(model.architecture.context, T + Math.max(extraTokens, EXTRA_TOKENS));
    const run = await model.run(idsOf(tokens), {
      edits: editsOf(parseSubject(subject)!, model.describe),
      fields: [...cachedRun.fields],
      capacity,
      signal,
    });
    const currentRun = this.#runs.get(subject);
    if (currentRun?.key !== cachedRun.key || currentRun.run) {
      void run.close().catch(() => {});
      return undefined;
    }
    const openRun = { ...cachedRun, run, capacity };
    this.#runs.set(subject, openRun);
    return openRun;
  }
}
