// Tests a model that is too large to hold panels next to its weights: the weights are interleaved in place.
import { test } from 'node:test';
import assert from 'node:assert/strict';
import { fileOf, tensorsOf } from '../safetensors.mjs';
import { randomModel, withEngine } from './helper.mjs';

const [D, V] = [512, 101];
const { config, weights } = randomModel({ L: 2, D, F: 1048, V, context: 64 });
const TOKENS = [100, 3, 57, 99, 0, 41, 8, 96, 97];

/** Returns numbers that every type holds exactly. */
const numbersOf = (bytes) =>
  Float32Array.from(
    new Float32Array(Uint8Array.from(bytes).buffer),
    (x) => Math.round(x * 1024) / 1024 || 0,
  );

const converters = {
  F32: (numbers) => numbers,
  BF16: (numbers) => Uint16Array.from(new Uint32Array(numbers.buffer), (bits) => bits >>> 16),
  // Every number is zero or large enough to be a normal half.
  F16: (numbers) =>
    Uint16Array.from(new Uint32Array(numbers.buffer), (bits) =>
      bits === 0 ? 0 : ((bits >>> 16) & 0x8000) | (((bits & 0x7fffffff) - 0x38000000) >>> 13),
    ),
};

function fileIn(type) {
  const tensors = tensorsOf(Buffer.from(weights)).map(([name, { shape }, bytes]) => {
    const { buffer } = converters[type](numbersOf(bytes));
    return [name, { dtype: type, shape }, Buffer.from(buffer)];
  });
  return { config, weights: fileOf(tensors) };
}

test('a large model has the same bits in every type of weights, with and without threads', async () => {
  const [, , bytes] = tensorsOf(Buffer.from(weights)).find(([name]) => name.includes('embed'));
  const embedding = numbersOf(bytes);
  let firstResult;
  for (const threads of [1, 2])
    await withEngine({ threads }, async (engine) => {
      for (const type of Object.keys(converters)) {
        const model = await engine.open(fileIn(type));
        assert.ok(model.architecture.parameters > 1 << 22);
        const read = async (ids) => {
          const run = await model.run(ids, { fields: ['hidden', 'next'] });
          const tensors = await run.read([{ field: 'hidden' }, { field: 'next' }]);
          await run.close();
          return tensors.map(({ data }) => data);
        };
        const [hidden, next] = await read(TOKENS);
        TOKENS.forEach((id, t) =>
          assert.deepEqual(
            hidden.subarray(t * D, (t + 1) * D),
            embedding.subarray(id * D, (id + 1) * D),
            `${threads} threads, ${type}: the embedding of token ${id}`,
          ),
        );
        // One row and many rows are multiplied by different code.
        const [firstRow] = await read(TOKENS.slice(0, 1));
        for (let l = 0; l < 3; l++) {
          const row = hidden.subarray(l * TOKENS.length * D).subarray(0, D);
          assert.deepEqual(
            firstRow.subarray(l * D, (l + 1) * D),
            row,
            `${threads} threads, ${type}, ${l}`,
          );
        }
        assert.equal(next.length, V);
        assert.ok(new Set(next).size > V / 2);
        firstResult ??= { hidden, next };
        assert.deepEqual({ hidden, next }, firstResult, `${threads} threads, ${type}`);
        await model.close();
      }
    });
});
