// Tests untrusted tokenizers: they never block this thread, and each call ends within its time limit.
import { afterEach, beforeEach, mock, test } from 'node:test';
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { guardTokenizer, openTokenizer } from '../../wasm/index.ts';
import { headerOf } from '../gguf.mjs';
import { failure, golden, softmax } from './helper.mjs';

const text = readFileSync(new URL('tokenizer.json', softmax), 'utf8');
const config = readFileSync(new URL('tokenizer_config.json', softmax), 'utf8');
const file = JSON.parse(text);

const withStages = (change) => ({ tokenizer: JSON.stringify({ ...file, ...change }) });

function withSplit(Regex) {
  const [pattern, bytes] = [{ Regex }, { ...file.pre_tokenizer, use_regex: false }];
  const stage = { type: 'Split', pattern, behavior: 'Isolated', invert: false };
  return withStages({ pre_tokenizer: { type: 'Sequence', pretokenizers: [stage, bytes] } });
}

/** Ticks of an interval in this thread: while the thread is blocked, none come. */
let beats = 0;
let heartbeat;

// The guard ends a worker only when a test moves the clock. A real timer keeps this process alive; workers do not.
beforeEach(() => {
  mock.timers.enable({ apis: ['setTimeout'] });
  heartbeat = setInterval(() => beats++, 10);
});

afterEach(() => {
  clearInterval(heartbeat);
  mock.timers.reset();
});

test('the worker gives the tokens of the tokenizer in this thread', async () => {
  const directTokenizer = openTokenizer(text, config);
  const tokenizer = await guardTokenizer({ tokenizer: text, config });
  for (const key of ['size', 'bos', 'special', 'specials'])
    assert.deepEqual(tokenizer[key], directTokenizer[key], key);
  for (const line of ['', 'Once upon a time', 'a😀漢\u0301 \ufeff', '\ud83d half']) {
    for (const options of [
      undefined,
      { special: 'none' },
      { special: [directTokenizer.specials[1].text] },
    ]) {
      const tokens = directTokenizer.encode(line, options);
      assert.deepEqual(await tokenizer.encode(line, options), tokens);
      const ids = tokens.map(({ id }) => id);
      assert.equal(await tokenizer.decode(ids), directTokenizer.decode(ids));
    }
  }
  for (let id = -1; id <= directTokenizer.size; id++)
    assert.equal(tokenizer.piece(id), directTokenizer.piece(id));
  const specialError = await failure(tokenizer.encode('a', { special: ['nothing'] }));
  assert.deepEqual([specialError.code, specialError.where], ['argument', 'special']);
  assert.equal((await failure(tokenizer.encode(7))).code, 'argument');
  assert.equal((await tokenizer.encode('a')).length, 2, 'an error leaves it as it was');
  tokenizer.close();
  assert.equal((await failure(tokenizer.encode('a'))).code, 'closed');
});

const HOUR = 3600_000;

const STUCK_MS = 600_000;

const HOSTILE_SOURCE = withSplit('(a+)+b');

// If a worker were not ended, it would never answer the last text.
test('a stuck worker is ended, and a new one starts', { timeout: STUCK_MS }, async () => {
  const [tokenizer, other] = await Promise.all([
    guardTokenizer(HOSTILE_SOURCE),
    guardTokenizer(HOSTILE_SOURCE),
  ]);
  const harmlessTokens = await tokenizer.encode('harmless', { special: 'none' });
  assert.ok(harmlessTokens.length > 0);
  const answer = failure(tokenizer.encode('a'.repeat(64)));
  // A late answer would arrive while another worker reads a hundred texts.
  for (let i = 0; i < 100; i++)
    assert.deepEqual(await other.encode('harmless', { special: 'none' }), harmlessTokens);
  mock.timers.tick(HOUR);
  const result = await answer;
  assert.deepEqual([result.code, result.where], ['too_slow', 'text']);
  assert.match(result.text, /expected an answer within [\d.]+ s, none came.*machine may be busy/);
  assert.deepEqual(await tokenizer.encode('harmless', { special: 'none' }), harmlessTokens);
  for (const guard of [tokenizer, other]) guard.close();
});

test('forty stages that double a text end in an error', async () => {
  const stage = { type: 'Replace', pattern: { String: 'a' }, content: 'aa' };
  const normalizer = { type: 'Sequence', normalizers: Array(40).fill(stage) };
  const tokenizer = await guardTokenizer(withStages({ normalizer }), { limit: 1000 });
  // Back to the real clock: encoding doubles the text 40 times, so the guard must end it at its real limit.
  mock.timers.reset();
  const { code, where } = await failure(tokenizer.encode('a'));
  assert.ok(/too_slow|bad_tokenizer/.test(code), code);
  assert.match(where, /^(text|tokenizer\.json)$/);
  tokenizer.close();
});

test('a signal and close() end the current work', async () => {
  const reason = new Error('enough');
  const controller = new AbortController();
  const guardPromise = guardTokenizer(HOSTILE_SOURCE, { signal: controller.signal });
  controller.abort(reason);
  await assert.rejects(guardPromise, reason);
  const tokenizer = await guardTokenizer(HOSTILE_SOURCE);
  const [first, second] = ['a'.repeat(64), 'b'].map((line) => failure(tokenizer.encode(line)));
  setImmediate(() => tokenizer.close());
  assert.deepEqual([(await first).code, (await second).code], ['closed', 'closed']);
});

test('a text read with the vocab.txt of BERT is between [CLS] and [SEP]', async () => {
  const tokenizer = await guardTokenizer({ words: '[UNK]\n[CLS]\n[SEP]\nhi\n##s\n' });
  const tokens = await tokenizer.encode('His hi');
  assert.deepEqual(
    tokens.map(({ id }) => id),
    [1, 3, 4, 3, 2],
  );
  tokenizer.close();
});

test('vocab.json with merges.txt and a GGUF are opened, and invalid sources are rejected', async () => {
  const contentOf = (name) => readFileSync(new URL(`tokenizers/${name}`, golden), 'utf8');
  const [vocab, merges] = ['gpt2/vocab.json', 'gpt2/merges.txt'].map(contentOf);
  const gguf = headerOf(JSON.parse(contentOf('gemma.gguf.json')));
  for (const source of [{ vocab, merges }, { gguf }]) {
    const tokenizer = await guardTokenizer(source);
    const ids = (await tokenizer.encode('Hello there', { special: 'none' })).map(({ id }) => id);
    assert.equal(await tokenizer.decode(ids), 'Hello there');
    tokenizer.close();
  }
  for (const source of [{ tokenizer: '{' }, { vocab, merges: 'a' }, { gguf: headerOf({}) }])
    assert.match((await failure(guardTokenizer(source))).code, /bad_tokenizer|unsupported/);
  assert.equal((await failure(guardTokenizer({ gguf: Buffer.from('GGUF') }))).code, 'bad_file');
});
