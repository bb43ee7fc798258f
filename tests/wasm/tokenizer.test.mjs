import { test } from 'node:test';
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { openTokenizer } from '../../wasm/index.ts';
import { softmax } from './helper.mjs';

const file = readFileSync(new URL('tokenizer.json', softmax), 'utf8');
const config = readFileSync(new URL('tokenizer_config.json', softmax), 'utf8');
const tokenizer = openTokenizer(file, config);

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
