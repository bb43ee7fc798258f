/**
 * Times GPT-2 from the hub's safetensors, whose matrices are [in][out], against a GGUF of the same numbers: opening, a
 * prompt, a token. The first run of a model reorders its weights. Processor time in one thread, interleaved; ratios are
 * of medians.
 *
 *     node tests/bench/hub.mjs [FOLDER OF BINARIES ...]        compares several builds
 *     ROUNDS=9 ...                                             medians of 9 rounds (default 5)
 */
import { resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import { createEngine } from '../../wasm/index.ts';
import { hubFile, randomFile, SHAPES } from './peers/gguf.mjs';
import { median } from './peers/table.mjs';
import { usedSince } from './process.mjs';

const rounds = Number(process.env.ROUNDS ?? 5);
const folders = process.argv.slice(2);
const { V } = SHAPES.gpt2.sizes;
const [T, STEPS] = [64, 8];
const text = Array.from({ length: T }, (_, i) => (i * 7919 + i * i * 31 + 11) % V);
const gguf = randomFile('gpt2', 'f32');
const files = { safetensors: hubFile(gguf), GGUF: { weights: gguf } };

async function timeOf(work) {
  const startUsage = process.cpuUsage();
  const result = await work();
  return { result, ms: usedSince(startUsage) };
}

const subjects = [];
for (const folder of folders.length ? folders : ['.build/wasm'])
  for (const [name, source] of Object.entries(files)) {
    const base = pathToFileURL(`${resolve(folder)}/`);
    const engine = await createEngine({ base, worker: false });
    subjects.push({ name: `${folder} ${name}`, source, engine, times: {} });
  }
const note = ({ times }, what, ms) => (times[what] ??= []).push(ms);
let bits;
for (let round = 0; round <= rounds; round++)
  for (const subject of subjects) {
    const { engine, source } = subject;
    const { result: model, ms } = await timeOf(() => engine.open(source));
    const fields = ['att', 'next'];
    const firstRun = await timeOf(() => model.run(text, { capacity: T + STEPS, fields }));
    const run = firstRun.result;
    const stepped = await timeOf(async () => {
      for await (const _ of run.generate({ count: STEPS }));
    });
    const wholeRun = await timeOf(() => model.run(text, { capacity: T, fields }));
    await wholeRun.result.close();
    const logits = (await run.read([{ field: 'next' }]))[0].data.join();
    if ((bits ??= logits) !== logits) throw new Error(`${subject.name}: other bits`);
    await run.close();
    if (round) {
      note(subject, 'opening', ms);
      note(subject, `the first run of ${T} tokens`, firstRun.ms);
      note(subject, `${T} tokens`, wholeRun.ms);
      note(subject, 'a token', stepped.ms / STEPS);
    }
    await model.close();
  }
for (const what of Object.keys(subjects[0].times)) {
  const all = subjects.map(({ times }) => median(times[what]));
  const last = all.at(-1);
  console.log(what);
  subjects.forEach(({ name }, i) =>
    console.log(
      `    ${name.padEnd(40)} ${all[i].toFixed(1).padStart(8)} ms  ${(all[i] / last).toFixed(2)}`,
    ),
  );
}
await Promise.all(subjects.map(({ engine }) => engine.close()));
