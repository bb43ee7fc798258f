/** Text to ids and back, by a model's own tokenizer. */
import type { Model } from '../engine/engine.js';
import type { Plan } from '../loading/loading.js';

/** A piece of the prompt: which characters of the text this token covers. */
export interface Token {
  readonly id: number;
  /** The token as text; may be part of a character, then it holds U+FFFD. */
  readonly text: string;
  /** Start and end in UTF-16 units of the text; start = end for special tokens that were added. */
  readonly start: number;
  readonly end: number;
  /** Added by the tokenizer (BOS), not typed. */
  readonly special: boolean;
}

/** A token without text. */
export interface SpecialToken {
  readonly id: number;
  readonly text: string;
  /**
   * Its role by tokenizer_config.json: the first that fits, because GPT-2 has one token for all. A token that the file gives
   * no role and that is named [MASK] or <mask> has the kind mask.
   */
  readonly kind: 'bos' | 'eos' | 'unk' | 'pad' | 'sep' | 'cls' | 'mask' | 'other';
}

export interface EncodeOptions {
  /**
   * Which special tokens begin and end the text: 'auto' follows the tokenizer's own
   * post-processor, 'none' puts none, a list puts these tokens in front and none behind.
   */
  readonly special?: 'auto' | 'none' | readonly string[];
  /** Short for special: true puts the BOS token in front, false puts none. */
  readonly bos?: 'auto' | boolean;
}

export interface Tokenizer {
  readonly size: number;
  /** The id of the beginning-of-sequence token, or null. */
  readonly bos: number | null;
  /** Ids of tokens without text: BOS, end of text, padding. */
  readonly special: readonly number[];
  /** The same tokens with their names, by id: what a reader may choose from. */
  readonly specials: readonly SpecialToken[];
  /**
   * Tokens that were added, not typed, have special: true.
   * @example tokenizer.encode('Hi', { special: ['</s>', '</s>'] }); // two ids before the text's own
   */
  encode(text: string, options?: EncodeOptions): Token[];
  /** Special tokens, and ids beyond the vocabulary, give no text. */
  decode(ids: ArrayLike<number>): string;
  /** One token as it reads, with spaces kept. */
  piece(id: number): string;
}

/**
 * Opens a Hugging Face tokenizer.json (text or parsed), with tokenizer_config.json beside it if
 * there is one. It works in this thread, for as long as it takes: one of unknown origin belongs behind
 * `guardTokenizer`.
 */
export function openTokenizer(json: string | object, config?: string | object): Tokenizer;

/** The files of a tokenizer as they are stored, or the metadata of a GGUF file. */
export type TokenizerSource =
  | { readonly tokenizer: string; readonly config?: string }
  | {
      readonly vocab: string;
      readonly merges: string;
      readonly config?: string;
      readonly special_tokens_map?: string;
    }
  /** vocab.txt of BERT, one token a line. */
  | { readonly words: string; readonly config?: string }
  | { readonly gguf: ReadonlyMap<string, ReturnType<GgufReader>> };

/** Like a Tokenizer, but what may take long comes later, out of a worker that can be ended. */
export interface GuardedTokenizer extends Omit<Tokenizer, 'encode' | 'decode'> {
  /** @throws SinkscopeError 'too_slow'; the next call restarts the worker */
  encode(text: string, options?: EncodeOptions): Promise<Token[]>;
  decode(ids: ArrayLike<number>): Promise<string>;
  /** Ends the worker, and what is under way with 'closed'. */
  close(): void;
}

/** Whatever it is, its answers can be awaited. */
export type AnyTokenizer = Tokenizer | GuardedTokenizer;

/**
 * Opens an untrusted tokenizer: its patterns may never end. Every step of the work
 * (reading the files, building the tables, each text) has `limit` milliseconds, 5000 by default, and as
 * many again for each 2^22 units of the files or 2^20 of a text; all this times the slowness of this
 * machine, which the worker measures on a known piece of work when it starts. After 'too_slow' the next
 * step has twice the time.
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

/** What openTokenizer takes, as objects. */
export interface TokenizerFiles {
  readonly json: object;
  readonly config: object;
}

/**
 * vocab.json and merges.txt of a byte-level vocabulary (GPT-2, GPT-Neo, OPT), with
 * tokenizer_config.json and special_tokens_map.json where there are such.
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

/** The value of a key of a GGUF file, or undefined where the file has no such key. */
export type GgufReader = (
  key: string,
) => string | number | boolean | readonly string[] | ArrayLike<number> | undefined;

/**
 * The tokenizer inside a GGUF file, of the kinds "gpt2" (byte-level BPE) and "llama" (SentencePiece
 * BPE). A tokenizer.ggml.pre that this build does not know is refused by name.
 * @example const { json, config } = tokenizerOfGguf((key) => metadata.get(key));
 */
export function tokenizerOfGguf(read: GgufReader): TokenizerFiles;

/**
 * The tokenizer of a plan, from its files or out of the opened GGUF model, in a worker of its own. Where a plan has none
 * the text is a list of ids: `1, 2, 3`, `1 2 3` or `#1#2#3`; a token reads `#1`, `size` is Infinity.
 * @example const tokenizer = await planTokenizer(plan, model, { cache: true });
 */
export function planTokenizer(
  plan: Plan,
  model: Pick<Model, 'metadata'>,
  options?: {
    readonly token?: string;
    readonly cache?: boolean;
    readonly signal?: AbortSignal;
    /** As for `guardTokenizer`. */
    readonly limit?: number;
  },
): Promise<GuardedTokenizer>;
