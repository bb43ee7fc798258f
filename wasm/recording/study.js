/** A study of many prompts as a recording, and two recordings side by side. */
import { JOB, check, checkList, checkOptions } from '../abi/arguments.js';
import { expect, expectInteger, find } from '../abi/errors.js';
import { fieldsFor, measure } from '../study/measure.js';
import { RECORD, conditionsOf, encode, keep, keptOf, part, putMeans } from './write.js';

/** @typedef {import('../sinkscope.js').Tensor} Tensor */
/** @typedef {import('./write.js').Parts} Parts */

/**
 * What a recording holds over all prompts: what has a meaningful mean and needs no second run and no
 * what-if.
 * @param {import('../sinkscope.js').Describe} describe
 */
function averaged({ metrics, fields }) {
  const usual = fields.filter((row) => row.standard || row.averaged).map(({ name }) => name);
  return metrics
    .filter((row) => row.averaged && !row.arguments.includes('base'))
    .filter((row) => row.fields.every((name) => usual.includes(name)))
    .map(({ name }) => name);
}

/**
 * The summary of one prompt: Sink_1 at each threshold, alpha_1 as a mean over heads, the mean loss.
 * @param {Readonly<Record<string, Tensor>>} metrics
 * @param {readonly number[]} eps
 */
function summaryOf({ alpha, loss_mean: loss }, eps) {
  const [L, H, T] = alpha.shape;
  const firsts = Array.from({ length: L * H }, (_, i) => alpha.data[i * T]);
  const share = (/** @type {number} */ at) => {
    const threshold = Math.fround(at);
    if (firsts.some(Number.isNaN)) return NaN;
    return firsts.filter((one) => one > threshold).length / firsts.length;
  };
  const sum = firsts.reduce((a, b) => a + b, 0);
  return { sinks: eps.map(share), alpha: sum / firsts.length, loss: loss?.data[0] ?? NaN };
}

/** @type {typeof import('../sinkscope.js').recordStudy} */
export async function recordStudy(model, sequences, options = {}) {
  check(model, 'model', 'model');
  checkList(sequences, 'list', 'sequences');
  checkOptions(options, { ...JOB, ...RECORD, metrics: 'list', edits: 'list' });
  const { describe } = model;
  const {
    edits = [],
    eps = [describe.defaults.eps],
    keep: kept = 1,
    half = true,
    signal,
    onProgress,
  } = options;
  expectInteger(kept, 0, sequences.length, 'keep');
  const metrics = [...new Set(['alpha', ...(options.metrics ?? averaged(describe))])];
  /** @type {ReturnType<typeof summaryOf>[]} */
  const rows = [];
  const {
    T,
    metrics: means,
    byEps,
  } = await measure(model, sequences, {
    metrics,
    eps,
    edits,
    signal,
    onProgress,
    onSequence: (found) => void rows.push(summaryOf(found, eps)),
  });
  /** @type {Parts} */
  const parts = new Map();
  putMeans(parts, describe, [means, ...(byEps ?? []).slice(1).map((one) => one.metrics)]);
  // Which keys a query sees under an edit is not what the model's mask says.
  const more = edits.length > 0 ? ['seen'] : [];
  const own = keptOf(model, { ...options, fields: [...(options.fields ?? ['att']), ...more] });
  const fields = fieldsFor(describe, [
    ...[...own.fields, ...own.small].map((field) => ({ field })),
    ...own.exact.map((metric) => ({ metric })),
  ]);
  for (let i = 0; i < kept; i++) {
    const run = await model.run(sequences[i], { fields, edits, signal });
    await keep(parts, i, run, own, half).finally(() => run.close());
  }
  const count = rows.length;
  const numbers = (/** @type {number[]} */ data, /** @type {number[]} */ shape) =>
    part({ shape, data });
  parts.set(
    'prompt.sink_1',
    numbers(
      rows.flatMap(({ sinks }) => sinks),
      [count, eps.length],
    ),
  );
  parts.set(
    'prompt.alpha_1',
    numbers(
      rows.map(({ alpha }) => alpha),
      [count],
    ),
  );
  parts.set(
    'prompt.loss',
    numbers(
      rows.map(({ loss }) => loss),
      [count],
    ),
  );
  const ids = sequences.slice(0, kept).map((list) => [...list]);
  const isOther = edits.some(
    ({ kind }) => describe.edits[find(describe.edits, kind, 'edit')].counterfactual,
  );
  const asked = isOther ? { class: 'COUNTERFACTUAL', ...options } : options;
  return encode(parts, conditionsOf(model, asked, { ids, count, T, eps, edits }));
}

/** @type {typeof import('../sinkscope.js').compareRecordings} */
export async function compareRecordings(a, b, options = {}) {
  check(a, 'recording', 'a');
  check(b, 'recording', 'b');
  checkOptions(options, { tolerance: 'number' });
  const { tolerance = 0 } = options;
  expect(tolerance >= 0, 'tolerance', '0 or more', tolerance);
  /** @type {import('../sinkscope.js').Difference[]} */
  const found = [];
  for (const [name, one, other] of sizesOf(a.conditions, b.conditions))
    if (JSON.stringify(one) !== JSON.stringify(other)) found.push({ name, a: one, b: other });
  const [names, others] = [a.tensors, b.tensors];
  const shared = [...names.keys()].filter((name) => others.has(name)).sort();
  for (const name of shared) {
    const [x, y] = [await a.tensor(name), await b.tensor(name)];
    const [shapeA, shapeB] = [x.shape, y.shape].map((shape) => shape.filter((n) => n !== 1).join());
    if (shapeA !== shapeB) found.push({ name, a: [...x.shape], b: [...y.shape] });
    else found.push(...largest(name, x, y, tolerance));
  }
  const only = (
    /** @type {ReadonlyMap<string, unknown>} */ these,
    /** @type {ReadonlyMap<string, unknown>} */ those,
  ) => [...these.keys()].filter((name) => !those.has(name)).sort();
  return {
    differences: found,
    compared: shared,
    onlyA: only(names, others),
    onlyB: only(others, names),
  };
}

/**
 * What must be equal for numbers to be comparable.
 * @param {import('../sinkscope.js').Conditions} a
 * @param {import('../sinkscope.js').Conditions} b
 * @returns {[string, unknown, unknown][]}
 */
function sizesOf(a, b) {
  const sizes = /** @type {const} */ (['L', 'blocks', 'layers', 'H', 'G', 'operation']);
  return [
    ...sizes.map(
      (key) => /** @type {[string, unknown, unknown]} */ ([key, a.model[key], b.model[key]]),
    ),
    ['first position', a.first.position, b.first.position],
    ['T', a.prompts.T, b.prompts.T],
    ['count', a.prompts.count, b.prompts.count],
    ['eps', a.eps, b.eps],
    ['edits', labelsOf(a), labelsOf(b)],
  ];
}

/** @param {import('../sinkscope.js').Conditions} conditions */
const labelsOf = ({ edits }) => edits.map(({ label }) => label);

/**
 * The largest difference beyond the tolerance, and how many there are; a number beside an undefined or
 * an infinite one is one, too.
 * @param {string} name
 * @param {Tensor} a
 * @param {Tensor} b
 * @param {number} tolerance
 */
function largest(name, a, b, tolerance) {
  let [worst, count] = [0, 0];
  /** @type {number | undefined} */
  let at;
  a.data.forEach((x, i) => {
    const y = b.data[i];
    if (x === y || (Number.isNaN(x) && Number.isNaN(y))) return;
    const gap = Math.abs(x - y);
    const isFinite = Number.isFinite(gap);
    // Norms and activations are large: their last digits are worth no more than those of a weight.
    if (isFinite && gap <= tolerance * Math.max(1, Math.abs(x), Math.abs(y))) return;
    const size = isFinite ? gap : Infinity;
    count++;
    if (size > worst) [worst, at] = [size, i];
  });
  if (at === undefined) return [];
  const index = indexOf(at, a.shape);
  return [
    { name, index, a: a.data[at], b: b.data[at], difference: worst, count, of: a.data.length },
  ];
}

/**
 * @param {number} at
 * @param {readonly number[]} shape
 */
function indexOf(at, shape) {
  const index = [...shape];
  for (let i = shape.length; i-- > 0; at = Math.floor(at / shape[i])) index[i] = at % shape[i];
  return index;
}
