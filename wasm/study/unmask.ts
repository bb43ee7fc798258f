/**
 * Generates text with a masked-diffusion model: each step predicts every masked position and
 * unmasks the most confident ones. A step may hide its strongest key, or a random one.
 */
import { SinkscopeError, expect, expectInteger, argumentError } from '../abi/errors.ts';
import { check, checkOptions } from '../abi/arguments.ts';
import { randomBits } from '../engine/random.ts';
import { fieldsFor } from './measure.ts';
import type { Tensor } from '../abi/types.ts';
import type { Model, Replica, RunOptions } from '../engine/types.ts';
import type { FilledToken, UnmaskOptions, UnmaskStep } from './types.ts';

const STEPS_MAX = 2 ** 16;
export const HIDDEN_KEYS = ['strongest', 'random'] as const;

/**
 * Fills the masked positions step by step. Each step runs the model, finds the most likely token of
 * every masked position, and keeps the most confident ones; the result is deterministic.
 * @param tokens the text, with the mask token at the hidden places
 * @throws SinkscopeError 'argument' if the model has no mask token or no position is masked;
 * 'unsupported' for an encoder without an LM head
 * @example
 * const mask = model.architecture.mask_token;
 * const steps = await unmask(model, [...ids, mask, mask, mask], { steps: 3, never: [tokenizer.bos] });
 */
export async function unmask(
  model: Replica,
  tokens: ArrayLike<number>,
  options: UnmaskOptions,
): Promise<UnmaskStep[]> {
  check(model, 'model', 'model');
  checkOptions(options, {
    signal: 'signal',
    never: 'list',
    edits: 'list',
    answers: 'list',
    onStep: 'call',
  });
  const { steps, edits = [], signal, onStep, without, seed = 0, answers } = options;
  const { V, context } = model.architecture;
  const mask = maskOf(model, options.mask);
  expectInteger(steps, 1, STEPS_MAX, 'steps');
  expectInteger(seed, 0, 2 ** 32 - 1, 'seed');
  if (without !== undefined && !HIDDEN_KEYS.includes(without))
    throw argumentError('without', HIDDEN_KEYS.join(' or '), without);
  const excluded = new Set([mask, ...checkNever(options.never ?? [], V)]);
  const currentTokens = checkMaskedTokens(tokens, mask, context);
  if (without !== undefined) expectInteger(currentTokens.length, 2, context, 'tokens.length');
  if (answers) checkAnswers(answers, currentTokens, excluded, V);
  const random = randomBits(seed);
  const results = [];
  for (let remaining = steps; currentTokens.includes(mask); remaining--) {
    const fullRun = await runModel(model, currentTokens, { edits, signal });
    const { alpha } = fullRun;
    const sink = strongestKey(alpha.data);
    const key = chooseHiddenKey(without, sink.place, currentTokens.length, random);
    const { logits } = await runWithoutKey(model, currentTokens, key, fullRun, { edits, signal });
    const guesses = currentTokens.flatMap((token, place) =>
      token === mask ? [mostLikelyToken(logits, place, excluded)] : [],
    );
    const filled = mostConfidentGuesses(guesses, Math.ceil(guesses.length / remaining)).map(
      (guess) => (answers ? fillAnswer(guess, answers[guess.place], logits, excluded) : guess),
    );
    for (const { place, token } of filled) currentTokens[place] = token;
    const step = { tokens: [...currentTokens], filled, alpha, sink, without: key ?? null };
    results.push(step);
    onStep?.(step, results.length - 1);
  }
  return results;
}

/**
 * Predicts tokens at `places`, from 1 on, from those before, with every key or without one:
 * the loss of each, and the key with the most attention over all queries.
 */
export async function predict(
  model: Pick<Model, 'run' | 'describe'>,
  tokens: readonly number[],
  places: readonly number[],
  options: Omit<UnmaskOptions, 'steps' | 'mask' | 'answers' | 'onStep'>,
): Promise<Pick<UnmaskStep, 'filled' | 'sink'>> {
  const { without, seed = 0, never, ...runOptions } = options;
  const excluded = new Set(never);
  const fullRun = await runModel(model, tokens, runOptions);
  const T = tokens.length;
  const sink = strongestKey(fullRun.alpha.data.map((alpha, key) => (alpha * (T - key)) / T));
  const key = chooseHiddenKey(without, sink.place, T, randomBits(seed));
  const { logits } = await runWithoutKey(model, tokens, key, fullRun, runOptions);
  const filled = places.map((place) => ({
    ...fillAnswer(mostLikelyToken(logits, place - 1, excluded), tokens[place], logits, excluded),
    place,
  }));
  return { filled, sink };
}

function chooseHiddenKey(
  without: UnmaskOptions['without'],
  sink: number,
  T: number,
  random: () => number,
) {
  return without && (without === 'random' ? drawOtherKey(sink, T, random) : sink);
}

/** Runs the model without a key; with no key to hide, returns the given run. */
async function runWithoutKey(
  model: Pick<Model, 'run' | 'describe'>,
  tokens: readonly number[],
  key: number | undefined,
  fullRun: Awaited<ReturnType<typeof runModel>>,
  { edits = [], signal }: Parameters<typeof runModel>[2],
) {
  if (key === undefined) return fullRun;
  return runModel(model, tokens, { edits: [...edits, { kind: 'hide_key', key }], signal });
}

/** Returns the mask token of the model's description, or else `tokenizerMask`. */
export function maskOf(
  { architecture: { mask, mask_token: modelMask, V } }: Pick<Model, 'architecture'>,
  tokenizerMask?: number,
) {
  if (tokenizerMask !== undefined) expectInteger(tokenizerMask, 0, V - 1, 'mask');
  const token = tokenizerMask ?? modelMask;
  if (token !== null && mask.kind === 'bidirectional') return token;
  const actual = `${mask.kind} attention and ${token === null ? 'no' : 'a'} mask token`;
  const expected = 'a mask token and attention in both directions';
  throw new SinkscopeError('argument', 'model', `expected ${expected}, got ${actual}`);
}

function checkMaskedTokens(tokens: ArrayLike<number>, mask: number, context: number) {
  expectInteger(tokens?.length, 1, context, 'tokens.length');
  const copy = Array.from(tokens);
  if (copy.includes(mask)) return copy;
  const text = `expected the mask token ${mask} at one place or more, found it at none`;
  throw new SinkscopeError('argument', 'tokens', text);
}

function checkNever(never: readonly number[], V: number) {
  never.forEach((id, i) => expectInteger(id, 0, V - 1, `never[${i}]`));
  expect(new Set(never).size < V - 1, 'never', 'fewer tokens than there are', never.length);
  return never;
}

function checkAnswers(
  answers: ArrayLike<number>,
  tokens: readonly number[],
  excluded: ReadonlySet<number>,
  V: number,
) {
  expectInteger(answers.length, tokens.length, tokens.length, 'answers.length');
  Array.from(answers, (id, i) => {
    expectInteger(id, 0, V - 1, `answers[${i}]`);
    expect(
      !excluded.has(id) || tokens[i] === id,
      `answers[${i}]`,
      'a token that may be put in',
      id,
    );
  });
}

function drawOtherKey(place: number, T: number, random: () => number) {
  const sample = Math.floor((random() * (T - 1)) / 2 ** 32);
  return sample < place ? sample : sample + 1;
}

/** Returns alpha [T], the mean over layers and heads, and logits [T, V], or throws without. */
async function runModel(
  model: Pick<Model, 'run' | 'describe'>,
  tokens: readonly number[],
  options: Pick<RunOptions, 'edits' | 'signal'>,
) {
  const reads = [{ metric: 'alpha' }, { field: 'logits' }];
  const runOptions = { fields: fieldsFor(model.describe, reads), capacity: tokens.length };
  const run = await model.run(tokens, { ...options, ...runOptions });
  const [alpha, logits] = await run.read(reads).finally(() => run.close());
  options.signal?.throwIfAborted();
  if (logits.data.every(Number.isNaN))
    throw new SinkscopeError(
      'unsupported',
      'model',
      'expected a head that predicts tokens, got none',
    );
  return { alpha: meanOfHeads(alpha), logits };
}

function meanOfHeads({ shape: [L, H, T], data }: Tensor) {
  const sums = new Float64Array(T);
  data.forEach((value, i) => (sums[i % T] += value));
  return { shape: [T], data: Float32Array.from(sums, (sum) => sum / (L * H)) };
}

/**
 * Returns a position's most likely token but `excluded`, at a tie the lowest id, from `logits`
 * [T, V], and its probability among the others.
 */
function mostLikelyToken(
  { shape: [, V], data }: Tensor,
  place: number,
  excluded: ReadonlySet<number>,
): FilledToken {
  const row = data.subarray(place * V, (place + 1) * V);
  let token = -1;
  row.forEach((x, id) => {
    if (!excluded.has(id) && (token < 0 || x > row[token])) token = id;
  });
  let sum = 0;
  row.forEach((x, id) => (sum += excluded.has(id) ? 0 : Math.exp(x - row[token])));
  return { place, token, probability: 1 / sum };
}

/** Returns the text's token at a position, its loss and the likeliest of `logits` [T, V]. */
function fillAnswer(
  { place, token: guess, probability }: FilledToken,
  token: number,
  { shape: [, V], data }: Tensor,
  excluded: ReadonlySet<number>,
): FilledToken {
  const row = data.subarray(place * V, (place + 1) * V);
  let sum = 0;
  row.forEach((x, id) => (sum += excluded.has(id) ? 0 : Math.exp(x - row[guess])));
  return { place, token, probability, guess, loss: Math.log(sum) + row[guess] - row[token] };
}

/** Returns the `count` most confident guesses; ties go from left to right. */
function mostConfidentGuesses(guesses: readonly FilledToken[], count: number) {
  const sortedGuesses = [...guesses].sort(
    (a, b) => b.probability - a.probability || a.place - b.place,
  );
  return sortedGuesses.slice(0, count);
}

function strongestKey(data: ArrayLike<number> & { forEach: Float32Array['forEach'] }) {
  let place = 0;
  data.forEach((value, i) => {
    if (value > data[place]) place = i;
  });
  return { place, alpha: data[place] };
}
