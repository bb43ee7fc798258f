/** Parses and serializes safetensors files. */

/**
 * Parses a safetensors file.
 * @param {Buffer} file
 * @returns {[string, { dtype: string, shape: number[] }, Buffer][]} name, entry of the header and bytes of each tensor
 */
export function tensorsOf(file) {
  const start = 8 + Number(file.readBigUInt64LE(0));
  const header = JSON.parse(file.subarray(8, start).toString());
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
