/** Types of the studies: measuring models over many sequences, on tasks and under unmasking. */
import type { Architecture, Tensor, Options } from '../abi/types.ts';
import type { Edit, Replica, Model } from '../engine/types.ts';

/* Measuring: the page's measurements, over many sequences. */

export interface CutOptions {
  /** Tokens of each sequence, special ones included. */
  readonly tokens: number;
  readonly sequences: number;
  /** Special tokens before and after each sequence, as in `encode`. Default: the tokenizer's own. */
  readonly special?: 'auto' | 'none' | readonly string[];
  /** Takes one sequence from the beginning of each line; default: all of the whole text. */
  readonly lines?: boolean;
  /** Called once with the outcome, also before the error for too short texts. */
  readonly onCut?: (cut: Cut) => void;
}

/** Counts what the texts yielded. Reading ends with the last sequence. */
export interface Cut {
  readonly asked: number;
  readonly sequences: number;
  /** Number of tokens of text in a sequence, without special tokens. */
  readonly room: number;
  /** Number of tokens in all texts that were read. */
  readonly read: number;
  /** Number of texts that were too short for one sequence. */
  readonly short: number;
  readonly longest: number;
  /** Number of texts, each of which gives one sequence at most; absent for one text that is cut throughout. */
  readonly texts?: number;
  /** What `tokenNotes` says of the first text. */
  readonly notes: readonly string[];
}

/** What a file is split into: its lines, its blocks between blank lines, or the file as one text. */
export type Splitting = 'lines' | 'blocks' | 'whole';

/** The members of a model that a study needs. The study uses all `replicas` if there are any. */
export type StudyModel = Replica & Partial<Pick<Model, 'replicas'>>;

/** A metric over sequences: `mean` and standard `deviation` (n - 1), row-major in `shape`. */
export interface MetricMean {
  readonly shape: readonly number[];
  readonly mean: readonly (number | null)[];
  readonly deviation: readonly (number | null)[];
}

export interface Measurement {
  /** The threshold of Sink_k; of a list, the first one. */
  readonly eps: number;
  readonly T: number;
  readonly sequences: number;
  readonly metrics: Readonly<Record<string, MetricMean>>;
  /** If `eps` is a list: for each threshold, the metrics that depend on it. */
  readonly byEps?: readonly {
    readonly eps: number;
    readonly metrics: Readonly<Record<string, MetricMean>>;
  }[];
}

export interface MeasureOptions extends Options {
  /** Threshold of Sink_k^eps, or a list that shares one run; default: describe.defaults. */
  readonly eps?: number | readonly number[];
  /**
   * Names from describe.metrics; default: those of the summary. Metrics that compare two runs use
   * the unedited run as the base, and belong to the summary if there are edits.
   */
  readonly metrics?: readonly string[];
  /** Streams the runs as `run` does, for long texts; the default metrics are then the losses'. */
  readonly streaming?: boolean;
  readonly edits?: readonly Edit[];
  readonly onSequence?: (metrics: Readonly<Record<string, Tensor>>, index: number) => void;
}

export interface SweepOptions extends Omit<MeasureOptions, 'edits' | 'onSequence'> {
  /** Called with the metrics of each sequence in each case. */
  readonly onSequence?: (
    metrics: Readonly<Record<string, Tensor>>,
    index: number,
    caseIndex: number,
  ) => void;
}

/* Unmasking: text from a masked-diffusion model. */

export interface FilledToken {
  /** Index from 0. */
  readonly place: number;
  readonly token: number;
  /** Probability (of `guess` if there are answers) among the tokens that may be chosen. */
  readonly probability: number;
  /** With `answers`: the token that the model would have chosen, the answer's loss in nats. */
  readonly guess?: number;
  readonly loss?: number;
}

export interface UnmaskStep {
  readonly tokens: readonly number[];
  /** Positions that this step unmasked, the surest first; masked while `alpha` was measured. */
  readonly filled: readonly FilledToken[];
  /** [T]: the metric `alpha`, as the mean over layers and heads. */
  readonly alpha: Tensor;
  readonly sink: { readonly place: number; readonly alpha: number };
  /** The key that was hidden while positions were chosen and filled; null: none. */
  readonly without: number | null;
}

export interface UnmaskOptions extends Pick<Options, 'signal'> {
  /** Number of steps; each unmasks the same number of positions if possible. */
  readonly steps: number;
  /** Default: `architecture.mask_token`; for BERT the tokenizer's token of kind mask. */
  readonly mask?: number;
  /** Ids that are never chosen, besides the mask token: ids that do not occur in texts. */
  readonly never?: readonly number[];
  readonly edits?: readonly Edit[];
  /**
   * The key that each step hides: the one with the most attention in a run with every key or, as a
   * control, a random other key. A second run without this key chooses and fills the positions. The
   * method is that of arXiv 2510.15731.
   */
  readonly without?: 'strongest' | 'random';
  /** Seed of the random keys. Default: 0. */
  readonly seed?: number;
  /** Tokens of the text: an unmasked position gets this token, and its loss is reported. */
  readonly answers?: readonly number[];
  readonly onStep?: (step: UnmaskStep, index: number) => void;
}

/** Scores over prompts, with the paired difference from the runs with every key. */
export interface UnmaskScores {
  /** Nats of the text's token when its position is unmasked, mean over masked positions. */
  readonly loss: TaskScore;
  /** Share of masked positions where the text's token is the model's first choice. */
  readonly accuracy: TaskScore;
}

export interface UnmaskConditions {
  readonly baseline: UnmaskScores;
  /** Scores of runs without their strongest key. */
  readonly strongest: UnmaskScores;
  /** Scores of runs without another, random key. */
  readonly random: UnmaskScores;
  /** Share of attention on the strongest key in runs with every key, mean over steps. */
  readonly alpha: TaskMean;
}

export interface UnmaskResult extends UnmaskConditions {
  readonly prompts: number;
  readonly predicted: number;
  readonly steps: number;
  /** Share of steps after the first in which the strongest key changes. */
  readonly moves: TaskMean;
  /** Next-token scores of the causal model at the same positions; null without a causal model. */
  readonly causal: UnmaskConditions | null;
}

export interface UnmaskStudyOptions
  extends Options, Pick<UnmaskOptions, 'never' | 'edits' | 'seed' | 'mask'> {
  /** A causal model with the same vocabulary, which reads the whole text before each position. */
  readonly causal?: StudyModel;
  /** Share of the tokens that are masked, without the first, which never is. Default: 0.5. */
  readonly masked?: number;
  /** Default: 8. */
  readonly steps?: number;
}

/* Suffixes: whether a text can move the sink, or degrade what follows. */

/** A prompt and its continuation; the suffix is inserted between them. */
export interface SuffixPair {
  readonly prompt: readonly number[];
  readonly continuation: readonly number[];
}

/**
 * The objective to maximize. `loss`: mean loss of the continuation in nats. `away`: minus the
 * weight of the first key. `steal`: weight of the suffix's strongest key. Weights are means over
 * all heads and the continuation's queries.
 */
export type SuffixGoal = 'loss' | 'away' | 'steal';

export interface SuffixOptions extends Pick<Options, 'signal'> {
  readonly goal: SuffixGoal;
  readonly length: number;
  /** Each step tries `width` changes of one token, and keeps the best if its score is higher. */
  readonly steps: number;
  readonly width: number;
  /** Default 0. */
  readonly seed?: number;
  /** Ids that are never inserted: ids that do not occur in texts. */
  readonly never?: readonly number[];
  readonly edits?: readonly Edit[];
  readonly others?: readonly SuffixPair[];
  readonly onStep?: (step: { suffix: readonly number[]; score: number }, index: number) => void;
}

/** The result of a search. All numbers are scores of the goal; larger is better for the search. */
export interface SuffixResult {
  readonly suffix: readonly number[];
  readonly score: number;
  /** Score of the random suffix that the search started from. */
  readonly start: number;
  readonly path: readonly { readonly suffix: readonly number[]; readonly score: number }[];
  readonly evaluated: number;
  /** Score without a suffix; null if the goal needs one. */
  readonly none: number | null;
  /** Of random suffixes: mean, 5% and 95% quantiles of 100, the best of as many as were tried. */
  readonly random: {
    readonly mean: number;
    readonly low: number;
    readonly high: number;
    readonly best: number;
  };
  /** Mean score over ten random orders of the suffix's tokens. */
  readonly shuffled: number;
  /** Scores on each held-out pair: of the suffix, of a random one, and of the best random one. */
  readonly others: {
    readonly found: readonly number[];
    readonly random: readonly number[];
    readonly best: readonly number[];
  } | null;
}

/* Tasks: how the first key affects accuracy. */

/** A prompt of a task; the tokens from position `from` on are predicted. */
export interface TaskPrompt {
  /** [T], with T at least 4. */
  readonly ids: readonly number[];
  /** Position of the first predicted token; at least 3. */
  readonly from: number;
  /** First query without the evicted key; default `from - 1`, that of the first prediction. */
  readonly lost?: number;
  /** Ids that the answer, the last token and then the only predicted one, is chosen from. */
  readonly choices?: readonly number[];
  /** Positions of keys that hold the answer: the control does not evict them. */
  readonly needs?: readonly number[];
}

export interface Task {
  readonly name: string;
  readonly prompts: readonly TaskPrompt[];
  /** Accuracy of a model that has not learned the task, from 0 to 1. */
  readonly chance: number;
  /** Mean number of tokens from the recalled fact to the answer. */
  readonly distance?: number;
}

/** Mean over prompts; `error` is its standard error, null for one prompt. */
export interface TaskMean {
  readonly mean: number;
  readonly error: number | null;
}

/** A mean with its paired difference from the baseline. */
export interface TaskScore extends TaskMean {
  readonly change: TaskMean;
}

export interface TaskScores {
  /** Share of predicted tokens that are the model's first choice. */
  readonly accuracy: TaskScore;
  /** Mean loss of the predicted tokens, in nats. */
  readonly loss: TaskScore;
  /** Share of prompts whose answer is the first of the choices; null if one has no choices. */
  readonly choice: TaskScore | null;
}

export interface TaskResult extends Omit<Task, 'prompts'> {
  readonly prompts: number;
  readonly predicted: number;
  /** Whether `choice`, or else `accuracy`, of the baseline beats chance by two standard errors. */
  readonly can: boolean;
  readonly baseline: TaskScores;
  /** The first key is hidden from query `lost` on, after the prompt was read with it. */
  readonly first: TaskScores;
  /** As `first`, of a random other key of each prompt, before `lost` and not in `needs`. */
  readonly other: TaskScores;
  /** Scores with the first key hidden from every query: another token may become the sink. */
  readonly unseen: TaskScores;
}

/* Judging: what can be concluded from a value of Sink_1. */

/** Which keys queries see, on which uniform attention depends; windows count as no limit. */
export interface SeenKeys {
  /** Default: causal. */
  readonly mask?: Architecture['mask'];
  readonly bias_key?: Architecture['bias_key'];
  /** Position of the token that counts as the first; default 0. */
  readonly first?: number;
}

export interface SinkMeasures extends SeenKeys {
  readonly eps: number;
  /** alpha_1 under uniform attention: `alpha_uniform[0]`. */
  readonly even: number;
  readonly normalizes: boolean;
  /** Whether weights have signs (`proxy` is `share_abs`): then `sink` counts alone. Default: false. */
  readonly signed?: boolean;
  /** `sink_ratio[0]`. */
  readonly sink: number;
  /** `sink_ratio_raw[0]`. */
  readonly sinkRaw: number;
}

export interface Judgment {
  /** Share of heads with a sink at the first token, by weights; by shares if they have signs. */
  readonly sink: number;
  readonly of: 'weights' | 'shares';
  /** The same by shares of the row, as the authors count; equals `sink` if rows sum to 1. */
  readonly sinkByShares: number;
  readonly even: number;
  /** False if uniform attention alone exceeds eps at the first token: the text is too short. */
  readonly conclusive: boolean;
  /** Smallest number of tokens at which `conclusive` is true: 10 of a causal text at eps 0.3. */
  readonly least: number;
}

export interface KnownHead {
  readonly eps: number;
  /** The metric `first_share` of the head. */
  readonly share: number;
  readonly contribution: number;
  /** Value from `headEffects`, if measured. */
  readonly effect?: number;
}

export interface HeadLabel {
  /**
   * active: at most eps of its attention goes to the first token. broadcast: more than eps goes
   * there, and the value of the first token is half or more of the output, so that every query gets
   * nearly the same vector. no-op: more than eps goes there, and that value is less than half of the
   * output. (arXiv 2606.08105 distinguishes broadcast and no-op by the norm of the value and the
   * rank of the output.)
   */
  readonly label: 'active' | 'broadcast' | 'no-op';
  /**
   * Dormant on this text: the head attends mostly to the first token, and silencing it changes the
   * loss by less than 0.01 nat (Guo et al. 2024). Undefined if no effect was measured. On another text the
   * head may be active.
   */
  readonly dormant: boolean | undefined;
}

/** What `measure` reads of a recording. */
export interface RecordedMeans {
  readonly conditions: object;
  measure(options?: Pick<MeasureOptions, 'eps' | 'metrics'>): Promise<Measurement>;
}
