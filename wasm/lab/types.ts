import type { Tensor, Options } from '../abi/types.ts';
import type { RunRead } from '../engine/types.ts';

/** An entry of the log, with the columns of `describe.training.log`; null is undefined. */
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
  /** Settings of `describe.training.settings` by name; missing ones take their defaults. */
  readonly recipe?: Readonly<Record<string, number | string>>;
  readonly text?: ArrayLike<number>;
  /** Initial weights, a safetensors file of the same model; default: random, from the seed. */
  readonly begin?: Uint8Array;
  /** State of a training of the same config, recipe and text, which continues to the same bits. */
  readonly state?: Uint8Array;
  /** Workers that share each batch, to the same bits; default 1, at most describe.training.parts */
  readonly workers?: number;
}

/**
 * A model in training. The same config, recipe and text give the same bits in every build. The
 * training pauses between two calls.
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
   * Takes `count` steps; each entry describes the weights before its update.
   * @throws SinkscopeError 'diverged' with the step, once all earlier entries were returned; the
   * weights are then the last with a finite loss
   */
  step(count?: number): Promise<LogEntry[]>;
  /** Yields each entry while the worker trains on, and answers ten times a second. */
  run(steps: number, options?: Options): AsyncGenerator<LogEntry, void, void>;
  /** Returns the entry that the next step would begin with. */
  look(): Promise<LogEntry>;
  /** Returns held-out tokens of the task. The same number selects the same tokens at any step. */
  sample(number?: number): Promise<number[]>;
  read(tokens: ArrayLike<number>, reads: readonly RunRead[]): Promise<Tensor[]>;
  /** Returns the current weights as a safetensors file. */
  weights(): Promise<Uint8Array>;
  /** Returns what the next step depends on besides config, recipe and text, for a new training. */
  state(): Promise<Uint8Array>;
  close(): Promise<void>;
}

/** The content of recipe.json, which is enough to repeat a training to the same bits. */
export interface LabRecipe {
  readonly settings: Readonly<Record<string, number | string>>;
  /** Number of updates; at most `settings.steps` if the learning rate decays. */
  readonly steps_done: number;
  /** Origin of the initial weights: folder, step of its timeline, file's hash; null: random. */
  readonly from: {
    readonly model: string;
    readonly step?: number | null;
    readonly sha256?: string;
  } | null;
  /** The task's text, saved as `text.txt` beside the recipe; null for tasks without a text. */
  readonly text: {
    readonly name: string;
    readonly tokens: number;
    readonly sha256?: string;
  } | null;
}

export interface LabTokenizer {
  readonly words: readonly string[];
  /** Content of tokenizer.json; `tokenizerConfig` is that of tokenizer_config.json. */
  readonly tokenizer: string;
  readonly tokenizerConfig: string;
}
