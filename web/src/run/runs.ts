/** Keeps runs open, so that a view that is opened later reads from them and nothing runs twice. */
import type { Progress, Run } from 'sinkscope';
import type { Prompts } from '../ask/question';
import { editsOf, modelIdOf, parseSubject, type Subject } from '../ask/subject';
import type { Frame } from '../frame';
import { allAverages } from './averages';
import { isMeasurement, type Measurement } from './measurements';
import type { OpenModel, Watch } from './opened';
import { runWords } from './progress';
import { contextOf, emptyFrame, isAnswered, LONG_TEXT } from './reading';
import type { Request } from './request';

/** A run is quick up to this many milliseconds. The queue neither stops a quick run nor reports its progress. */
export const QUICK_MS = 300;
/** The number of further tokens for which a run reserves memory. */
export const EXTRA_TOKENS = 64;

export interface CachedRun {
  readonly key: string;
  /** Absent if the run was closed to make room for the next one. */
  readonly run?: Run | undefined;
  /** The run has memory for this many tokens. */
  readonly capacity: number;
  readonly opened: OpenModel;
  readonly fields: ReadonlySet<string>;
  /** What a recording lacks, with the reasons; absent for runs. */
  readonly lacks?: Readonly<Record<string, string>>;
}

export type OpenRun = CachedRun & { readonly run: Run };

export function isOpen(cached: CachedRun | undefined): cached is OpenRun {
  return cached?.run !== undefined;
}

export const idsOf = (tokens: Frame['tokens']) => tokens.map(({ id }) => id);

function close(cached: CachedRun | undefined): void {
  void cached?.run?.close().catch(() => {});
}

export function hasTokens(run: Run, ids: readonly number[]): boolean {
  return run.tokens.length === ids.length && ids.every((id, i) => id === run.tokens[i]);
}

/** The cached runs by their subjects. */
export class CachedRuns extends Map<string, CachedRun> {
  /**
   * Removes a subject's run and returns it if `fits` accepts it. Otherwise closes it: there may be no memory for both
   * this run and the next one.
   */
  take(subject: string, fits: (cached: OpenRun) => boolean): OpenRun | undefined {
    const cached = this.get(subject);
    if (!isOpen(cached)) return undefined;
    this.set(subject, { ...cached, run: undefined });
    if (fits(cached)) return cached;
    close(cached);
    return undefined;
  }

  /**
   * Whether wanted edited subjects of the same model can begin from a run. The run must be short, since it takes
   * memory.
   */
  #canBeBase({ run, opened, capacity }: CachedRun, wanted: ReadonlySet<string>): boolean {
    if (run?.edits.length !== 0 || capacity > LONG_TEXT + EXTRA_TOKENS) return false;
    return [...wanted].some((subject) => {
      const parsed = parseSubject(subject);
      return (
        parsed &&
        modelIdOf(parsed) === opened.id &&
        editsOf(parsed, opened.model.describe).length > 0
      );
    });
  }

  /** Closes the runs of all other subjects, except those from which a wanted edited subject can begin. */
  keepOnly(wanted: ReadonlySet<string>): void {
    for (const [subject, cached] of this) {
      if (wanted.has(subject) || this.#canBeBase(cached, wanted)) continue;
      this.delete(subject);
      close(cached);
    }
  }

  /** Returns an open run of the same model and text without edits. */
  baseOf({ model }: OpenModel, ids: readonly number[]): Run | undefined {
    return [...this.values()].find(
      ({ run, opened }) => run?.edits.length === 0 && opened.model === model && hasTokens(run, ids),
    )?.run;
  }

  get previews(): string[] {
    return [...this.values()].flatMap(({ opened }) => (opened.isPreview ? opened.id : []));
  }
}

interface RunSubjectArguments {
  readonly subject: Subject;
  readonly text: string;
  readonly key: string;
  readonly opened: OpenModel;
  readonly prompts: Prompts;
  readonly request: Request;
  readonly fields: readonly string[];
  readonly lastFrame: Frame | undefined;
  /** The subject's last run, if it can be updated to this question. */
  readonly lastRun: OpenRun | undefined;
  /** An open run of the same model and text without edits. */
  readonly base: Run | undefined;
}

/** Whether a run can be updated to T tokens and records these names. */
export function canUpdate(
  { opened, capacity, fields }: OpenRun,
  now: OpenModel,
  T: number,
  names: readonly string[],
): boolean {
  return opened.model === now.model && capacity >= T && names.every((name) => fields.has(name));
}

/**
 * Averages over all prompts, and runs the first one, which stays open. A figure that reads only averages and whose
 * views do not change needs no run.
 */
export async function runSubject(
  args: RunSubjectArguments,
  watch: Watch,
): Promise<{ readonly frame: Frame; readonly cached: CachedRun }> {
  const { subject, text, key, opened, prompts, request, fields, lastFrame, lastRun, base } = args;
  const startTime = performance.now();
  const { question } = request;
  const fixedReads = request.isFixed ? request.reads : undefined;
  const { architecture, describe } = opened.model;
  const edits = editsOf(subject, describe);
  const ids = prompts.ids[0]!;
  const T = prompts.tokens.length;
  // Each message of progress delays typing, so a run that was quick before reports none.
  const wasQuick = lastFrame && lastFrame.milliseconds < QUICK_MS && T < 2 * lastFrame.T;
  // A typed text grows, and an edit may name a token beyond its present end.
  const capacity = lastRun?.capacity ?? Math.min(contextOf(architecture, edits), T + EXTRA_TOKENS);
  const options = { edits, fields, capacity };
  const bytes = T > LONG_TEXT ? await opened.model.runBytes(T, options) : 0;
  const onProgress = ({ done, total }: Progress) =>
    watch.onProgress(
      bytes ? runWords(T, bytes, { done, total, since: startTime }) : 'Running',
      done,
      total,
    );
  const runOptions = { signal: watch.signal, ...(wasQuick ? {} : { onProgress }) };
  try {
    const averageOptions = { edits, eps: question.eps, only: fixedReads };
    const frame = {
      ...(await emptyFrame(describe, subject, text, opened, question, prompts)),
      ...(prompts.ids.length > 1
        ? await allAverages(describe, opened, prompts, averageOptions, watch)
        : {}),
    };
    const elapsed = () => performance.now() - startTime;
    const needsRun = request.reads.some(isMeasurement) || !isAnswered(frame, describe, request);
    if (fixedReads && !needsRun) {
      close(lastRun);
      const cached = { key, capacity: 0, opened, fields: new Set(fields) };
      return { frame: { ...frame, milliseconds: elapsed() }, cached };
    }
    await lastRun?.run.update(ids, runOptions);
    const startOptions = base && edits.length ? { from: { run: base } } : {};
    const run =
      lastRun?.run ?? (await opened.model.run(ids, { ...options, ...startOptions, ...runOptions }));
    return {
      frame: { ...frame, milliseconds: elapsed() },
      cached: { key, run, capacity, opened, fields: lastRun?.fields ?? new Set(fields) },
    };
  } catch (error) {
    if (!watch.signal.aborted) close(lastRun);
    throw error;
  }
}

/** Takes a measurement with runs of its own, and returns the frame's numbers with its results. */
export async function withMeasurement(
  measurement: Measurement,
  { tensors, spread, title, edits }: Frame,
  opened: OpenModel,
  ids: readonly (readonly number[])[],
  { signal, onProgress }: Watch,
): Promise<Pick<Frame, 'tensors' | 'spread'>> {
  const results = await measurement.measure({
    opened,
    ids,
    edits,
    signal,
    onProgress: (done, total) =>
      onProgress(`${title}, ${done} of ${total} ${measurement.progressUnit}`, done, total),
  });
  signal.throwIfAborted();
  return { tensors: { ...tensors, ...results.tensors }, spread: { ...spread, ...results.spread } };
}
