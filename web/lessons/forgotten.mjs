/**
 * Records what SmolLM2-135M-Instruct writes after three beginnings under the conditions of the four questions of “Why it
 * matters”, with the attention on each token of the beginning, and the loss of the texts. All texts are greedy: the
 * likeliest token each time. Texts, conditions, bits and controls were written down here before the model ran under them:
 *
 * - Its cache holds 24 tokens: the last 24, or the first and the last 23. Controls keep all tokens, the second token
 *   instead of the first, or all but one in the middle.
 * - A rule chooses the 24 tokens: each rule of the room.
 * - Hidden states are rounded to 8 bits, the most that the edit has and the most common width. One scale serves a layer,
 *   as in the room; the prompt sets it. All tokens are rounded, or all but the first: after the layer of the story's
 *   largest activation, which the room shows, and after every layer. The room states the numbers of that, and of 6 and 4 bits.
 * - The sink is broken in the ways of the room: one weight zeroed, one channel zeroed, the tag of the first token removed
 *   from later ones, all tokens replaced by copies of the first. Controls are the weight half the matrix away, the channel half the width away, and random
 *   directions. The weight and the channel are those of the largest activations of the story. The room states their numbers.
 *
 * The room shows the channel zeroed at the first token alone, beside that token's next largest number. Both were added after
 * the channel had been zeroed at all tokens, which ruins more texts: zeroed at all tokens but the first, it ruins them, too,
 * although heads keep their sink. So that nonsense is no evidence about the sink.
 *
 * That a text of few words is nonsense, too, was added after the rounded texts, which repeat a word or a space. Rounding
 * after one layer alone was added after rounding after every layer, which also ruins half of the texts whose first token
 * stays exact: with one layer the steps that the room shows are all that is changed. The losses
 * after 10 passages of books say how often the first word matters. `sinkscope generate FILE --text BEGINNING --count 60 --edit 'evict(window,24)'` writes the same. All
 * takes about a quarter of an hour of an idle processor; the names of conditions renew those alone:
 *
 *     models/fetch/smollm2 && tests/node web/lessons/forgotten.mjs [CONDITION ...]
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
/** The steps of 8 bits on either side of 0, and how many first words have their largest number in the record. */
const [STEPS, PEAKS] = [2 ** 7 - 1, 5];

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

const round = (value) => Number(value.toFixed(3));
/** How many rows and columns of a matrix are half of it. */
const half = (i, n) => (i + n / 2) % n;
const zeroed = (layer, row, column) => [`scale_weight(down,${layer},${row},${column},0)`];
/** Rounds all tokens but the first ones after the layer of the largest activation, or after every layer. */
const rounded =
  (first, bits = 8, isEverywhere = false) =>
  (T, { state }) => [
    `quantize(hidden,${bits},tensor,first=${first},${isEverywhere ? '' : `layer=${state},`}prompt=${T})`,
  ];

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
  h2o: () => [`evict(h2o,${BUDGET})`],
  tova: () => [`evict(tova,${BUDGET})`],
  lru: () => [`evict(lru,${BUDGET})`],
  round8: rounded(0),
  exact8: rounded(1),
  round6: rounded(0, 6),
  exact6: rounded(1, 6),
  round4: rounded(0, 4),
  exact4: rounded(1, 4),
  roundAll: rounded(0, 8, true),
  exactAll: rounded(1, 8, true),
  weight: (_, { layer, row, column }) => zeroed(layer, row, column),
  otherWeight: (_, { layer, row, column, D, F }) => zeroed(layer, half(row, D), half(column, F)),
  channel: (_, { channel }) => [`clamp_channel(${channel})`],
  otherChannel: (_, { channel, D }) => [`clamp_channel(${half(channel, D)})`],
  nextNumber: (_, { next }) => [`clamp_channel(${next},token=0)`],
  firstWord: (_, { channel }) => [`clamp_channel(${channel},token=0)`],
  otherWords: (T, { channel }) =>
    Array.from({ length: T + COUNT - 1 }, (_, i) => `clamp_channel(${channel},token=${i + 1})`),
  tag: () => ['project'],
  otherTag: () => ['project(random,seed=1)'],
  repeat: () => [],
};
/** The beginning itself, or as many copies of its first token. */
const promptUnder = (name, prompt) => (name === 'repeat' ? prompt.map(() => prompt[0]) : prompt);
/** Conditions whose attention the page does not show, and controls without texts after the passages. */
const [UNSEEN, UNREPEATED] = [
  ['middle', 'round6', 'exact6', 'round4', 'exact4', 'roundAll', 'exactAll'],
  ['middle', 'second', 'otherWeight', 'repeat'],
];

/** Opens the model, and finds what the ways to break the sink change. @param {Awaited<ReturnType<typeof createEngine>>} engine */
export async function openWriter(engine) {
  const [plan] = await planFiles([{ path: FILE, file: await openAsBlob(MODEL_PATH) }]);
  const model = await engine.open(modelFiles(plan));
  const writer = { model, tokenizer: await planTokenizer(plan, model), describe: engine.describe };
  const story = await promptOf(writer, BEGINNINGS.story, Infinity);
  return { ...writer, largest: await largestOf(writer, story) };
}

/**
 * Returns the largest activation of a prompt, its channel and token, and the weight that adds most to the largest output of
 * a layer. Beside it, after the same layer: the largest number of each of the first words and of all other tokens, and
 * which share of the others' numbers 8 bits round to 0, first with the largest activation in the scale, then without; and
 * the token's largest number and its next largest, which are zeroed.
 */
async function largestOf({ model }, prompt) {
  const run = await model.run(prompt, { fields: ['hidden', 'spikes'] });
  const [sizes, places, weights] = await Promise.all(
    ['massive', 'massive_at', 'super_weight'].map(async (name) => (await run.metric(name)).data),
  );
  const hidden = (await run.field('hidden')).data;
  await run.close();
  const indexOfMax = (count, sizeAt) =>
    Array.from({ length: count }, (_, l) => l).reduce((a, b) => (sizeAt(b) > sizeAt(a) ? b : a));
  const { L, D, F } = model.architecture;
  const state = indexOfMax(L + 1, (l) => sizes[4 * l]);
  const layer = indexOfMax(L, (l) => Math.abs(weights[6 * l + 5]));
  const [row, column] = weights.subarray(6 * layer);
  const [size, channel, token] = [sizes[4 * state], places[6 * state], places[6 * state + 1]];
  const numbers = prompt.map((_, t) =>
    Array.from(hidden.subarray((state * prompt.length + t) * D).subarray(0, D), Math.abs),
  );
  const peaks = numbers.map((all) => round(Math.max(...all)));
  const next = indexOfMax(D, (i) => (i === channel ? 0 : numbers[token][i]));
  const others = numbers.filter((_, t) => t !== token).flat();
  const rest = Math.max(...others);
  const zeros = [size, rest].map(
    (top) => others.filter((number) => number <= top / STEPS / 2).length / others.length,
  );
  return {
    ...{ size: round(size), channel, token, next, layer, row, column, D, F },
    ...{ state, peaks: peaks.slice(0, PEAKS), rest: round(rest) },
    erased: [channel, next].map((column) => round(numbers[token][column])),
    zeros: zeros.map((share) => Number((100 * share).toFixed(2))),
  };
}

const editsOf = ({ describe, largest }, name, T) =>
  CONDITIONS[name](T, largest).map((text) => readEdit(text, describe));
const passages = JSON.parse(readFileSync(join(root, 'models/zoo/heldout-long.json'), 'utf8'));

/** Writes a text under each condition, and measures it: its loss under the unedited model. */
async function writeOn(writer, beginning, names) {
  const job = { count: COUNT, seed: 1, sampling: { temperature: 0, topK: 1 } };
  const written = {};
  for (const name of names) {
    const prompt = promptUnder(name, beginning);
    const edits = () => editsOf(writer, name, prompt.length);
    const continuation = await continuePrompt(writer, { title: name, edits }, { ...job, prompt });
    written[name] = {
      text: continuation.text,
      loss: round(await measureLoss(writer, { ...job, prompt }, continuation)),
    };
  }
  return written;
}

/**
 * Returns the attention of a prompt's last token, which the model continues from, on each token of the prompt: in percent,
 * as a mean over all heads, and how many percent of the heads have the token in their cache; and how many heads give the
 * first token more than EPS of their attention.
 */
async function looksOf(writer, beginning, name) {
  const prompt = promptUnder(name, beginning);
  const run = await writer.model.run(prompt, {
    ...{ edits: editsOf(writer, name, prompt.length), fields: ['att'] },
    capacity: prompt.length + COUNT,
  });
  const { data, shape } = await run.field('att');
  const share = (await run.metric('sink_ratio', { eps: EPS })).data[0];
  await run.close();
  const [T, heads] = [prompt.length, shape[0] * shape[1]];
  const rows = Array.from({ length: heads }, (_, i) => data.subarray((i * T + T - 1) * T));
  const meanOf = (valueOf) =>
    prompt.map((_, t) => rows.reduce((sum, row) => sum + valueOf(row[t] || 0), 0) / heads);
  return {
    looks: meanOf((weight) => 100 * weight).map((mean) => Number(mean.toFixed(1))),
    kept: meanOf((weight) => (weight > 0 ? 100 : 0)).map(Math.round),
    sinks: Math.round(share * heads),
  };
}

/** Returns the texts after a beginning, and what the last token of the beginning attends to. */
export async function writeBeginning(writer, name, conditions = Object.keys(CONDITIONS)) {
  const beginning = BEGINNINGS[name];
  const prompt = await promptOf(writer, beginning, Infinity);
  const text = {
    ...{ beginning, pieces: prompt.map((id) => writer.tokenizer.piece(id)) },
    ...{ largest: await largestOf(writer, prompt), sinks: {}, looks: {}, kept: {} },
    written: await writeOn(writer, prompt, conditions),
  };
  for (const condition of conditions.filter((one) => !UNSEEN.includes(one))) {
    const { looks, kept, sinks } = await looksOf(writer, prompt, condition);
    text.looks[condition] = looks;
    text.sinks[condition] = sinks;
    if (kept.some((share) => share < 100)) text.kept[condition] = kept;
  }
  return text;
}

/** Returns the losses of texts after passages, and how many different words they have, as lists by condition. */
async function measurePassages(writer, conditions) {
  const names = conditions.filter((one) => !UNREPEATED.includes(one));
  const [losses, words] = [{}, {}];
  for (const passage of passages.slice(0, PASSAGES)) {
    const prompt = await promptOf(writer, passage, PASSAGE_TOKENS);
    const written = await writeOn(writer, prompt, names);
    for (const [name, { text, loss }] of Object.entries(written)) {
      (losses[name] ??= []).push(loss);
      (words[name] ??= []).push(new Set(text.split(/\s+/).filter(Boolean)).size);
    }
  }
  return { passages: losses, passageWords: words };
}

/** Returns the old record with new numbers in it. */
const merge = (old, added) =>
  typeof added === 'object' && !Array.isArray(added)
    ? Object.entries(added).reduce(
        (all, [key, one]) => ({ ...all, [key]: merge(all[key] ?? {}, one) }),
        old,
      )
    : added;

if (import.meta.main) {
  const names = process.argv.slice(2);
  const conditions = names.length ? names : Object.keys(CONDITIONS);
  const engine = await createEngine();
  const writer = await openWriter(engine);
  const { L, H } = writer.model.architecture;
  const recorded = {
    ...{ model: 'SmolLM2-135M-Instruct', file: FILE },
    sha256: createHash('sha256').update(readFileSync(MODEL_PATH)).digest('hex'),
    ...{ version: engine.describe.version, eps: EPS, layers: L, heads: L * H },
    ...{ count: COUNT, budget: BUDGET, passageTokens: PASSAGE_TOKENS, texts: {} },
  };
  for (const name of Object.keys(BEGINNINGS))
    recorded.texts[name] = await writeBeginning(writer, name, conditions);
  Object.assign(recorded, await measurePassages(writer, conditions));
  await engine.close();
  const old = names.length ? JSON.parse(readFileSync(RECORDED_PATH, 'utf8')) : {};
  const merged = merge(old, recorded);
  // Compare states this number and imports nothing else of the file.
  merged.sinks = merged.texts.story.sinks.all;
  // `tests/style --fix` lays it out.
  writeFileSync(RECORDED_PATH, `${JSON.stringify(merged, null, 2)}\n`);
}
