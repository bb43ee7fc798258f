/** Reads the conditions of a recording, a JSON text in its metadata. Unknown keys are dropped. */
import { SinkscopeError } from '../abi/errors.js';

/** @typedef {import('../sinkscope.js').Conditions} Conditions */
/** @typedef {Record<string, unknown>} Json */

/** Version of the format that this build writes and reads. */
export const VERSION = '1';

/**
 * @param {string} key
 * @param {string} expected
 */
function bad(key, expected) {
  return new SinkscopeError('bad_config', key, `recording: expected ${expected}`);
}

const isObject = (/** @type {unknown} */ x) =>
  typeof x === 'object' && x !== null && !Array.isArray(x);

/**
 * @param {Json} json
 * @param {string} key
 * @returns {Json} empty if the key is absent
 */
function object(json, key) {
  const value = json[key] ?? {};
  if (!isObject(value)) throw bad(key, 'an object');
  return /** @type {Json} */ (value);
}

/**
 * @param {Json} json
 * @param {string} key
 */
function text(json, key) {
  const value = json[key] ?? null;
  if (value !== null && typeof value !== 'string') throw bad(key, 'a text');
  return value;
}

/**
 * @template {number | null} [Standard=never]
 * @param {Json} json
 * @param {string} key
 * @param {Standard} [standard] undefined: the key is required
 * @returns {number | Standard}
 */
function integer(json, key, standard) {
  const value = json[key] ?? standard;
  if (value === null && standard === null) return standard;
  if (!Number.isInteger(value)) throw bad(key, 'a whole number');
  return /** @type {number} */ (value);
}

/**
 * @template T
 * @param {Json} json
 * @param {string} key
 * @param {(value: unknown) => boolean} fits
 * @param {string} expected
 * @returns {T[]}
 */
function list(json, key, fits, expected) {
  const value = json[key] ?? [];
  if (!Array.isArray(value) || !value.every(fits)) throw bad(key, expected);
  return value;
}

/**
 * Parses conditions that the core has validated, and types them for JavaScript; unknown keys are
 * dropped.
 * @param {string} json
 * @returns {Conditions}
 */
export function readConditions(json) {
  /** @type {Json} */
  let root;
  try {
    root = JSON.parse(json);
  } catch (error) {
    throw new SinkscopeError('bad_config', 'recording', `expected JSON: ${String(error)}`);
  }
  const model = object(root, 'model');
  const mask = object(model, 'mask');
  const first = object(root, 'first');
  const prompts = object(root, 'prompts');
  const isText = (/** @type {unknown} */ x) => typeof x === 'string';
  const isWindow = (/** @type {unknown} */ x) => x === null || Number.isInteger(x);
  const isTokens = (/** @type {unknown} */ x) => Array.isArray(x) && x.every(isText);
  const isEdit = (/** @type {unknown} */ x) => {
    const { kind, label } = isObject(x) ? /** @type {Json} */ (x) : {};
    return isText(kind) && isText(label);
  };
  const versions = Object.entries(object(root, 'versions'));
  const size = (/** @type {string} */ key) => integer(model, key);
  const kind = /** @type {import('../sinkscope.js').Architecture['mask']['kind']} */ (
    text(mask, 'kind') ?? 'causal'
  );
  const window = integer(mask, 'window', null);
  const prefix = integer(mask, 'prefix', null);
  const L = size('L');
  /** @type {number[]} */
  const layers = list(model, 'layers', (x) => Number.isInteger(x), 'whole numbers');
  /** @type {(number | null)[]} */
  const windows = list(model, 'windows', isWindow, 'numbers or null');
  const everywhere = kind === 'window' ? window : null;
  return {
    model: {
      id: text(model, 'id') ?? '',
      revision: text(model, 'revision'),
      sha256: text(model, 'sha256'),
      family: text(model, 'family') ?? '',
      L,
      blocks: integer(model, 'blocks', L),
      layers: layers.length ? layers : Array.from({ length: L }, (_, l) => l),
      H: size('H'),
      G: size('G'),
      K: size('K'),
      D: size('D'),
      V: size('V'),
      F: integer(model, 'F', 0),
      E: integer(model, 'E', 0),
      dtype: text(model, 'dtype'),
      attention: text(model, 'attention'),
      operation: text(model, 'operation') ?? 'softmax',
      mask: { kind, ...(window ? { window } : {}), ...(prefix ? { prefix } : {}) },
      windows: windows.length
        ? windows.map((one) => one || null)
        : Array.from({ length: L }, () => everywhere || null),
    },
    first: {
      token: text(first, 'token'),
      id: integer(first, 'id', null),
      position: integer(first, 'position', 0),
    },
    tokens: list(root, 'tokens', isTokens, 'lists of strings'),
    prompts: {
      source: text(prompts, 'source'),
      sha256: text(prompts, 'sha256'),
      count: integer(prompts, 'count'),
      kept: integer(prompts, 'kept'),
      T: integer(prompts, 'T'),
    },
    eps: list(root, 'eps', (x) => Number.isFinite(x), 'numbers'),
    edits: list(root, 'edits', isEdit, 'objects with a kind and a label'),
    class: text(root, 'class') ?? 'MEASURED',
    licence: text(root, 'licence'),
    versions: Object.fromEntries(versions.map(([name, value]) => [name, String(value)])),
    command: text(root, 'command'),
  };
}
