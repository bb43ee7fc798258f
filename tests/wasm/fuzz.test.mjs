// Checks that files with random damage give an answer or an error with a code, never a trap, and leave no memory behind.
import { test } from 'node:test';
import assert from 'node:assert/strict';
import { randomBits } from '../../wasm/engine/random.ts';
import { files, golden, withEngine } from './helper.mjs';

const rounds = Number(process.env.FUZZ_ROUNDS ?? 500);

/** Returns a copy with some bytes changed, cut off, or repeated; mostly near the ends, where structure is. */
function damage(bytes, random) {
  const copy = Uint8Array.from(bytes);
  const head = Math.min(copy.length, random() % 4 ? 4096 : copy.length);
  const drawPlace = () => (random() % 4 ? random() % head : copy.length - 1 - (random() % head));
  const index = drawPlace();
  switch (random() % 4) {
    case 0:
      return copy.subarray(0, index);
    case 1:
      copy.copyWithin(index, drawPlace());
      return copy;
    default:
      for (let n = 1 + (random() % 4); n > 0; n--) copy[drawPlace()] = random();
      return copy;
  }
}

for (const name of [
  'hf-gemma3',
  'hf-gpt2-plain',
  'gguf-gemma3-bf16',
  'gguf-wide-q4_k',
  'torch-llama-nested',
]) {
  test(`${name}: damaged files are rejected or run, and none keeps memory`, async () => {
    const originalFiles = files(new URL(`${name}/`, golden));
    await withEngine({}, async (engine) => {
      /** Opens and runs half of the files; returns how many open, and the memory after them. */
      const runHalf = async () => {
        const random = randomBits(20240607);
        let openedCount = 0;
        for (let round = 0; round < rounds / 2; round++) {
          const damagedFiles = { ...originalFiles };
          const key = originalFiles.config && random() % 2 ? 'config' : 'weights';
          damagedFiles[key] = damage(originalFiles[key], random);
          try {
            const model = await engine.open(damagedFiles);
            openedCount++;
            try {
              const run = await model.run([1, 2, 3].map((id) => id % model.architecture.V));
              await run.read([{ metric: 'alpha' }, { field: 'hidden' }]);
            } finally {
              await model.close();
            }
          } catch (error) {
            assert.equal(error.name, 'SinkscopeError', `round ${round}: ${error.stack}`);
            assert.notEqual(error.code, 'internal', `round ${round}, ${key}: ${error.message}`);
          }
        }
        return { openedCount, memory: await engine.memory() };
      };
      const once = await runHalf();
      assert.ok(once.openedCount > 0 && once.openedCount < rounds / 2);
      assert.deepEqual(await runHalf(), once, 'the same files a second time');
    });
  });
}
