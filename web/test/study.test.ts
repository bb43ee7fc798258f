import { describe, expect, it } from 'vitest';
import type { Tokenizer } from 'sinkscope';
import { finding } from '../src/compare/finding';
import { promptsOf, readPrompts, sequencesOf, splittingOf } from '../src/study/corpus';
import { promptsCsv, studyJson, tableCsv, type StudyFacts } from '../src/study/files';
import { indexOfMost, isOfShares, type Column } from '../src/study/study';
import { deviation, metricsOf, sorted, tableMetrics } from '../src/study/table';
import { defaults, type State } from '../src/state';

describe('a file of prompts', () => {
  it('has a prompt a line, or blocks that blank lines separate', () => {
    expect(splittingOf('one\ntwo\n\nthree\n')).toBe('blocks');
    expect(splittingOf('one\ntwo\nthree\n')).toBe('lines');
    expect(splittingOf('one\n\ntwo\n\nthree')).toBe('lines');
    expect(promptsOf('\ufeffone\r\n \r\ntwo\r\n', 'lines')).toEqual(['one', 'two']);
    expect(promptsOf('a\nb\n \n\n\nc\n', 'blocks')).toEqual(['a\nb', 'c']);
  });

  it('is refused where it is no text, with what was expected', async () => {
    const file = (bytes: BlobPart) => new File([bytes], 'x.bin');
    await expect(readPrompts(file(new Uint8Array([0xff, 0xfe, 0xfd])))).rejects.toThrow(
      /x\.bin: expected UTF-8 text/,
    );
    await expect(readPrompts(file(' \n'))).rejects.toThrow(/expected prompts, found nothing/);
    const read = await readPrompts(file('abc'));
    expect(read).toMatchObject({
      splitting: 'lines',
      sha256: 'ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad',
    });
  });
});

/** One id a word; id 0 is BOS. */
const tokenizer = {
  size: 50,
  bos: 0,
  special: [0],
  specials: [{ id: 0, text: '<s>', kind: 'bos' }],
  encode: (text: string, { special = 'none' }: { special?: unknown } = {}) => [
    ...(special === 'none' ? [] : [{ id: 0, text: '<s>', special: true }]),
    ...text
      .split(' ')
      .filter(Boolean)
      .map((word) => ({ id: word.length, text: word, special: false })),
  ],
  piece: (id: number) => String(id),
} as unknown as Tokenizer;

describe('the sequences of a study', () => {
  const ask = (change: Partial<State>, texts: string[], n: number) =>
    sequencesOf(tokenizer, { ...defaults, T: 3, ...change }, texts, n);
  const texts = ['a bb ccc', 'short', 'dddd a'];

  it('are the beginnings of texts, BOS first', async () => {
    expect(await ask({}, texts, 9)).toEqual([
      [0, 1, 2],
      [0, 4, 1],
    ]);
    expect(await ask({ bos: false }, texts, 9)).toEqual([[1, 2, 3]]);
    expect(await ask({ corpus: 'file' }, texts, 1)).toHaveLength(1);
  });

  it('are pieces of the reader’s own text', async () => {
    expect(await ask({ corpus: 'text', prompt: 'a bb ccc dddd' }, [], 9)).toEqual([
      [0, 1, 2],
      [0, 3, 4],
    ]);
  });

  it('are drawn alike for the same seed', async () => {
    const drawn = await ask({ corpus: 'random' }, [], 3);
    expect(drawn).toHaveLength(3);
    expect(await ask({ corpus: 'random' }, [], 3)).toEqual(drawn);
    expect(await ask({ corpus: 'random', seed: 2 }, [], 2)).toEqual(drawn.slice(1));
    const [[bos, ...same]] = await ask({ corpus: 'repeat' }, [], 1);
    expect(bos).toBe(0);
    expect(new Set(same).size).toBe(1);
  });
});

/** One layer of two heads over two tokens, measured over two prompts. */
const column = {
  pick: { kind: 'edit', id: 'm', operation: 'sigmoid' },
  title: '=M + sigmoid',
  model: { id: 'm', title: 'M', source: 'zoo', sha256: 'abc' },
  class: 'counterfactual',
  architecture: { H: 2, G: 2, family: 'gpt2', parameters: 7, attention: { operation: 'softmax' } },
  operation: { name: 'sigmoid', label: 'sigmoid' },
  edits: [{ kind: 'operation', operation: 'sigmoid' }],
  tokens: [{ id: 4, text: 'x' }],
  T: 2,
  eps: 0.3,
  first: [],
  special: { automatic: [], bos: null, choices: [] },
  sequences: 2,
  perPrompt: {
    sink_1: [0.5, 1],
    sink_1_raw: [0, 0],
    sink_bias: [NaN, NaN],
    loss: [2, NaN],
    value_ratio: [1, 3],
    row_mass: [1, 1],
  },
  measurement: {
    metrics: {
      sink_ratio: { mean: [0.75, 0.25], deviation: [0.3, 0.1] },
      row_mass_summary: { mean: [1, 1, 1, 0.9, 0.2, 1], deviation: [] },
      alpha: { mean: [0.2, 0.1, 0.7, 0.1], deviation: [0.01, 0.02, 0.03, 0.04] },
      hidden_ratio: { mean: [9, 4], deviation: [0, 0.5] },
      key_ratio: { mean: [0.5, null], deviation: [0.1, null] },
      value_ratio: { mean: [0.4, 0.2], deviation: [0.1, 0.2] },
    },
  },
} as unknown as Column;

const cell = (name: string) => tableMetrics.find((one) => one.name === name)!.of(column);

describe('the sentence over the comparison', () => {
  const { metrics } = column.measurement;
  const rows = { mean: [1, 1, 1, 1, 1, 1], deviation: [] };
  const measurement = { metrics: { ...metrics, row_mass_summary: rows } };
  const own = { class: 'measured', measurement } as unknown as Column;
  const none = { ...column.perPrompt, sink_1: [0, 0] };
  const a = { ...column, ...own, title: 'A' };
  const b = { ...column, ...own, title: 'B', perPrompt: none };

  it('names who has most sink and who least, and says nothing of one alone', () => {
    expect(finding([a])).toBe('');
    expect(finding([b, a])).toBe(
      'Over 2 prompts, A has most sink: 75.0 % of its heads give token 1 more than 30 % of their ' +
        'attention; B has least, 0.0 %.',
    );
    expect(finding([b, a, { ...b, title: 'C' }])).toContain('2 of the others have least, 0.0 %');
    expect(finding([a, column])).toMatch(/see the row mass\.$/);
  });

  it('names the bias key that takes what no token does', () => {
    const biased = { ...b, perPrompt: { ...none, sink_bias: [0.75, 0.5] } };
    expect(finding([a, biased])).toMatch(
      / The bias key of B, which is no token, takes as much in 62\.5 % of its heads\.$/,
    );
  });
});

describe('the table', () => {
  it('has the mean and the spread over the prompts', () => {
    expect(cell('sink_1')).toEqual({ mean: 0.75, deviation: Math.sqrt(0.125) });
    expect(deviation([3])).toBeNaN();
    expect(cell('loss').mean).toBeNaN();
  });

  it('says where a largest or a least was found', () => {
    expect(cell('alpha_max')).toEqual({ mean: 0.7, deviation: 0.03, where: { layer: 1, head: 2 } });
    // The embedding has no layer.
    expect(cell('hidden_ratio')).toEqual({ mean: 4, deviation: 0.5, where: { layer: 1 } });
    expect(cell('value_ratio_min').where).toEqual({ layer: 1, head: 2 });
    expect(cell('key_ratio_min')).toMatchObject({ mean: 0.5, where: { layer: 1, head: 1 } });
  });

  it('has no column that none of the models fills', () => {
    expect(metricsOf([column]).map(({ name }) => name)).not.toContain('sink_bias');
    const perPrompt = { ...column.perPrompt, sink_bias: [0.5, 0.5] };
    const names = metricsOf([column, { ...column, perPrompt }]).map(({ name }) => name);
    expect(names).toEqual(tableMetrics.map(({ name }) => name));
  });

  it('finds the sink at another key', () => {
    expect(cell('sink_elsewhere')).toEqual({ mean: 0.25, deviation: 0.1, where: { key: 2 } });
  });

  it('calls shares what rows of another mass give', () => {
    expect(isOfShares(column)).toBe(true);
    const metrics = {
      ...column.measurement.metrics,
      row_mass_summary: { shape: [1, 2, 3], mean: [1, 1, 1, 1, 0.9999, 1], deviation: [] },
    };
    expect(isOfShares({ ...column, measurement: { ...column.measurement, metrics } })).toBe(false);
  });

  it('is sorted with what is undefined last, either way', () => {
    const rows = [2, NaN, 3, 1];
    expect(sorted(rows, (x) => x, false)).toEqual([1, 2, 3, NaN]);
    expect(sorted(rows, (x) => x, true)).toEqual([3, 2, 1, NaN]);
    expect(sorted(['b', 'a'], (x) => x, false)).toEqual(['a', 'b']);
    expect(indexOfMost([NaN, 1, NaN, 4, 2])).toBe(3);
  });
});

describe('the files of a study', () => {
  const facts: StudyFacts = {
    corpus: { kind: 'file', name: 'a\nb' },
    version: '0.1.0',
    link: 'https://page.example/#compare=m',
    reported: [{ title: 'M', sink_1: 0.5, where: 'table 4' }],
  };
  const linesOf = (csv: string) => csv.trimEnd().split('\n');

  it('have one number a line, and what is needed to measure it again', () => {
    const lines = linesOf(tableCsv([column], facts));
    const notes = lines.filter((line) => line.startsWith('#')).join('\n');
    for (const said of ['COUNTERFACTUAL', 'ε = 0.3 · T = 2', '"sha256":"abc"', '0.1.0', facts.link])
      expect(notes).toContain(said);
    const rows = lines.filter((line) => !line.startsWith('#'));
    expect(rows[0]).toBe('model,class,metric,mean,deviation,layer,head,key,sequences');
    expect(rows).toContain('m~sigmoid,COUNTERFACTUAL,alpha_max,0.7,0.03,1,2,,2');
    expect(rows).toContain('m~sigmoid,COUNTERFACTUAL,loss,,,,,,2');
    expect(rows).toHaveLength(1 + tableMetrics.length);
  });

  it('have each prompt', () => {
    const rows = linesOf(promptsCsv([column], facts)).filter((line) => !line.startsWith('#'));
    expect(rows).toEqual([
      'model,class,prompt,sink_1,sink_1_raw,sink_bias,loss,value_ratio,row_mass',
      'm~sigmoid,COUNTERFACTUAL,1,0.5,0,,2,1,1',
      'm~sigmoid,COUNTERFACTUAL,2,1,0,,,3,1',
    ]);
  });

  it('hold what others report apart from what was measured, and no date', () => {
    const text = studyJson([column], facts);
    const made = JSON.parse(text);
    expect(made.reported).toEqual(facts.reported);
    expect(made.models[0]).toMatchObject({ eps: 0.3, T: 2, sequences: 2, sha256: 'abc' });
    expect(made.models[0].table.loss).toEqual({ mean: null, deviation: null });
    expect(JSON.stringify(made.models)).not.toContain('table 4');
    expect(text).toBe(studyJson([column], facts));
  });
});
