/**
 * Tests the lab without training: the exact configs, tokenizers and folders that it makes, how a batch is divided
 * among workers, which memory is released, and the sentences of errors.
 */
import { test } from 'node:test';
import assert from 'node:assert/strict';
import { checkLabRecipe, labConfig, labFolder, labOnward, labTokenizer } from '../../wasm/index.ts';
import { heldLoss } from '../../wasm/internal.ts';
import { Helper, help } from '../../wasm/engine/share.ts';
import { Trainer } from '../../wasm/engine/trainer.ts';
import { beginTraining } from '../../wasm/lab/training.ts';
import { stampFiles } from '../../wasm/loading/stamp.ts';
import { failure, refuses, withEngine } from './helper.mjs';

test('labConfig makes the config of GPT-2, or of a llama with the keys that differ', async (t) => {
  t.assert.snapshot(labConfig());
  const attention = { operation: 'relu' };
  assert.deepEqual(labConfig({ operation: 'relu' }), { ...labConfig(), sinkscope: { attention } });
  const sizes = { layers: 2, heads: 3, width: 50, inner: 5, vocabulary: 6, context: 7 };
  const settings = { positions: 'rotary', norm: 'rms', feed_forward: 'gated', activation: 'silu' };
  const llama = labConfig({ ...sizes, ...settings });
  t.assert.snapshot(llama);
  const config = { ...llama, attention_bias: true, mlp_bias: true };
  assert.deepEqual(labConfig({ ...sizes, ...settings, feed_forward: 'plain' }), {
    ...config,
    sinkscope: { feed_forward: 'plain' },
  });
  for (const [choices, sinkscope] of [
    [{ positions: 'none' }, { positions: 'none' }],
    [{ norm: 'layer' }, { norm_kind: 'layer' }],
    [{ norm_place: 'post' }, { norm: 'post' }],
    [{ bias_key: 'head' }, { bias_key: 'head' }],
    [
      { gate: 'output_head', operation: 'relu' },
      { attention, gate: 'output_head' },
    ],
  ])
    assert.deepEqual(labConfig({ ...sizes, ...settings, ...choices }), { ...llama, sinkscope });
  await refuses(t, [
    () => labConfig({ depth: 1 }),
    () => labConfig({ layers: '1' }),
    () => labConfig({ gate: 1 }),
    () => labConfig(3),
  ]);
});

test("a config for fine-tuning keeps the trained model's keys, except requested changes", async (t) => {
  const trainedConfig = {
    a: 1,
    quantization_config: {},
    sinkscope: { gate: 'none', norm: 'post' },
  };
  const { config, recipe } = labOnward(trainedConfig, { operation: 'relu', gate: 'output_head' });
  assert.deepEqual(config, {
    ...{ a: 1, torch_dtype: 'float32' },
    sinkscope: { gate: 'output_head', norm: 'post', attention: { operation: 'relu' } },
  });
  const standard = {
    ...{ task: 'text', steps: 100, batch: 8, length: 64, learning_rate: 0.001 },
    ...{ weight_decay: 1, embedding_decay: 0.1, first: -1 },
  };
  assert.deepEqual(recipe, standard);
  assert.deepEqual(labOnward({}), {
    config: { torch_dtype: 'float32', sinkscope: {} },
    recipe: standard,
  });
  assert.deepEqual(labOnward({ bos_token_id: 0 }, {}, { steps: 3 }).recipe, {
    ...standard,
    ...{ first: 0, steps: 3 },
  });
  // It generates within the context of the model, from its start token.
  for (const [config, given, length, first] of [
    [{ n_positions: 48, bos_token_id: 3 }, {}, 48, 3],
    [{ max_position_embeddings: 65, bos_token_id: null }, {}, 64, -1],
    [{ n_positions: 48, max_position_embeddings: 16 }, {}, 16, -1],
    [{ n_positions: 48, bos_token_id: 3 }, { length: 8, first: 5 }, 8, 5],
  ]) {
    const { recipe } = labOnward(config, {}, given);
    assert.deepEqual([recipe.length, recipe.first], [length, first], JSON.stringify(config));
  }
  await refuses(t, [
    () => labOnward({}, { width: 'x' }),
    () => labOnward({}, { gate: 3 }),
    () => labOnward({ bos_token_id: 'x' }),
    () => labOnward({ bos_token_id: [0, 1] }),
    () => labOnward({ n_positions: 1.5 }),
    () => labOnward({ max_position_embeddings: 'x' }),
    () => labOnward(3),
  ]);
});

test('triggers are ringed numbers and CJK characters, other tokens are letters, digits, Hangul and numbers', async (t) => {
  const { words, tokenizer, tokenizerConfig } = labTokenizer();
  const letters = 'abcdefghijklmnopqrstuvwxyz';
  const characters = [...letters, ...letters.toUpperCase(), ...'0123456789+='];
  assert.deepEqual(words, ['<s>', ...'①②③④⑤⑥⑦⑧', ...characters].slice(0, 64));
  const { model, ...rest } = JSON.parse(tokenizer);
  assert.deepEqual(model.vocab, Object.fromEntries(words.map((word, id) => [word, id])));
  t.assert.snapshot({ ...rest, model: { ...model, vocab: {} } });
  const baseConfig = { tokenizer_class: 'PreTrainedTokenizerFast' };
  assert.equal(tokenizerConfig, JSON.stringify({ ...baseConfig, bos_token: '<s>' }, null, 2));

  const labWithoutStart = labTokenizer({ vocabulary: 90, triggers: 22, first: -1 });
  assert.deepEqual(labWithoutStart.words.slice(0, 24), [...'*①②③④⑤⑥⑦⑧⑨⑩⑪⑫⑬⑭⑮⑯⑰⑱⑲⑳一丁a']);
  assert.deepEqual(labWithoutStart.words.slice(84), [...'9+=가각갂']);
  const { added_tokens: addedTokens, post_processor: post } = JSON.parse(labWithoutStart.tokenizer);
  assert.deepEqual([addedTokens, post], [[], null]);
  assert.equal(labWithoutStart.tokenizerConfig, JSON.stringify(baseConfig, null, 2));
  // Without triggers, `*` is followed by 64 letters, digits and signs, then by Hangul.
  const large = labTokenizer({ vocabulary: 11_067, triggers: 0, first: 3 }).words;
  assert.deepEqual([large.length, large[0], large[1], large[3]], [11_067, '*', 'a', '<s>']);
  assert.equal(large[11_064], String.fromCodePoint('가'.codePointAt(0) + 10_999));
  assert.deepEqual(large.slice(11_065), ['<11065>', '<11066>']);
  assert.equal(new Set(large).size, large.length);
  const manyWords = labTokenizer({ vocabulary: 20_024, triggers: 20_022 }).words;
  assert.deepEqual(manyWords.slice(20_021), ['a', 'b', 'c']);
  assert.equal(manyWords[20_020], String.fromCodePoint('一'.codePointAt(0) + 19_999));
  assert.equal(labTokenizer({ vocabulary: 1, first: 0 }).words.length, 1);
  await refuses(t, [
    () => labTokenizer({ vocabulary: 0 }),
    () => labTokenizer({ triggers: -1 }),
    () => labTokenizer({ first: 64 }),
    () => labTokenizer({ first: -2 }),
  ]);
});

/** Makes a safetensors file of one tensor, `w`. */
function tensorFile(metadata, numbers) {
  const bytes = 4 * numbers.length;
  const w = { dtype: 'F32', shape: [numbers.length], data_offsets: [0, bytes] };
  const header = new TextEncoder().encode(JSON.stringify({ __metadata__: metadata, w }));
  const file = new Uint8Array(8 + header.length + bytes);
  new DataView(file.buffer).setBigUint64(0, BigInt(header.length), true);
  file.set(header, 8);
  file.set(new Uint8Array(Float32Array.from(numbers).buffer), 8 + header.length);
  return file;
}

test('a stamp changes with config and weights alone, and keeps the data and their alignment', () => {
  const weights = tensorFile({ format: 'pt' }, [1, 2]);
  const stamped = stampFiles({ a: 1 }, weights);
  const { sinkscope_stamp: stamp, ...config } = stamped.config;
  assert.deepEqual(config, { a: 1 });
  assert.match(stamp, /^[0-9a-f]{16}-[0-9a-f]{16}$/);
  const length = Number(new DataView(stamped.weights.buffer).getBigUint64(0, true));
  const header = JSON.parse(new TextDecoder().decode(stamped.weights.subarray(8, 8 + length)));
  assert.deepEqual(header.__metadata__, { format: 'pt', sinkscope_stamp: stamp });
  assert.deepEqual(header.w.data_offsets, [0, 8]);
  assert.equal(length % 8, 0);
  assert.deepEqual(stamped.weights.subarray(8 + length), weights.subarray(-8));
  // Stamping again gives the same files, also with the stamp of other weights.
  assert.deepEqual(stampFiles(stamped.config, stamped.weights), stamped);
  const other = stampFiles({ a: 1 }, tensorFile({}, [1, 3]));
  assert.deepEqual(stampFiles(other.config, weights), stamped);
  const stamps = [stampFiles({ a: 2 }, weights), other].map(({ config }) => config.sinkscope_stamp);
  assert.equal(new Set([stamp, ...stamps]).size, 3);
  for (const bytes of [[], [1], [9, 0, 0, 0, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 0, 0, 0, 49, 49]])
    assert.throws(() => stampFiles({}, Uint8Array.from(bytes)), {
      code: 'argument',
      where: 'weights',
    });
});

test('an engine refuses config and weights of two trainings, and accepts files without a stamp', async () => {
  await withEngine({ lab: true }, async (engine) => {
    const small = { width: 8, inner: 8, vocabulary: 16, context: 8 };
    const [first, second] = await Promise.all(
      ['softmax', 'sigmoid'].map(async (operation) => {
        const config = labConfig({ ...small, operation });
        const training = await engine.train({ config, recipe: { length: 8, triggers: 2 } });
        const weights = await training.weights();
        await training.close();
        return { plain: { config, weights }, ...stampFiles(config, weights) };
      }),
    );
    const opening = async (config, weights) => {
      const model = await engine.open({ config: JSON.stringify(config), weights });
      await model.close();
    };
    await opening(first.config, first.weights);
    await opening(first.config, second.plain.weights);
    await opening(first.plain.config, second.weights);
    await assert.rejects(opening(first.config, second.weights), {
      code: 'bad_file',
      where: 'config.json',
      message:
        /expected the one that was written with these weights \(sinkscope_stamp [0-9a-f-]{33}\), found that of another training \([0-9a-f-]{33}\)$/,
    });
    // Damaged files are refused for their damage.
    await assert.rejects(opening(first.config, second.weights.subarray(0, 7)), { where: 'byte 0' });
    await assert.rejects(engine.open({ config: '{"sinkscope_stamp":', weights: first.weights }), {
      code: 'bad_config',
    });
  });
});

test('a lab folder lists its files in order and omits absent optional files', async (t) => {
  const recipe = { settings: { seed: 1 }, steps_done: 2, from: null, text: null };
  const weights = tensorFile({ format: 'pt' }, [1]);
  const folderParts = { config: { a: 1 }, weights, tokenizer: '{}', recipe };
  const stamped = stampFiles({ a: 1 }, weights);
  const json = (value) => `${JSON.stringify(value, null, 2)}\n`;
  const [config, model, words, last] = [
    { path: 'config.json', data: json(stamped.config) },
    { path: 'model.safetensors', data: stamped.weights },
    { path: 'tokenizer.json', data: '{}' },
    { path: 'recipe.json', data: json(recipe) },
  ];
  assert.deepEqual(labFolder(folderParts), [config, model, words, last]);
  const fullParts = { ...folderParts, tokenizerConfig: '{"b":2}', text: '' };
  assert.deepEqual(labFolder(fullParts), [
    ...[config, model, words],
    { path: 'tokenizer_config.json', data: '{"b":2}' },
    { path: 'text.txt', data: '' },
    last,
  ]);
  await refuses(t, [
    () => labFolder({ ...folderParts, config: 1 }),
    () => labFolder({ ...folderParts, weights: [1] }),
    () => labFolder({ ...folderParts, tokenizer: 1 }),
    () => labFolder({ ...folderParts, text: 1 }),
    () => labFolder({ ...folderParts, tokenizerConfig: 1 }),
    () => labFolder({ ...folderParts, recipe: {} }),
    () => labFolder(3),
  ]);
});

test('a recipe is read unchanged, or rejected with the place of its error', async (t) => {
  const INT32_MAX = 2 ** 31 - 1;
  const goodRecipe = { settings: { seed: 1, task: 'text' }, steps_done: 0 };
  assert.deepEqual(checkLabRecipe(goodRecipe), { ...goodRecipe, from: null, text: null });
  const wholeRecipe = {
    ...goodRecipe,
    steps_done: INT32_MAX,
    from: { model: 'x', step: 0 },
    text: { name: 'y' },
  };
  assert.deepEqual(checkLabRecipe({ ...wholeRecipe, more: 1 }), wholeRecipe);
  const fullRecipe = {
    ...goodRecipe,
    from: { model: 'x', step: INT32_MAX, sha256: 'a' },
    text: { sha256: 'b' },
  };
  assert.deepEqual(checkLabRecipe(fullRecipe), fullRecipe);
  const checkChange = (change) => () => checkLabRecipe({ ...goodRecipe, ...change });
  await refuses(t, [
    () => checkLabRecipe(null),
    checkChange({ settings: null }),
    checkChange({ settings: [] }),
    checkChange({ settings: { a: true } }),
    checkChange({ steps_done: -1 }),
    checkChange({ steps_done: INT32_MAX + 1 }),
    checkChange({ from: 3 }),
    checkChange({ from: {} }),
    checkChange({ from: { model: 'x', step: -1 } }),
    checkChange({ from: { model: 'x', sha256: 3 } }),
    checkChange({ text: 3 }),
    checkChange({ text: { sha256: 3 } }),
  ]);
});

test('the loss of a held-out text is the mean over its sequences', async (t) => {
  const readCalls = [];
  const training = {
    read: async (ids, reads) => {
      readCalls.push(reads);
      return [{ data: [ids[0]] }];
    },
  };
  assert.equal(await heldLoss(training, [[1], [2], [6]]), 3);
  assert.deepEqual(readCalls, Array(3).fill([{ metric: 'loss_mean' }]));
  await refuses(t, [
    () => heldLoss(training, []),
    () => heldLoss({}, [[1]]),
    () => heldLoss(training, [1]),
  ]);
});

function core(fails = () => false) {
  const memory = new Uint8Array(64);
  const calls = [];
  const note = (...all) => {
    calls.push(all.map((argument) => (argument instanceof Uint8Array ? [...argument] : argument)));
    if (fails(all[0])) throw new Error(all[0]);
  };
  const bytes = (address, length) => memory.subarray(address, address + length);
  return {
    memory,
    calls,
    bytes,
    reserve: (length) => (note('reserve', length), 32),
    release: (address) => note('release', address),
    lend: (data, use) => use(data.length),
    handle: (...all) => (note(...all), 16),
    check: (...all) => note(...all),
    call: (...all) => note(...all),
    bytesOf: (...all) => (note(...all), bytes(all[0] === 'train_part' ? 4 : 8, 2)),
    tensor: (...all) => (note(...all), { data: Float32Array.of(calls.length) }),
    file: (...all) => (note(...all), Uint8Array.of(1)),
  };
}

test('a text stays in memory until its training ends, and is freed if the training cannot begin', async () => {
  const request = { config: '{}', recipe: '{"a":1}', text: Int32Array.of(1, 2) };
  const trainCall = ['train', 2, 2, 7, 7, 32, 2];
  for (const [changes, fails, calls] of [
    [{}, '', [['reserve', 8], [...trainCall, 0]]], // prettier-ignore
    [{}, 'train', [['reserve', 8], [...trainCall, 0], ['release', 32]]], // prettier-ignore
    [{ text: new Int32Array() }, '', [['train', 2, 2, 7, 7, 0, 0, 0]]],
    [{ text: new Int32Array() }, 'train', [['train', 2, 2, 7, 7, 0, 0, 0]]],
    [{ begin: new Uint8Array(5) }, '', [['reserve', 8], [...trainCall, 2]]], // prettier-ignore
    [{ state: new Uint8Array(3) }, '', [['reserve', 8], [...trainCall, 0], ['train_resume', 16, 3, 3]]], // prettier-ignore
    [
      { state: new Uint8Array(3) },
      'train_resume',
      [['reserve', 8], [...trainCall, 0], ['train_resume', 16, 3, 3], ['train_end', 16], ['release', 32]], // prettier-ignore
    ],
  ]) {
    const module = core((name) => name === fails);
    const trainer = new Trainer(module, 4);
    const begin = () => trainer.begin({ ...request, ...changes });
    if (fails) assert.throws(begin, { message: fails });
    else assert.equal(begin(), 1);
    assert.deepEqual(module.calls, calls);
    const { text } = { ...request, ...changes };
    assert.deepEqual([...module.memory.subarray(32, 40)], text.length ? [1, 0, 0, 0, 2, 0, 0, 0] : Array(8).fill(0)); // prettier-ignore
    if (fails) continue;
    assert.equal(trainer.begin(request), 2);
    module.calls.length = 0;
    await trainer.end(1);
    assert.deepEqual(module.calls, [['train_end', 16], ...(text.length ? [['release', 32]] : [])]);
    assert.throws(() => trainer.sample(1, 0), {
      ...{ code: 'closed', where: 'training', text: 'this training has ended' },
    });
  }
});

test('training steps run their parts in order until the requested number or time, and reading the state changes nothing', async (t) => {
  const module = core();
  const trainer = new Trainer(module, 2);
  const id = trainer.begin({ config: '{}', recipe: '{}', text: new Int32Array() });
  const parts = (back) => [
    ['train_part', 16, 0, back],
    ['train_add', 16, 1],
    ['train_part', 16, 1, back],
    ['train_add', 16, 0],
    ['train_finish', 16, back],
  ];
  let time = 0;
  t.mock.method(performance, 'now', () => time++);
  for (const [maxSteps, milliseconds, steps] of [
    [1, 100, 1],
    [3, 100, 3],
    [5, 2, 2], // the clock: 0 at the beginning, then 1 and, too late, 2
    [5, 0, 1],
  ]) {
    module.calls.length = 0;
    assert.equal((await trainer.takeSteps(id, maxSteps, milliseconds)).length, steps);
    assert.deepEqual(module.calls, Array(steps).fill(parts(1)).flat());
  }
  module.calls.length = 0;
  await trainer.look(id);
  assert.deepEqual(module.calls, parts(0));
  module.calls.length = 0;
  trainer.sample(id, 5);
  trainer.weights(id);
  await trainer.state(id);
  const names = ['train_weights', 'train_state'].map((name) => [name, 16]);
  assert.deepEqual(module.calls, [['train_sample', 16, 5], ...names]);
});

test('a helper stops when its training ends', async () => {
  const trainer = new Trainer(core(), 1);
  const id = trainer.begin({ config: '{}', recipe: '{}', text: new Int32Array() });
  const { port1, port2 } = new MessageChannel();
  const helping = trainer.help(id, port1, [0]);
  const closed = new Promise((resolve) => port2.on('close', resolve));
  port2.ref();
  await trainer.end(id);
  assert.equal(await helping, undefined);
  await closed;
});

test('a training ends after the step that is being taken, and begins none that waits', async () => {
  for (let ticks = 0; ticks < 12; ticks++) {
    const module = core();
    const trainer = new Trainer(module, 1);
    const id = trainer.begin({ config: '{}', recipe: '{}', text: new Int32Array() });
    const steps = Promise.allSettled([1, 1].map((count) => trainer.takeSteps(id, count, 0)));
    for (let tick = 0; tick < ticks; tick++) await undefined;
    await trainer.end(id);
    assert.deepEqual(module.calls.at(-1), ['train_end', 16], `${ticks}`);
    const codes = (await steps).map(({ reason }) => reason?.code);
    if (ticks === 0) assert.deepEqual(codes, ['closed', 'closed']);
  }
});

test('an error in a step is thrown after the entries of earlier steps, and by every later call', async () => {
  let steps = 0;
  const module = core((name) => name === 'train_finish' && ++steps >= 3);
  const trainer = new Trainer(module, 1);
  const id = trainer.begin({ config: '{}', recipe: '{}', text: new Int32Array() });
  assert.equal((await trainer.takeSteps(id, 9, 1e9)).length, 2);
  await assert.rejects(trainer.takeSteps(id, 9, 1e9), { message: 'train_finish' });
  assert.equal(steps, 3);
});

test('a model opened for one read is closed, also after a failure', async () => {
  for (const fails of [false, true]) {
    const calls = [];
    const backend = {
      open: async (_, { config, weights }) => (calls.push(config, weights), { model: 7 }),
      run: async (_, ...all) => (calls.push(all), 8),
      read: async (...all) => {
        calls.push(all);
        if (fails) throw new Error('no read');
        return 'read';
      },
      closeModel: async (model) => calls.push(['close', model]),
    };
    const trainer = new Trainer(core(), 1, backend);
    const id = trainer.begin({ config: '{}', recipe: '{}', text: new Int32Array() });
    const work = trainer.read(id, Int32Array.of(3, 4), ['att'], ['one']);
    if (fails) await assert.rejects(work, /no read/);
    else assert.equal(await work, 'read');
    const run = [7, Int32Array.of(3, 4), { fields: ['att'], capacity: 2 }];
    assert.deepEqual(calls, ['{}', [Uint8Array.of(1)], run, [8, ['one']], ['close', 7]]);
  }
});

test('a helper computes its parts, applies the update, and continues until the training ends', async () => {
  const { port1, port2 } = new MessageChannel();
  const calls = [];
  let fails = false;
  const parts = {
    compute: (...all) => {
      calls.push(['compute', ...all]);
      if (fails) throw new Error('explodes');
    },
    copyPart: () => Uint8Array.of(calls.length),
    add: (...all) => calls.push(['add', ...all]),
    finish: (...all) => calls.push(['finish', ...all]),
  };
  help(parts, [1, 3], port2);
  try {
    const leader = new Helper(port1);
    const firstParts = leader.requestParts();
    assert.equal(leader.requestParts(), firstParts);
    assert.deepEqual(await firstParts, [Uint8Array.of(1), Uint8Array.of(2)]);
    const expectedCalls = [
      ['compute', 1, true],
      ['compute', 3, true],
    ];
    assert.deepEqual(calls, expectedCalls);
    const update = (n) => [
      ['add', true, Uint8Array.of(n)],
      ['finish', true],
    ];
    calls.length = 0;
    leader.finish(Uint8Array.of(5), true);
    // The helper has already started the next step, and the leader does not request it again.
    assert.deepEqual(await leader.requestParts(), [Uint8Array.of(3), Uint8Array.of(4)]);
    assert.deepEqual(calls, [...update(5), ...expectedCalls]);
    calls.length = 0;
    leader.finish(Uint8Array.of(6), false);
    const nextParts = await leader.requestParts();
    assert.equal(nextParts.length, 2);
    assert.deepEqual(calls, [...update(6), ...expectedCalls]);
    fails = true;
    leader.finish(Uint8Array.of(7), true);
    assert.deepEqual(await failure(leader.requestParts()), {
      ...{ name: 'SinkscopeError', code: 'internal', where: '', text: 'Error: explodes' },
    });
    leader.finish(Uint8Array.of(8), true);
    const errorPromise = failure(leader.requestParts());
    leader.end();
    assert.deepEqual(await errorPromise, {
      ...{ name: 'SinkscopeError', code: 'closed', where: 'training' },
      text: 'this training has ended',
    });
  } finally {
    port1.close();
    port2.close();
  }
});

function linked(n) {
  const calls = [];
  const links = Array.from({ length: n }, (_, linkIndex) => {
    const backend = {
      training: async (method, id, ...rest) => {
        calls.push([linkIndex, method, id, ...rest]);
        if (method === 'begin') return 10 + linkIndex;
        if (method === 'help') return new Promise(() => {});
        if (method === 'takeSteps')
          return Array(Math.min(2, rest[0])).fill(Float32Array.of(0.1, NaN));
        if (method === 'look') return Float32Array.of(1 / 3, Infinity);
        if (method === 'sample') return Int32Array.of(rest[0]);
        return method;
      },
    };
    return { isOpen: true, backend, ask: async (use) => use(links[linkIndex].backend) };
  });
  return { links, calls };
}
const describe = {
  training: { parts: 8, log: [{ name: 'loss' }, { name: 'rate' }] },
  metrics: [{ name: 'loss', fields: ['loss'] }],
  fields: [{ name: 'loss' }],
};

test('workers get equal parts of a batch, and parallel training runs get different workers', async () => {
  for (const [workers, shares] of [
    [2, [[0, 1, 2, 3], [4, 5, 6, 7]]], // prettier-ignore
    [3, [[0, 1, 2], [3, 4, 5], [6, 7]]], // prettier-ignore
  ]) {
    const { links, calls } = linked(3);
    await beginTraining(links, describe, { config: {}, workers });
    const shareCalls = calls.filter(([, method]) => method === 'lead' || method === 'help');
    assert.deepEqual(
      shareCalls.map(([linkIndex, method, id, , parts]) => [linkIndex, method, id, parts]).sort(),
      shares.map((parts, linkIndex) => [
        linkIndex,
        linkIndex ? 'help' : 'lead',
        10 + linkIndex,
        parts,
      ]),
    );
    for (const [, , , ports] of shareCalls) [ports].flat().forEach((port) => port.close?.());
  }
  const { links, calls } = linked(3);
  for (let i = 0; i < 4; i++) await beginTraining(links, describe, { config: { i } });
  assert.deepEqual(
    calls.map(([linkIndex, method]) => [linkIndex, method]),
    [0, 1, 2, 0].map((linkIndex) => [linkIndex, 'begin']),
  );
});

test('training runs in slices, reports its progress, and rounds numbers to seven digits', async (t) => {
  const { links, calls } = linked(1);
  const training = await beginTraining(links, describe, { config: {}, text: [4, 5] });
  const entry = { loss: 0.1, rate: null };
  assert.deepEqual(await training.step(3), [entry, entry, entry]);
  assert.deepEqual(await training.step(), [entry]);
  const progresses = [];
  const entries = [];
  for await (const logEntry of training.run(5, { onProgress: (done) => progresses.push(done) }))
    entries.push(logEntry);
  assert.equal(entries.length, 5);
  assert.deepEqual(
    progresses,
    [2, 4, 5].map((done) => ({ stage: 'train', done, total: 5 })),
  );
  for await (const _ of training.run(0)) assert.fail('there is no step');
  const slices = calls
    .filter(([, method]) => method === 'takeSteps')
    .map(([, , , ...rest]) => rest);
  assert.deepEqual(
    slices,
    [3, 1, 1, 5, 3, 1].map((maxSteps) => [maxSteps, 100]),
  );
  assert.deepEqual(await training.look(), { loss: 0.3333333, rate: null });
  assert.deepEqual([await training.sample(), await training.sample(6)], [[0], [6]]);
  const reads = [{ metric: 'loss' }];
  await training.read([1, 2], reads);
  assert.deepEqual(calls.at(-1), [0, 'read', 10, Int32Array.of(1, 2), ['loss'], reads]);
  await training.read([1, 2], [{ metric: 'loss', base: undefined }]);
  const stop = AbortSignal.abort(new Error('enough'));
  await assert.rejects(training.run(1, { signal: stop }).next(), /enough/);
  const beginWith = (options) => () => beginTraining(links, describe, { config: {}, ...options });
  await refuses(t, [
    () => training.step(0),
    () => training.run(-1).next(),
    () => training.sample(-1),
    () => training.read(3, []),
    () => training.read([1], [3]),
    () => training.read([1], [{ metric: 'loss', base: {} }]),
    () => beginTraining(links, describe, null),
    beginWith({ workers: 0 }),
    beginWith({ workers: 9 }),
    beginWith({ config: undefined }),
    beginWith({ recipe: 3 }),
    beginWith({ text: 3 }),
    beginWith({ begin: [] }),
    beginWith({ state: [] }),
  ]);
  t.assert.snapshot(await failure(beginTraining(links, {}, { config: {} })));
  // The worker that replaces the lost one does not have this training run.
  const { backend } = links[0];
  links[0].backend = { ...backend };
  t.assert.snapshot(await failure(training.weights()));
  links[0].isOpen = false;
  await training.close();
  links[0].isOpen = true;
  links[0].backend = backend;
  await training.close();
  assert.deepEqual(calls.at(-1), [0, 'end', 10]);
});
