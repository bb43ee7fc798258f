/** An open model as the queue sees it, and the progress of opening it. */
import type { AnyTokenizer, Model, Progress } from 'sinkscope';
import type { Source, StepFacts } from '../frame';

/** A choice in a picker. */
export interface Choice {
  readonly id: string;
  readonly title: string;
  readonly source: Source;
}

export interface OpenModel extends Choice {
  readonly model: Model;
  readonly tokenizer: AnyTokenizer;
  /** The commit of a hub's model: a revision may move, a commit does not. */
  readonly commit?: string;
  /** The SHA-256 of the weights, if known. */
  readonly sha256?: string;
  /** For a checkpoint: its facts. */
  readonly step?: StepFacts;
  /** Bits per weight, if fewer than in training. */
  readonly bits?: number;
  /** Whether these are quantized weights in place of exact ones that are not loaded. */
  readonly isPreview?: boolean;
}

export interface Watch {
  readonly signal: AbortSignal;
  readonly onProgress: (what: string, done: number, total: number, more?: Progress) => void;
}
