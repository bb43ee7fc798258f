// Tests a tokenizer that is small enough to compute by hand: its roles, its options, its refusals.
import { test } from 'node:test';
import assert from 'node:assert/strict';
import { openTokenizer } from '../../wasm/index.ts';
import { createDecoder } from '../../wasm/text/decoders.ts';
import { spellBytes } from '../../wasm/text/surface.ts';
import { planTokenizer } from '../../wasm/text/plan_tokenizer.ts';
import { errorOf } from './helper.mjs';

const specialItem = (id) => ({ SpecialToken: { id, type_id: 0 } });
const textItem = { Sequence: { id: 'A', type_id: 0 } };
const template = (...items) => ({ type: 'TemplateProcessing', single: items });
const addedToken = (id, content, changes) => ({ id, content, special: true, ...changes });
const vocab = { a: 0, b: 1, ab: 2, '<s>': 3, '</s>': 4, '<m>': 5, '?': 6 };
const plainFile = {
  added_tokens: [
    addedToken(4, '</s>'),
    addedToken(3, '<s>'),
    addedToken(5, '<m>', { special: false }),
  ],
  model: { type: 'BPE', unk_token: '?', vocab, merges: ['a b'] },
};
const templateFile = {
  ...plainFile,
  post_processor: template(specialItem('<s>'), textItem, specialItem('</s>'), specialItem('</s>')),
};
const assertRefused = (t, use) => t.assert.snapshot(errorOf(use));

test('special tokens come from the template or from the options', (t) => {
  const tokenizer = openTokenizer(templateFile);
  const textTokens = [
    { id: 2, text: 'ab', start: 0, end: 2, special: false },
    { id: 0, text: 'a', start: 2, end: 3, special: false },
  ];
  const specialToken = (id, name, position) => ({
    id,
    text: name,
    start: position,
    end: position,
    special: true,
  });
  const [begin, end] = [specialToken(3, '<s>', 0), specialToken(4, '</s>', 3)];
  for (const [options, expectedTokens] of [
    [undefined, [begin, ...textTokens, end, end]],
    [{}, [begin, ...textTokens, end, end]],
    [{ special: 'auto' }, [begin, ...textTokens, end, end]],
    [{ special: 'none' }, textTokens],
    [{ special: [] }, textTokens],
    [
      { special: ['</s>', 'b'] },
      [specialToken(4, '</s>', 0), specialToken(1, 'b', 0), ...textTokens],
    ],
  ])
    assert.deepEqual(tokenizer.encode('aba', options), expectedTokens, JSON.stringify(options));
  assert.deepEqual(
    tokenizer.encode('').map(({ id, start }) => [id, start]),
    [
      [3, 0],
      [4, 0],
      [4, 0],
    ],
  );
  for (const options of [{ special: 'all' }, { special: ['a', 'x'] }, { special: [3] }, 3])
    assertRefused(t, () => tokenizer.encode('a', options));
  assertRefused(t, () => tokenizer.encode(3));
  assertRefused(t, () => tokenizer.decode(3));
  assertRefused(t, () => tokenizer.piece('a'));
});

test('special tokens and ids beyond the vocabulary decode to an empty text', () => {
  const tokenizer = openTokenizer({ ...templateFile, decoder: { type: 'Fuse' } });
  assert.equal(tokenizer.size, 7);
  assert.equal(tokenizer.decode([3, 2, 5, 9, 0, 4]), 'ab<m>a');
  assert.equal(tokenizer.decode(Int32Array.of(9, 7)), '');
  assert.equal(tokenizer.decode([]), '');
  assert.deepEqual(
    [-1, 0, 3, 6, 7].map((id) => tokenizer.piece(id)),
    ['[-1]', 'a', '<s>', '?', '[7]'],
  );
});

test('the start token comes from the configuration, else from the template, else from a usual name', () => {
  const fileWithNames = (names) => ({
    added_tokens: names.map((name, i) => addedToken(i + 7, name)),
    model: {
      ...plainFile.model,
      vocab: { ...vocab, ...Object.fromEntries(names.map((name, i) => [name, i + 7])) },
    },
  });
  for (const [file, config, expectedBos] of [
    [plainFile, {}, 3],
    [plainFile, { bos_token: null }, null],
    [plainFile, { bos_token: '' }, 3],
    [plainFile, { bos_token: '</s>' }, 4],
    [plainFile, { bos_token: { content: '<m>' } }, 5],
    [plainFile, { bos_token: 'lost' }, 3],
    [{ ...plainFile, post_processor: template(specialItem('</s>'), textItem) }, {}, 4],
    // A typed word does not count as the token that begins a text.
    [{ ...plainFile, added_tokens: [] }, {}, null],
    [
      { ...plainFile, post_processor: template(specialItem('b'), textItem), added_tokens: [] },
      {},
      null,
    ],
    ...['<bos>', '<|begin_of_text|>', '<|startoftext|>', '[BOS]', '<|endoftext|>'].map((name) => [
      fileWithNames([name]),
      {},
      7,
    ]),
    [fileWithNames(['<|endoftext|>', '<bos>']), {}, 8],
    [fileWithNames(['<other>']), {}, null],
  ])
    assert.equal(
      openTokenizer(file, config).bos,
      expectedBos,
      JSON.stringify([file.added_tokens, config]),
    );
});

test('special tokens are in the order of their ids, each with its kind', () => {
  const kinds = (config, file = plainFile) => openTokenizer(file, config).specials;
  assert.deepEqual(kinds({}), [
    { id: 3, text: '<s>', kind: 'bos' },
    { id: 4, text: '</s>', kind: 'other' },
  ]);
  assert.deepEqual(openTokenizer(plainFile).special, [3, 4]);
  for (const [role, kind] of ['bos', 'eos', 'unk', 'pad', 'sep', 'cls', 'mask'].map((role) => [
    `${role}_token`,
    role,
  ]))
    assert.equal(kinds({ [role]: '</s>' })[1].kind, kind);
  // A token with two roles has the first that fits, in the order of the names.
  assert.equal(kinds({ pad_token: '</s>', eos_token: '</s>' })[1].kind, 'eos');
  for (const name of ['[MASK]', '<mask>']) {
    const file = {
      ...plainFile,
      added_tokens: [addedToken(5, name)],
      model: { ...plainFile.model, vocab: { ...vocab, [name]: 7 } },
    };
    assert.equal(kinds({}, { ...file, added_tokens: [addedToken(7, name)] })[0].kind, 'mask');
  }
});

test("a word missing from WordPiece's vocabulary becomes one unknown token, or is rejected if there is none", (t) => {
  const model = {
    type: 'WordPiece',
    continuing_subword_prefix: '##',
    unk_token: '?',
    vocab: { '?': 0, a: 1, '##b': 2 },
  };
  const file = { model, pre_tokenizer: { type: 'Whitespace' } };
  const tokens = openTokenizer(file).encode('ab xyz a');
  assert.deepEqual(
    tokens.map(({ id, text: read, start, end }) => [id, read, start, end]),
    [
      [1, 'a', 0, 1],
      [2, 'b', 1, 2],
      [0, '?', 3, 6],
      [1, 'a', 7, 8],
    ],
  );
  const longWord = 'x'.repeat(90);
  const lostTokenizer = openTokenizer({
    model: { ...model, unk_token: 'lost' },
    pre_tokenizer: { type: 'Whitespace' },
  });
  assertRefused(t, () => lostTokenizer.encode(longWord));
});

test('an invalid file is rejected with its place', (t) => {
  const model = (change) => ({ ...plainFile, model: { ...plainFile.model, ...change } });
  const pieces = (vocab) => ({ model: { type: 'Unigram', vocab } });
  for (const file of [
    {},
    model({ vocab: 'a' }),
    model({ vocab: { a: 0, b: 0 } }),
    model({ vocab: [['a', 0]] }),
    pieces([['a', 0], ['b']]),
    pieces([['a', Infinity]]),
    pieces([[1, 0]]),
    pieces([null]),
    model({ continuing_subword_prefix: 3 }),
    model({ merges: undefined }),
    model({ merges: ['a c'] }),
    { ...plainFile, added_tokens: {} },
    { ...plainFile, added_tokens: [addedToken(3, '<s>'), addedToken(4, '')] },
    { ...plainFile, added_tokens: [null] },
    { ...plainFile, added_tokens: [addedToken(-1, 'x')] },
    ...['Runes', 'bpe', '', 3].map((type) => ({
      ...plainFile,
      model: { ...plainFile.model, type },
    })),
    { ...plainFile, normalizer: { type: 'Runes' } },
    { ...plainFile, pre_tokenizer: { type: 'Runes' } },
    { ...plainFile, pre_tokenizer: { type: 'CharDelimiterSplit', delimiter: 'ab' } },
    {
      ...plainFile,
      post_processor: {
        type: 'TemplateProcessing',
        single: [{ SpecialToken: { id: '<s>' } }, { Sequence: { id: 'A' } }],
        special_tokens: { '<s>': { ids: [] } },
      },
    },
    { ...plainFile, post_processor: { type: 'Runes' } },
    { ...plainFile, decoder: { type: 'Runes' } },
  ])
    assertRefused(t, () => openTokenizer(file));
  assertRefused(t, () => openTokenizer(plainFile, '[]'));
});

test('errors that JavaScript throws are quoted up to 200 characters', () => {
  const splitStage = (Regex) => ({
    type: 'Split',
    pattern: { Regex },
    behavior: 'Isolated',
    invert: false,
  });
  const trips = (Regex) => {
    try {
      return openTokenizer({ ...plainFile, pre_tokenizer: splitStage(Regex) }).size;
    } catch (error) {
      assert.deepEqual([error.code, error.where], ['bad_tokenizer', 'tokenizer.json']);
      return error.text;
    }
  };
  assert.match(trips('('), /^expected patterns .* \(Invalid regular expression: /);
  // The engine's own message is cut after 200 characters.
  assert.match(trips(`(${'a'.repeat(300)}`), /^[^(]*\((?=.{200}\)$)Invalid .*aaa\)$/);
});

test('without a tokenizer in the plan, a text is a list of ids', async () => {
  const plan = (files, format = 'hf') => ({ id: 'own', format, files: { weights: [], ...files } });
  for (const files of [{}, { vocab: {} }, { merges: {} }]) {
    const tokenizer = await planTokenizer(plan(files));
    const { size, bos, special, specials } = tokenizer;
    assert.deepEqual(
      { size, bos, special, specials },
      { size: Infinity, bos: null, special: [], specials: [] },
    );
    const ids = async (text, options) =>
      (await tokenizer.encode(text, options)).map(({ id }) => id);
    for (const text of ['1, 20,3', ' 1 20\t3\n', '#1#20#3', '1 ,#20 #3'])
      assert.deepEqual(await ids(text), [1, 20, 3], text);
    assert.deepEqual(await ids('', { special: 'none' }), []);
    assert.deepEqual(await ids('  '), []);
    assert.deepEqual(await ids('123456789'), [123456789]);
    assert.equal(await tokenizer.decode([1, 20, 3]), '#1#20#3');
    assert.equal(tokenizer.piece(20), '#20');
    assert.deepEqual(await tokenizer.encode('7,  #20'), [
      { id: 7, text: '#7', start: 0, end: 1, special: false },
      { id: 20, text: '#20', start: 4, end: 7, special: false },
    ]);
    const where = 'text of a model without a tokenizer';
    const texts = '1,,2 ,1 1, 1.5 -1 1a 1234567890 ##1'.split(' ');
    for (const text of ['The old man', '1 , , 2', ...texts])
      await assert.rejects(tokenizer.encode(text), { code: 'argument', where }, text);
    await assert.rejects(tokenizer.encode(3), { where: 'text' });
    await assert.rejects(tokenizer.encode('1', { special: ['<s>'] }), { where: 'special' });
    tokenizer.close();
  }
  for (const [args, where] of [
    [[3], 'plan'],
    [[plan({}, 'gguf')], 'model'],
    [[plan({}), undefined, 3], 'options'],
    [[plan({}), undefined, { limit: 'a' }], 'limit'],
    [[plan({}), undefined, { signal: 3 }], 'signal'],
  ])
    await assert.rejects(planTokenizer(...args), { code: 'argument', where });
});

// The defaults of tokenizers 0.23, which refuses a file without the other fields.
test('by default WordPiece accepts words of 100 characters and FixedLength cuts pieces of 5', () => {
  const vocab = { '?': 0, a: 1, '##a': 2 };
  const file = { model: { type: 'WordPiece', unk_token: '?', vocab } };
  const countOf = (change, length) =>
    openTokenizer({ ...file, ...change }).encode('a'.repeat(length)).length;
  assert.deepEqual([countOf({}, 100), countOf({}, 101)], [100, 1]);
  const model = { ...file.model, max_input_chars_per_word: 1 };
  const pieces = (length) => countOf({ model, pre_tokenizer: { type: 'FixedLength' } }, length);
  assert.deepEqual([10, 11].map(pieces), [2, 3]);
});

test('characters that the library treats specially are handled like the library does', () => {
  // A byte order mark is a character like any other.
  const bytes = {
    model: { type: 'BPE', vocab: { a: 0, 'ï»¿a': 1 }, merges: [] },
    decoder: { type: 'ByteLevel' },
  };
  assert.equal(openTokenizer(bytes).piece(1), '\ufeffa');
  // In a run of bytes that is not valid UTF-8, each byte becomes a replacement character.
  const fallback = {
    model: {
      type: 'BPE',
      byte_fallback: true,
      vocab: { a: 0, '<0xF0>': 1, '<0x9F>': 2, '<0x98>': 3 },
      merges: [],
    },
    decoder: { type: 'Sequence', decoders: [{ type: 'ByteFallback' }, { type: 'Fuse' }] },
  };
  assert.equal(openTokenizer(fallback).decode([0, 1, 2, 3]), 'a\ufffd\ufffd\ufffd');
});

test('a decoder strips only its own prefix, and treats the first token separately', () => {
  for (const [stage, tokens, text] of [
    [{ type: 'WordPiece' }, ['##a', '##b', 'c'], '##ab c'],
    [{ type: 'Metaspace', add_prefix_space: false }, ['\u2581a', '\u2581b'], ' a b'],
  ])
    assert.equal(createDecoder(stage)(tokens).join(''), text, JSON.stringify(stage));
});

test('a character without a token of its own may be part of a longer token with a better score', () => {
  const encodeWithScore = (score) => {
    const vocab = [
      ['a', score],
      ['ab', -1],
    ];
    return openTokenizer({ model: { type: 'Unigram', vocab } }).encode('ab');
  };
  // An unknown character costs 10 more than the rarest token.
  for (const score of [-1, 10])
    assert.deepEqual(
      encodeWithScore(score).map(({ id }) => id),
      [1],
    );
  assert.throws(() => encodeWithScore(10.5), { name: 'SinkscopeError', message: /"b"/ });
});

test('a character beyond ASCII is spelled by its two bytes, also as the only character', () => {
  for (const character of ['a', '\x7f', '\x80', '\xff'])
    assert.equal(spellBytes(character), spellBytes(`x${character}`).slice(1), character);
});
