/** Says what went wrong, where, with expected and actual values. */
export class SinkscopeError extends Error {
  /**
   * @param {string} code one word: a status of the core, or 'argument', 'read', 'closed', ...
   * @param {string} where a tensor, a key, an argument, an address
   * @param {string} text one sentence with expected and actual
   */
  constructor(code, where, text) {
    super(where ? `${where}: ${text}` : text);
    this.name = 'SinkscopeError';
    this.code = code;
    this.where = where;
    this.text = text;
  }
}

/**
 * Converts an error to a value that postMessage keeps: it drops `code` and `where` of an Error.
 * @param {unknown} error
 */
export function packError(error) {
  if (error instanceof SinkscopeError) {
    return { code: error.code, where: error.where, text: error.text };
  }
  return { code: 'internal', where: '', text: String(error) };
}

/**
 * Restores a packed error; undefined for anything else.
 * @param {unknown} packed
 */
export function unpackError(packed) {
  if (typeof packed !== 'object' || packed === null) return undefined;
  if (!('code' in packed && 'where' in packed && 'text' in packed)) return undefined;
  return new SinkscopeError(String(packed.code), String(packed.where), String(packed.text));
}

/**
 * @param {boolean} holds
 * @param {string} where
 * @param {string} expected
 * @param {unknown} actual
 */
export function expect(holds, where, expected, actual) {
  if (!holds) throw unlike(where, expected, actual);
}

/**
 * Makes the error for an unexpected argument.
 * @param {string} where
 * @param {string} expected
 * @param {unknown} actual
 */
export function unlike(where, expected, actual) {
  return new SinkscopeError('argument', where, `expected ${expected}, got ${shown(actual)}`);
}

/** @param {unknown} value */
function shown(value) {
  if (typeof value === 'string') return JSON.stringify(value);
  if (typeof value === 'function') return 'a function';
  if (typeof value !== 'object' || value === null) return String(value);
  return Array.isArray(value) ? `a list of ${value.length}` : 'an object';
}

/**
 * @param {unknown} value
 * @param {number} low
 * @param {number} high inclusive
 * @param {string} where
 */
export function expectInteger(value, low, high, where) {
  const fits = Number.isInteger(value) && Number(value) >= low && Number(value) <= high;
  expect(fits, where, `an integer from ${low} to ${high}`, value);
}

/**
 * Finds the index of a row by its name.
 * @param {readonly { name: string }[]} table
 * @param {unknown} name
 * @param {string} what
 */
export function find(table, name, what) {
  const index = table.findIndex((row) => row.name === name);
  expect(index >= 0, what, `one of ${table.map((row) => row.name).join(', ')}`, name);
  return index;
}
