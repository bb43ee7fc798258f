/** Measuring over many sequences, and unmasking. */
import type { Tensor } from '../abi/abi.js';
import type { Edit, Replica, Model, Options } from '../engine/engine.js';
import type { Recording } from '../recording/recordings.js';
import type { AnyTokenizer, EncodeOptions } from '../text/text.js';

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
  /** Called once with what the texts gave; also before the error where they gave nothing. */
  readonly onCut?: (found: Cut) => void;
}

/** What texts gave of the sequences that were asked for. Reading ends with the last sequence. */
export interface Cut {
  /** Sequences asked for. */
  readonly asked: number;
  /** Sequences found. */
  readonly sequences: number;
  /** Tokens of text in a sequence: its length without the special tokens before and after them. */
  readonly room: number;
  /** Tokens of all texts that were read. */
  readonly read: number;
  /** Texts that were too short for one sequence. */
  readonly short: number;
  /** Tokens of the longest text that was read. */
  readonly longest: number;
}

/**
 * Sequences of equal length; what is too short for one is left out. Of an array of texts, each gives
 * one sequence, its beginning. Each sequence has the special tokens that the tokenizer puts before and
 * after a text.
 * @throws SinkscopeError 'argument' where the text is too short for any
 * @example const sequences = await cutText(tokenizer, text, { tokens: 64, sequences: 100 });
 */
export function cutText(
  tokenizer: AnyTokenizer,
  text: string | readonly string[],
  options: CutOptions,
): Promise<number[][]>;

/** Texts of one label: a domain, a language, a class. */
export interface LabelledTexts {
  readonly label: string;
  readonly texts: readonly string[];
}

/**
 * The texts of each label, in the order in which labels appear.
 * @param texts each `label<TAB>text`
 * @returns undefined unless each text has a label, of at most 60 characters, and there are two labels or more
 * @example const groups = groupsOf(file.split('\n'));
 */
export function groupsOf(texts: readonly string[]): LabelledTexts[] | undefined;

/** What a study needs of a model: with `replicas` it is spread over them. */
export type Studied = Replica & Partial<Pick<Model, 'replicas'>>;

/**
 * Does the same work on each item, on all replicas of the model at once, and gives the results in the
 * order of the items: nothing depends on how many replicas there are.
 * @example
 * const work = async (replica, ids) => {
 *   const run = await replica.run(ids, { fields: ['att'] });
 *   return run.metric('alpha').finally(() => run.close());
 * };
 * for await (const alpha of spread(model, sequences, work, { signal })) add(alpha);
 */
export function spread<Item, Result>(
  model: Studied,
  items: readonly Item[],
  work: (replica: Replica, item: Item, index: number) => Promise<Result>,
  options?: Pick<Options, 'signal'>,
): AsyncGenerator<Result, void, undefined>;

/** A metric over sequences: `mean` and `deviation` (standard, n - 1) row-major in `shape`. */
export interface Measured {
  readonly shape: readonly number[];
  readonly mean: readonly (number | null)[];
  readonly deviation: readonly (number | null)[];
}

/** With what is needed to measure it again. */
export interface Measurement {
  /** The threshold; of a list, the first. */
  readonly eps: number;
  readonly T: number;
  readonly sequences: number;
  /** By the names of describe.metrics. */
  readonly metrics: Readonly<Record<string, Measured>>;
  /** Where `eps` is a list: for each threshold, the metrics that depend on it. */
  readonly byEps?: readonly {
    readonly eps: number;
    readonly metrics: Readonly<Record<string, Measured>>;
  }[];
}

export interface MeasureOptions extends Options {
  /** The threshold of Sink_k^eps, or a list of them that one run serves. Default: describe.defaults. */
  readonly eps?: number | readonly number[];
  /**
   * Names from describe.metrics; default: those of the summary. What compares two runs compares with the
   * one without what-ifs, and is part of the summary where there are any.
   */
  readonly metrics?: readonly string[];
  /**
   * Runs stream, so that texts may be long; see `run`. The metrics are then, by default, those of the
   * loss.
   */
  readonly streaming?: boolean;
  /** What-ifs under which every sequence is run. */
  readonly edits?: readonly Edit[];
  /** Called with the metrics of each sequence, by the names of describe.metrics. */
  readonly onSequence?: (metrics: Readonly<Record<string, Tensor>>, index: number) => void;
}

export interface SweepOptions extends Omit<MeasureOptions, 'edits' | 'onSequence'> {
  /** Called with the metrics of each sequence in each case. */
  readonly onSequence?: (
    metrics: Readonly<Record<string, Tensor>>,
    index: number,
    at: number,
  ) => void;
}

/**
 * The same for several lists of what-ifs, a measurement for each: every sequence is run under all of
 * them, beside one run without any, with which metrics compare that have `base` among their arguments.
 * @example
 * const cases = [8, 16, 24].map((budget) => [{ kind: 'evict', policy: 'window', budget }]);
 * const found = await sweep(model, sequences, cases, { metrics: ['loss_mean', 'kl_mean'] });
 */
export function sweep(
  model: Studied,
  sequences: readonly (readonly number[])[],
  cases: readonly (readonly Edit[])[],
  options?: SweepOptions,
): Promise<Measurement[]>;

/**
 * @param sequences one or more, all of one length
 * @throws SinkscopeError 'argument' for none, or of another length
 * @example const { metrics } = await measure(model, sequences); // metrics.sink_ratio.mean[0]
 */
export function measure(
  model: Studied,
  sequences: readonly (readonly number[])[],
  options?: MeasureOptions,
): Promise<Measurement>;

/**
 * What a recording measured: its means, or those of all its prompts where it has none.
 * @example const { metrics } = await measure(await engine.openRecording(file));
 */
export function measure(
  recording: Recording,
  options?: Pick<MeasureOptions, 'eps' | 'metrics'>,
): Promise<Measurement>;

/**
 * What each head is good for, [L, H]: the difference in mean loss with it silenced, over sequences.
 * Each sequence is run once; for each head only the layers from its own on are computed again.
 * @example const { mean } = await headEffects(model, sequences); // mean[layer * H + head]
 */
export function headEffects(
  model: Studied,
  sequences: readonly (readonly number[])[],
  options?: Options & Pick<MeasureOptions, 'edits'>,
): Promise<Measured>;

/* Unmasking: text out of a model of masked diffusion. */

/** A place that was uncovered. */
export interface Filled {
  /** 0-based. */
  readonly place: number;
  readonly token: number;
  /** Of the token at this position, or of `guess`, among those that the model may choose. */
  readonly probability: number;
  /** With answers: the token that the model would have put in, and the answer's loss in nats. */
  readonly guess?: number;
  readonly loss?: number;
}

export interface UnmaskStep {
  /** The tokens after this step. */
  readonly tokens: readonly number[];
  /** The surest first. They were hidden when `alpha` was measured. */
  readonly filled: readonly Filled[];
  /** [T]: the metric of that name, mean over layers and heads. */
  readonly alpha: Tensor;
  /** Where alpha is largest. */
  readonly sink: { readonly place: number; readonly alpha: number };
  /** The key that was hidden when the places were chosen and filled; null: none. */
  readonly without: number | null;
}

export interface UnmaskOptions extends Pick<Options, 'signal'> {
  /** In how many steps all is uncovered: as many places in each, if it can be. */
  readonly steps: number;
  /** The id that hides a token. Default: `architecture.mask_token`; of BERT the tokenizer's special token of the kind mask. */
  readonly mask?: number;
  /** Ids that are never put in, beside the mask token itself: those that no text holds. */
  readonly never?: readonly number[];
  /** What-ifs under which every step is run. */
  readonly edits?: readonly Edit[];
  /**
   * The key that each step hides: the one that receives the most attention in a run with every key, or as a control a random
   * other one. Places are chosen and filled by a second run. arXiv 2510.15731.
   */
  readonly without?: 'strongest' | 'random';
  /** Of the random keys. Default: 0. */
  readonly seed?: number;
  /** What the text has at each place: a place that is uncovered gets this token, and its loss is reported. */
  readonly answers?: readonly number[];
  /** Called with each step. */
  readonly onStep?: (step: UnmaskStep, index: number) => void;
}

/**
 * Uncovers what the mask token hides. In each step the model is run, the likeliest token of every
 * hidden place is found, and those that it is surest of stay: the same text every time.
 * @param tokens with the mask token at the hidden places
 * @throws SinkscopeError 'argument' where the model has no mask token, or nothing is hidden; 'unsupported' for an encoder
 * without a head
 * @example
 * const mask = model.architecture.mask_token;
 * const steps = await unmask(model, [...ids, mask, mask, mask], { steps: 3, never: [tokenizer.bos] });
 */
export function unmask(
  model: Pick<Model, 'run' | 'architecture' | 'describe'>,
  tokens: ArrayLike<number>,
  options: UnmaskOptions,
): Promise<UnmaskStep[]>;

/** Over prompts, with the difference to the runs that have every key, paired by prompt. */
export interface UnmaskScores {
  /** Nats, of the text's token at a place when it is uncovered, mean over the hidden places. */
  readonly loss: TaskScore;
  /** The share of hidden places where the text's token is the model's first choice. */
  readonly accuracy: TaskScore;
}

export interface UnmaskConditions {
  readonly baseline: UnmaskScores;
  /** Each run without its strongest key. */
  readonly strongest: UnmaskScores;
  /** Each run without a random other key. */
  readonly random: UnmaskScores;
  /** With every key: the share of all attention that the strongest key receives, mean over steps. */
  readonly alpha: TaskMean;
}

export interface UnmaskFound extends UnmaskConditions {
  readonly prompts: number;
  /** Hidden places of all prompts together. */
  readonly predicted: number;
  readonly steps: number;
  /** The share of steps after the first in which the strongest key is another. */
  readonly moves: TaskMean;
  /** The causal model's next-token losses at the same places; null without one. */
  readonly causal: UnmaskConditions | null;
}

export interface UnmaskStudyOptions
  extends Options, Pick<UnmaskOptions, 'never' | 'edits' | 'seed' | 'mask'> {
  /** A causal model of the same vocabulary, which reads the whole text before each place. */
  readonly causal?: Studied & Pick<Model, 'architecture' | 'describe'>;
  /** Share of the tokens after the first that is hidden. Default: 0.5. */
  readonly masked?: number;
  /** Default: 8. */
  readonly steps?: number;
}

/**
 * What a masked model loses without its sink: places of each text are hidden and uncovered step by step, the surest
 * first and as the text has them, with every key, without the strongest key of each step, and without a random one.
 * @throws SinkscopeError 'argument' where the model has no mask token
 * @example
 * const { strongest, random } = await measureUnmasking(model, sequences);
 * strongest.loss.change; // { mean: 0.02, error: 0.01 }
 */
export function measureUnmasking(
  model: Studied & Pick<Model, 'architecture' | 'describe'>,
  sequences: readonly (readonly number[])[],
  options?: UnmaskStudyOptions,
): Promise<UnmaskFound>;

/* Suffixes: whether a text can move the sink, or break what follows. */

/** A prompt and what follows it; the suffix comes between them. */
export interface SuffixPair {
  readonly prompt: readonly number[];
  readonly continuation: readonly number[];
}

/**
 * What is maximized. `loss`: the mean loss of the continuation, nats. `away`: minus the weight of the first key.
 * `steal`: the weight of the suffix's strongest key. Weights are means over all heads and the continuation's queries.
 */
export type SuffixGoal = 'loss' | 'away' | 'steal';

export interface SuffixOptions extends Pick<Options, 'signal'> {
  readonly goal: SuffixGoal;
  /** Tokens of the suffix. */
  readonly length: number;
  /** In each step `width` suffixes that differ by one token are tried, and the best stays if it is better. */
  readonly steps: number;
  readonly width: number;
  /** Default 0. */
  readonly seed?: number;
  /** Ids that are never put in: those that no text holds. */
  readonly never?: readonly number[];
  /** Counterfactuals under which every run is made. */
  readonly edits?: readonly Edit[];
  /** Pairs that the search does not see, on which its suffix is tried. */
  readonly others?: readonly SuffixPair[];
  readonly onStep?: (step: { suffix: readonly number[]; score: number }, index: number) => void;
}

/** Every number is a score: of the goal, and larger is what the search wanted. */
export interface SuffixFound {
  readonly suffix: readonly number[];
  readonly score: number;
  /** Of the random suffix that the search began with. */
  readonly start: number;
  readonly path: readonly { readonly suffix: readonly number[]; readonly score: number }[];
  /** Suffixes that the search tried. */
  readonly evaluated: number;
  /** Without a suffix; null where the goal needs one. */
  readonly none: number | null;
  /** Of 100 random suffixes of the same length: mean, 5% and 95%; and the best of `evaluated` ones. */
  readonly random: {
    readonly mean: number;
    readonly low: number;
    readonly high: number;
    readonly best: number;
  };
  /** The found tokens in ten other orders: the mean. */
  readonly shuffled: number;
  /** On each of the others: the found suffix, a random one, and the best of the random ones. */
  readonly others: {
    readonly found: readonly number[];
    readonly random: readonly number[];
    readonly best: readonly number[];
  } | null;
}

/**
 * Searches a suffix behind a prompt, greedily and without gradients, and says what random ones do: as many are drawn
 * as the search tried, for the best of many is better than one. The same seed gives the same suffix, whatever the workers.
 * After GCG (Zou et al. 2023), with uniform instead of gradient candidates.
 * @throws SinkscopeError 'argument' for a goal that is none, ids out of the vocabulary, or no room in the context
 * @example
 * const found = await searchSuffix(model, { prompt, continuation }, {
 *   goal: 'away', length: 5, steps: 20, width: 64, never: tokenizer.special,
 * });
 */
export function searchSuffix(
  model: Studied & Pick<Model, 'architecture'>,
  pair: SuffixPair,
  options: SuffixOptions,
): Promise<SuffixFound>;

/* Tasks: what the first key does for accuracy. */

/** Tokens of which those from position `from` on are to be predicted. */
export interface TaskPrompt {
  /** [T], 4 or more. */
  readonly ids: readonly number[];
  /** 3 or more. */
  readonly from: number;
  /** The first query that lacks an evicted key; default `from - 1`, the query of the first prediction. */
  readonly lost?: number;
  /** Ids that may be the answer, the last token, which alone is then predicted. */
  readonly choices?: readonly number[];
  /** Positions of keys that hold the answer: the control does not evict them. */
  readonly needs?: readonly number[];
}

export interface Task {
  readonly name: string;
  readonly prompts: readonly TaskPrompt[];
  /** The accuracy of a model that has not learnt the task, from 0 to 1. */
  readonly chance: number;
  /** Tokens from what is to be recalled to the answer, the mean over prompts. */
  readonly distance?: number;
}

/** Predicts the second half of each sequence; chance is the share of the most frequent token there. */
export function textTask(sequences: readonly ArrayLike<number>[]): Promise<Task>;

/**
 * Predicts the second copy of `length` different random tokens (25) from its second token on; chance is 1/length. The same
 * seed gives the same prompts.
 * @param V size of the vocabulary
 * @throws SinkscopeError 'argument' for a copy longer than the vocabulary allows
 */
export function copyTask(
  V: number,
  options?: {
    /** Ids in front, such as the start token; without them one random token comes first. */
    readonly first?: readonly number[];
    /** Ids that are never drawn. */
    readonly never?: readonly number[];
    readonly length?: number;
    /** Default 24. */
    readonly prompts?: number;
    readonly seed?: number;
  },
): Promise<Task>;

/**
 * Recalls a name over a distance: "... My friend's name is Mary. ... My friend's name is", with `between` sentences (2)
 * between the two. The answer is the token that the name begins with, the choices those of up to 8 names that begin with
 * different tokens, and chance is 1 by their number.
 * @returns undefined where fewer than two names do, as with a token for each byte
 */
export function recallTask(
  tokenizer: AnyTokenizer,
  options?: {
    readonly between?: number;
    /** Default 24. */
    readonly prompts?: number;
    readonly names?: readonly string[];
    readonly special?: EncodeOptions['special'];
  },
): Promise<Task | undefined>;

/** Over prompts; `error` is the standard error of the mean, null of one prompt. */
export interface TaskMean {
  readonly mean: number;
  readonly error: number | null;
}

/** With the difference to the baseline, paired by prompt. */
export interface TaskScore extends TaskMean {
  readonly change: TaskMean;
}

export interface TaskScores {
  /** The share of predicted tokens that are the model's first choice. */
  readonly accuracy: TaskScore;
  /** Nats. */
  readonly loss: TaskScore;
  /** The share of prompts where the answer is the first of the choices; null where a prompt has none. */
  readonly choice: TaskScore | null;
}

export interface TaskFound extends Omit<Task, 'prompts'> {
  readonly prompts: number;
  /** Tokens predicted in all prompts together. */
  readonly predicted: number;
  /** Whether `choice`, or else `accuracy`, of the baseline lies above chance by more than two standard errors. */
  readonly can: boolean;
  readonly baseline: TaskScores;
  /** The first key is hidden from queries `lost` and later: it was in the cache while the prompt was read. */
  readonly first: TaskScores;
  /** Another key is: one drawn for each prompt, before `lost` and not of `needs`. */
  readonly other: TaskScores;
  /** The first key is hidden from every query: another token may become the sink. */
  readonly unseen: TaskScores;
}

/**
 * Accuracy and loss of a model on a task, with every key, with the first key or another evicted after the prompt was read,
 * and with the first key hidden from the start. The same seed draws the same keys.
 * @throws SinkscopeError 'argument' for a masked model, and for prompts that do not fit it
 * @example
 * const found = await measureTask(model, await textTask(sequences));
 * found.first.accuracy.change; // { mean: -0.1, error: 0.02 }: without the first key 10 points fewer
 */
export function measureTask(
  model: Studied & Pick<Model, 'architecture'>,
  task: Task,
  options?: Options & { readonly edits?: readonly Edit[]; readonly seed?: number },
): Promise<TaskFound>;

/* Judging: what may be said of Sink_1. */

/** What is known of one subject's Sink_1. */
export interface Judged {
  readonly eps: number;
  /** alpha_1 under uniform attention: `alpha_uniform[0]`. */
  readonly even: number;
  /** Whether rows sum to 1, of describe.operations. */
  readonly normalises: boolean;
  /** `sink_ratio[0]` and `sink_ratio_raw[0]`. */
  readonly sink: number;
  readonly sinkRaw: number;
}

export interface Judgement {
  /** The share of heads with a sink at the first token; where rows need not sum to 1, the smaller of both measures. */
  readonly sink: number;
  readonly of: 'weights' | 'shares and raw weights';
  readonly even: number;
  /** False where uniform attention alone gives the first token more than eps: the text is too short. */
  readonly conclusive: boolean;
  /** The smallest number of tokens of a causal text at which `conclusive` is true: 10 at eps 0.3. */
  readonly least: number;
}

/**
 * Whether Sink_1 can be interpreted; its definition is the paper's at any length.
 * @example judge({ eps: 0.3, even: 0.46, normalises: true, sink: 1, sinkRaw: 1 }).conclusive; // false: 5 tokens
 */
export function judge(known: Judged): Judgement;

/** What is known of one head on a text. */
export interface KnownHead {
  readonly eps: number;
  /** `first_share`. */
  readonly share: number;
  /** `contribution`. */
  readonly contribution: number;
  /** Of `headEffects`, where it is known. */
  readonly effect?: number;
}

export interface HeadLabel {
  /**
   * active: at most eps of its attention ends on token 1. Else it parks it there: a broadcast, if token
   * 1's value is half or more of what it mixes, so that every query gets nearly the same vector; a
   * no-op, if it is less (2606.08105 distinguishes the two by the value's norm and the output's rank).
   */
  readonly label: 'active' | 'broadcast' | 'no-op';
  /**
   * Dormant on this text: it parks its attention, and silencing it changes the loss by less than 0.01
   * nat (Guo et al. 2024). Undefined where the effect is not known. On another text it may be active.
   */
  readonly dormant: boolean | undefined;
}

/**
 * What a head does on this text.
 * @example labelHead({ eps: 0.3, share: 0.9, contribution: 0.05, effect: 0 }); // { label: 'no-op', dormant: true }
 */
export function labelHead(known: KnownHead): HeadLabel;

/** The smallest T at which uniform causal attention gives the first token at most eps; Infinity where none does. */
export function leastTokens(eps: number): number;
