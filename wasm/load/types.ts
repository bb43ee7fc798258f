/** Types of `load`, which opens a model that takes text in one call. */
import type { Tensor } from '../abi/types.ts';
import type { Edit, Engine, EngineOptions, GenerateOptions, Options } from '../engine/types.ts';
import type { DiskFile, HubOptions, Plan } from '../loading/types.ts';
import type { EncodeOptions } from '../text/types.ts';

/**
 * Names a model. A string is a model of the zoo (`softmax`, `sigmoid`, `softmax1`, `sink-logit`,
 * `key-bias`, `gated`); `owner/name`, `owner/name@revision` or the address of its page on the hub;
 * the address of a folder or of a GGUF file; or in Node.js a path, which takes precedence over a
 * name. Files are those that a reader picked or dropped. A plan comes from `findPlan`.
 */
export type ModelSource = string | URL | Blob | Plan | Iterable<File | DiskFile> | ArrayLike<File>;

export interface FindOptions extends HubOptions {
  /**
   * Address of the zoo's folders; default: those of the npm package `sinkscope-page` of this
   * version, at cdn.jsdelivr.net.
   */
  readonly zoo?: string | URL;
}

export interface LoadOptions
  extends
    Options,
    Pick<FindOptions, 'endpoint' | 'token' | 'zoo'>,
    Pick<EngineOptions, 'base' | 'worker' | 'kernels' | 'workers' | 'threads'> {
  /** An engine that several models share; default: a new engine, which closes with the model. */
  readonly engine?: Engine;
  /** Caches downloads for the next visit; default true. */
  readonly cache?: boolean;
}

export interface TextOptions extends Options {
  /** Special tokens before and after the text; default: the tokenizer's own. */
  readonly special?: EncodeOptions['special'];
  /** Edits of the run, as objects or as the command line writes them: 'hide_key:key=0'. */
  readonly edits?: readonly (Edit | string)[];
}

/** The options of a measurement that may include tokens which the model writes after the text. */
export interface ContinuedTextOptions
  extends TextOptions, Pick<GenerateOptions, 'temperature' | 'topK' | 'seed'> {
  /** Tokens that the model writes after the text, which are measured with it; default 0. */
  readonly generate?: number;
}

export interface TextMap {
  readonly text: string;
  /** [T]: the text of each token. */
  readonly tokens: readonly string[];
  /** What `tokenNotes` says of the text. */
  readonly notes: readonly string[];
  /** How many of the tokens, at the end, the model wrote. */
  readonly generated: number;
  readonly layer: number;
  readonly head: number;
  /** [T, T]: attention weights; one row per query, one column per key. */
  readonly map: Tensor;
}

/** The sink of a model on one text, and the attention map of one head. */
export interface TextMeasures extends TextMap {
  readonly T: number;
  /**
   * Sink_1^eps, from 0 to 1: the share of heads whose alpha_1 exceeds eps. If rows need not sum to
   * 1, alpha_1 of the normalized and of the raw weights must both exceed eps (Gu et al. 2025,
   * section 3.2 and table 6).
   */
  readonly sink: number;
  readonly eps: number;
  /** [L, H]: alpha_1, the mean weight of the first token, from the weights that the model uses. */
  readonly alpha: Tensor;
  readonly uniform: number;
  /** False where `uniform` exceeds eps: the text is too short for Sink_1. */
  readonly conclusive: boolean;
  /** Mean loss of the tokens, in nats; null if no token is predicted. */
  readonly loss: number | null;
  /** Why no token is predicted; null if tokens are. */
  readonly noLoss: string | null;
}

export interface Ablation {
  readonly before: TextMeasures;
  readonly after: TextMeasures;
  /** Rise of the mean loss, in nats; null if no token is predicted. */
  readonly change: number | null;
}
