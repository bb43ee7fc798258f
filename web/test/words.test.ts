/** The page's sentences at the bounds of their numbers: singular and plural, with and without optional parts. */
import { describe, expect, it } from 'vitest';
import type { Frame } from '../src/frame';
import { columnOf, kindOf, type Claim } from '../src/claims';
import {
  classWords,
  evenShareWords,
  findingWords,
  startTokenWords,
  attentionWords,
  percentBeside,
  meanRowSum,
  modelName,
  formatReal,
  tooShortNote,
  formatValue,
  purposeWords,
  stampWords,
  sumWords,
  formatSigned,
  quote,
  tokenWord,
} from '../src/words';
import { frameOf, tensor } from './fixture';

const at = { layer: 1, head: 0 };
const sigmoidChange = {
  operation: { ...frameOf().operation, normalizes: false },
} as Partial<Frame>;
const uniformTensor = (share: number) => ({ alpha_uniform: tensor([3], [share, 0, 0]) });
const sinkTensor = (share: number) => ({ sink_ratio: tensor([3], [share, 0, 0]) });

describe('the name of a model in a sentence', () => {
  it('is a noun phrase whatever its title', () => {
    const titles = ['Softmax model', 'Sigmoid model at step 600', 'No BOS', 'Softpick'].concat(
      ...['Learned positions at step 600', 'EleutherAI/pythia-14m at step 1', 'The tiny model'],
    );
    expect(titles.map((title) => modelName({ title }))).toMatchSnapshot();
  });
});

describe('a displayed number', () => {
  it('has two decimals unless its caller asks for others', () => {
    expect([
      formatValue(-0.126),
      formatReal(-0.126),
      formatSigned(-0.126),
      formatSigned(0.126),
    ]).toEqual([...['-0.13', '−0.13', '−0.13', '+0.13']]);
    expect([formatReal(-0.126, 1), formatSigned(0.126, 1)]).toEqual(['−0.1', '+0.1']);
  });

  it('has a decimal beside a bound that a whole percent would hide', () => {
    const shares = [0.3041, 0.2968, 0.3, 0.31, 0.29, 0.0041];
    expect(shares.map((share) => percentBeside(share, 0.3))).toMatchSnapshot();
  });

  it('is a whole percent for a head, and rounded up for a bound', () => {
    const wordsOf = (change: Partial<Claim>) =>
      attentionWords({ isShare: true, isStrongest: true, uniform: 0.5, ...change } as Claim);
    const bound = { isShare: false, attention: 0.121 };
    expect([
      wordsOf({ attention: 0.121 }),
      wordsOf({ attention: 0.126 }),
      wordsOf(bound),
    ]).toMatchSnapshot();
  });
});

describe('a number in a table', () => {
  it('has a fixed number of decimals unless these would hide it', () => {
    const texts = [0.01, 0.0099, -0.005, 99_999, 100_000, -123_456].map((x) => formatValue(x));
    expect(texts).toEqual(['0.01', '9.9e-3', '-5.0e-3', '99999.00', '1.0e+5', '-1.2e+5']);
    expect([
      formatValue(1.25, 1),
      formatValue(0.05, 1),
      formatValue(-Infinity),
      tokenWord('  a'),
      tokenWord(' a'),
    ]).toEqual([...['1.3', '5.0e-2', '–', '\u00a0\u00a0a', 'a']]);
  });

  it('is not turned around by the token before it', () => {
    const token = { id: 1, start: 0, end: 1, special: false };
    const frame = frameOf({ tokens: ['\u202eab', ' שלום'].map((text) => ({ ...token, text })) });
    expect([0, 1].map((t) => quote(frame, t))).toEqual(['“\ufffdab”', '“\u2068שלום\u2069”']);
  });

  it('keeps a decimal of a row sum that a whole percent would hide', () => {
    expect([1, 0.756, 0.01, 0.0099, 0.004, 0].map(sumWords)).toMatchSnapshot();
  });

  it('has a row sum averaged over prompts, or over heads', () => {
    expect(meanRowSum(frameOf())).toBe(0.5);
    const summary = tensor([2, 2, 3], [1, 9, 9, 2, 9, 9, 3, 9, 9, 4, 9, 9]);
    expect(meanRowSum(frameOf({ perPrompt: {} }, { row_mass_summary: summary }))).toBe(2.5);
  });
});

describe('a share compared with an even share', () => {
  it('has words by its ratio to an even share of 10%', () => {
    const shares = [0.07, 0.0801, 0.1249, 0.126, 0.2, 0.294, 0.296, 0.94];
    expect(shares.map((share) => [share, evenShareWords(share, 0.1)])).toMatchSnapshot();
  });
});

describe('the stated source of numbers', () => {
  it('names each source and counterfactuals', () => {
    const { model } = frameOf();
    const wordsOf = (source: string, kind = 'measured') =>
      classWords(frameOf({ class: kind, model: { ...model, source } } as Partial<Frame>));
    expect(['zoo', 'hub', 'disk'].map((source) => wordsOf(source))).toMatchSnapshot();
    expect(wordsOf('zoo', 'counterfactual')).toMatchSnapshot();
  });

  it('names the author of a recording, and the versions of the software if known', () => {
    const recording = {
      model: { id: 'owner/name', revision: 'abc', dtype: 'bfloat16', attention: 'eager' },
      prompts: { source: 'a book' },
      license: 'MIT',
      versions: { torch: '2', transformers: '5' },
      command: 'sinkscope record',
    };
    const wordsOf = (change: object) =>
      classWords(frameOf({ recording: { ...recording, ...change } } as never));
    expect(wordsOf({})).toMatchSnapshot();
    expect(
      wordsOf({ model: { id: 'x' }, prompts: {}, versions: {}, license: undefined, command: '' }),
    ).toBe('read from a recording of x');
  });

  it('includes the start token, the prompts, and the storage of weights', () => {
    const { model, special } = frameOf();
    expect(startTokenWords({ first: ['<s>', '<t>'], special })).toBe('starts with <s> <t>');
    expect(startTokenWords({ first: ['<t>'], special })).toBe('starts with <t>');
    const storedConditions = (change: object) =>
      stampWords(frameOf({ model: { ...model, ...change } } as never))
        .split(' · ')
        .slice(5);
    expect(storedConditions({ bits: 4.55 })).toMatchSnapshot();
    expect(storedConditions({ source: 'recording' })).toEqual(['Softmax model', 'recorded']);
  });
});

describe('the finding about a head', () => {
  it('explains why heads are not counted in a short text', () => {
    const shortFrame = (T: number, eps: number) => frameOf({ T, eps }, uniformTensor(0.5));
    expect(tooShortNote(shortFrame(1, 0.3))).toMatchSnapshot();
    expect(tooShortNote(shortFrame(2, 0))).toMatch(/text of 2 tokens, .* ε = 0\.$/);
    expect(tooShortNote(frameOf({}, uniformTensor(0.2)))).toBe('');
    // The sentence compares every share with uniform attention, at any length.
    expect(findingWords(frameOf({}, uniformTensor(0.2)), at)).toMatchSnapshot();
    expect(
      findingWords(frameOf({ sequences: 8 }, { ...uniformTensor(0.2), ...sinkTensor(0.125) }), at),
    ).toMatchSnapshot();
  });

  it('names no token if the prompts begin differently', () => {
    const ids = [
      [0, 5, 6],
      [1, 5, 6],
    ];
    expect(findingWords(frameOf({ sequences: 2, ids }), at)).toMatchSnapshot();
    expect(findingWords(frameOf({ sequences: 2, ids: [ids[0]!, ids[0]!] }), at)).toMatchSnapshot();
  });

  it('says over what uniform attention is spread, and gives no such share of a hidden token', () => {
    const { architecture } = frameOf();
    const saidOf = (change: object, more: object = {}) =>
      findingWords(frameOf({ architecture: { ...architecture, ...more }, ...change } as never), at);
    // The definition ignores windows and hidden keys.
    for (const said of [
      saidOf({}, { windows: [2, null] }),
      saidOf({ edits: [{ kind: 'mask', first: 1, recent: 1 }] }),
      saidOf({ edits: [{ kind: 'hide_key', key: 1 }] }),
      saidOf({ edits: [{ kind: 'hide_key', key: 0, query: 2 }] }),
      saidOf({ edits: [{ kind: 'hide_key', key: 0, layer: 1, head: 0 }] }),
    ])
      expect(said).toMatchSnapshot();
    expect(saidOf({}, { windows: [3, null] })).toMatchSnapshot();
    expect(saidOf({}, { bias_key: 'head' })).toMatchSnapshot();
    expect(saidOf({ edits: [{ kind: 'hide_key', key: 0 }] })).not.toContain('uniform attention');
  });

  it('mentions a first token that is not special, row sums, and a bias key', () => {
    const tokens = frameOf().tokens.map((token) => ({ ...token, special: false }));
    expect(findingWords(frameOf({ tokens }), at)).toMatchSnapshot();
    expect(findingWords(frameOf(sigmoidChange), at)).toMatchSnapshot();
    const architecture = { ...frameOf().architecture, bias_key: 'head' } as never;
    const bias = { sink_ratio_bias: tensor([1], [0.5]) };
    expect(findingWords(frameOf({ architecture }, bias), at)).toMatchSnapshot();
    for (const frame of [frameOf({}, bias), frameOf({ architecture })])
      expect(findingWords(frame, at)).not.toContain('Its bias key');
  });
});

describe('the summary of a map’s column', () => {
  /** Returns a map whose first column has these weights from row 1 on, and whose rows sum to 1. */
  const mapOf = (...weights: number[]) => {
    const T = weights.length + 1;
    return Float32Array.from({ length: T * T }, (_, i) => {
      const [t, k] = [Math.floor(i / T), i % T];
      if (k > t) return NaN;
      const firstWeight = t ? weights[t - 1]! : 1;
      return k ? (1 - firstWeight) / t : firstWeight;
    });
  };
  const columnOfWeights = (...weights: number[]) => columnOf(mapOf(...weights), weights.length + 1);

  it('has the mean, the rows that attend mostly to it, and the row sum', () => {
    const { mean, alpha, strongRows, rows, rowSum } = columnOfWeights(0.75, 0.5, 0.5625, 0.25);
    expect([mean, strongRows, rows]).toEqual([2.0625 / 4, 2, 4]);
    // alpha_1 also counts the first row, which can attend to nothing else.
    expect(alpha).toBe(3.0625 / 5);
    expect(rowSum).toBeCloseTo(1, 6);
  });

  it.each([
    ['all', [0.75, 0.75, 0.75, 0.25]],
    ['many', [0.75, 0.75, 0.25, 0.25]],
    ['none', [0.125, 0.125, 0.125, 0.125]],
  ] as const)('is called %s', (kind, weights) =>
    expect(kindOf(columnOfWeights(...weights))).toBe(kind),
  );

  it('changes its kind at fixed bounds, and has none without rows', () => {
    const kindFor = (rows: number, strongRows: number, mean = 0, uniform = 0) =>
      kindOf({ rows, strongRows, mean, uniform, rowSum: 1 });
    expect([
      kindFor(0, 0),
      kindFor(4, 3),
      kindFor(100, 74),
      kindFor(5, 2),
      kindFor(100, 39),
    ]).toEqual([...['none', 'all', 'many', 'many', 'none']]);
    expect([
      kindFor(9, 0, 0.05),
      kindFor(9, 0, 0.051),
      kindFor(9, 0, 0.2, 0.1),
      kindFor(9, 0, 0.21, 0.1),
    ]).toEqual([...['none', 'weak', 'none', 'weak']]);
    // A cell at half of the full scale is not strong; rows without numbers are omitted.
    const signedColumn = columnOf([1, NaN, NaN, -0.5, 0.5, NaN, NaN, NaN, NaN], 3);
    expect(signedColumn).toMatchObject({
      rows: 2,
      strongRows: 0,
      mean: 0.25,
      uniform: 0.25,
      rowSum: 1 / 3,
    });
  });
});

it('the sink is called useful only under softmax, if the head’s value is small', () => {
  const wordsWith = (ratio: number, change: object = {}) =>
    purposeWords(frameOf(change, { value_ratio: tensor([2, 2], [9, 9, ratio, ratio]) }), {
      ...{ layer: 1, head: 0 },
    });
  expect(wordsWith(0.25)).toMatchSnapshot();
  expect([wordsWith(0.5), wordsWith(NaN)]).toEqual(['', '']);
  expect(wordsWith(0.25, { operation: { ...frameOf().operation, name: 'sigmoid' } })).toBe('');
});
