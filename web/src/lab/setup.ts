/** The inputs of a training: a model and its recipe, a tokenizer, and the text of each token. */
import type { TrainOptions } from 'sinkscope';

export interface Setup {
  readonly options: TrainOptions;
  /** Returns the text of a token. */
  readonly piece: (id: number) => string;
  /** tokenizer.json and tokenizer_config.json. */
  readonly tokenizer: string;
  readonly tokenizerConfig: string;
  /** The token before every sequence; absent: sequences have none. */
  readonly first?: string;
  /** For a text: its number of tokens, and its name. */
  readonly text?: { readonly tokens: number; readonly name: string; readonly words: string };
  /** Sequences like those that the model was trained on before, which are not learnt; absent: of no such text. */
  readonly held?: readonly (readonly number[])[];
  /** The model that training continues from, by its folder, and the step of its timeline. */
  readonly source?: { readonly model: string; readonly step: number | null };
}
