/**
 * Text out of a model of masked diffusion: in each step it says what every hidden place is, and the
 * places that it is surest of are uncovered. A step may do without its strongest key, or a random one.
 */
import { SinkscopeError, expect, expectInteger, unlike } from '../abi/errors.js';
import { check, checkOptions } from '../abi/arguments.js';
import { randomBits } from '../engine/random.js';
import { fieldsFor } from './measure.js';

/** @typedef {import('../sinkscope.js').Filled} Filled */
/** @typedef {import('../sinkscope.js').Tensor} Tensor */

const MOST_STEPS = 2 ** 16;
export const WITHOUT = /** @type {const} */ (['strongest', 'random']);

/** @type {typeof import('../sinkscope.js').unmask} */
export async function unmask(model, tokens, options) {
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
  expectInteger(steps, 1, MOST_STEPS, 'steps');
  expectInteger(seed, 0, 2 ** 32 - 1, 'seed');
  if (without !== undefined && !WITHOUT.includes(without))
    throw unlike('without', WITHOUT.join(' or '), without);
  const out = new Set([mask, ...idsOf(options.never ?? [], V)]);
  const now = hiddenIn(tokens, mask, context);
  if (without !== undefined) expectInteger(now.length, 2, context, 'tokens.length');
  if (answers) checkAnswers(answers, now, out, V);
  const random = randomBits(seed);
  const made = [];
  for (let left = steps; now.includes(mask); left--) {
    const whole = await look(model, now, { edits, signal });
    const { alpha } = whole;
    const sink = strongest(alpha.data);
    const key = hiddenKey(without, sink.place, now.length, random);
    const { logits } = await withoutKey(model, now, key, whole, { edits, signal });
    const guesses = placesOf(now, mask).map((place) => likeliest(logits, place, out));
    const filled = surest(guesses, Math.ceil(guesses.length / left)).map((one) =>
      answers ? answered(one, answers[one.place], logits, out) : one,
    );
    for (const { place, token } of filled) now[place] = token;
    const step = { tokens: [...now], filled, alpha, sink, without: key ?? null };
    made.push(step);
    onStep?.(step, made.length - 1);
  }
  return made;
}

/**
 * What a causal model says of tokens by those before each, with every key or without one: the loss of each place, and the key
 * that receives the most attention of all queries together.
 * @param {Pick<import('../sinkscope.js').Model, 'run' | 'describe'>} model
 * @param {readonly number[]} tokens
 * @param {readonly number[]} places from 1 on
 * @param {{ without?: 'strongest' | 'random', seed: number, never: readonly number[] } & Pick<import('../sinkscope.js').RunOptions, 'edits' | 'signal'>} options
 * @returns {Promise<Pick<import('../sinkscope.js').UnmaskStep, 'filled' | 'sink'>>}
 */
export async function predict(model, tokens, places, { without, seed, never, ...options }) {
  const out = new Set(never);
  const whole = await look(model, tokens, options);
  const T = tokens.length;
  const sink = strongest(whole.alpha.data.map((alpha, key) => (alpha * (T - key)) / T));
  const key = hiddenKey(without, sink.place, T, randomBits(seed));
  const { logits } = await withoutKey(model, tokens, key, whole, options);
  const filled = places.map((place) => ({
    ...answered(likeliest(logits, place - 1, out), tokens[place], logits, out),
    place,
  }));
  return { filled, sink };
}

/**
 * The key that a run does without.
 * @param {'strongest' | 'random' | undefined} without
 * @param {number} sink
 * @param {number} T
 * @param {() => number} random
 */
function hiddenKey(without, sink, T, random) {
  return without && (without === 'random' ? otherThan(sink, T, random) : sink);
}

/**
 * The run without a key, or the whole one where it does without none.
 * @param {Parameters<typeof look>[0]} model
 * @param {readonly number[]} tokens
 * @param {number | undefined} key
 * @param {Awaited<ReturnType<typeof look>>} whole
 * @param {Parameters<typeof look>[2]} options
 */
async function withoutKey(model, tokens, key, whole, { edits = [], signal }) {
  if (key === undefined) return whole;
  return look(model, tokens, { edits: [...edits, { kind: 'hide_key', key }], signal });
}

/**
 * The id that hides a token.
 * @param {Pick<import('../sinkscope.js').Model, 'architecture'>} model
 * @param {number} [given] the tokenizer's, where the model's description has none
 */
export function maskOf({ architecture: { mask, mask_token: own, V } }, given) {
  if (given !== undefined) expectInteger(given, 0, V - 1, 'mask');
  const token = given ?? own;
  if (token !== null && mask.kind === 'bidirectional') return token;
  const found = `${mask.kind} attention and ${token === null ? 'no' : 'a'} mask token`;
  const expected = 'a mask token and attention in both directions';
  throw new SinkscopeError('argument', 'model', `expected ${expected}, got ${found}`);
}

/**
 * @param {ArrayLike<number>} tokens
 * @param {number} mask
 * @param {number} context
 */
function hiddenIn(tokens, mask, context) {
  expectInteger(tokens?.length, 1, context, 'tokens.length');
  const copy = Array.from(tokens);
  if (copy.includes(mask)) return copy;
  const text = `expected the mask token ${mask} at one place or more, found it at none`;
  throw new SinkscopeError('argument', 'tokens', text);
}

/**
 * @param {readonly number[]} never
 * @param {number} V
 */
function idsOf(never, V) {
  never.forEach((id, i) => expectInteger(id, 0, V - 1, `never[${i}]`));
  expect(new Set(never).size < V - 1, 'never', 'fewer tokens than there are', never.length);
  return never;
}

/**
 * @param {ArrayLike<number>} answers
 * @param {readonly number[]} tokens
 * @param {ReadonlySet<number>} out
 * @param {number} V
 */
function checkAnswers(answers, tokens, out, V) {
  expectInteger(answers.length, tokens.length, tokens.length, 'answers.length');
  Array.from(answers, (id, i) => {
    expectInteger(id, 0, V - 1, `answers[${i}]`);
    expect(!out.has(id) || tokens[i] === id, `answers[${i}]`, 'a token that may be put in', id);
  });
}

/**
 * Another place, each as likely.
 * @param {number} place
 * @param {number} T
 * @param {() => number} random
 */
function otherThan(place, T, random) {
  const drawn = Math.floor((random() * (T - 1)) / 2 ** 32);
  return drawn < place ? drawn : drawn + 1;
}

/**
 * One run: alpha [T], mean over layers and heads, and logits [T, V].
 * @param {Pick<import('../sinkscope.js').Model, 'run' | 'describe'>} model
 * @param {readonly number[]} tokens
 * @param {Pick<import('../sinkscope.js').RunOptions, 'edits' | 'signal'>} options
 * @throws SinkscopeError 'unsupported' for a model that predicts no token
 */
async function look(model, tokens, options) {
  const reads = [{ metric: 'alpha' }, { field: 'logits' }];
  const recorded = { fields: fieldsFor(model.describe, reads), capacity: tokens.length };
  const run = await model.run(tokens, { ...options, ...recorded });
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

/** @param {Tensor} alpha [L, H, T] */
function meanOfHeads({ shape: [L, H, T], data }) {
  const sums = new Float64Array(T);
  data.forEach((value, i) => (sums[i % T] += value));
  return { shape: [T], data: Float32Array.from(sums, (sum) => sum / (L * H)) };
}

/**
 * @param {readonly number[]} tokens
 * @param {number} mask
 */
function placesOf(tokens, mask) {
  return tokens.flatMap((token, place) => (token === mask ? [place] : []));
}

/**
 * The likeliest token of a position, the lowest id of equals. Its probability is among the tokens
 * that the model may choose there.
 * @param {Tensor} logits [T, V]
 * @param {number} place
 * @param {ReadonlySet<number>} out ids that may not
 * @returns {Filled}
 */
function likeliest({ shape: [, V], data }, place, out) {
  const row = data.subarray(place * V, (place + 1) * V);
  let token = -1;
  row.forEach((x, id) => {
    if (!out.has(id) && (token < 0 || x > row[token])) token = id;
  });
  let sum = 0;
  row.forEach((x, id) => (sum += out.has(id) ? 0 : Math.exp(x - row[token])));
  return { place, token, probability: 1 / sum };
}

/**
 * What the text has at a place, beside what the model would have put in.
 * @param {Filled} guess
 * @param {number} token
 * @param {Tensor} logits [T, V]
 * @param {ReadonlySet<number>} out
 * @returns {Filled}
 */
function answered({ place, token: guess, probability }, token, { shape: [, V], data }, out) {
  const row = data.subarray(place * V, (place + 1) * V);
  let sum = 0;
  row.forEach((x, id) => (sum += out.has(id) ? 0 : Math.exp(x - row[guess])));
  return { place, token, probability, guess, loss: Math.log(sum) + row[guess] - row[token] };
}

/**
 * So many of them, the surest first, then from left to right.
 * @param {readonly Filled[]} guesses
 * @param {number} count
 */
function surest(guesses, count) {
  const sorted = [...guesses].sort((a, b) => b.probability - a.probability || a.place - b.place);
  return sorted.slice(0, count);
}

/** @param {ArrayLike<number> & { forEach: Float32Array['forEach'] }} data [T] */
function strongest(data) {
  let place = 0;
  data.forEach((value, i) => {
    if (value > data[place]) place = i;
  });
  return { place, alpha: data[place] };
}
