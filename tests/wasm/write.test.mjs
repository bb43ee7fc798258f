// Tests the writing of a recording: tensors, the file format, the conditions, maps of other programs.
import { createHash } from 'node:crypto';
import { test } from 'node:test';
import assert from 'node:assert/strict';
import { recordMaps } from '../../wasm/index.ts';
import { recordRun } from '../../wasm/recording/run.ts';
import {
  conditionsOf,
  encode,
  toHalfBits,
  addPrompt,
  selectFields,
  putMeans,
} from '../../wasm/recording/write.ts';
import { tensorsOf } from '../safetensors.mjs';
import { errorOf } from './helper.mjs';

const describe = {
  version: '9.8.7',
  defaults: { eps: 0.3 },
  operations: [
    { name: 'softmax', proxy: 'weights' },
    { name: 'linear', proxy: 'raw' },
  ],
  fields: ['att', 'q', 'tokens', 'loss', 'att_bias', 'gate'].map((name) => ({
    name,
    needs: { att_bias: 'bias', gate: 'gates' }[name] ?? null,
  })),
  metrics: [
    { name: 'alpha', arguments: [] },
    { name: 'sinks', arguments: ['eps'] },
  ],
  edits: [
    { name: 'operation', label: 'another operation', parameters: [] },
    { name: 'silence', label: 'a head is silent', parameters: [] },
  ],
};
const sizes = { L: 1, H: 2, G: 1, K: 4, D: 8, V: 9, F: 16, E: 0 };
const architecture = {
  family: 'llama',
  ...sizes,
  mask: { kind: 'causal' },
  windows: [null],
  attention: { operation: 'softmax', parameters: {} },
};
const model = { describe, architecture };
const EXACT_METRICS = ['alpha', 'row_mass', 'hidden_norm', 'key_norm', 'value_norm'];

function parse(file) {
  const bytes = Buffer.from(file);
  const length = Number(bytes.readBigUInt64LE(0));
  const json = bytes.subarray(8, 8 + length).toString();
  const { __metadata__: metadata, ...entries } = JSON.parse(json);
  return {
    length,
    own: Buffer.byteLength(json.trimEnd()),
    metadata,
    conditions: JSON.parse(metadata.sinkscope),
    entries,
    tensors: new Map(tensorsOf(bytes).map(([name, entry, data]) => [name, { ...entry, data }])),
  };
}
const bytesOf = (data) => [...new Uint8Array(data.buffer, data.byteOffset, data.byteLength)];

test('numbers are rounded to halves as by Float16Array: each half, each middle of two, and next to it', () => {
  const float = new Float32Array(1);
  const bits = new Uint32Array(float.buffer);
  for (let half = 0; half < 0x7c00; half++) {
    const [low, high] = new Float16Array(Uint16Array.of(half, half + 1).buffer);
    float[0] = high === Infinity ? 65520 : (low + high) / 2;
    const middle = bits[0];
    const numbers = [
      low,
      ...[middle - 1, middle, middle + 1].map((n) => ((bits[0] = n), float[0])),
    ];
    const both = [...numbers, ...numbers.map((x) => -x)];
    const expected = new Uint16Array(Float16Array.from(both).buffer);
    assert.deepEqual(toHalfBits(both), expected, `half ${half}`);
  }
  const rest = [1e30, -1e30, Infinity, -Infinity, 2 ** -149];
  assert.deepEqual(toHalfBits(rest), new Uint16Array(Float16Array.from(rest).buffer));
  assert.equal(toHalfBits([NaN])[0] & 0x7fff, 0x7e00);
});

test('the header is padded to 8 bytes, and tensors follow without gaps, widest type first', () => {
  const fileBytes = Float32Array.of(9, 1, 2, 9);
  const parts = (name) =>
    new Map([
      ['u8', { dtype: 'U8', shape: [3], data: Uint8Array.of(1, 2, 3) }],
      ['i32', { dtype: 'I32', shape: [1], data: Int32Array.of(-5) }],
      ['f16', { dtype: 'F16', shape: [1], data: Uint16Array.of(7) }],
      [name, { dtype: 'F32', shape: [1, 2], data: fileBytes.subarray(1, 3) }],
    ]);
  for (let n = 1; n <= 16; n++) {
    const name = 'n'.repeat(n);
    const file = encode(parts(name), { a: 'é' });
    const { length, own, metadata, conditions, entries, tensors } = parse(file);
    assert.equal(length % 8, 0);
    assert.ok(length - own < 8);
    assert.equal(file.length, 8 + length + 17);
    assert.deepEqual(metadata, { 'sinkscope.recording': '1', sinkscope: '{"a":"é"}' });
    assert.deepEqual(conditions, { a: 'é' });
    assert.deepEqual(entries, {
      i32: { dtype: 'I32', shape: [1], data_offsets: [0, 4] },
      [name]: { dtype: 'F32', shape: [1, 2], data_offsets: [4, 12] },
      f16: { dtype: 'F16', shape: [1], data_offsets: [12, 14] },
      u8: { dtype: 'U8', shape: [3], data_offsets: [14, 17] },
    });
    for (const [key, { data }] of parts(name))
      assert.deepEqual([...tensors.get(key).data], bytesOf(data), key);
  }
});

test('a recorded prompt has the requested fields, small fields of the model, and exact metrics', () => {
  const selectOf = (change, options = {}) =>
    selectFields({ describe, architecture: { ...architecture, ...change } }, options);
  assert.deepEqual(selectOf({}), {
    fields: ['att'],
    smallFields: ['loss'],
    exactMetrics: EXACT_METRICS,
  });
  assert.deepEqual(selectOf({ bias: true, gates: 0 }).smallFields, ['loss', 'att_bias']);
  assert.deepEqual(selectOf({ gates: [1] }).smallFields, ['loss', 'gate']);
  assert.deepEqual(selectOf({}, { fields: ['q', 'tokens', 'loss', 'q'] }), {
    fields: ['q', 'loss'],
    smallFields: [],
    exactMetrics: EXACT_METRICS,
  });
  assert.deepEqual(selectOf({ attention: { operation: 'linear' } }).exactMetrics, [
    ...EXACT_METRICS,
    'alpha_raw',
  ]);
  assert.throws(() => selectOf({}, { fields: ['x'] }), { code: 'argument', where: 'field' });
  assert.throws(() => selectOf({ attention: { operation: 'x' } }), {
    code: 'argument',
    where: 'operation',
  });
});

/** Returns a fake run of three tokens with the numbers of its fields and metrics by name; an Error is thrown. */
function runOf(known) {
  const read = async (reads) =>
    reads.map(({ field, metric }) => {
      const number = known[field ?? metric];
      if (number instanceof Error) throw number;
      return { shape: [number.length], data: Float32Array.from(number) };
    });
  return { tokens: [4, 5, 6], read };
}
const notRecorded = Object.assign(new Error('not recorded'), { code: 'bad_request' });

test('the tensors of a prompt are named by its number, and fields missing from the run are omitted', async () => {
  const run = runOf({
    att: [1, 0.1],
    loss: [NaN, 2, 3],
    gate: notRecorded,
    alpha: [0.1],
    alpha_raw: [7],
  });
  const selection = {
    fields: ['att'],
    smallFields: ['loss', 'gate'],
    exactMetrics: ['alpha', 'alpha_raw'],
  };
  const parts = new Map();
  await addPrompt(parts, 3, run, selection, true);
  const f32 = (...numbers) => ({
    dtype: 'F32',
    shape: [numbers.length],
    data: Float32Array.from(numbers),
  });
  assert.deepEqual(Object.fromEntries(parts), {
    '3.tokens': { dtype: 'I32', shape: [3], data: Int32Array.of(4, 5, 6) },
    '3.att': { dtype: 'F16', shape: [2], data: Uint16Array.of(0x3c00, 0x2e66) },
    '3.loss': f32(2, 3),
    '3.alpha': f32(0.1),
    '3.alpha_raw': f32(7),
  });
  const fieldTensors = new Map();
  await addPrompt(
    fieldTensors,
    0,
    run,
    { fields: ['att'], smallFields: [], exactMetrics: [] },
    false,
  );
  assert.deepEqual(fieldTensors.get('0.att'), f32(1, 0.1));
  const lossTensors = new Map();
  await addPrompt(
    lossTensors,
    0,
    run,
    { fields: ['loss', 'att'], smallFields: [], exactMetrics: [] },
    true,
  );
  assert.deepEqual(
    [lossTensors.get('0.loss').dtype, lossTensors.get('0.att').dtype],
    ['F32', 'F16'],
  );
  const brokenRun = runOf({ att: [1], alpha: Object.assign(new Error('ended'), { code: 'lost' }) });
  await assert.rejects(
    addPrompt(
      new Map(),
      0,
      brokenRun,
      { fields: ['att'], smallFields: [], exactMetrics: ['alpha'] },
      false,
    ),
    /ended/,
  );
  await assert.rejects(
    addPrompt(
      new Map(),
      0,
      runOf({ att: notRecorded }),
      { fields: ['att'], small: [], exact: [] },
      false,
    ),
    /not recorded/,
  );
});

test('means of metrics that depend on eps have the thresholds as first dimension', () => {
  const meanOf = (shape, mean, deviation) => ({ shape, mean, deviation });
  const alpha = meanOf([2], [1, null], [0, null]);
  const parts = new Map();
  putMeans(parts, describe, [
    { alpha, sinks: meanOf([2], [1, 2], [3, 4]) },
    { sinks: meanOf([2], [5, 6], [7, null]) },
  ]);
  const f32 = (shape, numbers) => ({ dtype: 'F32', shape, data: Float32Array.from(numbers) });
  assert.deepEqual(Object.fromEntries(parts), {
    'mean.alpha': f32([2], [1, NaN]),
    'deviation.alpha': f32([2], [0, NaN]),
    'mean.sinks': f32([2, 2], [1, 2, 5, 6]),
    'deviation.sinks': f32([2, 2], [3, 4, 7, NaN]),
  });
  assert.throws(() => putMeans(parts, describe, [{ x: alpha }]), {
    code: 'argument',
    where: 'metric',
  });
});

test('the conditions of a recording state its metrics, its inputs and the model', (t) => {
  const recordedPrompts = {
    ids: [
      [4, 5],
      [4, 7],
    ],
    count: 3,
    T: 2,
    eps: [0.1],
  };
  t.assert.snapshot(conditionsOf(model, {}, recordedPrompts));
  const about = {
    model: { id: 'own', revision: 'r', sha256: 's', family: 'no', dtype: 'no' },
    first: { token: 'first', position: 2 },
    strings: (list) => list.map((id) => `<${id}>`),
    source: 'a text',
    sourceSha256: 'ab',
    license: 'MIT',
    command: 'none',
    class: 'COUNTERFACTUAL',
  };
  const silenceEdit = { kind: 'silence', layer: 0 };
  const prompts = { ...recordedPrompts, idsSha256: 'cd', edits: [silenceEdit] };
  t.assert.snapshot(conditionsOf(model, about, prompts));
  const emptyConditions = conditionsOf(model, {}, { ...recordedPrompts, ids: [] });
  assert.deepEqual(
    [emptyConditions.first, emptyConditions.tokens, emptyConditions.prompts.kept],
    [{ token: null, id: null, position: 0 }, [], 0],
  );
  // Only an edit of every head of every layer changes the recorded operation of the model.
  const replaceOperation = (operation, where) => ({ kind: 'operation', operation, ...where });
  for (const [edits, expectedOperation] of [
    [[replaceOperation('linear')], 'linear'],
    [[replaceOperation('linear'), silenceEdit], 'linear'],
    [[replaceOperation('linear'), replaceOperation('softmax')], 'softmax'],
    [[replaceOperation('linear', { layer: 0 })], 'softmax'],
    [[replaceOperation('linear', { head: 0 })], 'softmax'],
    [[{ ...replaceOperation('linear'), kind: 'silence' }], 'softmax'],
  ])
    assert.equal(
      conditionsOf(model, {}, { ...recordedPrompts, edits }).model.operation,
      expectedOperation,
    );
  for (const [strings, where, text] of [
    [() => ['a'], 'strings', 'expected 2 of them, got 1'],
    [() => ['a', 'b', 'c'], 'strings', 'expected 2 of them, got 3'],
    [() => ['a', 1], 'strings of prompt 0[1]', 'expected a string, got 1'],
    [() => 3, 'strings of prompt 0', 'expected a list, got 3'],
  ])
    assert.throws(() => conditionsOf(model, { strings }, recordedPrompts), {
      code: 'argument',
      where,
      text,
    });
});

test('a recorded run becomes a recording of one prompt, at the default threshold', async () => {
  const known = Object.fromEntries(EXACT_METRICS.map((name) => [name, [1]]));
  const run = runOf({ ...known, att: [1, 2], loss: [NaN, 1, 2] });
  const plainRecording = parse(await recordRun(run, model));
  const int32 = Buffer.from([4, 0, 0, 0, 5, 0, 0, 0, 6, 0, 0, 0]);
  const idsSha256 = createHash('sha256').update(int32).digest('hex');
  assert.deepEqual(
    plainRecording.conditions,
    JSON.parse(
      JSON.stringify(
        conditionsOf(model, {}, { ids: [[4, 5, 6]], idsSha256, count: 1, T: 3, eps: [0.3] }),
      ),
    ),
  );
  assert.deepEqual(
    [...plainRecording.tensors.keys()].sort(),
    ['0.att', '0.loss', '0.tokens', ...EXACT_METRICS.map((name) => `0.${name}`)].sort(),
  );
  assert.equal(plainRecording.tensors.get('0.att').dtype, 'F16');
  const optionRecording = parse(
    await recordRun(run, model, { half: false, eps: [0.1, 0.2], license: 'MIT' }),
  );
  assert.equal(optionRecording.tensors.get('0.att').dtype, 'F32');
  assert.deepEqual(
    [optionRecording.conditions.eps, optionRecording.conditions.license],
    [[0.1, 0.2], 'MIT'],
  );
});

const maps = (shape, first = 1) => ({
  shape,
  data: Float32Array.from({ length: shape.reduce((a, b) => a * b, 1) }, (_, i) => first + i),
});

test('maps of other programs get default conditions, which the caller can replace', (t) => {
  const plainRecording = parse(recordMaps([{ att: maps([1, 2, 2, 2]) }]));
  t.assert.snapshot(plainRecording.conditions);
  const aboutOptions = { source: 'a text', sourceSha256: 'ab', license: 'MIT', command: 'none' };
  const mapOptions = {
    id: 'own',
    family: 'gpt2',
    operation: 'sigmoid',
    mask: { kind: 'full' },
    G: 1,
  };
  const prompts = [
    { att: maps([1, 2, 3, 3]), tokens: ['a', 'b', 'c'] },
    { att: maps([1, 2, 2, 2], 50), tokens: ['d', 'e'] },
  ];
  const fullRecording = parse(recordMaps(prompts, { ...aboutOptions, ...mapOptions }));
  t.assert.snapshot(fullRecording.conditions);
  prompts.forEach(({ att }, i) => {
    const { dtype, shape, data } = fullRecording.tensors.get(`${i}.att`);
    assert.deepEqual([dtype, shape, [...data]], ['F32', att.shape, bytesOf(att.data)]);
  });
});

test('invalid maps are rejected with their place', (t) => {
  const [fourMaps, layer] = [maps([1, 1, 2, 2]), maps([1, 2, 2])];
  for (const prompts of [
    3,
    [],
    [3],
    [{}],
    [{ att: [] }],
    [{ att: [3] }],
    [{ att: {} }],
    [{ att: { shape: [1, 1, 1, 0.5] } }],
    [{ att: { shape: [1, 1, 1, 1] } }],
    [{ att: { shape: [1, 1, 2, 2], data: [1, 2, 3] } }],
    [{ att: { shape: [1, 1, 2, 2], data: [1, 2, 3, 4, 5] } }],
    [{ att: layer }],
    [{ att: [maps([2, 2])] }],
    [{ att: [layer, maps([2, 1, 2, 2])] }],
    [{ att: [layer, maps([2, 2, 2])] }],
    [{ att: maps([1, 1, 2, 3]) }],
    [{ att: fourMaps }, { att: maps([2, 1, 2, 2]) }],
    [{ att: fourMaps }, { att: maps([1, 2, 2, 2]) }],
    [{ att: fourMaps, tokens: ['a'] }],
    [{ att: fourMaps, tokens: ['a', 'b', 'c'] }],
    [{ att: fourMaps, tokens: ['a', 2] }],
    [{ att: fourMaps, tokens: 'ab' }],
  ])
    t.assert.snapshot(errorOf(() => recordMaps(prompts)));
});
