/**
 * Weights in two parts: a preview, rounded to about three bits each, and a refinement that turns it into the exact
 * bytes of model.safetensors. models/train/preview.py writes and describes both parts.
 */
import { SinkscopeError } from 'sinkscope';

/**
 * A preview stores each weight of a matrix as a whole number n of steps, and |n| has this many values, 0 to 128. The
 * refinement has a bound for each of them.
 */
const STEP_SIZES = 129;

interface Entry {
  readonly dtype: string;
  readonly data_offsets: readonly [number, number];
}

const damageError = (where: string, text: string) => new SinkscopeError('bad_file', where, text);

/** Unpacks a file that ends in .gz, unless the server has unpacked it already. */
export async function unpack(bytes: Uint8Array<ArrayBuffer>, where: string): Promise<Uint8Array> {
  const [first, second] = bytes;
  if (first !== 0x1f || second !== 0x8b) return bytes;
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream('gzip'));
  const content = await new Response(stream).arrayBuffer().catch(() => {
    // The browser's own error does not say what is wrong: in Chromium, that a fetch failed.
    const size = bytes.length.toLocaleString('en');
    throw damageError(
      where,
      `expected a complete gzip file, found ${size} bytes that do not unpack`,
    );
  });
  return new Uint8Array(content);
}

export function parseHeader(bytes: Uint8Array, where: string) {
  try {
    const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
    const dataStart = 8 + Number(view.getBigUint64(0, true));
    const text = new TextDecoder().decode(bytes.subarray(8, dataStart));
    const { __metadata__: metadata, ...entries } = JSON.parse(text) as Record<string, Entry> & {
      readonly __metadata__?: { readonly config?: string };
    };
    const tensors = Object.entries(entries).sort(
      ([, a], [, b]) => a.data_offsets[0] - b.data_offsets[0],
    );
    return { begin: dataStart, config: metadata?.config ?? '', tensors: new Map(tensors) };
  } catch (error) {
    throw damageError(where, `expected a safetensors header: ${String(error)}`);
  }
}

const lengthOf = ({ data_offsets: [from, to] }: Entry) => to - from;

/**
 * Returns the bytes of model.safetensors from a preview and its refinement.
 * @param preview a safetensors file with matrices in I8
 * @param refinement the unpacked refinement
 */
export function refine(
  preview: Uint8Array,
  refinement: Uint8Array,
  where: string,
): Uint8Array<ArrayBuffer> {
  try {
    return joinParts(preview, refinement, where);
  } catch (error) {
    // A RangeError means that the header names bytes beyond the end of the file.
    if (!(error instanceof RangeError)) throw error;
    throw damageError(where, `expected a refinement of the preview: ${error.message}`);
  }
}

/** @throws RangeError if the preview or the refinement is too short */
function joinParts(
  preview: Uint8Array,
  refinement: Uint8Array,
  where: string,
): Uint8Array<ArrayBuffer> {
  const header = parseHeader(preview, where);
  const { begin, tensors } = parseHeader(refinement, where);
  const matrices = [...tensors].flatMap(([name, entry]) => {
    const previewEntry = header.tensors.get(name);
    if (previewEntry?.dtype !== 'I8') return [];
    const start = header.begin + previewEntry.data_offsets[0];
    const part = preview.subarray(start, start + lengthOf(previewEntry));
    const steps = new Int8Array(part.buffer, part.byteOffset, part.length);
    return { begin: begin + entry.data_offsets[0], steps };
  });
  const count = matrices.reduce((sum, { steps }) => sum + steps.length, 0);
  const unquantizedTensors = [...tensors].filter(
    ([name]) => header.tensors.get(name)?.dtype !== 'I8',
  );
  const highOffset = begin + 2 * STEP_SIZES * matrices.length;
  const lowOffset = highOffset + count;
  const expectedSize = unquantizedTensors.reduce(
    (sum, [, entry]) => sum + lengthOf(entry),
    lowOffset + count,
  );
  if (refinement.length !== expectedSize)
    throw damageError(where, `expected ${expectedSize} bytes, found ${refinement.length}`);

  /** For each |n|, the index of the next entry to read in the refinement, which is sorted by |n|. */
  const nextPositions = new Uint32Array(STEP_SIZES + 1);
  for (const { steps } of matrices) for (const step of steps) nextPositions[Math.abs(step) + 1]!++;
  for (let size = 1; size < STEP_SIZES; size++) nextPositions[size]! += nextPositions[size - 1]!;

  const file = new Uint8Array(begin + 2 * count + expectedSize - lowOffset - count);
  file.set(refinement.subarray(0, begin));
  const fileView = new DataView(file.buffer);
  const boundsView = new DataView(refinement.buffer, refinement.byteOffset + begin);
  matrices.forEach(({ begin: at, steps }, matrix) => {
    const matrixBounds = Uint16Array.from({ length: STEP_SIZES }, (_, size) =>
      boundsView.getUint16(2 * (STEP_SIZES * matrix + size), true),
    );
    for (let i = 0; i < steps.length; i++) {
      const step = steps[i]!;
      const size = Math.abs(step);
      const position = nextPositions[size]!++;
      const distance =
        (refinement[highOffset + position]! << 8) | refinement[lowOffset + position]!;
      const bits = size
        ? (matrixBounds[size]! + distance) | (step < 0 ? 0x8000 : 0)
        : (matrixBounds[0]! - (distance >> 1)) | ((distance & 1) << 15);
      fileView.setUint16(at + 2 * i, bits, true);
    }
  });
  let offset = lowOffset + count;
  for (const [, entry] of unquantizedTensors) {
    file.set(refinement.subarray(offset, offset + lengthOf(entry)), begin + entry.data_offsets[0]);
    offset += lengthOf(entry);
  }
  return file;
}
