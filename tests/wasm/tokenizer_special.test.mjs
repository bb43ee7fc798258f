// Tests special tokens before and after a text, and the parsing of all kinds of stages.
import { test } from 'node:test';
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { openTokenizer } from '../../wasm/index.ts';
import { tokenizerOfGguf, tokenizerOfVocabulary } from '../../wasm/internal.ts';
import { golden } from './helper.mjs';

const folder = new URL('tokenizers/', golden);
const read = (name) => readFileSync(new URL(name, folder), 'utf8');
const openFiles = ({ json, config }) => openTokenizer(json, config);

const optFiles = ['vocab.json', 'merges.txt', 'tokenizer_config.json'].map((n) => read(`opt/${n}`));
const opt = openFiles(tokenizerOfVocabulary(...optFiles));
const specialTexts = (tokens) => tokens.filter((token) => token.special).map(({ text }) => text);
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

const ids = (tokenizer, text, options) => tokenizer.encode(text, options).map(({ id }) => id);

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
