/** Types that cross the ABI: tables of the build, a model's description, tensors, errors. */

/** `Uint8Array<ArrayBuffer>`, as `new Blob` takes it; before TypeScript 5.9 `Uint8Array`. */
export type Bytes = ReturnType<TextEncoder['encode']>;

/** A copy of numbers from the engine. `data` is row-major in `shape`; NaN means undefined. */
export interface Tensor {
  readonly shape: readonly number[];
  readonly data: Float32Array | Int32Array;
}

export interface OperationParameter {
  readonly name: string;
  readonly default: number;
  readonly min: number;
  readonly max: number;
  readonly meaning?: string;
  /** A trained model may have one value per query head; an edit sets one for all heads. */
  readonly per_head: boolean;
}

/** A row of the table of attention operations: how a query's scores become weights. */
export interface Operation {
  readonly name: string;
  readonly label: string;
  readonly formula?: string;
  /** True when every row of weights sums to 1. */
  readonly normalizes: boolean;
  /** True if a model with it can be trained; only a lab's engine has this entry. */
  readonly trainable?: boolean;
  /** Map phi of queries and keys before their product; few models have the weights of 'mlp'. */
  readonly features: 'none' | 'elu1' | 'mlp';
  /** Quantity that sink scores use: 'weights', 'share' (w / sum w), 'share_abs' (|w| / sum |w|). */
  readonly proxy: 'weights' | 'share' | 'share_abs';
  readonly parameters: readonly OperationParameter[];
  readonly source?: string;
}

/** A row of the metric table. `shape` has one letter per dimension, such as ["L", "H", "T"]. */
export interface Metric {
  readonly name: string;
  readonly label: string;
  readonly question?: string;
  readonly unit: string;
  readonly shape: readonly string[];
  /** Lowest and highest possible value; null where unbounded. */
  readonly range: readonly [number | null, number | null];
  /** Arguments that change the metric: any of 'eps', 'tokens', 'layer', 'head', 'base'. */
  readonly arguments: readonly string[];
  /** Trace fields that the run must have recorded. */
  readonly fields: readonly string[];
  /** True if the core accumulates the metric during a run, so that a run with `measuring` has it. */
  readonly accumulated: boolean;
  /** True if accumulated only when `measuring` names it or is true: it takes O(min(T, D)^3). */
  readonly spectral: boolean;
  /** True if a mean over sequences is meaningful; else the metric describes one sequence. */
  readonly averaged: boolean;
  /** True if `measure` computes the metric by default. */
  readonly summary: boolean;
  /** Topic: "sink", "mass", "norm", ... Views and tables select metrics by topic. */
  readonly topic: string;
  readonly source?: string;
}

/** A row of the trace table: a field that a run records. */
export interface Field {
  readonly name: string;
  readonly meaning?: string;
  readonly unit: string;
  readonly shape: readonly string[];
  readonly type: 'f32' | 'i32';
  /** Entry of the architecture that must be set for a model to have this field. */
  readonly needs: 'E' | 'bias_key' | 'gate' | 'dense' | 'gated' | null;
  /** True if every run records the field, even if the caller does not ask for it. */
  readonly always: boolean;
  /** True if a run records the field by default. Other fields are too large for that. */
  readonly standard: boolean;
  readonly averaged: boolean;
  readonly streamed: boolean;
}

export interface EditParameter {
  readonly name: string;
  /** An 'index' counts from 0 below a size; an 'operation' brings its own parameters. */
  readonly type: 'number' | 'integer' | 'index' | 'choice' | 'operation';
  readonly required: boolean;
  /** Value of an absent parameter; null: all indices, or the parameter is required. */
  readonly default: number | string | null;
  readonly min?: number;
  readonly max?: number;
  /** Exclusive upper bound of an index, such as "L", "L+1" or "T" (the run's capacity). */
  readonly below?: string;
  readonly choices?: readonly string[];
  readonly labels?: readonly string[];
  readonly meaning?: string;
}

/** A row of the edit table: a kind of change of a run, never of the weights. */
export interface EditKind {
  readonly name: string;
  readonly meaning?: string;
  /** Template for the name of an edit; `editLabel` fills it in. */
  readonly label: string;
  /** True if no trained model computes like this; false if some models are deployed like this. */
  readonly counterfactual: boolean;
  /** True if the edit can leave the first tokens unchanged, so that another run can reuse them. */
  readonly waits: boolean;
  /** What the model needs: 'causal' (queries see no later keys), 'positions' (it has some). */
  readonly needs: readonly ('causal' | 'positions')[];
  readonly fields: readonly string[];
  readonly parameters: readonly EditParameter[];
  readonly source?: string;
}

/** A setting of a training: a word out of a list, or a number in a range. */
export interface Setting {
  readonly name: string;
  readonly meaning: string;
  readonly whole?: boolean;
  readonly default: number | string;
  readonly min?: number;
  readonly max?: number;
  readonly words?: readonly string[];
}

/**
 * The tables of this build, from the same JSON that C prints, so that no name is written twice.
 * Optional texts (`meaning`, `question`, `source`) come with `engine.explain()`, so that programs
 * which only run models need not download them.
 */
export interface Describe {
  readonly version: string;
  readonly abi: number;
  /** Values of `model_type` in config.json that this build runs. */
  readonly families: readonly string[];
  readonly operations: readonly Operation[];
  readonly metrics: readonly Metric[];
  readonly fields: readonly Field[];
  readonly edits: readonly EditKind[];
  readonly training?: {
    readonly settings: readonly Setting[];
    /** What the model may be: the words or the range of each setting of `labConfig`. Only in `explain()`. */
    readonly model?: readonly Omit<Setting, 'meaning' | 'default'>[];
    /** Number of parts of a batch, and so the largest number of workers that share a training. */
    readonly parts: number;
    readonly tasks: readonly {
      readonly name: string;
      readonly meaning: string;
      readonly source: string;
    }[];
    readonly log: readonly {
      readonly name: string;
      readonly meaning: string;
      readonly unit: string;
    }[];
  };
  readonly status: readonly {
    readonly code: number;
    readonly name: string;
    readonly meaning?: string;
  }[];
  readonly letters: Readonly<Record<string, string>>;
  /** The values that the tables of Gu et al. use. */
  readonly defaults: {
    readonly eps: number;
    /** Tokens per sequence. */
    readonly tokens: number;
    /** Largest k in a table, which shows Sink_1 and the largest Sink_k of k = 2 .. keys. */
    readonly keys: number;
  };
  readonly limits: {
    /** Most tokens of a run that evicts within the context. */
    readonly tokens: number;
    readonly threads: number;
    /** Size of an encoded edit: its parameters and those of the operation that it names. */
    readonly edit_values: number;
  };
  /** Bits of a run's field mask that select no field, but set the mode of the run. */
  readonly flags: Readonly<Record<'streaming' | 'measuring' | 'spectral', number>>;
}

export interface Rotary {
  /** Pair j of rotary_width/2 rotates by theta^(-2j/rotary_width) per position. */
  readonly theta: number;
  /** Method that extends positions beyond the context of training. */
  readonly scaling: 'none' | 'linear' | 'llama3' | 'proportional' | 'yarn';
  /** Slow pairs rotate `factor` times slower; present with a scaling only. */
  readonly factor?: number;
}

/** The common description of all model families. */
export interface Architecture {
  readonly family: string;
  readonly L: number;
  readonly H: number;
  readonly G: number;
  readonly D: number;
  readonly K: number;
  /** Width of values and head outputs; K in most models. */
  readonly U: number;
  /** Feed-forward width, per expert if there are experts. */
  readonly F: number;
  readonly V: number;
  /** Number of experts per layer; 0 for a dense feed-forward. */
  readonly E: number;
  /** Number of experts that each token is routed to (top k). */
  readonly chosen: number;
  /** Longest sequence that the model was trained for, in tokens. */
  readonly context: number;
  readonly parameters: number;
  readonly positions: 'none' | 'learned' | 'sinusoid' | 'rotary' | 'alibi' | 'relative';
  /** Number of leading dimensions of a head that rotate; rotary positions only. */
  readonly rotary_width?: number;
  readonly rotary?: Rotary;
  /** Rotary embedding of layers with a window, if it differs. */
  readonly window_rotary?: Rotary;
  /**
   * Keys that a query sees. `causal`: its own and earlier ones; `window`: the last `window` of these;
   * `prefix`: these and the first `prefix` keys; `bidirectional`: all.
   */
  readonly mask: {
    readonly kind: 'causal' | 'window' | 'prefix' | 'bidirectional';
    readonly window?: number;
    readonly prefix?: number;
  };
  readonly mask_token: number | null;
  /** Number of all layers, given only if some have no attention. L counts those with attention. */
  readonly blocks?: number;
  /** [L]: the model's indices of the layers with attention, given only if some have none. */
  readonly layers?: readonly number[];
  /** [L]: number of keys that a query sees, including its own; null: all earlier ones. */
  readonly windows: readonly (number | null)[];
  /** A key without token that every query sees: one per key/value head, or one for all. */
  readonly bias_key: 'head' | 'shared' | null;
  /** Value of the bias key; null: 0. */
  readonly bias_key_value: 'head' | 'shared' | null;
  /** Bias added to a head's output. */
  readonly value_bias: 'head' | 'shared' | null;
  /** Sigmoid gate of the hidden state that multiplies a head's output or the values. */
  readonly gate:
    'output_element' | 'output_head' | 'value_element' | 'value_head' | 'value_state' | null;
  /** The output matrix reads the concatenated heads, or their sum. */
  readonly heads: 'joined' | 'added';
  readonly norm: 'layer' | 'rms';
  /** 'pre': before each half of a block; 'post': after its sum; 'branch': of its output only. */
  readonly norm_place: 'pre' | 'post' | 'branch';
  /** Outputs of attention and feed-forward are normed before the residual sum, too. */
  readonly branch_norms: boolean;
  /** Norm of queries and keys: per head before or after rotation, or over all heads at once. */
  readonly qk_norm: 'head' | 'head_rotated' | 'all_heads' | null;
  /** Attention and feed-forward read the same residual stream. */
  readonly parallel: boolean;
  readonly feed_forward: 'plain' | 'gated' | 'none';
  /** One feed-forward for all tokens instead of experts. */
  readonly dense: boolean;
  readonly gated: boolean;
  readonly activation:
    'silu' | 'gelu_tanh' | 'gelu' | 'relu' | 'relu2' | 'clamped_swiglu' | 'xielu';
  /** Queries, keys and values are clipped to this magnitude; absent where they are not. */
  readonly qkv_clip?: number;
  /** Factor of the products q.k: scores are q.k times `score_scale`. */
  readonly score_scale: number;
  /** Factor of what attention and feed-forward add to the residual stream; absent where it is 1. */
  readonly branch_scale?: number;
  readonly logit_scale?: number;
  /** Layers whose queries and keys are not rotated; absent where all are. */
  readonly unrotated?: readonly number[];
  /**
   * [L]: key/value heads, head width and value width of each layer, where layers differ; else absent. G, K and U are the
   * largest of each: rows of key/value heads that a layer lacks are NaN, numbers after a layer's own width are 0.
   */
  readonly sizes?: readonly { readonly G: number; readonly K: number; readonly U: number }[];
  /** Values are normed head by head; absent where they are not. */
  readonly value_norm?: true;
  /** The values of layers that see all keys are their keys as projected; absent where they are not. */
  readonly keys_as_values?: true;
  /** Layers with the operation's sink logits; the others use softmax. Absent: all, or none. */
  readonly sink_layers?: readonly number[];
  /** Widths of compressed queries, and of keys and values, in latent attention; else absent. */
  readonly q_latent?: number;
  readonly kv_latent?: number;
  /** Feed-forward width of the experts that every token goes through; absent where there are none. */
  readonly shared_F?: number;
  /** Layers without experts in a model that has experts in the others, and their feed-forward width. */
  readonly dense_layers?: readonly number[];
  readonly dense_F?: number;
  readonly embedding_scale: number;
  /** D, or another width that is projected to D and, before the LM head, back. */
  readonly embedding_width: number;
  readonly embedding_norm: boolean;
  /** c of the soft cap c tanh(x / c) on scores and logits; null: no cap. */
  readonly score_cap: number | null;
  readonly logit_cap: number | null;
  readonly tied: boolean;
  /** False if the file has no output head, as files of base models: there are no logits. */
  readonly head?: boolean;
  readonly attention: {
    readonly operation: string;
    readonly parameters: Readonly<Record<string, number>>;
  };
}

export interface Progress {
  /** The current stage: 'read', 'open', 'tokenizer', 'run', 'generate' or 'measure'. */
  readonly stage: string;
  /**
   * Progress in bytes for 'read', merges for 'tokenizer', tokens for 'run' and 'generate', runs for 'measure', else
   * 0..1.
   */
  readonly done: number;
  /** NaN when unknown. */
  readonly total: number;
  /** Smoothed, per second: bytes, or for 'measure' runs of all workers. NaN until known. */
  readonly rate?: number;
  /** Seconds until the file is read; NaN until known. */
  readonly remaining?: number;
  /** A sentence for the reader, such as that a cut connection was reopened. */
  readonly note?: string;
}

export interface Options {
  /** Stops the work between two layers; the promise rejects with the signal's reason. */
  readonly signal?: AbortSignal;
  readonly onProgress?: (progress: Progress) => void;
}
