/** The requests of rooms to the queue, and its answers. */
import type { Frame, Head } from '../frame';
import { questionKey, type Question } from '../ask/question';

/** A subject and a question for which a room needs only means over the prompts, so that the queue keeps no run open. */
export interface Study {
  readonly subject: string;
  readonly question: Question;
  readonly measures: readonly string[];
  /** Studies of one model with the same turn are measured together, in one sweep. */
  readonly turn?: number;
}

export function studyKey({ subject, question, measures }: Study): string {
  return `${subject} ${questionKey(question)} ${measures.join()}`;
}

export interface Request {
  readonly subjects: readonly string[];
  readonly question: Question;
  /** The metrics and fields of describe, and the effect of heads, that the room reads. */
  readonly reads: readonly string[];
  readonly headReads: readonly string[];
  readonly head: Head;
  /** At most this many rows and columns of a map; absent: all. */
  readonly cells?: number;
  /** The number of tokens that each model writes after the text; absent: none. */
  readonly writes?: number;
  /** The first query and key of the exact cells of a longer map; negative: none are read. */
  readonly zoom?: { readonly query: number; readonly key: number };
  /** Heads of single subjects, which replace `head`. */
  readonly heads?: Readonly<Record<string, Head>>;
  /** Baselines, by subject: each reads the text of an edited subject, generated tokens included. */
  readonly follows?: Readonly<Record<string, string>>;
  /** Whether the room will request no other names, as a figure with a single view. */
  readonly isFixed?: boolean;
  /** Subjects that no picture waits for yet, so the page shows no progress of them. */
  readonly ahead?: readonly string[];
  /** Measured after the subjects, one after the other. */
  readonly studies?: readonly Study[];
}

export interface Work {
  /** '' if the page does not show the work. */
  readonly text: string;
  /** The finished share of the work, from 0 to 1; NaN while unknown. */
  readonly share: number;
  /** When the work began, by performance.now(). */
  readonly since: number;
}

export interface Entry {
  readonly frame?: Frame;
  /** Whether the frame answers an earlier question. */
  readonly isStale?: boolean;
  readonly error?: string;
}
