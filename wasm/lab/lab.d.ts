import type { Tensor } from '../border/border.js';
import type { Options, Read } from '../engine/engine.js';

/** What a training tells of a step: the columns of `describe.training.log`; null where there is nothing. */
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
   * Among how many of the engine's workers each batch is shared, at most describe.training.parts;
   * default: 1. The bits do not depend on it.
   */
  readonly workers?: number;
}

/**
 * A model in training. The same config, recipe and text give the same bits in every build. Between
 * two calls it stands still, which is how it is paused.
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
   * So many steps; an entry tells of the weights before its update.
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
  /** What a run of tokens through the weights as they are tells, as `Run.read` would. */
  read(tokens: ArrayLike<number>, reads: readonly Read[]): Promise<Tensor[]>;
  /** The weights as they are: a safetensors file. */
  weights(): Promise<Uint8Array>;
  close(): Promise<void>;
}

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
