/**
 * The one runner of measurements. Benchmarks are not tests: timings are noisy, and no test depends on one.
 *
 *     tests/node tests/bench/run.mjs                                 lists the measurements
 *     tests/node tests/bench/run.mjs acts study                      runs some
 *     tests/node tests/bench/run.mjs acts --model FOLDER|FILE.gguf   on another model (default: the softmax model)
 *     tests/node tests/bench/run.mjs acts --binaries OLD --binaries .build/wasm  compares builds
 *     --rounds 9                                                     medians of 9 rounds (default 5)
 *
 * A measurement yields groups of subjects. A subject's `work` returns milliseconds, or nothing: then the processor time of
 * this process is taken. The subjects of a group take turns; the first round is not counted, since V8 still compiles and
 * optimizes the functions. A row has the median, the range, and the ratio to the first subject of its group.
 */
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { median } from './median.mjs';

process.chdir(fileURLToPath(new URL('../..', import.meta.url)));

/** Name, what is measured, and the function that yields the groups. */
const MEASUREMENTS = [
  ['acts', 'a reader’s acts over a whole run, processor time', './engine.mjs'],
  ['study', 'a study of 100 sequences of 64 tokens, wall time a sequence', './engine.mjs'],
  ['training', 'a step of the lab and of the zoo’s shape', './engine.mjs'],
  ['visit', 'bytes and requests of a first visit, and the first sink', './page.mjs'],
  ['keys', 'main thread, a key and a hovered cell', './page.mjs'],
  ['embeds', 'the figures of a page with five embeds, and of the lessons', './page.mjs'],
  ['cached', 'opening a kept GPT-2 in a page that only runs the package', './page.mjs'],
  ['peers', 'this engine, wllama and onnxruntime-web on the same files', './peers/peers.mjs'],
];

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    rounds: { type: 'string', default: '5' },
    model: { type: 'string', default: 'models/zoo/softmax' },
    binaries: { type: 'string', multiple: true, default: ['.build/wasm'] },
    only: { type: 'string', multiple: true, default: [] },
  },
});
const rounds = Number(values.rounds);

async function timeOf(work) {
  const start = process.cpuUsage();
  const result = await work();
  const { user, system } = process.cpuUsage(start);
  return typeof result === 'number' ? result : (user + system) / 1000;
}

/** @param {{ title: string, unit?: string, subjects: { name: string, prepare?: () => any, work: (prepared: any) => any }[] }} group */
async function measureGroup({ title, unit = 'ms', subjects }) {
  const times = new Map(subjects.map(({ name }) => [name, []]));
  for (let round = 0; round <= rounds; round++)
    for (const { name, prepare, work } of subjects) {
      const prepared = await prepare?.();
      const time = await timeOf(() => work(prepared));
      if (round) times.get(name).push(time);
    }
  console.log(`\n${title}: median ${unit}, range, over the first`);
  const first = median(times.get(subjects[0].name));
  for (const [name, all] of times) {
    const cells = [median(all), Math.min(...all), Math.max(...all)].map((x) => x.toFixed(2));
    const [middle, least, most] = cells;
    console.log(
      `${name.padEnd(48)}${middle.padStart(10)}  ${least}-${most}  ${(median(all) / first).toFixed(2)}`,
    );
  }
}

if (!positionals.length)
  for (const [name, what] of MEASUREMENTS) console.log(`${name.padEnd(10)} ${what}`);
for (const wanted of positionals) {
  const row = MEASUREMENTS.find(([name]) => name === wanted);
  if (!row) throw new Error(`there is no measurement ${wanted}`);
  const measurements = await import(row[2]);
  for await (const group of measurements[wanted]({ ...values, rounds })) await measureGroup(group);
}
process.exit();
