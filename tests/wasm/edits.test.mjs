/** Tests edits in the core's encoding and as a line of text, by a table made for the test. */
import assert from 'node:assert/strict';
import test from 'node:test';
import { readEdit } from '../../wasm/engine/edit_text.ts';
import { encodeEdits } from '../../wasm/engine/edits.ts';
import { errorOf } from './helper.mjs';

const describe = {
  operations: [
    { name: 'softmax', parameters: [] },
    { name: 'sigmoid', parameters: [{ name: 'bias' }, { name: 'scale' }] },
  ],
  edits: [
    {
      name: 'silence',
      parameters: [
        { name: 'layer', type: 'index' },
        { name: 'head', type: 'index' },
      ],
    },
    {
      name: 'operation',
      parameters: [
        { name: 'operation', type: 'operation', required: true },
        { name: 'by', type: 'choice', choices: ['row', 'tensor'] },
      ],
    },
    {
      name: 'evict',
      parameters: [{ name: 'policy', type: 'choice', required: true, choices: ['first', 'last'] }],
    },
    { name: 'hide', parameters: [{ name: 'key', type: 'index', required: true }] },
    { name: 'bits', parameters: [{ name: 'n', type: 'integer', min: 2, max: 8 }] },
  ],
  limits: { edit_values: 13 },
};

test('the build reports how many numbers encode an edit', () => {
  const wider = { ...describe, limits: { edit_values: 20 } };
  assert.equal(encodeEdits([{ kind: 'hide', key: 0 }], wider).length, 21);
});

test('an edit is encoded as its kind and thirteen numbers, with NaN for missing ones', (t) => {
  const encodeLists = (...edits) => {
    const words = encodeEdits(edits, describe);
    const floats = new Float32Array(words.buffer);
    return edits.map((_, i) => [words[14 * i], [...floats.subarray(14 * i + 1, 14 * i + 14)]]);
  };
  const values = (...values) => [...values, ...new Array(13 - values.length).fill(NaN)];
  assert.equal(encodeEdits([], describe).length, 0);
  assert.deepEqual(
    encodeLists(
      { kind: 'silence' },
      { kind: 'silence', head: 2, layer: undefined },
      {
        kind: 'operation',
        operation: 'sigmoid',
        by: 'tensor',
        scale: 0.5,
        parameters: { bias: -1 },
      },
      { kind: 'evict', policy: 'last' },
      // A parameter with a default may be absent. The core refuses an edit that lacks a required number.
      { kind: 'operation', operation: 'softmax' },
      { kind: 'hide' },
    ),
    [
      [0, values()],
      [0, values(NaN, 2)],
      [1, values(1, 1, -1, 0.5)],
      [2, values(1)],
      [1, values(0)],
      [3, values()],
    ],
  );
  for (const edit of [
    { kind: 'silence', layer: 'x' },
    { kind: 'silence', z: 1 },
    { kind: 'operation', operation: 'softmax', parameters: { bias: 1 } },
    { kind: 'operation' },
    { kind: 'evict' },
    { kind: 'evict', policy: 'x' },
    { kind: 'x' },
    null,
  ])
    t.assert.snapshot(errorOf(() => encodeEdits([edit], describe)));
});

test('an edit is parsed from a line, in which choices are words and other values are numbers', (t) => {
  for (const [text, edit] of [
    ['silence', { kind: 'silence' }],
    ['silence()', { kind: 'silence' }],
    ['silence(1,,)', { kind: 'silence', layer: 1 }],
    ['silence(,0)', { kind: 'silence', head: 0 }],
    ['silence(layer=1,head=0)', { kind: 'silence', layer: 1, head: 0 }],
    ['evict(last)', { kind: 'evict', policy: 'last' }],
    ['operation(softmax)', { kind: 'operation', operation: 'softmax' }],
    ['operation(operation=sigmoid,bias=8)', { kind: 'operation', operation: 'sigmoid', bias: 8 }],
    ['sigmoid', { kind: 'operation', operation: 'sigmoid' }],
    ['sigmoid(-2)', { kind: 'operation', operation: 'sigmoid', parameters: { bias: -2 } }],
  ])
    assert.deepEqual(readEdit(text, describe), edit);
  for (const text of [
    'silence(all)',
    'silence(-1)',
    'silence(layer=)',
    'silence(layer= )',
    'silence(layer=1=2)',
    'silence(layer=1,layer=2)',
    'silence(layer=1,2,1)',
    'silence(key=1)',
    'softmax(1)',
    'operation(relu)',
    'evict(middle)',
    'bits(9)',
    ...['x', 'silence:layer=1', 'silence(1', 'silence)', ''].map((text) => text),
  ])
    t.assert.snapshot(errorOf(() => readEdit(text, describe)));
});
