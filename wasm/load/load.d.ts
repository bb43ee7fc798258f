/** One call from a name to a model that takes text. */
import type { Tensor } from '../abi/abi.js';
import type { Arithmetic, Edit, Engine, EngineOptions, Model, Options } from '../engine/engine.js';
import type { DiskFile, HubOptions, Plan } from '../loading/loading.js';
import type { EncodeOptions, GuardedTokenizer } from '../text/text.js';

/**
 * What names a model: one of the zoo (`softmax`, `sigmoid`, `softmax1`, `sink-logit`, `key-bias`, `gated`); `owner/name`,
 * `owner/name@revision` or the page of one on the hub; the address of a folder or of a GGUF file; in Node.js a path, which
 * comes before a name; files that a reader picked or dropped; a plan.
 */
export type ModelSource = string | URL | Blob | Plan | Iterable<File | DiskFile> | ArrayLike<File>;

/**
 * The plan of a model, before anything large is read.
 * @throws SinkscopeError as `resolveHub` and `planFiles`; 'argument' where files hold several models
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
  /** Where several models share one; default: an engine that ends with the model. */
  readonly engine?: Engine;
  /** Keep what is downloaded for the next time; default true. */
  readonly cache?: boolean;
  readonly arithmetic?: Arithmetic;
}

export interface TextOptions extends Options {
  /** What the text begins and ends with; default: as the tokenizer says. */
  readonly special?: EncodeOptions['special'];
  /** Changes of the run, as objects or as the command line writes them: 'hide_key:key=0'. */
  readonly edits?: readonly (Edit | string)[];
}

/** The map of one head on a text. */
export interface TextMap {
  readonly text: string;
  /** [T]: each token as it reads. */
  readonly tokens: readonly string[];
  readonly layer: number;
  readonly head: number;
  /** [T, T]: the weights that the model uses; a row for each query, a column for each key. */
  readonly map: Tensor;
}

/** The sink of a model on one text, and the map of a head. */
export interface TextMeasures extends TextMap {
  readonly T: number;
  /**
   * Sink_1^eps, from 0 to 1: the share of heads whose alpha_1 exceeds eps; where rows need not sum to 1, the smaller of
   * that by shares and by the weights themselves (Gu et al. 2025, section 3.2 and table 6).
   */
  readonly sink: number;
  readonly eps: number;
  /** [L, H]: the mean weight that the first token receives (alpha_1), by the weights that the model uses. */
  readonly alpha: Tensor;
  /** What alpha_1 would be if attention were spread evenly. */
  readonly uniform: number;
  /** False where `uniform` exceeds eps: the text is too short for Sink_1. */
  readonly conclusive: boolean;
  /** Mean loss of the tokens, in nats; null where none is predicted. */
  readonly loss: number | null;
}

export interface Ablation {
  readonly before: TextMeasures;
  readonly after: TextMeasures;
  /** How much the mean loss rises, in nats; null where no token is predicted. */
  readonly change: number | null;
}

/** A model that takes text. What lies below is in `model`, `tokenizer` and `engine`. */
export interface LoadedModel {
  readonly id: string;
  readonly plan: Plan;
  readonly engine: Engine;
  readonly model: Model;
  readonly tokenizer: GuardedTokenizer;
  /**
   * Sink_1, alpha_1 of all heads, the loss, and the map of the head that gives the first token most, or of the one
   * that is named by layer and head.
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
   * What the model writes after a text.
   * @example const story = await model.generate('Once upon a time', { count: 32, temperature: 0.8, seed: 1 });
   */
  generate(
    text: string,
    options?: TextOptions & {
      /** Tokens; default 16. */
      readonly count?: number;
      /** 0, the default, takes the likeliest token. */
      readonly temperature?: number;
      readonly topK?: number;
      readonly seed?: number;
      /** Hears all that is written so far, after each token. */
      readonly onText?: (written: string) => void;
    },
  ): Promise<string>;
  /**
   * The same text with a head, a whole layer's heads, or anything that `edits` name taken away.
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
  /** Closes the model and its tokenizer, and the engine that was started for it. */
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
