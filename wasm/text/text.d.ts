/** Converts text to ids and back with a model's own tokenizer. */
import type { Model } from '../engine/engine.js';
import type { Plan } from '../loading/loading.js';

/** A token of a text, with the characters that it covers. */
export interface Token {
  readonly id: number;
  /** Text of the token. A token that covers a part of a character contains U+FFFD. */
  readonly text: string;
  /** Start and end in UTF-16 units of the text; start = end for special tokens that were added. */
  readonly start: number;
  readonly end: number;
  /** True for tokens that the tokenizer added, such as BOS. */
  readonly special: boolean;
}

/** A token without text. */
export interface SpecialToken {
  readonly id: number;
  readonly text: string;
  /**
   * Role according to tokenizer_config.json; the first one that fits, because GPT-2 uses one token
   * for all. A token without a role that is named [MASK] or <mask> has the kind mask.
   */
  readonly kind: 'bos' | 'eos' | 'unk' | 'pad' | 'sep' | 'cls' | 'mask' | 'other';
}

export interface EncodeOptions {
  /**
   * Special tokens around the text: 'auto' follows the tokenizer's own post-processor, 'none' adds
   * none, and a list prepends these tokens and appends none.
   */
  readonly special?: 'auto' | 'none' | readonly string[];
  /** Shorthand for `special`: true prepends the BOS token, false adds none. */
  readonly bos?: 'auto' | boolean;
}

export interface Tokenizer {
  readonly size: number;
  /** The id of the beginning-of-sequence token, or null. */
  readonly bos: number | null;
  /** Ids of tokens without text: BOS, end of text, padding. */
  readonly special: readonly number[];
  /** The same tokens with their names, sorted by id, for a menu. */
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

/**
 * Opens a Hugging Face tokenizer.json (text or parsed), with its tokenizer_config.json if there is
 * one. It runs in this thread without a time limit: use `guardTokenizer` for files of unknown
 * origin.
 */
export function openTokenizer(json: string | object, config?: string | object): Tokenizer;

/** The stored files of a tokenizer, or the metadata of a GGUF file. */
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
  | { readonly gguf: ReadonlyMap<string, ReturnType<GgufReader>> };

/** A Tokenizer in a worker that can be ended: `encode` and `decode` return promises. */
export interface GuardedTokenizer extends Omit<Tokenizer, 'encode' | 'decode'> {
  /** @throws SinkscopeError 'too_slow'; the next call restarts the worker */
  encode(text: string, options?: EncodeOptions): Promise<Token[]>;
  decode(ids: ArrayLike<number>): Promise<string>;
  /** Ends the worker; pending calls reject with 'closed'. */
  close(): void;
}

/** Any tokenizer; await its answers. */
export type AnyTokenizer = Tokenizer | GuardedTokenizer;

/**
 * Opens an untrusted tokenizer, whose patterns may never end. Each step (reading the files,
 * building the tables, each text) has `limit` milliseconds, 5000 by default, and as many again per
 * 2^22 units of the files or 2^20 of a text, multiplied by the slowness of this machine, which the
 * worker measures with a benchmark at its start. After 'too_slow' the next step has twice the time.
 * @throws SinkscopeError 'too_slow', 'bad_tokenizer', 'unsupported'
 * @example
 * const tokenizer = await guardTokenizer({ tokenizer: await file.text() });
 * const tokens = await tokenizer.encode('Hi');
 * tokenizer.close();
 */
export function guardTokenizer(
  source: TokenizerSource,
  options?: { readonly limit?: number; readonly signal?: AbortSignal },
): Promise<GuardedTokenizer>;

/** The arguments of openTokenizer as objects. */
export interface TokenizerFiles {
  readonly json: object;
  readonly config: object;
}

/**
 * Converts the vocab.json and merges.txt of a byte-level vocabulary (GPT-2, GPT-Neo, OPT), with
 * tokenizer_config.json and special_tokens_map.json if they exist.
 * @example
 * const { json, config } = tokenizerOfVocabulary(vocab, merges, { add_bos_token: true, bos_token: '</s>' });
 * const tokenizer = openTokenizer(json, config);
 */
export function tokenizerOfVocabulary(
  vocabJson: string | object,
  mergesText: string,
  config?: string | object,
  specialTokensMap?: string | object,
): TokenizerFiles;

/** Returns the value of a GGUF file's metadata key, or undefined if the key is missing. */
export type GgufReader = (
  key: string,
) => string | number | boolean | readonly string[] | ArrayLike<number> | undefined;

/**
 * Converts the tokenizer inside a GGUF file, of kind "gpt2" (byte-level BPE) or "llama"
 * (SentencePiece BPE). Throws for an unknown tokenizer.ggml.pre, with its name.
 * @example const { json, config } = tokenizerOfGguf((key) => metadata.get(key));
 */
export function tokenizerOfGguf(read: GgufReader): TokenizerFiles;

/**
 * Opens the tokenizer of a plan in its own worker, from the plan's files or the opened GGUF model.
 * For a plan without a tokenizer, texts are lists of ids: `1, 2, 3`, `1 2 3` or `#1#2#3`; each
 * token reads `#1`, and `size` is Infinity.
 * @example const tokenizer = await planTokenizer(plan, model, { cache: true });
 */
export function planTokenizer(
  plan: Plan,
  model: Pick<Model, 'metadata'>,
  options?: {
    readonly token?: string;
    readonly cache?: boolean;
    readonly signal?: AbortSignal;
    /** See `guardTokenizer`. */
    readonly limit?: number;
  },
): Promise<GuardedTokenizer>;
