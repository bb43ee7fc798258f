// Tests how JavaScript reads the conditions of a recording: each key, each default, each refusal.
import { test } from 'node:test';
import assert from 'node:assert/strict';
import { readConditions } from '../../wasm/engine/conditions.ts';

const sizes = { L: 2, H: 3, G: 1, K: 4, D: 5, V: 9 };
const least = { model: sizes, prompts: { count: 3, kept: 2, T: 5 } };
const read = (json) => readConditions(JSON.stringify(json));
const assertRefused = (json, where, expected) =>
  assert.throws(() => read(json), {
    code: 'bad_config',
    where,
    text: `recording: expected ${expected}`,
  });

test('all known conditions are read, and unknown ones are dropped', () => {
  const model = {
    ...sizes,
    id: 'own',
    revision: 'main',
    sha256: 'ab',
    family: 'llama',
    U: 6,
    blocks: 5,
    layers: [1, 3],
    F: 8,
    E: 2,
    dtype: 'int8',
    attention: 'sdpa',
    operation: 'sigmoid',
    mask: { kind: 'prefix', window: 4, prefix: 2 },
    windows: [4, null],
  };
  const fullConditions = {
    model,
    first: { token: '<s>', id: 0, position: 1 },
    tokens: [['<s>', 'a'], []],
    prompts: { source: 'text.txt', sha256: 'cd', source_sha256: 'ef', count: 3, kept: 2, T: 5 },
    eps: [0.1, 0, -1],
    edits: [{ kind: 'silence', label: 'every head', layer: 1 }],
    class: 'COUNTERFACTUAL',
    license: 'MIT',
    versions: { sinkscope: '1' },
    command: 'record',
  };
  assert.deepEqual(read(fullConditions), fullConditions);
  const changedConditions = {
    ...fullConditions,
    other: 1,
    model: { ...model, other: 1, mask: { ...model.mask, other: 1 } },
  };
  assert.deepEqual(read(changedConditions), fullConditions);
});

test('a window of no keys is none, and a window in the mask applies to every layer', () => {
  const windows = (change) => read({ ...least, model: { ...sizes, ...change } }).model;
  for (const [change, mask, expectedWindows] of [
    [{}, { kind: 'causal' }, [null, null]],
    [{ mask: { kind: 'window', window: 4 } }, { kind: 'window', window: 4 }, [4, 4]],
    [{ mask: { kind: 'window', window: 0 } }, { kind: 'window' }, [null, null]],
    [{ mask: { kind: 'causal', window: 4 } }, { kind: 'causal', window: 4 }, [null, null]],
    [
      { mask: { kind: 'window', window: 4 }, windows: [0, 7] },
      { kind: 'window', window: 4 },
      [null, 7],
    ],
    [{ mask: { kind: 'prefix', prefix: 0, window: null } }, { kind: 'prefix' }, [null, null]],
    [{ mask: null, windows: null }, { kind: 'causal' }, [null, null]],
  ]) {
    const conditions = windows(change);
    assert.deepEqual(
      [conditions.mask, conditions.windows],
      [mask, expectedWindows],
      JSON.stringify(change),
    );
  }
});

test('missing and null conditions have their defaults', () => {
  const { first, model, tokens, eps, edits, versions } = read({
    ...least,
    first: { id: null, position: null },
  });
  assert.deepEqual(first, { token: null, id: null, position: 0 });
  assert.deepEqual([model.U, model.F, model.E], [4, 0, 0]);
  assert.deepEqual([model.blocks, model.layers], [2, [0, 1]]);
  assert.deepEqual([tokens, eps, edits, versions], [[], [], [], {}]);
  assert.deepEqual(read({ ...least, versions: { a: 1 } }).versions, { a: '1' });
});

test('a condition of the wrong type is rejected with its key', () => {
  const model = (change) => ({ ...least, model: { ...sizes, ...change } });
  for (const value of [3, 'a', true, [1], [[]]]) {
    for (const key of ['model', 'first', 'prompts', 'versions'])
      assertRefused({ ...least, [key]: value }, key, 'an object');
    assertRefused(model({ mask: value }), 'mask', 'an object');
  }
  for (const value of [3, true, {}, []]) {
    for (const key of ['class', 'license', 'command'])
      assertRefused({ ...least, [key]: value }, key, 'a text');
    for (const key of ['id', 'revision', 'sha256', 'family', 'dtype', 'attention', 'operation'])
      assertRefused(model({ [key]: value }), key, 'a text');
    assertRefused(model({ mask: { kind: value } }), 'kind', 'a text');
    assertRefused({ ...least, first: { token: value } }, 'token', 'a text');
  }
  for (const value of ['3', 0.5, true, []]) {
    for (const key of [...Object.keys(sizes), 'blocks', 'F', 'E'])
      assertRefused(model({ [key]: value }), key, 'a whole number');
    for (const key of ['window', 'prefix'])
      assertRefused(model({ mask: { [key]: value } }), key, 'a whole number');
    for (const key of ['id', 'position'])
      assertRefused({ ...least, first: { [key]: value } }, key, 'a whole number');
    for (const key of ['count', 'kept', 'T'])
      assertRefused(
        { ...least, prompts: { ...least.prompts, [key]: value } },
        key,
        'a whole number',
      );
  }
  for (const key of Object.keys(sizes))
    for (const value of [null, undefined])
      assertRefused(model({ [key]: value }), key, 'a whole number');
  for (const layers of [3, ['a'], [null], [0, 0.5]])
    assertRefused(model({ layers }), 'layers', 'whole numbers');
  for (const windows of [3, ['a'], [null, 0.5]])
    assertRefused(model({ windows }), 'windows', 'numbers or null');
  for (const tokens of ['a', ['a'], [['a', 1]], [null]])
    assertRefused({ ...least, tokens }, 'tokens', 'lists of strings');
  for (const eps of [0.1, ['0.1'], [0.1, null]]) assertRefused({ ...least, eps }, 'eps', 'numbers');
  for (const edits of [
    {},
    [null],
    [{}],
    ['a'],
    [[]],
    [{ kind: 'a' }],
    [{ label: 'a' }],
    [{ kind: 1, label: 'a' }],
    [{ kind: 'a', label: 1 }],
  ])
    assertRefused({ ...least, edits }, 'edits', 'objects with a kind and a label');
});

test('queries of cross-attention that do not fit its keys are rejected', () => {
  const cross = {
    T: 2,
    keys: 'frame',
    tokens: [
      ['a', 'b'],
      ['c', 'd'],
    ],
  };
  const model = { ...sizes, mask: { kind: 'bidirectional' } };
  const prompts = { count: 2, kept: 2, T: 1 };
  const conditions = { model, prompts, tokens: [['x'], ['y']], cross };
  assert.deepEqual(read(conditions).cross, cross);
  const assertCrossRefused = (change, ...error) =>
    assertRefused({ ...conditions, cross: { ...cross, ...change } }, ...error);
  assertCrossRefused({ T: '2' }, 'T', 'a whole number');
  assertCrossRefused({ keys: 'word' }, 'cross.keys', 'token or frame or patch');
  for (const tokens of [null, [['a', 'b']], [['a', 'b'], ['c']]])
    assertCrossRefused({ tokens }, 'cross.tokens', '2 lists of 2 strings');
  assertRefused({ ...conditions, model: sizes }, 'model.mask', 'the kind bidirectional');
  assertRefused({ ...conditions, tokens: [['x'], ['y', 'z']] }, 'tokens', 'lists of 1 strings');
});

test('invalid JSON is rejected in a sentence', () => {
  assert.throws(() => readConditions('{'), {
    code: 'bad_config',
    where: 'recording',
    text: /^expected JSON: SyntaxError: /,
  });
});
