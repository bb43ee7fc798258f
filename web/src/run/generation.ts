/** Generates text: adds tokens to the run of a shown model that predicts tokens, one at a time. */
import { InputError } from '../ask/errors';
import { editsOf, parseSubject } from '../ask/subject';
import { predictsNext, type Frame } from '../frame';
import type { OpenModel } from './opened';
import { continuePrompt } from './writing';
import { canUpdate, idsOf, hasTokens, EXTRA_TOKENS, type CachedRun, type CachedRuns } from './runs';

export interface Sampling {
  readonly count: number;
  readonly temperature: number;
  readonly topK: number;
  readonly seed: number;
}

/** A task of the queue; `resolve` or `reject` ends the wait of the caller. */
export interface Generation {
  readonly subjects: readonly string[];
  readonly sampling: Sampling;
  readonly resolve: () => void;
  readonly reject: (error: unknown) => void;
}

export const canGenerate = (frame: Frame): boolean => predictsNext(frame) && !frame.recording;

/** Whether what a model writes after the text is known of its frame: one text, which leaves room for more tokens. */
export const canWrite = (frame: Frame): boolean =>
  canGenerate(frame) && frame.sequences === 1 && frame.T < frame.architecture.context;

/** Returns what a model writes after a frame's text: always the likeliest token. */
export async function writeAfter(
  { ids, T, edits }: Frame,
  { model, tokenizer }: OpenModel,
  maxTokens: number,
): Promise<string> {
  const count = Math.min(maxTokens, model.architecture.context - T);
  const job = { prompt: ids[0]!, count, seed: 1, sampling: { temperature: 0, topK: 0 } };
  return (await continuePrompt({ model, tokenizer, edits }, { title: '', edits: () => [] }, job))
    .text;
}

/** Returns the frame with one more token and without numbers, which are then read from the run. */
function withToken(frame: Frame, id: number, text: string): Frame {
  const tokens = [...frame.tokens, { id, text, start: 0, end: 0, special: false }];
  const { head: _, writes: __, ...rest } = frame;
  const ids = idsOf(tokens);
  return {
    ...rest,
    tokens,
    T: tokens.length,
    ids: [ids],
    question: { ...frame.question, ids },
    generated: frame.generated + 1,
    sequences: 1,
    tensors: {},
    spread: {},
    perPrompt: {},
    next: [],
  };
}

interface GenerateOptions extends Sampling {
  readonly fields: readonly string[];
  readonly signal: AbortSignal;
}

/** Adds at most `count` tokens to the text of a frame, and yields a frame without numbers after each. */
export async function* generateFrames(
  answer: { readonly frame: Frame; readonly openModel: OpenModel },
  runs: CachedRuns,
  options: GenerateOptions,
): AsyncGenerator<{ readonly frame: Frame; readonly cachedRun: CachedRun }> {
  const { openModel } = answer;
  let { frame } = answer;
  const limit = Math.min(options.count, openModel.model.architecture.context - frame.T);
  if (limit < 1) throw new InputError(`${frame.title} has no room for more tokens.`);
  const cachedRun = await reserveRun(frame, openModel, limit, runs, options);
  for await (const { token } of cachedRun.run.generate({ ...options, count: limit })) {
    frame = withToken(frame, token, openModel.tokenizer.piece(token));
    yield { frame, cachedRun };
  }
}

/** Returns a run of the frame's text with memory for more tokens; too little memory means a new run of the same bits. */
async function reserveRun(
  { subject, tokens, T }: Frame,
  openModel: OpenModel,
  extraTokens: number,
  runs: CachedRuns,
  { fields, signal }: Pick<GenerateOptions, 'fields' | 'signal'>,
): Promise<CachedRun> {
  const ids = idsOf(tokens);
  const lastRun = runs.take(subject, (run) => canUpdate(run, openModel, T + extraTokens, fields));
  if (lastRun) {
    runs.set(subject, lastRun);
    // If the reader stopped while a token was sampled, the run has a token that no frame has.
    if (!hasTokens(lastRun.run, ids)) await lastRun.run.update(ids, { signal });
    return lastRun;
  }
  const { model } = openModel;
  const capacity = Math.min(model.architecture.context, T + Math.max(extraTokens, EXTRA_TOKENS));
  const run = await model.run(ids, {
    edits: editsOf(parseSubject(subject)!, model.describe),
    fields,
    capacity,
    signal,
  });
  const cachedRun = { run, capacity, openModel, fields: new Set(fields) };
  runs.set(subject, cachedRun);
  return cachedRun;
}
