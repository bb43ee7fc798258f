/**
 * A frame: the immutable result of one run of one side, with everything that the views draw. Views
 * get frames and nothing else of the engine.
 */
import type { SpecialWords } from './input';
import type { Source } from './models';
import type { StepFacts } from './timeline/steps';
import type { Architecture, Edit, Operation, Tensor, Token } from 'sinkscope';

/** How far a number can be trusted to say something about a model. */
export type NumberClass = 'measured' | 'counterfactual';

/** One head's own measurements, read when it is selected. */
export interface HeadFrame {
  readonly layer: number;
  readonly head: number;
  /** [T, T]; NaN where the mask hides. */
  readonly dot: Tensor;
  readonly cos: Tensor;
  readonly norm: Tensor;
}

/** What was run, and what its numbers depend on. */
export interface Subject {
  readonly model: {
    readonly id: string;
    readonly title: string;
    readonly source: Source;
    readonly commit?: string;
    /** Of a checkpoint of its training. */
    readonly step?: StepFacts;
  };
  readonly class: NumberClass;
  readonly architecture: Architecture;
  /** What the heads compute: the model's own operation, or the edit's. */
  readonly operation: Operation;
  readonly edits: readonly Edit[];
  /** Of the first sequence. */
  readonly tokens: readonly Token[];
  readonly T: number;
  readonly eps: number;
  /** Special tokens that stand before the text, as they read. */
  readonly first: readonly string[];
  readonly special: SpecialWords;
  /** Sequences that alpha and the sink ratios are means of. */
  readonly sequences: number;
}

export interface Frame extends Subject {
  /** Tokens of the input that were left out because T or the context is shorter. */
  readonly dropped: number;
  readonly generated: number;
  /** Metrics and fields by their names in describe. */
  readonly tensors: Readonly<Record<string, Tensor>>;
  /** The next token's likeliest candidates, in falling order. */
  readonly next: readonly { readonly text: string; readonly probability: number }[];
  readonly selected?: HeadFrame;
  readonly milliseconds: number;
}

/** The numbers of one head of a [L, H, n] tensor. */
export function ofHead(tensor: Tensor, layer: number, head: number): Float32Array {
  const [, H, n] = tensor.shape;
  const at = (layer * H + head) * n;
  return (tensor.data as Float32Array).subarray(at, at + n);
}

/** Whether every token sees every other, so that none is the next one. */
export function isBidirectional({ architecture }: Pick<Frame, 'architecture'>): boolean {
  return architecture.mask.kind === 'bidirectional';
}

/** Where the keys end that a query sees, among those that come after it too. */
export function seenBy({ architecture: { mask }, T }: Frame, query: number): number {
  if (mask.kind === 'bidirectional') return T;
  return Math.min(T, Math.max(query + 1, mask.prefix ?? 0));
}

/** The [T, T] weights of one head; NaN for keys after the last one that the query sees. */
export function mapOf(frame: Frame, layer: number, head: number): Float32Array {
  const { H } = frame.architecture;
  const { T } = frame;
  const at = (layer * H + head) * T * T;
  const map = (frame.tensors.att.data as Float32Array).slice(at, at + T * T);
  for (let t = 0; t < T; t++) map.fill(NaN, t * T + seenBy(frame, t), (t + 1) * T);
  return map;
}

/** alpha of one key in every head, [L, H]. */
export function alphaOfKey(frame: Frame, key: number): Float32Array {
  const { data, shape } = frame.tensors.alpha;
  const [L, H, T] = shape;
  return Float32Array.from({ length: L * H }, (_, i) => data[i * T + key]);
}

/** The head that the state selects, or the one with the largest sink score of token 1. */
export function selectedHead(
  frame: Frame,
  layer: number,
  head: number,
): { layer: number; head: number } {
  const { L, H } = frame.architecture;
  if (layer >= 0 && head >= 0)
    return { layer: Math.min(layer, L - 1), head: Math.min(head, H - 1) };
  const alpha = alphaOfKey(frame, 0);
  const best = alpha.indexOf(Math.max(...alpha));
  return { layer: Math.floor(best / H), head: best % H };
}

export function mean(values: ArrayLike<number>, from = 0): number {
  let sum = 0;
  for (let i = from; i < values.length; i++) sum += values[i];
  return sum / (values.length - from);
}
