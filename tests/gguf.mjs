/** Writes the header of a GGUF file: the numbers of its tensors and pairs, and the pairs. */
export const U32 = 4;
export const I32 = 5;
export const F32 = 6;
const BOOL = 7;
export const STRING = 8;
const ARRAY = 9;

export function u32(value) {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32LE(value);
  return bytes;
}

export function u64(value) {
  const bytes = Buffer.alloc(8);
  bytes.writeBigUInt64LE(BigInt(value));
  return bytes;
}

function f32(value) {
  const bytes = Buffer.alloc(4);
  bytes.writeFloatLE(value);
  return bytes;
}

export function string(text) {
  const bytes = Buffer.from(text);
  return Buffer.concat([u64(bytes.length), bytes]);
}

const WRITE = {
  [U32]: u32,
  [I32]: (value) => u32(value >>> 0),
  [F32]: f32,
  [BOOL]: (value) => Buffer.of(Number(value)),
  [STRING]: string,
};

/** Returns the bytes of a pair; an array has elements of the type. */
export function entry(key, type, value) {
  const name = string(key);
  if (!Array.isArray(value)) return Buffer.concat([name, u32(type), WRITE[type](value)]);
  const head = [name, u32(ARRAY), u32(type), u64(value.length)];
  return Buffer.concat([...head, ...value.map(WRITE[type])]);
}

/** @param {Buffer[]} entries the bytes of the pairs */
export function ggufHeader(entries, tensorCount = 0) {
  const counts = [u64(tensorCount), u64(entries.length)];
  return Buffer.concat([Buffer.from('GGUF'), u32(3), ...counts, ...entries]);
}

function typeOf(value) {
  const values = [value].flat();
  if (typeof values[0] === 'number') return values.every(Number.isInteger) ? I32 : F32;
  return typeof values[0] === 'boolean' ? BOOL : STRING;
}

/** @param {Record<string, unknown>} values by key; the type of a pair is that of its value */
export const headerOf = (values) =>
  ggufHeader(Object.entries(values).map(([key, value]) => entry(key, typeOf(value), value)));
