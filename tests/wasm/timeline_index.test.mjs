/** Tests a timeline's index: its sizes, its bounds, and the header of the file that is made of it. */
import assert from 'node:assert/strict';
import test from 'node:test';
import { toSafetensors } from '../../wasm/loading/timeline.ts';
import { parseIndex } from '../../wasm/loading/timeline_index.ts';
import { errorOf } from './helper.mjs';
import { fixture } from './timelines.mjs';

const sha256 = 'f'.repeat(64);

function index(change = () => {}) {
  const { index } = fixture();
  for (const checkpoint of index.checkpoints) Object.assign(checkpoint, { bytes: 50, sha256 });
  change(index);
  return parseIndex(JSON.stringify(index), 'x');
}

test('the index states the number of parameters and of bytes: one per step, four per whole number', () => {
  const { parameters, bytes, tensors, recipe, seed, config, checkpoints, log } = index();
  // Two tensors, [3, 2] and [2, 4], are stored as steps, and one, [5], as numbers.
  assert.deepEqual([parameters, bytes], [19, 14 + 4 * 5]);
  assert.deepEqual([recipe, seed, config], ['small', 1, 'config.json']);
  assert.deepEqual(
    tensors.map(({ size, coded }) => [size, coded]),
    [
      [6, true],
      [5, false],
      [8, true],
    ],
  );
  assert.deepEqual(checkpoints[1].scale, [0.01, 0.7].map(Math.fround));
  assert.deepEqual(checkpoints[1].from_previous, [true, false]);
  assert.deepEqual(checkpoints[0].measured, { sink_1: 0, loss: 3 });
  assert.deepEqual(log, [
    { step: 0, loss: 7 },
    { step: 5, loss: 6 },
  ]);
});

test('a value at its bound is accepted, and one beyond it is rejected with its place', () => {
  const set = (path) => (value) => (files) => {
    const keys = path.match(/\w+/g);
    const last = keys.pop();
    keys.reduce((node, key) => node[key], files)[last] = value;
  };
  const integerText = (low, high) => `a whole number from ${low} to ${high}`;
  // The place is the path, unless the last column names another.
  const placeOf = (path) => path.replace(/\.(\w+)(\[\d\])?$/, ': $1');
  for (const [path, goodValue, badValue, expected, place = placeOf(path)] of [
    ['seed', [0, 2 ** 32 - 1], [-1, 2 ** 32, 0.5, null], integerText(0, 4294967295)],
    ['checkpoints[0].step', [0, 6], [-1, 0.5], integerText(0, 1e9)],
    ['checkpoints[2].step', [8, 1e9], [1e9 + 1], integerText(0, 1e9)],
    ['checkpoints[1].step', [1, 19], [0], 'more than 0'],
    ['log[1].step', [1, 1e9], [0], 'more than 0'],
    ['checkpoints[0].bytes', [1, 2 ** 31], [0, 2 ** 31 + 1], integerText(1, 2 ** 31)],
    ['recipe', ['a', 'a'.repeat(64)], ['', 'a'.repeat(65), 'a/b', 5], 'a text like'],
    ['config', ['a', 'a/'.repeat(100)], ['', 'a'.repeat(201)], 'a text like'],
    ['tensors[0].name', ['a', 'a'.repeat(200)], ['', 'a'.repeat(201), '\n'], 'a text like'],
    ['tensors[0].coded', [true], [1, null], 'true or false'],
    ['tensors[0].shape', [[1], [2, 3]], [[], [0], [2, -1], [1.5]], 'whole numbers from 1 on'],
    [
      'tensors[1].shape',
      [[2 ** 28 - 14]],
      [[2 ** 28 - 13]],
      'at most 268435456 numbers',
      'tensors',
    ],
    ['tensors', [], [[], {}], 'a '],
    ['tensors[0]', [], [null, [], 1], 'an object'],
    ['tensors[1].name', ['b'], ['a.weight'], 'different names', 'tensors'],
    ['checkpoints[0].from_previous[0]', [false], [true], 'false in the first'],
    ['checkpoints[1].scale[0]', [1], ['x'], 'numbers'],
    ['log', [], [[]], 'a line at least'],
    ['checkpoints', [], [[]], 'a checkpoint at least'],
    [
      'checkpoints[0].file',
      ['a', 'a'.repeat(100)],
      ['', '.a', '../../secret', 'a'.repeat(101)],
      'a text like',
    ],
    ['checkpoints[0].sha256', [sha256], [sha256 + 'f', sha256.slice(1)], 'a text like'],
    ['checkpoints[0].scale', [[1, 2]], [[1], [1, 2, 3]], '2 entries'],
    ['checkpoints[0].from_previous', [[false, 1]], [[false]], '2 entries'],
    ['checkpoints[0].measured', [{}], [1, null, []], 'an object', 'checkpoints[0].measured'],
  ]) {
    for (const value of goodValue) assert.ok(index(set(path)(value)), `${path}: ${value}`);
    for (const value of badValue) {
      const [code, where, text] = errorOf(() => index(set(path)(value)));
      assert.deepEqual([code, where], ['bad_file', `x: ${place}`], `${path}: ${value}`);
      assert.ok(text.startsWith(`expected ${expected}`), text);
    }
  }
  assert.deepEqual(
    errorOf(() => index(set('recipe')('/'.repeat(100)))),
    ['bad_file', 'x: recipe', `expected a text like ^[\\w.-]{1,64}$, found "${'/'.repeat(79)}`],
  );
  assert.deepEqual(
    errorOf(() => parseIndex('[]', 'x')),
    ['bad_file', 'x', 'expected an object, found []'],
  );
});

test('the header of a safetensors file is padded to a multiple of eight bytes, and the numbers follow it', () => {
  for (const name of ['a', 'ab', 'abc', 'abcdefgh']) {
    const tensors = [
      { name, shape: [1, 2], size: 2 },
      { name: `${name}2`, shape: [3], size: 3 },
    ];
    const numbers = Float32Array.of(1, 2, 3, 4, 5);
    const file = toSafetensors(tensors, numbers);
    const header = JSON.stringify({
      [name]: { dtype: 'F32', shape: [1, 2], data_offsets: [0, 8] },
      [`${name}2`]: { dtype: 'F32', shape: [3], data_offsets: [8, 20] },
    });
    const length = header.length + ((8 - (header.length % 8)) % 8);
    const start = Buffer.alloc(8);
    start.writeBigUInt64LE(BigInt(length));
    const expected = [start, Buffer.from(header.padEnd(length)), Buffer.from(numbers.buffer)];
    assert.deepEqual(Buffer.from(file), Buffer.concat(expected));
  }
});
