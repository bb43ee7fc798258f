/** An open model as the queue sees it, and the progress of opening a model. */
import type { AnyTokenizer, Model, Progress } from 'sinkscope';
import type { Source, StepFacts } from '../frame';

export type Choice = { readonly id: string; readonly title: string; readonly source: Source };

export interface OpenModel extends Choice {
  readonly model: Model;
  readonly tokenizer: AnyTokenizer;
  /** The commit of a model on a hub: a revision may move, a commit does not. */
  readonly commit?: string;
  readonly sha256?: string;
  readonly step?: StepFacts;
  /** The step of the checkpoint that replaces the requested one, which is not stored. */
  readonly nearestStep?: number;
  /** Bits per weight, if fewer than in training. */
  readonly bits?: number;
}

/** `signal` stops an opening or a run; the function shows its progress under the name `what`. */
export interface Watch {
  readonly signal: AbortSignal;
  readonly onProgress: (what: string, done: number, total: number, more?: Progress) => void;
}

/** Returns a function that shows the engine's progress while it loads the model with this title. */
export const loadingProgress =
  ({ onProgress }: Watch, title: string) =>
  (progress: Progress) =>
    onProgress(`Loading ${title}`, progress.done, progress.total, progress);
