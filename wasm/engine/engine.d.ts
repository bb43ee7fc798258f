/** Opening models, running tokens through them, reading what the runs recorded. */
import type { Architecture, Bytes, Describe, SinkscopeError, Tensor } from '../abi/abi.js';
import type { RecordOptions, Recording } from '../recording/recordings.js';
import type { ModelFiles, Source } from '../loading/loading.js';
import type { TrainOptions, Training } from '../lab/lab.js';

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

/**
 * Any row of describe.edits: its name as kind, and its parameters by their names. Layers, heads and
 * tokens count from 0.
 */
export interface NamedEdit {
  readonly kind: string;
  readonly [parameter: string]: string | number | undefined;
}

/**
 * A what-if applied to a run, never to the weights. They combine; of two that say one thing the last
 * one wins.
 */
export type Edit = OperationEdit | MaskEdit | NamedEdit;

/**
 * An edit out of "NAME:key=value,key=value", as the command line takes it.
 * @throws SinkscopeError 'argument' for a name that is not in the table
 * @example readEdit('evict:policy=window,budget=24', engine.describe)
 */
export function readEdit(text: string, describe: Describe): Edit;

/**
 * What an edit is called: a phrase for titles and legends, with indices from 0.
 * @throws SinkscopeError 'argument' for a kind that is not in the table
 * @example editLabel({ kind: 'hide_key', key: 0, layer: 1, head: 3 }, describe) // first token hidden in L1H3
 */
export function editLabel(edit: Edit, describe: Describe): string;

export interface Progress {
  /** What is being done: 'read', 'open', 'run', 'generate', 'measure'. */
  readonly stage: string;
  /** In bytes for 'read', in tokens for 'run' and 'generate', in runs for 'measure', else 0..1. */
  readonly done: number;
  /** NaN when unknown. */
  readonly total: number;
  /** Bytes a second, smoothed; for 'measure' runs a second of all workers together. NaN until known. */
  readonly rate?: number;
  /** Seconds until the file is read; NaN until known. */
  readonly remaining?: number;
  /** A sentence: that a connection was cut and is opened again, or that nothing can be kept. */
  readonly note?: string;
}

export interface Options {
  /** Stops between two layers; the promise rejects with the signal's reason. */
  readonly signal?: AbortSignal;
  readonly onProgress?: (progress: Progress) => void;
}

/**
 * How matrices are multiplied: 'exact' in floats, to the same bits in every build; 'relaxed' in floats
 * that the host may round once where it adds a product, not twice: a quarter faster, and within 2e-5 of
 * the largest number of a field, as exact ones are, of what is computed in F64; 'int8' in whole numbers,
 * those of weights with a scale for each output, those of rows with one for each token, found as it runs:
 * several times as fast and approximate; norms, attention, routers and metrics stay in floats.
 */
export type Arithmetic = 'exact' | 'relaxed' | 'int8';

export interface OpenOptions extends Options {
  /**
   * Default 'exact'. The others take binaries and workers of their own. 'relaxed' is
   * exact where the host fuses no products. 'int8' takes a byte more for each weight; SinkscopeError
   * 'unsupported' on a host without SIMD.
   */
  readonly arithmetic?: Arithmetic;
}

export interface RunOptions extends Options {
  /** Names from describe.fields; default: those that are `standard`. */
  readonly fields?: readonly string[];
  readonly edits?: readonly Edit[];
  /**
   * Tokens there must be room for, generation included; default: the tokens given + 64, at most the
   * context. A rotary model reads on beyond it where every head evicts within the context, with
   * positions as in the cache.
   */
  readonly capacity?: number;
  /**
   * A run of this model and these tokens, in the same worker, that this one begins from: its residual
   * stream after so many layers (0: the embedding) and what lies below are copied, and
   * only what lies above is computed, under these edits. It must have recorded `hidden`, and of the
   * layers below what this one records. Without a layer: whatever no edit touches is taken, the layers
   * below and the tokens before, as far as both have recorded what this takes (`hidden` for layers, `att`
   * for evictions); no bit depends on it, and the run can be extended and updated like any other.
   */
  readonly from?: { readonly run: Run; readonly layer?: number };
  /**
   * Bytes that maps (`att`, `scores`) may take; default 64 MiB. Where they would take more, the run keeps queries
   * and keys and computes the rows that are read, to the same bits, and metrics of maps are accumulated meanwhile:
   * memory grows with the tokens, not with their square. 0 stores no map.
   */
  readonly maps?: number;
  /**
   * Of `att`, `scores` and `q` the run keeps what `accumulated` metrics need, over all of its tokens, and no rows:
   * a third less memory of a long text. Other metrics of these fields, and the fields themselves, are refused; such a
   * run begins from no other one, and no other begins from it.
   */
  readonly measuring?: boolean;
  /**
   * Of keys and values only what an eviction keeps is held, so that memory grows with its budget and,
   * by 12 bytes a token, with the text. Every head must evict, query by query (not snapkv); fields are
   * those that are `streamed`. The losses have the same bits.
   */
  readonly streaming?: boolean;
}

export interface Where {
  readonly layer?: number;
  readonly head?: number;
}

/** Which part of a field is read. */
export interface FieldWhere extends Where {
  /** Rows [from, to) of the first dimension T: queries of a map, tokens of other fields. Default: all. */
  readonly rows?: readonly [number, number];
  /**
   * Of 'att' and 'scores': blocks of so many queries and keys instead of cells, [.., 2, P, P] with P = T / block
   * rounded up: the mean, then the largest of the cells that the mask shows to the queries. Without `rows`.
   */
  readonly block?: number;
}

export interface MetricArguments extends Where {
  /** Threshold of Sink_k^eps; default: describe.defaults. */
  readonly eps?: number;
  /** Only the first so many tokens; default: all. */
  readonly tokens?: number;
  /**
   * For metrics that have it among their `arguments`: the run to compare with, of the same model, in
   * the same worker, with the same fields.
   */
  readonly base?: Run;
}

/** One read out of a run: a field or a metric. */
export type Read =
  ({ readonly field: string } & FieldWhere) | ({ readonly metric: string } & MetricArguments);

/**
 * The fields that a run must record for what is read from it.
 * @example const run = await model.run(ids, { fields: fieldsFor(engine.describe, reads) });
 */
export function fieldsFor(describe: Describe, reads: readonly Read[]): string[];

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

/**
 * Calls on one run form a chain, whether or not the caller waits: each sees what the one before it left. Reads
 * between two changes (update, a step of generate, close) travel together; close waits for the calls before it.
 * A call that waits for its turn ends at once when its signal is aborted.
 */
export interface Run {
  /** Tokens in the run so far: the prompt's and the generated. */
  readonly tokens: readonly number[];
  readonly edits: readonly Edit[];
  /**
   * A recorded field, [.., T, ..]; give layer and head to take only theirs, and rows to take only those.
   * @example const rows = await run.field('att', { layer: 3, head: 1, rows: [4000, 4064] }); // [64, T]
   */
  field(name: string, where?: FieldWhere): Promise<Tensor>;
  metric(name: string, args?: MetricArguments): Promise<Tensor>;
  /** Many reads in one round trip, in order. */
  read(reads: readonly Read[]): Promise<Tensor[]>;
  /**
   * Adds one token after another; the trace grows with them. Each step is a call of its own in the run's chain.
   * @example for await (const step of run.generate({ count: 8 })) show(step.token);
   */
  generate(options: GenerateOptions): AsyncIterable<Step>;
  /**
   * Makes the run one of these tokens, at most its capacity, to the bits of a new run. The run keeps what it
   * recorded of the first tokens that both texts have, so a token at the end costs one token, and one in the
   * middle what follows it; after an eviction, and where tokens depend on later ones (prefix and bidirectional
   * masks, edits that look at all tokens), everything is computed. An update that is refused or stopped leaves
   * the run as it was.
   * @example await run.update([...run.tokens, next]);
   */
  update(tokens: ArrayLike<number>, options?: Options): Promise<void>;
  /**
   * The run as the bytes of a recording: fields of its prompt, without means.
   * @example const bytes = await run.record({ fields: ['att'], strings: (ids) => ids.map(piece) });
   */
  record(options?: RecordOptions): Promise<Bytes>;
  close(): Promise<void>;
}

export interface Model {
  readonly architecture: Architecture;
  /** As it was opened. */
  readonly arithmetic: Arithmetic;
  /** The engine's. */
  readonly describe: Describe;
  /**
   * This model in each worker of the engine, itself first. It is opened there when it is first run
   * there, and closed with this one. As many as fit: the copies take up to 1 GiB.
   */
  readonly replicas: readonly Replica[];
  run(tokens: ArrayLike<number>, options?: RunOptions): Promise<Run>;
  /**
   * Bytes that a run of so many tokens will take, beside the model.
   * @example await model.runBytes(4000, { streaming: true, edits });
   */
  runBytes(tokens: number, options?: Omit<RunOptions, 'from' | keyof Options>): Promise<number>;
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

/** A model in one of the engine's workers. */
export type Replica = Pick<Model, 'architecture' | 'describe' | 'run'>;

export interface Engine {
  readonly describe: Describe;
  /**
   * The same with what is for a reader, and what a lab has: each `meaning`, `question` and `source`, of
   * sinkscope.describe.json beside the binaries, which each call fetches.
   */
  explain(): Promise<Describe>;
  open(files: ModelFiles, options?: OpenOptions): Promise<Model>;
  /**
   * Opens a recording: what a model did on some prompts, without the model. The first fetches another binary,
   * that of `lab`.
   * @throws SinkscopeError with the tensor or the key for a file that is none, or contradicts itself
   * @example
   * const recording = await engine.openRecording(new URL('smollm2.safetensors', location.href));
   * const sink = (await recording.mean('sink_ratio')).data[0];
   */
  openRecording(source: Source, options?: Options): Promise<Recording>;
  /** Begins a training, in a worker of its own as long as there are so many. Needs `lab: true`. */
  train(options: TrainOptions): Promise<Training>;
  /** Bytes of memory that all its workers hold; what is closed is used again, so it grows with the peak. */
  memory(): Promise<number>;
  /** Ends the worker. In Node.js the process lives until then. */
  close(): Promise<void>;
}

export interface EngineOptions {
  /** Run in a worker; by default wherever one can be started. */
  readonly worker?: boolean;
  /** 'simd', 'base', or 'auto' (the default: SIMD where the host validates it). */
  readonly kernels?: 'auto' | 'simd' | 'base';
  /** With what trains models: another binary, larger by a quarter. */
  readonly lab?: boolean;
  /** The folder where the .wasm files lie; default: beside the module. */
  readonly base?: URL | string;
  /**
   * Among how many workers a study is spread; default: one less than the cores, or both of two. The first
   * does all else, the others are started when they are needed.
   */
  readonly workers?: number;
  /**
   * How many threads share the work of one run, at most; default 1. They share memory, which a browser
   * allows only in a page that is cross-origin isolated; they need a worker and SIMD, are the first
   * worker's of each arithmetic, do not train, and are started when a model comes that is worth
   * it (of 8 million numbers and more). Where they cannot be had, one thread does the work. The bits are the same for any number.
   */
  readonly threads?: number;
  /**
   * Called when a worker has ended by itself, or its core has stopped. What was under way rejects with
   * the same error, code 'lost'. The next call restarts the engine, opens the model from its
   * files and repeats the run: models and runs stay good.
   */
  readonly onLost?: (error: SinkscopeError) => void;
}

export function createEngine(options?: EngineOptions): Promise<Engine>;
