import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { createEngine, type Describe, type LogEntry, type Operation } from 'sinkscope';
import { PRESETS } from '../src/lab/presets';
import { FINE_TUNE, FROM_SCRATCH } from '../src/lab/table';
import { tokenTexts, setUp } from '../src/lab/from_scratch';
import { logCsv } from '../src/lab/files';
import type { Lab } from '../src/lab/lab';
import type { Card } from '../src/ask/zoo';
import {
  commandOf,
  namesOf,
  printSettings,
  readSettings,
  recipeOf,
  refusalReason,
  tablesOf,
} from '../src/lab/settings';
import {
  captionWords,
  findingWords,
  guessWords,
  leadWords,
  questionWords,
  readingWords,
  remarkWords,
  rowMarks,
  rowNotes,
  ruleWords,
  shownHead,
  shortVerdictWords,
  titleWords,
  verdictWords,
  type NamedLab,
} from '../src/lab/words';
import { isBuilt, UNBUILT } from './fixture';

const operations = [
  { name: 'softmax', label: 'softmax', trainable: true, features: 'none', normalizes: true },
  { name: 'relu', label: 'ReLU / n', trainable: true, features: 'none', normalizes: false },
  { name: 'mlp', label: 'MLP', trainable: true, features: 'mlp', normalizes: false },
] as unknown as Operation[];
const cards = [
  { id: 'softmax', title: 'Softmax model' },
  { id: 'relu', title: 'ReLU' },
] as unknown as Card[];
/** The defaults of a trainer; steps, seed and optimizer differ from the real trainer's. */
const usualSettings = {
  ...{ steps: 700, seed: 5, batch: 32, length: 32, triggers: 8, first: 0, optimizer: 'sgd' },
  ...{
    learning_rate: 0.003,
    weight_decay: 0.01,
    first_value_gradient: 1,
    planted: 0,
    embedding_deviation: 1,
    deviation: 0.02,
  },
  task: 'backcopy',
};
const settings = Object.entries(usualSettings).map(([name, value]) => ({ name, default: value }));
const rows = tablesOf({ operations, training: { settings } } as unknown as Describe, cards);
const defaults = readSettings('', rows).settings;

describe('a link to a lab', () => {
  it('has the settings that differ from the defaults, and restores them', () => {
    const text = 'operation:relu,width:32,learning_rate:0.005,first:any';
    const { settings, problems } = readSettings(text, rows);
    expect(problems).toEqual([]);
    expect(printSettings(settings, rows)).toBe(text);
    expect(printSettings(defaults, rows)).toBe('');
    const { config, recipe } = setUp(settings).options;
    expect(config).toMatchObject({ n_embd: 32, n_inner: 128, n_positions: 32 });
    expect(recipe).toMatchObject({
      first: -1,
      learning_rate: 0.005,
      steps: 700,
      seed: 5,
      optimizer: 'sgd',
    });
    expect(commandOf(settings, rows)).toMatchSnapshot();
  });

  it('reports each invalid part with its text', () => {
    const { settings, problems } = readSettings('operation:mlp,heads:3,batch:1e99,steps:2.5', rows);
    expect(settings).toEqual(defaults);
    expect(problems).toMatchSnapshot();
  });

  it('of a trained model has other settings', () => {
    const text = 'from:softmax,operation:relu,first:any,at:1000';
    const { settings, problems } = readSettings(text, rows);
    expect(problems).toEqual([]);
    expect(settings).toMatchObject({ batch: 8, weight_decay: 1, steps: 100, text: 'passages' });
    expect(printSettings(settings, rows)).toBe('from:softmax,operation:relu,at:1000,first:any');
    expect(
      commandOf(readSettings('from:softmax,operation:relu,first:any', rows).settings, rows),
    ).toMatchSnapshot();
    expect(commandOf(settings, rows)).toMatch(/--from models\/zoo\/softmax@1000 /);
    const outOfRange = readSettings('from:nothing,width:32,length:1e9', rows);
    expect(outOfRange.settings.from).toBe('softmax');
    expect(outOfRange.problems).toMatchSnapshot();
  });

  it('contains the shown head and the speed, which do not restart training', () => {
    const text = 'heads:2,head:2,speed:10';
    const { settings } = readSettings(text, rows);
    expect(printSettings(settings, rows)).toBe(text);
    expect(recipeOf(settings)).toBe(
      recipeOf(readSettings('heads:2,speed:2,steps:9', rows).settings),
    );
    expect(recipeOf(settings)).not.toBe(recipeOf(defaults));
    expect(commandOf(settings, rows)).toBe('sinkscope train --heads 2 --json');
  });

  it('names each lab by the settings that differ', () => {
    const [left, right] = ['', 'operation:relu,width:32'].map(
      (text) => readSettings(text, rows).settings,
    );
    expect(namesOf([left!, right!], rows)).toEqual(['softmax, width 64', 'ReLU / n, width 32']);
  });
});

describe('the settings of a lab', () => {
  /** Describes each row: a number by its default and bounds, a choice by its values with the default marked. */
  const rowTexts = (table: typeof rows.fromScratch) =>
    table.map(({ name, default: usual, values, low, high, step, isWhole = false }) =>
      values
        ? `${name} ${values.map(([value]) => (value === usual ? `*${value}` : value)).join(' ')}`
        : `${name} ${usual} ${low}..${high}${step === 1 ? ' by 1' : ''}${isWhole ? ' whole' : ''}`,
    );

  it('for a new model have the names used in links and the defaults of the trainer', () => {
    expect(rowTexts(rows.fromScratch)).toMatchSnapshot();
  });

  it('for a trained model have defaults of their own', () => {
    expect(rowTexts(rows.fineTune)).toMatchSnapshot();
  });

  it('are flagged by whether they concern the model, both labs, or only the display', () => {
    const namesWith = (flag: 'isModel' | 'isShared' | 'isDisplayOnly' | 'hasOwnControl') =>
      [FROM_SCRATCH, FINE_TUNE].map((table) =>
        table
          .filter((row) => row[flag])
          .map(({ name }) => name)
          .join(' '),
      );
    expect(namesWith('isShared')).toEqual(['steps seed', 'text steps seed']);
    expect(namesWith('isDisplayOnly')).toEqual(['steps head speed', 'steps head speed']);
    expect(namesWith('hasOwnControl')).toEqual(['head speed', 'text head speed']);
    expect(namesWith('isModel')).toMatchSnapshot();
  });

  it('are accepted at their bounds, and not beyond', () => {
    const problems = (text: string) => readSettings(text, rows).problems.length;
    expect(['batch:1', 'batch:256', 'learning_rate:0', 'seed:1000000000'].map(problems)).toEqual([
      0, 0, 0, 0,
    ]);
    expect(
      ['batch:0', 'batch:257', 'learning_rate:-1', 'batch:', 'batch:x', 'x:1'].map(problems),
    ).toEqual([1, 1, 1, 1, 1, 1]);
    expect(readSettings('learning_rate:x', rows).problems).toMatchSnapshot();
  });

  it('make a model and a recipe', () => {
    const { options, piece, firstText } = setUp(readSettings('width:32,length:64', rows).settings);
    expect(options.config).toMatchObject({
      n_embd: 32,
      n_inner: 128,
      n_positions: 64,
      vocab_size: 64,
    });
    expect(options.recipe).toMatchObject({ first: 0, length: 64, steps: 700 });
    expect(options.recipe).not.toHaveProperty('head');
    expect([piece(0), piece(1), piece(99), firstText]).toEqual(['<s>', '①', '', '<s>']);
    expect(setUp(readSettings('first:any', rows).settings)).not.toHaveProperty('firstText');
    const command = (text: string) => commandOf(readSettings(text, rows).settings, rows);
    expect(command('length:64')).toMatchSnapshot();
    expect(command('steps:7,seed:2')).toMatchSnapshot();
    expect(command('from:relu,text:own,first:fixed,at:3999')).toMatchSnapshot();
    const labs = ['from:softmax,batch:4', 'from:softmax,seed:2'].map(
      (text) => readSettings(text, rows).settings,
    );
    expect(namesOf([labs[0]!, labs[1]!], rows)).toEqual([
      'Softmax model, batch 4, seed 5',
      'Softmax model, batch 8, seed 2',
    ]);
  });
});

/** Returns a lab with a log of 100 steps, which is constant from step 50 on. */
function sampleLab(text: string, first: number, share: number): Lab {
  const { settings } = readSettings(text, rows);
  const T = Number(settings.length);
  const entry = (step: number) => ({
    step,
    first_most: step < 50 ? 0.1 : first,
    value_ratio: 0.25,
    loss_elsewhere: 2.61,
    optimum_elsewhere: 2.6,
    loss_triggers: 0.5,
    optimum_triggers: 0,
  });
  const data = new Float32Array(T * T);
  for (let t = 0; t < T; t++)
    for (let s = 0; s <= t; s++) data[t * T + s] = s ? (1 - share) / t : t ? share : 1;
  return {
    settings: { ...settings, steps: 100 },
    log: Array.from({ length: 100 }, (_, i) => entry(i)) as unknown as LogEntry[],
    sample: Array.from({ length: T }, (_, t) => (t ? 40 : 0)),
    picture: { data, shape: [1, 1, T, T] },
    step: 100,
  } as unknown as Lab;
}
const readLab = (text: string) =>
  ({ settings: readSettings(text, rows).settings }) as unknown as Lab;
const withName = (lab: Lab, name: string): NamedLab => ({
  lab,
  name,
  operation: operations.find((operation) => operation.name === lab.settings.operation),
  command: '',
});

describe('sentences of a lab', () => {
  it('say briefly which model has a sink, with numbers once both are paused', () => {
    const softmax = withName(sampleLab('', 0.6, 0.6), 'softmax');
    const weakLab = withName(sampleLab('', 0.2, 0.2), 'softmax');
    const sigmoid = withName(sampleLab('operation:relu', 0.01, 0.5), 'sigmoid');
    const sinkLab = withName(sampleLab('operation:relu', 0.6, 0.5), 'sigmoid');
    const runs = { leftRun: '', rightRun: 'operation:sigmoid' };
    expect(shortVerdictWords([softmax, sigmoid], runs)).toMatchSnapshot();
    // The questions have answers, by which model has a sink.
    for (const preset of PRESETS.filter(({ answers }) => answers))
      for (const left of [softmax, weakLab])
        for (const right of [sinkLab, sigmoid])
          expect(shortVerdictWords([left, right], preset)).toMatchSnapshot();
    expect(shortVerdictWords([sigmoid, softmax], runs)).toMatchSnapshot();
    expect(shortVerdictWords([softmax, weakLab], runs)).toMatchSnapshot();
    expect(shortVerdictWords([weakLab, sinkLab], runs)).toMatchSnapshot();
    expect(shortVerdictWords([softmax, sinkLab], runs)).toMatch(
      /^Both models have a sink\. Both models have partly learned to copy: /,
    );
    const running = { ...softmax, lab: { ...softmax.lab, isRunning: true } as unknown as Lab };
    expect(shortVerdictWords([running, sinkLab], runs)).toBe('Both models have a sink.');
    expect(shortVerdictWords([weakLab, sigmoid], runs)).toMatchSnapshot();
    const named = [softmax, sigmoid].map((one, i) => ({ ...one, name: i ? 'key' : 'no key' }));
    expect(shortVerdictWords([named[0]!, named[1]!], runs)).toMatch(
      /^The model with no key has a sink; the model with key has none\./,
    );
    expect(verdictWords([named[0]!, named[1]!])).toContain('The model with no key gives the first');
    // A pair that trains on keeps its answer, also while it trains.
    const preset = PRESETS[0]!;
    const answer = preset.answers!.left!;
    const longer = {
      leftRun: preset.leftRun.replace('steps:400', 'steps:900'),
      rightRun: preset.rightRun.replace('steps:400', 'steps:900'),
    };
    expect(longer).not.toEqual({ leftRun: preset.leftRun, rightRun: preset.rightRun });
    const finding = `Softmax has a sink; sigmoid has none. ${answer}`;
    const spending = (share: number) => {
      const picture = { ...sigmoid.lab.picture!, data: sigmoid.lab.picture!.data.slice() };
      picture.data.forEach((weight, i) => (picture.data[i] = weight * share));
      return { ...sigmoid, lab: { ...sigmoid.lab, picture } as unknown as Lab };
    };
    expect(shortVerdictWords([softmax, sigmoid], longer).startsWith(finding)).toBe(true);
    // In the room the title says who has a sink, and the lead why.
    const reasonOf = (share: number) => leadWords([softmax, spending(share)], longer);
    expect(reasonOf(1)).toBe(`${answer} Sigmoid may spend less.`);
    expect(reasonOf(0.06)).toBe(`${answer} Sigmoid may spend less.`);
    expect(reasonOf(0.03)).toBe(`${answer} Sigmoid may spend nothing, and does (3%).`);
    expect(leadWords([softmax, sigmoid], runs)).toBe('Two models with the same task and seed.');
    const trainsOn = (length: number) =>
      [softmax, sigmoid].map((one) => {
        const log = Array.from({ length }, () => one.lab.log.at(-1)!);
        const settings = { ...one.lab.settings, steps: 900 };
        return { ...one, lab: { ...one.lab, settings, isRunning: true, log } as unknown as Lab };
      }) as [NamedLab, NamedLab];
    expect(shortVerdictWords(trainsOn(400), longer)).toBe(`${finding} Sigmoid may spend less.`);
    expect(leadWords(trainsOn(400), longer)).toBe(`${finding} Sigmoid may spend less.`);
    expect(shortVerdictWords(trainsOn(399), longer)).toBe(
      'So far softmax has a sink; sigmoid has none.',
    );
    const untrainedLab = { ...softmax, lab: { ...softmax.lab, log: [] } as unknown as Lab };
    expect(shortVerdictWords([untrainedLab, sigmoid], runs)).toBe('');
  });

  it('compare no two steps, and ask about the start token where both texts have one', () => {
    const softmax = withName(sampleLab('', 0.6, 0.6), 'softmax');
    const ahead = { ...softmax.lab, log: [...softmax.lab.log, softmax.lab.log[0]!] };
    const runs = { leftRun: '', rightRun: '' };
    expect(shortVerdictWords([softmax, { ...softmax, lab: ahead as unknown as Lab }], runs)).toBe(
      '',
    );
    const questionOf = (left: string, right: string) =>
      questionWords([withName(readLab(left), 'a'), withName(readLab(right), 'b')]);
    expect(questionOf('', 'operation:relu')).toMatchSnapshot();
    expect(questionOf('', 'first:any')).toMatchSnapshot();
    expect(questionOf('from:relu', 'from:relu,operation:softmax')).toMatchSnapshot();
    const halfway = (namedLab: NamedLab) => {
      const lab = { ...namedLab.lab, log: namedLab.lab.log.slice(0, 60) } as unknown as Lab;
      return { ...namedLab, lab };
    };
    const paused = [halfway(softmax), halfway(softmax)] as const;
    for (const pair of [paused, [softmax, softmax] as const])
      for (const guess of ['both', undefined] as const)
        expect([titleWords(pair), ...guessWords(pair, guess)]).toMatchSnapshot();
    // Before its last step a pair has no verdict.
    expect(shortVerdictWords(paused, runs)).toMatch(/^So far both models have a sink\./);
    expect(verdictWords(paused)).toMatch(/^So far both models have a sink\./);
    const running = { ...softmax, lab: { ...softmax.lab, isRunning: true } as unknown as Lab };
    expect(titleWords([running, softmax])).toMatch(/^Where do models look/);
  });

  it('explain two rows of the map, which has a mark at each', () => {
    const sample = [0, 40, 3, 40, 41];
    const labOf = (text: string, first: number) => {
      const lab = sampleLab(text, first, first);
      return { ...lab, sample, words: sample.map((id) => `w${id}`) } as unknown as Lab;
    };
    const notesOf = (text = '') => rowNotes(withName(labOf(text, 0.2), 'softmax'));
    expect(notesOf()).toMatchSnapshot();
    expect(rowMarks(withName(labOf('', 0.2), 'softmax'))).toEqual([
      [2, '◀ copy: repeat w40'],
      [3, '◀ w40: nothing to copy'],
    ]);
    const captionOf = (first: number) => captionWords(withName(labOf('', first), 'softmax'));
    expect(captionOf(0.6)).toBe(
      '60% on the first token, in this text; tokens with nothing to copy spend 100% in total',
    );
    // Random models that copy have nothing to compare.
    const untrained = { ...labOf('', 0.4), log: [], current: { first_most: 0.32 } };
    expect(captionWords(withName(untrained as unknown as Lab, 'softmax'))).toBe(
      'each token must spend 100%',
    );
    const setup = { firstText: 'w0' };
    expect(captionWords(withName({ ...labOf('', 0.6), setup } as unknown as Lab, 'a'))).toMatch(
      /^60% on <s>, /,
    );
    // The other task has no next token.
    expect(notesOf('task:conditional')).toEqual([]);
    const ruleOf = (lab: Lab) => ruleWords(lab)[0];
    expect(ruleOf(labOf('', 0.2))).toBe('“copy” repeats the token before it: w40 copy → w40.');
    const noTrigger = { ...labOf('', 0.2), sample: [0, 40, 41, 40, 41] } as unknown as Lab;
    expect(ruleOf(noTrigger)).toBe('“copy” repeats the token before it.');
    expect(ruleOf(labOf('task:conditional', 0.2))).toMatch(/^The task: at “mean”/);
    expect(ruleWords(readLab('from:softmax'))).toEqual([
      'The task: guess the next token of the text.',
    ]);
  });

  it('say on the map where attention gathers', () => {
    /** A map of which each row gives the first, the second and its own token the same weights. */
    const labWith = (
      weights: readonly number[],
      { extra, text = '', steps = 100 }: { extra?: number; text?: string; steps?: number } = {},
    ) => {
      const lab = sampleLab(text, weights[0]!, weights[0]!);
      const T = 6;
      const data = new Float32Array(T * T);
      for (let t = 0; t < T; t++) weights.forEach((w, s) => (data[t * T + (s === 2 ? t : s)] = w));
      const extraKey = extra === undefined ? undefined : new Float32Array(T).fill(extra);
      const more = { log: lab.log.slice(0, steps), words: ['s', 'a', 'b', 'c', 'd', 'e'] };
      const sample = [0, 40, 40, 40, 40, 40];
      const picture = { data, shape: [1, 1, T, T], extraKey };
      return withName({ ...lab, ...more, sample, picture } as unknown as Lab, 'a');
    };
    const remarkOf = (...from: Parameters<typeof labWith>) => remarkWords(labWith(...from));
    expect(remarkOf([0.6, 0.1, 0.3])).toMatchSnapshot();
    expect(remarkOf([0.2, 0.1, 0.7])).toMatchSnapshot();
    expect(remarkOf([0.1, 0.6, 0.3])).toMatchSnapshot();
    expect(remarkOf([0.1, 0.1, 0.1], { extra: 0.7 })).toMatchSnapshot();
    expect(remarkOf([0.1, 0.1, 0.1], { steps: 0 })).toMatchSnapshot();
    // A map on the other side of the threshold than the curve says so, and shows no remark.
    const odd = labWith([0.4, 0.1, 0.5]);
    const log = odd.lab.log.map((entry) => ({ ...entry, first_most: 0.29 }));
    const withLog = (more = {}) => ({
      ...odd,
      lab: { ...odd.lab, log, ...more } as unknown as Lab,
    });
    expect([captionWords(withLog()), remarkWords(withLog())]).toMatchSnapshot();
    expect(captionWords(withLog({ isRunning: true }))).not.toContain('batches');
    // A head that the reader chose may have no sink in a model with one.
    const chosen = labWith([0.1, 0.2, 0.7], { text: 'head:0' });
    const sinkLog = chosen.lab.log.map((entry) => ({ ...entry, first_most: 0.6 }));
    const chosenLab = { ...chosen.lab, log: sinkLog } as unknown as Lab;
    expect(remarkWords({ ...chosen, lab: chosenLab })!.text).toBe(
      '◀ column of the first token: no sink in this map',
    );
    // A model without a sink at the first token may have one at another.
    const [strong, other] = [labWith([0.6, 0.1, 0.3]), labWith([0.1, 0.6, 0.3])];
    expect(findingWords([strong, other], { leftRun: '', rightRun: 'seed:2' })).toMatchSnapshot();
  });

  it('say above the maps that untrained rows look everywhere, if they do', () => {
    const labOf = (first: number, steps = 0) => {
      const lab = sampleLab('', first, first);
      const T = 4;
      const data = new Float32Array(T * T);
      for (let t = 0; t < T; t++)
        for (let s = 0; s <= t; s++) data[t * T + s] = (s || !t ? 1 : first) / (t + first);
      const picture = { data, shape: [1, 1, T, T] };
      return withName({ ...lab, picture, log: lab.log.slice(0, steps) } as unknown as Lab, 'a');
    };
    const everywhere = 'Each row: where one token looks; untrained, everywhere';
    expect(readingWords([labOf(1), labOf(1.4)])).toBe(everywhere);
    expect(readingWords([labOf(1), labOf(0.3)])).not.toBe(everywhere);
    expect(readingWords([labOf(1), labOf(1, 3)])).toBe('Each row: where one token looks');
  });

  it('say beside a wrong guess what the model has to spend', () => {
    const pair = [
      withName(sampleLab('', 0.6, 0.6), 'softmax'),
      withName(sampleLab('operation:relu', 0.01, 0.5), 'sigmoid'),
    ] as const;
    expect(guessWords(pair, 'left')[1]).toMatch(/^Both models/);
    expect(guessWords(pair, 'both')[1]).toMatch(/^Sigmoid need not spend 100%\. Both/);
    expect(guessWords(pair, 'right')[1]).toMatch(/^Softmax must spend 100%\. Both/);
    expect(guessWords(pair, 'neither')[1]).toMatch(/^Softmax must spend 100%\. Both/);
  });

  it('say which models learn to copy', () => {
    const withChance = (chance: number) => {
      const { lab } = withName(sampleLab('', 0.6, 0.6), '');
      const log = lab.log.map((entry) => ({ ...entry, loss_triggers: -Math.log(chance) }));
      return { ...lab, log } as unknown as Lab;
    };
    const saidOf = (left: number, right: number) =>
      guessWords([withName(withChance(left), 'a'), withName(withChance(right), 'b')], undefined)[1];
    for (const [left, right] of [
      [0.5, 0.6],
      [0.81, 0.9],
      [0.5, 0.1],
      [0.1, 0.2],
      [0.1, 0.02],
    ] as const)
      expect(saidOf(left, right)).toMatchSnapshot();
  });

  it('state the cost of a pair if it is known', () => {
    const left = withName(sampleLab('', 0.6, 0.6), 'softmax');
    const log = left.lab.log.map(({ optimum_triggers: _, ...entry }) => entry);
    const withoutOptimum = { ...left, lab: { ...left.lab, log } as unknown as Lab };
    expect(verdictWords([left, withoutOptimum])).toMatch(
      /0\.01 and 0\.01 nats with nothing to copy, 0\.50 and – at “copy”\.$/,
    );
    expect(verdictWords([left, { ...left, lab: { ...left.lab, log: [] } as unknown as Lab }])).toBe(
      '',
    );
    // If rows need not sum to 1, the share of the row counts as well as the weight.
    const faintLab = withName(sampleLab('operation:relu', 0.6, 0.25), 'ReLU / n');
    expect(verdictWords([faintLab, left])).toMatch(
      /^Softmax has a sink; ReLU \/ n has none\. ReLU \/ n gives the first token a weight of 60% with nothing to copy, over the last batches\. Softmax/,
    );
    expect(
      remarkWords({
        ...faintLab,
        lab: { ...faintLab.lab, words: Array(32).fill('a') } as unknown as Lab,
      })!.text,
    ).toBe('the first token gets only 25% of its row');
    const [shortLab, longLab] = ['length:9', 'length:21'].map((text) =>
      withName(sampleLab(text, 0.5, 0.5), 'softmax'),
    );
    expect(verdictWords([longLab!, longLab!])).toMatch(/^Both models have a sink\. Softmax gives/);
    expect(verdictWords([longLab!, shortLab!])).toMatch(
      /^Short sequences \(9 tokens\): an even share alone gives the first token 23%\./,
    );
  });
});

describe('the head whose map is shown', () => {
  // Two heads over five tokens, with triggers 1 and 8; only column 0 and the diagonal have weight.
  const column = [
    [1, 0.9, 0.8, 0.2, 0.4],
    [1, 0, 0, 0.5, 0.3],
  ];
  const data = new Float32Array(50);
  column.forEach((weights, h) =>
    weights.forEach((weight, t) => {
      data[h * 25 + t * 6] = 2 - weight;
      data[h * 25 + t * 5] = weight;
    }),
  );
  const labOf = (text = '', shape = [1, 2, 5, 5]) => {
    const { settings } = readSettings(text, rows);
    const log = [{ step: 0, first_most: 0.25 }];
    return { settings, log, sample: [0, 1, 8, 9, 40], picture: { data, shape } } as unknown as Lab;
  };

  it('is the selected one, or the last of the model', () => {
    expect(shownHead(labOf('head:0'))).toMatchObject({ layer: 0, head: 0 });
    expect(shownHead(labOf('head:1'))).toMatchObject({ layer: 0, head: 1 });
    expect(shownHead(labOf('head:9'))).toMatchObject({ layer: 0, head: 1 });
    expect(shownHead(labOf('head:1', [2, 1, 5, 5]))).toMatchObject({ layer: 1, head: 0 });
  });

  it('has rows of zeros if its map is all zero', () => {
    const emptyLab = labOf();
    const picture = { data: new Float32Array(50), shape: [1, 2, 5, 5] };
    expect(shownHead({ ...emptyLab, picture } as unknown as Lab)).toMatchObject({
      head: 0,
      share: 0,
    });
  });

  it('is named if there are several', () => {
    const namedLab = (lab: Lab): NamedLab => ({
      lab,
      name: 'a',
      operation: operations[0],
      command: '',
    });
    expect(captionWords(namedLab(labOf()))).toMatchSnapshot();
    expect(captionWords(namedLab(labOf('', [2, 1, 5, 5])))).toMatch(/; strongest head L1H0/);
    expect(captionWords(namedLab(labOf('', [1, 1, 5, 5])))).not.toContain('head');
    const withoutMap = { ...labOf(), picture: undefined } as unknown as Lab;
    expect(captionWords(namedLab(withoutMap))).toBe('');
  });
});

describe('the sentence about a fine-tuned model', () => {
  const fineTune = (text: string, name: string): NamedLab => {
    const { settings } = readSettings(text, rows);
    const [before, between, current] = [0, 1, 2].map((step) => ({
      step,
      first_elsewhere: 0.5 - 0.1 * step,
      first_most: 0.9 - 0.1 * step,
      value_ratio: 0.3 + 0.15 * step,
      loss: 3 - 0.25 * step,
    }));
    const log = [before, between];
    const data = new Float32Array([1, NaN, 0.8, 0.2, 1, NaN, 0.3, 0.7]);
    const lab = {
      settings,
      log,
      sample: [0, 5],
      picture: { data, shape: [1, 2, 2, 2] },
      step: 2,
      current,
    };
    return { ...withName(lab as unknown as Lab, name), operation: operations[0] };
  };

  it('compares the first step with the weights after the last, and names the head', () => {
    const pair = [fineTune('from:softmax', 'a'), fineTune('from:relu,head:1', 'b')] as const;
    expect(verdictWords(pair)).toMatchSnapshot();
    // Only every tenth step of the log has a loss on held-out text.
    Object.assign(pair[1].lab.log[0]!, { loss_held: 3.4 });
    Object.assign(pair[1].lab.current!, { loss_held: 3.9 });
    expect(verdictWords(pair)).toMatchSnapshot();
    const plantedLab = fineTune('from:softmax,planted:0.2', 'c');
    for (const [i, entry] of [plantedLab.lab.log[0]!, plantedLab.lab.current!].entries())
      Object.assign(entry, { loss_triggers: 11 - 10 * i, first_triggers: 0.5 - 0.25 * i });
    expect(verdictWords([pair[0], plantedLab])).toMatch(
      /^A: .* loss 3\.00 → 2\.50\. C: .* loss 3\.00 → 2\.50; after the planted trigger: loss 11\.00 → 1\.00, attention on the first token, all heads, 50% → 25%\.$/,
    );
    // A diverged training has no measures of its last weights but those of its log.
    const divergedLab = { ...pair[1].lab, current: undefined } as unknown as Lab;
    expect(verdictWords([pair[0], { ...pair[1], lab: divergedLab }])).toMatch(
      /loss on the new text 3\.00 → 2\.75, loss on the old kind of text 3\.40 → –\.$/,
    );
    expect(captionWords(pair[0])).toMatchSnapshot();
    const rawLab = { ...pair[1], operation: operations[1] };
    expect(captionWords(rawLab)).toMatchSnapshot();
  });
});

describe('files of a lab', () => {
  it('have a letter for each token, and a line for each step', () => {
    expect(new Set(tokenTexts(defaults)).size).toBe(64);
    expect(tokenTexts({ ...defaults, triggers: 20 })).toHaveLength(64);
    const { model, added_tokens: added } = JSON.parse(setUp(defaults).tokenizer);
    expect(model.vocab['①']).toBe(1);
    expect(added[0].content).toBe('<s>');
    const { log, settings } = sampleLab('', 0.5, 0.5);
    const sheet = logCsv(
      [{ name: 'a', settings, log, command: 'sinkscope train' }],
      ['step', 'loss_elsewhere'],
      {
        version: '1',
        link: '#',
      },
    );
    expect(sheet.split('\n').filter((line) => line.startsWith('a,'))).toHaveLength(100);
    expect(sheet).toContain('\na,99,2.61\n');
  });
});

it('the page has the settings of the trainer, with its defaults and presets', async ({ skip }) => {
  skip(!isBuilt, UNBUILT);
  const base = new URL('../../wasm/', import.meta.url);
  const engine = await createEngine({ base, worker: false, lab: true });
  const { describe: table } = engine;
  const { settings } = table.training!;
  await engine.close();
  const zoo = new URL('../../models/zoo/index.json', import.meta.url);
  const tables = tablesOf(table, JSON.parse(readFileSync(zoo, 'utf8')) as Card[]);
  for (const { title, leftRun: left, rightRun: right } of PRESETS) {
    const pairSettings = [left, right].map((text) => readSettings(text, tables));
    expect(
      pairSettings.flatMap(({ problems }) => problems),
      title,
    ).toEqual([]);
    expect(
      pairSettings.map(({ settings: problemSettings }) => printSettings(problemSettings, tables)),
      title,
    ).toEqual([left, right]);
    expect(left, title).not.toBe(right);
  }
  for (const table of [FROM_SCRATCH, FINE_TUNE])
    for (const { name, choices, low = 0, high = 0, isWhole = false } of table) {
      const row = settings.find((setting) => setting.name === name);
      // The trainer has no rows for views, for models, and for keys that the page converts to settings.
      if (!row || name === 'first') continue;
      if (choices)
        expect(row.words, name).toEqual(expect.arrayContaining(choices.map(([value]) => value)));
      else {
        expect(row.whole, name).toBe(isWhole);
        expect(low >= row.min! && high <= row.max!, name).toBe(true);
      }
    }
  for (const row of [...tables.fromScratch, ...tables.fineTune])
    if (row.name !== 'from') expect(refusalReason(row, row.default)).toBeUndefined();
});
