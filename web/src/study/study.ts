/**
 * A study: models are measured one after another over the same prompts. One model runs at a time, in
 * the page's one engine; a request to stop is heard between two prompts and inside a long one.
 */
import {
  measure,
  type Architecture,
  type Edit,
  type Measurement,
  type Operation,
  type Tensor,
} from 'sinkscope';
import { editsOf, printPick, titleOf, type Pick } from '../compare/picks';
import { mean, type Subject } from '../frame';
import { firstTokens, specialOf, specialWords } from '../input';
import { InputError, type OpenModel } from '../models';
import type { State } from '../state';
import { sequencesOf } from './corpus';

/** Numbers of each prompt, in their order. A mean over heads has a spread only by them. */
export const PER_PROMPT = [
  'sink_1',
  'sink_1_raw',
  'sink_bias',
  'loss',
  'value_ratio',
  'row_mass',
] as const;
export type PerPrompt = (typeof PER_PROMPT)[number];

/** The head that gives token 1 most, and how its queries and keys stand to each other. */
export interface Strongest {
  readonly layer: number;
  readonly head: number;
  /** [T, T] of the first prompt; NaN where the mask hides. */
  readonly cos: Tensor;
}

/** What was measured of one pick. It holds what `conditions` and the saved files say of a frame. */
export interface Column extends Subject {
  readonly pick: Pick;
  /** The model and what is done to it. */
  readonly title: string;
  readonly model: Subject['model'] & { readonly sha256?: string };
  readonly measurement: Measurement;
  readonly perPrompt: Readonly<Record<PerPrompt, readonly number[]>>;
  /** [T], in closed form. */
  readonly uniform: Tensor;
  readonly strongest: Strongest;
}

/** What a study asks of every model. */
export interface Question {
  readonly state: State;
  readonly texts: readonly string[];
  /** At most so many prompts. */
  readonly n: number;
  readonly operations: readonly Operation[];
}

export interface StudyWatch {
  readonly signal: AbortSignal;
  /** Prompts of this model that are done. */
  readonly onPrompt: (done: number, total: number) => void;
}

/** What the weights are, where they are not those of the trained model; else nothing. */
export function storedWords({ model: { step } }: Column): string {
  return step ? `kept in ${step.bits.toFixed(1)} bits a weight` : '';
}

/** A metric's means; what is undefined is NaN. */
export function means({ measurement }: Column, name: string): Float64Array {
  return Float64Array.from(measurement.metrics[name].mean, (value) => value ?? NaN);
}

/** Whether rows carry another mass than 1 anywhere: then sink scores are shares of what they carry. */
export function isOfShares(column: Column): boolean {
  return means(column, 'row_mass_summary').some((mass) => Math.abs(mass - 1) > 1e-3);
}

/** alpha of token 1 in every head, [L, H], mean over the prompts. */
export function firstAlphas(column: Column): Float64Array {
  const { T } = column;
  return means(column, 'alpha').filter((_, i) => i % T === 0);
}

/** The place of the largest finite value; 0 where there is none. */
export function indexOfMost(values: ArrayLike<number>): number {
  let best = 0;
  for (let i = 1; i < values.length; i++)
    if (values[i] > values[best] || Number.isNaN(values[best])) best = i;
  return best;
}

type Told = Readonly<Record<string, Tensor>>;

/** The numbers of one prompt. */
function numbersOf(told: Told): Record<PerPrompt, number> {
  const ofAll = (name: string, step = 1) =>
    mean(Array.from(told[name].data).filter((_, i) => i % step === 0));
  return {
    sink_1: told.sink_ratio.data[0],
    sink_1_raw: told.sink_ratio_raw.data[0],
    sink_bias: told.sink_ratio_bias.data[0],
    loss: told.loss_mean.data[0],
    value_ratio: ofAll('value_ratio'),
    // Mean, least and largest of every head.
    row_mass: ofAll('row_mass_summary', 3),
  };
}

function checkLength(title: string, T: number, { context }: Architecture): void {
  if (T > context)
    throw new InputError(`${title}: expected T of at most ${context}, its context, found ${T}.`);
}

/** What is known of a pick before anything is measured. */
async function about(pick: Pick, opened: OpenModel, { state, operations }: Question) {
  const edits = editsOf(pick, operations);
  const { architecture } = opened.model;
  const name = pick.kind === 'edit' ? pick.operation : architecture.attention.operation;
  const operation = operations.find((one) => one.name === name);
  if (!operation)
    throw new InputError(
      `${printPick(pick)}: expected an operation of ${operations.map((one) => one.name).join(', ')}.`,
    );
  const { id, source, commit } = opened;
  const { tokenizer } = opened;
  const special = await specialOf(tokenizer, state);
  return {
    pick,
    // A checkpoint has its step in its title; it may be the one that lies nearest.
    title: pick.kind === 'step' ? opened.title : titleOf(pick, opened.title, operations),
    model: { id, title: opened.title, source, commit, sha256: opened.sha256, step: opened.step },
    class: edits.length ? ('counterfactual' as const) : ('measured' as const),
    architecture,
    operation,
    edits,
    first: firstTokens(await tokenizer.encode('', { special })),
    special: await specialWords(tokenizer),
  };
}

async function strongestOf(
  { model }: OpenModel,
  edits: readonly Edit[],
  ids: readonly number[],
  at: number,
): Promise<{ strongest: Strongest; uniform: Tensor }> {
  const { H } = model.architecture;
  const [layer, head] = [Math.floor(at / H), at % H];
  const run = await model.run(ids, { fields: ['q', 'att'], edits, capacity: ids.length });
  const [cos, uniform] = await run
    .read([{ metric: 'qk_cos', layer, head }, { metric: 'alpha_uniform' }])
    .finally(() => run.close());
  return { strongest: { layer, head, cos }, uniform };
}

/**
 * Measures one pick.
 * @throws the signal's reason, SinkscopeError, InputError
 */
export async function study(
  pick: Pick,
  opened: OpenModel,
  question: Question,
  { signal, onPrompt }: StudyWatch,
): Promise<Column> {
  const { state, texts, n } = question;
  const { T, eps } = state;
  const known = await about(pick, opened, question);
  checkLength(known.title, T, known.architecture);
  const sequences = await sequencesOf(opened.tokenizer, state, texts, n);
  const each: Record<PerPrompt, number>[] = [];
  const measurement = await measure(opened.model, sequences, {
    eps,
    edits: known.edits,
    signal,
    onProgress: ({ done, total }) => onPrompt(done, total),
    onSequence: (told) => each.push(numbersOf(told)),
  });
  const [ids] = sequences;
  const tokens = ids.map((id, t) => ({
    id,
    text: opened.tokenizer.piece(id),
    start: 0,
    end: 0,
    special: t < known.first.length,
  }));
  const perPrompt = Object.fromEntries(
    PER_PROMPT.map((name) => [name, each.map((one) => one[name])]),
  ) as Record<PerPrompt, number[]>;
  const alphas = measurement.metrics.alpha.mean.filter((_, i) => i % T === 0);
  const at = indexOfMost(alphas.map((value) => value ?? NaN));
  const more = await strongestOf(opened, known.edits, ids, at);
  signal.throwIfAborted();
  return { ...known, tokens, T, eps, sequences: sequences.length, measurement, perPrompt, ...more };
}
