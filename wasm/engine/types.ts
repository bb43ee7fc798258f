/** Open models, run tokens through them, and read what the runs recorded. */
import type { Architecture, Bytes, Describe, Options, Tensor } from '../abi/types.ts';
import type { SinkscopeError } from '../abi/errors.ts';

/** Replaces the attention operation of heads. An absent layer or head means all of them. */
export interface OperationEdit {
  readonly kind: 'operation';
  readonly layer?: number;
  readonly head?: number;
  readonly operation: string;
  /** Parameters by their names in describe.operations; absent ones take their defaults. */
  readonly parameters?: Readonly<Record<string, number>>;
}

/** Queries see only the first and the most recent keys, themselves included. */
export interface MaskEdit {
  readonly kind: 'mask';
  readonly layer?: number;
  readonly head?: number;
  readonly first: number;
  readonly recent: number;
}

/** A row of describe.edits: `kind`, and parameters by name; layers, heads, tokens from 0 on. */
export interface NamedEdit {
  readonly kind: string;
  readonly [parameter: string]: string | number | undefined;
}

/** A counterfactual change of a run, never of the weights; of contradicting ones the last wins. */
export type Edit = OperationEdit | MaskEdit | NamedEdit;

export interface OpenOptions extends Options {
  /** Called with the `header` of the model as soon as it has been read, before the weights. */
  readonly onHeader?: (header: Uint8Array) => void;
}

export interface RunOptions extends Options {
  /** Names from describe.fields; default: the fields that are `standard`. */
  readonly fields?: readonly string[];
  readonly edits?: readonly Edit[];
  /**
   * Number of tokens that the run has memory for, generation included; default: the given tokens +
   * 64, at most the context. A rotary model can read beyond its context if every head evicts within
   * the context; the position of a key is then its position in the cache.
   */
  readonly capacity?: number;
  /**
   * A run of this model and these tokens, in the same worker, that this one begins from. With a
   * layer: the new run copies the residual stream after `layer` layers (0: the embedding) and all
   * fields below, and computes only the layers above, under these edits. The base run must have
   * recorded `hidden` and, for the layers below, the fields of this run. Without a layer: the new
   * run copies the layers and the tokens that no edit touches, as far as both runs recorded what
   * this takes (`hidden` for layers, `att` for evictions); it has the same bits as a run from
   * scratch and can be extended and updated.
   */
  readonly from?: { readonly run: Run; readonly layer?: number };
  /**
   * Bytes that attention maps (`att`, `scores`) may take; default 64 MiB. Beyond that, the run
   * keeps queries and keys, computes each row when it is read, to the same bits, and accumulates
   * the metrics of maps as it goes: memory then grows with the number of tokens, not with its
   * square. 0 stores no map.
   */
  readonly maps?: number;
  /**
   * Of `att`, `scores`, `q`, `k`, `v` and `hidden`, keeps only what `accumulated` metrics need,
   * over all tokens, and no rows: a fifth of the memory for a long text. The run refuses reads of
   * these fields and of other metrics that need them. It cannot begin from another run, nor another
   * run from it, and no token can be appended, because its keys are gone. A list names the metrics
   * that will be read; `spectral` metrics are measured only if the list names them.
   */
  readonly measuring?: boolean | readonly string[];
  /**
   * Keeps only the keys and values that an eviction keeps, so that memory grows with its budget
   * and, by 12 bytes per token, with the text. Every head must evict, query by query (not snapkv);
   * only `streamed` fields can be recorded. The losses have the same bits as without streaming.
   */
  readonly streaming?: boolean;
}

export interface Where {
  readonly layer?: number;
  readonly head?: number;
}

export interface FieldWhere extends Where {
  /** Rows [from, to) of the first dimension T: queries of a map, tokens of other fields. Default: all. */
  readonly rows?: readonly [number, number];
  /**
   * For 'att' and 'scores': block size. Instead of cells the read gives blocks of `block` queries
   * by `block` keys, [.., 2, P, P] with P = ceil(T / block): the mean, then the maximum of the
   * visible cells. Excludes `rows`.
   */
  readonly block?: number;
}

export interface MetricArguments extends Where {
  /** Threshold of Sink_k^eps; the default is in describe.defaults. */
  readonly eps?: number;
  /** Restricts the metric to the first `tokens` tokens; default: all. */
  readonly tokens?: number;
  /** The run that such metrics compare with; it has the same model, worker and fields. */
  readonly base?: Run;
}

export type RunRead =
  ({ readonly field: string } & FieldWhere) | ({ readonly metric: string } & MetricArguments);

export interface GenerateOptions extends Options {
  readonly count: number;
  /** 0 is greedy decoding. Default 0. */
  readonly temperature?: number;
  /** Draws from the K most likely tokens; 0 means all. Default 0. */
  readonly topK?: number;
  readonly seed?: number;
}

export interface Step {
  readonly token: number;
  /** Position of the token, 0-based. */
  readonly position: number;
  /** Weights of this token's query: [L, H, position + 1]; [L, H, 0] without the field 'att'. */
  readonly att: Tensor;
}

/**
 * Calls on one run form a chain, whether or not the caller awaits them: each sees what the previous
 * call left. Reads between two changes (update, a step of generate, close) travel together; close
 * waits for earlier calls. A call that waits for its turn ends at once when its signal is aborted.
 */
export interface Run {
  readonly tokens: readonly number[];
  readonly edits: readonly Edit[];
  /**
   * Reads a recorded field, [.., T, ..]; layer, head and rows select a part.
   * @example const rows = await run.field('att', { layer: 3, head: 1, rows: [4000, 4064] }); // [64, T]
   */
  field(name: string, where?: FieldWhere): Promise<Tensor>;
  metric(name: string, args?: MetricArguments): Promise<Tensor>;
  /** Reads many fields and metrics in one round trip, in order. */
  read(reads: readonly RunRead[]): Promise<Tensor[]>;
  /**
   * Appends tokens one after another; the trace grows with them. Each step is its own call in the
   * run's chain.
   * @example for await (const step of run.generate({ count: 8 })) show(step.token);
   */
  generate(options: GenerateOptions): AsyncIterable<Step>;
  /**
   * Replaces the run's tokens, at most `capacity`, with the same bits as a new run. The run reuses
   * what it recorded of the longest common prefix, so appending one token costs one token, and
   * changing one costs this token and all after it. After an eviction, and where tokens depend on later
   * ones (prefix and bidirectional masks, edits that look at all tokens), everything is computed. A
   * refused or stopped update leaves the run as it was.
   * @example await run.update([...run.tokens, next]);
   */
  update(tokens: ArrayLike<number>, options?: Options): Promise<void>;
  /**
   * Returns the run as the bytes of a recording: the fields of its prompt, without means.
   * @example const bytes = await run.record({ fields: ['att'], strings: (ids) => ids.map(piece) });
   */
  record(options?: RecordOptions): Promise<Bytes>;
  close(): Promise<void>;
}

export interface Model {
  readonly architecture: Architecture;
  readonly describe: Describe;
  /**
   * This model in each worker of the engine, itself first. A replica opens at its first run and
   * closes with this model. There are fewer replicas of large models: all copies take up to 1 GiB.
   */
  readonly replicas: readonly Replica[];
  /** The start of a GGUF file, which holds its metadata and so its tokenizer; other files have none. */
  readonly header?: Uint8Array;
  run(tokens: ArrayLike<number>, options?: RunOptions): Promise<Run>;
  /**
   * Returns the bytes that a run of `tokens` tokens will take, without the model.
   * @example await model.runBytes(4000, { streaming: true, edits });
   */
  runBytes(tokens: number, options?: Omit<RunOptions, 'from' | keyof Options>): Promise<number>;
  /**
   * Returns a value of a GGUF file's metadata; undefined if the file lacks the key or has another
   * format.
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

export type Replica = Pick<Model, 'architecture' | 'describe' | 'run'>;

export type Recordable = Pick<Model, 'architecture' | 'describe'>;

export interface EngineOptions {
  /** Runs the engine in a worker; default: wherever one can start. */
  readonly worker?: boolean;
  /** Loads the binary that can also train models and is a quarter larger. */
  readonly lab?: boolean;
  /** Folder of the .wasm files; default: next to the module. */
  readonly base?: URL | string;
  /**
   * Number of workers that share a study; default: one less than the number of cores, but 2 on two
   * cores. The first worker does everything else; the others start when a study needs them.
   */
  readonly workers?: number;
  /**
   * Largest number of threads that share the work of one run; default 1. They share memory, which a
   * browser allows only in a cross-origin isolated page, and need a worker. Only
   * the first worker has threads; training has none. They start with the first model of 8 million
   * parameters or more. Where the host offers none, one thread computes. Any
   * number of threads gives the same bits.
   */
  readonly threads?: number;
  /**
   * Called with the error 'lost' of pending calls when a worker or its core ends.
   * The next call restarts the engine, reopens the model and repeats the run, which stay valid.
   */
  readonly onLost?: (error: SinkscopeError) => void;
}

/* Recordings: what one says of its origin, and how it is made. */

/** The conditions of a recording. Strings are plain text, never markup. */
export interface Conditions {
  readonly model: {
    readonly id: string;
    readonly revision: string | null;
    /** SHA-256 of the weight file. */
    readonly sha256: string | null;
    readonly family: string;
    /** The recorded part of a model of several: 'vision_model', 'encoder', 'decoder', 'cross'. */
    readonly part?: string;
    /** Number of layers with attention. */
    readonly L: number;
    /** Number of all layers: hidden states have blocks + 1 rows. */
    readonly blocks: number;
    /** [L]: the model's indices of the layers with attention. */
    readonly layers: readonly number[];
    readonly H: number;
    readonly G: number;
    readonly K: number;
    /** Width of values; K where the recording does not say. */
    readonly U: number;
    readonly D: number;
    readonly V: number;
    /** Width of the feed-forward layers; 0 if unknown. */
    readonly F: number;
    readonly E: number;
    /** Type of the arithmetic: 'float32', 'bfloat16', ... */
    readonly dtype: string | null;
    /** Implementation of attention: 'sdpa', 'eager', 'sinkscope', ... */
    readonly attention: string | null;
    readonly operation: string;
    readonly mask: Architecture['mask'];
    /** [L]: number of keys that a query sees, including its own; null: all earlier ones. */
    readonly windows: readonly (number | null)[];
  };
  /** The first measured token and its position. */
  readonly first: {
    readonly token: string | null;
    readonly id: number | null;
    readonly position: number;
  };
  readonly tokens: readonly (readonly string[])[];
  /**
   * Only of cross-attention: T queries of a decoder, with the token strings of each kept prompt, attend to the keys of
   * an encoder, which `tokens`, prompts.T and all numbers by token are of.
   */
  readonly cross?: {
    readonly T: number;
    readonly keys: 'token' | 'frame' | 'patch';
    readonly tokens: readonly (readonly string[])[];
  };
  /**
   * The image of each kept prompt; absent if the prompts have none. `kinds` has a letter for each token: t text, i a patch
   * of the image, s special. The patches lie in rows * cols, unless these are absent.
   */
  readonly images?: readonly {
    readonly kinds: string;
    readonly rows?: number;
    readonly cols?: number;
  }[];
  readonly prompts: {
    readonly source: string | null;
    /** SHA-256 of the token ids of all prompts. */
    readonly sha256: string | null;
    /** SHA-256 of the text that the prompts are cut from. */
    readonly source_sha256: string | null;
    readonly count: number;
    /** Number of prompts whose fields were recorded. */
    readonly kept: number;
    readonly T: number;
    /** How many of the last tokens of each prompt the model generated; absent: none. */
    readonly generated?: number;
  };
  readonly eps: readonly number[];
  /** Edits of the runs, each with its name as `label`; empty: unedited. */
  readonly edits: readonly (Edit & { readonly label: string })[];
  readonly class: string;
  readonly license: string | null;
  readonly versions: Readonly<Record<string, string>>;
  readonly command: string | null;
}

export interface About {
  readonly model?: {
    readonly id?: string;
    readonly revision?: string | null;
    readonly sha256?: string | null;
  };
  readonly first?: Partial<Conditions['first']>;
  /** Origin of the prompts, and its hash. */
  readonly source?: string;
  readonly sourceSha256?: string;
  readonly class?: string;
  readonly license?: string;
  readonly command?: string;
}

export interface RecordOptions extends About {
  /** Fields besides token ids, losses, norms and exact alpha; default: ['att']. */
  readonly fields?: readonly string[];
  /** Records these fields in half precision; default true. Everything else is in F32. */
  readonly half?: boolean;
  /** Thresholds of Sink_k; the default is in describe.defaults. */
  readonly eps?: readonly number[];
  /** Converts ids to token strings; default: the numbers. */
  readonly strings?: (ids: readonly number[]) => readonly string[];
}
