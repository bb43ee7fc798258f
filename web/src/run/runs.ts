/** Keeps runs open, so that a view that is opened later reads from them and nothing runs twice. */
import type { Progress, Run } from 'sinkscope';
import type { Prompts } from '../ask/question';
import { editsOf, modelIdOf, parseSubject, type Subject } from '../ask/subject';
import type { Frame } from '../frame';
import { measureAllAverages } from './averages';
import { EFFECT } from './effect';
import type { OpenModel, Watch } from './opened';
import { runWords } from './progress';
import { contextOf, emptyFrame, isAnswered, LONG_TEXT } from './reading';
import type { Request } from './request';

/** A run is quick up to this many milliseconds. The queue neither stops a quick run nor reports its progress. */
export const QUICK_MS = 300;
/** The number of further tokens for which a run reserves memory. */
export const EXTRA_TOKENS = 64;

/** An open run. It may have read another text than the subject's frame, if the next run was stopped. */
export interface CachedRun {
  readonly run: Run;
  /** The run has memory for this many tokens. */
  readonly capacity: number;
  readonly openModel: OpenModel;
  readonly fields: ReadonlySet<string>;
  /** What a recording lacks, with the reasons; absent for runs. */
  readonly lacks?: Readonly<Record<string, string>>;
}

export const idsOf = (tokens: Frame['tokens']) => tokens.map(({ id }) => id);

function close({ run }: CachedRun): void {
  void run.close().catch(() => {});
}

export const hasTokens = (run: Run, ids: readonly number[]): boolean =>
  run.tokens.length === ids.length && ids.every((id, i) => id === run.tokens[i]);

export class CachedRuns extends Map<string, CachedRun> {
  /** Removes and returns a subject's run; one that is not usable is closed, since memory may not hold two. */
  take(subject: string, isUsable: (cached: CachedRun) => boolean): CachedRun | undefined {
    const cachedRun = this.get(subject);
    this.delete(subject);
    if (!cachedRun || isUsable(cachedRun)) return cachedRun;
    close(cachedRun);
    return undefined;
  }

  /** Whether wanted edits of the model can begin from a run, which must be short, since it takes memory. */
  #canBeBase({ run, openModel, capacity }: CachedRun, subjects: ReadonlySet<string>): boolean {
    if (run.edits.length !== 0 || capacity > LONG_TEXT + EXTRA_TOKENS) return false;
    return [...subjects].some((subject) => {
      const parsedSubject = parseSubject(subject);
      return (
        parsedSubject && modelIdOf(parsedSubject) === openModel.id && parsedSubject.edits.length > 0
      );
    });
  }

  /** Closes the runs of all other subjects, except those from which a wanted edited subject can begin. */
  keepOnly(subjects: ReadonlySet<string>): void {
    for (const [subject, cachedRun] of this) {
      if (subjects.has(subject) || this.#canBeBase(cachedRun, subjects)) continue;
      this.delete(subject);
      close(cachedRun);
    }
  }

  /** Returns an open run of the same model and text without edits. */
  baseOf({ model }: OpenModel, ids: readonly number[]): Run | undefined {
    return [...this.values()].find(
      ({ run, openModel }) =>
        run.edits.length === 0 && openModel.model === model && hasTokens(run, ids),
    )?.run;
  }
}

interface RunSubjectArguments {
  readonly subject: Subject;
  readonly text: string;
  readonly openModel: OpenModel;
  readonly prompts: Prompts;
  readonly request: Request;
  readonly fields: readonly string[];
  readonly lastFrame: Frame | undefined;
  /** The subject's last run, if it can be updated to this question. */
  readonly lastRun: CachedRun | undefined;
  /** An open run of the same model and text without edits. */
  readonly base: Run | undefined;
}

/** Whether a run can be updated to T tokens and records these names. */
export function canUpdate(
  { openModel, capacity, fields }: CachedRun,
  nextModel: OpenModel,
  T: number,
  names: readonly string[],
): boolean {
  return (
    openModel.model === nextModel.model && capacity >= T && names.every((name) => fields.has(name))
  );
}

/** Averages over all prompts, and keeps a run of the first; a figure of averages with fixed views needs none. */
export async function runSubject(
  args: RunSubjectArguments,
  watch: Watch,
): Promise<{ readonly frame: Frame; readonly cachedRun?: CachedRun }> {
  const { subject, text, openModel, prompts, request, fields, lastFrame, lastRun, base } = args;
  const startTime = performance.now();
  const { question } = request;
  const fixedReads = request.isFixed ? request.reads : undefined;
  const { architecture, describe } = openModel.model;
  const edits = editsOf(subject, describe);
  const ids = prompts.ids[0]!;
  const T = prompts.tokens.length;
  // Each message of progress delays typing, so a run that was quick before reports none.
  const wasQuick = lastFrame && lastFrame.milliseconds < QUICK_MS && T < 2 * lastFrame.T;
  // A typed text grows.
  const capacity = lastRun?.capacity ?? Math.min(contextOf(architecture, edits), T + EXTRA_TOKENS);
  const options = { edits, fields, capacity };
  const bytes = T > LONG_TEXT ? await openModel.model.runBytes(T, options) : 0;
  const onProgress = ({ done, total }: Progress) =>
    watch.onProgress(
      bytes ? runWords(T, bytes, { done, total, since: startTime }) : 'Running',
      done,
      total,
    );
  const runOptions = { signal: watch.signal, ...(wasQuick ? {} : { onProgress }) };
  try {
    const averageOptions = { edits, eps: question.eps, onlyMetrics: fixedReads };
    const frame = {
      ...(await emptyFrame(describe, subject, text, openModel, question, prompts)),
      ...(prompts.ids.length > 1
        ? await measureAllAverages(describe, openModel, prompts, averageOptions, watch)
        : {}),
    };
    const measureElapsed = () => performance.now() - startTime;
    const needsRun = request.reads.includes(EFFECT) || !isAnswered(frame, describe, request);
    if (fixedReads && !needsRun) {
      if (lastRun) close(lastRun);
      return { frame: { ...frame, milliseconds: measureElapsed() } };
    }
    await lastRun?.run.update(ids, runOptions);
    const startOptions = base && edits.length ? { from: { run: base } } : {};
    const run =
      lastRun?.run ??
      (await openModel.model.run(ids, { ...options, ...startOptions, ...runOptions }));
    return {
      frame: { ...frame, milliseconds: measureElapsed() },
      cachedRun: { run, capacity, openModel, fields: lastRun?.fields ?? new Set(fields) },
    };
  } catch (error) {
    if (lastRun && !watch.signal.aborted) close(lastRun);
    throw error;
  }
}
