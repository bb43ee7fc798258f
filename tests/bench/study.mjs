/**
 * Measures the sequences per second of a study, as the page and the command line make it: the summary of 100 sequences
 * of 64 tokens.
 *
 *     node tests/bench/study.mjs [MODEL FOLDER] [--alone] [--three]
 *
 * Measures one worker and two in alternation. --alone: one worker only. --three: instead of the summary,
 * the three metrics that models.reference.time_study computes with PyTorch.
 *
 * Prints wall time, and processor time of all threads together. PyTorch's part: python -m models.reference.time_study
 */
import { readFileSync } from 'node:fs';
import { createEngine, measure } from '../../wasm/index.ts';
import { median } from './peers/table.mjs';
import { usedSince } from './process.mjs';

const rounds = Number(process.env.ROUNDS ?? 7);
const alone = process.argv.includes('--alone');
const metrics = process.argv.includes('--three')
  ? ['sink_ratio', 'entropy_mean', 'loss_mean']
  : undefined;
const [name = 'models/zoo/softmax'] = process.argv
  .slice(2)
  .filter((word) => !word.startsWith('--'));
const folder = new URL(`../../${name}/`, import.meta.url);
const base = new URL('../../.build/wasm/', import.meta.url);
const files = {
  config: readFileSync(new URL('config.json', folder)),
  weights: readFileSync(new URL('model.safetensors', folder)),
};

const pools = await Promise.all(
  (alone ? [1] : [1, 2]).map(async (workers) => {
    const engine = await createEngine({ base, workers });
    const model = await engine.open(files);
    return { workers, engine, model, wall: [], cpu: [] };
  }),
);
const { V } = pools[0].model.architecture;
const sequences = Array.from({ length: 100 }, (_, s) =>
  Array.from({ length: 64 }, (_, i) => (i ? (s * 7919 + i * i * 31 + i * 17) % V : 0)),
);
for (let round = 0; round <= rounds; round++)
  for (const { model, wall, cpu } of pools) {
    const [start, startUsage] = [performance.now(), process.cpuUsage()];
    await measure(model, sequences, { metrics });
    const ms = usedSince(startUsage);
    // The first round is not counted: V8 still compiles and optimizes the functions.
    if (!round) continue;
    wall.push(performance.now() - start);
    cpu.push(ms);
  }
for (const { workers, wall, cpu } of pools) {
  const [ms, cpuMs] = [median(wall), median(cpu)].map((all) => all / sequences.length);
  const rate = (1000 / ms).toFixed(0);
  console.log(
    `${workers} worker${workers > 1 ? 's' : ''}: ${rate} sequences/s (${ms.toFixed(2)} ms each, ${cpuMs.toFixed(2)} of CPU)`,
  );
}
if (!alone)
  console.log(`the pool: ${(median(pools[0].wall) / median(pools[1].wall)).toFixed(2)} times one`);
await Promise.all(pools.map(({ engine }) => engine.close()));
