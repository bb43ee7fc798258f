/**
 * Measures the time of a training step, and how much faster two workers share it.
 *
 *     node tests/bench/train.mjs            models/reference/time_training.py measures PyTorch for comparison
 *     node tests/bench/train.mjs --alone    one worker only
 *
 * Seconds are processor time, the best of several steps. The times of one worker and of two are wall time,
 * interleaved, and need two cores for themselves. GFLOP/s are 6 x parameters x tokens of a step, and 2 x parameters x
 * tokens of a forward pass with its measures, both in one process. Token and position vectors are looked up, so they
 * do not count as parameters. If tests/bench/run has built its binary, the speed of products alone is measured too,
 * interleaved with the steps: 128 rows, 344 columns, 128 deep.
 */
import { existsSync, readFileSync } from 'node:fs';
import { createEngine, labConfig } from '../../wasm/index.ts';
import { usedSince } from './process.mjs';

const isAlone = process.argv.includes('--alone');

const ZOO = {
  layers: 6,
  heads: 4,
  width: 128,
  inner: 344,
  vocabulary: 1024,
  context: 128,
  positions: 'rotary',
  norm: 'rms',
  feed_forward: 'gated',
  activation: 'silu',
};
const CASES = [
  ['the lab, one layer of 64, 32 x 32 tokens', {}, { batch: 32, length: 32 }, 60],
  ['the zoo, six of 128, 16 x 128 tokens', ZOO, { batch: 16, length: 128 }, 6],
];

/** Counts the weights in products: all except vectors and embeddings. */
function countProductWeights({ layers, width, inner, vocabulary, feed_forward: kind }) {
  const block = 4 * width * width + (kind === 'gated' ? 3 : 2) * width * inner;
  return layers * block + vocabulary * width;
}

async function processorTime(run) {
  const startUsage = process.cpuUsage();
  await run();
  return usedSince(startUsage);
}

/** Returns the product of matmul.c with this name and number of rows, and its FLOPs; undefined if matmul.c is not built. */
async function productOf(name, rows) {
  const file = new URL('../../.build/bench/simd.wasm', import.meta.url);
  if (!existsSync(file)) return undefined;
  const env = { emscripten_notify_memory_growth() {} };
  const { exports } = (await WebAssembly.instantiate(readFileSync(file), { env })).instance;
  const { bench_count, bench_name, bench_rows, bench_columns, bench_depth } = exports;
  const read = (address) => {
    const bytes = new Uint8Array(exports.memory.buffer, address);
    return String.fromCharCode(...bytes.subarray(0, bytes.indexOf(0)));
  };
  exports._initialize?.();
  exports.bench_fill();
  const kernels = Array.from({ length: bench_count() }, (_, i) => i);
  const i = kernels.find(
    (kernelIndex) => read(bench_name(kernelIndex)) === name && bench_rows(kernelIndex) === rows,
  );
  const times = 50;
  const flops = 2 * rows * bench_columns(i) * bench_depth(i) * times;
  return { flops, run: () => exports.bench_run(i, times) };
}

/** Returns the wall time of a step in milliseconds, the best of several slices. */
async function wallTime(training, count) {
  const startTime = performance.now();
  await training.step(count);
  return (performance.now() - startTime) / count;
}

async function compareShared(options, count) {
  const engine = await createEngine({ lab: true, workers: 3 });
  const [soloTraining, sharedTraining] = [
    await engine.train({ ...options, workers: 1 }),
    await engine.train({ ...options, workers: 2 }),
  ];
  const best = [Infinity, Infinity];
  for (let i = 0; i < 6; i++)
    for (const [index, training] of [soloTraining, sharedTraining].entries())
      best[index] = Math.min(best[index], await wallTime(training, count));
  await engine.close();
  const [soloMs, sharedMs] = best;
  return `; one worker ${soloMs.toFixed(1)} ms, two ${sharedMs.toFixed(1)} ms: ${(soloMs / sharedMs).toFixed(2)} times`;
}

const engine = await createEngine({ lab: true, worker: false });
const kernel = await productOf('zoo gate, up', 128);
const text = Int32Array.from({ length: 5000 }, (_, i) => (i * 7919) % 1000);
for (const [name, choices, recipe, count] of CASES) {
  const sizes = { layers: 1, width: 64, inner: 256, vocabulary: 64, ...choices };
  const config = labConfig(choices);
  const task = choices.layers ? { task: 'text' } : {};
  const training = await engine.train({ config, recipe: { ...recipe, ...task }, text });
  const multiplications = countProductWeights(sizes) * recipe.batch * recipe.length;
  const best = { step: Infinity, look: Infinity, alone: Infinity };
  await training.step(2);
  for (let i = 0; i < count; i++) {
    for (const method of ['step', 'look'])
      best[method] = Math.min(best[method], await processorTime(() => training[method]()));
    if (kernel) best.alone = Math.min(best.alone, await processorTime(kernel.run));
  }
  await training.close();
  const full = { config, recipe: { ...recipe, ...task }, text };
  const gain = isAlone ? '' : await compareShared(full, Math.max(1, Math.round(count / 6)));
  const rate = (flops, ms) => flops / ms / 1e6;
  const step = rate(6 * multiplications, best.step);
  const forward = rate(2 * multiplications, best.look);
  const soloMs = kernel ? rate(kernel.flops, best.alone) : NaN;
  console.log(
    `${name}: a step ${best.step.toFixed(1)} ms, ${step.toFixed(1)} GFLOP/s; ` +
      `forward ${best.look.toFixed(1)} ms, ${forward.toFixed(1)} GFLOP/s` +
      (kernel
        ? `; products alone ${soloMs.toFixed(1)}: ${((100 * step) / soloMs).toFixed(0)} %`
        : '') +
      gain,
  );
}
await engine.close();
