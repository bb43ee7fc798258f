/** The runs that stay open: what a view reads later comes from them, and nothing runs twice. */
import type { Progress, Run } from 'sinkscope';
import type { Prompts } from '../ask/question';
import { editsOf, type Subject } from '../ask/subject';
import type { Frame } from '../frame';
import { allAverages } from './averages';
import type { Measurement } from './measurements';
import type { OpenModel, Watch } from './opened';
import { contextOf, emptyFrame, recordedFor } from './reading';
import type { Request } from './request';

/** A shorter run waits for its end, and reports no progress. */
export const QUICK_MS = 300;
/** Tokens for which an edited or generated run reserves memory at once. */
export const ROOM = 64;

export interface CachedRun {
  /** The subject and its question. */
  readonly key: string;
  /** Absent where the run was closed to make room for the next: its frame has its own numbers. */
  readonly run?: Run | undefined;
  /** Tokens for which the run has memory. */
  readonly capacity: number;
  readonly opened: OpenModel;
  /** The names that the run recorded. */
  readonly fields: ReadonlySet<string>;
  /** Of a recording: what reading it found missing, with the reasons. */
  readonly lacks?: Readonly<Record<string, string>>;
}

export type OpenRun = CachedRun & { readonly run: Run };

export function isOpen(cached: CachedRun | undefined): cached is OpenRun {
  return cached?.run !== undefined;
}

export const idsOf = (tokens: Frame['tokens']) => tokens.map(({ id }) => id);

/** The runs by their subjects, one of each. */
export class CachedRuns {
  readonly #bySubject = new Map<string, CachedRun>();

  get(subject: string): CachedRun | undefined {
    return this.#bySubject.get(subject);
  }

  set(subject: string, cached: CachedRun): void {
    this.#bySubject.set(subject, cached);
  }

  /** Closes the run that another one replaces: a large model has no memory for both. */
  makeRoom(subject: string): void {
    const cached = this.#bySubject.get(subject);
    if (!isOpen(cached)) return;
    this.#bySubject.set(subject, { ...cached, run: undefined });
    void cached.run.close().catch(() => {});
  }

  /** Closes the runs of all other subjects. */
  keepOnly(wanted: ReadonlySet<string>): void {
    for (const [subject, { run }] of this.#bySubject) {
      if (wanted.has(subject)) continue;
      this.#bySubject.delete(subject);
      void run?.close().catch(() => {});
    }
  }

  /** The ids of models whose quantized preview was run. */
  get previews(): string[] {
    return [...this.#bySubject.values()].flatMap(({ opened }) =>
      opened.isPreview ? opened.id : [],
    );
  }
}

/** What `runSubject` runs. */
interface Given {
  readonly subject: Subject;
  readonly text: string;
  readonly key: string;
  readonly opened: OpenModel;
  readonly prompts: Prompts;
  readonly request: Request;
  /** The subject's frame of an earlier question. */
  readonly before: Frame | undefined;
}

/** Averages over all prompts, and runs the first one, which stays open. */
export async function runSubject(
  { subject, text, key, opened, prompts, request, before }: Given,
  watch: Watch,
): Promise<{ readonly frame: Frame; readonly cached: OpenRun }> {
  const began = performance.now();
  const { question } = request;
  const { architecture, describe } = opened.model;
  const edits = editsOf(subject, describe);
  const means =
    prompts.ids.length > 1
      ? await allAverages(describe, opened, prompts, { edits, eps: question.eps }, watch)
      : {};
  const T = prompts.tokens.length;
  const fields = recordedFor(describe, request);
  // A run that was quick before reports no progress: while a text is typed, each message costs time.
  const isQuick = before && before.milliseconds < QUICK_MS && T < 2 * before.T;
  const onProgress = ({ done, total }: Progress) => watch.onProgress('Running', done, total);
  // An edit may name a token beyond the end of this text.
  const capacity = edits.length ? Math.min(contextOf(architecture, edits), T + ROOM) : T;
  const run = await opened.model.run(prompts.ids[0]!, {
    edits,
    fields,
    capacity,
    signal: watch.signal,
    ...(isQuick ? {} : { onProgress }),
  });
  const frame = await emptyFrame(describe, subject, text, opened, question, prompts);
  const milliseconds = performance.now() - began;
  return {
    frame: { ...frame, ...means, milliseconds },
    cached: { key, run, capacity, opened, fields: new Set(fields) },
  };
}

/** The numbers of a measurement that takes runs of its own, added to those of a frame. */
export async function measureBeside(
  measurement: Measurement,
  { tensors, spread, title, edits }: Frame,
  opened: OpenModel,
  ids: readonly (readonly number[])[],
  { signal, onProgress }: Watch,
): Promise<Pick<Frame, 'tensors' | 'spread'>> {
  const found = await measurement.measure({
    opened,
    ids,
    edits,
    signal,
    onProgress: (done, total) =>
      onProgress(`${title}, ${done} of ${total} ${measurement.steps}`, done, total),
  });
  signal.throwIfAborted();
  return { tensors: { ...tensors, ...found.tensors }, spread: { ...spread, ...found.spread } };
}
