/**
 * Sinkscope in JavaScript: open a model, run tokens through it, read what the run recorded.
 *
 *     file bytes -> model -> run (+ edits) -> trace -> metrics -> report -> frame -> views
 *
 * Letters in shapes: L layers, H query heads, G key/value heads, T tokens, D model width,
 * K head width, F feed-forward width, V vocabulary. A capital is a size, a small letter an index.
 *
 * @example
 * const engine = await createEngine();
 * const model = await engine.open({ config, weights });
 * const run = await model.run([0, 17, 392], { fields: ['att', 'hidden'] });
 * const alpha = await run.metric('alpha');            // shape [L, H, T]
 * const map = await run.field('att', { layer: 2, head: 1 }); // shape [T, T]
 * await engine.close();
 */

/** A copy of numbers that left the engine. `data` is row-major in `shape`; NaN means undefined. */
export interface Tensor {
  readonly shape: readonly number[];
  readonly data: Float32Array | Int32Array;
}

/** One parameter of an attention operation. */
export interface OperationParameter {
  readonly name: string;
  readonly default: number;
  readonly min: number;
  readonly max: number;
  readonly meaning: string;
  /** A trained model may carry one value per query head; an edit gives one for all of them. */
  readonly per_head: boolean;
}

/** A row of the attention-operation table: how scores of one query become weights. */
export interface Operation {
  readonly name: string;
  readonly label: string;
  readonly formula: string;
  /** True when every row of weights sums to 1. */
  readonly normalises: boolean;
  /** How sink scores are taken: 'weights', 'share' (w / sum w), 'share_abs' (|w| / sum |w|). */
  readonly proxy: 'weights' | 'share' | 'share_abs';
  readonly parameters: readonly OperationParameter[];
  readonly source: string;
}

/** A row of the metric table. `shape` uses the letters, for example ["L", "H", "T"]. */
export interface Metric {
  readonly name: string;
  readonly question: string;
  readonly unit: string;
  readonly shape: readonly string[];
  /** Lowest and highest possible value; null where there is none. */
  readonly range: readonly [number | null, number | null];
  /** Which arguments change it: any of 'eps', 'tokens', 'layer', 'head'. */
  readonly arguments: readonly string[];
  /** Which trace fields the run must have recorded. */
  readonly fields: readonly string[];
  readonly source: string;
}

/** A row of the trace table: something a run records. */
export interface Field {
  readonly name: string;
  readonly meaning: string;
  readonly unit: string;
  readonly shape: readonly string[];
  readonly type: 'f32' | 'i32';
}

/** What exists in this build; the same JSON that C prints, so that no name is written twice. */
export interface Describe {
  readonly version: string;
  readonly border: number;
  /** 'base' or 'simd'. */
  readonly kernels: string;
  readonly operations: readonly Operation[];
  readonly metrics: readonly Metric[];
  readonly fields: readonly Field[];
  readonly edits: readonly { readonly name: string; readonly meaning: string }[];
  readonly status: readonly {
    readonly code: number;
    readonly name: string;
    readonly meaning: string;
  }[];
  readonly letters: Readonly<Record<string, string>>;
}

/** The one description that every family is translated into. */
export interface Architecture {
  readonly family: string;
  readonly L: number;
  readonly H: number;
  readonly G: number;
  readonly D: number;
  readonly K: number;
  readonly F: number;
  readonly V: number;
  /** Longest sequence the model was made for, in tokens. */
  readonly context: number;
  readonly parameters: number;
  readonly positions: 'none' | 'learned' | 'rotary';
  readonly norm: 'layer' | 'rms';
  readonly feed_forward: 'plain' | 'gated';
  readonly activation: string;
  readonly tied: boolean;
  readonly attention: {
    readonly operation: string;
    readonly parameters: Readonly<Record<string, number>>;
  };
}

/** Heads compute another attention operation. Absent layer or head means all of them. */
export interface OperationEdit {
  readonly kind: 'operation';
  readonly layer?: number;
  readonly head?: number;
  readonly operation: string;
  /** By the names in describe.operations; absent ones have their defaults. */
  readonly parameters?: Readonly<Record<string, number>>;
}

/** Queries see only the first and the most recent keys, themselves included. */
export interface MaskEdit {
  readonly kind: 'mask';
  readonly layer?: number;
  readonly head?: number;
  /** How many of the first keys. */
  readonly first: number;
  /** How many of the most recent keys. */
  readonly recent: number;
}

/** A what-if applied to a run, never to the weights. In a list the last one wins. */
export type Edit = OperationEdit | MaskEdit;

export interface Progress {
  /** What is being done: 'read', 'open', 'run', 'generate'. */
  readonly stage: string;
  /** In bytes for 'read', in tokens for 'run' and 'generate', else 0..1. */
  readonly done: number;
  /** NaN when unknown. */
  readonly total: number;
}

export interface Options {
  /** Stops between two chunks of tokens; the promise rejects with the signal's reason. */
  readonly signal?: AbortSignal;
  readonly onProgress?: (progress: Progress) => void;
}

export interface RunOptions extends Options {
  /** Names from describe.fields; default: all but 'logits'. 'k' and 'v' are always there. */
  readonly fields?: readonly string[];
  readonly edits?: readonly Edit[];
  /** Tokens there must be room for, generation included; default: the tokens given + 64, at most the context. */
  readonly capacity?: number;
}

export interface Where {
  readonly layer?: number;
  readonly head?: number;
}

export interface MetricArguments extends Where {
  /** Threshold of Sink_k^eps; default 0.3. */
  readonly eps?: number;
  /** Only the first so many tokens; default: all. */
  readonly tokens?: number;
}

/** One read out of a run: a field or a metric. */
export type Read =
  ({ readonly field: string } & Where) | ({ readonly metric: string } & MetricArguments);

export interface GenerateOptions extends Options {
  /** How many tokens to add. */
  readonly count: number;
  /** 0 is greedy. Default 0. */
  readonly temperature?: number;
  /** 0 means all. Default 0. */
  readonly topK?: number;
  readonly seed?: number;
}

/** One generated token, and where every head looked from it. */
export interface Step {
  readonly token: number;
  /** Position of the token, 0-based. */
  readonly position: number;
  /**
   * The weights of this token's query over all keys: [L, H, position + 1]; [L, H, 0] if the run
   * does not record 'att'.
   */
  readonly att: Tensor;
}

export interface Run {
  /** Tokens in the run so far: the prompt's and the generated. */
  readonly tokens: readonly number[];
  readonly edits: readonly Edit[];
  /** A recorded field, [.., T, ..]; give layer and head to take only theirs. */
  field(name: string, where?: Where): Promise<Tensor>;
  metric(name: string, args?: MetricArguments): Promise<Tensor>;
  /** Many reads in one round trip, in order. */
  read(reads: readonly Read[]): Promise<Tensor[]>;
  /**
   * Adds tokens one by one; the trace grows with them.
   * @example for await (const step of run.generate({ count: 8 })) show(step.token);
   */
  generate(options: GenerateOptions): AsyncIterable<Step>;
  close(): Promise<void>;
}

export interface Model {
  readonly architecture: Architecture;
  run(tokens: ArrayLike<number>, options?: RunOptions): Promise<Run>;
  close(): Promise<void>;
}

/** Bytes, or an address to fetch them from (streamed, with progress in bytes). */
export type Source =
  | Uint8Array
  | Blob
  | URL
  | {
      readonly url: URL | string;
      /** Sent as a bearer token to that host alone; never stored. */
      readonly token?: string;
      /** Keep what was fetched, for the next time. */
      readonly cache?: boolean;
    };

/**
 * The files of a model. The bytes of weights are put into the engine's memory once and stay there, in
 * the type in which they are stored, as long as the model is open.
 * @example await engine.open({ weights: file }) // a GGUF file, which needs no config
 */
export interface ModelFiles {
  /** config.json; a GGUF file has none. */
  readonly config?: string | Source;
  /** safetensors, pytorch_model.bin or GGUF; several are shards of one model. */
  readonly weights: Source | readonly Source[];
}

export interface Engine {
  readonly describe: Describe;
  open(files: ModelFiles, options?: Options): Promise<Model>;
  /** Bytes of memory the engine holds; what is closed is used again, so it grows with the peak. */
  memory(): Promise<number>;
  /** Ends the worker. In Node.js the process lives until then. */
  close(): Promise<void>;
}

export interface EngineOptions {
  /** Run in a worker; by default wherever one can be started. */
  readonly worker?: boolean;
  /** 'simd', 'base', or 'auto' (the default: SIMD where the host validates it). */
  readonly kernels?: 'auto' | 'simd' | 'base';
  /** The folder where the two .wasm files lie; default: beside the module. */
  readonly base?: URL | string;
}

export function createEngine(options?: EngineOptions): Promise<Engine>;

/** What went wrong, where (a tensor, a key, a byte), and a sentence with expected and actual. */
export class SinkscopeError extends Error {
  constructor(code: string, where: string, text: string);
  /**
   * A name from describe.status, or one of JavaScript's own: 'argument', 'read', 'closed',
   * 'border', 'bad_tokenizer', 'internal'.
   */
  readonly code: string;
  readonly where: string;
  /** The sentence alone; message is "where: text". */
  readonly text: string;
}

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

/** A token that stands for no text. */
export interface SpecialToken {
  readonly id: number;
  readonly text: string;
  /** What it is for, by tokenizer_config.json: the first that holds, for GPT-2 has one for all. */
  readonly kind: 'bos' | 'eos' | 'unk' | 'pad' | 'sep' | 'cls' | 'mask' | 'other';
}

export interface EncodeOptions {
  /**
   * Which special tokens are put around the text: 'auto' follows the tokenizer's own
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
  /** Ids that stand for no text: BOS, end of text, padding. */
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
 * there is one.
 */
export function openTokenizer(json: string | object, config?: string | object): Tokenizer;

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
