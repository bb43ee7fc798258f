// Tests which part of a tokenizer.json each key in the metadata of a GGUF file becomes.
import { test } from 'node:test';
import assert from 'node:assert/strict';
import { planFiles } from '../../wasm/index.ts';
import { openPlan } from '../../wasm/internal.ts';
import { tokenizerOfGguf } from '../../wasm/text/gguf_tokenizer.ts';
import { headerOf } from '../gguf.mjs';
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
  assert.equal(ranks === undefined, values.merges === undefined);
  const table = Object.fromEntries(vocab.texts.map((token, id) => [token, id]));
  return { json: { ...json, model: { ...model, vocab: table } }, config };
}
const assertRefused = (t, values) => t.assert.snapshot(errorOf(() => read(values)));

const [NORMAL, UNKNOWN, CONTROL, USER, UNUSED, BYTE] = [1, 2, 3, 4, 5, 6];
const roles = { bos_token: null, eos_token: null, unk_token: null, pad_token: null };
const config = (change) => ({ ...roles, clean_up_tokenization_spaces: false, ...change });

const gpt2 = {
  model: 'gpt2',
  tokens: ['a', 'b', 'ab', 'Ġ', 'é', '<é>', '<é!>', '<unk>'],
  token_type: [NORMAL, NORMAL, NORMAL, NORMAL, BYTE, CONTROL, USER, UNKNOWN],
  merges: ['a b'],
};

test('a byte-level GGUF vocabulary adds its tokens of other types, and spells the others in byte letters', () => {
  const { json, config: settings } = read(gpt2);
  const added = json.added_tokens.map(({ id, special: isSpecial }) => [id, isSpecial]);
  assert.deepEqual([added, settings], [[[5, true], [6, false], [7, true]], config({})]); // prettier-ignore
  const chinese = read({ ...gpt2, tokens: gpt2.tokens.with(4, '漢'), token_type: undefined });
  assert.equal(Object.keys(chinese.json.model.vocab)[4], 'æ¼¢');
  assert.deepEqual(chinese.json.added_tokens, []);
});

// tokenizer_goldens.test.mjs compares their patterns with the results of the tokenizers library.
test('each name of a way to split has its normal form, its merges and its start token', (t) => {
  const longText = 'x'.repeat(79);
  for (const pre of ['gpt', 3, `${longText}yz`]) assertRefused(t, { ...gpt2, pre });
  for (const model of [undefined, 'bert', `${longText}yz`]) assertRefused(t, { model });
  assert.throws(() => tokenizerOfGguf({}), { code: 'argument', where: 'read' });
  const [, , refusal] = errorOf(() => read({ ...gpt2, pre: 'gpt' }));
  const names = /expected one of (.*), got/.exec(refusal)[1].split(', ');
  const having = (is) =>
    names.filter((pre) => is(read({ ...gpt2, pre, bos_token_id: 0 }).json)).join(' ');
  const llama3 = 'llama-bpe llama3 llama-v3 falcon3 falcon-h1 lfm2 tekken';
  const composed = 'command-r gpt-neox olmo mpt qwen2 deepseek-r1-qwen qwen35';
  assert.equal(
    having(({ normalizer }) => normalizer?.type === 'NFC'),
    composed,
  );
  assert.equal(
    having(({ model }) => model.ignore_merges),
    llama3,
  );
  assert.equal(
    having(({ post_processor }) => post_processor),
    `command-r ${llama3}`,
  );
  const splitOf = (pre) => read({ ...gpt2, pre }).json.pre_tokenizer;
  for (const pair of ['stablelm2 qwen2', 'command-r smollm', 'gpt-neox gpt-2', 'dbrx llama3'])
    assert.deepEqual(...pair.split(' ').map(splitOf), pair);
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

test('a SentencePiece vocabulary may name its unknown token, and has the merges of its file', (t) => {
  const modelOf = (change) => read({ ...llama, ...change }).json.model;
  assert.deepEqual([modelOf({}).unk_token, modelOf({}).fuse_unk], ['<unk>', true]);
  assert.equal(modelOf({ unknown_token_id: 3 }).unk_token, 'a');
  assert.deepEqual(modelOf({ merges: [] }).merges, []);
  assert.equal(modelOf({ token_type: llama.token_type.map(() => NORMAL) }).unk_token, null);
  for (const change of [{ scores: [1] }, { scores: undefined }, { add_space_prefix: 1 }])
    assertRefused(t, { ...llama, ...change });
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
    text: /at most 256 .*got 257$/,
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
  assert.equal(Object.keys(json.model.vocab).join('|'), '<unk>| |a|b|▁▁|ba|ab|<x>|c d');
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

/** Returns two- and three-letter tokens, whose merges have the order of their ids. */
function makeWords(count) {
  const letters = Array.from({ length: 52 }, (_, i) =>
    String.fromCharCode(i < 26 ? 65 + i : 71 + i),
  );
  const pairs = letters.flatMap((a) => letters.map((b) => [a, b]));
  const merges = [...pairs, ...pairs.flatMap(([a, b]) => letters.map((c) => [a + b, c]))];
  const words = merges.slice(0, count).map((merge) => merge.join(''));
  return {
    tokens: [...letters, ...words],
    merges: merges.slice(0, count).map((merge) => merge.join(' ')),
  };
}

test('a tokenizer reports its progress as often as its size asks, once its model is open', async () => {
  for (const count of [1, 4096, 4097, 20_000]) {
    const { tokens, merges } = makeWords(count);
    const expectedReports = Array.from({ length: Math.floor((count - 1) / 4096) }, (_, i) => [
      4096 * (i + 1),
      count,
    ]);
    const values = { [`${key}model`]: 'gpt2', [`${key}tokens`]: tokens, [`${key}merges`]: merges };
    const header = headerOf(values);
    const [plan] = await planFiles([{ path: 'm.gguf', file: new Blob([header]) }]);
    const reports = [];
    const engine = { open: async () => ({ header, close: async () => {} }) };
    const onProgress = ({ stage, done, total }) => reports.push([stage, done, total]);
    const { tokenizer } = await openPlan(engine, plan, { onProgress });
    assert.deepEqual(reports, [
      ['tokenizer', 0, NaN],
      ...expectedReports.map((report) => ['tokenizer', ...report]),
    ]);
    assert.equal(tokenizer.size, tokens.length);
    tokenizer.close();
  }
  const { tokens } = makeWords(9000);
  const scores = tokens.map((_, i) => -i);
  const values = { model: 'llama', tokens, scores, token_type: tokens.map(() => NORMAL) };
  const reports = [];
  tokenizerOfGguf(
    (name) => values[name.replace(key, '')],
    (...report) => reports.push(report),
  );
  assert.deepEqual(
    reports,
    [4096, 8192].map((done) => [done, 9052]),
  );
});
