/** What an open model is to the parts that run it, and how they watch it open. */
import type { AnyTokenizer, Model, Progress } from 'sinkscope';
import type { Source, StepFacts } from '../frame';

/** What a picker offers. */
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
  /** Of the weights, where it is known. */
  readonly sha256?: string;
  /** Of a checkpoint of its training. */
  readonly step?: StepFacts;
  /** How many a weight is kept in, where that is not as it was trained. */
  readonly bits?: number;
  /** Whether these are quantized weights in place of exact ones that are not loaded. */
  readonly isPreview?: boolean;
}

export interface Watch {
  readonly signal: AbortSignal;
  readonly onProgress: (what: string, done: number, total: number, more?: Progress) => void;
}
