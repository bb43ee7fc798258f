/**
 * Encodes edits for the ABI, each as {i32 kind; f32 values[limits.edit_values]}. The values are the
 * parameters of the edit, then those of its operation if it names one. The code knows no edit by
 * name: all comes from the tables of describe.
 */
import { expect, indexOfName } from '../abi/errors.ts';
import { parametersOf, type Parameter, type UncheckedEdit } from './edit_text.ts';
import type { Describe } from '../abi/types.ts';

export function encodeEdits(edits: unknown, describe: Describe) {
  expect(Array.isArray(edits), 'edits', 'a list of edits', edits);
  const list = edits as readonly unknown[];
  const size = 1 + describe.limits.edit_values;
  const words = new Int32Array(size * list.length);
  const floats = new Float32Array(words.buffer);
  list.forEach((edit, i) => {
    const { kind, values } = encodeEdit(edit, `edits[${i}]`, describe);
    words[size * i] = kind;
    floats.set(values, size * i + 1);
  });
  return words;
}

/** An absent parameter is NaN. The core fills in defaults and checks ranges. */
function encodeEdit(edit: unknown, where: string, describe: Describe) {
  const isObject = typeof edit === 'object' && edit !== null;
  expect(isObject, where, 'an object with a kind', edit);
  const { kind: name, parameters: nestedParameters, ...parameters } = edit as UncheckedEdit;
  const kind = indexOfName(describe.edits, name, `${where}.kind`);
  const specs = parametersOf(describe.edits[kind], parameters, describe);
  const values = new Array(describe.limits.edit_values).fill(NaN);
  for (const [key, value] of Object.entries({ ...parameters, ...nestedParameters })) {
    if (value === undefined) continue;
    const place =
      nestedParameters && key in nestedParameters
        ? `${where}.parameters.${key}`
        : `${where}.${key}`;
    const index = specs.findIndex((parameter) => parameter.name === key);
    const names = specs.map((parameter) => parameter.name).join(', ');
    expect(index >= 0, place, `a parameter of ${String(name)}: ${names}`, key);
    values[index] = encodeValue(specs[index], value, place, describe);
  }
  // The core knows choices as numbers, so a missing choice is refused here, with the names.
  describe.edits[kind].parameters.forEach(({ name: key, type, required, choices }, i) => {
    const words = type === 'operation' ? describe.operations.map((row) => row.name) : choices;
    const isGiven = !required || !words || !Number.isNaN(values[i]);
    expect(isGiven, `${where}.${key}`, `one of ${words?.join(', ')}`, undefined);
  });
  return { kind, values };
}

function encodeValue(
  { type, choices }: Parameter,
  value: unknown,
  where: string,
  { operations }: Describe,
) {
  if (type === 'operation') return indexOfName(operations, value, where);
  if (choices) {
    const index = choices.indexOf(value as string);
    expect(index >= 0, where, `one of ${choices.join(', ')}`, value);
    return index;
  }
  expect(Number.isFinite(value), where, 'a number', value);
  return value;
}
