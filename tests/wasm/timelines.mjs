// Makes a small timeline for the tests: its bits, and its files as a packer writes them.
import { createHash } from 'node:crypto';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { gzipSync } from 'node:zlib';
import { headerOf } from '../safetensors.mjs';

export const sha256 = (bytes) => createHash('sha256').update(bytes).digest('hex');
export const bytesOf = (array) => Buffer.from(array.buffer, array.byteOffset, array.byteLength);

const TENSORS = [
  { name: 'a.weight', shape: [3, 2], coded: true },
  { name: 'b.weight', shape: [5], coded: false },
  { name: 'c.weight', shape: [2, 4], coded: true },
];
/**
 * The checkpoints. `seed` draws the codes of the tensors a and c and the numbers of b; `scale` and `from_previous` say
 * how the codes of a and of c are read. The expected sums are written out below.
 */
export const CHECKPOINTS = [
  { step: 0, scale: [0.1, 0.3], from_previous: [false, false], seed: 1 },
  { step: 7, scale: [0.01, 0.7], from_previous: [true, false], seed: 2 },
  { step: 20, scale: [0.003, 1e-7], from_previous: [true, true], seed: 3 },
];

const steps = (n, seed) =>
  Int8Array.from({ length: n }, (_, i) => ((i * 37 + seed * 101) % 255) - 127);
const numbers = (n, seed) => Float32Array.from({ length: n }, (_, i) => Math.sin(i + seed));

/** Returns the values that a reader must decode, computed in the simplest way. */
function expected() {
  const before = { a: new Float32Array(6), c: new Float32Array(8) };
  return CHECKPOINTS.map(({ scale, from_previous, seed }) => {
    for (const [m, name] of ['a', 'c'].entries()) {
      const codes = steps(before[name].length, seed + m);
      before[name] = Float32Array.from(codes, (k, i) => {
        const base = from_previous[m] ? before[name][i] : 0;
        return Math.fround(base + Math.fround(k * Math.fround(scale[m])));
      });
    }
    return Float32Array.of(...before.a, ...numbers(5, seed), ...before.c);
  });
}

export function fixture() {
  const weights = expected();
  const rawFiles = CHECKPOINTS.map(({ seed }) =>
    Buffer.concat([
      bytesOf(steps(6, seed)),
      bytesOf(steps(8, seed + 1)),
      bytesOf(numbers(5, seed)),
    ]),
  );
  const checkpoints = CHECKPOINTS.map(({ step, scale, from_previous }, i) => ({
    step,
    file: `${String(step).padStart(4, '0')}.gz`,
    scale: scale.map(Math.fround),
    from_previous,
    weights_sha256: sha256(bytesOf(weights[i])),
    measured: { sink_1: i, loss: 3 - i, gone: null },
    stored: { sink_1: i + 0.5 },
  }));
  const log = [
    { step: 0, loss: 7 },
    { step: 5, loss: 6, value_ratio: null },
  ];
  const common = { recipe: 'small', seed: 1, config: 'config.json' };
  // The index is copied, because a test damages it.
  const index = structuredClone({ ...common, tensors: TENSORS, checkpoints, log });
  return { rawFiles, weights, index };
}

export function write(folder, { index, rawFiles }, change = () => {}) {
  const files = Object.fromEntries(
    index.checkpoints.map(({ file }, i) => [file, gzipSync(rawFiles[i])]),
  );
  for (const checkpoint of index.checkpoints) {
    checkpoint.bytes = files[checkpoint.file].length;
    checkpoint.sha256 = sha256(files[checkpoint.file]);
  }
  const fileTable = { 'index.json': index, 'config.json': '{"small": true}', ...files };
  change(fileTable);
  for (const [name, content] of Object.entries(fileTable))
    writeFileSync(
      join(folder, name),
      Buffer.isBuffer(content) || typeof content === 'string' ? content : JSON.stringify(content),
    );
  return new URL('index.json', `${pathToFileURL(folder).href}/`);
}

export async function withFolder(use) {
  const folder = mkdtempSync(join(tmpdir(), 'timeline-'));
  try {
    await use(folder);
  } finally {
    rmSync(folder, { recursive: true });
  }
}

export function numbersOf(file) {
  return new Float32Array(file.slice(headerOf(file).start).buffer);
}
