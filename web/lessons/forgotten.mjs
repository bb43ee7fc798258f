/**
 * Records what SmolLM2-135M-Instruct writes after three beginnings if its cache holds 24 tokens: the last 24, or the first
 * and the last 23. Controls keep all tokens, the second token instead of the first, or all but one in the middle. The room
 * "Why it matters" shows the texts, and the attention on each token in the cache. The losses after 10 passages of books say
 * how often that is so; those of 8 passages compare the model with the small ones of the room. All texts are greedy: the likeliest token each time. `sinkscope generate FILE --text BEGINNING --count 60 --edit 'evict(window,24)'`
 * writes the same. The script takes some minutes:
 *
 *     models/fetch/smollm2 && tests/node web/lessons/forgotten.mjs
 */
import { createHash } from 'node:crypto';
import { openAsBlob, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { createEngine, modelFiles, planFiles, planTokenizer } from '../../wasm/index.ts';
import { readEdit } from '../../wasm/internal.ts';
import { continuePrompt, measureLoss, promptOf } from '../src/run/writing.ts';

const root = join(import.meta.dirname, '../..');
const FILE = 'SmolLM2-135M-Instruct.Q4_1.gguf';
export const MODEL_PATH = join(root, 'models/.fetched', FILE);
export const RECORDED_PATH = join(import.meta.dirname, 'pictures/forgotten.json');
const [EPS, COUNT, BUDGET, PASSAGES, PASSAGE_TOKENS] = [0.3, 60, 24, 10, 64];
/** The room's passages, and how many tokens of each it measures. */
const READ = { passages: 8, tokens: 120 };

/**
 * The story was tried before this script was written; the news and the recipe were written down before the model read
 * them. All three are kept whatever the model wrote.
 */
const BEGINNINGS = {
  story:
    'The lighthouse stood at the edge of the sea. Every evening the old keeper climbed the stairs and lit the lamp, so that the ships could find their way home. One night a storm came up from the south, and the wind was so strong that the windows shook. The keeper looked out and saw',
  news: 'On Tuesday the city council voted to close the old bridge over the river for two years. Engineers had found cracks in three of its pillars in the spring, and heavy trucks have not been allowed to cross since then. The mayor said that a new bridge would cost forty million dollars, and that',
  recipe:
    'To make a simple tomato soup, heat some oil in a large pot and cook one chopped onion until it is soft. Add two cloves of garlic, a kilogram of ripe tomatoes and a glass of water. Let the soup simmer for half an hour, stir it now and then, and season it with salt. Then',
};

/** The edits of each condition as `--edit` takes them, for a prompt of T tokens. */
const CONDITIONS = {
  last: () => [`evict(window,${BUDGET})`],
  first: () => [`evict(first,${BUDGET},first=1)`],
  // From where the cache is full, the first token is hidden, so that the second takes its place.
  second: (T) => [
    `evict(first,${BUDGET + 1},first=2)`,
    ...Array.from({ length: T + COUNT - BUDGET }, (_, i) => `hide_key(0,query=${BUDGET + i})`),
  ],
  all: () => [],
  middle: (T) => [`hide_key(${Math.floor(T / 2)})`],
};

/** Opens the model. @param {Awaited<ReturnType<typeof createEngine>>} engine */
export async function openWriter(engine) {
  const [plan] = await planFiles([{ path: FILE, file: await openAsBlob(MODEL_PATH) }]);
  const model = await engine.open(modelFiles(plan));
  return { model, tokenizer: await planTokenizer(plan, model), describe: engine.describe };
}

const round = (value) => Number(value.toFixed(3));
const editsOf = ({ describe }, name, T) =>
  CONDITIONS[name](T).map((text) => readEdit(text, describe));
const passages = JSON.parse(readFileSync(join(root, 'models/zoo/heldout-long.json'), 'utf8'));

/** Writes a text under each condition, and measures it: its loss under the unedited model. */
async function writeOn(writer, prompt, names = Object.keys(CONDITIONS)) {
  const job = { prompt, count: COUNT, seed: 1, sampling: { temperature: 0, topK: 1 } };
  const written = {};
  for (const name of names) {
    const edits = () => editsOf(writer, name, prompt.length);
    const continuation = await continuePrompt(writer, { title: name, edits }, job);
    written[name] = {
      text: continuation.text,
      loss: round(await measureLoss(writer, job, continuation)),
    };
  }
  return written;
}

/** Returns how many heads give the first token more than EPS of their attention, and how many heads there are. */
async function sinksOf({ model }, prompt) {
  const run = await model.run(prompt, { fields: ['att'] });
  const share = (await run.metric('sink_ratio', { eps: EPS })).data[0];
  await run.close();
  const heads = model.architecture.L * model.architecture.H;
  return [Math.round(share * heads), heads];
}

/**
 * Returns the attention of a prompt's last token, which the model continues from: on each token in the cache, in percent,
 * as a mean over all heads.
 */
async function looksOf(writer, prompt, name) {
  const run = await writer.model.run(prompt, {
    ...{ edits: editsOf(writer, name, prompt.length), fields: ['att'] },
    capacity: prompt.length + COUNT,
  });
  const { data, shape } = await run.field('att');
  await run.close();
  const [T, heads] = [prompt.length, shape[0] * shape[1]];
  const rows = Array.from({ length: heads }, (_, i) => data.subarray((i * T + T - 1) * T));
  const means = prompt.map((_, t) => rows.reduce((sum, row) => sum + (row[t] || 0), 0) / heads);
  return means.filter((mean) => mean > 0).map((mean) => Number((100 * mean).toFixed(1)));
}

/** Returns the texts after beginnings, and which parts of each the caches keep, in characters. */
export async function writeBeginnings(writer, names = Object.keys(BEGINNINGS)) {
  const texts = {};
  for (const name of names) {
    const beginning = BEGINNINGS[name];
    const prompt = await promptOf(writer, beginning, Infinity);
    const pieces = prompt.map((id) => writer.tokenizer.piece(id));
    texts[name] = {
      ...{ beginning, tokens: prompt.length, first: pieces[0], second: pieces[1] },
      sinks: await sinksOf(writer, prompt),
      middle: pieces[Math.floor(prompt.length / 2)],
      recent: pieces.slice(-BUDGET),
      looks: {},
      written: await writeOn(writer, prompt),
    };
    for (const kept of ['last', 'first', 'second'])
      texts[name].looks[kept] = await looksOf(writer, prompt, kept);
  }
  return texts;
}

/** Returns the losses of texts after passages, as a list for each condition. */
async function measurePassages(writer) {
  const losses = { last: [], first: [], all: [] };
  for (const passage of passages.slice(0, PASSAGES)) {
    const prompt = await promptOf(writer, passage, PASSAGE_TOKENS);
    const written = await writeOn(writer, prompt, Object.keys(losses));
    for (const [name, { loss }] of Object.entries(written)) losses[name].push(loss);
  }
  return losses;
}

/** Returns the mean loss of the room's passages under each condition, as the room measures it. */
export async function measureReading(writer) {
  const losses = { last: 0, first: 0, all: 0 };
  for (const passage of passages.slice(0, READ.passages)) {
    const prompt = await promptOf(writer, passage, READ.tokens);
    for (const name of Object.keys(losses)) {
      const run = await writer.model.run(prompt, {
        edits: editsOf(writer, name, prompt.length),
        fields: ['loss'],
      });
      losses[name] += (await run.metric('loss_mean')).data[0] / READ.passages;
      await run.close();
    }
  }
  return { ...READ, ...Object.fromEntries(Object.entries(losses).map(([k, v]) => [k, round(v)])) };
}

if (import.meta.main) {
  const engine = await createEngine();
  const writer = await openWriter(engine);
  const recorded = {
    ...{ model: 'SmolLM2-135M-Instruct', file: FILE },
    sha256: createHash('sha256').update(readFileSync(MODEL_PATH)).digest('hex'),
    ...{
      version: engine.describe.version,
      eps: EPS,
      count: COUNT,
      budget: BUDGET,
      passageTokens: PASSAGE_TOKENS,
    },
    texts: await writeBeginnings(writer),
    passages: await measurePassages(writer),
    reading: await measureReading(writer),
  };
  await engine.close();
  // `tests/style --fix` lays it out.
  writeFileSync(RECORDED_PATH, `${JSON.stringify(recorded, null, 2)}\n`);
}
