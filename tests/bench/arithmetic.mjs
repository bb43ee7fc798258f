/**
 * Measures how far inexact arithmetics are from the exact one, over the first 64 tokens of a hundred held-out passages.
 * Needs a host with relaxed SIMD (Node.js 22).
 *
 *     node tests/bench/arithmetic.mjs              the softmax and the sigmoid twin
 *     node tests/bench/arithmetic.mjs MODEL ...    folders or GGUF files
 *
 * A row of the table has the largest and the mean difference of the logits and of the weights of all maps, and
 * Sink_1^0.3 and the loss of both arithmetics.
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
} from '../../wasm/index.ts';

const root = new URL('../../', import.meta.url);
const engine = await createEngine({ base: new URL('.build/wasm/', root), worker: false });
const heldout = JSON.parse(readFileSync(new URL('models/zoo/heldout.json', root), 'utf8'));
async function planOf(path) {
  const isFolder = statSync(path).isDirectory();
  const names = isFolder ? readdirSync(path).map((name) => join(path, name)) : [path];
  const fileNames = names.filter((name) => statSync(name).isFile());
  const files = fileNames.map(async (name) => ({
    path: basename(name),
    file: await openAsBlob(name),
  }));
  return (await planFiles(await Promise.all(files)))[0];
}

/** Collects the largest and the mean of |a - b| over pairs of numbers. */
class Differences {
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

async function* rows(path) {
  const plan = await planOf(path);
  const exactModel = await engine.open(modelFiles(plan));
  const tokenizer = await planTokenizer(plan, exactModel);
  const sequences = await cutText(tokenizer, heldout, { tokens: 64, sequences: 100 });
  tokenizer.close();
  const measureModel = (model) => measure(model, sequences, { eps: 0.3 });
  const { metrics: before } = await measureModel(exactModel);
  for (const arithmetic of ['relaxed', 'int8']) {
    const model = await engine.open(modelFiles(plan), { arithmetic });
    const gaps = { logits: new Differences(), att: new Differences() };
    for (const tokens of sequences) {
      const options = { fields: Object.keys(gaps), capacity: tokens.length };
      const runs = [await exactModel.run(tokens, options), await model.run(tokens, options)];
      for (const [field, gap] of Object.entries(gaps)) {
        const [a, b] = await Promise.all(runs.map((run) => run.field(field)));
        gap.add(a.data, b.data);
      }
      for (const run of runs) await run.close();
    }
    const { metrics } = await measureModel(model);
    await model.close();
    const pair = (name, show) =>
      [before, metrics].map((result) => show(result[name].mean[0])).join(', ');
    yield [
      basename(path),
      arithmetic,
      gaps.logits,
      gaps.att,
      pair('sink_ratio', (x) => `${(100 * x).toFixed(2)} %`),
      pair('loss_mean', (x) => x.toFixed(6)),
    ];
  }
  await exactModel.close();
}

const heads = ['model', 'arithmetic', 'logits: largest, mean', 'maps: largest, mean'];
console.log(`| ${[...heads, 'Sink_1: exact, so', 'loss: exact, so'].join(' | ')} |`);
console.log('|---|---|---|---|---|---|');
const twins = ['softmax', 'sigmoid'].map((id) => fileURLToPath(new URL(`models/zoo/${id}`, root)));
const paths = process.argv.slice(2);
for (const path of paths.length ? paths : twins)
  for await (const cells of rows(path)) console.log(`| ${cells.join(' | ')} |`);
await engine.close();
