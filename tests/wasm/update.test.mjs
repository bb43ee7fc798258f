// Checks that a run whose text changes, and one that begins where its edits begin, have the bits of new runs.
import { test } from 'node:test';
import assert from 'node:assert/strict';
import { isDeepStrictEqual } from 'node:util';
import { failure, files, randomModel, softmax, tiny, withEngine } from './helper.mjs';

const textIds = [3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8];

test('sampling after an update draws the tokens of a new run', async () => {
  await withEngine({}, async (engine) => {
    const model = await engine.open(files(softmax));
    const drawnTokens = async (run) => {
      for await (const _ of run.generate({ count: 4, temperature: 0.9, seed: 3 }));
      return run.tokens;
    };
    const run = await model.run(textIds);
    await drawnTokens(run);
    await run.update(textIds.slice(0, 5));
    assert.deepEqual(
      await drawnTokens(run),
      await drawnTokens(await model.run(textIds.slice(0, 5))),
    );
  });
});

test('a rejected update gives the reason and leaves the run unchanged', async () => {
  await withEngine({}, async (engine) => {
    const model = await engine.open(files(tiny));
    const { V } = model.architecture;
    const edits = [{ kind: 'clamp_channel', channel: 1, to: 'mean', prompt: 6 }];
    const run = await model.run(textIds, { edits, capacity: 14 });
    const before = await run.field('att');
    const assertRefused = async (tokens, code, where) => {
      const error = await failure(run.update(tokens));
      assert.deepEqual([error.code, error.where], [code, where]);
      assert.deepEqual(run.tokens, textIds);
      assert.deepEqual(await run.field('att'), before);
    };
    await assertRefused(undefined, 'argument', 'tokens');
    await assertRefused([], 'argument', 'tokens.length');
    await assertRefused(Array(15).fill(1), 'argument', 'tokens.length');
    await assertRefused([1, V], 'argument', 'tokens[1]');
    await assertRefused([1, 2, 3], 'unsupported', 'edits[0].prompt');
    assert.equal((await failure(run.update([1], { onProgress: 1 }))).code, 'argument');
    await run.close();
    assert.equal((await failure(run.update([1]))).code, 'closed');
  });
});

for (const worker of [false, true])
  test(`a stopped update keeps the previous text and leaks no memory, ${worker ? 'in a worker' : 'without one'}`, async () => {
    await withEngine({ worker }, async (engine) => {
      const model = await engine.open(randomModel({ L: 8, D: 256, F: 1024, V: 64, context: 1000 }));
      const longIds = Array.from({ length: 1000 }, (_, i) => i % 64);
      const fields = ['hidden', 'loss'];
      const run = await model.run(textIds, { fields, capacity: 1000 });
      const before = await run.field('hidden');
      const stopUpdate = async () => {
        const stop = new AbortController();
        const onProgress = () => stop.abort(new Error('enough'));
        const tokens = [...run.tokens];
        await assert.rejects(run.update(longIds, { signal: stop.signal, onProgress }), /enough/);
        assert.deepEqual(run.tokens, tokens);
      };
      await stopUpdate();
      assert.deepEqual(await run.field('hidden'), before);
      const memory = await engine.memory();
      for (let i = 0; i < 3; i++) {
        await stopUpdate();
        if (i === 1) await run.field('loss');
      }
      assert.equal(await engine.memory(), memory);
      // A stopped run can be updated at once; reads during the update wait for the new text.
      await stopUpdate();
      const shortIds = textIds.slice(0, 7);
      const [, hidden] = await Promise.all([run.update(shortIds), run.field('hidden')]);
      assert.deepEqual(hidden, await (await model.run(shortIds, { fields })).field('hidden'));
      await stopUpdate();
      await run.close();
    });
  });

test('an update that is rejected after a stopped one leaves the text before both', async () => {
  await withEngine({}, async (engine) => {
    const model = await engine.open(randomModel({ L: 8, D: 256, F: 1024, V: 64, context: 1000 }));
    const longIds = Array.from({ length: 1000 }, (_, i) => i % 64);
    const edits = [{ kind: 'clamp_channel', channel: 1, to: 'mean', prompt: 6 }];
    const run = await model.run(textIds, { edits, fields: ['hidden'], capacity: 1000 });
    const before = await run.field('hidden');
    const stop = new AbortController();
    const onProgress = () => stop.abort(new Error('enough'));
    await assert.rejects(run.update(longIds, { signal: stop.signal, onProgress }), /enough/);
    assert.equal((await failure(run.update([1, 2, 3]))).code, 'unsupported');
    assert.ok(isDeepStrictEqual(await run.field('hidden'), before));
    assert.deepEqual(run.tokens, textIds);
  });
});

test('a run may begin only from one of the same text that is open, and else begins anew or is refused', async () => {
  await withEngine({}, async (engine) => {
    const model = await engine.open(files(softmax));
    const base = await model.run(textIds);
    const hidden = async (ids, options) => (await model.run(ids, options)).field('hidden');
    // With an explicit layer the base must have the same tokens; then the run cannot be updated.
    const layerRun = await model.run(textIds, { from: { run: base, layer: 1 }, capacity: 20 });
    assert.equal((await failure(layerRun.update([1, 2]))).code, 'unsupported');
    const otherIds = textIds.map((id) => id + 1);
    const edits = [{ kind: 'silence', layer: 2, head: 1 }];
    const expected = await hidden(otherIds, { edits });
    assert.deepEqual(await hidden(otherIds, { edits, from: { run: base } }), expected);
    const layered = await failure(model.run(otherIds, { edits, from: { run: base, layer: 1 } }));
    assert.equal(layered.code, 'bad_request');
    // A base may continue the text.
    const startIds = textIds.slice(0, 5);
    const begun = await hidden(startIds, { edits, from: { run: base } });
    assert.deepEqual(begun, await hidden(startIds, { edits }));
    await base.close();
    assert.deepEqual(await hidden(otherIds, { edits, from: { run: base } }), expected);
    const layerError = await failure(model.run(textIds, { from: { run: base, layer: 1 } }));
    assert.equal(layerError.code, 'closed');
  });
});
