// The metadata of a GGUF file through the ABI, in this thread and out of a worker.
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import assert from 'node:assert/strict';
import { files, golden, tiny, withEngine } from './helper.mjs';

const weights = readFileSync(new URL('gguf-llama-gqa-f32/model.gguf', golden));

for (const worker of [false, true]) {
  test(`values and lists of metadata ${worker ? 'out of a worker' : 'in this thread'}`, async () => {
    await withEngine({ worker }, async (engine) => {
      const model = await engine.open({ weights });
      assert.equal(await model.metadata('general.architecture'), 'llama');
      assert.equal(await model.metadata('llama.block_count'), model.architecture.L);
      const tokens = await model.metadata('tokenizer.ggml.tokens');
      assert.equal(tokens.length, model.architecture.V);
      assert.ok(tokens.every((token) => typeof token === 'string'));
      const types = await model.metadata('tokenizer.ggml.token_type');
      assert.ok(types.length === tokens.length && types.every(Number.isInteger));
      assert.equal(await model.metadata('no.such.key'), undefined);
      await assert.rejects(model.metadata(7), { code: 'argument' });
      await model.close();
      await assert.rejects(model.metadata('general.architecture'), { code: 'closed' });

      const other = await engine.open(files(tiny));
      assert.equal(await other.metadata('general.architecture'), undefined);
    });
  });
}

test('a byte order mark in a token is a letter', async () => {
  const marked = Buffer.from(weights);
  marked.write('\ufeff', marked.indexOf('t10'));
  await withEngine({}, async (engine) => {
    const model = await engine.open({ weights: marked });
    const tokens = await model.metadata('tokenizer.ggml.tokens');
    assert.deepEqual(tokens.slice(9, 12), ['t9', '\ufeff', 't11']);
  });
});
