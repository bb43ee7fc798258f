/** Types of the parts of tokenizer.json and of the files beside it; values are checked where used. */

export interface Stage {
  readonly type?: string;
  readonly normalizers?: readonly Stage[];
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
  readonly prepend?: unknown;
  readonly strip_left?: boolean;
  readonly strip_right?: boolean;
  readonly clean_text?: boolean;
  readonly handle_chinese_chars?: boolean;
  readonly strip_accents?: boolean | null;
  readonly lowercase?: boolean;
  readonly delimiter?: unknown;
  readonly replacement?: string;
  readonly prepend_scheme?: string;
  readonly split?: boolean;
  readonly start?: number;
  readonly stop?: number;
  readonly prefix?: string;
  readonly suffix?: string;
  readonly cleanup?: boolean;
  readonly pad_token?: string;
  readonly word_delimiter_token?: string;
}

/** A token with the units [start, end) that it covers, of a word or of the text. */
export interface Piece {
  readonly id: number;
  start: number;
  end: number;
}

export interface PostProcessor {
  readonly type?: string;
  readonly processors?: readonly PostProcessor[];
  readonly single?: readonly unknown[];
  readonly special_tokens?: Readonly<Record<string, { readonly ids?: unknown }>>;
  readonly cls?: unknown;
  readonly sep?: unknown;
}

export interface AddedToken {
  readonly id: number;
  readonly content: string;
  readonly special?: boolean;
  readonly normalized?: boolean;
  readonly single_word?: boolean;
  readonly lstrip?: boolean;
  readonly rstrip?: boolean;
}

export interface TokenizerFile {
  readonly model: {
    readonly type?: string;
    /** TokenIds where a GGUF file was converted: a table of 50,000 keys takes as long as all else. */
    readonly vocab:
      | Readonly<Record<string, number>>
      | { readonly texts: readonly string[] }
      | readonly (readonly [string, number])[];
    readonly merges?: readonly (string | readonly string[])[];
    /** What rankMerges gave, where these files were converted: ranking again would take as long as the rest. */
    readonly ranks?: unknown;
    readonly unk_token?: string | null;
    readonly unk_id?: number | null;
    readonly fuse_unk?: boolean;
    readonly byte_fallback?: boolean;
    readonly ignore_merges?: boolean;
    readonly dropout?: number | null;
    readonly max_input_chars_per_word?: number;
    readonly continuing_subword_prefix?: string | null;
    readonly end_of_word_suffix?: string | null;
  };
  readonly added_tokens?: readonly AddedToken[];
  readonly normalizer?: Stage | null;
  readonly pre_tokenizer?: Stage | null;
  readonly post_processor?: PostProcessor | null;
  readonly decoder?: Stage | null;
}

/** tokenizer_config.json; only the names of tokens and a few settings are read. */
export type Settings = Readonly<Record<string, unknown>>;
