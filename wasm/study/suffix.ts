/**
 * Searches for a suffix that moves the sink or raises the loss of the continuation, one token at a
 * time, and compares it with random suffixes of the same length. It needs only runs, no gradients.
 */
import { expectHead } from '../abi/head.ts';
import { expect, expectInteger, argumentError } from '../abi/errors.ts';
import { check, checkList, checkOptions } from '../abi/arguments.ts';
import { randomBits } from '../engine/random.ts';
import { spread } from './spread.ts';
import type { Replica, RunOptions } from '../engine/types.ts';
import type {
  SuffixPair as Pair,
  SuffixGoal,
  StudyModel,
  SuffixOptions,
  SuffixResult,
} from './types.ts';

type Goal = { read: { field: string }; scoreOf: (values: Float32Array, layout: Layout) => number };
type Layout = { suffixStart: number; continuationStart: number; T: number; L: number; H: number };

const COUNT_MAX = 2 ** 20;
/** 100 random suffixes give the 5% and 95% quantiles, and ten random orders a mean. */
const RANDOM_SUFFIXES = 100;
const RANDOM_ORDERS = 10;

/** For each goal, the field that is read, `loss` [T] or `att` [L, H, T, T], and its score. */
const GOALS: Record<SuffixGoal, Goal> = {
  loss: {
    read: { field: 'loss' },
    scoreOf: (loss, { continuationStart }) => mean(loss.subarray(continuationStart)),
  },
  away: { read: { field: 'att' }, scoreOf: (att, layout) => -attentionReceived(att, layout, 0) },
  steal: {
    read: { field: 'att' },
    scoreOf: (att, layout) => {
      const keys = Array.from(
        { length: layout.continuationStart - layout.suffixStart },
        (_, i) => layout.suffixStart + i,
      );
      return Math.max(...keys.map((key) => attentionReceived(att, layout, key)));
    },
  },
};

export async function searchSuffix(
  model: StudyModel,
  pair: Pair,
  options: SuffixOptions,
): Promise<SuffixResult> {
  const allowedIds = checkSearch(model, pair, options);
  const { goal, length, steps, width, seed = 0, edits, others = [], signal, onStep } = options;
  const random = randomBits(seed);
  const drawIndex = (n: number) => Math.floor((random() * n) / 2 ** 32);
  const drawSuffix = () => Array.from({ length }, () => allowedIds[drawIndex(allowedIds.length)]);

  const scorePairs = async (items: readonly { pair: Pair; suffix: readonly number[] }[]) => {
    const results: number[] = [];
    const work = (replica: Replica, item: (typeof items)[number]) =>
      scoreRun(replica, item.pair, item.suffix, GOALS[goal], { edits, signal });
    for await (const score of spread(model, items, work, { signal })) results.push(score);
    return results;
  };
  const scoreAll = (suffixes: readonly number[][]) =>
    scorePairs(suffixes.map((suffix) => ({ pair, suffix })));

  let suffix = drawSuffix();
  let [bestScore] = await scoreAll([suffix]);
  const start = bestScore;
  const path = [];
  for (let step = 0; step < steps; step++) {
    const candidates = Array.from({ length: width }, () => {
      const candidate = [...suffix];
      candidate[drawIndex(length)] = allowedIds[drawIndex(allowedIds.length)];
      return candidate;
    });
    const candidateScores = await scoreAll(candidates);
    const bestIndex = argmax(candidateScores);
    if (candidateScores[bestIndex] > bestScore)
      [suffix, bestScore] = [candidates[bestIndex], candidateScores[bestIndex]];
    path.push({ suffix, score: bestScore });
    onStep?.({ suffix, score: bestScore }, step);
  }

  const randomSuffixes = Array.from(
    { length: Math.max(RANDOM_SUFFIXES, steps * width + 1) },
    drawSuffix,
  );
  const randomScores = await scoreAll(randomSuffixes);
  const sortedScores = randomScores.slice(0, RANDOM_SUFFIXES).sort((a, b) => a - b);
  const bestRandomIndex = argmax(randomScores.slice(0, steps * width + 1));
  // The goal 'steal' measures the attention to the suffix, so it is undefined without one.
  const scoreWithoutSuffix = goal === 'steal' ? null : (await scoreAll([[]]))[0];
  const orders = Array.from({ length: RANDOM_ORDERS }, () => shuffle(suffix, drawIndex));
  const orderScores = await scoreAll(orders);
  const scoreOnOthers = (otherSuffix: readonly number[]) =>
    scorePairs(others.map((pair) => ({ pair, suffix: otherSuffix })));
  return {
    suffix,
    score: bestScore,
    start,
    path,
    evaluated: steps * width + 1,
    none: scoreWithoutSuffix,
    random: {
      mean: mean(sortedScores),
      low: sortedScores[Math.floor(0.05 * (RANDOM_SUFFIXES - 1))],
      high: sortedScores[Math.ceil(0.95 * (RANDOM_SUFFIXES - 1))],
      best: randomScores[bestRandomIndex],
    },
    shuffled: mean(orderScores),
    others: others.length
      ? {
          found: await scoreOnOthers(suffix),
          random: await scoreOnOthers(randomSuffixes[0]),
          best: await scoreOnOthers(randomSuffixes[bestRandomIndex]),
        }
      : null,
  };
}

/** Checks the arguments of a search, and returns the tokens that a suffix may have. */
function checkSearch(model: StudyModel, pair: Pair, options: SuffixOptions) {
  check(model, 'model', 'model');
  const lists = { never: 'list', edits: 'list', others: 'list' };
  checkOptions(options, { goal: 'text', ...lists, signal: 'signal', onStep: 'call' });
  const { goal, length, steps, width, seed = 0, never = [], others = [] } = options;
  if (!Object.hasOwn(GOALS, goal)) throw argumentError('goal', Object.keys(GOALS).join(', '), goal);
  expectInteger(length, 1, COUNT_MAX, 'length');
  expectInteger(steps, 0, COUNT_MAX, 'steps');
  expectInteger(width, 1, COUNT_MAX, 'width');
  expectInteger(seed, 0, 2 ** 32 - 1, 'seed');
  if (goal === 'loss') expectHead(model.architecture);
  const { V, context } = model.architecture;
  const allowedIds = listAllowedIds(never, V);
  [pair, ...others].forEach((item, i) =>
    checkPair(item, i ? `others[${i - 1}]` : 'pair', V, context - length),
  );
  return allowedIds;
}

function listAllowedIds(never: readonly number[], V: number) {
  never.forEach((id, i) => expectInteger(id, 0, V - 1, `never[${i}]`));
  const excludedIds = new Set(never);
  expect(excludedIds.size < V, 'never', 'fewer tokens than there are', never.length);
  return Array.from({ length: V }, (_, id) => id).filter((id) => !excludedIds.has(id));
}

function checkPair(pair: Pair, where: string, V: number, tokensMax: number) {
  check(pair, 'object', where);
  for (const part of ['prompt', 'continuation'] as const) {
    checkList(pair[part], 'count', `${where}.${part}`);
    expectInteger(pair[part].length, 1, COUNT_MAX, `${where}.${part}.length`);
    pair[part].forEach((id, i) => expectInteger(id, 0, V - 1, `${where}.${part}[${i}]`));
  }
  const tokens = pair.prompt.length + pair.continuation.length;
  expect(tokens <= tokensMax, where, `at most ${tokensMax} tokens beside the suffix`, tokens);
}

async function scoreRun(
  replica: Replica,
  { prompt, continuation }: Pair,
  suffix: readonly number[],
  { read, scoreOf }: Goal,
  options: Pick<RunOptions, 'edits' | 'signal'>,
) {
  const ids = [...prompt, ...suffix, ...continuation];
  const run = await replica.run(ids, { ...options, fields: [read.field], capacity: ids.length });
  const { shape, data } = await run.field(read.field).finally(() => run.close());
  const [L, H] = shape;
  const suffixStart = prompt.length;
  const continuationStart = suffixStart + suffix.length;
  const layout = { suffixStart, continuationStart, T: ids.length, L, H };
  return scoreOf(data as Float32Array, layout);
}

/** Returns a key's mean weight in `att` [L, H, T, T] over the continuation and all heads. */
function attentionReceived(att: Float32Array, { continuationStart, T, L, H }: Layout, key: number) {
  let sum = 0;
  for (let map = 0; map < L * H; map++)
    for (let query = continuationStart; query < T; query++) sum += att[(map * T + query) * T + key];
  return sum / (L * H * (T - continuationStart));
}

const argmax = (values: readonly number[]) =>
  values.reduce((best, value, i) => (value > values[best] ? i : best), 0);

function mean(values: ArrayLike<number>) {
  let sum = 0;
  for (let i = 0; i < values.length; i++) sum += values[i];
  return sum / values.length;
}

function shuffle(list: readonly number[], pick: (n: number) => number) {
  const copy = [...list];
  for (let i = copy.length - 1; i > 0; i--) {
    const j = pick(i + 1);
    [copy[i], copy[j]] = [copy[j], copy[i]];
  }
  return copy;
}
