// Compares SmolLM2-135M-Instruct (Q4_1) with transformers on the dequantized weights; skipped if not fetched.
import { existsSync, openAsBlob, readFileSync } from 'node:fs';
import { test } from 'node:test';
import assert from 'node:assert/strict';
import { modelFiles, planFiles, planTokenizer } from '../../wasm/index.ts';
import { golden, readSafetensors, root, withEngine } from './helper.mjs';

const file = new URL('models/.fetched/SmolLM2-135M-Instruct.Q4_1.gguf', root);
const skip = !existsSync(file) && 'models/fetch/smollm2 fetches the file (98 MB)';
const folder = new URL('smollm2/', golden);

function compare(actual, expected) {
  assert.equal(actual.length, expected.length);
  let largestError = 0;
  let size = 0;
  actual.forEach((value, i) => {
    largestError = Math.max(largestError, Math.abs(value - expected[i]));
    size = Math.max(size, Math.abs(expected[i]));
  });
  return { largestError, size };
}

test(
  'SmolLM2 from GGUF has the tokens, maps, hidden states, logits and greedy text of transformers',
  { skip },
  async (t) => {
    const goldenFacts = JSON.parse(readFileSync(new URL('golden.json', folder), 'utf8'));
    const expected = readSafetensors(new URL('golden.safetensors', folder));
    const tokens = [...expected.tokens.data];
    const T = tokens.length;
    await withEngine({}, async (engine) => {
      const [plan] = await planFiles([{ path: goldenFacts.file, file: await openAsBlob(file) }]);
      const model = await engine.open(modelFiles(plan));
      const tokenizer = await planTokenizer(plan, model);
      const ids = (await tokenizer.encode(goldenFacts.text)).map(({ id }) => id);
      assert.deepEqual(ids.slice(0, T), tokens);

      const run = await model.run(tokens, {
        fields: ['att', 'hidden', 'logits'],
        capacity: T + 24,
      });
      const metricErrors = {};
      const maps = [];
      for (const layer of goldenFacts.layers)
        maps.push(...(await run.field('att', { layer })).data);
      metricErrors.maps = compare(maps, expected.att.data);
      assert.ok(metricErrors.maps.largestError <= 1e-4, JSON.stringify(metricErrors.maps));

      const { data, shape } = await run.field('hidden');
      const rows = [0, T / 2];
      const hidden = Array.from({ length: shape[0] - 1 }, (_, l) =>
        rows.map((row) => [
          ...data.subarray((l * T + row) * shape[2], (l * T + row + 1) * shape[2]),
        ]),
      ).flat(2);
      metricErrors.hidden = compare(hidden, expected.hidden.data.slice(0, hidden.length));
      assert.ok(
        metricErrors.hidden.largestError <= 1e-5 * metricErrors.hidden.size,
        JSON.stringify(metricErrors.hidden),
      );

      const V = model.architecture.V;
      const logits = (await run.field('logits')).data.filter(
        (_, i) => (i % V) % goldenFacts.stride === 0,
      );
      metricErrors.logits = compare(logits, expected.logits.data);
      assert.ok(metricErrors.logits.largestError <= 1e-3, JSON.stringify(metricErrors.logits));

      const greedy = [];
      for await (const { token } of run.generate({ count: 24 })) greedy.push(token);
      assert.deepEqual(greedy, [...expected.greedy.data]);
      assert.equal(await tokenizer.decode(greedy), goldenFacts.continuation);
      t.diagnostic(JSON.stringify({ ...metricErrors, memory: await engine.memory() }));
    });
  },
);
