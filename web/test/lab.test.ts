import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { createEngine, type Describe, type LogEntry, type Operation } from 'sinkscope';
import { fineTune, fromScratch } from '../src/lab/presets';
import { FINE_TUNE, FROM_SCRATCH } from '../src/lab/table';
import { letters, setUp } from '../src/lab/from_scratch';
import { logCsv } from '../src/lab/files';
import type { Lab } from '../src/lab/lab';
import type { Card } from '../src/ask/zoo';
import {
  commandOf,
  defaults,
  namesOf,
  printSettings,
  readSettings,
  recipeOf,
  tablesOf,
} from '../src/lab/settings';
import { caption, headSeen, sinceStep, verdict, type NamedLab } from '../src/lab/words';
import { isBuilt, UNBUILT } from './fixture';

const operations = [
  { name: 'softmax', label: 'softmax', trainable: true, features: 'none', normalises: true },
  { name: 'relu', label: 'ReLU / n', trainable: true, features: 'none', normalises: false },
  { name: 'mlp', label: 'MLP', trainable: true, features: 'mlp', normalises: false },
] as unknown as Operation[];
const cards = [
  { id: 'softmax', title: 'Softmax model' },
  { id: 'relu', title: 'ReLU' },
] as unknown as Card[];
const rows = tablesOf({ operations } as unknown as Describe, cards);

describe('a link to a lab', () => {
  it('says what is not as usual, and is read back', () => {
    const text = 'operation:relu,width:32,learning_rate:0.005,first:any';
    const { settings, problems } = readSettings(text, rows);
    expect(problems).toEqual([]);
    expect(printSettings(settings)).toBe(text);
    expect(printSettings(defaults)).toBe('');
    const { config, recipe } = setUp(settings).options;
    expect(config).toMatchObject({ n_embd: 32, n_inner: 128, n_positions: 32 });
    expect(recipe).toMatchObject({ first: -1, learning_rate: 0.005, steps: 500 });
    expect(commandOf(settings)).toBe(
      'sinkscope train --operation relu --width 32 --learning-rate 0.005 --first=-1 --inner 128 --json',
    );
  });

  it('is refused part by part, with what stood there', () => {
    const { settings, problems } = readSettings('operation:mlp,heads:3,batch:1e99,steps:2.5', rows);
    expect(settings).toEqual(defaults);
    expect(problems).toEqual([
      'operation: expected softmax, relu, found “mlp”',
      'heads: expected 1, 2, 4, 8, found “3”',
      'batch: expected a whole number from 1 to 256, found “1e+99”',
      'steps: expected a whole number from 1 to 20000, found “2.5”',
    ]);
  });

  it('of a trained model has a table of its own', () => {
    const text = 'from:softmax,operation:relu,first:any,at:1000';
    const { settings, problems } = readSettings(text, rows);
    expect(problems).toEqual([]);
    expect(settings).toMatchObject({ batch: 8, weight_decay: 1, steps: 100, text: 'passages' });
    expect(printSettings(settings)).toBe('from:softmax,operation:relu,at:1000,first:any');
    expect(commandOf(readSettings('from:softmax,operation:relu,first:any', rows).settings)).toBe(
      'sinkscope train --from models/zoo/softmax --operation relu --first=-1 --text-file models/zoo/heldout.json --text-file models/zoo/heldout-long.json --json',
    );
    expect(commandOf(settings)).toMatch(/--from models\/zoo\/softmax@1000 /);
    const absurd = readSettings('from:nothing,width:32,length:1e9', rows);
    expect(absurd.settings.from).toBe('softmax');
    expect(absurd.problems).toEqual([
      'model: expected softmax, relu, found “nothing”',
      'expected a lab setting, found “width”',
      'length: expected a whole number from 4 to 128, found “1000000000”',
    ]);
  });

  it('holds what is drawn, and how fast, without being another training', () => {
    const text = 'heads:2,head:2,speed:10';
    const { settings } = readSettings(text, rows);
    expect(printSettings(settings)).toBe(text);
    expect(recipeOf(settings)).toBe('heads:2');
    expect(commandOf(settings)).toBe('sinkscope train --heads 2 --json');
  });

  it('names each lab by what is not as in the other', () => {
    const [left, right] = ['', 'operation:relu,width:32'].map(
      (text) => readSettings(text, rows).settings,
    );
    expect(namesOf([left!, right!], rows)).toEqual(['softmax, width 64', 'ReLU / n, width 32']);
  });
});

/** A lab whose numbers are the same at every step but the first fifty. */
function trained(text: string, first: number, share: number): Lab {
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
    settings,
    log: Array.from({ length: 100 }, (_, i) => entry(i)) as unknown as LogEntry[],
    sample: Array.from({ length: T }, (_, t) => (t ? 40 : 0)),
    picture: { data, shape: [1, 1, T, T] },
    step: 100,
  } as unknown as Lab;
}
const named = (lab: Lab, name: string): NamedLab => ({
  lab,
  name,
  operation: operations.find((one) => one.name === lab.settings.operation),
});

describe('what a lab says', () => {
  it('tells who parked, since when, and what it cost', () => {
    const left = named(trained('', 0.6, 0.6), 'softmax');
    const right = named(trained('operation:relu', 0.01, 0.5), 'ReLU / n');
    expect(verdict([left, right])).toBe(
      'Softmax gives the first token 60% of its attention at positions without a trigger (above 30% since ' +
        'step 58); the first token’s value norm is 0.25× that of the others. ReLU / n gives the first token a ' +
        'weight of 0.01 (50% of its row). Loss above the best possible: 0.01 and 0.01 nats outside triggers, ' +
        '0.50 and 0.50 at triggers.',
    );
    expect(verdict([right, left])).toMatch(
      /^ReLU \/ n gives the first token a weight of 0.01 \(50% of its row\) at positions without a trigger\. Softmax gives the first token 60% of its attention \(above/,
    );
    const weak = named(trained('', 0.2, 0.2), 'softmax');
    const heavy = named(trained('operation:relu', 0.6, 0.5), 'ReLU / n');
    expect(verdict([weak, heavy])).toMatch(
      /^Softmax gives the first token 20% of its attention .* trigger \(uniform attention: 10%\)\. ReLU \/ n gives the first token a weight of 0.60 \(50% of its row\) \(above 0.30 since/,
    );
    expect(sinceStep(left.lab.log)).toBe(58);
    expect(headSeen(left.lab)!.share).toBeCloseTo(0.6, 6);
  });

  it('says no more than the numbers do of a short sequence', () => {
    const short = named(trained('length:8', 0.5, 0.5), 'softmax');
    expect(verdict([short, short])).toMatch(
      /^Short sequences \(8 tokens\): uniform attention alone gives the first token 25%\. /,
    );
  });
});

describe('the head whose map is shown', () => {
  // Two heads over five tokens, of which 1 and 8 are triggers; only column 0 and the diagonal have weight.
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

  it('is the one that gives its first token most where there is nothing to copy', () => {
    const seen = headSeen(labOf())!;
    expect([seen.layer, seen.head]).toEqual([0, 1]);
    expect(seen.weight).toBeCloseTo((0.5 + 0.3) / 2, 6);
    // Every row but the first has a sum of 2.
    expect(seen.share).toBeCloseTo((0.25 + 0.15) / 2, 6);
    expect([...seen.shares.subarray(15, 20)]).toEqual([0.25, 0, 0, 0.75, NaN]);
    expect([...seen.weights.subarray(15, 20)]).toEqual([0.5, 0, 0, 1.5, NaN]);
    expect(headSeen({ ...labOf(), picture: undefined } as unknown as Lab)).toBeUndefined();
  });

  it('is the one that is chosen, the last of those that there are', () => {
    expect(headSeen(labOf('head:0'))).toMatchObject({ layer: 0, head: 0 });
    expect(headSeen(labOf('head:1'))).toMatchObject({ layer: 0, head: 1 });
    expect(headSeen(labOf('head:9'))).toMatchObject({ layer: 0, head: 1 });
    expect(headSeen(labOf('head:1', [2, 1, 5, 5]))).toMatchObject({ layer: 1, head: 0 });
  });

  it('takes a row of nothing for nothing', () => {
    const none = labOf();
    const picture = { data: new Float32Array(50), shape: [1, 2, 5, 5] };
    expect(headSeen({ ...none, picture } as unknown as Lab)).toMatchObject({ head: 0, share: 0 });
  });

  it('is named where there are several', () => {
    const named = (lab: Lab): NamedLab => ({ lab, name: 'a', operation: operations[0] });
    expect(caption(named(labOf()))).toBe(
      'gives the first token 25% of its attention outside triggers; map: head L0H1',
    );
    expect(caption(named(labOf('', [2, 1, 5, 5])))).toMatch(/; map: head L1H0$/);
    expect(caption(named(labOf('', [1, 1, 5, 5])))).not.toContain('map');
    expect(caption(named({ ...labOf(), log: [] } as unknown as Lab))).toBe('untrained');
  });
});

describe('what a trained model says that goes on', () => {
  const fineTune = (text: string, name: string): NamedLab => {
    const { settings } = readSettings(text, rows);
    const log = [0, 1].map((step) => ({
      step,
      first_elsewhere: step ? 0.1 : 0.5,
      value_ratio: step ? 0.9 : 0.3,
      loss: 3 - step,
    }));
    const data = new Float32Array([1, NaN, 0.8, 0.2, 1, NaN, 0.3, 0.7]);
    const lab = { settings, log, sample: [0, 5], picture: { data, shape: [1, 2, 2, 2] }, step: 2 };
    return { ...named(lab as unknown as Lab, name), operation: operations[0] };
  };

  it('is what its first token was given then and now, and the head that is drawn', () => {
    const pair = [fineTune('from:softmax', 'a'), fineTune('from:relu,head:1', 'b')] as const;
    expect(verdict(pair)).toBe(
      'A: attention on the first token (uniform: 6%) 50% → 30%, its value norm relative to the others ' +
        '0.30 → 0.60, loss 3.00 → 2.50. B: attention on the first token (uniform: 6%) 50% → 30%, its value ' +
        'norm relative to the others 0.30 → 0.60, loss 3.00 → 2.50.',
    );
    for (const [i, loss] of [3.4, 3.9].entries())
      pair[1].lab.log[i] = { ...pair[1].lab.log[i]!, loss_held: loss };
    expect(verdict(pair)).toContain(
      'B: attention on the first token (uniform: 6%) 50% → 30%, its value norm relative to the others 0.30 → 0.60, ' +
        'loss on the new text 3.00 → 2.50, loss on the old kind of text 3.40 → 3.90.',
    );
    expect(caption(pair[0])).toBe('head L0H0 gives the first token 80% of its attention');
    const raw = { ...pair[1], operation: operations[1] };
    expect(caption(raw)).toBe('head L0H1 gives the first token a weight of 0.30 (30% of its row)');
  });
});

describe('files of a lab', () => {
  it('have a letter for each token, and a line for each step', () => {
    expect(new Set(letters(defaults)).size).toBe(64);
    expect(letters({ ...defaults, triggers: 20 })).toHaveLength(64);
    const { model, added_tokens: added } = JSON.parse(setUp(defaults).tokenizer);
    expect(model.vocab['①']).toBe(1);
    expect(added[0].content).toBe('<s>');
    const { log, settings } = trained('', 0.5, 0.5);
    const sheet = logCsv([{ name: 'a', settings, log }], ['step', 'loss_elsewhere'], {
      version: '1',
      link: '#',
    });
    expect(sheet.split('\n').filter((line) => line.startsWith('a,'))).toHaveLength(100);
    expect(sheet).toContain('\na,99,2.61\n');
  });
});

it('offers what the trainer takes, with its defaults, and presets of it', async ({ skip }) => {
  skip(!isBuilt, UNBUILT);
  const base = new URL('../../wasm/', import.meta.url);
  const engine = await createEngine({ base, worker: false, lab: true });
  const { describe: table } = engine;
  const { settings } = table.training!;
  await engine.close();
  const zoo = new URL('../../models/zoo/index.json', import.meta.url);
  const tables = tablesOf(table, JSON.parse(readFileSync(zoo, 'utf8')) as Card[]);
  for (const { title, left, right } of [...fromScratch, ...fineTune]) {
    const both = [left, right].map((text) => readSettings(text, tables));
    expect(
      both.flatMap(({ problems }) => problems),
      title,
    ).toEqual([]);
    expect(
      both.map(({ settings: own }) => printSettings(own)),
      title,
    ).toEqual([left, right]);
    expect(left, title).not.toBe(right);
  }
  const own = FROM_SCRATCH.filter(
    ({ isModel, isView, name }) => !isModel && !isView && name !== 'first',
  );
  for (const table of [FROM_SCRATCH, FINE_TUNE])
    for (const { name, words, low = 0, high = 0, whole = false } of table) {
      const row = settings.find((one) => one.name === name);
      // A view, a model, and what the page itself turns into a setting are no rows of the trainer.
      if (!row || name === 'first') continue;
      if (words)
        expect(row.words, name).toEqual(expect.arrayContaining(words.map(([word]) => word)));
      else {
        expect(row.whole, name).toBe(whole);
        expect(low >= row.min! && high <= row.max!, name).toBe(true);
      }
    }
  for (const { name, default: usual } of own)
    expect(settings.find((one) => one.name === name)?.default, name).toBe(usual);
  expect(own.length).toBeGreaterThan(8);
});
