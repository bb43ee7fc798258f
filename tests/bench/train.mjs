/**
 * What a step of training costs, and what two workers that share it gain: node tests/bench/train.mjs
 * (--alone: one only; models/reference/time_training.py puts PyTorch beside it.)
 *
 * Seconds are of CPU, best of several; those of one worker and of two are of the clock, by turns, and want
 * two cores for themselves. GFLOP/s are 6 x parameters x tokens of a step, and 2 x parameters x tokens of a forward pass with its
 * measures, both in one process. Token and position vectors that are looked up are no products and do
 * not count.
 */
import { createEngine, labConfig } from '../../wasm/index.js';

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

/** The weights that are multiplied with: all but vectors and what is looked up. */
function multiplied({ layers, width, inner, vocabulary, feed_forward: kind }) {
  const block = 4 * width * width + (kind === 'gated' ? 3 : 2) * width * inner;
  return layers * block + vocabulary * width;
}

/** Milliseconds of the clock of a step, the best of several slices. */
async function clocked(training, count) {
  const began = performance.now();
  await training.step(count);
  return (performance.now() - began) / count;
}

/** One worker against two, by turns. */
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
const text = Int32Array.from({ length: 5000 }, (_, i) => (i * 7919) % 1000);
for (const [name, choices, recipe, count] of CASES) {
  const sizes = { layers: 1, width: 64, inner: 256, vocabulary: 64, ...choices };
  const config = labConfig(choices);
  const task = choices.layers ? { task: 'text' } : {};
  const training = await engine.train({ config, recipe: { ...recipe, ...task }, text });
  const products = multiplied(sizes) * recipe.batch * recipe.length;
  const best = { step: Infinity, look: Infinity };
  await training.step(2);
  for (let i = 0; i < count; i++)
    for (const what of ['step', 'look']) {
      const began = process.cpuUsage();
      await training[what]();
      best[what] = Math.min(best[what], process.cpuUsage(began).user / 1000);
    }
  await training.close();
  const full = { config, recipe: { ...recipe, ...task }, text };
  const gain = isAlone ? '' : await shared(full, Math.max(1, Math.round(count / 6)));
  const rate = (flops, ms) => (flops / ms / 1e6).toFixed(1);
  console.log(
    `${name}: a step ${best.step.toFixed(1)} ms, ${rate(6 * products, best.step)} GFLOP/s; ` +
      `forward ${best.look.toFixed(1)} ms, ${rate(2 * products, best.look)} GFLOP/s${gain}`,
  );
}
await engine.close();
