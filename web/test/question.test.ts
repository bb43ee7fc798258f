import { describe, expect, it } from 'vitest';
import type { Tokenizer } from 'sinkscope';
import {
  draws,
  firstTokens,
  keyOf,
  promptsOf,
  promptsOfFile,
  questionOf,
  readPrompts,
  specialOf,
  specialWords,
  splittingOf,
} from '../src/ask/question';
import { defaults, type State } from '../src/ask/state';

/** One id a word, by its length; id 0 is BOS, 1 the end. Its own post-processor puts nothing. */
const tokenizer = {
  size: 50,
  bos: 0,
  special: [0, 1],
  specials: [
    { id: 0, text: '<s>', kind: 'bos' },
    { id: 1, text: '</s>', kind: 'eos' },
  ],
  encode: (text: string, { special = 'none' }: { special?: unknown } = {}) => [
    ...(Array.isArray(special) ? special : []).map((name: string) => ({
      id: name === '<s>' ? 0 : 1,
      text: name,
      special: true,
    })),
    ...text
      .split(' ')
      .filter(Boolean)
      .map((word) => ({ id: word.length + 1, text: word, special: false })),
  ],
  piece: (id: number) => String(id),
} as unknown as Tokenizer;

const ask = (change: Partial<State>, texts: string[] = [], context = 99) =>
  promptsOf(tokenizer, questionOf({ ...defaults, first: 'bos', ...change }), context, texts);

describe('a question', () => {
  it('has one key for all that is answered alike', () => {
    const key = (change: Partial<State>) => keyOf(questionOf({ ...defaults, ...change }, 3));
    expect(key({ seed: 9, theme: 'dark', layer: 2 })).toBe(key({}));
    expect(key({ input: 'random', prompt: 'x' })).toBe(key({ input: 'random' }));
    for (const change of [
      { prompt: 'x' },
      { T: 3 },
      { first: 'none' },
      { n: 2 },
      { eps: 0.1 },
      { input: 'file' },
    ] as const)
      expect(key(change)).not.toBe(key({}));
  });

  it('is the text, cut to T and to the context, and its further pieces', async () => {
    const { tokens, dropped, ids } = await ask({ prompt: 'a bb ccc dddd eeeee', T: 3, n: 9 });
    expect(tokens.map(({ text }) => text)).toEqual(['<s>', 'a', 'bb']);
    expect([dropped, ids]).toEqual([
      3,
      [
        [0, 2, 3],
        [0, 4, 5],
      ],
    ]);
    expect((await ask({ prompt: 'a bb ccc', T: 64 }, [], 2)).ids).toEqual([[0, 2]]);
    expect((await ask({ prompt: 'a bb' })).ids).toEqual([[0, 2, 3]]);
    await expect(ask({ prompt: ' ' })).rejects.toThrow(/no text yet/);
    await expect(ask({ prompt: 'x'.repeat(20_001) })).rejects.toThrow(
      /20,001 characters; expected at most 20,000/,
    );
  });

  it('is the beginnings of texts', async () => {
    const texts = ['a bb ccc', 'short', 'dddd a'];
    const { ids, tokens } = await ask({ input: 'heldout', T: 3, n: 9 }, texts);
    expect(ids).toEqual([
      [0, 2, 3],
      [0, 5, 2],
    ]);
    expect(tokens.map(({ special }) => special)).toEqual([true, false, false]);
    expect((await ask({ input: 'file', T: 3, first: 'none' }, texts)).ids).toEqual([[2, 3, 4]]);
    await expect(ask({ input: 'file' })).rejects.toThrow(/Choose a file/);
  });

  it('is drawn alike for the same seed, of ids that are text', async () => {
    const { ids } = await ask({ input: 'random', n: 3, T: 40 });
    expect((await ask({ input: 'random', n: 3, T: 40 })).ids).toEqual(ids);
    expect((await ask({ input: 'random', n: 2, T: 40, seed: 2 })).ids).toEqual(ids.slice(1));
    expect(ids[0]![0]).toBe(0);
    expect(ids[0]!.slice(1).every((id) => id > 1 && id < 50)).toBe(true);
    const [[, ...same]] = (await ask({ input: 'repeat', T: 20 })).ids as [number[]];
    expect(new Set(same).size).toBe(1);
    expect(Array.from({ length: 3 }, draws(1))).toEqual(Array.from({ length: 3 }, draws(1)));
  });

  it('begins with what is named, if the tokenizer has it', async () => {
    const first = async (name: string) =>
      firstTokens((await ask({ prompt: 'a', first: name })).tokens);
    // The tokenizer decides, as on the command line; the reader may want its start token all the same.
    expect(await first('')).toEqual([]);
    expect(await first('bos')).toEqual(['<s>']);
    expect(await first('</s>')).toEqual(['</s>']);
    expect(await first('[CLS]')).toEqual([]);
    expect(await first('none')).toEqual([]);
    expect(await specialOf(tokenizer, '')).toBe('auto');
    expect(await specialOf({ ...tokenizer, bos: null }, 'bos')).toBe('auto');
    expect(await specialWords(tokenizer)).toEqual({
      automatic: [],
      bos: '<s>',
      choices: ['<s>', '</s>'],
    });
  });
});

describe('a file of prompts', () => {
  it('has a prompt a line, or blocks that blank lines separate', () => {
    expect(splittingOf('one\ntwo\n\nthree\n')).toBe('blocks');
    expect(splittingOf('one\ntwo\nthree\n')).toBe('lines');
    expect(splittingOf('one\n\ntwo\n\nthree')).toBe('lines');
    expect(promptsOfFile('\ufeffone\r\n \r\ntwo\r\n', 'lines')).toEqual(['one', 'two']);
    expect(promptsOfFile('a\nb\n \n\n\nc\n', 'blocks')).toEqual(['a\nb', 'c']);
    expect(promptsOfFile('a\nb\n\nc\n', 'whole')).toEqual(['a\nb\n\nc']);
  });

  it('is refused where it is no text, with what was expected', async () => {
    const file = (bytes: BlobPart) => new File([bytes], 'x.bin');
    await expect(readPrompts(file(new Uint8Array([0xff, 0xfe, 0xfd])))).rejects.toThrow(
      /x\.bin: expected UTF-8 text/,
    );
    await expect(readPrompts(file(' \n'))).rejects.toThrow(/expected prompts, found an empty file/);
    expect(await readPrompts(file('abc'))).toMatchObject({
      splitting: 'lines',
      sha256: 'ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad',
    });
  });
});
