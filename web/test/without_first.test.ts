/** Sentences about texts without their first token: from known numbers, and from runs of the zoo's model. */
import { readFileSync } from 'node:fs';
import { createEngine, openTokenizer } from 'sinkscope';
import { expect, it } from 'vitest';
import recorded from '../lessons/pictures/without_first.json';
import { markedWords, verdictOf } from '../src/rooms/without_first';
import { CONDITIONS, readRecorded, repeatedShare, runTrial } from '../src/run/without_first';
import { promptOf } from '../src/run/writing';
import { isBuilt, UNBUILT } from './fixture';

/**
 * Returns trials of eight seeds that differ a little; the values are for the kept, the deleted and the restored token.
 */
function createTrials(
  repeated: readonly [number, number, number],
  loss: readonly [number, number, number] = [2, 2, 2],
  late = repeated,
  scatter = 0.01,
) {
  return Array.from({ length: 8 }, (_, i) => {
    const scatterAround = (value: number, at: number) => value + scatter * ((i * (at + 3)) % 4);
    const measuresOf = (at: number) => ({
      repeated: scatterAround(repeated[at]!, at),
      loss: scatterAround(loss[at]!, at),
      late: scatterAround(late[at]!, at),
    });
    return {
      kept: measuresOf(0),
      deleted: measuresOf(1),
      restored: measuresOf(2),
      control: measuresOf(0),
    };
  });
}

it('the heading says what the numbers below it show, of random numbers too', () => {
  type Three = readonly [number, number, number];
  const headingOf = (repeated: Three, loss?: Three, scatter = 0) =>
    verdictOf(createTrials(repeated, loss, repeated, scatter), 64)!.heading;
  const known: readonly (readonly [Parameters<typeof headingOf>, string])[] = [
    [[[0.1, 0.8, 0.4]], 'repeats itself'],
    [
      [
        [0.1, 0.1, 0.1],
        [2, 3.4, 2],
      ],
      'writes far less likely text',
    ],
    [[[0.1, 0.3, 0.2]], 'repeats itself more'],
    [
      [
        [0.3, 0.1, 0.2],
        [2, 2.4, 2],
      ],
      'repeats itself less and writes less likely text',
    ],
    [
      [
        [0.1, 0.1, 0.1],
        [2.4, 2, 2],
      ],
      'writes likelier text',
    ],
    [[[0.125, 0.5, 0.25]], 'repeats itself'],
    [[[0.125, 0.46875, 0.25]], 'repeats itself more'],
    [
      [
        [0.125, 0.125, 0.125],
        [2, 2.9375, 2],
      ],
      'writes less likely text',
    ],
  ];
  for (const [parameters, words] of known)
    expect(headingOf(...parameters)).toBe(`Without the first token the model ${words}`);
  // A difference as large as the scatter of the seeds, or one that a reader would not call one, supports no claim.
  for (const parameters of [
    [[0.6, 0.6, 0.6]],
    [[0.1, 0.75, 0.2], [2, 2.7, 2], 0.4],
    [
      [0.125, 0.1328125, 0.125],
      [2, 2.046875, 2],
    ],
  ] as Parameters<typeof headingOf>[])
    expect(headingOf(...parameters)).toBe(
      'Hiding the first token changes little in how likely and how repetitive the written text is',
    );
  expect(verdictOf(createTrials([0.1, 0.8, 0.4]).slice(0, 3), 64)).toBeUndefined();
  let state = 7;
  const random = () => (state = (16807 * state) % 2147483647) / 2147483647;
  for (let i = 0; i < 500; i++) {
    const three = (size: number) => [0, 0, 0].map(() => size * random()) as never;
    const trials = createTrials(three(0.9), three(3), three(0.9), 0.02 * random());
    const meanOf = (name: 'kept' | 'deleted' | 'restored', measure: 'repeated' | 'loss' | 'late') =>
      trials.reduce((sum, trial) => sum + trial[name][measure], 0) / 8;
    const riseOf = (measure: 'repeated' | 'loss' | 'late') =>
      meanOf('deleted', measure) - meanOf('kept', measure);
    const { heading, text } = verdictOf(trials, 64)!;
    const claims: readonly (readonly [RegExp, boolean])[] = [
      [/repeats itself(?! less)/, riseOf('repeated') > 0.01],
      [/repeats itself less/, riseOf('repeated') < -0.01],
      [/less likely/, riseOf('loss') > 0.05],
      [/likelier/, riseOf('loss') < -0.05],
      [/changes little/, Math.abs(riseOf('loss')) < 0.2 && Math.abs(riseOf('repeated')) < 0.1],
    ];
    expect(/within the spread of the seeds/.test(text)).toBe(/changes little/.test(heading));
    for (const [words, isTrue] of claims)
      if (words.test(heading)) expect(isTrue, `${heading}: ${text}`).toBe(true);
    // Where nothing was lost nothing recovers.
    if (/recover/.test(text))
      expect(Math.min(riseOf('late'), riseOf('repeated')), text).toBeGreaterThan(0.01);
    if (/ recovers/.test(text))
      expect(meanOf('restored', 'late'), text).toBeLessThan(meanOf('deleted', 'late'));
  }
});

it('the verdict is “recovers” only if the second half repeats less than without the token', () => {
  const textOf = (late: readonly [number, number, number]) =>
    verdictOf(createTrials([0.1, 0.8, 0.4], [2, 2, 2], late), 64)!.text;
  expect(textOf([0.1, 0.9, 0.2])).toMatchSnapshot();
  expect(textOf([0.1, 0.9, 0.8])).toMatchSnapshot();
  expect(verdictOf(createTrials([0.1, 0.1, 0.1]), 64)!.text).not.toMatch(/recover/);
  expect(verdictOf(createTrials([0.1, 0.8, 0.4]), 63)!.text).toContain('Put back after 31 tokens');
  expect(CONDITIONS.restored.edits(3, 5)).toEqual([
    { kind: 'hide_key', key: 0, query: 3 },
    { kind: 'hide_key', key: 0, query: 4 },
  ]);
  expect(CONDITIONS.control.edits(3, 2)).toEqual([
    { kind: 'hide_key', key: 1, query: 3 },
    { kind: 'hide_key', key: 1, query: 4 },
  ]);
});

/** Returns a model that generates the given tokens, and records which runs are open. */
function writerOf(tokens: readonly number[]) {
  const openRuns = new Set<object>();
  const model = {
    run: async () => {
      const run = {
        async *generate() {
          for (const token of tokens) {
            if (token < 0) throw new Error('no more');
            yield { token };
          }
        },
        field: async () => {
          if (tokens.includes(99)) throw new Error('no loss');
          return { data: Float32Array.of(9, 9, 9, 1, 2, 3, 4, 5) };
        },
        close: async () => void openRuns.delete(run),
      };
      openRuns.add(run);
      return run;
    },
  };
  const writer = { model, tokenizer: { piece: String } } as unknown as Parameters<
    typeof runTrial
  >[0];
  return { writer, openRuns };
}

it('a trial measures the generated texts and their second halves, and closes all runs', async () => {
  const job = { prompt: [1, 2, 3], count: 5, seed: 1 };
  const { writer, openRuns } = writerOf([1, 2, 3, 9, 8]);
  const { kept } = await runTrial(writer, job);
  expect([kept.text, kept.loss, openRuns.size]).toEqual(['12398', 3, 0]);
  // The generated 1 2 3 repeats the prompt, and ends at the third of five tokens, the first of the second half.
  expect([kept.repeated, kept.late]).toEqual([1 / 5, 1 / 3]);
  for (const [badToken, message] of [
    [-1, 'no more'],
    [99, 'no loss'],
  ] as const) {
    const failingWriter = writerOf([1, badToken]);
    await expect(runTrial(failingWriter.writer, job)).rejects.toThrow(message);
    expect(failingWriter.openRuns.size).toBe(0);
  }
});

it('repeats are counted as tokens that end a sequence of three that occurred before', () => {
  expect(repeatedShare([1, 2, 3, 1, 2, 3, 1], 0)).toBeCloseTo(2 / 7);
  expect(repeatedShare([1, 2, 3, 1, 2, 3, 1], 5)).toBe(1);
  expect(repeatedShare([1, 1, 2, 2, 3, 3], 0)).toBe(0);
  expect(repeatedShare([5, 5, 5, 5], 2)).toBe(0.5);
});

it('the recorded text of the published model repeats itself and recovers in part', () => {
  const { texts, trials } = readRecorded(recorded);
  expect(trials).toHaveLength(8);
  const { heading, text } = verdictOf(trials, recorded.count)!;
  expect(heading).toBe('Without the first token the model repeats itself');
  expect(text).toMatchSnapshot();
  const { kept, deleted, restored, control } = texts;
  expect(new Set([kept, deleted, restored]).size).toBe(3);
  expect(control).toBe(kept);
  // The bars are the marked parts of the very texts.
  for (const [written, part] of [
    [kept, 0],
    [deleted, 0.86],
  ] as const) {
    const words = markedWords(written);
    expect(written.trim()).toBe(
      words
        .map(([word]) => word)
        .join('')
        .trim(),
    );
    expect(words.filter(([, isRepeated]) => isRepeated).length / words.length).toBeCloseTo(part, 2);
  }
  const first = markedWords(deleted).findIndex(([, isRepeated]) => isRepeated);
  expect(
    markedWords(deleted)
      .slice(first - 2, first + 1)
      .map(([word]) => word),
  ).toEqual(['Plants ', 'turn ', 'sunlight ']);
  expect(text).toMatchSnapshot();
});

it('the first key is hidden after the prompt, and in the restored text only for half of it', async ({
  skip,
}) => {
  skip(!isBuilt, UNBUILT);
  const urlOf = (path: string) => new URL(`../../${path}`, import.meta.url);
  const readModelFile = (name: string) => readFileSync(urlOf(`models/zoo/softmax/${name}`));
  const engine = await createEngine({ base: urlOf('.build/wasm/'), worker: false });
  const model = await engine.open({
    config: readModelFile('config.json'),
    weights: readModelFile('model.safetensors'),
  });
  const tokenizer = openTokenizer(
    `${readModelFile('tokenizer.json')}`,
    `${readModelFile('tokenizer_config.json')}`,
  );
  const writer = { model, tokenizer };
  const prompt = await promptOf(
    writer,
    'The old man sat at the door and looked over the water.',
    99,
  );
  const count = 12;
  const trial = await runTrial(writer, { prompt, count, seed: 2 });
  const { kept, deleted, restored } = trial;
  expect([kept, deleted, restored].map(({ tokens }) => tokens.length)).toEqual([12, 12, 12]);
  // The prompt's last query, which predicts this token, sees all keys.
  expect(deleted.tokens[0]).toBe(kept.tokens[0]);
  // A key that no query after the prompt sees has the same effect as a missing key.
  const firstHalf = restored.tokens.slice(0, count / 2 + 1);
  expect(firstHalf).toEqual(deleted.tokens.slice(0, count / 2 + 1));
  const run = await model.run([...prompt, ...deleted.tokens], {
    edits: Array.from({ length: count }, (_, i) => ({
      kind: 'hide_key',
      key: 0,
      query: prompt.length + i,
    })),
    fields: ['att', 'loss'],
  });
  const T = prompt.length + count;
  const att = (await run.field('att', { layer: 1, head: 3 })).data;
  const firstWeights = Array.from({ length: T }, (_, t) => att[t * T]!);
  expect(firstWeights.slice(0, prompt.length).every((weight) => weight > 0)).toBe(true);
  expect(firstWeights.slice(prompt.length).every((weight) => weight === 0)).toBe(true);
  // The loss that is stated is that of the model without edits.
  const lossOf = async (lossRun: typeof run) =>
    Array.from((await lossRun.field('loss')).data.subarray(prompt.length)).reduce(
      (a, b) => a + b,
      0,
    ) / count;
  expect(deleted.loss).not.toBeCloseTo(await lossOf(run), 3);
  const unhiddenRun = await model.run([...prompt, ...deleted.tokens], { fields: ['loss'] });
  expect(deleted.loss).toBeCloseTo(await lossOf(unhiddenRun), 5);
  await engine.close();
});
