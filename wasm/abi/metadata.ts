/**
 * Reads the metadata of a GGUF file, which precede its weights:
 *
 *     "GGUF", u32 version, u64 tensors, u64 pairs
 *     pairs:  text key, u32 type, value       text: u64 bytes, UTF-8       array: u32 type, u64 count, values
 */
import { SinkscopeError } from './errors.ts';
import { utf8 } from './module.ts';

/** A value that is not yet decoded. `type` is the type of the value or of its `count` elements. */
export type RawValue = { bytes: Uint8Array; type: number; count: number; isArray: boolean };
type Value = string | number | boolean | readonly string[] | readonly boolean[] | readonly number[];

const BOOL = 7;
const STRING = 8;
const ARRAY = 9;
/** Bytes before each text, which hold its length. */
const LENGTH_BYTES = 8;
/** Offset of the number of pairs. */
const COUNT_OFFSET = 16;

const NUMBERS: Record<number, { size: number; read: (view: DataView, offset: number) => number }> =
  {
    0: { size: 1, read: (view, offset) => view.getUint8(offset) },
    1: { size: 1, read: (view, offset) => view.getInt8(offset) },
    2: { size: 2, read: (view, offset) => view.getUint16(offset, true) },
    3: { size: 2, read: (view, offset) => view.getInt16(offset, true) },
    4: { size: 4, read: (view, offset) => view.getUint32(offset, true) },
    5: { size: 4, read: (view, offset) => view.getInt32(offset, true) },
    6: { size: 4, read: (view, offset) => view.getFloat32(offset, true) },
    7: { size: 1, read: (view, offset) => view.getUint8(offset) },
    10: { size: 8, read: (view, offset) => Number(view.getBigUint64(offset, true)) },
    11: { size: 8, read: (view, offset) => Number(view.getBigInt64(offset, true)) },
    12: { size: 8, read: (view, offset) => view.getFloat64(offset, true) },
  };

/** Returns the metadata by key, of equal keys the first, and the byte after them. */
function readPairs(bytes: Uint8Array) {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  let end = 0;
  const skip = (size: number) => {
    end += size;
    if (end <= bytes.length) return end - size;
    const text = `expected more than ${bytes.length} bytes`;
    throw new SinkscopeError('bad_file', 'GGUF metadata', text);
  };
  const takeU32 = () => view.getUint32(skip(4), true);
  const takeU64 = () => takeU32() + 2 ** 32 * takeU32();
  const pairs: Map<string, RawValue> = new Map();
  skip(COUNT_OFFSET);
  for (let left = takeU64(); left > 0; left--) {
    const keyBytes = takeU64();
    // Shared memory is copied first, because it cannot be decoded.
    const key = utf8.decode(bytes.slice(skip(keyBytes), end));
    const outerType = takeU32();
    const isArray = outerType === ARRAY;
    const type = isArray ? takeU32() : outerType;
    const count = isArray ? takeU64() : 1;
    const start = end;
    if (type === STRING) for (let i = 0; i < count; i++) skip(takeU64());
    else skip(count * (NUMBERS[type] ?? unknownType(key, type)).size);
    if (!pairs.has(key))
      pairs.set(key, { bytes: bytes.subarray(start, end), type, count, isArray });
  }
  return { pairs, end };
}

/** Returns a copy of a GGUF file's header; undefined while it is incomplete. The core says what is wrong with a file. */
export function copyHeader(bytes: Uint8Array): Uint8Array | undefined {
  try {
    return bytes.slice(0, readPairs(bytes).end);
  } catch {
    return undefined;
  }
}

/** Returns a function from keys to values of a GGUF file's metadata; `header` is its start. */
export function readMetadata(header: Uint8Array): (key: string) => Value | undefined {
  const { pairs } = readPairs(header);
  return (key) => {
    const pair = pairs.get(key);
    return pair && decodeValue(pair, key);
  };
}

export function decodeValue({ bytes, type, count, isArray }: RawValue, key: string): Value {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const values =
    type === STRING ? decodeStrings(bytes, count) : decodeNumbers(view, type, count, key);
  return isArray ? values : values[0];
}

const strictUtf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

/** Returns how many bytes of UTF-8 a UTF-16 unit stands for; each half of a pair stands for two. */
const byteCount = (unit: number) =>
  unit < 0x80 ? 1 : unit < 0x800 || (unit & 0xf800) === 0xd800 ? 2 : 3;

/**
 * Decodes the texts of a list, each after its length. A call of the decoder takes longer than most texts, so one call
 * decodes all, with zeros in place of the lengths. Texts that are not UTF-8 are decoded one by one.
 */
function decodeStrings(source: Uint8Array, count: number) {
  const bytes = new Uint8Array(source);
  const view = new DataView(bytes.buffer);
  const lengths = new Uint32Array(count);
  for (let i = 0, offset = 0; i < count; offset += LENGTH_BYTES + lengths[i++]) {
    lengths[i] = view.getUint32(offset, true);
    view.setUint32(offset, 0);
  }
  let end = 0;
  try {
    const all = strictUtf8.decode(bytes);
    return Array.from(lengths, (bytesLeft) => {
      const start = (end += LENGTH_BYTES);
      while (bytesLeft > 0) bytesLeft -= byteCount(all.charCodeAt(end++));
      return all.slice(start, end);
    });
  } catch {
    return Array.from(lengths, (length) => {
      const start = end + LENGTH_BYTES;
      end = start + length;
      return utf8.decode(bytes.subarray(start, end));
    });
  }
}

function unknownType(key: string, type: number): never {
  throw new SinkscopeError('unsupported', key, `values of type ${type} are not read`);
}

function decodeNumbers(view: DataView, type: number, count: number, key: string) {
  const kind = NUMBERS[type] ?? unknownType(key, type);
  const values = Array.from({ length: count }, (_, i) => kind.read(view, i * kind.size));
  return type === BOOL ? values.map((value) => value !== 0) : values;
}
