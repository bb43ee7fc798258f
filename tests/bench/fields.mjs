/**
 * Measures the cost of recording: a run of 64 tokens with all fields, and with each field alone, against a run that
 * keeps maps and logits. Reports processor time in one thread, with the runs interleaved; ratios are of medians.
 *
 *     node tests/bench/fields.mjs [FOLDER OF BINARIES ...] [--each] [--rounds 15]
 *
 * The models are the softmax model, whose weights stay in a cache, and a random one of four layers in GPT-2's sizes.
 */
import { resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import { parseArgs } from 'node:util';
import { createEngine } from '../../wasm/index.ts';
import { files, randomModel, softmax } from '../wasm/helper.mjs';
import { median } from './peers/table.mjs';

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: { each: { type: 'boolean' }, rounds: { type: 'string', default: '15' } },
});
const T = 64;
const BASE_FIELDS = ['att', 'logits'];
const models = {
  'the softmax model': files(softmax),
  'a random model, D = 768': randomModel({ L: 4, D: 768, F: 2048, V: 16000, context: 128 }),
};

const engineOf = (folder) =>
  createEngine({ base: pathToFileURL(`${resolve(folder)}/`), worker: false });

const folders = positionals.length ? positionals : ['.build/wasm'];
for (const [name, source] of Object.entries(models)) {
  const subjects = [];
  for (const folder of folders) {
    const engine = await engineOf(folder);
    const model = await engine.open(source);
    const { architecture, describe } = model;
    const otherFields = describe.fields
      .filter((row) => !BASE_FIELDS.includes(row.name) && (!row.needs || architecture[row.needs]))
      .map((row) => row.name);
    const sets = { 'maps and logits': BASE_FIELDS, 'all fields': [...BASE_FIELDS, ...otherFields] };
    if (values.each)
      for (const fieldName of otherFields) sets[`  and ${fieldName}`] = [...BASE_FIELDS, fieldName];
    subjects.push({ folder, engine, model, sets, times: {} });
  }
  for (let round = 0; round <= Number(values.rounds); round++)
    for (const { model, sets, times } of subjects)
      for (const [setName, fields] of Object.entries(sets)) {
        const { V } = model.architecture;
        const text = Array.from({ length: T }, (_, i) => (i ? (i * i * 31 + i * 17) % V : 0));
        const startUsage = process.cpuUsage();
        const run = await model.run(text, { fields });
        const { user, system } = process.cpuUsage(startUsage);
        await run.close();
        // The first round is not counted: V8 still compiles and optimizes the functions.
        if (round) (times[setName] ??= []).push((user + system) / 1000);
      }
  for (const { folder, engine, times } of subjects) {
    console.log(`\n${name}, ${folder}`);
    const least = median(times['maps and logits']);
    for (const [setName, milliseconds] of Object.entries(times))
      console.log(
        `${setName.padEnd(24)}${median(milliseconds).toFixed(2).padStart(8)} ms ${(median(milliseconds) / least).toFixed(2)}`,
      );
    await engine.close();
  }
}
