/**
 * Records the texts that SmolLM2-135M-Instruct generates with its first key, without it, and with it restored, and the
 * control without its second key. Start and lesson 4 show the greedy texts, with means over sampled texts, so that the
 * numbers do not rest on one continuation. The script takes some minutes:
 *
 *     models/fetch/smollm2 && tests/node web/lessons/without_first.mjs
 */
import { openAsBlob, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { runnerImport } from 'vite';
import { createEngine, modelFiles, planFiles, planTokenizer } from '../../wasm/index.ts';

const here = import.meta.dirname;
const FILE = 'SmolLM2-135M-Instruct.Q4_1.gguf';
const PROMPT = 'The process by which plants turn sunlight into food is called photosynthesis. It';
const [COUNT, SEEDS] = [64, 8];

const alias = {
  'sinkscope/internal': join(here, '../../wasm/internal.ts'),
  sinkscope: join(here, '../../wasm/index.ts'),
};
const options = { configFile: false, root: join(here, '..'), resolve: { alias } };
const load = async (file) => (await runnerImport(join(here, '../src', file), options)).module;
const { CONDITION_NAMES, runTrial } = await load('run/without_first.ts');
const { promptOf } = await load('run/writing.ts');

const engine = await createEngine();
const path = join(here, '../../models/.fetched', FILE);
const [plan] = await planFiles([{ path: FILE, file: await openAsBlob(path) }]);
const model = await engine.open(modelFiles(plan));
const writer = { model, tokenizer: await planTokenizer(plan, model) };
const prompt = await promptOf(writer, PROMPT, model.architecture.context);
const greedySampling = { temperature: 0, topK: 1 };
const greedyTrial = await runTrial(writer, {
  prompt,
  count: COUNT,
  seed: 1,
  sampling: greedySampling,
});
const trials = [];
for (let seed = 1; seed <= SEEDS; seed++) {
  trials.push(await runTrial(writer, { prompt, count: COUNT, seed }));
  console.log(seed, JSON.stringify(trials.at(-1).deleted.text));
}
await engine.close();

// Queries without the first key predicted half of the restored text, and also the first token after that half.
const { tokens } = greedyTrial.restored;
const pieces = tokens.slice(0, Math.floor(COUNT / 2) + 1).map((id) => writer.tokenizer.piece(id));

const mapConditions = (trial, pick) =>
  Object.fromEntries(CONDITION_NAMES.map((name) => [name, pick(trial[name])]));
const round = (value) => Number(value.toFixed(3));
const MEASURES = ['loss', 'repeated', 'late'];
// The text without the second key is usually that with all keys, so it is recorded only if it differs.
const { control, ...texts } = mapConditions(greedyTrial, ({ text }) => text);
if (control !== texts.kept) texts.control = control;
const recordedTrials = {
  ...{ model: 'SmolLM2-135M-Instruct', file: FILE, prompt: PROMPT, count: COUNT },
  first: writer.tokenizer.piece(prompt[0]),
  second: writer.tokenizer.piece(prompt[1]),
  back: pieces.join('').length,
  texts,
  // Lists per condition and measure take less space than an object per seed.
  trials: Object.fromEntries(
    CONDITION_NAMES.map((name) => [
      name,
      Object.fromEntries(
        MEASURES.map((measure) => [measure, trials.map((trial) => round(trial[name][measure]))]),
      ),
    ]),
  ),
};
writeFileSync(
  join(here, 'pictures/without_first.json'),
  `${JSON.stringify(recordedTrials, null, 2)}\n`,
);
