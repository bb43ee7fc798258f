/** The requests of rooms to the queue, and its answers. */
import type { Frame, Head } from '../frame';
import { questionKey, type Question } from '../ask/question';

/** A subject and a question for which a room needs only means over the prompts; the queue keeps no run of it. */
export interface Study {
  readonly subject: string;
  readonly question: Question;
  /** Names of the metrics that are averaged. */
  readonly measures: readonly string[];
  /** The place of the study's sweep: studies of one model with the same turn are measured together. */
  readonly turn?: number;
}

export function studyKey({ subject, question, measures }: Study): string {
  return `${subject} ${questionKey(question)} ${measures.join()}`;
}

export interface Request {
  readonly subjects: readonly string[];
  readonly question: Question;
  /** Names of metrics and fields in describe, and names of measurements. */
  readonly reads: readonly string[];
  /** Names of metrics and fields that are read for one head only. */
  readonly headReads: readonly string[];
  readonly head: Head;
  /** The most rows and columns of a map; absent: unlimited. */
  readonly cells?: number;
  /** The first query and key of the exact cells of a longer map; negative: none are read. */
  readonly zoom?: { readonly query: number; readonly key: number };
  /** Heads of single subjects, instead of `head`. */
  readonly heads?: Readonly<Record<string, Head>>;
  /** Whether a quantized preview may answer while the exact weights are not loaded. */
  readonly isPreview?: boolean;
  /** Whether no other names will be requested, as in a figure with a single view. */
  readonly isFixed?: boolean;
  /** Studies that are measured after the subjects, one after the other. */
  readonly studies?: readonly Study[];
}

/** What the queue is doing, for the page to show. */
export interface Work {
  /** Names the work on the page; '' if it is not shown. */
  readonly text: string;
  /** The finished share, 0 to 1; NaN while unknown. */
  readonly share: number;
  /** The time when the work began, by performance.now(). */
  readonly since: number;
}

/** The answer of a subject or of a study. */
export interface Entry {
  readonly frame?: Frame;
  /** Whether the frame answers an earlier question. */
  readonly isStale?: boolean;
  readonly error?: string;
}
