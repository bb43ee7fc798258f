/**
 * Generates text with a masked-diffusion model: each step predicts every masked position and
 * unmasks the most confident ones. A step may hide its strongest key, or a random one.
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
  const excluded = new Set([mask, ...idsOf(options.never ?? [], V)]);
  const current = hiddenIn(tokens, mask, context);
  if (without !== undefined) expectInteger(current.length, 2, context, 'tokens.length');
  if (answers) checkAnswers(answers, current, excluded, V);
  const random = randomBits(seed);
  const made = [];
  for (let remaining = steps; current.includes(mask); remaining--) {
    const fullRun = await look(model, current, { edits, signal });
    const { alpha } = fullRun;
    const sink = strongest(alpha.data);
    const key = hiddenKey(without, sink.place, current.length, random);
    const { logits } = await withoutKey(model, current, key, fullRun, { edits, signal });
    const guesses = placesOf(current, mask).map((place) => likeliest(logits, place, excluded));
    const filled = surest(guesses, Math.ceil(guesses.length / remaining)).map((one) =>
      answers ? withAnswer(one, answers[one.place], logits, excluded) : one,
    );
    for (const { place, token } of filled) current[place] = token;
    const step = { tokens: [...current], filled, alpha, sink, without: key ?? null };
    made.push(step);
    onStep?.(step, made.length - 1);
  }
  return made;
}

/**
 * Predicts tokens with a causal model from those before them, with every key or without one;
 * returns the loss of each position, and the key with the most attention over all queries.
 * @param {Pick<import('../sinkscope.js').Model, 'run' | 'describe'>} model
 * @param {readonly number[]} tokens
 * @param {readonly number[]} places from 1 on
 * @param {{ without?: 'strongest' | 'random', seed: number, never: readonly number[] } & Pick<import('../sinkscope.js').RunOptions, 'edits' | 'signal'>} options
 * @returns {Promise<Pick<import('../sinkscope.js').UnmaskStep, 'filled' | 'sink'>>}
 */
export async function predict(model, tokens, places, { without, seed, never, ...options }) {
  const excluded = new Set(never);
  const fullRun = await look(model, tokens, options);
  const T = tokens.length;
  const sink = strongest(fullRun.alpha.data.map((alpha, key) => (alpha * (T - key)) / T));
  const key = hiddenKey(without, sink.place, T, randomBits(seed));
  const { logits } = await withoutKey(model, tokens, key, fullRun, options);
  const filled = places.map((place) => ({
    ...withAnswer(likeliest(logits, place - 1, excluded), tokens[place], logits, excluded),
    place,
  }));
  return { filled, sink };
}

/**
 * Returns the key that a run hides.
 * @param {'strongest' | 'random' | undefined} without
 * @param {number} sink
 * @param {number} T
 * @param {() => number} random
 */
function hiddenKey(without, sink, T, random) {
  return without && (without === 'random' ? otherThan(sink, T, random) : sink);
}

/**
 * Runs without a key; without one to hide it returns the full run.
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
 * Returns the id of the mask token.
 * @param {Pick<import('../sinkscope.js').Model, 'architecture'>} model
 * @param {number} [given] from the tokenizer, if the model's description has none
 */
export function maskOf({ architecture: { mask, mask_token: modelMask, V } }, given) {
  if (given !== undefined) expectInteger(given, 0, V - 1, 'mask');
  const token = given ?? modelMask;
  if (token !== null && mask.kind === 'bidirectional') return token;
  const actual = `${mask.kind} attention and ${token === null ? 'no' : 'a'} mask token`;
  const expected = 'a mask token and attention in both directions';
  throw new SinkscopeError('argument', 'model', `expected ${expected}, got ${actual}`);
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
 * Draws another position, uniformly.
 * @param {number} place
 * @param {number} T
 * @param {() => number} random
 */
function otherThan(place, T, random) {
  const sample = Math.floor((random() * (T - 1)) / 2 ** 32);
  return sample < place ? sample : sample + 1;
}

/**
 * Runs the model: alpha [T], the mean over layers and heads, and logits [T, V].
 * @param {Pick<import('../sinkscope.js').Model, 'run' | 'describe'>} model
 * @param {readonly number[]} tokens
 * @param {Pick<import('../sinkscope.js').RunOptions, 'edits' | 'signal'>} options
 * @throws SinkscopeError 'unsupported' for a model that predicts no token
 */
async function look(model, tokens, options) {
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
 * Returns the most likely token of a position; ties go to the lowest id. Its probability is
 * relative to the tokens that the model may choose.
 * @param {Tensor} logits [T, V]
 * @param {number} place
 * @param {ReadonlySet<number>} out ids that it may not choose
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
 * Returns the text's token at a position, with the model's own choice.
 * @param {Filled} guess
 * @param {number} token
 * @param {Tensor} logits [T, V]
 * @param {ReadonlySet<number>} out
 * @returns {Filled}
 */
function withAnswer({ place, token: guess, probability }, token, { shape: [, V], data }, out) {
  const row = data.subarray(place * V, (place + 1) * V);
  let sum = 0;
  row.forEach((x, id) => (sum += out.has(id) ? 0 : Math.exp(x - row[guess])));
  return { place, token, probability, guess, loss: Math.log(sum) + row[guess] - row[token] };
}

/**
 * Returns the `count` most confident guesses; ties go from left to right.
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
