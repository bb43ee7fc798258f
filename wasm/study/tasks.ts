/**
 * Measures the role of the first key: predicts the last tokens of prompts with every key, without
 * the first or another one afterwards, and with the first hidden from the start.
 */
import { expect, expectInteger } from '../abi/errors.ts';
import { expectHead } from '../abi/head.ts';
import { check, checkList, checkOptions, JOB_OPTIONS } from '../abi/arguments.ts';
import { randomBits } from '../engine/random.ts';
import { spread } from './spread.ts';
import type { Replica, Edit, RunOptions } from '../engine/types.ts';
import type { TaskPrompt, TaskMean, Task, StudyModel, TaskResult } from './types.ts';
import type { AnyTokenizer, EncodeOptions } from '../text/types.ts';
import type { Options } from '../abi/types.ts';

type Scores = { accuracy: number; loss: number; choice: number };

const COUNT_MAX = 2 ** 20;
const CONDITIONS = ['baseline', 'first', 'other', 'unseen'];

const CUE = "My friend's name is";
const NAMES = [
  ...['Mary', 'Tom', 'John', 'Anna', 'Peter', 'Kate', 'William', 'Rose'],
  ...['Henry', 'Lucy', 'David', 'Emma', 'George', 'Sarah', 'Frank', 'Bella'],
];
/** A recall task has at most this many names, each with its own first token. */
const CHOICES_MAX = 8;
const FILLERS = [
  'It was a cold day, and the snow lay deep on the road.',
  'The old house stood at the end of the lane.',
  'We walked down to the river and sat in the grass.',
  'There was bread on the table, and a cup of milk.',
  'The wind had blown all night, but now it was still.',
  'A bird sang in the tree above the gate.',
  'The sun came up, and the fields were green again.',
  'We had a long way to go before dark.',
  'The door was open, and the fire was warm.',
  'In the garden the roses were in flower.',
  'A cart came up the hill with a load of hay.',
  'The water was clear, and we could see the stones.',
];

export async function textTask(sequences: readonly ArrayLike<number>[]): Promise<Task> {
  checkList(sequences, 'list', 'sequences');
  expect(sequences.length > 0, 'sequences', 'one sequence or more', 'none');
  const prompts = Array.from(sequences, (ids) => ({
    ids: Array.from(ids),
    from: Math.ceil(ids.length / 2),
  }));
  const counts = new Map();
  const targets = prompts.flatMap(({ ids, from }) => ids.slice(from));
  targets.forEach((id) => counts.set(id, 1 + (counts.get(id) ?? 0)));
  return { name: 'next', prompts, chance: Math.max(...counts.values()) / targets.length };
}

export async function copyTask(
  V: number,
  options: {
    /** Initial ids, such as the start token; default: a random token for each prompt. */
    readonly first?: readonly number[];
    readonly never?: readonly number[];
    readonly length?: number;
    /** Default 24. */
    readonly prompts?: number;
    readonly seed?: number;
  } = {},
): Promise<Task> {
  expectInteger(V, 1, 2 ** 31, 'V');
  checkOptions(options, { first: 'list', never: 'list' });
  const { first = [], never = [], length = 25, prompts = 24, seed = 0 } = options;
  const excludedIds = new Set([...never, ...first]);
  const allowedIds = Array.from({ length: V }, (_, id) => id).filter((id) => !excludedIds.has(id));
  expectInteger(length, 2, allowedIds.length - 1, 'length');
  expectInteger(prompts, 1, COUNT_MAX, 'prompts');
  expectInteger(seed, 0, 2 ** 32 - 1, 'seed');
  const random = randomBits(seed);
  const makePrompt = () => {
    // Without a start token a random token comes first, so that the first key is not one to copy.
    const sample = drawItems(allowedIds, length + 1, random);
    const prefix = first.length ? first : sample.slice(0, 1);
    const copiedIds = sample.slice(1);
    return { ids: [...prefix, ...copiedIds, ...copiedIds], from: prefix.length + length + 1 };
  };
  return { name: 'copy', prompts: Array.from({ length: prompts }, makePrompt), chance: 1 / length };
}

export async function recallTask(
  tokenizer: AnyTokenizer,
  options: {
    readonly between?: number;
    /** Default 24. */
    readonly prompts?: number;
    readonly names?: readonly string[];
    readonly special?: EncodeOptions['special'];
  } = {},
): Promise<Task | undefined> {
  check(tokenizer, 'tokenizer', 'tokenizer');
  checkOptions(options, {});
  const { between = 2, prompts = 24, names = NAMES, special } = options;
  expectInteger(between, 0, FILLERS.length - 1, 'between');
  expectInteger(prompts, 1, COUNT_MAX, 'prompts');
  checkList(names, 'text', 'names');
  const encode = async (text: string) =>
    tokenizer.encode(text, special === undefined ? {} : { special });
  const makePrompt = async (name: string, round: number) => {
    const filler = (i: number) => FILLERS[(round + i) % FILLERS.length];
    const statement = `${filler(0)} ${CUE} ${name}.`;
    const fillers = Array.from({ length: between }, (_, i) => filler(1 + i));
    const question = [statement, ...fillers, CUE].join(' ');
    const nameEnd = statement.length - 1;
    const tokens = await encode(`${question} ${name}`);
    // The first token of the answer is the first one that extends beyond the question.
    const answerStart = tokens.findIndex((token) => token.end > question.length);
    const ids = tokens.slice(0, answerStart + 1).map(({ id }) => id);
    const needs = [...tokens.keys()].filter((i) => {
      const { start, end: stop } = tokens[i];
      return start < nameEnd && stop > nameEnd - name.length;
    });
    // Keys are evicted once the model has read the name.
    const evictedAt = Math.min(answerStart - 1, Math.max(...needs) + 1);
    return { ids, from: answerStart, needs, lost: evictedAt };
  };
  /** Names by their first token; a later name with the same first token is dropped. */
  const nameByToken: Map<number, string> = new Map();
  for (const name of names) {
    const { ids, from } = await makePrompt(name, 0);
    if (nameByToken.size < CHOICES_MAX && !nameByToken.has(ids[from]))
      nameByToken.set(ids[from], name);
  }
  if (nameByToken.size < 2) return undefined;
  const choices = [...nameByToken.keys()];
  const usedNames = [...nameByToken.values()];
  const recallPrompts = [];
  for (let i = 0; i < prompts; i++)
    recallPrompts.push(
      await makePrompt(usedNames[i % usedNames.length], Math.floor(i / usedNames.length)),
    );
  const distance = mean(recallPrompts.map(({ from, needs }) => from - needs[0]));
  return {
    name: 'recall',
    prompts: recallPrompts.map((prompt) => ({ ...prompt, choices })),
    chance: 1 / choices.length,
    distance,
  };
}

export async function measureTask(
  model: StudyModel,
  task: Task,
  options: Options & { readonly edits?: readonly Edit[]; readonly seed?: number } = {},
): Promise<TaskResult> {
  check(model, 'model', 'model');
  check(task, 'object', 'task');
  checkOptions(options, { ...JOB_OPTIONS, edits: 'list' });
  const { edits = [], seed = 0, signal, onProgress } = options;
  expectInteger(seed, 0, 2 ** 32 - 1, 'seed');
  const { V, context, mask } = model.architecture;
  expectHead(model.architecture);
  expect(mask.kind !== 'bidirectional', 'model', 'one that predicts the next token', mask.kind);
  check(task.chance, 'number', 'task.chance');
  checkList(task.prompts, 'object', 'task.prompts');
  expect(task.prompts.length > 0, 'task.prompts', 'one prompt or more', 'none');
  task.prompts.forEach((prompt, i) => checkPrompt(prompt, `task.prompts[${i}]`, V, context));
  const random = randomBits(seed);
  const items = task.prompts.map((prompt) => {
    const keys = controlKeys(prompt);
    const controlKey = keys[drawIndex(keys.length, random)];
    const cases = [
      [],
      evictionEdits(0, prompt),
      evictionEdits(controlKey, prompt),
      [{ kind: 'hide_key', key: 0 }],
    ];
    return { prompt, cases };
  });
  const total = CONDITIONS.length * items.length;
  let count = 0;
  const scoreItem = async (replica: Replica, item: (typeof items)[number]) => {
    const scores = [];
    for (const conditionEdits of item.cases) {
      const runOptions = { edits: [...Array.from(edits), ...conditionEdits], signal };
      scores.push(await scorePrompt(replica, item.prompt, runOptions));
      onProgress?.({ stage: 'measure', done: ++count, total });
    }
    return scores;
  };
  const scoresByPrompt: Scores[][] = [];
  for await (const scores of spread(model, items, scoreItem, { signal }))
    scoresByPrompt.push(scores);
  const { name, prompts, chance, distance } = task;
  const hasChoices = prompts.every(({ choices }) => choices);
  const conditionOf = (_: unknown, conditionIndex: number) => {
    const scoreOf = (quantity: keyof Scores) => ({
      ...meanWithError(scoresByPrompt.map((scores) => scores[conditionIndex][quantity])),
      change: meanWithError(
        scoresByPrompt.map((scores) => scores[conditionIndex][quantity] - scores[0][quantity]),
      ),
    });
    return {
      accuracy: scoreOf('accuracy'),
      loss: scoreOf('loss'),
      choice: hasChoices ? scoreOf('choice') : null,
    };
  };
  const [baseline, first, other, unseen] = CONDITIONS.map(conditionOf);
  const mainScore = baseline.choice ?? baseline.accuracy;
  return {
    name,
    prompts: prompts.length,
    predicted: prompts.reduce((sum, { ids, from }) => sum + ids.length - from, 0),
    chance,
    ...(distance === undefined ? {} : { distance }),
    can: mainScore.mean - 2 * (mainScore.error ?? 0) > chance,
    baseline,
    first,
    other,
    unseen,
  };
}

function evictionEdits(key: number, { ids, from, lost = from - 1 }: TaskPrompt): Edit[] {
  const queries = Array.from({ length: ids.length - 1 - lost }, (_, i) => lost + i);
  return queries.map((query) => ({ kind: 'hide_key', key, query }));
}

/** Lists the keys that the control may evict: not the first, and none that holds the answer. */
const controlKeys = ({ from, lost = from - 1, needs = [] }: TaskPrompt) =>
  Array.from({ length: lost - 1 }, (_, i) => i + 1).filter((i) => !needs.includes(i));

async function scorePrompt(
  replica: Replica,
  { ids, from, choices }: TaskPrompt,
  options: Pick<RunOptions, 'edits' | 'signal'>,
): Promise<Scores> {
  const fields = ['loss', 'rank', ...(choices ? ['logits'] : [])];
  const run = await replica.run(ids, { ...options, fields, capacity: ids.length });
  try {
    const [loss, rank] = [await run.field('loss'), await run.field('rank')];
    const ranks = Array.from(rank.data).slice(from);
    const scores = {
      accuracy: mean(ranks.map((rank) => Number(rank === 0))),
      loss: mean(Array.from(loss.data).slice(from)),
    };
    if (!choices) return { ...scores, choice: NaN };
    const { shape, data } = await run.field('logits');
    const logits = data.subarray((ids.length - 2) * shape[1], (ids.length - 1) * shape[1]);
    // Of equal logits the lowest id is chosen.
    const sortedChoices = [...choices].sort((a, b) => a - b);
    const topChoice = sortedChoices.reduce((a, b) => (logits[b] > logits[a] ? b : a));
    return { ...scores, choice: Number(topChoice === ids[ids.length - 1]) };
  } finally {
    await run.close();
  }
}

function checkPrompt(prompt: TaskPrompt, where: string, V: number, context: number) {
  const { ids, from, choices, needs = [], lost = from - 1 } = prompt;
  checkList(ids, 'count', `${where}.ids`);
  expectInteger(ids.length, 4, context, `${where}.ids.length`);
  ids.forEach((id, i) => expectInteger(id, 0, V - 1, `${where}.ids[${i}]`));
  expectInteger(from, 3, ids.length - 1, `${where}.from`);
  expectInteger(lost, 2, from - 1, `${where}.lost`);
  checkList(needs, 'count', `${where}.needs`);
  const hasControl = controlKeys(prompt).length > 0;
  expect(hasControl, `${where}.needs`, 'not every key that can be evicted', needs);
  if (!choices) return;
  checkList(choices, 'count', `${where}.choices`);
  choices.forEach((id, i) => expectInteger(id, 0, V - 1, `${where}.choices[${i}]`));
  expectInteger(from, ids.length - 1, ids.length - 1, `${where}.from`);
  const answer = ids[ids.length - 1];
  expect(choices.includes(answer), `${where}.choices`, `the answer ${answer} among them`, choices);
}

const drawIndex = (n: number, random: () => number) => Math.floor((random() * n) / 2 ** 32);

/** Draws different items of a list in random order (Fisher and Yates 1938, from the front). */
export function drawItems(list: readonly number[], n: number, random: () => number) {
  const copy = [...list];
  for (let i = 0; i < n; i++) {
    const j = i + drawIndex(copy.length - i, random);
    [copy[i], copy[j]] = [copy[j], copy[i]];
  }
  return copy.slice(0, n);
}

const mean = (values: readonly number[]) => values.reduce((a, b) => a + b, 0) / values.length;

export function meanWithError(values: readonly number[]): TaskMean {
  const n = values.length;
  const average = mean(values);
  const squares = values.reduce((sum, x) => sum + (x - average) ** 2, 0);
  return { mean: average, error: n > 1 ? Math.sqrt(squares / (n - 1) / n) : null };
}
