/** Decodes values of a GGUF file's metadata, whose bounds the core has checked. */
import { SinkscopeError } from './errors.ts';
import { utf8 } from './module.ts';
import type { RawValue } from './module.ts';

type Value = string | number | boolean | readonly string[] | readonly boolean[] | readonly number[];

const STRING = 8;
const BOOL = 7;

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

export function decodeValue({ bytes, type, count, isArray }: RawValue, key: string): Value {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const values =
    type === STRING ? decodeStrings(bytes, view, count) : decodeNumbers(view, type, count, key);
  return isArray ? values : values[0];
}

const strictUtf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });
const isContinuation = (byte: number) => (byte & 0xc0) === 0x80;

/**
 * Decodes the texts of a list, each after its length. A call of the decoder takes longer than most texts, so one call
 * decodes all; the end of each in UTF-16 units is counted from its bytes. Texts that are not UTF-8 are decoded one by one.
 */
function decodeStrings(bytes: Uint8Array, view: DataView, count: number) {
  const texts = [];
  for (let offset = 0; texts.length < count;) {
    const length = Number(view.getBigUint64(offset, true));
    texts.push(bytes.subarray(offset + 8, offset + 8 + length));
    offset += 8 + length;
  }
  const joined = new Uint8Array(bytes.length - 8 * count);
  const ends = new Uint32Array(count);
  let [end, units] = [0, 0];
  texts.forEach((text, i) => {
    joined.set(text, end);
    end += text.length;
    for (const byte of text) units += isContinuation(byte) ? 0 : byte < 0xf0 ? 1 : 2;
    ends[i] = units;
  });
  try {
    // Two texts may be UTF-8 together that are not apart.
    if (texts.some(([first]) => isContinuation(first))) throw new TypeError('not UTF-8');
    const all = strictUtf8.decode(joined);
    return Array.from(ends, (to, i) => all.slice(i ? ends[i - 1] : 0, to));
  } catch {
    return texts.map((text) => utf8.decode(text));
  }
}

function decodeNumbers(view: DataView, type: number, count: number, key: string) {
  const kind = NUMBERS[type];
  if (!kind) throw new SinkscopeError('unsupported', key, `values of type ${type} are not read`);
  const values = Array.from({ length: count }, (_, i) => kind.read(view, i * kind.size));
  return type === BOOL ? values.map((value) => value !== 0) : values;
}
