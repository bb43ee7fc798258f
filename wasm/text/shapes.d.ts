/** tokenizer.json and the files beside it, as far as they are read. Each is checked where it is used. */

/** One stage of a normalizer, pre-tokenizer or decoder. */
export interface Stage {
  readonly type?: string;
  readonly pretokenizers?: readonly Stage[];
  readonly decoders?: readonly Stage[];
  readonly pattern?: { readonly Regex?: unknown; readonly String?: unknown };
  readonly behavior?: string;
  readonly invert?: boolean;
  readonly content?: string;
  readonly individual_digits?: boolean;
  readonly add_prefix_space?: boolean;
  readonly use_regex?: boolean;
  readonly length?: unknown;
}

/** A token that is found in the text before it is split. */
export interface Added {
  readonly id: number;
  readonly content: string;
  readonly special?: boolean;
  readonly normalized?: boolean;
}

/** tokenizer.json */
export interface TokenizerFile {
  readonly model: {
    readonly type?: string;
    readonly vocab: Readonly<Record<string, number>> | readonly (readonly [string, number])[];
    readonly merges?: readonly (string | readonly string[])[];
    readonly unk_token?: string | null;
    readonly continuing_subword_prefix?: string | null;
    readonly end_of_word_suffix?: string | null;
  };
  readonly added_tokens?: readonly Added[];
  readonly normalizer?: Stage | null;
  readonly pre_tokenizer?: Stage | null;
  readonly decoder?: Stage | null;
}

/** tokenizer_config.json; only names of tokens are read. */
export type Settings = Readonly<Record<string, unknown>>;
