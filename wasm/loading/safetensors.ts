/** Writes the start of a safetensors file. */

/** Returns the length of the header in eight bytes, and its JSON, with spaces that align the numbers to eight bytes. */
export function headerBytes(json: object): Uint8Array<ArrayBuffer> {
  const text = new TextEncoder().encode(JSON.stringify(json));
  const length = Math.ceil(text.length / 8) * 8;
  const bytes = new Uint8Array(8 + length).fill(0x20, 8);
  new DataView(bytes.buffer).setBigUint64(0, BigInt(length), true);
  bytes.set(text, 8);
  return bytes;
}
