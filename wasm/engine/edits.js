/**
 * Edits as the border takes them: {i32 kind; f32 values[13]}, those of the row's parameters, then of the
 * operation that one of them names. No edit is known here by its name: the table says what there is.
 */
import { check, checkList } from '../border/arguments.js';
import { SinkscopeError, expect, find } from '../border/errors.js';

/** @typedef {import('../sinkscope.js').Edit} Edit */
/** @typedef {import('../sinkscope.js').Describe} Describe */
/** @typedef {import('../sinkscope.js').EditKind} EditKind */
/** @typedef {import('../sinkscope.js').EditParameter} EditParameter */

/** @typedef {Record<string, unknown> & { kind?: unknown, parameters?: Record<string, unknown> }} Given */

const VALUES = 13;

/**
 * @param {unknown} edits
 * @param {Describe} describe
 */
export function encodeEdits(edits, describe) {
  if (!Array.isArray(edits)) expect(false, 'edits', 'a list of edits', edits);
  const list = /** @type {readonly unknown[]} */ (edits);
  const words = new Int32Array((1 + VALUES) * list.length);
  const floats = new Float32Array(words.buffer);
  list.forEach((edit, i) => {
    const { kind, values } = encodeEdit(edit, `edits[${i}]`, describe);
    words[(1 + VALUES) * i] = kind;
    floats.set(values, (1 + VALUES) * i + 1);
  });
  return words;
}

/**
 * NaN stands for what is not given; the core puts the defaults in and checks the ranges.
 * @param {unknown} edit
 * @param {string} where
 * @param {Describe} describe
 */
function encodeEdit(edit, where, describe) {
  const given = typeof edit === 'object' && edit !== null;
  expect(given, where, 'an object with a kind', edit);
  const { kind: name, parameters: more, ...own } = /** @type {Given} */ (edit);
  const kind = find(describe.edits, name, `${where}.kind`);
  const known = valuesOf(describe.edits[kind], own, describe);
  const values = new Array(VALUES).fill(NaN);
  for (const [key, value] of Object.entries({ ...own, ...more })) {
    if (value === undefined) continue;
    const nested = more && key in more ? `${where}.parameters.${key}` : `${where}.${key}`;
    const at = known.findIndex((parameter) => parameter.name === key);
    const names = known.map((parameter) => parameter.name).join(', ');
    expect(at >= 0, nested, `a parameter of ${String(name)}: ${names}`, key);
    values[at] = encodeValue(known[at], value, nested, describe);
  }
  // The core, which knows no words, would ask for a number.
  describe.edits[kind].parameters.forEach(({ name: key, type, required, choices }, i) => {
    const words = type === 'operation' ? describe.operations.map((row) => row.name) : choices;
    const isGiven = !required || !words || !Number.isNaN(values[i]);
    expect(isGiven, `${where}.${key}`, `one of ${words?.join(', ')}`, undefined);
  });
  return { kind, values };
}

/**
 * The parameters in the order of their values: the row's, then those of the operation it is given.
 * @param {EditKind} row
 * @param {Record<string, unknown>} own
 * @param {Describe} describe
 * @returns {readonly Pick<EditParameter, 'name' | 'type' | 'choices'>[]}
 */
function valuesOf({ parameters }, own, { operations }) {
  const named = parameters.find(({ type }) => type === 'operation');
  const operation = named && operations.find(({ name }) => name === own[named.name]);
  const more = operation?.parameters ?? [];
  return [
    ...parameters,
    ...more.map(({ name }) => ({ name, type: /** @type {const} */ ('number') })),
  ];
}

/**
 * @param {Pick<EditParameter, 'type' | 'choices'>} parameter
 * @param {unknown} value
 * @param {string} where
 * @param {Describe} describe
 */
function encodeValue({ type, choices }, value, where, { operations }) {
  if (type === 'operation') return find(operations, value, where);
  if (choices) {
    const at = choices.indexOf(/** @type {string} */ (value));
    expect(at >= 0, where, `one of ${choices.join(', ')}`, value);
    return at;
  }
  expect(Number.isFinite(value), where, 'a number', value);
  return value;
}

/**
 * @param {string} text "evict:policy=window,budget=24"
 * @param {Describe} describe
 * @returns {Edit}
 */
export function readEdit(text, describe) {
  check(text, 'text', 'edit');
  check(describe, 'object', 'describe');
  checkList(describe.edits, 'object', 'describe.edits');
  const { edits } = describe;
  const [name, ...rest] = text.split(':');
  const row = edits[find(edits, name, 'edit')];
  /** @type {Record<string, string | number>} */
  const edit = {};
  for (const pair of rest.join(':').split(',').filter(Boolean)) {
    const [key, value, ...more] = pair.split('=');
    if (!value || more.length)
      throw new SinkscopeError('argument', name, `expected key=value, got "${pair}"`);
    if (key in edit)
      throw new SinkscopeError('argument', name, `expected ${key} once, got "${pair}" too`);
    const isWord = row.parameters.some(
      (p) => p.name === key && (p.choices || p.type === 'operation'),
    );
    edit[key] =
      isWord || value.trim() === '' || Number.isNaN(Number(value)) ? value : Number(value);
  }
  return { kind: name, ...edit };
}
