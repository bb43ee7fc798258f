// Checks that every binary refuses sizes beyond its memory, and reuses what was released (tests/native/test_heap.c has the rest).
import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { test } from 'node:test';
import { createSharedMemory } from '../../wasm/abi/memory.ts';
import { loadModule } from '../../wasm/engine/load_module.ts';
import { binaries, randomModel, withEngine } from './helper.mjs';

const names = readdirSync(binaries).filter((name) => name.endsWith('.wasm'));
const bytesOf = (name) => readFileSync(new URL(name, binaries));

/**
 * Returns the functions reserve and release of a binary, and its memory.
 * @param {string} name
 */
async function open(name) {
  const module = await WebAssembly.compile(bytesOf(name));
  const sharedMemory =
    WebAssembly.Module.imports(module).length > 0 ? createSharedMemory() : undefined;
  const { exports } = await WebAssembly.instantiate(module, { env: { memory: sharedMemory } });
  exports._initialize?.();
  return {
    reserve: (bytes) => exports.ss_wasm_reserve(bytes) >>> 0,
    release: (address) => exports.ss_wasm_release(address),
    buffer: () => (sharedMemory ?? exports.memory).buffer,
  };
}

for (const name of names) {
  test(`${name} rejects sizes beyond 4 GB, whatever was reserved before`, async () => {
    for (const before of [0, 1, 5e8, 2e9]) {
      const { reserve, release, buffer } = await open(name);
      const first = before ? reserve(before) : 0;
      const size = buffer().byteLength;
      const small = [0, 1, 2, 15, 63, 64, 127, 128, 4095, 65535];
      const sizesNearPowers = [...small, 65536, 262_140, 1e6, 2 ** 20];
      for (const k of sizesNearPowers) {
        const bytes = (2 ** 32 - k) >>> 0;
        if (bytes > 0) assert.equal(reserve(bytes), 0, `${bytes} after ${before}`);
      }
      // Sizes from 4,293,918,720 to 4,294,967,168 once gave a pointer beyond the memory.
      for (let bytes = 4_293_918_720; bytes < 2 ** 32; bytes += 26_208)
        assert.equal(reserve(bytes), 0, `${bytes} after ${before}`);
      assert.equal(buffer().byteLength, size);
      const smallBlock = reserve(1000);
      assert.ok(smallBlock > 0 && smallBlock % 64 === 0);
      assert.ok(smallBlock + 1000 <= buffer().byteLength);
      new Uint8Array(buffer(), smallBlock, 1000).fill(1);
      if (first) release(first);
    }
  });

  test(`${name} reuses a block of 2 GB that was released`, async () => {
    const { reserve, release, buffer } = await open(name);
    const first = reserve(2e9);
    if (!first) return; // this system does not reserve so much memory
    const after = reserve(6e8);
    const size = buffer().byteLength;
    release(first);
    assert.equal(reserve(2e9), first);
    assert.equal(buffer().byteLength, size);
    assert.ok(after > 0);
  });
}

test('a size of 2^32 or more is rejected, not truncated to 32 bits', async () => {
  const module = await loadModule(new URL('sinkscope.wasm', binaries));
  for (const bytes of [2 ** 32, 2 ** 32 + 1000, 2 ** 33, 2 ** 53])
    assert.throws(() => module.reserve(bytes), {
      code: 'no_memory',
      message: new RegExp(`expected room for ${bytes} more bytes`),
    });
  const address = module.reserve(1000);
  assert.ok(address > 0 && address + 1000 <= module.size);
});

test('a metric over queries and keys is rejected if its numbers do not fit in memory', async () => {
  const shape = { L: 1, D: 8, F: 8, V: 16, context: 32_768 };
  const { config, weights } = randomModel(shape, { num_attention_heads: 1, sliding_window: 2 });
  await withEngine({}, async (engine) => {
    const model = await engine.open({ config, weights });
    // Just below 2^32 bytes, which rounding up must not turn into few.
    const T = 32_767;
    const ids = Array.from({ length: T }, (_, t) => t % 16);
    const run = await model.run(ids, { fields: ['q', 'k'], capacity: T });
    for (const metric of ['qk_dot', 'qk_cos', 'qk_norm'])
      await assert.rejects(run.read([{ metric, layer: 0, head: 0 }]), { code: 'no_memory' });
  });
});
