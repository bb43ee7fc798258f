/** Checks what callers pass, before any work begins. */
import { expect, argumentError } from './errors.ts';

const isObject = (x: unknown) => typeof x === 'object' && x !== null;
const isList = (x: unknown) => isObject(x) && Number.isInteger((x as unknown[]).length);
const isFunction = (x: unknown) => typeof x === 'function';
const hasMethod = (x: unknown, key: string) => isFunction((x as Record<string, unknown>)?.[key]);

/** Phrases and tests of kinds. Host objects are known by their methods: classes differ between frames. */
const KINDS: Record<string, [string, (x: unknown) => boolean]> = {
  text: ['a string', (x) => typeof x === 'string'],
  number: ['a number', (x) => typeof x === 'number' && !Number.isNaN(x)],
  count: [
    `an integer from 0 to ${2 ** 48}`,
    (x) => Number.isInteger(x) && Number(x) >= 0 && Number(x) <= 2 ** 48,
  ],
  'flag or list': ['true, false or a list', (x) => typeof x === 'boolean' || isList(x)],
  flag: ['true or false', (x) => typeof x === 'boolean'],
  call: ['a function', isFunction],
  object: ['an object', isObject],
  list: ['a list', isList],
  blob: ['a Blob', (x) => hasMethod(x, 'arrayBuffer') && hasMethod(x, 'stream')],
  signal: [
    'an AbortSignal',
    (x) => hasMethod(x, 'throwIfAborted') && hasMethod(x, 'addEventListener'),
  ],
  engine: ['an engine', (x) => isObject(x) && hasMethod(x, 'open')],
  model: ['a model', (x) => isObject(x) && hasMethod(x, 'run')],
  training: ['a training', (x) => isObject(x) && hasMethod(x, 'read')],
  recording: ['a recording', (x) => isObject(x) && hasMethod(x, 'pooled')],
  tokenizer: ['a tokenizer', (x) => isObject(x) && hasMethod(x, 'encode')],
};

export const JOB_OPTIONS = { signal: 'signal', onProgress: 'call' };

export function check(value: unknown, kind: string, where: string) {
  const [name, fits] = KINDS[kind] ?? [kind, () => false];
  expect(fits(value), where, name, value);
}

/** Checks that each given option is of its kind; any option may be absent. */
export function checkOptions(
  options: unknown,
  kinds: Record<string, string>,
  where: string = 'options',
) {
  check(options, 'object', where);
  const values = options as Record<string, unknown>;
  for (const [key, kind] of Object.entries(kinds))
    if (values[key] !== undefined) check(values[key], kind, key);
}

export function checkList(list: unknown, kind: string, where: string) {
  check(list, 'list', where);
  Array.from(list as ArrayLike<unknown>).forEach((item, i) => check(item, kind, `${where}[${i}]`));
}

export function urlOf(value: unknown, base: URL | string | undefined, where: string) {
  try {
    if (value instanceof URL || typeof value === 'string') return new URL(value, base);
  } catch {
    // The error below covers this.
  }
  throw argumentError(where, 'an address', value);
}
