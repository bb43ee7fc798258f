// Checks that every edit of the table has a label that a reader understands.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { editLabel, readEdit } from '../../wasm/internal.ts';
import { withEngine } from './helper.mjs';

const labels = {
  'operation(operation=sigmoid)': 'attention replaced by sigmoid',
  'operation(operation=sigmoid,layer=1)': 'attention replaced by sigmoid in layer 1',
  'mask(first=1,recent=3,head=2)':
    'only the first 1 and the last 3 keys visible in head 2 of every layer',
  'hide_key(key=0)': 'first token hidden',
  'hide_key(key=4,query=9,layer=1,head=3)': 'token 4 hidden from token 9 in L1H3',
  'hide_key(key=4,query=0)': 'token 4 hidden from the first token',
  'self_only(token=6)': 'token 6 sees only itself',
  'scale_value(key=0)': 'value of the first token zeroed',
  'scale_value(key=0,factor=0,layer=2,group=1)':
    'value of the first token zeroed in layer 2, key/value head 1',
  'scale_value(key=3,factor=-0.5)': 'value of token 3 scaled by \u22120.5',
  silence: 'every head ablated',
  'silence(layer=1)': 'every head of layer 1 ablated',
  'silence(layer=1,head=0)': 'head L1H0 ablated',
  'silence(head=2)': 'head 2 of every layer ablated',
  'park(layer=1,head=0)': 'all attention of head L1H0 on the first token',
  'park(key=7)': 'all attention of every head on token 7',
  'clamp_channel(channel=3)': 'channel 3 set to zero',
  'clamp_channel(channel=3,layer=0,token=0)':
    'channel 3 set to zero at the embedding at the first token',
  'clamp_channel(channel=3,layer=2,to=mean)': 'channel 3 set to mean after layer 1',
  'clamp_channel(channel=3,to=value,value=2.5)': 'channel 3 set to 2.5',
  project: 'tag of the first token projected out of the stream',
  'project(from=heads,layer=1,head=2)': 'tag of the first token projected out of the heads in L1H2',
  'project(direction=random,layer=1)': 'random directions projected out of the stream in layer 1',
  'swap_positions(a=0,b=5)': 'positions of the first token and token 5 swapped',
  'swap_positions(a=0,b=5,replace=yes)': 'first token moved to the position of token 5',
  'evict(policy=window,budget=24)': 'KV cache of 24 keys, policy window',
  'evict(policy=first,first=1,budget=24)':
    'KV cache of 24 keys, policy first, first tokens kept: 1',
  'evict(policy=window,budget=8,positions=cache,layer=1,head=1)':
    'KV cache of 8 keys, policy window, positions in the cache in L1H1',
  'quantize(what=keys,bits=4)': 'keys rounded to 4 bits',
  'quantize(what=keys,bits=4,first=0)': 'keys rounded to 4 bits',
  'quantize(what=keys,bits=4,by=tensor,first=1)':
    'keys rounded to 4 bits by tensor, first 1 tokens exact',
  'scale_weight(matrix=down,layer=1,row=2,column=7)': 'weight (2, 7) of down in layer 1 zeroed',
  'scale_weight(matrix=down,layer=1,row=2,column=7,factor=3)':
    'weight (2, 7) of down in layer 1 scaled by 3',
};

test('every kind of edit has a label in prose', async () => {
  await withEngine({}, async ({ describe }) => {
    for (const [text, label] of Object.entries(labels))
      assert.equal(editLabel(readEdit(text, describe), describe), label);
    assert.equal(editLabel({ kind: 'hide_key' }, describe), 'no key hidden');
    const namedKinds = new Set(Object.keys(labels).map((text) => text.split('(')[0]));
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
