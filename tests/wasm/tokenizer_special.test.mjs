// Tests special tokens before and after a text, and the parsing of all kinds of stages.
import { test } from 'node:test';
import assert from 'node:assert/strict';
import { openTokenizer } from '../../wasm/index.ts';
import { tokenizerOfGguf } from '../../wasm/internal.ts';

const openFiles = ({ json, config }) => openTokenizer(json, config);

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
