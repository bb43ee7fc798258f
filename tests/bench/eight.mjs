/**
 * How far products in eight bits are from exact ones, over the first 64 tokens of a hundred held-out passages:
 *
 *     node tests/bench/eight.mjs            the softmax and the sigmoid twin
 *     node tests/bench/eight.mjs MODEL ...  folders or GGUF files
 *
 * A row of a table each: logits and weights of all maps, largest and mean difference; Sink_1^0.3 and loss of both.
 */
import { openAsBlob, readFileSync, readdirSync, statSync } from 'node:fs';
import { basename, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import {
  createEngine,
  cutText,
  measure,
  modelFiles,
  planFiles,
  planTokenizer,
} from '../../wasm/index.js';

const root = new URL('../../', import.meta.url);
const engine = await createEngine({ base: new URL('.build/wasm/', root), worker: false });
const heldout = JSON.parse(readFileSync(new URL('models/zoo/heldout.json', root), 'utf8'));
async function planOf(path) {
  const isFolder = statSync(path).isDirectory();
  const names = isFolder ? readdirSync(path).map((name) => join(path, name)) : [path];
  const kept = names.filter((name) => statSync(name).isFile());
  const files = kept.map(async (name) => ({ path: basename(name), file: await openAsBlob(name) }));
  return (await planFiles(await Promise.all(files)))[0];
}

/** Numbers that differ: the largest and the mean of |a - b|. */
class Gap {
  most = 0;
  sum = 0;
  n = 0;
  add(a, b) {
    a.forEach((x, i) => {
      const gap = Math.abs(x - b[i]);
      this.most = Math.max(this.most, gap);
      this.sum += gap;
    });
    this.n += a.length;
  }
  toString() {
    return `${this.most.toPrecision(2)}, ${(this.sum / this.n).toPrecision(2)}`;
  }
}

async function row(path) {
  const plan = await planOf(path);
  const models = [];
  for (const arithmetic of ['exact', 'int8'])
    models.push(await engine.open(modelFiles(plan), { arithmetic }));
  const tokenizer = await planTokenizer(plan, models[0]);
  const sequences = await cutText(tokenizer, heldout, { tokens: 64, sequences: 100 });
  tokenizer.close();
  const gaps = { logits: new Gap(), att: new Gap() };
  for (const tokens of sequences) {
    const runs = [];
    for (const model of models)
      runs.push(await model.run(tokens, { fields: ['logits', 'att'], capacity: tokens.length }));
    for (const [field, gap] of Object.entries(gaps)) {
      const [exact, eight] = await Promise.all(runs.map((run) => run.field(field)));
      gap.add(exact.data, eight.data);
    }
    for (const run of runs) await run.close();
  }
  const told = [];
  for (const model of models) {
    const { metrics } = await measure(model, sequences, { eps: 0.3 });
    told.push([metrics.sink_ratio.mean[0], metrics.loss_mean.mean[0]]);
    await model.close();
  }
  const [[sink, loss], [sink8, loss8]] = told;
  const share = (x) => `${(100 * x).toFixed(1)} %`;
  const cells = [
    basename(path),
    gaps.logits,
    gaps.att,
    `${share(sink)}, ${share(sink8)}`,
    `${loss.toFixed(3)}, ${loss8.toFixed(3)}`,
  ];
  console.log(`| ${cells.join(' | ')} |`);
}

console.log('| model | logits: largest, mean | maps: largest, mean | Sink_1: exact, int8 | loss |');
console.log('|---|---|---|---|---|');
const twins = ['softmax', 'sigmoid'].map((id) => fileURLToPath(new URL(`models/zoo/${id}`, root)));
const given = process.argv.slice(2);
for (const path of given.length ? given : twins) await row(path);
await engine.close();
