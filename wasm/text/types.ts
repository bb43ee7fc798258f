/** Types of tokenizers, which convert text to ids and back. */

export interface Token {
  readonly id: number;
  /** Text of the token. A token that covers a part of a character contains U+FFFD. */
  readonly text: string;
  /** Start and end in UTF-16 units of the text; start = end for special tokens that were added. */
  readonly start: number;
  readonly end: number;
  readonly special: boolean;
}

export interface SpecialToken {
  readonly id: number;
  readonly text: string;
  /**
   * Role according to tokenizer_config.json. A token with several roles, like GPT-2's only
   * special token, has the first that matches. A token named [MASK] or <mask> that has no role is
   * `mask`.
   */
  readonly kind: 'bos' | 'eos' | 'unk' | 'pad' | 'sep' | 'cls' | 'mask' | 'other';
}

export interface EncodeOptions {
  /**
   * Special tokens before and after the text: 'auto' follows the tokenizer's own post-processor, 'none' adds
   * none, and a list prepends these tokens and appends none.
   */
  readonly special?: 'auto' | 'none' | readonly string[];
}

export interface Tokenizer {
  readonly size: number;
  /** The id of the beginning-of-sequence token, or null. */
  readonly bos: number | null;
  /** Ids of tokens without text: BOS, end of text, padding. */
  readonly special: readonly number[];
  /** The tokens of `special` with their names, sorted by id, for a menu. */
  readonly specials: readonly SpecialToken[];
  /**
   * Encodes a text; tokens that the tokenizer added have `special: true`.
   * @example tokenizer.encode('Hi', { special: ['</s>', '</s>'] }); // two ids before the text's own
   */
  encode(text: string, options?: EncodeOptions): Token[];
  /** Decodes ids; special tokens and ids beyond the vocabulary give no text. */
  decode(ids: ArrayLike<number>): string;
  /** Returns the text of one token, with its spaces. */
  piece(id: number): string;
}

export type TokenizerSource =
  | { readonly tokenizer: string; readonly config?: string }
  | {
      readonly vocab: string;
      readonly merges: string;
      readonly config?: string;
      readonly special_tokens_map?: string;
    }
  /** The vocab.txt of BERT, with one token per line. */
  | { readonly words: string; readonly config?: string }
  /** The start of a GGUF file. */
  | { readonly gguf: Uint8Array };

/** Receives the progress of a GGUF file's merges, or of the search for them. */
export type OnBuilt = (done: number, total: number) => void;

/** A Tokenizer in a worker that can be ended. Its `encode` and `decode` return promises. */
export interface GuardedTokenizer extends Omit<Tokenizer, 'encode' | 'decode'> {
  /**
   * Encodes a text, as the Tokenizer does.
   * @throws SinkscopeError 'too_slow'; the next call restarts the worker
   */
  encode(text: string, options?: EncodeOptions): Promise<Token[]>;
  decode(ids: ArrayLike<number>): Promise<string>;
  /** Ends the worker; pending calls reject with 'closed'. */
  close(): void;
}

/** Any tokenizer. Its answers must be awaited, because they may be promises. */
export type AnyTokenizer = Tokenizer | GuardedTokenizer;

/** tokenizer.json and tokenizer_config.json as objects, as openTokenizer takes them. */
export interface TokenizerFiles {
  readonly json: object;
  readonly config: object;
}

/** Returns the value of a GGUF file's metadata key, or undefined if the key is missing. */
export type GgufReader = (
  key: string,
) => string | number | boolean | readonly unknown[] | ArrayLike<number> | undefined;
