/** An error with its place (a tensor, a key, a byte), and the expected and the actual value. */
export class SinkscopeError extends Error {
  /**
   * A name from describe.status, or one of JavaScript's own: 'argument', 'read', 'access' (a token
   * is required), 'not_found', 'busy', 'offline', 'too_large', 'closed', 'lost', 'abi',
   * 'bad_tokenizer', 'too_slow', 'internal'.
   */
  readonly code: string;
  readonly where: string;
  /** The sentence alone; `message` is "where: text". */
  readonly text: string;

  constructor(code: string, where: string, text: string) {
    super(where ? `${where}: ${text}` : text);
    this.name = 'SinkscopeError';
    this.code = code;
    this.where = where;
    this.text = text;
  }
}

/** Converts an error to a plain value, because postMessage drops `code` and `where` of an Error. */
export function packError(error: unknown) {
  if (error instanceof SinkscopeError)
    return { code: error.code, where: error.where, text: error.text };
  return { code: 'internal', where: '', text: String(error) };
}

export function unpackError(packedError: unknown) {
  if (typeof packedError !== 'object' || packedError === null) return undefined;
  if (!('code' in packedError && 'where' in packedError && 'text' in packedError)) return undefined;
  return new SinkscopeError(
    String(packedError.code),
    String(packedError.where),
    String(packedError.text),
  );
}

export function expect(holds: boolean, where: string, expected: string, actual: unknown) {
  if (!holds) throw argumentError(where, expected, actual);
}

/** An error of a file, a path or an answer that is not what it should be. */
export const readError = (where: string, text: string) => new SinkscopeError('read', where, text);

export const closedError = (kind: string) =>
  new SinkscopeError('closed', kind, `this ${kind} has been closed`);

export function argumentError(where: string, expected: string, actual: unknown) {
  const text = `expected ${expected}, got ${describeValue(actual)}`;
  return new SinkscopeError('argument', where, text);
}

function describeValue(value: unknown) {
  if (typeof value === 'string') return JSON.stringify(value);
  if (typeof value === 'function') return 'a function';
  if (typeof value !== 'object' || value === null) return String(value);
  return Array.isArray(value) ? `a list of ${value.length}` : 'an object';
}

/**
 * @param high inclusive
 * @param reason what sets the bounds, after a comma
 */
export function expectInteger(
  value: unknown,
  low: number,
  high: number,
  where: string,
  reason: string = '',
) {
  const fits = Number.isInteger(value) && Number(value) >= low && Number(value) <= high;
  expect(fits, where, `an integer from ${low} to ${high}${reason && `, ${reason}`}`, value);
}

export function indexOfName(table: readonly { name: string }[], name: unknown, where: string) {
  const index = table.findIndex((row) => row.name === name);
  expect(index >= 0, where, `one of ${table.map((row) => row.name).join(', ')}`, name);
  return index;
}

export function rowNamed<Row extends { name: string }>(
  table: readonly Row[],
  name: unknown,
  where: string,
) {
  return table[indexOfName(table, name, where)];
}

export function parseJson(text: string, code: string, where: string) {
  try {
    return JSON.parse(text);
  } catch (error) {
    throw new SinkscopeError(code, where, `expected JSON: ${String(error)}`);
  }
}
