/**
 * Tests models in which only some layers have attention: layers are numbered as in the model, and tensors of
 * attention have a row for each layer with attention.
 */
import { after, before, test } from 'node:test';
import assert from 'node:assert/strict';
import { cpSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { createEngine, load } from '../../wasm/index.ts';
import { headEffects } from '../../wasm/internal.ts';
import { binaries, failure, files, golden, runOk } from './helper.mjs';

const lfm2 = new URL('hf-lfm2/', golden);
const TEXT = 'b c d e f g h a b i j a c d b';
const ids = Array.from({ length: 20 }, (_, i) => (i * i * 31 + 7) % 61);

let engine;
let model;
let folder;
before(async () => {
  engine = await createEngine({ base: binaries, worker: false });
  model = await engine.open(files(lfm2));
  folder = mkdtempSync(join(tmpdir(), 'hybrid-'));
  cpSync(fileURLToPath(lfm2), folder, { recursive: true });
  const vocab = Object.fromEntries([...'abcdefghijklmnopqrstuvwxyz'].map((word, i) => [word, i]));
  const tokenizer = {
    version: '1.0',
    added_tokens: [],
    pre_tokenizer: { type: 'Whitespace' },
    model: { type: 'WordLevel', vocab, unk_token: 'a' },
  };
  writeFileSync(join(folder, 'tokenizer.json'), JSON.stringify(tokenizer));
});
after(async () => {
  await engine.close();
  rmSync(folder, { recursive: true });
});

test('a model says how many layers it has and which of them have attention', async () => {
  const { L, blocks, layers, H, D } = model.architecture;
  assert.deepEqual([L, blocks, layers], [2, 4, [1, 3]]);
  const run = await model.run(ids);
  const T = ids.length;
  assert.deepEqual((await run.field('att')).shape, [2, H, T, T]);
  assert.deepEqual((await run.field('hidden')).shape, [5, T, D]);
  assert.deepEqual((await run.metric('hidden_norm')).shape, [5, T]);
  await run.close();
});

test("edits name layers by the model's numbers, and a layer without attention is refused with its place", async () => {
  const silenceEdits = [{ kind: 'silence', layer: 2, head: 0 }];
  const error = await failure(model.run(ids, { edits: silenceEdits }));
  assert.deepEqual([error.code, error.where], ['bad_request', 'edits[0].layer']);
  assert.match(error.text, /layer with attention, and layer 2 of this lfm2 has none/);
  const base = await model.run(ids, { fields: ['hidden', 'loss'] });
  for (const layer of [0, 4]) {
    const fields = ['loss'];
    await (await model.run(ids, { fields, from: { run: base, layer } })).close();
  }
  const layerError = await failure(model.run(ids, { from: { run: base, layer: 5 } }));
  assert.deepEqual([layerError.code, layerError.where], ['argument', 'from.layer']);
  const loss = async (edits) => {
    const run = await model.run(ids, { fields: ['loss'], edits });
    return (await run.metric('loss_mean')).data[0];
  };
  const { H } = model.architecture;
  const { shape, mean } = await headEffects(model, [ids]);
  assert.deepEqual(shape, [2, H]);
  const change = (await loss([{ kind: 'silence', layer: 3, head: 1 }])) - (await loss());
  assert.ok(Math.abs(change) > 1e-3);
  assert.ok(Math.abs(mean[H + 1] - change) < 1e-5);
});

test('a loaded model and the command line report the layer numbers of the model', async () => {
  const loadedModel = await load(folder, { base: binaries, worker: false });
  const { layer, head, map } = await loadedModel.measure(TEXT);
  assert.ok([1, 3].includes(layer));
  assert.deepEqual((await loadedModel.map(TEXT, { layer, head })).map, map);
  const { code, where } = await failure(loadedModel.map(TEXT, { layer: 2, head: 0 }));
  assert.deepEqual([code, where], ['argument', 'layer']);
  const { change } = await loadedModel.ablate(TEXT, { layer: 3, head: 0 });
  assert.ok(Math.abs(change) > 1e-4);
  await loadedModel.close();
  const options = ['--ids', ids.join(), '--csv'];
  const { stdout, stderr } = await runOk('measure', folder, ...options);
  const rows = stdout.split('\n').map((line) => line.split(','));
  const layersOf = (name) => {
    const keys = rows.filter((row) => row[2] === name).map((row) => row[5]);
    return [...new Set(keys)].sort().join();
  };
  assert.equal(layersOf('alpha'), '1,3', stderr);
  assert.equal(layersOf('hidden_ratio'), '-1,0,1,2,3');
});
