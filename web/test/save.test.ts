import { parse } from 'csv-parse/sync';
import { describe, expect, it } from 'vitest';
import type { Metric } from 'sinkscope';
import { csvField } from 'sinkscope/internal';
import {
  promptsCsv,
  sortRows,
  tableCsv,
  tableJson,
  tableOf,
  metricsOf,
} from '../src/rooms/metrics';
import { fileName } from '../src/save/menu';
import type { Facts, Quantity } from '../src/save/numbers';
import { placesOf, toCsv, toJson } from '../src/save/number_files';
import { deviation, type Frame } from '../src/frame';
import { frameOf, tensor } from './fixture';

const facts: Facts = {
  corpus: { kind: 'text', text: 'a, "b"\n=c' },
  version: '0.1.0',
  link: 'https://page.example/#shown=softmax',
};
const hostile = frameOf({
  subject: 'hub:=a/b',
  title: '=HYPERLINK("x"), or\nso',
  class: 'counterfactual',
  first: ['+<s>'],
});
const weightQuantity: Quantity = {
  name: 'weight',
  axes: ['query', 'key'],
  shape: [2, 2],
  data: [1, NaN, -0.25, 0.75],
};
const tokenProbabilities: Quantity = {
  name: 'p',
  axes: ['rank'],
  shape: [2],
  data: [0.5, 0.25],
  labels: ['=A', 'b,"\n'],
};
const normQuantity: Quantity = {
  name: 'norm',
  axes: ['layer'],
  shape: [2],
  data: [3, 4],
  from: [-1],
};
const lossQuantity: Quantity = {
  name: 'loss',
  axes: ['step'],
  shape: [2],
  data: [7, 3],
  places: [0, 4000],
};

const read = (text: string): string[][] => parse(text);
const dataRows = (text: string) => {
  const rows = read(text);
  return rows.slice(rows.findIndex(([first]) => !first!.startsWith('# ')));
};

describe('a file of numbers', () => {
  it('is parsed strictly: records have equal length, and every field is unchanged', () => {
    const text = toCsv(
      [{ frame: hostile, quantities: [weightQuantity, tokenProbabilities] }],
      facts,
    );
    const rows = read(text);
    expect(new Set(rows.map((record) => record.length)).size).toBe(1);
    const notes = Object.fromEntries(rows.map(([name, value]) => [name, value]));
    expect(JSON.parse(notes['# corpus']!)).toEqual(facts.corpus);
    expect(notes['# link']).toBe(facts.link);
    expect(JSON.parse(notes['# subject']!)).toMatchObject({
      subject: 'hub:=a/b',
      title: hostile.title,
      class: 'COUNTERFACTUAL',
      verdict: { sink_1: 0.5, of: 'weights', conclusive: true, least_tokens: 10 },
      tokens_of_first_prompt: [{ id: 0 }, { id: 5 }, { id: 6, text: '=1,"x"\n' }],
    });
    expect(parse(text, { comment: '#' })).toHaveLength(1 + 3 + 2);
  });

  it('has facts that are comments before quotes are removed, and no other comment', () => {
    const subject = 'hub:a "quoted", #name';
    const frame = { ...hostile, subject };
    const lines = toCsv([{ frame, quantities: [weightQuantity] }], facts)
      .trimEnd()
      .split('\n');
    const head = lines.findIndex((line) => !line.startsWith('# '));
    expect(head).toBeGreaterThan(4);
    expect(lines[head]).toMatch(/^subject,quantity,/);
    // Parsers that skip comments cut a record at a # outside quotes, too.
    for (const line of lines.slice(head))
      expect(line.replace(/"(?:[^"]|"")*"/g, '')).not.toContain('#');
  });

  it('has no field that a spreadsheet would take for a formula, except negative numbers', () => {
    const wideTexts = ['＝1', '＋1', '－x', '＠a', ';=1', 'a;=1+1', ' =1', ';;@x'];
    const laterTexts = ['a\t=1', 'a|=1', 'a; =1', 'a\n=1', 'a\r\n=1', '\n=1', '\r=1'];
    for (const text of ['=1+1', '+1', '-x', '@a', ...wideTexts, ...laterTexts]) {
      // Each list separator that a locale has, and each line of a text, begins a cell.
      const cells = csvField(text)
        .replace(/^"/, '')
        .split(/[;|\t\r\n]/);
      expect(cells.filter((cell) => /^\s*[=+\-@＝＋－＠]/.test(cell))).toEqual([]);
    }
    for (const text of ['=1+1', '+1', '-x', '@a', '\tb', '\rb', '＝1', '＋1', '－x', '＠a', ' =1'])
      expect(csvField(text).replace(/^"/, '')).toMatch(/^'/);
    expect(csvField(-0.5)).toBe('-0.5');
    const fields = read(
      toCsv([{ frame: hostile, quantities: [tokenProbabilities] }], facts),
    ).flat();
    expect(fields.filter((field) => /^[=+@-]/.test(field))).toEqual([]);
  });

  it('has a row for each defined value, with indices counted from 0', () => {
    const lines = dataRows(
      toCsv(
        [{ frame: frameOf(), quantities: [weightQuantity, normQuantity, lossQuantity] }],
        facts,
      ),
    );
    expect(lines).toMatchSnapshot();
    // Means over prompts belong to no token in particular.
    const meanNumbers = [{ frame: frameOf({ sequences: 9 }), quantities: [weightQuantity] }];
    expect(dataRows(toCsv(meanNumbers, facts))[2]!.join()).toBe('softmax,weight,1,0,,,-0.25');
    expect(placesOf(3, weightQuantity)).toEqual([1, 1]);
  });

  it('states the layer numbers of a hybrid for layers with attention, and counts all layers otherwise', () => {
    const frame = frameOf({
      architecture: { ...frameOf().architecture, layers: [1, 3], blocks: 4 },
    } as never);
    const normsFrom = (data: number[], from?: number[]): Quantity => ({
      ...{ name: 'norm', axes: ['layer'], shape: [data.length], data },
      ...(from ? { from } : {}),
    });
    const layersOf = (quantity: Quantity) =>
      dataRows(toCsv([{ frame, quantities: [quantity] }], facts))
        .slice(1)
        .map((line) => line[2]);
    expect(layersOf(normsFrom([5, 6]))).toEqual(['1', '3']);
    expect(layersOf(normsFrom([5, 6, 7, 8]))).toEqual(['0', '1', '2', '3']);
    expect(layersOf(normsFrom([5, 6], [-1]))).toEqual(['-1', '0']);
  });

  it('in JSON has shapes and axes, null for undefined values, and every subject', () => {
    const numbers = [frameOf(), hostile].map((frame) => ({ frame, quantities: [weightQuantity] }));
    const report = JSON.parse(toJson('attention', numbers, facts));
    expect(report).toMatchObject({ figure: 'attention', corpus: facts.corpus, link: facts.link });
    expect(report.subjects.map((subject: { class: string }) => subject.class)).toMatchSnapshot();
    expect(report.subjects[0].quantities[0]).toMatchObject({
      axes: ['query', 'key'],
      data: [1, null, -0.25, 0.75],
    });
  });

  it('has a name that is a valid file name everywhere', () => {
    const name = fileName(
      { name: 'norms', numbers: [{ frame: frameOf({ title: '../a b\\c:*' }) }] },
      'SVG',
    );
    expect(name).toMatch(/^sinkscope-norms-[\w.-]+\.svg$/);
  });
});

describe('the table', () => {
  const fullFrame = (change: Partial<Frame> = {}) =>
    frameOf(
      {
        sequences: 2,
        perPrompt: {
          sink_ratio: [0.4, 0.6],
          sink_ratio_raw: [0.2, 0.3],
          loss_mean: [3, 5],
          value_ratio: [0.3, 0.5],
          row_mass_summary: [1, 1],
        },
        spread: { alpha: new Float32Array(12).fill(0.01) },
        ...change,
      },
      {
        hidden_ratio: tensor([3], [9, 4, 8]),
        key_ratio: tensor([2, 2], [1, 0.5, 2, 1]),
        value_ratio: tensor([2, 2], [1, 2, 0.25, 1]),
        entropy_mean: tensor([2, 2], [1, NaN, 2, 3]),
      },
    );
  const createMetric = (name: string, more: Partial<Metric> = {}): Metric =>
    ({
      name,
      label: name,
      question: `What is ${name}?`,
      unit: '',
      shape: ['L', 'H'],
      arguments: ['tokens'],
      averaged: true,
      summary: true,
      ...more,
    }) as Metric;
  const table = tableOf({ metrics: [createMetric('sink_ratio'), createMetric('new_one')] });
  const cellOf = (name: string, frame = fullFrame()) =>
    table.find((metric) => metric.name === name)!.cellOf(frame);

  it('has the mean and the spread over the prompts', () => {
    expect(cellOf('sink_1')).toEqual({ mean: 0.5, deviation: deviation([0.4, 0.6]) });
    expect(deviation([3])).toBeNaN();
    expect(cellOf('entropy').mean).toBe(2);
    expect(cellOf('uniform').mean).toBeCloseTo(0.1);
  });

  it('names the place of a maximum or a minimum', () => {
    expect(cellOf('alpha_max').where).toEqual({ layer: 1, head: 0 });
    expect(cellOf('alpha_max').deviation).toBeCloseTo(0.01);
    expect(cellOf('hidden_ratio')).toMatchObject({ mean: 8, where: { layer: 1 } });
    expect(cellOf('value_ratio_min')).toMatchObject({ mean: 0.25, where: { layer: 1, head: 0 } });
    expect(cellOf('sink_elsewhere')).toMatchObject({ mean: 0.25, where: { key: 2 } });
  });

  it('omits columns without values', () => {
    expect(metricsOf([fullFrame()], table).map(({ name }) => name)).not.toContain('sink_bias');
    const biasFrame = fullFrame({ perPrompt: { sink_ratio_bias: [0.5] } });
    expect(metricsOf([biasFrame], table).map(({ name }) => name)).toContain('sink_bias');
  });

  it('has a column for every further summary in describe() that some model has', () => {
    const shareMetric = createMetric('new_share', { unit: 'share of heads', shape: ['T'] });
    const metrics = [
      createMetric('new_one'),
      shareMetric,
      createMetric('of_a_change', { arguments: ['tokens', 'base'] }),
      createMetric('of_each_token', { summary: false }),
    ];
    const ownTable = tableOf({ metrics });
    const ownColumnCount = tableOf({ metrics: [] }).length;
    expect(ownTable.slice(ownColumnCount).map(({ name }) => name)).toMatchSnapshot();
    const { tensors } = fullFrame();
    const frame = fullFrame({
      tensors: {
        ...tensors,
        new_one: tensor([1, 4], [1, NaN, 2, 6]),
        new_share: tensor([3], [0.25, 0.5, 1]),
      },
      spread: { new_share: Float32Array.of(0.125, 0, 0) },
    });
    const [newColumn, shareColumn] = metricsOf([frame], ownTable).slice(-2);
    expect(newColumn!.cellOf(frame).mean).toBe(3);
    expect(shareColumn!.cellOf(frame)).toEqual({ mean: 0.25, deviation: 0.125 });
    expect(metricsOf([fullFrame()], ownTable).map(({ name }) => name)).not.toContain('new_one');
    expect(tableCsv([frame], ownTable, facts)).toMatch(/,new_share,0.25,0.125,/);
  });

  it('sorts undefined values last in both directions', () => {
    const values = [2, NaN, 3, 1];
    expect(sortRows(values, (x) => x, false)).toEqual([1, 2, 3, NaN]);
    expect(sortRows(values, (x) => x, true)).toEqual([3, 2, 1, NaN]);
  });

  it('is saved as numbers with a row for each prompt, and without a date', () => {
    const lines = dataRows(tableCsv([fullFrame()], table, facts));
    expect(lines[0]!.join()).toBe('subject,class,metric,mean,deviation,layer,head,key,prompts');
    expect(lines).toHaveLength(1 + metricsOf([fullFrame()], table).length);
    const prompts = dataRows(promptsCsv([fullFrame()], facts));
    expect(prompts.map((record) => record.slice(2, 4))).toMatchSnapshot();
    const reportedRows = [{ title: 'Softmax', sink_1: 18, where: 'a paper' }];
    const report = JSON.parse(tableJson([fullFrame()], table, facts, reportedRows));
    expect(report.reported).toEqual(reportedRows);
    expect(report.subjects[0].table.alpha_max).toMatchObject({ layer: 1, head: 0 });
    expect(JSON.stringify(report)).not.toMatch(/20\d\d-\d\d/);
  });
});
