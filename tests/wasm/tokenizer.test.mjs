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

test('half a surrogate pair is read as U+FFFD', () => {
  const tokens = tokenizer.encode('a\ud83db', { special: 'none' });
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
