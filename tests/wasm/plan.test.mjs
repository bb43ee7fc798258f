/** Tests which files of a model are chosen, and its cost in memory, with fake listings. */
import assert from 'node:assert/strict';
import test from 'node:test';
import { modelFiles } from '../../wasm/index.ts';
import { planText } from '../../wasm/internal.ts';
import { MEMORY_LIMIT, makePlan, runBytes } from '../../wasm/loading/plan.ts';
import { failure, errorOf } from './helper.mjs';

const listed = (...names) => names.map((name, i) => ({ name, bytes: 10 ** i }));
const planOf = (files, { texts = {}, ...options } = {}) =>
  makePlan(files, { id: 'x', readText: async ({ name }) => texts[name] ?? '{}', ...options });
const refusalOf = async (files, options) => {
  const { code, where, text } = await failure(planOf(files, options));
  assert.equal(code, 'read', text);
  return [where, text];
};

test('each tokenizer and config file of a model has its role in the plan', async () => {
  const roles = {
    config: 'config.json',
    tokenizer: 'tokenizer.json',
    tokenizer_config: 'tokenizer_config.json',
    special_tokens_map: 'special_tokens_map.json',
    words: 'vocab.txt',
    vocab: 'vocab.json',
    merges: 'merges.txt',
  };
  const { files, id, format, bytes, choices } = await planOf(
    listed('model.safetensors', ...Object.values(roles), 'README.md'),
  );
  const names = Object.entries(files).map(([role, file]) => [role, file.name]);
  assert.deepEqual(Object.fromEntries(names), { ...roles, weights: undefined });
  assert.deepEqual([id, format, bytes, choices], ['x', 'safetensors', 1, []]);
});

test('safetensors are preferred among formats, and a whole file among its shards', async () => {
  const index = (...names) =>
    JSON.stringify({ weight_map: Object.fromEntries(names.map((name, i) => [`t${i}`, name])) });
  const texts = {
    'model.safetensors.index.json': index('b.safetensors', 'a.safetensors', 'b.safetensors'),
    'pytorch_model.bin.index.json': index('2.bin', '1.bin'),
  };
  const allNames = [
    'config.json',
    'pytorch_model.bin.index.json',
    '1.bin',
    '2.bin',
    'pytorch_model.bin',
    'model.safetensors.index.json',
    'a.safetensors',
    'b.safetensors',
    'model.safetensors',
  ];
  // Each round removes the file that the previous round chose.
  for (const [length, format, names] of [
    [9, 'safetensors', ['model.safetensors']],
    [8, 'safetensors', ['b.safetensors', 'a.safetensors']],
    [5, 'pytorch', ['pytorch_model.bin']],
    [4, 'pytorch', ['2.bin', '1.bin']],
  ]) {
    const plan = await planOf(listed(...allNames.slice(0, length)), { texts });
    const weightNames = plan.files.weights.map(({ name }) => name);
    assert.deepEqual([plan.format, weightNames], [format, names]);
    const sum = names.reduce((total, name) => total + 10 ** allNames.indexOf(name), 0);
    assert.deepEqual([plan.bytes, plan.memory], [sum, sum]);
  }
});

test('a single file of weights may have any name, but no adapter, shard or file of a folder counts', async (t) => {
  const lone = await planOf(
    listed(
      'config.json',
      'mine.safetensors',
      'adapter_model.safetensors',
      'mine-00001-of-00002.safetensors',
      'sub/mine.safetensors',
    ),
  );
  assert.deepEqual(
    [lone.format, lone.files.weights.map(({ name }) => name)],
    ['safetensors', ['mine.safetensors']],
  );
  for (const names of [['a.safetensors', 'b.safetensors'], ['sub/a.safetensors'], ['a.bin']])
    t.assert.snapshot(await refusalOf(listed('config.json', ...names)));
});

test('an error names the first eight files that are present', async (t) => {
  const names = Array.from({ length: 10 }, (_, i) => `f${i}`);
  for (const length of [0, 8, 9, 10])
    t.assert.snapshot(await refusalOf(listed(...names.slice(0, length)), { file: 'w.bin' }));
  t.assert.snapshot(await refusalOf(listed('model.safetensors')));
});

test('an index must name 1 to 1000 files, and each must be present', async (t) => {
  const name = 'model.safetensors.index.json';
  const withMap = (weight_map) => ({ texts: { [name]: JSON.stringify({ weight_map }) } });
  const names = Array.from({ length: 1001 }, (_, i) => `${i}.safetensors`);
  const files = listed('config.json', name).concat(names.map((shardName) => ({ name: shardName })));
  const largestPlan = await planOf(files, withMap(names.slice(0, 1000)));
  assert.deepEqual([largestPlan.files.weights.length, largestPlan.bytes], [1000, 0]);
  for (const map of [names, {}, null, 'text'])
    t.assert.snapshot(await refusalOf(files, withMap(map)));
  t.assert.snapshot(await refusalOf(files.slice(0, 2), withMap({ a: 'gone' })));
  for (const text of ['{', '{ "a": NaN }'])
    assert.match(
      (await refusalOf(files, { texts: { [name]: text } }))[1],
      /^expected a JSON object, found .*JSON/,
    );
  for (const refusalFor of ['[]', 'null', '1'])
    t.assert.snapshot(await refusalOf(files, { texts: { [name]: refusalFor } }));
});

test('parts of a GGUF file are one choice, in their order, and an image encoder is ignored', async (t) => {
  const files = listed(
    'b-00002-of-00002.gguf',
    'b-00001-of-00002.gguf',
    'sub/a.GGUF',
    'mmproj-b.gguf',
    'sub/mmproj.gguf',
  );
  const choicePlan = await planOf(files);
  assert.deepEqual(choicePlan.choices, [
    { file: 'b-00001-of-00002.gguf', bytes: 11 },
    { file: 'sub/a.GGUF', bytes: 100 },
  ]);
  assert.deepEqual(
    [choicePlan.format, choicePlan.bytes, choicePlan.files.weights],
    ['gguf', 0, []],
  );
  assert.equal(choicePlan.refusal, undefined);
  const singlePlan = await planOf(files.slice(0, 2));
  assert.deepEqual([singlePlan.choices, singlePlan.bytes, singlePlan.memory], [[], 11, 11]);
  t.assert.snapshot(errorOf(() => modelFiles(choicePlan)));
});

test('a model that exceeds the memory limit is rejected with its size', async (t) => {
  const planOfBytes = (bytes) => planOf([{ name: 'm.gguf', bytes }]);
  assert.equal(MEMORY_LIMIT, 3.75 * 2 ** 30);
  assert.equal((await planOfBytes(3.75 * 2 ** 30)).refusal, undefined);
  t.assert.snapshot((await planOfBytes(3.75 * 2 ** 30 + 1)).refusal);
  const large = await planOfBytes(4.5 * 2 ** 30);
  t.assert.snapshot(large.refusal);
  assert.throws(() => modelFiles(large), { code: 'too_large', where: 'x', text: large.refusal });
  // The memory of a run counts only for weights outside of GGUF files.
  const config = JSON.stringify({ n_layer: 1, n_embd: 4, n_head: 1, vocab_size: 9 });
  const files = [
    { name: 'model.safetensors', bytes: 1000 },
    { name: 'config.json', bytes: 5 },
  ];
  const plan = await planOf(files, { texts: { 'config.json': config } });
  assert.deepEqual([plan.bytes, plan.memory], [1000, 1000 + runBytes(JSON.parse(config))]);
});

test('the sizes of a model are read under each of their names in configs', () => {
  // hidden 2*8, queries 4, keys and values 2*2, attention 2*64, adds 2*8; 3*8 + 4 + 2*5 + 7.
  const bytes = 4 * 64 * (2 * 8 + (2 + 2 * 1) * 2 + 2 * 64 + 2 * 8 + (3 * 8 + 2 * 2 + 2 * 5 + 7));
  const sizes = {
    num_hidden_layers: 1,
    hidden_size: 8,
    num_attention_heads: 2,
    num_key_value_heads: 1,
    head_dim: 2,
    intermediate_size: 5,
    vocab_size: 7,
  };
  assert.equal(runBytes(sizes), bytes);
  assert.equal(runBytes({ vocab_size: 1, text_config: sizes }), bytes);
  for (const [name, otherKeys] of Object.entries({
    num_hidden_layers: ['n_layer', 'num_layers', 'n_layers'],
    hidden_size: ['n_embd', 'd_model'],
    num_attention_heads: ['n_head', 'num_heads', 'n_heads'],
    intermediate_size: ['n_inner', 'ffn_dim'],
  }))
    for (const otherKey of otherKeys) {
      const { [name]: value, ...rest } = sizes;
      assert.equal(runBytes({ ...rest, [otherKey]: value }), bytes, otherKey);
      assert.equal(runBytes({ ...rest, [name]: null, [otherKey]: value }), bytes, otherKey);
      assert.equal(runBytes({ ...sizes, [otherKey]: 3 }), bytes, `${name} before ${otherKey}`);
    }
  // By default there are as many key heads as heads, of width D / H, and the inner width is 4 D.
  const { num_key_value_heads: _, head_dim: __, intermediate_size: ___, ...fewSizes } = sizes;
  const usualSizes = { num_key_value_heads: 2, head_dim: 4, intermediate_size: 32 };
  assert.equal(runBytes(fewSizes), runBytes({ ...fewSizes, ...usualSizes }));
  for (const config of [
    undefined,
    {},
    { ...sizes, vocab_size: 0.5 },
    { ...sizes, vocab_size: -1e6 },
  ])
    assert.equal(runBytes(config), 0);
  // Heads of 8 / 3 numbers give a fraction: q 8, k and v 16 / 3, hidden 16, attention 192, adds 16, scratch 103.
  const oddSizes = { n_layer: 1, n_embd: 8, n_head: 3, num_key_value_heads: 1, vocab_size: 7 };
  assert.equal(runBytes(oddSizes), Math.ceil(256 * (8 + 16 / 3 + 16 + 192 + 16 + 103)));
  // A token more in the vocabulary takes 4 * 64 bytes; `last` is the largest vocabulary with an estimate.
  const last = 7 + (MEMORY_LIMIT - bytes) / (4 * 64);
  assert.equal(runBytes({ ...sizes, vocab_size: last }), MEMORY_LIMIT);
  assert.equal(runBytes({ ...sizes, vocab_size: last + 1 }), 0);
});

test('a plan opens from the addresses of its files, with the options of the download', async (t) => {
  const weights = [
    { name: 'm.safetensors', url: 'https://a/m', bytes: 5, version: 'c', sha256: 'f' },
  ];
  const blob = new Blob(['{}']);
  const plan = { id: 'x', files: { config: { name: 'config.json', blob }, weights } };
  assert.deepEqual(modelFiles(plan, { token: 't', cache: true }), {
    config: blob,
    weights: [
      { url: 'https://a/m', version: 'c', bytes: 5, sha256: 'f', id: 'x', token: 't', cache: true },
    ],
  });
  assert.equal(modelFiles({ ...plan, files: { weights } }).config, undefined);
  assert.equal(await planText(plan, { blob }), '{}');
  for (const file of [{}, { url: 'nowhere' }])
    t.assert.snapshot(await failure(planText(plan, file)));
  for (const options of [{ cache: 1 }, { token: 1 }]) {
    assert.throws(() => modelFiles(plan, options), { code: 'argument' });
    await assert.rejects(planText(plan, { blob }, options), { code: 'argument' });
  }
});
