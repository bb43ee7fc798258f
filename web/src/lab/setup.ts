/** What settings ask for, made: a model and its recipe, what stands at a position, and how tokens read. */
import type { TrainOptions } from 'sinkscope';

export interface Setup {
  readonly options: TrainOptions;
  /** A token as it reads. */
  readonly piece: (id: number) => string;
  /** tokenizer.json and tokenizer_config.json. */
  readonly tokenizer: string;
  readonly tokenizerConfig: string;
  /** The token that stands before every sequence; absent: none does. */
  readonly first?: string;
  /** Of a text: how many tokens it has, and what it is called. */
  readonly text?: { readonly tokens: number; readonly name: string; readonly words: string };
  /** The model that it goes on from, by its folder, and the step of its timeline. */
  readonly source?: { readonly model: string; readonly step: number | null };
}
