/** The inputs of a training: a model and its recipe, a tokenizer, and the text of each token. */
import type { TrainOptions } from 'sinkscope';

export interface Setup {
  readonly options: TrainOptions;
  /** Returns the text of a token. */
  readonly piece: (id: number) => string;
  /** The texts of tokenizer.json and tokenizer_config.json. */
  readonly tokenizer: string;
  readonly tokenizerConfig: string;
  /** The token before every sequence; absent: sequences have none. */
  readonly first?: string;
  /** For a text: its number of tokens, and its name. */
  readonly text?: { readonly tokens: number; readonly name: string; readonly words: string };
  /** Held-out sequences like those of the earlier training; absent: the model has no earlier text. */
  readonly held?: readonly (readonly number[])[];
  /** The model that training continues from, by its folder, and the step of its timeline. */
  readonly source?: { readonly model: string; readonly step: number | null };
}
