// Tests how JavaScript reads the conditions of a recording, which tests/native/recording.json refuses: each key and default.
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
  assertCrossRefused({ keys: 'word' }, 'cross.keys', 'token or frame or patch');
  for (const tokens of [null, [['a', 'b']], [['a', 'b'], ['c']]])
    assertCrossRefused({ tokens }, 'cross.tokens', '2 lists of 2 strings');
  assertRefused({ ...conditions, model: sizes }, 'model.mask', 'the kind bidirectional');
  assertRefused({ ...conditions, tokens: [['x'], ['y', 'z']] }, 'tokens', 'lists of 1 strings');
});

test('a NUL is refused in keys and in the texts that the core checks, and kept in token strings', () => {
  assertRefused({ ...least, 'class\0': 'x' }, 'class\0', 'keys and texts without NUL');
  assertRefused({ ...least, class: 'x\0' }, 'class', 'keys and texts without NUL');
  const { first, tokens } = read({ ...least, first: { token: '\0' }, tokens: [['\0', '\\u0000']] });
  assert.deepEqual([first.token, tokens], ['\0', [['\0', '\\u0000']]]);
});
