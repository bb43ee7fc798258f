/** Measures a model over many sequences: means and deviations, as the page shows them. */
import { SinkscopeError, expect, expectInteger, find } from '../abi/errors.js';
import { JOB, check, checkList, checkOptions } from '../abi/arguments.js';
import { spread } from './spread.js';

/** A plain run pays off when more cases than this begin from it. */
const SHARED_BY = 2;

/** The fields of which a run that measures keeps sums. */
const SUMMED = ['q', 'k', 'v', 'hidden', 'att', 'scores'];

/** @typedef {import('../sinkscope.js').Replica} Replica */
/** @typedef {import('../sinkscope.js').Edit} Edit */

/** @type {typeof import('../sinkscope.js').fieldsFor} */
export function fieldsFor(describe, reads) {
  check(describe, 'object', 'describe');
  const { metrics, fields } = describe;
  checkList(metrics, 'object', 'describe.metrics');
  checkList(fields, 'object', 'describe.fields');
  checkList(reads, 'object', 'reads');
  const names = reads.flatMap((read) =>
    'field' in read
      ? [fields[find(fields, read.field, 'field')].name]
      : metrics[find(metrics, read.metric, 'metric')].fields,
  );
  return [...new Set(names)];
}

/** @type {typeof import('../sinkscope.js').cutText} */
export async function cutText(tokenizer, text, options) {
  check(tokenizer, 'tokenizer', 'tokenizer');
  if (typeof text !== 'string') checkList(text, 'text', 'text');
  checkOptions(options, { lines: 'flag', onCut: 'call' });
  const { tokens, sequences, special = 'auto', lines = false, onCut } = options;
  expectInteger(tokens, 1, 2 ** 31, 'tokens');
  expectInteger(sequences, 1, 2 ** 31, 'sequences');
  const isOne = typeof text === 'string' && !lines;
  const pieces = isOne ? [text] : typeof text === 'string' ? linesOf(text) : text;
  /** @type {number[][]} */
  const cut = [];
  const { length: specialTokens } = await tokenizer.encode('', { special });
  const room = tokens - specialTokens;
  expect(room > 0, 'tokens', `more than the ${specialTokens} special ones`, tokens);
  let read = 0;
  let short = 0;
  let longest = 0;
  for (const piece of pieces) {
    const { before, ids, after } = splitSpecial(await tokenizer.encode(piece, { special }));
    const ends = isOne ? ids.length : Math.min(room, ids.length);
    for (let at = 0; at + room <= ends && cut.length < sequences; at += room) {
      cut.push([...before, ...ids.slice(at, at + room), ...after]);
    }
    read += ids.length;
    longest = Math.max(longest, ids.length);
    if (ids.length < room) short++;
    if (cut.length === sequences) break;
  }
  onCut?.({ asked: sequences, sequences: cut.length, room, read, short, longest });
  if (cut.length > 0) return cut;
  const expected = `expected a ${lines ? 'line' : 'text'} of at least ${room} tokens`;
  throw new SinkscopeError('argument', 'text', expected);
}

/**
 * Splits the ids of an encoded text into its own and the special tokens around it.
 * @param {readonly import('../sinkscope.js').Token[]} tokens
 */
function splitSpecial(tokens) {
  const ids = tokens.map(({ id }) => id);
  const first = tokens.findIndex(({ special }) => !special);
  const end = tokens.findLastIndex(({ special }) => !special) + 1;
  return {
    before: ids.slice(0, Math.max(0, first)),
    ids: ids.slice(first, end),
    after: ids.slice(end),
  };
}

/** @param {string} text */
function linesOf(text) {
  return text.split(/\r?\n/).filter((line) => line.trim() !== '');
}

/** @typedef {import('../sinkscope.js').MeasureOptions} MeasureOptions */
/** @typedef {import('../sinkscope.js').Recording} Recording */
/** @typedef {readonly (readonly number[])[]} Sequences */

/**
 * @overload
 * @param {import('../sinkscope.js').Studied} model
 * @param {Sequences} sequences
 * @param {MeasureOptions} [options]
 * @returns {Promise<import('../sinkscope.js').Measurement>}
 */
/**
 * @overload
 * @param {Recording} model
 * @param {Pick<MeasureOptions, 'eps' | 'metrics'>} [sequences] the options
 * @returns {Promise<import('../sinkscope.js').Measurement>}
 */
/**
 * @param {import('../sinkscope.js').Studied | Recording} model
 * @param {Sequences | Pick<MeasureOptions, 'eps' | 'metrics'>} [sequences]
 * @param {MeasureOptions} [options]
 */
export async function measure(model, sequences = [], options = {}) {
  check(model, 'object', 'model');
  // A recording stores its measurements.
  if ('conditions' in model)
    return model.measure(
      Array.isArray(sequences) ? options : /** @type {MeasureOptions} */ (sequences),
    );
  checkOptions(options, { edits: 'list' });
  const { edits = [], ...others } = options;
  const [measurement] = await sweep(model, /** @type {Sequences} */ (sequences), [edits], others);
  return measurement;
}

/** @type {typeof import('../sinkscope.js').sweep} */
export async function sweep(model, sequences, cases, options = {}) {
  check(model, 'model', 'model');
  checkList(sequences, 'list', 'sequences');
  checkList(cases, 'list', 'cases');
  const kinds = { metrics: 'list', onSequence: 'call', streaming: 'flag' };
  checkOptions(options, { ...JOB, ...kinds });
  const { describe } = model;
  const { streaming, signal, onProgress, onSequence } = options;
  const { eps, thresholds } = thresholdsOf(options.eps ?? describe.defaults.eps);
  const names = options.metrics ?? (streaming ? ofStreams(describe) : summaryOf(describe, cases));
  // Metrics with a threshold are read again for each further threshold.
  const withThreshold = names.filter((name) => argumentsOf(describe, name).includes('eps'));
  const furtherReads = thresholds
    .slice(1)
    .flatMap((at) => withThreshold.map((metric) => ({ metric, eps: at })));
  const reads = [...names.map((metric) => ({ metric, eps })), ...furtherReads];
  const comparisons = reads.filter(({ metric }) => compares(describe, metric));
  const fields = fieldsFor(describe, reads);
  const T = lengthOf(sequences);
  // Edited runs reuse the first tokens or lower layers of the plain run where these are equal.
  const waits = new Set(describe.edits.filter((row) => row.waits).map(({ name }) => name));
  const isAbove = (/** @type {Edit} */ edit) => typeof edit?.layer === 'number' && edit.layer > 0;
  const derived =
    T > model.architecture.context || streaming
      ? []
      : cases.filter(
          (edits) =>
            edits.length && (edits.every((edit) => waits.has(edit?.kind)) || edits.every(isAbove)),
        );
  // One extra plain run pays off when several runs begin from it.
  const isShared = derived.length > (comparisons.length ? 0 : SHARED_BY);
  const baseFields = isShared ? ['att', 'hidden', ...fields] : [];
  // Maps and vectors are read again only when a run begins from another, or by some metrics.
  const maps = isShared ? undefined : 0;
  const measuring =
    !isShared && !streaming && names.every((name) => isSummed(describe, name)) && names;
  const plainFields = [...new Set([...fieldsFor(describe, comparisons), ...baseFields])];
  const total = sequences.length * cases.length;
  const began = performance.now();
  let done = 0;
  /** Sums by case, then by threshold. @type {Sums[][]} */
  const sums = cases.map(() => thresholds.map(() => new Map()));
  const look = async (/** @type {Replica} */ replica, /** @type {readonly number[]} */ ids) => {
    const plain =
      comparisons.length || isShared
        ? await replica.run(ids, { fields: plainFields, capacity: T, maps, signal })
        : undefined;
    const results = [];
    try {
      for (const edits of cases) {
        const from = isShared && plain && derived.includes(edits) ? { run: plain } : undefined;
        const request = { fields, edits, capacity: T, maps, streaming, measuring, from, signal };
        const run = await replica.run(ids, request);
        const readsWithBase = reads.map((read) =>
          comparisons.includes(read) ? { ...read, base: plain } : read,
        );
        results.push(await run.read(readsWithBase).finally(() => run.close()));
        const rate = (1000 * ++done) / (performance.now() - began);
        onProgress?.({ stage: 'measure', done, total, rate });
      }
    } finally {
      await plain?.close();
    }
    return results;
  };
  // Results are added in the order of the sequences, so the sums do not depend on the workers'
  // speed.
  let index = 0;
  for await (const results of spread(model, sequences, look, { signal })) {
    results.forEach((tensors, at) => {
      tensors.forEach((tensor, i) =>
        addUp(sums[at][thresholds.indexOf(reads[i].eps)], reads[i].metric, tensor),
      );
      onSequence?.(Object.fromEntries(names.map((name, i) => [name, tensors[i]])), index, at);
    });
    index++;
  }
  return sums.map(([sumsAtFirst, ...others]) => {
    const metrics = meansOf(sumsAtFirst, index);
    const counts = Object.fromEntries(withThreshold.map((name) => [name, metrics[name]]));
    const metricsByEps = [counts, ...others.map((one) => meansOf(one, index))];
    const byEps = metricsByEps.map((subset, i) => ({ eps: thresholds[i], metrics: subset }));
    return { eps, T, sequences: index, metrics, ...(Array.isArray(options.eps) && { byEps }) };
  });
}

/**
 * Returns the first threshold and all of them; each may occur once.
 * @param {number | readonly number[]} eps
 */
function thresholdsOf(eps) {
  const isList = Array.isArray(eps);
  if (!isList) check(eps, 'number', 'eps');
  const thresholds = isList ? eps : [/** @type {number} */ (eps)];
  checkList(thresholds, 'number', 'eps');
  expect(thresholds.length > 0, 'eps', 'one threshold or more', 'none');
  expect(new Set(thresholds).size === thresholds.length, 'eps', 'each threshold once', eps);
  return { eps: thresholds[0], thresholds };
}

/** @typedef {Map<string, { shape: readonly number[], sum: Float64Array, squares: Float64Array }>} Sums */

/**
 * Returns the metrics of a summary; comparisons of two runs need an edited case.
 * @param {import('../sinkscope.js').Describe} describe
 * @param {readonly (readonly unknown[])[]} cases
 */
function summaryOf(describe, cases) {
  const isEdited = cases.some((edits) => edits.length > 0);
  const names = describe.metrics.filter((row) => row.summary).map(({ name }) => name);
  return names.filter((name) => isEdited || !compares(describe, name));
}

/**
 * Returns the metrics that need only fields of a streaming run.
 * @param {import('../sinkscope.js').Describe} describe
 */
function ofStreams(describe) {
  const { metrics, fields } = describe;
  const streamed = fields.filter(({ streamed }) => streamed).map(({ name }) => name);
  const names = metrics
    .filter((row) => row.fields.length > 0 && row.fields.every((name) => streamed.includes(name)))
    .map(({ name }) => name);
  return names.filter((name) => !compares(describe, name));
}

/**
 * Whether a run that keeps no rows of maps and vectors has it.
 * @param {import('../sinkscope.js').Describe} describe
 * @param {string} name
 */
function isSummed({ metrics }, name) {
  const { accumulated, fields } = metrics[find(metrics, name, 'metric')];
  return accumulated || !fields.some((field) => SUMMED.includes(field));
}

/**
 * @param {import('../sinkscope.js').Describe} describe
 * @param {string} name
 */
function compares(describe, name) {
  return argumentsOf(describe, name).includes('base');
}

/**
 * @param {import('../sinkscope.js').Describe} describe
 * @param {string} name
 */
function argumentsOf(describe, name) {
  return describe.metrics[find(describe.metrics, name, 'metric')].arguments;
}

/**
 * @param {Sums} sums
 * @param {number} n
 */
export function meansOf(sums, n) {
  const entries = [...sums].map(([name, { shape, sum, squares }]) => [
    name,
    {
      shape,
      mean: Array.from(sum, (x) => finite(x / n)),
      deviation: Array.from(sum, (x, i) => finite(deviationOf(x / n, squares[i] / n, n))),
    },
  ]);
  return Object.fromEntries(entries);
}

/**
 * Returns the common length of all sequences: a mean over keys needs the same keys in each.
 * @param {readonly ArrayLike<number>[]} sequences
 */
export function lengthOf(sequences) {
  expect(sequences?.length > 0, 'sequences', 'one sequence or more', sequences?.length);
  const T = sequences[0].length;
  sequences.forEach(({ length }, i) => {
    expect(length === T, `sequences[${i}].length`, `${T}, as of the first`, length);
  });
  return T;
}

/**
 * @param {Sums} sums
 * @param {string} name
 * @param {import('../sinkscope.js').Tensor} tensor
 */
export function addUp(sums, name, { shape, data }) {
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
 * Returns the standard deviation across sequences, with n - 1; NaN for one sequence.
 * @param {number} mean
 * @param {number} square mean of the squares
 * @param {number} n
 */
function deviationOf(mean, square, n) {
  return n > 1 ? Math.sqrt((Math.max(0, square - mean * mean) * n) / (n - 1)) : NaN;
}

/**
 * Replaces numbers that are not finite by null for JSON.
 * @param {number} x
 */
export function finite(x) {
  return Number.isFinite(x) ? x : null;
}
