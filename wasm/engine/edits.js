/** Edits as the border takes them: {i32 kind, layer, head, operation; f32 parameters[2]}. */
import { expect, expectInteger } from '../border/errors.js';

/** @typedef {import('../sinkscope.js').Edit} Edit */
/** @typedef {import('../sinkscope.js').Describe} Describe */

const WORDS = 6;
const PARAMETERS = 2;

/**
 * @param {readonly Edit[]} edits
 * @param {Describe} describe
 * @param {{ L: number, H: number }} architecture
 */
export function encodeEdits(edits, describe, architecture) {
  const words = new Int32Array(WORDS * edits.length);
  const floats = new Float32Array(words.buffer);
  edits.forEach((edit, i) => {
    const { kind, operation, parameters } = encodeEdit(edit, describe);
    checkIndex(edit.layer, architecture.L, 'edit.layer');
    checkIndex(edit.head, architecture.H, 'edit.head');
    words.set([kind, edit.layer ?? -1, edit.head ?? -1, operation], WORDS * i);
    floats.set(parameters, WORDS * (i + 1) - PARAMETERS);
  });
  return words;
}

/**
 * @param {Edit} edit
 * @param {Describe} describe
 */
function encodeEdit(edit, describe) {
  const kind = describe.edits.findIndex(({ name }) => name === edit?.kind);
  const kinds = describe.edits.map(({ name }) => name).join(', ');
  expect(kind >= 0, 'edit.kind', `one of ${kinds}`, edit?.kind);
  if (edit.kind === 'mask') {
    expectInteger(edit.first, 0, 2 ** 24, 'edit.first');
    expectInteger(edit.recent, 0, 2 ** 24, 'edit.recent');
    return { kind, operation: 0, parameters: [edit.first, edit.recent] };
  }
  const operation = describe.operations.findIndex(({ name }) => name === edit.operation);
  const names = describe.operations.map(({ name }) => name).join(', ');
  expect(operation >= 0, 'edit.operation', `one of ${names}`, edit.operation);
  return { kind, operation, parameters: encodeParameters(edit, describe.operations[operation]) };
}

/**
 * NaN stands for the operation's default.
 * @param {import('../sinkscope.js').OperationEdit} edit
 * @param {import('../sinkscope.js').Operation} operation
 */
function encodeParameters({ parameters = {} }, operation) {
  const encoded = new Array(PARAMETERS).fill(NaN);
  for (const [name, value] of Object.entries(parameters)) {
    const index = operation.parameters.findIndex((parameter) => parameter.name === name);
    const names = operation.parameters.map((parameter) => parameter.name).join(', ') || 'none';
    expect(
      index >= 0,
      `edit.parameters.${name}`,
      `a parameter of ${operation.name}: ${names}`,
      name,
    );
    const { min, max } = operation.parameters[index];
    const fits = typeof value === 'number' && value >= min && value <= max;
    expect(fits, `edit.parameters.${name}`, `a number from ${min} to ${max}`, value);
    encoded[index] = value;
  }
  return encoded;
}

/**
 * @param {unknown} index
 * @param {number} size
 * @param {string} where
 */
function checkIndex(index, size, where) {
  if (index !== undefined) expectInteger(index, 0, size - 1, where);
}
