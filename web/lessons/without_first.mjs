/**
 * Records the texts that SmolLM2-135M-Instruct generates with its first key, without it, and with it restored. Start
 * and lesson 4 show these greedy texts; the numbers beside them are means over sampled texts, so that they do not rest
 * on one continuation. It takes some minutes: models/fetch/smollm2 && node web/lessons/without_first.mjs
 */
import { openAsBlob, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { runnerImport } from 'vite';
import { createEngine, modelFiles, planFiles, planTokenizer } from '../../wasm/index.ts';

const here = import.meta.dirname;
const FILE = 'SmolLM2-135M-Instruct.Q4_1.gguf';
const PROMPT = 'The process by which plants turn sunlight into food is called photosynthesis. It';
const [COUNT, SEEDS] = [64, 8];

const options = { configFile: false, root: join(here, '..') };
const load = async (file) => (await runnerImport(join(here, '../src/run', file), options)).module;
const { NAMES, tryOnce } = await load('without_first.ts');
const { promptOf } = await load('writing.ts');

const engine = await createEngine();
const path = join(here, '../../models/.fetched', FILE);
const [plan] = await planFiles([{ path: FILE, file: await openAsBlob(path) }]);
const model = await engine.open(modelFiles(plan));
const writer = { model, tokenizer: await planTokenizer(plan, model) };
const prompt = await promptOf(writer, PROMPT, model.architecture.context);
const likeliest = { temperature: 0, topK: 1 };
const greedy = await tryOnce(writer, { prompt, count: COUNT, seed: 1, sampling: likeliest });
const trials = [];
for (let seed = 1; seed <= SEEDS; seed++) {
  trials.push(await tryOnce(writer, { prompt, count: COUNT, seed }));
  console.log(seed, JSON.stringify(trials.at(-1).deleted.text));
}
await engine.close();

// Up to here the restored text was written without the first key: a token is predicted by the query before it.
const { tokens } = greedy.restored;
const pieces = tokens.slice(0, Math.floor(COUNT / 2) + 1).map((id) => writer.tokenizer.piece(id));

const of = (trial, pick) => Object.fromEntries(NAMES.map((name) => [name, pick(trial[name])]));
const rounded = (value) => Number(value.toFixed(4));
const recorded = {
  ...{ model: 'SmolLM2-135M-Instruct', file: FILE, prompt: PROMPT, count: COUNT },
  first: writer.tokenizer.piece(prompt[0]),
  back: pieces.join('').length,
  texts: of(greedy, ({ text }) => text),
  trials: trials.map((trial) =>
    of(trial, ({ loss, repeated, late }) => ({
      ...{ loss: rounded(loss), repeated: rounded(repeated), late: rounded(late) },
    })),
  ),
};
writeFileSync(join(here, 'pictures/without_first.json'), `${JSON.stringify(recorded, null, 2)}\n`);
