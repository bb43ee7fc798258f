/** The engine with all its parts, and types of `load`, which opens a model that takes text in one call. */
import type { Describe, Options, Tensor } from '../abi/types.ts';
import type { Edit, EngineOptions, GenerateOptions, Model, OpenOptions } from '../engine/types.ts';
import type { TrainOptions, Training } from '../lab/types.ts';
import type { FindOptions, ModelFiles, Source } from '../loading/types.ts';
import type { Recording } from '../recording/types.ts';
import type { EncodeOptions } from '../text/types.ts';

export interface Engine {
  readonly describe: Describe;
  /**
   * Returns the tables of `describe` with the texts for readers and the parts of the lab: each
   * `meaning`, `question` and `source`. Every call fetches them from sinkscope.describe.json next
   * to the binaries.
   */
  explain(): Promise<Describe>;
  open(files: ModelFiles, options?: OpenOptions): Promise<Model>;
  /**
   * Opens a recording: what a model did on some prompts, without the model. The first call fetches
   * the binary of `lab`.
   * @throws SinkscopeError with the tensor or the key for a file that is no recording or
   * contradicts itself
   * @example
   * const recording = await engine.openRecording(new URL('smollm2.safetensors', location.href));
   * const sink = (await recording.mean('sink_ratio')).data[0];
   */
  openRecording(source: Source, options?: Options): Promise<Recording>;
  /** Begins a training, in a worker of its own as long as one is free. Needs `lab: true`. */
  train(options: TrainOptions): Promise<Training>;
  /** Returns the bytes of all workers' memory, whose freed parts are reused but never returned. */
  memory(): Promise<number>;
  /** Ends the workers. A Node.js process stays alive until then. */
  close(): Promise<void>;
}

export interface LoadOptions
  extends
    Options,
    Pick<FindOptions, 'endpoint' | 'token' | 'zoo'>,
    Pick<EngineOptions, 'base' | 'worker' | 'workers' | 'threads'> {
  /** An engine that several models share; default: a new engine, which closes with the model. */
  readonly engine?: Engine;
  /** Caches downloads for the next visit; default true. */
  readonly cache?: boolean;
}

export interface TextOptions extends Options {
  /** Special tokens before and after the text; default: the tokenizer's own. */
  readonly special?: EncodeOptions['special'];
  /** Edits of the run, as objects or as the command line writes them: 'hide_key(0)'. */
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
   * Sink_1^eps, from 0 to 1: the share of heads whose alpha_1 exceeds eps (Gu et al. 2025, section
   * 3.2), by the weights that the model uses.
   */
  readonly sink: number;
  /** The same by shares of the row, as the authors count (table 6); equals `sink` if rows sum to 1. */
  readonly sinkByShares: number;
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
