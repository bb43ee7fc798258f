/** The inputs of a training: a model and its recipe, a tokenizer, and the text of each token. */
import type { TrainOptions } from 'sinkscope';

export interface Setup {
  readonly options: TrainOptions;
  /** Returns the text of a token. */
  readonly piece: (id: number) => string;
  /** The texts of tokenizer.json and tokenizer_config.json. */
  readonly tokenizer: string;
  readonly tokenizerConfig: string;
  /** The text of the token before every sequence; absent: sequences have no such token. */
  readonly firstText?: string;
  /** For training on a text: its number of tokens, its name, and the text itself. */
  readonly text?: { readonly tokens: number; readonly name: string; readonly content: string };
  /** Held-out sequences like those of the model's earlier training; absent: nothing to measure. */
  readonly heldOut?: readonly (readonly number[])[];
  /** The model that training continues from, by its folder, and the step if it is a checkpoint. */
  readonly source?: { readonly model: string; readonly step: number | null };
}
