// Checks that the recorded texts of “Why it matters” are what the model writes.
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import {
  MODEL_PATH,
  openWriter,
  RECORDED_PATH,
  writeBeginning,
} from '../../web/lessons/forgotten.mjs';
import { root, withEngine } from './helper.mjs';

const recorded = JSON.parse(readFileSync(RECORDED_PATH, 'utf8'));
const skip = !existsSync(MODEL_PATH) && 'models/fetch/smollm2 fetches the file (98 MB)';

test('the texts are those of the file that models/fetch/smollm2 fetches', () => {
  const script = readFileSync(new URL('models/fetch/smollm2', root), 'utf8');
  assert.ok(script.includes(`name=${recorded.file}\nsum=${recorded.sha256}`));
});

test(
  'the command line writes the recorded story with 24 tokens in the cache',
  { skip },
  async () => {
    const { beginning, written } = recorded.texts.story;
    const { stdout } = await promisify(execFile)(process.execPath, [
      fileURLToPath(new URL('wasm/cli.js', root)),
      ...['generate', MODEL_PATH, '--text', beginning, '--count', '60'],
      ...['--edit', 'evict(first,24,first=1)'],
    ]);
    assert.ok(stdout.includes(beginning + written.first.text), stdout);
  },
);

test(
  'the script writes and measures the recorded recipe again, under an eviction, rounding, a tag and a number of the first word',
  { skip },
  async () => {
    await withEngine({}, async (engine) => {
      const writer = await openWriter(engine);
      const conditions = ['tova', 'exact8', 'tag', 'nextNumber'];
      const written = await writeBeginning(writer, 'recipe', conditions);
      const { recipe } = recorded.texts;
      for (const key of ['sinks', 'looks', 'kept', 'written'])
        for (const name of conditions)
          assert.deepEqual(written[key][name], recipe[key][name], `${key} of ${name}`);
      assert.deepEqual([written.pieces, written.largest], [recipe.pieces, recipe.largest]);
      // Every row of softmax sums to 1: the attention on the tokens in the cache is 100%.
      for (const { pieces, looks } of Object.values(recorded.texts))
        for (const shares of Object.values(looks)) {
          assert.equal(shares.length, pieces.length);
          assert.ok(Math.abs(shares.reduce((sum, share) => sum + share) - 100) < 2);
        }
    });
  },
);
