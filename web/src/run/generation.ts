/** Adds tokens to the runs that are shown: a token at a time for causal models, a step for masked ones. */
import { signal } from '@preact/signals-core';
import {
  copyTask,
  measureTask,
  measureUnmasking,
  recallTask,
  searchSuffix,
  textTask,
  unmask,
  type SuffixFound,
  type SuffixOptions,
  type SuffixPair,
  type TaskFound,
  type UnmaskFound,
  type UnmaskOptions,
  type UnmaskStep,
} from 'sinkscope';
import { InputError, sentence } from '../ask/errors';
import { editsOf, parseSubject } from '../ask/subject';
import { isBidirectional, type Frame } from '../frame';
import type { OpenModel } from './opened';
import type { Entry } from './request';
import { idsOf, isOpen, ROOM, type CachedRun, type CachedRuns, type OpenRun } from './runs';

/** Random tokens that a task copies. */
const COPIED = 25;

interface Sampling {
  readonly count: number;
  readonly temperature: number;
  readonly topK: number;
  readonly seed: number;
}

/** A masked model's losses, and the title of the causal model beside it. */
export interface MaskedLoss {
  readonly found: UnmaskFound;
  readonly causal?: string;
}

/** What generation needs of the queue. */
interface Answers {
  readonly entry: (subject: string) => Entry | undefined;
  readonly set: (subject: string, change: Entry) => void;
  /** The frame with every number that the rooms ask for. */
  readonly complete: (frame: Frame, cached: OpenRun) => Promise<Frame>;
  readonly baseline: (id: string, signal: AbortSignal) => Promise<OpenModel | undefined>;
}

/** The frame with one more token, before anything is read of it. */
function longer(frame: Frame, id: number, text: string): Frame {
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

const maskOf = ({ maskToken }: Frame) => (maskToken === undefined ? {} : { mask: maskToken });

export class Generation {
  readonly #runs: CachedRuns;
  readonly #answers: Answers;
  readonly #job = signal<AbortController | undefined>(undefined);

  constructor(runs: CachedRuns, answers: Answers) {
    this.#runs = runs;
    this.#answers = answers;
  }

  /** A signal: an effect that reads it runs again when generation begins or ends. */
  get isRunning(): boolean {
    return this.#job.value !== undefined;
  }

  get isRunningNow(): boolean {
    return this.#job.peek() !== undefined;
  }

  stop(): void {
    this.#job.peek()?.abort();
    this.#job.value = undefined;
  }

  /** Extends each subject by at most `count` tokens; each token gives a frame. */
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
    const cached = this.#runs.get(subject);
    const frame = this.#answers.entry(subject)?.frame;
    if (!cached || !frame || isBidirectional(frame) || signal.aborted) return;
    const { model, tokenizer } = cached.opened;
    const most = Math.min(count, model.architecture.context - frame.T);
    try {
      if (most < 1) throw new InputError(`${frame.title} has no room for more tokens.`);
      const open = await this.#withRoom(frame, cached, most, signal);
      if (!open) return;
      for await (const { token } of open.run.generate({ ...options, count: most, signal })) {
        const { frame: now } = this.#answers.entry(subject)!;
        if (!now || signal.aborted) return;
        const next = longer(now, token, tokenizer.piece(token));
        const whole = await this.#answers.complete(next, open);
        if (signal.aborted) return;
        this.#answers.set(subject, { frame: whole });
      }
    } catch (error) {
      if (!signal.aborted) this.#answers.set(subject, { error: sentence(error) });
    }
  }

  /**
   * The run of the frame, with memory for so many more tokens: a run that has none is repeated, to the same
   * bits. Undefined where another question was answered meanwhile.
   */
  async #withRoom(
    { subject, tokens, T }: Frame,
    cached: CachedRun,
    more: number,
    signal: AbortSignal,
  ): Promise<OpenRun | undefined> {
    // A token that was drawn when generation stopped is in the run but not shown.
    if (isOpen(cached) && T + more <= cached.capacity) {
      if (cached.run.tokens.length > T) await cached.run.update(idsOf(tokens), { signal });
      return cached;
    }
    this.#runs.take(subject, () => false);
    const { model } = cached.opened;
    const capacity = Math.min(model.architecture.context, T + Math.max(more, ROOM));
    const run = await model.run(idsOf(tokens), {
      edits: editsOf(parseSubject(subject)!, model.describe),
      fields: [...cached.fields],
      capacity,
      signal,
    });
    const now = this.#runs.get(subject);
    if (now?.key !== cached.key || now.run) {
      void run.close().catch(() => {});
      return undefined;
    }
    const open = { ...cached, run, capacity };
    this.#runs.set(subject, open);
    return open;
  }

  #opened({ subject }: Frame): OpenModel {
    const cached = this.#runs.get(subject);
    if (!cached) throw new InputError('The model is no longer open.');
    return cached.opened;
  }

  /** Searches tokens that, put between two, raise a score. */
  async search(
    frame: Frame,
    pair: SuffixPair,
    options: SuffixOptions,
  ): Promise<{ found: SuffixFound; text: string }> {
    const { model, tokenizer } = this.#opened(frame);
    // No text contains special tokens.
    const given = { ...options, never: tokenizer.special, edits: frame.edits };
    const found = await searchSuffix(model, pair, given);
    return { found, text: found.suffix.map((id) => tokenizer.piece(id)).join('') };
  }

  /**
   * Accuracy with every key, with the first key hidden and with another hidden: of the next token in the frame's own
   * prompts, of copied random tokens, and of a name over two distances. What starts these is what starts the frame's text.
   */
  async doTasks(
    frame: Frame,
    signal: AbortSignal,
    onTask: (found: TaskFound) => void,
    onProgress: (share: number) => void,
  ): Promise<void> {
    const { model, tokenizer } = this.#opened(frame);
    const { V, context } = model.architecture;
    const front = frame.tokens.findIndex(({ special }) => !special);
    const begin = frame.tokens.slice(0, Math.max(0, front));
    const special = begin.map(({ text }) => text);
    const tasks = [
      await textTask(frame.ids),
      await copyTask(V, {
        first: begin.map(({ id }) => id),
        never: tokenizer.special,
        length: Math.min(COPIED, Math.floor((context - 2) / 2)),
      }),
    ];
    for (const between of [1, 4]) {
      const recall = await recallTask(tokenizer, { between, special });
      if (recall) tasks.push(recall);
    }
    const fitting = tasks.filter(({ prompts }) =>
      prompts.every(({ ids, from }) => from >= 3 && ids.length <= context),
    );
    for (const [i, task] of fitting.entries()) {
      const found = await measureTask(model, task, {
        edits: frame.edits,
        signal,
        onProgress: ({ done, total }) => onProgress((i + done / total) / fitting.length),
      });
      onTask(found);
    }
  }

  /**
   * The loss at masked tokens of the frame's own prompts, with every key and without one, beside that of the causal model
   * from which the frame's model differs, where both have the same tokens.
   */
  async maskedLoss(
    frame: Frame,
    signal: AbortSignal,
    onProgress: (share: number) => void,
  ): Promise<MaskedLoss> {
    const { model, tokenizer } = this.#opened(frame);
    const other = await this.#answers.baseline(frame.model.id, signal);
    const ids = [...new Set(frame.ids.flat())];
    const isLike =
      other?.model.architecture.mask.kind === 'causal' &&
      ids.every((id) => other.tokenizer.piece(id) === tokenizer.piece(id));
    const found = await measureUnmasking(model, frame.ids, {
      ...maskOf(frame),
      never: tokenizer.special,
      edits: frame.edits,
      signal,
      onProgress: ({ done, total }) => onProgress(done / total),
      ...(isLike ? { causal: other.model } : {}),
    });
    return { found, ...(isLike ? { causal: other.title } : {}) };
  }

  /** Fills in the mask tokens of a masked model, and reports each step. */
  async unmask(
    frame: Frame,
    tokens: readonly number[],
    options: Pick<UnmaskOptions, 'steps' | 'without'>,
    signal: AbortSignal,
    onStep: (step: UnmaskStep, index: number, opened: OpenModel) => void,
  ): Promise<void> {
    const opened = this.#opened(frame);
    await unmask(opened.model, tokens, {
      ...options,
      ...maskOf(frame),
      // No text contains these tokens.
      never: opened.tokenizer.special,
      edits: frame.edits,
      signal,
      onStep: (step, index) => onStep(step, index, opened),
    });
  }
}
