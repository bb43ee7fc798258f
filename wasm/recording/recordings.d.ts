/** Recordings: what a model did on some prompts, in one safetensors file; and making them. */
import type { Architecture, Bytes, Describe, Tensor } from '../abi/abi.js';
import type { Edit, MetricArguments, Model, Options, Read, Run, Where } from '../engine/engine.js';
import type { MeasureOptions, Measurement, Studied } from '../study/study.js';

/** Under which conditions a recording was made. Strings are text, never markup. */
export interface Conditions {
  readonly model: {
    readonly id: string;
    readonly revision: string | null;
    /** Of the file of weights. */
    readonly sha256: string | null;
    readonly family: string;
    /** Layers with attention. */
    readonly L: number;
    /** All layers: hidden states have blocks + 1 rows. */
    readonly blocks: number;
    /** [L]: the model's own numbers of the layers with attention. */
    readonly layers: readonly number[];
    readonly H: number;
    readonly G: number;
    readonly K: number;
    readonly D: number;
    readonly V: number;
    /** 0 where the recording does not say. */
    readonly F: number;
    readonly E: number;
    /** Of the arithmetic, 'float32', 'bfloat16', ... */
    readonly dtype: string | null;
    /** The implementation of attention, 'sdpa', 'eager', 'sinkscope', ... */
    readonly attention: string | null;
    /** A row of describe.operations. */
    readonly operation: string;
    readonly mask: Architecture['mask'];
    /** [L]: how many keys a query sees, its own included; null where it sees all before it. */
    readonly windows: readonly (number | null)[];
  };
  /** The first token, and at which position the first token is that was measured. */
  readonly first: {
    readonly token: string | null;
    readonly id: number | null;
    readonly position: number;
  };
  /** The token strings of each kept prompt. */
  readonly tokens: readonly (readonly string[])[];
  readonly prompts: {
    readonly source: string | null;
    readonly sha256: string | null;
    /** All that were measured. */
    readonly count: number;
    /** Of how many of them maps or vectors were kept. */
    readonly kept: number;
    /** Tokens of each measured prompt. */
    readonly T: number;
  };
  /** The thresholds at which Sink_k was counted. */
  readonly eps: readonly number[];
  /** What was changed during the runs, each with its label in words; empty: nothing was. */
  readonly edits: readonly (Edit & { readonly label: string })[];
  /** 'MEASURED', ... */
  readonly class: string;
  /** Under which the recording may be passed on. */
  readonly licence: string | null;
  readonly versions: Readonly<Record<string, string>>;
  readonly command: string | null;
}

export interface RecordedArguments extends Omit<MetricArguments, 'base'> {
  /** Which of the kept prompts; default 0. */
  readonly prompt?: number;
}

/**
 * What a model did on some prompts, read from a file; there are no weights. It has the face of a run of
 * its first kept prompt, and means over all prompts beside.
 */
export interface Recording extends Pick<Run, 'tokens' | 'edits'> {
  readonly describe: Describe;
  readonly conditions: Conditions;
  /** What a recording says of its model. */
  readonly architecture: Pick<
    Architecture,
    'family' | 'L' | 'H' | 'G' | 'K' | 'D' | 'V' | 'F' | 'E' | 'attention' | 'mask' | 'windows'
  > &
    Required<Pick<Architecture, 'blocks' | 'layers'>>;
  /** Bytes of the file. */
  readonly bytes: number;
  /** Every tensor of the file, by its name: `0.att`, `mean.alpha`, `prompt.loss`. */
  readonly tensors: ReadonlyMap<
    string,
    { readonly dtype: string; readonly shape: readonly number[] }
  >;
  /** A tensor by its name, as floats; layer and head select along its first two dimensions. */
  tensor(name: string, where?: Where): Promise<Tensor>;
  /**
   * The mean of a metric over all prompts, as it was measured; eps is one of conditions.eps.
   * @throws SinkscopeError 'bad_request' where the recording has none, with the tensor's name
   */
  mean(name: string, args?: { readonly eps?: number }): Promise<Tensor>;
  /** Its standard deviation between prompts, n - 1. */
  deviation(name: string, args?: { readonly eps?: number }): Promise<Tensor>;
  /**
   * A metric of a kept prompt.
   * @throws SinkscopeError 'bad_request' where the field that it needs was not kept, with its name
   */
  metric(name: string, args?: RecordedArguments): Promise<Tensor>;
  /** A field of a kept prompt. */
  field(name: string, where?: Where & { readonly prompt?: number }): Promise<Tensor>;
  /** Many reads of one kept prompt, in order. */
  read(reads: readonly Read[], options?: { readonly prompt?: number }): Promise<Tensor[]>;
  /** Maps of a long text, pooled to cells [.., P, P]: each the mean of its block's visible weights. */
  pooled(where?: Where & { readonly prompt?: number }): Promise<Tensor>;
  /**
   * What `measure` gives of a model. Means are those of the file; of a file that keeps all its prompts and
   * has none, they are taken over these. A metric that has neither is left out, unless it is
   * asked for by name.
   */
  measure(options?: Pick<MeasureOptions, 'eps' | 'metrics'>): Promise<Measurement>;
  close(): Promise<void>;
}

/** What a recording says besides its numbers. */
export interface About {
  readonly model?: {
    readonly id?: string;
    readonly revision?: string | null;
    readonly sha256?: string | null;
  };
  readonly first?: Partial<Conditions['first']>;
  /** Where the prompts come from, and the hash of that. */
  readonly source?: string;
  readonly sourceSha256?: string;
  readonly class?: string;
  readonly licence?: string;
  readonly command?: string;
}

export interface RecordOptions extends About {
  /** Fields of kept prompts, beside the token ids, losses, norms and exact alpha; default: ['att']. */
  readonly fields?: readonly string[];
  /** Fields of kept prompts in half precision; default true. Everything else is in F32. */
  readonly half?: boolean;
  /** Thresholds of Sink_k; default: describe.defaults. */
  readonly eps?: readonly number[];
  /** The token strings of ids; default: the ids themselves. */
  readonly strings?: (ids: readonly number[]) => readonly string[];
}

/** What is asked of a model whose runs are recorded. */
export type Recordable = Pick<Model, 'architecture' | 'describe'> &
  Partial<Pick<Model, 'arithmetic'>>;

export interface StudyOptions extends RecordOptions, Options {
  /** Of how many of the first sequences fields are kept; default 1. */
  readonly keep?: number;
  /** What-ifs under which every sequence is run; counterfactual ones make the recording so. */
  readonly edits?: readonly Edit[];
  /** The metrics that are averaged; default: every averaged one that a plain run gives. */
  readonly metrics?: readonly string[];
}

/**
 * Runs every sequence and gives the bytes of a recording: the means and deviations of `measure`, a row for
 * each sequence, and fields of the first ones.
 * @example
 * const bytes = await recordStudy(model, sequences, { keep: 2, eps: [0.1, 0.2, 0.3] });
 * const recording = await engine.openRecording(bytes);
 */
export function recordStudy(
  model: Studied & Recordable,
  sequences: readonly (readonly number[])[],
  options?: StudyOptions,
): Promise<Bytes>;

/** Maps that another program has made of one prompt. */
export interface Maps {
  readonly tokens?: readonly string[];
  /**
   * Attention weights [L, H, T, T], row query, column key; or one tensor [1, H, T, T] or [H, T, T] of each
   * layer, with `dims` or `shape`, as transformers.js and onnxruntime give them.
   */
  readonly att: MapsTensor | readonly MapsTensor[];
}

export type MapsTensor = {
  readonly data: ArrayLike<number>;
} & ({ readonly shape: readonly number[] } | { readonly dims: readonly number[] });

export interface MapsOptions extends About {
  readonly id?: string;
  readonly family?: string;
  /** Key/value heads; default: as many as query heads. */
  readonly G?: number;
  /** A row of describe.operations; default 'softmax'. */
  readonly operation?: string;
  readonly mask?: Architecture['mask'];
}

/**
 * The recording of maps that another program has made: `measure` and every metric of maps work on it.
 * @example
 * const { attentions } = await model(inputs); // transformers.js, output_attentions
 * const recording = await engine.openRecording(recordMaps([{ tokens, att: attentions }]));
 * const { metrics } = await measure(recording); // metrics.sink_ratio.mean[0]
 */
export function recordMaps(prompts: readonly Maps[], options?: MapsOptions): Bytes;

/** Where two recordings differ: a size of theirs, a shape, or the largest difference of a tensor. */
export interface Difference {
  readonly name: string;
  readonly a: unknown;
  readonly b: unknown;
  readonly index?: readonly number[];
  readonly difference?: number;
  /** Numbers beyond the tolerance, of all. */
  readonly count?: number;
  readonly of?: number;
}

/**
 * Every tensor that both have, number by number; a number above 1 may differ by `tolerance` times its size.
 * An undefined number equals an undefined one alone. */
export function compareRecordings(
  a: Recording,
  b: Recording,
  options?: { readonly tolerance?: number },
): Promise<{
  readonly differences: readonly Difference[];
  readonly compared: readonly string[];
  readonly onlyA: readonly string[];
  readonly onlyB: readonly string[];
}>;
