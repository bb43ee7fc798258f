// Tests special tokens before and after a text, and the parsing of all kinds of stages.
import { test } from 'node:test';
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { openTokenizer } from '../../wasm/index.ts';
import { tokenizerOfGguf, tokenizerOfVocabulary } from '../../wasm/internal.ts';
import { golden, errorOf } from './helper.mjs';

const folder = new URL('tokenizers/', golden);
const read = (name) => readFileSync(new URL(name, folder), 'utf8');
const openFiles = ({ json, config }) => openTokenizer(json, config);

const optFiles = ['vocab.json', 'merges.txt', 'tokenizer_config.json'].map((n) => read(`opt/${n}`));
const opt = openFiles(tokenizerOfVocabulary(...optFiles));
const specialTexts = (tokens) => tokens.filter((token) => token.special).map(({ text }) => text);
const failsAt = (where, use) => assert.throws(use, { code: 'argument', where });

test('OPT begins a text with </s> unless the caller chooses otherwise', () => {
  const text = 'the cat';
  const textTokens = opt.encode(text, { special: 'none' });
  assert.deepEqual(specialTexts(textTokens), []);
  assert.deepEqual(opt.encode(text)[0], { id: 2, text: '</s>', start: 0, end: 0, special: true });
  assert.deepEqual(opt.encode(text).slice(1), textTokens);
  assert.deepEqual(opt.encode(text, { special: [] }), textTokens);
  const chosenTokens = opt.encode(text, { special: ['<pad>', '</s>'] });
  assert.deepEqual(specialTexts(chosenTokens), ['<pad>', '</s>']);
  assert.deepEqual(chosenTokens.slice(2), textTokens);
  assert.deepEqual(specialTexts(opt.encode(text, { bos: true })), ['</s>']);
  assert.deepEqual(specialTexts(opt.encode(text, { bos: false })), []);
  failsAt('special', () => opt.encode(text, { special: ['<unknown>'] }));
  failsAt('special', () => opt.encode(text, { special: 'all' }));
  failsAt('special', () => opt.encode(text, { special: [7] }));
  failsAt('special', () => opt.encode(text, { bos: true, special: 'none' }));
});

test('special tokens have their names and kinds', () => {
  assert.deepEqual(opt.specials, [
    { id: 1, text: '<pad>', kind: 'pad' },
    { id: 2, text: '</s>', kind: 'bos' },
  ]);
  assert.deepEqual(opt.special, [1, 2]);
  const metadata = JSON.parse(read('smollm2.gguf.json'));
  const smollm = openFiles(tokenizerOfGguf((key) => metadata[key]));
  assert.equal(smollm.specials.length, 17);
  const kinds = smollm.specials.slice(0, 4).map(({ text, kind }) => [text, kind]);
  assert.deepEqual(kinds, [
    ['<|endoftext|>', 'unk'],
    ['<|im_start|>', 'bos'],
    ['<|im_end|>', 'eos'],
    ['<repo_name>', 'other'],
  ]);
  const files = ['vocab.json', 'merges.txt'].map((name) => read(`gpt2/${name}`));
  const gpt2 = openFiles(tokenizerOfVocabulary(...files));
  assert.deepEqual(gpt2.specials, [{ id: gpt2.bos, text: '<|endoftext|>', kind: 'bos' }]);
  assert.deepEqual(specialTexts(gpt2.encode('a')), []);
  // The zoo's tokenizer_config.json names no mask token, and a tokenizer.json of BERT may come without a config.
  const kindsOf = (name) =>
    openTokenizer(read(`${name}/tokenizer.json`)).specials.map(({ kind }) => kind);
  assert.equal(kindsOf('bert').at(-1), 'mask');
  assert.equal(kindsOf('../../../models/zoo/diffusion').at(-1), 'mask');
  assert.ok(!kindsOf('../../../models/zoo/softmax').includes('mask'));
});

const letters = { a: 0, b: 1, '#': 2, '##': 3, 'a#': 4, '</s>': 5, Ġ: 6, Ġa: 7, '<x>': 8 };
const ids = (tokenizer, text, options) => tokenizer.encode(text, options).map(({ id }) => id);

test("merges.txt may contain merges of '#', Windows line ends, and a comment in the first line", () => {
  const openMerges = (merges) => openFiles(tokenizerOfVocabulary(letters, merges));
  assert.deepEqual(ids(openMerges('# #\na #'), '##'), [3]);
  assert.deepEqual(ids(openMerges('#version: 0.2\r\n# #\r\n'), '##'), [3]);
  assert.deepEqual(ids(openMerges('#version: 0.2\na #'), '##'), [2, 2]);
});

test('tokenizer_config.json and special_tokens_map.json decide which tokens are added', (t) => {
  const map = { eos_token: { content: '</s>' } };
  const config = {
    add_eos_token: true,
    add_prefix_space: true,
    added_tokens_decoder: { 8: { content: '<x>', special: false } },
  };
  const tokenizer = openFiles(tokenizerOfVocabulary(letters, 'Ġ a', config, map));
  assert.deepEqual(ids(tokenizer, 'a<x>b'), [7, 8, 6, 1, 5]);
  assert.deepEqual(tokenizer.encode('a').at(-1), {
    id: 5,
    text: '</s>',
    start: 1,
    end: 1,
    special: true,
  });
  t.assert.snapshot(errorOf(() => tokenizerOfVocabulary(letters, '', { add_bos_token: true })));
});

test('a GGUF of SentencePiece adds a BOS by default, and has tokens with unusual names and user-defined ones', () => {
  const key = 'tokenizer.ggml.';
  const values = {
    [`${key}model`]: 'llama',
    [`${key}tokens`]: ['<unk>', '<｜begin｜>', '▁', 'a', '__proto__', '▁a', '<think>', '<0x62>'],
    [`${key}scores`]: Float32Array.of(0, 0, -2, -3, -4, -1, 0, 0),
    [`${key}token_type`]: Int32Array.of(2, 3, 1, 1, 1, 1, 4, 6),
    [`${key}bos_token_id`]: 1,
  };
  const openGguf = (change) => {
    const allValues = { ...values, ...change };
    return openFiles(tokenizerOfGguf((name) => allValues[name]));
  };
  const tokenizer = openGguf({});
  assert.deepEqual(ids(tokenizer, 'a a'), [1, 5, 5]);
  assert.deepEqual(ids(tokenizer, 'ab'), [1, 5, 7]);
  assert.deepEqual(ids(tokenizer, 'c', { special: 'none' }), [2, 0]);
  assert.deepEqual(ids(tokenizer, 'a<think>', { special: 'none' }), [5, 6]);
  assert.deepEqual(ids(tokenizer, '<｜begin｜>', { special: 'none' }), [1]);
  assert.deepEqual(tokenizer.special, [0, 1]);
  assert.equal(tokenizer.piece(4), '__proto__');
  assert.equal(tokenizer.decode([1, 5, 6, 5]), 'a<think> a');
  assert.deepEqual(ids(openGguf({ [`${key}add_bos_token`]: false }), 'a'), [5]);
  assert.deepEqual(ids(openGguf({ [`${key}add_space_prefix`]: false }), 'a'), [1, 3]);
});

function splitter(stage) {
  const pieces = 'ab|cd|ab |ab, |cd | cd| |,|  |, |1|2|12|٣|a|b|c|d|?'.split('|');
  const vocab = Object.fromEntries(pieces.map((piece, id) => [piece, id]));
  const model = { type: 'BPE', ignore_merges: true, unk_token: '?', vocab, merges: [] };
  const tokenizer = openTokenizer({ pre_tokenizer: stage, model });
  return (text) => tokenizer.encode(text).map((token) => token.text);
}

test('every behavior of Split is that of the Rust library', () => {
  const cases = [
    ['Isolated', false, ['ab', ' ', ' ', 'cd', ' ', 'ab']],
    ['Isolated', true, ['ab', ' ', ' ', 'cd', ' ', 'ab']],
    ['Removed', false, ['ab', 'cd', 'ab']],
    ['Removed', true, [' ', ' ', ' ']],
    ['MergedWithPrevious', false, ['ab ', ' ', 'cd ', 'ab']],
    ['MergedWithPrevious', true, ['ab', ' ', ' cd', ' ', 'a', 'b']],
    ['MergedWithNext', false, ['ab', ' ', ' cd', ' ', 'a', 'b']],
    ['MergedWithNext', true, ['ab ', ' ', 'cd ', 'ab']],
    ['Contiguous', false, ['ab', '  ', 'cd', ' ', 'ab']],
    ['Contiguous', true, ['ab', '  ', 'cd', ' ', 'ab']],
  ];
  for (const pattern of [{ String: ' ' }, { Regex: ' ' }]) {
    for (const [behavior, invert, expected] of cases) {
      const splitText = splitter({ type: 'Split', pattern, behavior, invert });
      assert.deepEqual(splitText('ab  cd ab'), expected, `${behavior} ${invert}`);
    }
  }
});

test('Digits splits the numerals of all scripts', () => {
  assert.deepEqual(splitter({ type: 'Digits', individual_digits: true })('ab12٣'), [
    'ab',
    '1',
    '2',
    '٣',
  ]);
  assert.deepEqual(splitter({ type: 'Digits', individual_digits: false })('ab12ab'), [
    'ab',
    '12',
    'ab',
  ]);
});
