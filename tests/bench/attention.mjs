/**
 * Times attention per pair of a query and a visible key, for texts of several lengths, as processor time in one thread.
 * The model's layers are almost nothing but attention, with heads as wide as those of SmolLM2. Prints medians over
 * rounds in which the lengths take turns. A run that measures also accumulates the sums of its maps.
 *
 *     node tests/bench/attention.mjs [FOLDER OF BINARIES] [--rounds 3] [--most 8192]
 */
import { resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import { parseArgs } from 'node:util';
import { createEngine } from '../../wasm/index.ts';
import { randomModel } from '../wasm/helper.mjs';
import { median } from './peers/table.mjs';
import { usedSince } from './process.mjs';

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    rounds: { type: 'string', default: '3' },
    most: { type: 'string', default: '8192' },
  },
});
const folder = positionals[0] ?? 'wasm';
const lengths = [256, 512, 1024, 2048, 4096, 8192].filter((T) => T <= Number(values.most));
const sizes = { L: 2, D: 8, F: 8, V: 64, K: 64, context: Math.max(...lengths) };
const runs = {
  'a run': { fields: ['next'] },
  'a run that measures': { fields: ['att', 'seen', 'q', 'loss'], measuring: true },
};

const engine = await createEngine({
  base: pathToFileURL(`${resolve(folder)}/`),
  worker: false,
});
const model = await engine.open(randomModel(sizes));
const { L, H } = model.architecture;
const times = {};
for (let round = 0; round <= Number(values.rounds); round++)
  for (const T of lengths)
    for (const [name, options] of Object.entries(runs)) {
      const ids = Array.from({ length: T }, (_, i) => (i * 31 + i * i) % sizes.V);
      const startUsage = process.cpuUsage();
      // Repeats short texts, so that each time is long enough to measure.
      for (let n = 0; n < Math.max(1, 1024 / T); n++) {
        const run = await model.run(ids, { ...options, capacity: T, maps: 0 });
        await run.close();
      }
      const ms = usedSince(startUsage) / Math.max(1, 1024 / T);
      // The first round is not counted: V8 still compiles and optimizes the functions.
      if (round) ((times[name] ??= {})[T] ??= []).push(ms);
    }
console.log(`nanoseconds of a pair in a head, ${H} heads of ${model.architecture.K}`);
console.log('T'.padStart(24) + lengths.map((T) => String(T).padStart(8)).join(''));
for (const [name, byT] of Object.entries(times)) {
  const pairs = lengths.map((T) => (1e6 * median(byT[T])) / ((L * H * T * (T + 1)) / 2));
  const formatRow = (values) => values.map((x) => x.toFixed(2).padStart(8)).join('');
  console.log(name.padStart(24) + formatRow(pairs));
  console.log('over the first'.padStart(24) + formatRow(pairs.map((x) => x / pairs[0])));
}
await engine.close();
