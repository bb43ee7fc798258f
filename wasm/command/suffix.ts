/** Searches for a suffix on the first sequence and tests it on the others. */
import { expect, argumentError } from '../abi/errors.ts';
import { searchSuffix } from '../study/suffix.ts';
import { openModel, type OpenedModel } from './open.ts';
import { parseCount, parseOptional, parsePositive, type CommandInput } from './values.ts';
import type { SuffixGoal } from '../study/types.ts';
import type { Engine } from '../load/types.ts';

/** The quantity that each goal changes, and the sign that turns a score into this quantity. */
const QUANTITIES = {
  loss: { name: 'loss of the continuation, nats', sign: 1 },
  away: { name: 'weight of the first key', sign: -1 },
  steal: { name: "weight of the suffix's strongest key", sign: 1 },
};

export async function searchOpenedModel(
  openedModel: OpenedModel,
  {
    goal,
    prompt,
    ...options
  }: { goal: string; length: number; steps: number; width: number; seed: number; prompt?: number },
) {
  const { model, tokenizer, sequences, edits } = openedModel;
  const { length: tokens } = sequences[0];
  const promptLength = prompt ?? Math.floor(tokens / 2);
  expect(promptLength < tokens, '--prompt', `fewer than --tokens ${tokens}`, promptLength);
  if (!Object.hasOwn(QUANTITIES, goal))
    throw argumentError('--goal', Object.keys(QUANTITIES).join(', '), goal);
  const [pair, ...others] = sequences.map((ids) => ({
    prompt: ids.slice(0, promptLength),
    continuation: ids.slice(promptLength),
  }));
  const search = await searchSuffix(model, pair, {
    goal: goal as SuffixGoal,
    never: tokenizer.special,
    edits,
    others,
    ...options,
  });
  const pieces = search.suffix.map((id) => tokenizer.piece(id));
  return { model: openedModel.id, goal, prompt: promptLength, tokens, pieces, ...search };
}

export function suffixText(result: Awaited<ReturnType<typeof searchOpenedModel>>) {
  const { model, goal, prompt, tokens, pieces, ...search } = result;
  const { name, sign } = QUANTITIES[goal as SuffixGoal];
  const format = (score: number) => (sign * score).toFixed(3);
  const { random, others } = search;
  const interval = [random.low, random.high].map((x) => sign * x).sort((a, b) => a - b);
  const lines = [
    `${model}: a suffix of ${pieces.length} tokens between ${prompt} tokens and the ${tokens - prompt} after them`,
    `found ${JSON.stringify(pieces.join(''))} (ids ${search.suffix.join(',')}) of ${search.evaluated} tried`,
    name,
    ...(search.none === null ? [] : [`  without a suffix          ${format(search.none)}`]),
    `  100 random ones           ${format(random.mean)} (5% to 95%: ${interval.map((x) => x.toFixed(3)).join(' to ')})`,
    `  best of ${`${search.evaluated} random`.padEnd(18)}${format(random.best)}`,
    `  found                     ${format(search.score)}`,
    `  found, in another order   ${format(search.shuffled)}`,
  ];
  if (others) {
    const mean = (list: readonly number[]) => list.reduce((a, b) => a + b) / list.length;
    lines.push(
      `on ${others.found.length} texts that the search did not see`,
      `  a random one              ${format(mean(others.random))}`,
      `  best of the random ones   ${format(mean(others.best))}`,
      `  found                     ${format(mean(others.found))}`,
    );
  }
  return `${lines.join('\n')}\n`;
}

export async function searchModel(engine: Engine, { names: [name], values }: CommandInput) {
  const options = {
    goal: values.goal,
    length: parsePositive(values.length, '--length'),
    steps: parseCount(values.steps, '--steps'),
    width: parsePositive(values.width, '--width'),
    seed: parseCount(values.seed, '--seed'),
    prompt: parseOptional(parsePositive, values.prompt, '--prompt'),
  };
  const openedModel = await openModel(engine, name, values);
  const found = await searchOpenedModel(openedModel, options);
  return { ...found, cut: openedModel.cut, T: found.tokens };
}
