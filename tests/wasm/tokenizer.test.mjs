import { test } from 'node:test';
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { openTokenizer } from '../../wasm/index.ts';
import { softmax } from './helper.mjs';

const file = readFileSync(new URL('tokenizer.json', softmax), 'utf8');
const config = readFileSync(new URL('tokenizer_config.json', softmax), 'utf8');
const tokenizer = openTokenizer(file, config);

test('a tokenizer has its size, its special tokens and its pieces, and an unknown id has no text', () => {
  assert.equal(tokenizer.size, 1024);
  assert.equal(tokenizer.bos, 0);
  assert.deepEqual(tokenizer.special, [0, 1]);
  assert.equal(tokenizer.piece(0), '<s>');
  assert.equal(tokenizer.piece(260), ' a');
  assert.equal(tokenizer.piece(5000), '[5000]');
  assert.equal(tokenizer.decode([]), '');
  assert.equal(tokenizer.decode(Int32Array.of(0, 260, 5000)), ' a');
});

test('encode() begins as the tokenizer does, or without a special token', () => {
  const firstToken = (options) => tokenizer.encode('ab', options)[0];
  assert.deepEqual(firstToken(), { id: 0, text: '<s>', start: 0, end: 0, special: true });
  assert.equal(firstToken({ special: 'none' }).special, false);
  assert.equal(tokenizer.encode('', { special: 'none' }).length, 0);
  assert.throws(() => tokenizer.encode(undefined), { code: 'argument', where: 'text' });
});

test("a token with half of a character's bytes covers the whole character", () => {
  const text = 'a😀漢';
  const tokens = tokenizer.encode(text, { special: 'none' });
  const coveredTexts = tokens.map(({ start, end }) => text.slice(start, end));
  assert.deepEqual([...new Set(coveredTexts)], ['a', '😀', '漢']);
  assert.ok(tokens.some((token) => token.text === '\ufffd'));
});

test('half a surrogate pair is read as U+FFFD and keeps its place', () => {
  const tokens = tokenizer.encode('a\ud83db', { special: 'none' });
  assert.deepEqual(tokens.at(-1), {
    id: tokens.at(-1).id,
    text: 'b',
    start: 2,
    end: 3,
    special: false,
  });
  assert.equal(tokenizer.decode(tokens.map(({ id }) => id)), 'a\ufffdb');
});

test('a megabyte of text is encoded within seconds', () => {
  const text = 'The quick brown fox jumps over it. '.repeat(28600);
  const start = performance.now();
  const tokens = tokenizer.encode(text);
  const seconds = (performance.now() - start) / 1000;
  assert.equal(tokens.at(-1).end, text.length);
  console.log(`${text.length} characters in ${seconds.toFixed(1)} s`);
  assert.ok(seconds < 60);
});

// A vocabulary of words with a block sign for the space, and bytes for missing characters.
const llama = {
  added_tokens: [
    { id: 0, content: '<unk>', special: true },
    { id: 1, content: '<s>', special: true },
  ],
  normalizer: {
    type: 'Sequence',
    normalizers: [
      { type: 'Prepend', prepend: '▁' },
      { type: 'Replace', pattern: { String: ' ' }, content: '▁' },
    ],
  },
  post_processor: {
    type: 'TemplateProcessing',
    single: [{ SpecialToken: { id: '<s>', type_id: 0 } }, { Sequence: { id: 'A', type_id: 0 } }],
  },
  decoder: {
    type: 'Sequence',
    decoders: [
      { type: 'Replace', pattern: { String: '▁' }, content: ' ' },
      { type: 'ByteFallback' },
      { type: 'Fuse' },
      { type: 'Strip', content: ' ', start: 1, stop: 0 },
    ],
  },
  model: {
    type: 'BPE',
    unk_token: '<unk>',
    byte_fallback: true,
    fuse_unk: true,
    vocab: { '<unk>': 0, '<s>': 1, '▁': 2, a: 3, b: 4, '▁a': 5, '<0xC3>': 6, '<0xA9>': 7 },
    merges: ['▁ a'],
  },
};

test('a SentencePiece vocabulary writes spaces as block signs, missing characters as bytes, and puts a space in front', () => {
  const tokenizer = openTokenizer(llama);
  const spans = (text) => tokenizer.encode(text).map(({ id, start, end }) => [id, start, end]);
  assert.equal(tokenizer.bos, 1);
  assert.deepEqual(spans('a ab'), [
    [1, 0, 0],
    [5, 0, 1],
    [5, 1, 3],
    [4, 3, 4],
  ]);
  assert.deepEqual(spans('aéb'), [
    [1, 0, 0],
    [5, 0, 1],
    [6, 1, 2],
    [7, 1, 2],
    [4, 2, 3],
  ]);
  assert.equal(tokenizer.encode('ba')[1].text, ' ');
  assert.equal(tokenizer.decode([1, 5, 6, 7, 5]), 'aé a');
});

test('adjacent unknown characters form one unknown token', () => {
  const { normalizer: _, ...withoutNormalizer } = llama;
  const tokens = openTokenizer(withoutNormalizer).encode('aZYb', { special: 'none' });
  assert.deepEqual(
    tokens.map(({ id, start, end }) => [id, start, end]),
    [
      [3, 0, 1],
      [0, 1, 3],
      [4, 3, 4],
    ],
  );
});

test('a token of several characters covers the last of them after a replacement, as in the tokenizers library', () => {
  const normalizer = { type: 'Replace', pattern: { String: 'ab' }, content: '!' };
  const replacing = openTokenizer({ ...JSON.parse(file), normalizer }, config);
  const spans = replacing
    .encode('<s>cab', { special: 'none' })
    .map(({ text, start, end }) => [text, start, end]);
  assert.deepEqual(spans, [
    ['<s>', 0, 3],
    ['c', 3, 4],
    ['!', 5, 6],
  ]);
});

test('an empty match counts unless it follows another, also at the end of the text', () => {
  // Results of normalizers.Replace(Regex(pattern), '-').normalize_str(text) in tokenizers 0.23.3.
  const cases = [
    ['x*', 'ab', '-a-b-'],
    ['x*', 'axb', '-a-b-'],
    ['b*', 'ab', '-a-'],
    ['$', 'ab', 'ab-'],
    ['\\b', 'ab', '-ab-'],
    ['(?=b)|$', 'ab', 'a-b-'],
    ['x*', '', ''],
  ];
  for (const [Regex, text, expected] of cases) {
    const normalizer = { type: 'Replace', pattern: { Regex }, content: '-' };
    const replacing = openTokenizer({ ...JSON.parse(file), normalizer }, config);
    const ids = replacing.encode(text, { special: 'none' }).map(({ id }) => id);
    assert.equal(replacing.decode(ids), expected, `${Regex} in "${text}"`);
  }
});

test('a token of joined characters covers the first of them, as in the tokenizers library', () => {
  const joined = openTokenizer({ ...JSON.parse(file), normalizer: { type: 'NFC' } }, config);
  const text = 'cafe\u0301 \u1112\u1161\u11ab <s> e\u0301a';
  for (const { start, end, text: piece } of joined.encode(text, { special: 'none' })) {
    const firstToken = [...piece.normalize('NFD')].filter((sign) => !/[\u0300-\u036f]/.test(sign));
    if (!piece.includes('\ufffd'))
      assert.ok(text.slice(start, end).startsWith(firstToken.join('')));
    else assert.ok(end > start);
  }
});
