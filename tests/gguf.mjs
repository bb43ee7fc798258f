/** Writes the header of a GGUF file, in Node.js and in a page: the numbers of its tensors and pairs, and the pairs. */
export const U32 = 4;
export const I32 = 5;
export const F32 = 6;
export const BOOL = 7;
export const STRING = 8;
const ARRAY = 9;

export function concat(parts) {
  const bytes = new Uint8Array(parts.reduce((sum, { length }) => sum + length, 0));
  let position = 0;
  for (const part of parts) {
    bytes.set(part, position);
    position += part.length;
  }
  return bytes;
}

function number(setter, size, value) {
  const view = new DataView(new ArrayBuffer(size));
  view[setter](0, value, true);
  return new Uint8Array(view.buffer);
}
export const u32 = (value) => number('setUint32', 4, value);
export const u64 = (value) => number('setBigUint64', 8, BigInt(value));

export function string(text) {
  const bytes = new TextEncoder().encode(text);
  return concat([u64(bytes.length), bytes]);
}

const WRITE = {
  [U32]: u32,
  [I32]: (value) => u32(value >>> 0),
  [F32]: (value) => number('setFloat32', 4, value),
  [BOOL]: (value) => Uint8Array.of(Number(value)),
  [STRING]: string,
};

/** Returns the bytes of a pair; an array has elements of the type. */
export function entry(key, type, value) {
  const name = string(key);
  if (!Array.isArray(value)) return concat([name, u32(type), WRITE[type](value)]);
  const head = [name, u32(ARRAY), u32(type), u64(value.length)];
  return concat([...head, ...value.map(WRITE[type])]);
}

/** @param {Uint8Array[]} entries the bytes of the pairs */
export function ggufHeader(entries, tensorCount = 0) {
  const counts = [u64(tensorCount), u64(entries.length)];
  return concat([new TextEncoder().encode('GGUF'), u32(3), ...counts, ...entries]);
}

function typeOf(value) {
  const values = [value].flat();
  if (typeof values[0] === 'number') return values.every(Number.isInteger) ? I32 : F32;
  return typeof values[0] === 'boolean' ? BOOL : STRING;
}

/** @param {Record<string, unknown>} values by key; the type of a pair is that of its value */
export const headerOf = (values) =>
  ggufHeader(Object.entries(values).map(([key, value]) => entry(key, typeOf(value), value)));
