/**
 * Tests checkpoints as other tools leave them: weights in F64, names with the prefix of a wrapper, shards in a
 * subfolder, no tokenizer. Their runs have the bits of the plain file.
 */
import { createHash } from 'node:crypto';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import assert from 'node:assert/strict';
import { fileOf, tensorsOf } from '../safetensors.mjs';
import { failure, files, runOk, tiny, withEngine } from './helper.mjs';

const { config, weights } = files(tiny);
const tensors = tensorsOf(weights);

const doubleTensors = tensors.map(([name, { shape, dtype }, bytes]) => {
  assert.equal(dtype, 'F32');
  const numbers = new Float32Array(Uint8Array.from(bytes).buffer);
  return [name, { shape, dtype: 'F64' }, Buffer.from(Float64Array.from(numbers).buffer)];
});

async function readOf(engine, parts, options) {
  const model = await engine.open({ config, weights: parts }, options);
  const run = await model.run([1, 2, 3, 4, 5], { fields: ['att', 'hidden', 'logits'] });
  const read = await run.read([{ field: 'att' }, { field: 'hidden' }, { field: 'logits' }]);
  await model.close();
  return read;
}

test('weights in F64 are converted to F32', async () => {
  await withEngine({}, async (engine) => {
    const expected = await readOf(engine, weights);
    assert.deepEqual(await readOf(engine, fileOf(doubleTensors)), expected);
  });
});

test('prefixes of torch.compile and DistributedDataParallel are dropped', async () => {
  await withEngine({}, async (engine) => {
    const expected = await readOf(engine, weights);
    for (const prefix of ['_orig_mod.', 'module.', 'module._orig_mod.', '_orig_mod.module.']) {
      const prefixedTensors = tensors.map(([name, ...rest]) => [prefix + name, ...rest]);
      assert.deepEqual(await readOf(engine, fileOf(prefixedTensors)), expected, prefix);
    }
    const doubledTensors = [...tensors, [`module.${tensors[0][0]}`, ...tensors[0].slice(1)]];
    await assert.rejects(engine.open({ config, weights: fileOf(doubledTensors) }), {
      code: 'bad_file',
      text: /each name once/,
    });
  });
});

const folder = mkdtempSync(join(tmpdir(), 'sinkscope-files-'));
after(() => rmSync(folder, { recursive: true }));

test('the command line finds shards in a folder below, and measures ids without a tokenizer', async () => {
  const [wholeFolder, shardFolder] = [join(folder, 'whole'), join(folder, 'shards')];
  mkdirSync(wholeFolder);
  mkdirSync(join(shardFolder, 'w'), { recursive: true });
  for (const target of [wholeFolder, shardFolder])
    writeFileSync(join(target, 'config.json'), config);
  writeFileSync(join(wholeFolder, 'model.safetensors'), weights);
  const map = tensors.map(([name], i) => [name, `w/${i % 2 ? 'b' : 'a'}.safetensors`]);
  for (const file of ['w/a.safetensors', 'w/b.safetensors']) {
    const shardTensors = tensors.filter((_, i) => map[i][1] === file);
    writeFileSync(join(shardFolder, file), fileOf(shardTensors));
  }
  const index = JSON.stringify({ weight_map: Object.fromEntries(map) });
  writeFileSync(join(shardFolder, 'model.safetensors.index.json'), index);
  const outputs = await Promise.all(
    [wholeFolder, shardFolder].map(async (target) => {
      const { stdout } = await runOk('measure', target, '--ids', '1,2,3,4,5', '--json');
      const { metrics, first } = JSON.parse(stdout);
      return { metrics, first };
    }),
  );
  assert.equal(outputs[0].first, '#1');
  assert.deepEqual(outputs[1], outputs[0]);
  // A recording names the weights by their hash if they are one file.
  const hashes = await Promise.all(
    [wholeFolder, shardFolder].map(async (target) => {
      const out = `${target}.safetensors`;
      await runOk('record', target, '--ids', '1,2,3,4,5', '--out', out);
      const { stdout } = await runOk('measure', out, '--json');
      return JSON.parse(stdout).conditions.model.sha256;
    }),
  );
  assert.deepEqual(hashes, [createHash('sha256').update(weights).digest('hex'), null]);
  const options = ['--tokens', '5', '--sequences', '1', '--json'];
  const { stdout } = await runOk('measure', wholeFolder, '--text', '1 2 3 4 5', ...options);
  assert.deepEqual(JSON.parse(stdout).metrics, outputs[0].metrics);
  await assert.rejects(runOk('measure', wholeFolder, '--text', 'a b c'), ({ stderr }) =>
    /without a tokenizer: expected token ids such as 1, 2, 3, got "a b c"/.test(stderr),
  );
});

test('a file that is named like GGUF and is none is refused as such', async (t) => {
  await withEngine({}, async (engine) => {
    for (const content of ['hello text', ''])
      t.assert.snapshot(
        await failure(engine.open({ weights: [new File([content], 'notes.gguf')] })),
      );
  });
});
