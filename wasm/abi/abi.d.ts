/** What crosses the ABI: the tables of the build, a model's description, tensors, errors. */

/**
 * Bytes of a file, of which a Blob can be made: `Uint8Array<ArrayBuffer>` where TypeScript knows that type (5.9 and
 * newer), else `Uint8Array`.
 */
export type Bytes = ReturnType<TextEncoder['encode']>;

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
  readonly meaning?: string;
  /** A trained model may carry one value per query head; an edit gives one for all of them. */
  readonly per_head: boolean;
}

/** A row of the attention-operation table: how scores of one query become weights. */
export interface Operation {
  readonly name: string;
  readonly label: string;
  readonly formula?: string;
  /** True when every row of weights sums to 1. */
  readonly normalises: boolean;
  /** It has a derivative, so that a model that computes it can be trained; of a lab's engine only. */
  readonly trainable?: boolean;
  /** phi, of queries and keys before their product; 'mlp' needs weights that few models have. */
  readonly features: 'none' | 'elu1' | 'mlp';
  /** How sink scores are taken: 'weights', 'share' (w / sum w), 'share_abs' (|w| / sum |w|). */
  readonly proxy: 'weights' | 'share' | 'share_abs';
  readonly parameters: readonly OperationParameter[];
  readonly source?: string;
}

/** A row of the metric table. `shape` uses the letters, for example ["L", "H", "T"]. */
export interface Metric {
  readonly name: string;
  /** Short, in the field's notation: "Sink_k". */
  readonly label: string;
  readonly question?: string;
  readonly unit: string;
  readonly shape: readonly string[];
  /** Lowest and highest possible value; null where there is none. */
  readonly range: readonly [number | null, number | null];
  /** Which arguments change it: any of 'eps', 'tokens', 'layer', 'head', 'base'. */
  readonly arguments: readonly string[];
  /** Which trace fields the run must have recorded. */
  readonly fields: readonly string[];
  /** Accumulated while a run is computed, so that a run with `measuring` has it although it keeps no map and no query. */
  readonly accumulated: boolean;
  /** A mean over sequences says something; else it belongs to one sequence. */
  readonly averaged: boolean;
  /** Part of a summary: `measure` takes these metrics unless its options name others. */
  readonly summary: boolean;
  /** What it is about: "sink", "mass", "norm", ... A view or a table shows one topic or more. */
  readonly topic: string;
  readonly source?: string;
}

/** A row of the trace table: something a run records. */
export interface Field {
  readonly name: string;
  readonly meaning?: string;
  readonly unit: string;
  readonly shape: readonly string[];
  readonly type: 'f32' | 'i32';
  /** The entry of the architecture that must be set for a model to have it. */
  readonly needs: 'E' | 'bias_key' | 'gate' | 'dense' | 'gated' | null;
  /** Recorded whether asked for or not. */
  readonly always: boolean;
  /** Recorded where no fields are named; else too large for that. */
  readonly standard: boolean;
  /** A mean over sequences says something; else it belongs to one sequence. */
  readonly averaged: boolean;
  /** What a run that streams may record. */
  readonly streamed: boolean;
}

/** One parameter of an edit. */
export interface EditParameter {
  readonly name: string;
  /** An index counts from 0 below a size; an operation is a name whose own parameters go with it. */
  readonly type: 'number' | 'integer' | 'index' | 'choice' | 'operation';
  readonly required: boolean;
  /** What holds where it is absent; null: all of them, or it is required. */
  readonly default: number | string | null;
  /** Of numbers and integers. */
  readonly min?: number;
  readonly max?: number;
  /** Of an index: the letter of the size, for example "L", "L+1" or "T" (the run's capacity). */
  readonly below?: string;
  readonly choices?: readonly string[];
  /** How a reader calls each choice. */
  readonly labels?: readonly string[];
  readonly meaning?: string;
}

/** A row of the edit table: a what-if that is applied to a run, never to the weights. */
export interface EditKind {
  readonly name: string;
  readonly meaning?: string;
  /** A template of what an edit of this kind is called; `editLabel` fills it in. */
  readonly label: string;
  /** Shows what no trained model computes; else what a model computes that is served so. */
  readonly counterfactual: boolean;
  /** It may leave the first tokens as they are: a run can take them over. */
  readonly waits: boolean;
  /** What the model must be: 'causal' (queries see no keys behind them), 'positions' (it has some). */
  readonly needs: readonly ('causal' | 'positions')[];
  /** Fields that a run with it records. */
  readonly fields: readonly string[];
  readonly parameters: readonly EditParameter[];
  readonly source?: string;
}

/** A setting of a training: one of its words, or a number in a range. */
export interface Setting {
  readonly name: string;
  readonly meaning: string;
  readonly whole: boolean;
  readonly default: number | string;
  readonly min?: number;
  readonly max?: number;
  readonly words?: readonly string[];
}

/**
 * What exists in this build; the same JSON that C prints, so that no name is written twice. A `meaning`, `question` or
 * `source` that may be missing comes with `engine.explain()`: who only runs models does not download these texts.
 */
export interface Describe {
  readonly version: string;
  readonly abi: number;
  /** 'base' or 'simd'. */
  readonly kernels: string;
  readonly operations: readonly Operation[];
  readonly metrics: readonly Metric[];
  readonly fields: readonly Field[];
  readonly edits: readonly EditKind[];
  /** Of a lab's engine only. */
  readonly training?: {
    readonly settings: readonly Setting[];
    /** That a batch is cut into: as many workers can share a training at most. */
    readonly parts: number;
    readonly tasks: readonly {
      readonly name: string;
      readonly meaning: string;
      readonly source: string;
    }[];
    /** The columns of a training's log, one entry a step. */
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
  /** What is asked where nothing else is: of Gu et al.'s tables. */
  readonly defaults: {
    /** Threshold of Sink_k. */
    readonly eps: number;
    /** Tokens of a sequence. */
    readonly tokens: number;
    /** Keys that a table shows: Sink_1 and the largest of k = 2 .. keys. */
    readonly keys: number;
  };
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
  /** Of a recording, all layers of the model; L counts those with attention. */
  readonly blocks?: number;
  /** Of a recording, [L]: the model's own numbers of the layers with attention. */
  readonly layers?: readonly number[];
  /** [L]: how many keys a query sees, its own included; null where it sees all before it. */
  readonly windows: readonly (number | null)[];
  /** A key of no token that every query sees: each key/value head's own, or one for all. */
  readonly bias_key: 'head' | 'shared' | null;
  /** Its value; null: 0. */
  readonly bias_key_value: 'head' | 'shared' | null;
  /** Added to what a head returns. */
  readonly value_bias: 'head' | 'shared' | null;
  /** A sigmoid of the hidden state that multiplies what a head returns, or the values. */
  readonly gate:
    'output_element' | 'output_head' | 'value_element' | 'value_head' | 'value_state' | null;
  /** The output matrix reads the heads side by side, or their sum. */
  readonly heads: 'joined' | 'added';
  readonly norm: 'layer' | 'rms';
  /** Before each half of a block; after its sum; or only of what the half adds. */
  readonly norm_place: 'pre' | 'post' | 'branch';
  /** What attention and feed-forward add is normed, too. */
  readonly branch_norms: boolean;
  /** Queries and keys are normed: head by head, before or after they are rotated, or all heads of a
   * token as one vector. */
  readonly qk_norm: 'head' | 'head_rotated' | 'all_heads' | null;
  /** Attention and feed-forward read the same residual stream. */
  readonly parallel: boolean;
  readonly feed_forward: 'plain' | 'gated' | 'none';
  /** One feed-forward for all tokens, no experts; and whether it has a gate. */
  readonly dense: boolean;
  readonly gated: boolean;
  readonly activation: 'silu' | 'gelu_tanh' | 'gelu' | 'relu' | 'clamped_swiglu';
  /** Scores are q.k times this. */
  readonly score_scale: number;
  /** Token vectors are multiplied by this. */
  readonly embedding_scale: number;
  /** Numbers of a token's vector: D, or projected to D and, before the head, back. */
  readonly embedding_width: number;
  /** The vectors of tokens are normed before the first layer. */
  readonly embedding_norm: boolean;
  /** c of a score or a logit x that becomes c tanh(x / c); null: it stays. */
  readonly score_cap: number | null;
  readonly logit_cap: number | null;
  readonly tied: boolean;
  readonly attention: {
    readonly operation: string;
    readonly parameters: Readonly<Record<string, number>>;
  };
}

/** What went wrong, where (a tensor, a key, a byte), and a sentence with expected and actual. */
export class SinkscopeError extends Error {
  constructor(code: string, where: string, text: string);
  /**
   * A name from describe.status, or one of JavaScript's own: 'argument', 'read', 'access' (a token
   * is needed), 'not_found', 'busy', 'offline', 'too_large', 'closed', 'lost', 'abi', 'bad_tokenizer',
   * 'too_slow', 'internal'.
   */
  readonly code: string;
  readonly where: string;
  /** The sentence alone; message is "where: text". */
  readonly text: string;
}
