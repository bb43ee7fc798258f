/** Lets a model continue a prompt under conditions, with the same random numbers, so that only these matter. */
import type { AnyTokenizer, Edit, Model } from 'sinkscope';

const DEFAULT_SAMPLING = { temperature: 0.6, topK: 40 };

export interface Condition {
  readonly title: string;
  /** `prompt` and `count` are the tokens of the prompt and those to generate. */
  readonly edits: (prompt: number, count: number) => readonly Edit[];
}

export type Continuation = { readonly text: string; readonly tokens: readonly number[] };

export const distinctShare = ({ tokens }: Pick<Continuation, 'tokens'>): number =>
  new Set(tokens).size / tokens.length;

const mean = (values: ArrayLike<number>) =>
  Array.from(values).reduce((a, b) => a + b, 0) / values.length;

export interface Writer {
  readonly model: Model;
  readonly tokenizer: AnyTokenizer;
  readonly edits?: readonly Edit[];
}

interface Job {
  readonly prompt: readonly number[];
  readonly count: number;
  readonly seed: number;
  readonly sampling?: typeof DEFAULT_SAMPLING;
  readonly signal?: AbortSignal;
}

/** Returns the start token that the tokenizer adds and the prompt, `maxTokens` ids at most. */
export async function promptOf(
  { tokenizer }: Writer,
  text: string,
  maxTokens: number,
): Promise<number[]> {
  return (await tokenizer.encode(text, { special: 'auto' }))
    .map(({ id }) => id)
    .slice(0, maxTokens);
}

export async function continuePrompt(
  { model, tokenizer, edits = [] }: Writer,
  condition: Condition,
  { prompt, count, seed, sampling = DEFAULT_SAMPLING, signal }: Job,
): Promise<Continuation> {
  const run = await model.run(prompt, {
    edits: [...edits, ...condition.edits(prompt.length, count)],
    capacity: prompt.length + count,
    fields: [],
    signal,
  });
  try {
    const tokens: number[] = [];
    for await (const { token } of run.generate({ ...sampling, count, seed, signal }))
      tokens.push(token);
    return { text: tokens.map((token) => tokenizer.piece(token)).join(''), tokens };
  } finally {
    await run.close();
  }
}

/** Returns how surprising a generated text is to the model without conditions: its loss in nats per token. */
export async function measureLoss(
  { model, edits = [] }: Writer,
  { prompt, signal }: Pick<Job, 'prompt' | 'signal'>,
  { tokens }: Pick<Continuation, 'tokens'>,
): Promise<number> {
  const run = await model.run([...prompt, ...tokens], { edits, fields: ['loss'], signal });
  try {
    return mean((await run.field('loss')).data.subarray(prompt.length));
  } finally {
    await run.close();
  }
}
