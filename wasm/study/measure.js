/** The measurements of a model over many sequences, as the page shows them: means and spread. */
import { SinkscopeError, expect } from '../border/errors.js';

/** What is measured, by the names in describe. */
const METRICS = [
  'sink_ratio',
  'sink_ratio_raw',
  'sink_ratio_bias',
  'near_eps',
  'alpha',
  'row_mass_summary',
  'entropy_mean',
  'cos_gap',
  'hidden_ratio',
  'key_ratio',
  'value_ratio',
  'loss_mean',
];
const FIELDS = ['hidden', 'q', 'att', 'att_bias', 'loss'];

/** @type {typeof import('../sinkscope.js').cutText} */
export function cutText(tokenizer, text, { tokens, sequences, special = 'auto', lines = false }) {
  const isOne = typeof text === 'string' && !lines;
  const pieces = isOne ? [text] : typeof text === 'string' ? linesOf(text) : text;
  /** @type {number[][]} */
  const cut = [];
  const before = tokenizer.encode('', { special }).map(({ id }) => id);
  const room = tokens - before.length;
  expect(room > 0, 'tokens', `more than the ${before.length} special ones`, tokens);
  for (const piece of pieces) {
    const ids = tokenizer.encode(piece, { special: 'none' }).map(({ id }) => id);
    const ends = isOne ? ids.length : Math.min(room, ids.length);
    for (let at = 0; at + room <= ends && cut.length < sequences; at += room) {
      cut.push([...before, ...ids.slice(at, at + room)]);
    }
    if (cut.length === sequences) break;
  }
  if (cut.length > 0) return cut;
  const wanted = `expected a ${lines ? 'line' : 'text'} of at least ${room} tokens`;
  throw new SinkscopeError('argument', 'text', wanted);
}

/** @param {string} text */
function linesOf(text) {
  return text.split(/\r?\n/).filter((line) => line.trim() !== '');
}

/** @type {typeof import('../sinkscope.js').measure} */
export async function measure(model, sequences, options = {}) {
  const { eps = 0.3, edits, signal, onProgress, onSequence } = options;
  /** @type {Map<string, { shape: readonly number[], sum: Float64Array, squares: Float64Array }>} */
  const sums = new Map();
  for (const [done, ids] of sequences.entries()) {
    const run = await model.run(ids, { fields: FIELDS, edits, capacity: ids.length, signal });
    const reads = METRICS.map((metric) => ({ metric, eps }));
    const tensors = await run.read(reads).finally(() => run.close());
    tensors.forEach((tensor, i) => add(sums, METRICS[i], tensor));
    onSequence?.(Object.fromEntries(tensors.map((tensor, i) => [METRICS[i], tensor])), done);
    onProgress?.({ stage: 'measure', done: done + 1, total: sequences.length });
  }
  const n = sequences.length;
  const metrics = Object.fromEntries(
    [...sums].map(([name, { shape, sum, squares }]) => [
      name,
      {
        shape,
        mean: Array.from(sum, (x) => number(x / n)),
        deviation: Array.from(sum, (x, i) => number(spread(x / n, squares[i] / n, n))),
      },
    ]),
  );
  return { eps, T: sequences[0].length, sequences: n, metrics };
}

/**
 * @param {Map<string, { shape: readonly number[], sum: Float64Array, squares: Float64Array }>} sums
 * @param {string} name
 * @param {import('../sinkscope.js').Tensor} tensor
 */
function add(sums, name, { shape, data }) {
  const entry = sums.get(name) ?? {
    shape,
    sum: new Float64Array(data.length),
    squares: new Float64Array(data.length),
  };
  sums.set(name, entry);
  data.forEach((value, i) => {
    entry.sum[i] += value;
    entry.squares[i] += value * value;
  });
}

/**
 * The standard deviation between sequences, with n - 1; not defined for one.
 * @param {number} mean
 * @param {number} square mean of the squares
 * @param {number} n
 */
function spread(mean, square, n) {
  return n > 1 ? Math.sqrt((Math.max(0, square - mean * mean) * n) / (n - 1)) : NaN;
}

/**
 * What is undefined is null in JSON.
 * @param {number} x
 */
function number(x) {
  return Number.isFinite(x) ? x : null;
}
