// Checks that every edit of the table has a label that a reader understands.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { editLabel, readEdit } from '../../wasm/internal.ts';
import { withEngine } from './helper.mjs';

const edits = [
  'operation(operation=sigmoid)',
  'operation(operation=sigmoid,layer=1)',
  'mask(first=1,recent=3,head=2)',
  'hide_key(key=0)',
  'hide_key(key=4,query=9,layer=1,head=3)',
  'hide_key(key=4,query=0)',
  'self_only(token=6)',
  'scale_value(key=0)',
  'scale_value(key=0,factor=0,layer=2,group=1)',
  'scale_value(key=3,factor=-0.5)',
  'silence',
  'silence(layer=1)',
  'silence(layer=1,head=0)',
  'silence(head=2)',
  'park(layer=1,head=0)',
  'park(key=7)',
  'clamp_channel(channel=3)',
  'clamp_channel(channel=3,layer=0,token=0)',
  'clamp_channel(channel=3,layer=2,to=mean)',
  'clamp_channel(channel=3,to=value,value=2.5)',
  'project',
  'project(from=heads,layer=1,head=2)',
  'project(direction=random,layer=1)',
  'swap_positions(a=0,b=5)',
  'swap_positions(a=0,b=5,replace=yes)',
  'evict(policy=window,budget=24)',
  'evict(policy=first,first=1,budget=24)',
  'evict(policy=window,budget=8,positions=cache,layer=1,head=1)',
  'quantize(what=keys,bits=4)',
  'quantize(what=keys,bits=4,first=0)',
  'quantize(what=keys,bits=4,by=tensor,first=1)',
  'scale_weight(matrix=down,layer=1,row=2,column=7)',
  'scale_weight(matrix=down,layer=1,row=2,column=7,factor=3)',
];

test('every kind of edit has a label in prose', async (t) => {
  await withEngine({}, async ({ describe }) => {
    const labelOf = (text) => [text, editLabel(readEdit(text, describe), describe)];
    t.assert.snapshot(Object.fromEntries(edits.map(labelOf)));
    assert.equal(editLabel({ kind: 'hide_key' }, describe), 'no key hidden');
    const namedKinds = new Set(edits.map((text) => text.split('(')[0]));
    assert.deepEqual([...namedKinds].sort(), describe.edits.map(({ name }) => name).sort());
  });
});

test('no label shows the name of an edit, a parameter or a placeholder, whatever is given', async () => {
  await withEngine({}, async ({ describe }) => {
    for (const row of describe.edits) {
      const values = row.parameters.map(({ name, type, choices, min = 0 }) => [
        name,
        type === 'operation' ? 'relu' : (choices?.at(-1) ?? Math.max(min, 1)),
      ]);
      const requiredValues = values.filter(
        ([name]) => row.parameters.find((parameter) => parameter.name === name).required,
      );
      const valueLists = [
        requiredValues,
        values,
        ...values.map((value) => [...requiredValues, value]),
      ];
      for (const valueList of valueLists) {
        const label = editLabel({ kind: row.name, ...Object.fromEntries(valueList) }, describe);
        assert.doesNotMatch(label, /[{}|?_=[\]]|undefined|null|NaN|no \w+$/, label);
        assert.ok(!row.name.includes('_') || !label.includes(row.name), label);
      }
    }
    assert.throws(() => editLabel({ kind: 'erase' }, describe), { code: 'argument' });
  });
});
