// Tests models in several files: the same bits as in one, and clear errors if the files do not match.
import { test } from 'node:test';
import assert from 'node:assert/strict';
import { fileOf, tensorsOf } from '../safetensors.mjs';
import { files, softmax, tiny, withEngine } from './helper.mjs';

function deal(file, n) {
  const tensors = tensorsOf(file);
  return Array.from({ length: n }, (_, i) => fileOf(tensors.filter((__, j) => j % n === i)));
}

test('shards give the same bits as one file, whatever their number and order', async () => {
  const { config, weights } = files(tiny);
  await withEngine({}, async (engine) => {
    const readOf = async (parts) => {
      const model = await engine.open({ config, weights: parts });
      const run = await model.run([1, 2, 3, 4, 5], { fields: ['att', 'hidden', 'logits'] });
      const read = await run.read([{ field: 'att' }, { field: 'hidden' }, { field: 'logits' }]);
      await model.close();
      return read;
    };
    const expected = await readOf(weights);
    for (const n of [1, 2, 3, 7]) {
      assert.deepEqual(await readOf(deal(weights, n)), expected);
      assert.deepEqual(await readOf(deal(weights, n).reverse()), expected);
    }
  });
});

test('progress counts the bytes of all shards, and closed models give their memory back', async () => {
  const { config, weights } = files(softmax);
  await withEngine({}, async (engine) => {
    const parts = deal(weights, 3);
    const total = parts.reduce((sum, part) => sum + part.length, 0);
    const openParts = async () => {
      const positions = [];
      const note = ({ stage, done }) => stage === 'read' && positions.push(done);
      const model = await engine.open({ config, weights: parts }, { onProgress: note });
      assert.equal(positions.at(-1), total);
      assert.ok(positions.every((done, i) => i === 0 || done >= positions[i - 1]));
      await model.close();
    };
    for (let i = 0; i < 3; i++) await openParts();
    const before = await engine.memory();
    for (let i = 0; i < 10; i++) await openParts();
    assert.equal(await engine.memory(), before);
  });
});

test('a shard that is missing, repeated or from another model is named', async () => {
  const { config, weights } = files(tiny);
  await withEngine({}, async (engine) => {
    const [a, b] = deal(weights, 2);
    const assertRefused = (parts, expected) =>
      assert.rejects(engine.open({ config, weights: parts }), expected);
    await assertRefused([a], { code: 'bad_tensor' });
    await assertRefused([a, b, a], { code: 'bad_file', text: /each name once/ });
    const gguf = new Uint8Array([...Buffer.from('GGUF'), ...new Uint8Array(60)]);
    await assertRefused([a, gguf], { code: 'bad_file', text: /one format/ });
    await assertRefused([], { code: 'argument' });
    await assertRefused([a, b.subarray(0, 100)], { code: 'bad_file' });
    await assertRefused(
      Array.from({ length: 1025 }, () => a),
      { code: 'bad_request', where: 'weights' },
    );
    const model = await engine.open({ config, weights: [a, b] });
    await model.close();
  });
});
