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
    for (const { id, start, end, special } of tokens) {
      // A file may state the ids that it puts before and after a text.
      assert.ok(Number.isInteger(id) && id >= 0 && (special || id < tokenizer.size), `id ${id}`);
      assert.ok(0 <= start && start <= end && end <= text.length, `[${start}, ${end})`);
    }
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

/** Values that no tokenizer has, and patterns that JavaScript does not read, or that match nothing. */
const VALUES = [...JUNK, undefined, '(', '[a', '(?i:', '\\p{Xx}', 'a*', '$'];

test('a tokenizer.json with a stage of another one, or a value of another kind, opens or is rejected with a known error', () => {
  const random = randomBelow(3);
  const files = JSON.parse(read('battery.json')).cases.map(({ file }) => file);
  const parts = ['normalizer', 'pre_tokenizer', 'post_processor', 'decoder', 'model'];
  const drawn = (i) => {
    const part = parts[random(parts.length)];
    const others = files.map((file) => file[part]).filter(Boolean);
    const other = others[random(others.length)];
    const value = random(4) ? spoil(other, random, VALUES) : other;
    return { json: { ...files[i % files.length], [part]: value } };
  };
  const rounds = 1500 * Number(process.env.SINKSCOPE_TRIALS ?? 1);
  const counts = tally(Array.from({ length: rounds }, (_, i) => () => drawn(i)));
  assert.ok(counts.good > 99 && counts.bad_tokenizer > 99 && counts.unsupported > 0);
});

test('a config or metadata with a value of another kind opens or is rejected with a known error', () => {
  const random = randomBelow(2);
  const config = { bos_token: '<s>', eos_token: { content: '</s>' }, add_bos_token: true };
  const spoiledConfig = () => spoil(config, random, VALUES);
  tally(Array.from({ length: 400 }, () => () => ({ json: file, config: spoiledConfig() })));
  tally(
    Array.from({ length: 400 }, () => () => tokenizerOfVocabulary(vocab, merges, spoiledConfig())),
  );
  const keys = Object.keys(metadata);
  const counts = tally(
    Array.from({ length: 200 }, () => {
      const key = keys[random(keys.length)];
      return gguf({ ...metadata, [key]: spoil(metadata[key], random, VALUES) });
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
