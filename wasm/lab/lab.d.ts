import type { Tensor } from '../abi/abi.js';
import type { Options, Read } from '../engine/engine.js';

/** The log entry of a step: the columns of `describe.training.log`; null where there is nothing. */
export interface LogEntry {
  readonly step: number;
  readonly loss: number;
  readonly loss_triggers: number | null;
  readonly loss_elsewhere: number | null;
  readonly first_elsewhere: number | null;
  readonly first_triggers: number | null;
  readonly value_ratio: number | null;
  readonly hidden_ratio: number | null;
  readonly [column: string]: number | null;
}

export interface TrainOptions {
  /** A config.json, such as `labConfig` makes. */
  readonly config: object;
  /** Settings of `describe.training.settings` by name; those that are missing have their defaults. */
  readonly recipe?: Readonly<Record<string, number | string>>;
  /** Token ids that the task text draws from. */
  readonly text?: ArrayLike<number>;
  /** A safetensors file of the same model, to go on from; else weights are drawn from the seed. */
  readonly begin?: Uint8Array;
  /**
   * What `Training.state` gave of a training with the same config, recipe and text: it goes on with the
   * bits of one that was never interrupted.
   */
  readonly state?: Uint8Array;
  /**
   * Among how many of the engine's workers each batch is shared, at most describe.training.parts;
   * default: 1. The bits do not depend on it.
   */
  readonly workers?: number;
}

/**
 * A model in training. The same config, recipe and text give the same bits in every build. Between
 * two calls it is paused.
 *
 * @example
 * const engine = await createEngine({ lab: true });
 * const training = await engine.train({ config: labConfig(), recipe: { seed: 1 } });
 * for await (const { step, loss, first_elsewhere } of training.run(500, { signal })) draw(step, loss);
 * const model = await engine.open({
 *   config: JSON.stringify(training.config), weights: await training.weights(),
 * });
 */
export interface Training {
  readonly config: object;
  readonly recipe: Readonly<Record<string, number | string>>;
  /**
   * So many steps; an entry describes the weights before its update.
   * @throws SinkscopeError 'diverged' with the step, when all entries before it have been given; the
   * weights are then the last whose loss was a number
   */
  step(count?: number): Promise<LogEntry[]>;
  /** The same one by one, while the worker goes on; it answers ten times a second. */
  run(steps: number, options?: Options): AsyncGenerator<LogEntry, void, void>;
  /** What the next step would begin with. */
  look(): Promise<LogEntry>;
  /** Tokens of the task that no step learns from; a number has the same ones at any step. */
  sample(number?: number): Promise<number[]>;
  /** Fields and metrics of a run of tokens through the weights as they are, as `Run.read` gives them. */
  read(tokens: ArrayLike<number>, reads: readonly Read[]): Promise<Tensor[]>;
  /** The weights as they are: a safetensors file. */
  weights(): Promise<Uint8Array>;
  /** All that the next step depends on beside config, recipe and text, for `TrainOptions.state`. */
  state(): Promise<Uint8Array>;
  close(): Promise<void>;
}

/**
 * The mean loss of the weights as they are over sequences that no step learns from, nats; of a model that is fine-tuned
 * on another text its rise is forgetting.
 * @param sequences each no longer than the recipe's `length`
 * @example const loss = await heldLoss(training, await cutText(tokenizer, old, { tokens: 64, sequences: 16 }));
 */
export declare function heldLoss(
  training: Training,
  sequences: readonly ArrayLike<number>[],
): Promise<number>;

/** Choices of a lab's model, with their defaults. */
export declare const LAB_MODEL: {
  operation: string;
  layers: number;
  heads: number;
  width: number;
  inner: number;
  vocabulary: number;
  context: number;
  positions: string;
  norm: string;
  norm_place: string;
  feed_forward: string;
  activation: string;
  bias_key: string;
  gate: string;
};

/** A config.json: of a GPT-2 where the choices are one's, else of a llama or a variant of one. */
export declare function labConfig(choices?: Partial<typeof LAB_MODEL>): object;

/**
 * What makes a trained model go on: its config.json with another operation, bias key or gate, and a
 * recipe, by default 100 steps of 8 sequences of 64 tokens behind the model's own first token. Its
 * weights are TrainOptions.begin; what they lack of the variant is drawn from the seed.
 */
export declare function labOnward(
  config: object,
  changes?: { readonly operation?: string; readonly bias_key?: string; readonly gate?: string },
  recipe?: Readonly<Record<string, number | string>>,
): Required<Pick<TrainOptions, 'config' | 'recipe'>>;

/** What recipe.json says of a training: enough to repeat it to the same digits. */
export interface LabRecipe {
  /** Settings of `describe.training.settings` by name. */
  readonly settings: Readonly<Record<string, number | string>>;
  /** Updates that the weights have had; at most `settings.steps` where the learning rate falls. */
  readonly steps_done: number;
  /** The weights it began with: a folder, a step of its timeline, the hash of the file; null: random ones. */
  readonly from: {
    readonly model: string;
    readonly step?: number | null;
    readonly sha256?: string;
  } | null;
  /** Of the task text; `text.txt` lies beside the recipe. */
  readonly text: {
    readonly name: string;
    readonly tokens: number;
    readonly sha256?: string;
  } | null;
  /** Steps after which the training went on from its weights alone, without the optimizer's state. */
  readonly resumed?: readonly number[];
}

export interface LabTokenizer {
  /** A token as it reads, by its id. */
  readonly words: readonly string[];
  /** tokenizer.json. */
  readonly tokenizer: string;
  /** tokenizer_config.json. */
  readonly tokenizerConfig: string;
}

/** A tokenizer for the lab's own tasks, in which every token is a character; `first` is <s>, -1: none is. */
export declare function labTokenizer(shape?: {
  readonly vocabulary?: number;
  readonly triggers?: number;
  readonly first?: number;
}): LabTokenizer;

/** A trained model as files: what `planFiles`, the command line and transformers open, and recipe.json. */
export declare function labFolder(made: {
  readonly config: object;
  readonly weights: Uint8Array;
  readonly tokenizer: string;
  readonly tokenizerConfig?: string;
  readonly recipe: LabRecipe;
  readonly text?: string;
}): { readonly path: string; readonly data: string | Uint8Array }[];

/**
 * A recipe.json as it was parsed.
 * @throws SinkscopeError 'argument' with what is expected and what was found
 */
export declare function checkLabRecipe(read: unknown): LabRecipe;

/** In hexadecimal, of bytes or of a text's UTF-8; undefined in a page of plain http. */
export declare function sha256(data: Uint8Array | string): Promise<string | undefined>;
