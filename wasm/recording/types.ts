/** Types of recordings, what a model did on some prompts in one file, and of writing them. */
import type { Architecture, Describe, Tensor, Options } from '../abi/types.ts';
import type {
  Edit,
  MetricArguments,
  RunRead,
  Run,
  Where,
  Conditions,
  About,
  RecordOptions,
} from '../engine/types.ts';
import type { MeasureOptions, Measurement } from '../study/types.ts';

export interface RecordedArguments extends Omit<MetricArguments, 'base'> {
  /** Index of a recorded prompt; default 0. */
  readonly prompt?: number;
}

/**
 * What a model did on some prompts, read from a file without weights. A recording can be read like
 * a run of its first recorded prompt, and has means over all prompts.
 */
export interface Recording extends Pick<Run, 'tokens' | 'edits'> {
  readonly describe: Describe;
  readonly conditions: Conditions;
  readonly architecture: Pick<
    Architecture,
    | 'family'
    | 'L'
    | 'H'
    | 'G'
    | 'K'
    | 'U'
    | 'D'
    | 'V'
    | 'F'
    | 'E'
    | 'attention'
    | 'mask'
    | 'windows'
  > &
    Required<Pick<Architecture, 'blocks' | 'layers'>>;
  readonly bytes: number;
  /** All tensors of the file by name: `0.att`, `mean.alpha`, `prompt.loss`. */
  readonly tensors: ReadonlyMap<
    string,
    { readonly dtype: string; readonly shape: readonly number[] }
  >;
  /** Reads a tensor by name, as floats; layer and head select along its first two dimensions. */
  tensor(name: string, where?: Where): Promise<Tensor>;
  /**
   * Returns the measured mean of a metric over all prompts; eps is one of conditions.eps.
   * @throws SinkscopeError 'bad_request' with the tensor's name if the recording lacks it
   */
  mean(name: string, args?: { readonly eps?: number }): Promise<Tensor>;
  /** Returns the standard deviation across prompts, with n - 1. */
  deviation(name: string, args?: { readonly eps?: number }): Promise<Tensor>;
  /**
   * Measures a metric of a recorded prompt.
   * @throws SinkscopeError 'bad_request' with the field's name if the metric needs one that was not
   * recorded
   */
  metric(name: string, args?: RecordedArguments): Promise<Tensor>;
  field(name: string, where?: Where & { readonly prompt?: number }): Promise<Tensor>;
  /** Reads many fields and metrics of one recorded prompt, in order. */
  read(reads: readonly RunRead[], options?: { readonly prompt?: number }): Promise<Tensor[]>;
  /** Returns a long text's maps [.., P, P]; a cell is the mean of its block's visible weights. */
  pooled(where?: Where & { readonly prompt?: number }): Promise<Tensor>;
  /**
   * Returns a Measurement like that of a model. The means are those of the file; if it has none but
   * records all of its prompts, they are computed over these prompts. Metrics that cannot be
   * computed are left out, unless the options name them.
   */
  measure(options?: Pick<MeasureOptions, 'eps' | 'metrics'>): Promise<Measurement>;
  close(): Promise<void>;
}

export interface StudyOptions extends RecordOptions, Options {
  /** Number of sequences, from the first on, whose fields are recorded; default 1. */
  readonly keep?: number;
  /** Edits for every sequence's run; counterfactual ones set the class of the recording. */
  readonly edits?: readonly Edit[];
  /** Metrics to average; default: every averaged metric that a plain run gives. */
  readonly metrics?: readonly string[];
}

export interface Maps {
  readonly tokens?: readonly string[];
  /**
   * Attention weights [L, H, T, T], with a row per query and a column per key; or one tensor [1, H,
   * T, T] or [H, T, T] per layer, with `dims` or `shape`, as in transformers.js and onnxruntime.
   */
  readonly att: MapsTensor | readonly MapsTensor[];
}

export type MapsTensor = {
  readonly data: ArrayLike<number>;
} & ({ readonly shape: readonly number[] } | { readonly dims: readonly number[] });

export interface MapsOptions extends About {
  readonly id?: string;
  readonly family?: string;
  /** Number of key/value heads; default: the number of query heads. */
  readonly G?: number;
  /** Name from describe.operations; default 'softmax'. */
  readonly operation?: string;
  readonly mask?: Architecture['mask'];
}

/** A difference in a size, in a shape, or the largest one within a tensor. */
export interface Difference {
  readonly name: string;
  readonly a: unknown;
  readonly b: unknown;
  readonly index?: readonly number[];
  readonly difference?: number;
  /** Number of values beyond the tolerance, out of `of`. */
  readonly count?: number;
  readonly of?: number;
}
