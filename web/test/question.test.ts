import { describe, expect, it } from 'vitest';
import {
  openTokenizer,
  planTokenizer,
  type Model,
  type Plan,
  type Splitting,
  type Tokenizer,
} from 'sinkscope';
import cutsJson from '../../tests/golden/cuts.json?raw';
import {
  randomGenerator,
  startTokens,
  isInputMissing,
  questionKey,
  promptsOf,
  questionOf,
  readPrompts,
  specialOption,
  specialWords,
  guessSplitting,
  textsOf,
} from '../src/ask/question';
import { defaults, type State } from '../src/ask/state';
import { joinTokens, namePart, partOf } from '../src/parts';

/** What tests/golden/cuts.json holds, which the tests of both packages read, too. */
interface Cuts {
  readonly splits: readonly (Readonly<Record<Splitting, string[]>> & { readonly file: string })[];
  readonly cuts: Readonly<Record<string, Readonly<Record<'beginnings' | 'last text', number[][]>>>>;
  readonly texts: string[];
  readonly T: number;
}
const tokenizerFiles = import.meta.glob<string>(
  ['../../models/zoo/short/tokenizer.json', '../../tests/golden/tokenizers/*/tokenizer.json'],
  { query: '?raw', import: 'default', eager: true },
);

/** Encodes each word as its length; id 0 is BOS, 1 the end. By default it adds no special token. */
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
  it('has the same key as all questions with the same answer', () => {
    const key = (change: Partial<State>) => questionKey(questionOf({ ...defaults, ...change }, 3));
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

  it('shows a character that several tokens share only once', async () => {
    // One token per byte of UTF-8, as in byte-level tokenizers; offsets are of whole characters.
    const byteTokens = (text: string) => {
      let start = 0;
      return [...text].flatMap((character) => {
        const characterBytes = [...new TextEncoder().encode(character)];
        const at = { start, end: (start += character.length) };
        const text = characterBytes.length > 1 ? '\ufffd' : character;
        return characterBytes.map((id) => ({ id, text, special: false, ...at }));
      });
    };
    const byBytes = {
      ...tokenizer,
      encode: (text: string) => [
        { id: 0, text: '<s>', start: 0, end: 0, special: true },
        ...byteTokens(text),
      ],
    } as unknown as Tokenizer;
    const partsOf = (character: string, count: number) =>
      Array.from({ length: count }, (_, i) => namePart(character, i + 1, count));
    const promptWords = async (change: Partial<State>, texts: string[] = []) => {
      const question = questionOf({ ...defaults, first: 'auto', T: 99, ...change });
      return (await promptsOf(byBytes, question, 99, texts)).tokens.map(({ text }) => text);
    };
    expect(await promptWords({ prompt: 'a字字🎈b' })).toEqual([
      ...['<s>', 'a', ...partsOf('字', 3), ...partsOf('字', 3), ...partsOf('🎈', 4), 'b'],
    ]);
    // A file's text is used whatever the prompt field holds, and a typed U+FFFD is kept as a character.
    expect(await promptWords({ input: 'file', prompt: 'other' }, ['é'])).toEqual([
      '<s>',
      ...partsOf('é', 2),
    ]);
    expect(await promptWords({ prompt: '\ufffd' })).toEqual(['<s>', ...partsOf('\ufffd', 3)]);
    // A name is of its character, whichever way that is written, and the names of a text have its characters once.
    const named = ['a', ...partsOf('字', 3), ...partsOf('ل', 2), ...partsOf('ل', 2)];
    expect([partOf(named[2]!), partOf(named[5]!), partOf('1/3'), joinTokens(named)]).toEqual([
      { character: '字', part: 2 },
      { character: 'ل', part: 2 },
      undefined,
      'a字لل',
    ]);
    // A text that is cut within a character still names it.
    expect(await promptWords({ prompt: '字', T: 2 })).toEqual(['<s>', partsOf('字', 3)[0]]);
  });

  it('ends each prompt with the special tokens that the tokenizer appends', async () => {
    const withBothEnds = {
      ...tokenizer,
      encode: (text: string) => [
        { id: 0, text: '<s>', special: true },
        ...tokenizer.encode(text, { special: 'none' }),
        { id: 1, text: '</s>', special: true },
      ],
    } as unknown as Tokenizer;
    const askBoth = async (change: Partial<State>, texts: string[] = []) =>
      promptsOf(withBothEnds, questionOf({ ...defaults, T: 4, n: 9, ...change }), 99, texts);
    const { tokens, dropped, ids } = await askBoth({ prompt: 'a bb ccc dddd eeeee' });
    expect(tokens.map(({ text }) => text)).toEqual(['<s>', 'a', 'bb', '</s>']);
    // Of the five words, two prompts have four.
    expect([dropped, ids]).toEqual([
      1,
      [
        [0, 2, 3, 1],
        [0, 4, 5, 1],
      ],
    ]);
    const prompts = await askBoth({ prompt: 'a bb', T: 9 });
    expect([prompts.dropped, prompts.ids]).toEqual([0, [[0, 2, 3, 1]]]);
    for (const input of ['random', 'repeat'] as const)
      for (const ids of (await askBoth({ input, n: 2 })).ids)
        expect([ids.length, ids[0], ids[3], ids.slice(1, 3).some((id) => id < 2)]).toEqual([
          4,
          0,
          1,
          false,
        ]);
    const filePrompts = await askBoth({ input: 'file' }, ['a bb ccc', 'dddd eeeee f']);
    expect(filePrompts.ids.map((ids) => [ids[0], ids[3]])).toEqual([
      [0, 1],
      [0, 1],
    ]);
    expect(filePrompts.tokens.map(({ special }) => special)).toEqual([true, false, false, true]);
    expect((await specialWords(withBothEnds)).automatic).toEqual(['<s>']);
  });

  it('from a text is the text, cut to T and to the context, and its following pieces', async () => {
    const { tokens, dropped, ids } = await ask({ prompt: 'a bb ccc dddd eeeee', T: 3, n: 9 });
    expect(tokens.map(({ text }) => text)).toEqual(['<s>', 'a', 'bb']);
    expect([dropped, ids]).toEqual([
      1,
      [
        [0, 2, 3],
        [0, 4, 5],
      ],
    ]);
    expect((await ask({ prompt: 'a bb ccc', T: 64 }, [], 2)).ids).toEqual([[0, 2]]);
    expect((await ask({ prompt: 'a bb' })).ids).toEqual([[0, 2, 3]]);
    await expect(ask({ prompt: ' ' })).rejects.toThrow(/no text yet/);
    await expect(ask({ prompt: 'x'.repeat(40_001) })).rejects.toThrow(
      /40,001 characters; expected at most 40,000/,
    );
  });

  it('from passages is the beginning of each passage', async () => {
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

  it('from random tokens depends only on the seed, with ids that are text', async () => {
    const { ids } = await ask({ input: 'random', n: 3, T: 40 });
    expect((await ask({ input: 'random', n: 3, T: 40 })).ids).toEqual(ids);
    expect((await ask({ input: 'random', n: 2, T: 40, seed: 2 })).ids).toEqual(ids.slice(1));
    expect(ids[0]![0]).toBe(0);
    expect(ids[0]!.slice(1).every((id) => id > 1 && id < 50)).toBe(true);
    const [[, ...repeatedIds]] = (await ask({ input: 'repeat', T: 20 })).ids as [number[]];
    expect(new Set(repeatedIds).size).toBe(1);
    expect(Array.from({ length: 3 }, randomGenerator(1))).toEqual(
      Array.from({ length: 3 }, randomGenerator(1)),
    );
  });

  it('begins with the start token of the state, if the tokenizer has it', async () => {
    const firstTokens = async (name: string) =>
      startTokens((await ask({ prompt: 'a', first: name })).tokens);
    // The tokenizer decides, as on the command line; the reader may still add its start token.
    expect(await firstTokens('')).toEqual([]);
    expect(await firstTokens('bos')).toEqual(['<s>']);
    expect(await firstTokens('</s>')).toEqual(['</s>']);
    expect(await firstTokens('[CLS]')).toEqual([]);
    expect(await firstTokens('none')).toEqual([]);
    expect(await specialOption(tokenizer, '')).toBe('auto');
    expect(await specialOption({ ...tokenizer, bos: null }, 'bos')).toBe('auto');
    expect(await specialWords(tokenizer)).toMatchSnapshot();
  });
});

describe('the start tokens and texts that a source offers', () => {
  const tokenizerWith = (ids: readonly number[], size: number) => ({
    ...tokenizer,
    special: ids,
    size,
  });

  it('random ids are drawn uniformly from ids that are text, or are 0 if there are none', async () => {
    const ids = async (tokenizer: Tokenizer, change: Partial<State> = {}) => {
      const state = { ...defaults, input: 'random', first: 'none', n: 3, ...change } as State;
      return (await promptsOf(tokenizer, questionOf({ ...state, T: 200 }), 999, [])).ids.flat();
    };
    expect(new Set(await ids(tokenizerWith([0, 3], 5) as Tokenizer))).toEqual(new Set([1, 2, 4]));
    expect(new Set(await ids(tokenizerWith([0, 1, 2], 3) as Tokenizer))).toEqual(new Set([0]));
    // mulberry32 of 1: 0.6270739405881613, 0.002735721180215478, 0.5274470399599522
    const draw = randomGenerator(1);
    expect([draw(), draw(), draw()]).toEqual([
      0.6270739405881613, 0.002735721180215478, 0.5274470399599522,
    ]);
    const random = await ask({ input: 'random', T: 5 });
    expect([random.tokens.length, random.dropped]).toEqual([5, 0]);
    expect(random.tokens[1]).toMatchObject({ start: 0, end: 0, special: false });
    expect((await ask({ input: 'repeat', T: 1 })).ids).toEqual([[0]]);
    const repeatQuestion = {
      ...questionOf({ ...defaults, input: 'repeat', first: 'bos', T: 4 }),
      repeatedToken: 'first',
    } as const;
    expect((await promptsOf(tokenizer, repeatQuestion, 99, [])).ids).toEqual([[0, 0, 0, 0]]);
    // A model may have fewer tokens than its tokenizer.
    const randomQuestion = questionOf({ ...defaults, input: 'random', first: 'none', T: 50 });
    const drawnIds = (await promptsOf(tokenizer, randomQuestion, 99, [], 2)).ids[0]!;
    expect(Math.max(...drawnIds)).toBeLessThan(2);
    const lastSeed = await ask({ input: 'random', T: 9, n: 2, seed: 4294967295 });
    expect(lastSeed.ids[1]).toEqual((await ask({ input: 'random', T: 9, seed: 0 })).ids[0]);
  });

  it('start tokens are at most forty special tokens, those with a role first', async () => {
    const otherTokens = Array.from({ length: 60 }, (_, i) => ({
      id: i,
      text: `<${i}>`,
      kind: 'other',
    }));
    const manySpecials = {
      ...tokenizer,
      specials: [...otherTokens, ...tokenizer.specials],
    } as Tokenizer;
    const { choices } = await specialWords(manySpecials);
    expect([choices.length, ...choices.slice(0, 3)]).toEqual([40, '<s>', '</s>', '<0>']);
    const withoutNames = { ...tokenizer, specials: [], bos: 7 } as unknown as Tokenizer;
    expect(await specialWords(withoutNames)).toEqual({ automatic: [], bos: '7', choices: [] });
    expect((await specialWords({ ...withoutNames, bos: null } as Tokenizer)).bos).toBeNull();
    const addingTokenizer = {
      ...tokenizer,
      encode: (text: string) => tokenizer.encode(text, { special: ['<s>'] }),
    };
    expect(await specialOption(addingTokenizer as Tokenizer, 'bos')).toBe('auto');
    expect(await specialOption({ ...tokenizer }, 'bos')).toEqual(['<s>']);
    expect(await specialOption({ ...tokenizer }, 'none')).toBe('none');
  });

  it('a long text in a file gives its pieces as prompts, without a note about the rest', async () => {
    const words = 'a bb ccc dddd eeeee ffffff';
    const { ids, dropped } = await ask({ input: 'file', T: 3, n: 2 }, [words]);
    expect([ids, dropped]).toEqual([
      [
        [0, 2, 3],
        [0, 4, 5],
      ],
      0,
    ]);
    expect((await ask({ prompt: 'a bb ccc dddd', T: 3, n: 9 })).ids).toHaveLength(2);
    expect((await ask({ prompt: 'a bb ccc', T: 3, n: 9 })).ids).toHaveLength(1);
    expect((await ask({ prompt: 'x'.repeat(20_000) })).ids).toHaveLength(1);
  });

  it('texts come from the chosen source, and a missing text is reported', async () => {
    expect([isInputMissing('Type a sentence: there is no text yet.'), isInputMissing('x')]).toEqual(
      [true, false],
    );
    expect(isInputMissing('Choose a file of prompts: links do not contain files.')).toBe(true);
    const zoo = { heldOut: async (T: number) => [`held out ${T}`] };
    const textsFrom = (input: State['input'], file?: object) =>
      textsOf(questionOf({ ...defaults, input, T: 7 }), zoo, file as never);
    const file = { name: 'x', text: 'a\nb', splitting: 'lines' };
    expect(
      await Promise.all([
        textsFrom('heldout'),
        textsFrom('file', file),
        textsFrom('file'),
        textsFrom('text', file),
      ]),
    ).toEqual([['held out 7'], ['a', 'b'], [], []]);
    expect([
      questionOf({ ...defaults, input: 'file' }, 3).file,
      questionOf(defaults, 3).file,
      questionOf({ ...defaults, input: 'file' }).file,
    ]).toEqual([3, 0, 0]);
    const keysOfSeeds = (input: State['input']) =>
      [1, 2].map((seed) => questionKey(questionOf({ ...defaults, input, seed })));
    for (const input of ['random', 'repeat'] as const)
      expect(new Set(keysOfSeeds(input)).size).toBe(2);
    for (const input of ['text', 'heldout', 'file'] as const)
      expect(new Set(keysOfSeeds(input)).size).toBe(1);
  });
});

describe('a file of prompts', () => {
  it('has a prompt per line, or blocks between blank lines', () => {
    expect(guessSplitting('one\ntwo\n\nthree\n')).toBe('blocks');
    expect(guessSplitting('one\ntwo\nthree\n')).toBe('lines');
    expect(guessSplitting('one\n\ntwo\n\nthree')).toBe('lines');
  });

  it('and typed text are cut as on the command line and in Python', async () => {
    const { splits, cuts, texts, T } = JSON.parse(cutsJson) as Cuts;
    for (const { file: text, lines, blocks, whole } of splits) {
      const zoo = { heldOut: () => Promise.reject(new Error('not asked')) };
      const split = (splitting: Splitting) =>
        textsOf(questionOf({ ...defaults, input: 'file' }), zoo, { name: 'a', text, splitting });
      expect(await Promise.all((['lines', 'blocks', 'whole'] as const).map(split))).toEqual([
        lines,
        blocks,
        whole,
      ]);
    }
    for (const [path, expected] of Object.entries(cuts)) {
      const ownTokenizer = openTokenizer(tokenizerFiles[`../../${path}`]!);
      const idsOf = async (change: Partial<State>) =>
        (
          await promptsOf(
            ownTokenizer,
            questionOf({ ...defaults, T, n: 99, ...change }),
            999,
            texts,
          )
        ).ids;
      expect(await idsOf({ input: 'file' })).toEqual(expected.beginnings);
      const typedIds = await idsOf({ input: 'text', prompt: texts.at(-1)! });
      expect(typedIds).toEqual(expected['last text']);
    }
  });

  it('is rejected with what was expected if it is not text', async () => {
    const file = (bytes: BlobPart) => new File([bytes], 'x.bin');
    await expect(readPrompts(file(new Uint8Array([0xff, 0xfe, 0xfd])))).rejects.toThrow(
      /x\.bin: expected UTF-8 text/,
    );
    await expect(readPrompts(file(' \n'))).rejects.toThrow(/expected prompts, found an empty file/);
    const fileOfSize = (size: number) =>
      Object.defineProperty(file('abc'), 'size', { value: size });
    await expect(readPrompts(fileOfSize(20_000_001))).rejects.toThrowErrorMatchingSnapshot();
    expect(await readPrompts(fileOfSize(20_000_000))).toMatchObject({ name: 'x.bin', text: 'abc' });
    expect(await readPrompts(file('abc'))).toMatchObject({
      splitting: 'lines',
      sha256: 'ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad',
    });
  });
});

describe('a model without a tokenizer', () => {
  const plan = { id: 'own', format: 'hf', files: { weights: [] } } as unknown as Plan;
  const idsOf = async (change: Partial<State>, texts: string[] = []) => {
    const plannedTokenizer = (await planTokenizer(plan, {} as Model)) as unknown as Tokenizer;
    return promptsOf(plannedTokenizer, questionOf({ ...defaults, ...change }), 99, texts, 30);
  };

  it('reads a text as a list of ids, and adds no start token', async () => {
    const { tokens, ids, dropped } = await idsOf({ prompt: '7, 2 #29', T: 2 });
    expect(tokens.map(({ text }) => text)).toEqual(['#7', '#2']);
    expect(ids).toEqual([[7, 2]]);
    expect(dropped).toBe(1);
    for (const first of ['bos', 'none', '', '<s>'])
      expect((await idsOf({ prompt: '7, 2', first })).ids).toEqual([[7, 2]]);
    expect((await idsOf({ input: 'file', T: 2, n: 2 }, ['1 2 3', '4 5 6'])).ids).toEqual([
      [1, 2],
      [4, 5],
    ]);
  });

  it('samples random ids, and explains how to enter a text', async () => {
    const { ids } = await idsOf({ input: 'random', T: 60 });
    expect(ids[0]).toHaveLength(60);
    expect(Math.max(...ids[0]!)).toBeLessThan(30);
    await expect(idsOf({ prompt: 'The old man' })).rejects.toThrowErrorMatchingSnapshot();
  });
});
