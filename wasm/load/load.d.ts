/** Opens a model that takes text, in one call. */
import type { Tensor } from '../abi/abi.js';
import type { Arithmetic, Edit, Engine, EngineOptions, Model, Options } from '../engine/engine.js';
import type { DiskFile, HubOptions, Plan } from '../loading/loading.js';
import type { EncodeOptions, GuardedTokenizer } from '../text/text.js';

/**
 * Names a model: one of the zoo (`softmax`, `sigmoid`, `softmax1`, `sink-logit`, `key-bias`, `gated`); `owner/name`,
 * `owner/name@revision` or its page on the hub; the address of a folder or of a GGUF file; in Node.js a path, which
 * comes before a name; files that a reader picked or dropped; a plan.
 */
export type ModelSource = string | URL | Blob | Plan | Iterable<File | DiskFile> | ArrayLike<File>;

/**
 * Plans a model before any large download.
 * @throws SinkscopeError as `resolveHub` and `planFiles`; 'argument' if the files hold several
 * models
 * @example const { bytes, refusal } = await findPlan('owner/name');
 */
export function findPlan(source: ModelSource, options?: FindOptions): Promise<Plan>;

export interface FindOptions extends HubOptions {
  /** Where the zoo's folders lie; default: in the npm package `sinkscope-page` of this version, at cdn.jsdelivr.net. */
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
  readonly arithmetic?: Arithmetic;
}

export interface TextOptions extends Options {
  /** Special tokens around the text; default: the tokenizer's own. */
  readonly special?: EncodeOptions['special'];
  /** Edits of the run, as objects or as the command line writes them: 'hide_key:key=0'. */
  readonly edits?: readonly (Edit | string)[];
}

/** The attention map of one head on a text. */
export interface TextMap {
  readonly text: string;
  /** [T]: the text of each token. */
  readonly tokens: readonly string[];
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
   * 1, it is the smaller of the values from normalised and from raw weights (Gu et al. 2025,
   * section 3.2 and table 6).
   */
  readonly sink: number;
  readonly eps: number;
  /** [L, H]: alpha_1, the mean weight of the first token, from the weights that the model uses. */
  readonly alpha: Tensor;
  /** alpha_1 under uniform attention. */
  readonly uniform: number;
  /** False where `uniform` exceeds eps: the text is too short for Sink_1. */
  readonly conclusive: boolean;
  /** Mean loss of the tokens, in nats; null if no token is predicted. */
  readonly loss: number | null;
}

export interface Ablation {
  readonly before: TextMeasures;
  readonly after: TextMeasures;
  /** Rise of the mean loss, in nats; null if no token is predicted. */
  readonly change: number | null;
}

/** A model that takes text. `model`, `tokenizer` and `engine` give access to its parts. */
export interface LoadedModel {
  readonly id: string;
  readonly plan: Plan;
  readonly engine: Engine;
  readonly model: Model;
  readonly tokenizer: GuardedTokenizer;
  /**
   * Measures Sink_1, alpha_1 of all heads, the loss, and the map of one head: the one with the
   * largest alpha_1, or the one that layer and head name.
   * @example const { sink, alpha, map } = await model.measure('The old man sat at the door.');
   */
  measure(
    text: string,
    options?: TextOptions & {
      readonly layer?: number;
      readonly head?: number;
      /** Default: describe.defaults.eps. */
      readonly eps?: number;
    },
  ): Promise<TextMeasures>;
  /** @example const { map, tokens } = await model.map('The old man', { layer: 1, head: 3 }); */
  map(
    text: string,
    options: TextOptions & { readonly layer: number; readonly head: number },
  ): Promise<TextMap>;
  /**
   * Continues a text.
   * @example const story = await model.generate('Once upon a time', { count: 32, temperature: 0.8, seed: 1 });
   */
  generate(
    text: string,
    options?: TextOptions & {
      /** Tokens; default 16. */
      readonly count?: number;
      /** 0, the default, is greedy decoding. */
      readonly temperature?: number;
      readonly topK?: number;
      readonly seed?: number;
      /** Receives the whole continuation so far, after each token. */
      readonly onText?: (written: string) => void;
    },
  ): Promise<string>;
  /**
   * Measures a text with and without a head, all heads of a layer, or whatever `edits` change.
   * @example const { change } = await model.ablate('The old man sat at the door.', { layer: 1, head: 3 });
   */
  ablate(
    text: string,
    options: TextOptions & {
      readonly layer?: number;
      readonly head?: number;
      readonly eps?: number;
    },
  ): Promise<Ablation>;
  /** Closes the model and its tokenizer, and the engine if it was started for it. */
  close(): Promise<void>;
}

/**
 * Opens a model with its tokenizer.
 * @throws SinkscopeError as `findPlan`, `engine.open` and `planTokenizer`
 * @example
 * const model = await load('HuggingFaceTB/SmolLM2-135M');
 * const { sink, map } = await model.measure('The old man sat at the door.');
 * await model.close();
 */
export function load(source: ModelSource, options?: LoadOptions): Promise<LoadedModel>;
