/**
 * Sinkscope in JavaScript: open a model, run tokens through it, read what the run recorded.
 *
 *     file bytes -> model -> run (+ edits) -> trace -> metrics -> report -> frame -> views
 *
 * Letters in shapes: L layers, H query heads, G key/value heads, T tokens, D model width,
 * K head width, F feed-forward width, V vocabulary, E experts. A capital is a size, a small letter an
 * index.
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
  /** phi, of queries and keys before their product; 'mlp' needs weights that few models have. */
  readonly features: 'none' | 'elu1' | 'mlp';
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
  /** The entry of the architecture that must be set for a model to have it. */
  readonly needs: 'E' | 'bias_key' | 'gate' | null;
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

/** Rotary positions of a layer. */
export interface Rotary {
  /** Pair j of rotary_width/2 turns by theta^(-2j/rotary_width) per position. */
  readonly theta: number;
  /** How they reach beyond the context of training. */
  readonly scaling: 'none' | 'linear' | 'llama3' | 'yarn';
  /** Slow pairs turn so many times slower; with a scaling only. */
  readonly factor?: number;
}

/** The one description that every family is translated into. */
export interface Architecture {
  readonly family: string;
  readonly L: number;
  readonly H: number;
  readonly G: number;
  readonly D: number;
  readonly K: number;
  /** Of one expert, where there are experts. */
  readonly F: number;
  readonly V: number;
  /** Experts of a layer; 0 where one feed-forward serves all tokens. */
  readonly E: number;
  /** Experts that one token goes through. */
  readonly chosen: number;
  /** Longest sequence the model was made for, in tokens. */
  readonly context: number;
  readonly parameters: number;
  readonly positions: 'none' | 'learned' | 'sinusoid' | 'rotary' | 'alibi' | 'relative';
  /** Dimensions of a head that are turned, the first ones; rotary positions only. */
  readonly rotary_width?: number;
  readonly rotary?: Rotary;
  /** Of layers with a window, where they have their own. */
  readonly window_rotary?: Rotary;
  /** What queries see: those before them and themselves, of all of them the first `prefix`, or all. */
  readonly mask: {
    readonly kind: 'causal' | 'window' | 'prefix' | 'bidirectional';
    readonly window?: number;
    readonly prefix?: number;
  };
  /** The id that hides a token in a model of masked diffusion; null in others. */
  readonly mask_token: number | null;
  /** [L]: how many keys a query sees, its own included; null where it sees all before it. */
  readonly windows: readonly (number | null)[];
  /** A key of no token that every query sees: each key/value head's own, or one for all. */
  readonly bias_key: 'head' | 'shared' | null;
  /** Its value; null: 0. */
  readonly bias_key_value: 'head' | 'shared' | null;
  /** Added to what a head returns. */
  readonly value_bias: 'head' | 'shared' | null;
  /** A sigmoid of the hidden state that multiplies what a head returns, or the values. */
  readonly gate: 'output_element' | 'output_head' | 'value_element' | 'value_head' | null;
  /** The output matrix reads the heads side by side, or their sum. */
  readonly heads: 'joined' | 'added';
  readonly norm: 'layer' | 'rms';
  /** Before each half of a block, or after its sum. */
  readonly norm_place: 'pre' | 'post';
  /** What attention and feed-forward add is normed, too. */
  readonly branch_norms: boolean;
  /** Queries and keys are normed, head by head. */
  readonly qk_norm: boolean;
  /** Attention and feed-forward read the same residual stream. */
  readonly parallel: boolean;
  readonly feed_forward: 'plain' | 'gated';
  readonly activation: 'silu' | 'gelu_tanh' | 'gelu' | 'relu' | 'clamped_swiglu';
  /** Scores are q.k times this. */
  readonly score_scale: number;
  /** Token vectors are multiplied by this. */
  readonly embedding_scale: number;
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
  /** Bytes a second, smoothed; NaN until known. */
  readonly rate?: number;
  /** Seconds until the file is read; NaN until known. */
  readonly remaining?: number;
  /** A sentence: that a connection was cut and is made anew, that nothing can be kept. */
  readonly note?: string;
}

export interface Options {
  /** Stops between two layers; the promise rejects with the signal's reason. */
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
  /**
   * A value of a GGUF file's metadata, undefined where the file has no such key or is no GGUF file.
   * @example const name = await model.metadata('general.name');
   */
  metadata(
    key: string,
  ): Promise<
    | string
    | number
    | boolean
    | readonly string[]
    | readonly boolean[]
    | readonly number[]
    | undefined
  >;
  close(): Promise<void>;
}

/** Bytes, or an address to fetch them from (streamed, with progress in bytes). */
export type Source = Uint8Array | Blob | URL | RemoteFile;

/** An address, and how to ask for it. */
export interface RemoteFile {
  readonly url: URL | string;
  /** Sent as a bearer token to that host alone; never stored. */
  readonly token?: string;
  /** Keep what was fetched, for the next time. */
  readonly cache?: boolean;
  /** What the address holds never changes, for example because it names this commit. */
  readonly version?: string;
  /** The size, where it is known: compressed answers do not tell it. */
  readonly bytes?: number;
  /** The name under which the cache lists it; default: the address. */
  readonly id?: string;
}

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
   * A name from describe.status, or one of JavaScript's own: 'argument', 'read', 'access' (a token
   * is needed), 'not_found', 'busy', 'offline', 'too_large', 'closed', 'border', 'bad_tokenizer', 'internal'.
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

/* Hub: models by name. */

export interface HubOptions {
  /** Default: https://huggingface.co. */
  readonly endpoint?: string | URL;
  /** An access token. It is held in memory, sent to the endpoint, and written nowhere. */
  readonly token?: string;
  /** Keep what was found, and give it again where the hub cannot be reached. */
  readonly cache?: boolean;
  readonly signal?: AbortSignal;
  /** How often one thing is asked for before it is given up; default 5. */
  readonly tries?: number;
  /** Milliseconds before the second try, doubled with each further one; default 500. */
  readonly wait?: number;
  readonly onRetry?: (retry: { readonly reason: string; readonly wait: number }) => void;
}

/** One file of a plan: on the hub (url) or on the disk (blob). */
export interface PlanFile {
  /** Its path inside the repository or folder. */
  readonly name: string;
  readonly bytes?: number;
  readonly url?: string;
  readonly version?: string;
  readonly blob?: Blob;
}

/** What a model consists of and what it costs, before anything large is read. No secret is in it. */
export interface Plan {
  readonly id: string;
  readonly format: 'safetensors' | 'pytorch' | 'gguf';
  readonly files: {
    readonly config?: PlanFile;
    /** In the order of the index; empty while there is a choice to make. */
    readonly weights: readonly PlanFile[];
    readonly tokenizer?: PlanFile;
    readonly tokenizer_config?: PlanFile;
    readonly special_tokens_map?: PlanFile;
    readonly vocab?: PlanFile;
    readonly merges?: PlanFile;
  };
  /** Of the weights, which is what there is to download; 0 where no size is told. */
  readonly bytes: number;
  /**
   * An estimate: the weights as they are stored and, where there is a config.json, a run of 64 tokens
   * with the default fields. In bytes.
   */
  readonly memory: number;
  /** Several GGUF files: resolve again with the id of one of them. */
  readonly choices: readonly {
    readonly file: string;
    readonly bytes: number;
    readonly id?: string;
  }[];
  /** Why it cannot be opened here, as a sentence that follows the model's name. */
  readonly refusal?: string;
  readonly revision?: string;
  /** The commit that the revision stands for; the addresses of the files are made of it. */
  readonly commit?: string;
  /** As the model card states it. */
  readonly licence?: string;
  /** It can be listed, but its files need a token. */
  readonly gated?: boolean;
  /** From an earlier visit, for the hub could not be reached. */
  readonly remembered?: boolean;
}

/**
 * Looks a model up: `owner/name`, `owner/name@revision`, `owner/name@revision:file.gguf`, or the
 * address of its page.
 * @throws SinkscopeError 'argument', 'access' (needs a token), 'not_found', 'busy', 'offline' or 'read'
 * @example
 * const plan = await resolveHub('owner/name@main');
 * const model = await engine.open(modelFiles(plan, { cache: true }), { onProgress });
 */
export function resolveHub(id: string, options?: HubOptions): Promise<Plan>;

/**
 * What `engine.open` takes, of a plan.
 * @throws SinkscopeError 'too_large' where the plan has a refusal, 'argument' where it has choices
 * @example await engine.open(modelFiles(plan, { token, cache: true }));
 */
export function modelFiles(
  plan: Plan,
  options?: { readonly token?: string; readonly cache?: boolean },
): ModelFiles;

/**
 * The text of one small file of a plan.
 * @example const tokenizer = openTokenizer(await planText(plan, plan.files.tokenizer));
 */
export function planText(
  plan: Plan,
  file: PlanFile,
  options?: { readonly token?: string; readonly cache?: boolean; readonly signal?: AbortSignal },
): Promise<string>;

/**
 * The tokenizer of a plan, from its files or out of the opened GGUF model.
 * @throws SinkscopeError 'bad_tokenizer' where the plan has none
 * @example const tokenizer = await planTokenizer(plan, model, { cache: true });
 */
export function planTokenizer(
  plan: Plan,
  model: Pick<Model, 'metadata'>,
  options?: { readonly token?: string; readonly cache?: boolean; readonly signal?: AbortSignal },
): Promise<Tokenizer>;

/* Measuring: what the page shows, over many sequences. */

/** How a text is cut into sequences. */
export interface CutOptions {
  /** Tokens of each sequence, special ones included. */
  readonly tokens: number;
  /** At most so many sequences. */
  readonly sequences: number;
  /** Special tokens in front, as in `encode`. Default: the tokenizer's own. */
  readonly special?: 'auto' | 'none' | readonly string[];
  /** One sequence of the beginning of each line; default: the whole text, piece after piece. */
  readonly lines?: boolean;
}

/**
 * Sequences of equal length; what is too short for one is left out. Of an array of texts, each gives
 * one sequence, its beginning.
 * @throws SinkscopeError 'argument' where the text is too short for any
 * @example const sequences = cutText(tokenizer, text, { tokens: 64, sequences: 100 });
 */
export function cutText(
  tokenizer: Tokenizer,
  text: string | readonly string[],
  options: CutOptions,
): number[][];

/** A metric over sequences: `mean` and `deviation` (standard, n - 1) row-major in `shape`. */
export interface Measured {
  readonly shape: readonly number[];
  readonly mean: readonly (number | null)[];
  readonly deviation: readonly (number | null)[];
}

/** With what is needed to measure it again. */
export interface Measurement {
  readonly eps: number;
  readonly T: number;
  readonly sequences: number;
  /** By the names of describe.metrics. */
  readonly metrics: Readonly<Record<string, Measured>>;
}

export interface MeasureOptions extends Options {
  /** Default 0.3. */
  readonly eps?: number;
  /** What-ifs under which every sequence is run. */
  readonly edits?: readonly Edit[];
  /** Told what was measured of each sequence, by the names of describe.metrics. */
  readonly onSequence?: (metrics: Readonly<Record<string, Tensor>>, index: number) => void;
}

/**
 * @param sequences of equal length
 * @example const { metrics } = await measure(model, sequences); // metrics.sink_ratio.mean[0]
 */
export function measure(
  model: Pick<Model, 'run'>,
  sequences: readonly (readonly number[])[],
  options?: MeasureOptions,
): Promise<Measurement>;

/* Unmasking: text out of a model of masked diffusion. */

/** A place that was uncovered. */
export interface Filled {
  /** 0-based. */
  readonly place: number;
  readonly token: number;
  /** Of the token at this place, among those that may stand there. */
  readonly probability: number;
}

export interface UnmaskStep {
  /** As they stand after this step. */
  readonly tokens: readonly number[];
  /** The surest first. They were hidden when `alpha` was measured. */
  readonly filled: readonly Filled[];
  /** [T]: the metric of that name, mean over layers and heads. */
  readonly alpha: Tensor;
  /** Where alpha is largest. */
  readonly sink: { readonly place: number; readonly alpha: number };
}

export interface UnmaskOptions extends Pick<Options, 'signal'> {
  /** In how many steps all is uncovered: as many places in each, if it can be. */
  readonly steps: number;
  /** Ids that are never put in, beside the mask token itself: those that no text holds. */
  readonly never?: readonly number[];
  /** What-ifs under which every step is run. */
  readonly edits?: readonly Edit[];
  /** Told of each step as it is made. */
  readonly onStep?: (step: UnmaskStep, index: number) => void;
}

/**
 * Uncovers what the mask token hides. In each step the model is run, the likeliest token of every
 * hidden place is found, and those that it is surest of stay: the same text every time.
 * @param tokens with `architecture.mask_token` at the hidden places
 * @throws SinkscopeError 'argument' where the model is not of masked diffusion, or nothing is hidden
 * @example
 * const mask = model.architecture.mask_token;
 * const steps = await unmask(model, [...ids, mask, mask, mask], { steps: 3, never: [tokenizer.bos] });
 */
export function unmask(
  model: Pick<Model, 'run' | 'architecture'>,
  tokens: ArrayLike<number>,
  options: UnmaskOptions,
): Promise<UnmaskStep[]>;

/* Timelines: the checkpoints of a training. */

/** A stored checkpoint. */
export interface Checkpoint {
  readonly step: number;
  /** Of its file; what stands before it is needed, too. */
  readonly bytes: number;
  /** Of the run's exact weights, by the names of the model's card: sink_1 (in percent), loss, ... */
  readonly measured: Readonly<Record<string, number>>;
  /** The same of the weights as they are stored here. */
  readonly stored: Readonly<Record<string, number>>;
}

/** What a run noted of itself at a step, on fewer sequences than a checkpoint. */
export interface LogLine extends Readonly<Record<string, number>> {
  readonly step: number;
}

/**
 * The training of one model. Its weights are stored in int8 steps from one checkpoint to the next, and
 * decode to the same bits everywhere.
 */
export interface Timeline {
  readonly recipe: string;
  readonly seed: number;
  readonly parameters: number;
  /** By rising steps. */
  readonly checkpoints: readonly Checkpoint[];
  /** By rising steps. */
  readonly log: readonly LogLine[];
  /** Fetches what `open` of this step will need. */
  preload(step: number, options?: Pick<Options, 'signal'>): Promise<void>;
  /**
   * The files of a checkpoint: those that were not needed before are fetched, then it is decoded.
   * @param step one of `checkpoints`
   * @throws SinkscopeError 'argument' for another step, 'bad_file' where a length or a hash is wrong
   * @example const model = await engine.open(await timeline.open(1400, { signal }));
   */
  open(step: number, options?: Options): Promise<ModelFiles>;
  /** Frees what was fetched. */
  forget(): void;
}

/**
 * Reads what a timeline has, and none of its weights.
 * @param address of its index.json
 * @throws SinkscopeError 'bad_file' with the key that is not as expected
 * @example const timeline = await openTimeline(new URL('softmax/timeline/index.json', zoo));
 */
export function openTimeline(address: URL, options?: Pick<Options, 'signal'>): Promise<Timeline>;

/* Download: one file, in spite of cut connections. */

export interface DownloadOptions extends Pick<
  HubOptions,
  'token' | 'signal' | 'tries' | 'wait' | 'onRetry'
> {
  /** The first byte wanted. */
  readonly from?: number;
  readonly version?: string;
  readonly bytes?: number;
  /** Milliseconds of silence after which a connection counts as cut; default 60000. */
  readonly stall?: number;
}

/**
 * A file as a stream. A connection that is cut is made anew with a range request, as long as the ETag
 * stays the same; five tries in a row that bring nothing end it with SinkscopeError 'read'.
 * @example const { bytes, stream } = await openDownload(url, { signal });
 */
export function openDownload(
  url: URL | string,
  options?: DownloadOptions,
): Promise<{
  /** Of the whole file; undefined if it was not announced. */
  readonly bytes: number | undefined;
  readonly tag: string | undefined;
  readonly stream: ReadableStream<Uint8Array>;
}>;

/* Cache: what was downloaded with `cache: true`. */

export interface CachedFile {
  /** The model's name, or the address. */
  readonly id: string;
  readonly url: string;
  /** Kept so far, of this many. */
  readonly bytes: number;
  readonly total: number;
  readonly complete: boolean;
}

/**
 * The files that are kept, unfinished ones too: the next download goes on from there.
 * @example for (const { id, bytes, total } of await cacheList()) show(id, bytes / total);
 */
export function cacheList(): Promise<CachedFile[]>;

/** @example label.textContent = `${(await cacheBytes()) / 1e6} MB`; */
export function cacheBytes(): Promise<number>;

/**
 * Removes what belongs to a name or an address, or all.
 * @example await cacheClear('owner/name');
 */
export function cacheClear(id?: string): Promise<void>;

/**
 * Where it is kept: the origin's private files, the Cache API, or a folder (Node.js).
 * @example const keeps = (await cacheKind()) !== 'none';
 */
export function cacheKind(): Promise<'opfs' | 'cache' | 'folder' | 'none'>;

/* Disk: files that the reader dropped or picked. Nothing leaves the machine. */

export interface DiskFile {
  /** With the folders above it, as far as they were dropped. */
  readonly path: string;
  readonly file: Blob;
}

/**
 * The models among files: one plan a folder, and one for each GGUF file.
 * @throws SinkscopeError 'read' that names what is missing and what was found
 * @example const [plan] = await planFiles(filesOfList(input.files));
 */
export function planFiles(files: readonly DiskFile[]): Promise<Plan[]>;

/** Of an <input type=file>, with or without `webkitdirectory`. */
export function filesOfList(list: Iterable<File> | ArrayLike<File>): DiskFile[];

/**
 * Of a drop, folders and all; to be called before the handler's first pause.
 * @example box.ondrop = async (event) => open(await planFiles(await filesOfDrop(event.dataTransfer)));
 */
export function filesOfDrop(transfer: DataTransfer): Promise<DiskFile[]>;

/** What is told of a file while it is read, beside done and total. */
export type ReadFacts = Pick<Progress, 'rate' | 'remaining' | 'note'>;
