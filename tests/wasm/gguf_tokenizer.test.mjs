// Tests which part of a tokenizer.json each key in the metadata of a GGUF file becomes.
import { test } from 'node:test';
import assert from 'node:assert/strict';
import { tokenizerOfGguf } from '../../wasm/text/gguf_tokenizer.ts';
import { GPT2_WORDS } from '../../wasm/text/pre_tokenizers.ts';
import { errorOf, sequence, special, templateOf } from './helper.mjs';

const key = 'tokenizer.ggml.';
function read(values) {
  const entries = Object.entries(values).map(([name, value]) => [
    name.includes('.') ? name : key + name,
    value,
  ]);
  const metadata = new Map(entries);
  const { json, config } = tokenizerOfGguf((name) => metadata.get(name));
  // As in a tokenizer.json, which has a table and no ranks.
  const { ranks, vocab, ...model } = json.model;
  assert.equal(ranks === undefined, json.pre_tokenizer === null);
  return { json: { ...json, model: { ...model, vocab: Object.fromEntries(vocab) } }, config };
}
const assertRefused = (t, values) => t.assert.snapshot(errorOf(() => read(values)));

const splitStage = (Regex) => ({
  type: 'Split',
  pattern: { Regex },
  behavior: 'Isolated',
  invert: false,
});
const [NORMAL, UNKNOWN, CONTROL, USER, UNUSED, BYTE] = [1, 2, 3, 4, 5, 6];
const roles = { bos_token: null, eos_token: null, unk_token: null, pad_token: null };
const config = (change) => ({ ...roles, clean_up_tokenization_spaces: false, ...change });

const gpt2 = {
  model: 'gpt2',
  tokens: ['a', 'b', 'ab', 'Ġ', 'é', '<é>', '<é!>', '<unk>'],
  token_type: [NORMAL, NORMAL, NORMAL, NORMAL, BYTE, CONTROL, USER, UNKNOWN],
  merges: ['a b'],
};

test('a byte-level GGUF vocabulary becomes a BPE tokenizer whose tokens, except added ones, are in byte letters', () => {
  const bytes = {
    type: 'ByteLevel',
    add_prefix_space: false,
    trim_offsets: false,
    use_regex: false,
  };
  const addedToken = (id, content, isSpecial = true) => ({
    id,
    content,
    normalized: false,
    special: isSpecial,
  });
  const { json, config: settings } = read(gpt2);
  assert.deepEqual(json, {
    version: '1.0',
    added_tokens: [addedToken(5, '<é>'), addedToken(6, '<é!>', false), addedToken(7, '<unk>')],
    normalizer: null,
    pre_tokenizer: { type: 'Sequence', pretokenizers: [splitStage(GPT2_WORDS), bytes] },
    post_processor: null,
    decoder: bytes,
    model: {
      type: 'BPE',
      ignore_merges: false,
      vocab: { a: 0, b: 1, ab: 2, Ġ: 3, é: 4, '<é>': 5, '<é!>': 6, '<unk>': 7 },
      merges: [['a', 'b']],
    },
  });
  assert.deepEqual(settings, config({}));
  // A token that is not written in byte letters, such as 漢, is converted to them.
  const chinese = read({ ...gpt2, tokens: gpt2.tokens.with(4, '漢'), token_type: undefined });
  assert.deepEqual(Object.keys(chinese.json.model.vocab).slice(3), [
    'Ġ',
    'æ¼¢',
    '<é>',
    '<é!>',
    '<unk>',
  ]);
  assert.deepEqual(chinese.json.added_tokens, []);
});

test('each name of a way to split has its patterns, its normal form and its merges', (t) => {
  const digitsThenWords = (numbers) =>
    splitStage(
      `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?[\\p{L}]+|${numbers}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+`,
    );
  const [words, oneDigit, threeDigits] = [
    splitStage(GPT2_WORDS),
    digitsThenWords('\\p{N}'),
    digitsThenWords('\\p{N}{1,3}'),
  ];
  // tokenizer_goldens.test.mjs compares these patterns with the results of the tokenizers library.
  const splitOf = (pre) => read({ ...gpt2, pre }).json.pre_tokenizer.pretokenizers.slice(0, -1);
  const falcon = [splitStage('\\p{N}+'), splitStage('[0-9][0-9][0-9]')];
  const table = {
    'gpt-2 default phi-2 exaone4': [[words], [], null, false, false],
    'smollm starcoder refact codeshell exaone': [
      [splitStage('\\p{N}'), words],
      [],
      null,
      false,
      false,
    ],
    'command-r': [[splitStage('\\p{N}'), words], [], 'NFC', false, true],
    'gpt-neox olmo mpt': [[words], [], 'NFC', false, false],
    'qwen2 deepseek-r1-qwen': [[oneDigit], [], 'NFC', false, false],
    qwen35: [splitOf('qwen35'), [], 'NFC', false, false],
    'stablelm2 hunyuan': [[oneDigit], [], null, false, false],
    'seed-coder': [splitOf('seed-coder'), [], null, false, false],
    'llama-bpe llama3 llama-v3 falcon3 falcon-h1 lfm2': [[threeDigits], [], null, true, true],
    'dbrx smaug-bpe glm4 chatglm-bpe': [[threeDigits], [], null, false, false],
    'gpt-4o llama4': [splitOf('gpt-4o'), [], null, false, false],
    tekken: [splitOf('tekken'), [], null, true, true],
    'deepseek-v3 hunyuan-dense': [splitOf('deepseek-v3'), [], null, false, false],
    falcon: [[splitStage('[\\p{P}$+<=>^~|`]+'), words], falcon, null, false, false],
    bloom: [[splitStage(' ?[^(\\s|.,!?…。，、।۔،)]+')], [], null, false, false],
  };
  for (const [names, [before, after, form, ignores, bos]] of Object.entries(table))
    for (const pre of names.split(' ')) {
      const { json } = read({ ...gpt2, pre, bos_token_id: 0 });
      const { pretokenizers } = json.pre_tokenizer;
      const [stages, otherStages] = [
        pretokenizers.slice(0, before.length),
        pretokenizers.slice(before.length),
      ];
      assert.deepEqual([stages, otherStages.slice(1)], [before, after], pre);
      assert.equal(otherStages[0].type, 'ByteLevel', pre);
      assert.deepEqual(json.normalizer, form && { type: form }, pre);
      assert.equal(json.model.ignore_merges, ignores, pre);
      assert.deepEqual(json.post_processor, bos ? templateOf(special('a'), sequence) : null, pre);
    }
  const longText = 'x'.repeat(79);
  for (const pre of ['gpt', 3, `${longText}yz`]) assertRefused(t, { ...gpt2, pre });
  for (const model of [undefined, 'bert', `${longText}yz`]) assertRefused(t, { model });
  assert.throws(() => tokenizerOfGguf({}), { code: 'argument', where: 'read' });
});

test('the metadata names the tokens that begin and end a text or have another role', (t) => {
  const ids = { bos_token_id: 0, eos_token_id: 7, unknown_token_id: 1, padding_token_id: 2 };
  const namedTokens = { bos_token: 'a', eos_token: '<unk>', unk_token: 'b', pad_token: 'ab' };
  assert.deepEqual(read({ ...gpt2, ...ids }).config, config(namedTokens));
  const [begin, end] = [special('a'), special('<unk>')];
  for (const [add_bos_token, add_eos_token, pre, expectedTemplate] of [
    [undefined, undefined, 'gpt-2', null],
    [true, false, 'gpt-2', templateOf(begin, sequence)],
    [false, true, 'gpt-2', templateOf(sequence, end)],
    [true, true, 'gpt-2', templateOf(begin, sequence, end)],
    [undefined, undefined, 'llama3', templateOf(begin, sequence)],
    [undefined, true, 'llama3', templateOf(begin, sequence, end)],
    [false, undefined, 'llama3', null],
  ]) {
    const { json } = read({ ...gpt2, ...ids, add_bos_token, add_eos_token, pre });
    assert.deepEqual(json.post_processor, expectedTemplate);
  }
  assert.equal(read({ ...gpt2, pre: 'llama3' }).json.post_processor, null);
  assert.equal(read({ ...gpt2, add_bos_token: false }).json.post_processor, null);
  for (const role of ['bos', 'eos']) assertRefused(t, { ...gpt2, [`add_${role}_token`]: true });
  for (const role of ['bos', 'eos', 'unknown', 'padding'])
    for (const id of [8, -1, 0.5, '0']) assertRefused(t, { ...gpt2, [`${role}_token_id`]: id });
  const longText = 'x'.repeat(79);
  assertRefused(t, { ...gpt2, add_bos_token: `${longText}yz` });
});

test('invalid keys are rejected with their place', (t) => {
  const numbers = (change) => ({ ...gpt2, token_type: change });
  const longToken = 'x'.repeat(90);
  for (const values of [
    { ...gpt2, tokens: ['a', ''] },
    { ...gpt2, tokens: [3] },
    { ...gpt2, tokens: 'ab' },
    { ...gpt2, tokens: gpt2.tokens.with(7, 'a') },
    { ...gpt2, tokens: [longToken, longToken], token_type: undefined },
    numbers('many'),
    numbers([1]),
    numbers(gpt2.token_type.with(0, NaN)),
    numbers(gpt2.token_type.with(2, '1')),
    { ...gpt2, merges: ['a b', 'a'] },
    { ...gpt2, merges: ['b a'] },
    { ...gpt2, merges: undefined },
  ])
    assertRefused(t, values);
  assert.equal(read(numbers(Int32Array.from(gpt2.token_type))).json.added_tokens.length, 3);
});

const llama = {
  model: 'llama',
  tokens: ['<unk>', '<s>', '▁', 'a', '▁a', '<0x62>', '<x y>'],
  token_type: [UNKNOWN, CONTROL, NORMAL, NORMAL, NORMAL, BYTE, USER],
  scores: Float32Array.of(0, 0, -2, -3, -1, 0, 0),
  bos_token_id: 1,
};
const addedToken = (id, content, isSpecial = true, normalized = false) => ({
  id,
  content,
  normalized,
  special: isSpecial,
});

test('a SentencePiece vocabulary has its stages, its byte tokens and its unknown token', (t) => {
  const block = { type: 'Replace', pattern: { String: ' ' }, content: '▁' };
  const space = { type: 'Replace', pattern: { String: '▁' }, content: ' ' };
  const strip = { type: 'Strip', content: ' ', start: 1, stop: 0 };
  const decoders = [space, { type: 'ByteFallback' }, { type: 'Fuse' }];
  const vocab = { '<unk>': 0, '<s>': 1, '▁': 2, a: 3, '▁a': 4, '<0x62>': 5, '<x y>': 6 };
  const { json, config: settings } = read(llama);
  const expected = {
    version: '1.0',
    added_tokens: [addedToken(0, '<unk>'), addedToken(1, '<s>'), addedToken(6, '<x y>', false)],
    normalizer: { type: 'Sequence', normalizers: [{ type: 'Prepend', prepend: '▁' }, block] },
    pre_tokenizer: null,
    decoder: { type: 'Sequence', decoders: [...decoders, strip] },
    post_processor: templateOf(special('<s>'), sequence),
    model: {
      type: 'BPE',
      unk_token: '<unk>',
      fuse_unk: true,
      byte_fallback: true,
      vocab,
      merges: [['▁', 'a']],
    },
  };
  assert.deepEqual(json, expected);
  assert.deepEqual(settings, config({ bos_token: '<s>', unk_token: '<unk>' }));
  assert.deepEqual(read({ ...llama, add_space_prefix: true }).json, expected);
  const withoutPrefix = read({ ...llama, add_space_prefix: false }).json;
  assert.deepEqual(withoutPrefix.normalizer, { type: 'Sequence', normalizers: [block] });
  assert.deepEqual(withoutPrefix.decoder, { type: 'Sequence', decoders });
  assert.equal(read({ ...llama, unknown_token_id: 3 }).json.model.unk_token, 'a');
  const normalTokens = { ...llama, token_type: llama.token_type.map(() => NORMAL) };
  const result = read(normalTokens);
  assert.deepEqual([result.json.model.unk_token, result.json.model.byte_fallback], [null, false]);
  assert.equal(result.config.unk_token, null);
  assert.deepEqual(result.json.added_tokens, []);
  assert.deepEqual(read({ ...llama, merges: [] }).json.model.merges, []);
  assertRefused(t, { ...llama, scores: [1] });
  assertRefused(t, { ...llama, scores: undefined });
  assertRefused(t, { ...llama, add_space_prefix: 1 });
});

/** Returns the merges of pieces, each given with its score and its type. */
function mergesOf(pieces, change) {
  const [tokens, scores, token_type] = [0, 1, 2].map((i) => pieces.map((piece) => piece[i]));
  return read({ model: 'llama', tokens, scores, token_type, ...change }).json.model.merges.map(
    (pair) => pair.join('+'),
  );
}

test('merges follow the scores; for equal scores the longest left part is first, then the longest piece', () => {
  const pieces = (...table) => table.map(([token, score, type = NORMAL]) => [token, score, type]);
  assert.deepEqual(
    mergesOf(pieces(['a', 9], ['b', 9], ['c', 9], ['bc', -2], ['ab', -1], ['abc', -1])),
    ['ab+c', 'a+bc', 'a+b', 'b+c'],
  );
  assert.deepEqual(mergesOf(pieces(['a', 0], ['b', 0], ['ab', -5], ['ba', -4], ['aa', -6])), [
    'b+a',
    'a+b',
    'a+a',
  ]);
  assert.deepEqual(mergesOf(pieces(['😀', 0], ['a', 0], ['😀a', 0], ['a😀', 1], ['😀😀', -1])), [
    'a+😀',
    '😀+a',
    '😀+😀',
  ]);
  // An emoji counts as one character, so as a left part it is as long as a letter.
  assert.deepEqual(mergesOf(pieces(['a', 0], ['bc', 0], ['😀', 0], ['😀a', 0], ['abc', 0])), [
    'a+bc',
    '😀+a',
  ]);
  const mergesOfTypes = (whole, otherStages, right) =>
    mergesOf(pieces(['a', 0, otherStages], ['b', 0, right], ['ab', 0, whole]));
  for (const type of [NORMAL, USER]) {
    assert.deepEqual(mergesOfTypes(type, NORMAL, NORMAL), ['a+b']);
    assert.deepEqual(mergesOfTypes(NORMAL, type, NORMAL), ['a+b']);
    assert.deepEqual(mergesOfTypes(NORMAL, NORMAL, type), ['a+b']);
  }
  for (const type of [UNKNOWN, CONTROL, UNUSED, BYTE]) {
    assert.deepEqual(mergesOfTypes(type, NORMAL, NORMAL), []);
    assert.deepEqual(mergesOfTypes(NORMAL, type, NORMAL), []);
    assert.deepEqual(mergesOfTypes(NORMAL, NORMAL, type), []);
  }
});

test('a piece of merges has at most 256 characters, of one or two units; others may have more', () => {
  const mergesOfToken = (token, type) =>
    mergesOf([
      [token, 0, type],
      ['a', 0, NORMAL],
    ]);
  assert.deepEqual(mergesOfToken('😀'.repeat(256), NORMAL), []);
  assert.deepEqual(mergesOfToken('a'.repeat(257), CONTROL), []);
  assert.throws(() => mergesOfToken('a'.repeat(257), NORMAL), {
    where: `${key}tokens 0`,
    text: 'expected at most 256 characters, got 257',
  });
});

test("Gemma's merges follow its ids, and its symbols of spaces are runs of block signs", () => {
  const gemma = {
    ...llama,
    'general.architecture': 'gemma2',
    tokens: ['<unk>', ' ', 'a', 'b', '  ', 'ba', 'ab', '<x>', 'c d'],
    token_type: [UNKNOWN, NORMAL, NORMAL, NORMAL, USER, NORMAL, NORMAL, USER, NORMAL],
    scores: undefined,
    bos_token_id: undefined,
  };
  const { json } = read(gemma);
  assert.deepEqual(Object.keys(json.model.vocab), [
    '<unk>',
    ' ',
    'a',
    'b',
    '▁▁',
    'ba',
    'ab',
    '<x>',
    'c d',
  ]);
  assert.deepEqual(json.model.merges, [
    ['b', 'a'],
    ['a', 'b'],
  ]);
  assert.deepEqual(json.added_tokens, [
    addedToken(0, '<unk>'),
    addedToken(4, '▁▁', false, true),
    addedToken(7, '<x>', false),
  ]);
  const llamaResult = read({ ...gemma, 'general.architecture': 'llama', scores: Array(9).fill(0) });
  assert.ok('  ' in llamaResult.json.model.vocab);
  assert.equal(llamaResult.json.added_tokens[1].normalized, false);
});
