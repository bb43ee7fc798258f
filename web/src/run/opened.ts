/** An open model as the queue sees it, and the progress of opening a model. */
import type { AnyTokenizer, Model, Progress } from 'sinkscope';
import type { Source, StepFacts } from '../frame';

/** A model that can be chosen in a picker. */
export interface Choice {
  readonly id: string;
  readonly title: string;
  readonly source: Source;
}

export interface OpenModel extends Choice {
  readonly model: Model;
  readonly tokenizer: AnyTokenizer;
  /** The commit of a hub's model; a revision may move, a commit does not. */
  readonly commit?: string;
  /** The SHA-256 of the weights, if known. */
  readonly sha256?: string;
  /** The facts of a checkpoint; absent for other models. */
  readonly step?: StepFacts;
  /** The number of bits per weight, if fewer than in training. */
  readonly bits?: number;
  /** Whether the weights are a quantized preview of exact ones that are not loaded yet. */
  readonly isPreview?: boolean;
}

/** The signal that stops an opening or a run, and the function that shows its progress under the name `what`. */
export interface Watch {
  readonly signal: AbortSignal;
  readonly onProgress: (what: string, done: number, total: number, more?: Progress) => void;
}
