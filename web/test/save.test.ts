import { describe, expect, it } from 'vitest';
import type { Frame } from '../src/frame';
import { fileName } from '../src/save/menu';
import { toCsv, toJson, type Facts, type Quantity } from '../src/save/numbers';
import { defaults } from '../src/state';

const frame = {
  model: { id: 'hub:a/b', title: 'a/b@step1', source: 'hub', commit: 'c0ffee' },
  class: 'counterfactual',
  architecture: { family: 'gpt2', parameters: 7, attention: { operation: 'softmax' } },
  operation: { name: 'sigmoid', label: 'sigmoid' },
  edits: [{ kind: 'operation', operation: 'sigmoid' }],
  tokens: [{ id: 4, text: '=1,"x"\n' }],
  T: 2,
  eps: 0.3,
  first: [],
  special: { automatic: [], bos: null, choices: [] },
  sequences: 5,
} as unknown as Frame;

const facts: Facts = {
  figure: 'attention',
  frame,
  state: defaults,
  layer: 1,
  head: 0,
  version: '0.1.0',
  link: 'https://page.example/#a=hub%3Aa%2Fb',
};

const weight: Quantity = {
  name: 'weight',
  axes: ['query', 'key'],
  shape: [2, 2],
  data: [1, NaN, 0.25, 0.75],
};
const hidden: Quantity = { name: 'norm', axes: ['layer'], shape: [2], data: [3, 4], from: [0] };
const next: Quantity = {
  name: 'p',
  axes: ['rank'],
  shape: [2],
  data: [0.5, 0.5],
  labels: ['=A', 'b,"'],
};
const single: Quantity = { name: 'sink_1', axes: [], shape: [], data: [0.6] };

const rows = (quantities: readonly Quantity[]) =>
  toCsv(quantities, facts)
    .trimEnd()
    .split('\n')
    .filter((line) => !line.startsWith('#'));

describe('numbers as CSV', () => {
  it('have a line for each value that is defined, with places counted from 1', () => {
    expect(rows([weight])).toEqual([
      'quantity,query,key,value',
      'weight,1,1,1',
      'weight,2,1,0.25',
      'weight,2,2,0.75',
    ]);
  });

  it('count from elsewhere where the axis does', () => {
    expect(rows([hidden])).toEqual(['quantity,layer,value', 'norm,0,3', 'norm,1,4']);
  });

  it('share columns among quantities, and leave empty what one has not', () => {
    expect(rows([single, hidden]).slice(0, 3)).toEqual([
      'quantity,layer,value',
      'sink_1,,0.6',
      'norm,0,3',
    ]);
  });

  it('hold a token’s text as one field, which no sheet takes for a formula', () => {
    expect(rows([next]).slice(1)).toEqual([`p,1,"'=A",0.5`, `p,2,"b,""",0.5`]);
  });

  it('say how they were measured, in lines that cannot break', () => {
    const notes = toCsv([weight], facts)
      .split('\n')
      .filter((line) => line.startsWith('# '));
    const text = notes.join('\n');
    expect(text).toContain(
      'COUNTERFACTUAL · ε = 0.3 · T = 2 · no BOS · mean of 5 sequences · a/b@step1',
    );
    for (const said of ['"c0ffee"', '# eps: 0.3', '# layer: 2', '# sequences: 5', facts.link])
      expect(text).toContain(said);
    expect(notes.at(-1)).toBe('# tokens: ["=1,\\"x\\"\\n"]');
  });
});

describe('numbers as JSON', () => {
  it('keep shape and axes, and have null for what is undefined', () => {
    const made = JSON.parse(toJson([weight], facts));
    expect(made.quantities).toEqual([{ ...weight, data: [1, null, 0.25, 0.75] }]);
    expect(made).toMatchObject({ class: 'COUNTERFACTUAL', eps: 0.3, T: 2, first_tokens: [] });
    expect(made).toMatchObject({ model: 'a/b@step1', commit: 'c0ffee', trained_with: 'softmax' });
    expect(made.edits).toEqual(frame.edits);
  });
});

describe('the name of a file', () => {
  it('has nothing that a path could be made of', () => {
    expect(fileName('sinks', frame, 'CSV')).toBe('sinkscope-sinks-a-b-step1.csv');
    const odd = { ...frame, model: { ...frame.model, title: '../..\\x:y*' } };
    expect(fileName('sinks', odd, 'SVG')).not.toMatch(/[/\\:*]/);
  });
});
