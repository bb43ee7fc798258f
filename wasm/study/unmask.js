/**
 * Text out of a model of masked diffusion: in each step it says what every hidden place is, and the
 * places that it is surest of are uncovered.
 */
import { SinkscopeError, expect, expectInteger } from '../abi/errors.js';
import { check, checkOptions } from '../abi/arguments.js';
import { fieldsFor } from './measure.js';

/** @typedef {import('../sinkscope.js').Filled} Filled */
/** @typedef {import('../sinkscope.js').Tensor} Tensor */

const MOST_STEPS = 2 ** 16;

/** @type {typeof import('../sinkscope.js').unmask} */
export async function unmask(model, tokens, options) {
  check(model, 'model', 'model');
  checkOptions(options, { signal: 'signal', never: 'list', edits: 'list', onStep: 'call' });
  const { steps, edits, signal, onStep } = options;
  const mask = maskOf(model);
  expectInteger(steps, 1, MOST_STEPS, 'steps');
  const out = new Set([mask, ...idsOf(options.never ?? [], model.architecture.V)]);
  const now = hiddenIn(tokens, mask, model.architecture.context);
  const made = [];
  for (let left = steps; now.includes(mask); left--) {
    const { alpha, logits } = await look(model, now, { edits, signal });
    const guesses = placesOf(now, mask).map((place) => likeliest(logits, place, out));
    const filled = surest(guesses, Math.ceil(guesses.length / left));
    for (const { place, token } of filled) now[place] = token;
    const step = { tokens: [...now], filled, alpha, sink: strongest(alpha) };
    made.push(step);
    onStep?.(step, made.length - 1);
  }
  return made;
}

/**
 * The id that hides a token.
 * @param {Pick<import('../sinkscope.js').Model, 'architecture'>} model
 */
function maskOf({ architecture: { mask, mask_token: token } }) {
  if (token !== null && mask.kind === 'bidirectional') return token;
  const found = `${mask.kind} attention and ${token === null ? 'no' : 'a'} mask_token`;
  const expected = 'a mask_token and attention in both directions';
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
 * One run: alpha [T], mean over layers and heads, and logits [T, V].
 * @param {Pick<import('../sinkscope.js').Model, 'run' | 'describe'>} model
 * @param {readonly number[]} tokens
 * @param {Pick<import('../sinkscope.js').RunOptions, 'edits' | 'signal'>} options
 */
async function look(model, tokens, options) {
  const reads = [{ metric: 'alpha' }, { field: 'logits' }];
  const recorded = { fields: fieldsFor(model.describe, reads), capacity: tokens.length };
  const run = await model.run(tokens, { ...options, ...recorded });
  const [alpha, logits] = await run.read(reads).finally(() => run.close());
  options.signal?.throwIfAborted();
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
 * So many of them, the surest first, then from left to right.
 * @param {readonly Filled[]} guesses
 * @param {number} count
 */
function surest(guesses, count) {
  const sorted = [...guesses].sort((a, b) => b.probability - a.probability || a.place - b.place);
  return sorted.slice(0, count);
}

/** @param {Tensor} alpha [T] */
function strongest({ data }) {
  let place = 0;
  data.forEach((value, i) => {
    if (value > data[place]) place = i;
  });
  return { place, alpha: data[place] };
}
