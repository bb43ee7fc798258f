/**
 * What a step of training costs, and what two workers that share it gain: node tests/bench/train.mjs
 * (--alone: one only; models/reference/time_training.py puts PyTorch beside it.)
 *
 * Seconds are of CPU, best of several; those of one worker and of two are wall-clock times, interleaved, and need
 * two cores for themselves. GFLOP/s are 6 x parameters x tokens of a step, and 2 x parameters x tokens of a forward pass with its
 * measures, both in one process. Token and position vectors that are looked up are no products and do
 * not count. Beside them is what the products alone give, interleaved with the steps, where
 * tests/bench/run has built its binary: 128 rows, 344 columns, 128 deep.
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

/** Counts the weights in products: all except vectors and lookups. */
function multiplied({ layers, width, inner, vocabulary, feed_forward: kind }) {
  const block = 4 * width * width + (kind === 'gated' ? 3 : 2) * width * inner;
  return layers * block + vocabulary * width;
}

/** Milliseconds of CPU. */
async function spent(run) {
  const began = process.cpuUsage();
  await run();
  return usedSince(began);
}

/** Times the product of matmul.c with that name and number of rows; undefined if matmul.c is not built. */
async function products(name, rows) {
  const file = new URL('../../.build/bench/simd.wasm', import.meta.url);
  if (!existsSync(file)) return undefined;
  const env = { emscripten_notify_memory_growth() {} };
  const { exports } = (await WebAssembly.instantiate(readFileSync(file), { env })).instance;
  const { bench_count, bench_name, bench_rows, bench_columns, bench_depth } = exports;
  const read = (at) => {
    const bytes = new Uint8Array(exports.memory.buffer, at);
    return String.fromCharCode(...bytes.subarray(0, bytes.indexOf(0)));
  };
  exports._initialize?.();
  exports.bench_fill();
  const all = Array.from({ length: bench_count() }, (_, i) => i);
  const i = all.find((one) => read(bench_name(one)) === name && bench_rows(one) === rows);
  const times = 50;
  const flops = 2 * rows * bench_columns(i) * bench_depth(i) * times;
  return { flops, run: () => exports.bench_run(i, times) };
}

/** Milliseconds of the clock of a step, the best of several slices. */
async function clocked(training, count) {
  const began = performance.now();
  await training.step(count);
  return (performance.now() - began) / count;
}

/** One worker against two, interleaved. */
async function shared(options, count) {
  const engine = await createEngine({ lab: true, workers: 3 });
  const [one, two] = [
    await engine.train({ ...options, workers: 1 }),
    await engine.train({ ...options, workers: 2 }),
  ];
  const best = [Infinity, Infinity];
  for (let i = 0; i < 6; i++)
    for (const [at, training] of [one, two].entries())
      best[at] = Math.min(best[at], await clocked(training, count));
  await engine.close();
  const [alone, both] = best;
  return `; one worker ${alone.toFixed(1)} ms, two ${both.toFixed(1)} ms: ${(alone / both).toFixed(2)} times`;
}

const engine = await createEngine({ lab: true, worker: false });
const kernel = await products('zoo gate, up', 128);
const text = Int32Array.from({ length: 5000 }, (_, i) => (i * 7919) % 1000);
for (const [name, choices, recipe, count] of CASES) {
  const sizes = { layers: 1, width: 64, inner: 256, vocabulary: 64, ...choices };
  const config = labConfig(choices);
  const task = choices.layers ? { task: 'text' } : {};
  const training = await engine.train({ config, recipe: { ...recipe, ...task }, text });
  const multiplications = multiplied(sizes) * recipe.batch * recipe.length;
  const best = { step: Infinity, look: Infinity, alone: Infinity };
  await training.step(2);
  for (let i = 0; i < count; i++) {
    for (const what of ['step', 'look'])
      best[what] = Math.min(best[what], await spent(() => training[what]()));
    if (kernel) best.alone = Math.min(best.alone, await spent(kernel.run));
  }
  await training.close();
  const full = { config, recipe: { ...recipe, ...task }, text };
  const gain = isAlone ? '' : await shared(full, Math.max(1, Math.round(count / 6)));
  const rate = (flops, ms) => flops / ms / 1e6;
  const step = rate(6 * multiplications, best.step);
  const forward = rate(2 * multiplications, best.look);
  const alone = kernel ? rate(kernel.flops, best.alone) : NaN;
  console.log(
    `${name}: a step ${best.step.toFixed(1)} ms, ${step.toFixed(1)} GFLOP/s; ` +
      `forward ${best.look.toFixed(1)} ms, ${forward.toFixed(1)} GFLOP/s` +
      (kernel
        ? `; products alone ${alone.toFixed(1)}: ${((100 * step) / alone).toFixed(0)} %`
        : '') +
      gain,
  );
}
await engine.close();
