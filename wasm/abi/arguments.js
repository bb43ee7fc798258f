/** Checks what callers pass, before any work begins. */
import { expect, unlike } from './errors.js';

const isObject = (/** @type {unknown} */ x) => typeof x === 'object' && x !== null;
const isFunction = (/** @type {unknown} */ x) => typeof x === 'function';
const has = (/** @type {unknown} */ x, /** @type {string} */ key) =>
  isFunction(/** @type {Record<string, unknown>} */ (x)?.[key]);

/**
 * Kinds of values: the phrase for sentences, and the test. Objects of the host are tested by their
 * methods, because those of another frame have other classes.
 * @type {Record<string, [string, (x: unknown) => boolean]>}
 */
const KINDS = {
  text: ['a string', (x) => typeof x === 'string'],
  number: ['a number', (x) => typeof x === 'number' && !Number.isNaN(x)],
  count: [
    `an integer from 0 to ${2 ** 48}`,
    (x) => Number.isInteger(x) && Number(x) >= 0 && Number(x) <= 2 ** 48,
  ],
  'flag or list': [
    'true, false or a list',
    (x) =>
      typeof x === 'boolean' ||
      (isObject(x) && Number.isInteger(/** @type {unknown[]} */ (x).length)),
  ],
  flag: ['true or false', (x) => typeof x === 'boolean'],
  call: ['a function', isFunction],
  object: ['an object', isObject],
  list: ['a list', (x) => isObject(x) && Number.isInteger(/** @type {unknown[]} */ (x).length)],
  blob: ['a Blob', (x) => has(x, 'arrayBuffer') && has(x, 'stream')],
  signal: ['an AbortSignal', (x) => has(x, 'throwIfAborted') && has(x, 'addEventListener')],
  engine: ['an engine', (x) => isObject(x) && has(x, 'open')],
  model: ['a model', (x) => isObject(x) && has(x, 'run')],
  training: ['a training', (x) => isObject(x) && has(x, 'read')],
  recording: ['a recording', (x) => isObject(x) && has(x, 'pooled')],
  tokenizer: ['a tokenizer', (x) => isObject(x) && has(x, 'encode')],
};

/** Options of every call that can be stopped and reports progress. */
export const JOB = { signal: 'signal', onProgress: 'call' };

/**
 * @param {unknown} value
 * @param {string} kind
 * @param {string} where
 */
export function check(value, kind, where) {
  const [name, fits] = KINDS[kind] ?? [kind, () => false];
  expect(fits(value), where, name, value);
}

/**
 * Checks options: any may be absent, and those present have their kind.
 * @param {unknown} options
 * @param {Record<string, string>} kinds
 * @param {string} [where]
 */
export function checkOptions(options, kinds, where = 'options') {
  check(options, 'object', where);
  const values = /** @type {Record<string, unknown>} */ (options);
  for (const [key, kind] of Object.entries(kinds)) {
    if (values[key] !== undefined) check(values[key], kind, key);
  }
}

/**
 * Checks each element of a list.
 * @param {unknown} list
 * @param {string} kind
 * @param {string} where
 */
export function checkList(list, kind, where) {
  check(list, 'list', where);
  Array.from(/** @type {ArrayLike<unknown>} */ (list)).forEach((one, i) =>
    check(one, kind, `${where}[${i}]`),
  );
}

/**
 * @param {unknown} value
 * @param {URL | string | undefined} base
 * @param {string} where
 */
export function urlOf(value, base, where) {
  try {
    if (value instanceof URL || typeof value === 'string') return new URL(value, base);
  } catch {
    // The error below covers this.
  }
  throw unlike(where, 'an address', value);
}

/**
 * @param {unknown} plan
 * @returns {asserts plan is import('../sinkscope.js').Plan}
 */
export function checkPlan(plan) {
  check(plan, 'object', 'plan');
  const { id, files } = /** @type {{ id?: unknown, files?: { weights?: unknown } }} */ (plan);
  check(id, 'text', 'plan.id');
  check(files, 'object', 'plan.files');
  checkList(files?.weights, 'object', 'plan.files.weights');
}
