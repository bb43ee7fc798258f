// Checks that broken tokenizers end in an error with a code and a place, never in another error, a hang or a crash.
import { test } from 'node:test';
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { openTokenizer } from '../../wasm/index.ts';
import { tokenizerOfGguf, tokenizerOfVocabulary } from '../../wasm/internal.ts';
import { JUNK, golden, randomBelow, softmax, spoil } from './helper.mjs';

const folder = new URL('tokenizers/', golden);
const read = (name, base = folder) => readFileSync(new URL(name, base), 'utf8');

const file = JSON.parse(read('tokenizer.json', softmax));
const vocab = read('gpt2/vocab.json');
const merges = read('gpt2/merges.txt');
const metadata = JSON.parse(read('sentencepiece.gguf.json'));

const text = 'Ab  cd 12\n\tthe "é😀漢" <s> the\u2581';

/** Opens and uses a tokenizer. Returns 'good', or the code of the error; any other error is thrown. */
function attempt(open) {
  const start = performance.now();
  let result = 'good';
  try {
    const { json, config } = open();
    const tokenizer = openTokenizer(json, config);
    const tokens = tokenizer.encode(text);
    for (const { id } of tokens) assert.ok(Number.isInteger(id) && id >= 0 && id < tokenizer.size);
    assert.equal(typeof tokenizer.decode(tokens.map(({ id }) => id)), 'string');
  } catch (error) {
    if (error.name !== 'SinkscopeError') throw error;
    assert.match(error.code, /^(bad_tokenizer|unsupported)$/);
    assert.ok(error.where && error.text, String(error));
    result = error.code;
  }
  assert.ok(performance.now() - start < 60_000);
  return result;
}

function tally(attempts) {
  const counts = { good: 0, bad_tokenizer: 0, unsupported: 0 };
  for (const open of attempts) counts[attempt(open)]++;
  console.log(JSON.stringify(counts));
  return counts;
}

const gguf = (values) => () => tokenizerOfGguf((key) => values[key]);

// tokenizer_fuzz.test.mjs draws whole tokenizer.json files of such values.
test('a config or metadata with a value of another kind opens or is rejected with a known error', () => {
  const random = randomBelow(2);
  const config = { bos_token: '<s>', eos_token: { content: '</s>' }, add_bos_token: true };
  const spoiledConfig = () => spoil(config, random, [...JUNK, undefined]);
  tally(Array.from({ length: 400 }, () => () => ({ json: file, config: spoiledConfig() })));
  tally(
    Array.from({ length: 400 }, () => () => tokenizerOfVocabulary(vocab, merges, spoiledConfig())),
  );
  const keys = Object.keys(metadata);
  const counts = tally(
    Array.from({ length: 200 }, () => {
      const key = keys[random(keys.length)];
      return gguf({ ...metadata, [key]: spoil(metadata[key], random, [...JUNK, undefined]) });
    }),
  );
  assert.ok(counts.good > 0 && counts.bad_tokenizer > 0 && counts.unsupported > 0);
});

test('stages nested deeper than any stack are rejected', () => {
  const DEPTH = 200000;
  const json = JSON.stringify({ ...file, pre_tokenizer: 0 });
  const nestedStages = `${'{"type":"Sequence","pretokenizers":['.repeat(DEPTH)}${']}'.repeat(DEPTH)}`;
  const deepJson = json.replace('"pre_tokenizer":0', `"pre_tokenizer":${nestedStages}`);
  assert.equal(
    attempt(() => ({ json: deepJson })),
    'bad_tokenizer',
  );
});
