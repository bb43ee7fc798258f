/** Measurements that a reader starts, in runs of their own, taken by name; fetched then. */
import {
  unmask,
  type SuffixResult,
  type SuffixOptions,
  type SuffixPair,
  type TaskResult,
  type UnmaskResult,
  type UnmaskOptions,
  type UnmaskStep,
} from 'sinkscope';
import {
  copyTask,
  measureTask,
  measureUnmasking,
  recallTask,
  searchSuffix,
  textTask,
} from 'sinkscope/internal';
import type { Frame } from '../frame';
import type { OpenModel } from './opened';

interface StartedInput {
  readonly frame: Frame;
  readonly openModel: OpenModel;
  readonly signal: AbortSignal;
  /** The model of the zoo that differs from the frame's model in one factor. */
  readonly baseline: () => Promise<OpenModel | undefined>;
}

/** Called with the finished share of the work, from 0 to 1. */
type OnShare = (share: number) => void;

/** A task copies this many random tokens. */
const COPY_LENGTH = 25;

const maskOption = ({ maskToken }: Frame) => (maskToken === undefined ? {} : { mask: maskToken });

/**
 * Measures accuracy in three tasks: the next token in the frame's prompts, copied random tokens, and a name over two
 * distances. Each is measured with every key, with the first key hidden, and with another key hidden. All prompts begin
 * with the special tokens of the frame's text.
 */
async function measureTasks(
  { frame, openModel: { model, tokenizer }, signal }: StartedInput,
  { onTask, onShare }: { onTask: (result: TaskResult) => void; onShare: OnShare },
): Promise<void> {
  const { V, context } = model.architecture;
  const prefixLength = frame.tokens.findIndex(({ special }) => !special);
  const prefix = frame.tokens.slice(0, Math.max(0, prefixLength));
  const specialTexts = prefix.map(({ text }) => text);
  const candidates = [
    await textTask(frame.ids),
    await copyTask(V, {
      first: prefix.map(({ id }) => id),
      never: tokenizer.special,
      length: Math.min(COPY_LENGTH, Math.floor((context - 2) / 2)),
    }),
    await recallTask(tokenizer, { between: 1, special: specialTexts }),
    await recallTask(tokenizer, { between: 4, special: specialTexts }),
  ];
  const fittingTasks = candidates
    .filter((task) => task !== undefined)
    .filter(({ prompts }) => prompts.every(({ ids, from }) => from >= 3 && ids.length <= context));
  for (const [i, task] of fittingTasks.entries())
    onTask(
      await measureTask(model, task, {
        edits: frame.edits,
        signal,
        onProgress: ({ done, total }) => onShare((i + done / total) / fittingTasks.length),
      }),
    );
}

/** `result` has the losses of the masked model; `causal` is the title of the causal model that it is compared with. */
export type MaskedLoss = { readonly result: UnmaskResult; readonly causal?: string };

/** Measures the loss at masked tokens with every key and without one, and that of a causal twin in the zoo. */
async function measureMaskedLoss(
  { frame, openModel: { model, tokenizer }, signal, baseline }: StartedInput,
  { onShare }: { onShare: OnShare },
): Promise<MaskedLoss> {
  const baselineModel = await baseline();
  const ids = [...new Set(frame.ids.flat())];
  const hasSameTokens =
    baselineModel?.model.architecture.mask.kind === 'causal' &&
    ids.every((id) => baselineModel.tokenizer.piece(id) === tokenizer.piece(id));
  const result = await measureUnmasking(model, frame.ids, {
    ...maskOption(frame),
    never: tokenizer.special,
    edits: frame.edits,
    signal,
    onProgress: ({ done, total }) => onShare(done / total),
    ...(hasSameTokens ? { causal: baselineModel.model } : {}),
  });
  return { result: result, ...(hasSameTokens ? { causal: baselineModel.title } : {}) };
}

/** Searches for tokens that raise a score when they are inserted between two texts without special tokens. */
async function findSuffix(
  { frame: { edits }, openModel: { model, tokenizer }, signal }: StartedInput,
  { pair, ...options }: Omit<SuffixOptions, 'signal'> & { pair: SuffixPair },
): Promise<{ result: SuffixResult; text: string }> {
  const searchOptions = { ...options, signal, never: tokenizer.special, edits };
  const result = await searchSuffix(model, pair, searchOptions);
  return { result: result, text: result.suffix.map((id) => tokenizer.piece(id)).join('') };
}

/** Lets a masked model fill in the mask tokens, and reports each step. The text has no special tokens. */
async function fillMasks(
  { frame, openModel, signal }: StartedInput,
  {
    tokens,
    onStep,
    ...options
  }: Pick<UnmaskOptions, 'steps' | 'without'> & {
    tokens: readonly number[];
    onStep: (step: UnmaskStep, openModel: OpenModel) => void;
  },
): Promise<void> {
  await unmask(openModel.model, tokens, {
    ...options,
    ...maskOption(frame),
    never: openModel.tokenizer.special,
    edits: frame.edits,
    signal,
    onStep: (step) => onStep(step, openModel),
  });
}

const startedMeasurements = {
  tasks: measureTasks,
  maskedLoss: measureMaskedLoss,
  suffix: findSuffix,
  unmasking: fillMasks,
};
type Started = typeof startedMeasurements;

export type Measure<Context> = <Name extends keyof Started>(
  name: Name,
  input: Context,
  options: Parameters<Started[Name]>[1],
) => Promise<Awaited<ReturnType<Started[Name]>>>;

export const takeMeasurement: Measure<StartedInput> = (name, input, options) =>
  (startedMeasurements[name] as (input: StartedInput, options: never) => unknown)(
    input,
    options as never,
  ) as never;
