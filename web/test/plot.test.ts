import type { Tokenizer } from 'sinkscope';
import { describe, expect, it } from 'vitest';
import {
  draws,
  firstTokens,
  inputTokens,
  otherSequences,
  specialOf,
  specialWords,
} from '../src/input';
import { css, diverging, sequential } from '../src/plot/color';
import { shares } from '../src/plot/rose';
import { defaults, type State } from '../src/state';
import { angles } from '../src/views/geometry';
import { profile } from '../src/views/norms';

const light = (rgb: readonly number[]) => 0.2126 * rgb[0] + 0.7152 * rgb[1] + 0.0722 * rgb[2];

describe('colours', () => {
  for (const theme of ['light', 'dark'] as const) {
    it(`go one way in lightness (${theme})`, () => {
      const scale = sequential(theme);
      const steps = Array.from({ length: 65 }, (_, i) => light(scale(i / 64)));
      const sign = theme === 'light' ? -1 : 1;
      for (let i = 1; i < steps.length; i++)
        expect(sign * (steps[i] - steps[i - 1])).toBeGreaterThan(-0.5);
      expect(Math.abs(steps[64] - steps[0])).toBeGreaterThan(150);
    });

    it(`meet in the middle (${theme})`, () => {
      expect(css(diverging(theme, 3)(0))).toBe(css(sequential(theme)(0)));
      expect(css(diverging(theme, 3)(-3))).not.toBe(css(diverging(theme, 3)(3)));
    });

    it(`have one for what is hidden (${theme})`, () => {
      expect(css(sequential(theme)(NaN))).not.toBe(css(sequential(theme)(0)));
    });
  }

  it('stay inside their range', () => {
    expect(css(sequential('light')(7))).toBe(css(sequential('light')(1)));
    expect(css(sequential('light')(-7))).toBe(css(sequential('light')(0)));
    expect(css(sequential('light', 1, true)(0.25))).toBe(css(sequential('light')(0.5)));
  });
});

describe('the rose', () => {
  it('counts every angle once, at the ends too', () => {
    const each = shares([0, Math.PI, Math.PI / 2, Math.PI / 2]);
    expect(each.reduce((a, b) => a + b, 0)).toBeCloseTo(1);
    expect([each[0], each[35], each[18]]).toEqual([0.25, 0.25, 0.5]);
  });

  it('separates the first key from the others', () => {
    const cos = [1, NaN, NaN, 0, -1, NaN, 0.5, NaN, 1];
    const { first, others } = angles(cos, 3);
    expect(first.map((a) => a.toFixed(3))).toEqual(['0.000', '1.571', '1.047']);
    expect(others.map((a) => a.toFixed(3))).toEqual(['3.142', '0.000']);
  });
});

describe('norm profiles', () => {
  it('set the first token against the mean of the others, over heads', () => {
    const data = Float32Array.from([10, 1, 3, 20, 2, 4]);
    const tensor = { shape: [1, 2, 3], data };
    expect(profile(tensor)).toEqual({ first: [15], others: [2.5] });
    expect(profile({ shape: [2, 3], data })).toEqual({ first: [10, 20], others: [2, 3] });
  });
});

const tokenizer: Tokenizer = {
  size: 10,
  bos: 0,
  special: [0, 1],
  specials: [
    { id: 0, text: '<s>', kind: 'bos' },
    { id: 1, text: '</s>', kind: 'eos' },
  ],
  encode: (text, options) => {
    // Its own post-processor would put none.
    const named = Array.isArray(options?.special) ? options.special : [];
    const begin = named.map((name: string) => ({
      id: name === '<s>' ? 0 : 1,
      text: name,
      start: 0,
      end: 0,
      special: true,
    }));
    const rest = [...text].map((t, i) => ({
      id: 5,
      text: t,
      start: i,
      end: i + 1,
      special: false,
    }));
    return [...begin, ...rest];
  },
  decode: () => '',
  piece: (id) => String(id),
};

describe('inputs', () => {
  it('draw the same from the same seed', () => {
    const [a, b, c] = [draws(1), draws(1), draws(2)];
    const first = Array.from({ length: 5 }, a);
    expect(Array.from({ length: 5 }, b)).toEqual(first);
    expect(Array.from({ length: 5 }, c)).not.toEqual(first);
    expect(first.every((x) => x >= 0 && x < 1)).toBe(true);
  });

  it('draw ids that stand for text, BOS before them', async () => {
    const tokens = await inputTokens(tokenizer, { ...defaults, input: 'random', T: 200 });
    expect(tokens).toHaveLength(200);
    expect(tokens[0].id).toBe(0);
    expect(tokens.slice(1).every(({ id }) => id > 1 && id < 10)).toBe(true);
    expect(new Set(tokens.map(({ id }) => id)).size).toBeGreaterThan(5);
  });

  it('begin with the special token that the state names, if the tokenizer has it', async () => {
    const first = async (change: Partial<State>) =>
      firstTokens(await inputTokens(tokenizer, { ...defaults, prompt: 'ab', ...change }));
    expect(await first({})).toEqual(['<s>']);
    expect(await first({ first: '</s>' })).toEqual(['</s>']);
    expect(await first({ first: '[CLS]' })).toEqual(['<s>']);
    expect(await first({ first: 'auto' })).toEqual([]);
    expect(await first({ bos: false, first: '</s>' })).toEqual([]);
    expect(await specialOf({ ...tokenizer, bos: null }, defaults)).toBe('none');
    expect(await specialWords(tokenizer)).toEqual({
      automatic: [],
      bos: '<s>',
      choices: ['<s>', '</s>'],
    });
  });

  it('repeat one token', async () => {
    const tokens = await inputTokens(tokenizer, {
      ...defaults,
      input: 'repeat',
      T: 20,
      bos: false,
    });
    expect(new Set(tokens.map(({ id }) => id)).size).toBe(1);
  });

  it('average over texts that are long enough, cut to T', async () => {
    const texts = ['abc', 'abcdefgh', 'abcdef'];
    const found: number[][] = [];
    for await (const ids of otherSequences(tokenizer, { ...defaults, bos: true }, 6, texts))
      found.push(ids);
    expect(found.map((ids) => ids.length)).toEqual([6, 6]);
  });
});
