/** Parses and serializes safetensors files. */

/**
 * Returns the header of a file, and where its numbers begin.
 * @param {Uint8Array} bytes
 * @returns {{ header: Record<string, any>, start: number }}
 */
export function headerOf(bytes) {
  const file = Buffer.from(bytes);
  const start = 8 + Number(file.readBigUInt64LE(0));
  return { header: JSON.parse(file.subarray(8, start).toString()), start };
}

/** Returns a file with another header. @param {Uint8Array} bytes @param {object} header */
export function withHeader(bytes, header) {
  const text = Buffer.from(JSON.stringify(header));
  const length = Buffer.alloc(8);
  length.writeBigUInt64LE(BigInt(text.length));
  return Buffer.concat([length, text, bytes.subarray(headerOf(bytes).start)]);
}

/**
 * Parses a safetensors file.
 * @param {Buffer} file
 * @returns {[string, { dtype: string, shape: number[] }, Buffer][]} name, entry of the header and bytes of each tensor
 */
export function tensorsOf(file) {
  const { header, start } = headerOf(file);
  delete header.__metadata__;
  return Object.entries(header).map(([name, entry]) => {
    const [from, to] = entry.data_offsets;
    return [name, entry, file.subarray(start + from, start + to)];
  });
}

export function fileOf(tensors) {
  const header = {};
  let offset = 0;
  for (const [name, { dtype, shape }, bytes] of tensors)
    header[name] = { dtype, shape, data_offsets: [offset, (offset += bytes.length)] };
  const text = Buffer.from(JSON.stringify(header));
  const length = Buffer.alloc(8);
  length.writeBigUInt64LE(BigInt(text.length));
  return Buffer.concat([length, text, ...tensors.map(([, , bytes]) => bytes)]);
}
