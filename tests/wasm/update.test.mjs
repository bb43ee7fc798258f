// Checks that a run whose text changes, and one that begins where its edits begin, have the bits of new runs.
import { test } from 'node:test';
import assert from 'node:assert/strict';
import { isDeepStrictEqual } from 'node:util';
import { randomBits } from '../../wasm/engine/random.ts';
import { failure, files, randomModel, softmax, tiny, withEngine } from './helper.mjs';

const text = [3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8];

function fieldsOf({ describe, architecture }) {
  const rows = describe.fields.filter(
    ({ standard, needs }) => standard && (!needs || architecture[needs]),
  );
  return rows.map(({ name }) => name);
}

async function numbersOf(run, model) {
  const { metrics } = model.describe;
  const recorded = fieldsOf(model);
  const means = metrics.filter(({ arguments: needs, fields: read }) => {
    const own = read.every((name) => recorded.includes(name));
    return own && !needs.some((one) => ['base', 'layer', 'head'].includes(one));
  });
  const all = [
    ...recorded.map((field) => ({ field })),
    ...means.map(({ name }) => ({ metric: name })),
  ];
  assert.ok(recorded.length > 5 && means.length > 5);
  return run.read(all);
}

for (const worker of [false, true])
  test(`an updated run equals a new one ${worker ? 'in a worker' : 'in this thread'}`, async () => {
    await withEngine({ worker }, async (engine) => {
      const model = await engine.open(files(tiny));
      for (const edits of [
        [],
        [{ kind: 'hide_key', key: 0, layer: 1 }],
        [{ kind: 'evict', policy: 'h2o', budget: 4 }],
        [{ kind: 'quantize', what: 'keys', bits: 3, by: 'channel' }],
      ]) {
        const draw = randomBits(5);
        const random = (below) => draw() % below;
        const run = await model.run(text, { edits, capacity: 16 });
        let tokens = [...text];
        for (let i = 0; i < 12; i++) {
          tokens = tokens.slice(0, 1 + random(tokens.length));
          while (tokens.length < 16 && random(4)) tokens.push(text[random(text.length)]);
          await run.update(tokens);
          assert.deepEqual(run.tokens, tokens);
          const fresh = await model.run(tokens, { edits });
          assert.deepEqual(await numbersOf(run, model), await numbersOf(fresh, model));
          await fresh.close();
        }
        await run.close();
      }
    });
  });

/** Lists each edit of the table with each value of its first choice, such as the policies of an eviction. */
const variants = ({ edits }) =>
  edits.flatMap((row) => {
    const choice = row.parameters.find(({ choices }) => choices);
    return choice ? choice.choices.map((word) => [row, { [choice.name]: word }]) : [[row, {}]];
  });

function drawEdit([row, given], { operations }, random) {
  const values = row.parameters.map(({ name, type, required, choices, low = 0 }) => {
    if (name in given) return [name, given[name]];
    if (!required && random(2)) return [name, undefined];
    if (choices) return [name, choices[random(choices.length)]];
    if (type === 'operation') return [name, operations[random(operations.length)].name];
    if (type === 'number') return [name, [0, 0.5, 2, -1][random(4)]];
    return [name, Math.max(low, [0, 1, 2, 4, 7][random(5)])];
  });
  return { kind: row.name, ...Object.fromEntries(values) };
}

async function takenEdit(variant, model, random) {
  for (let i = 0; i < 2000; i++) {
    const edit = drawEdit(variant, model.describe, random);
    const run = await model.run(text, { edits: [edit], fields: ['next'] }).catch(() => undefined);
    await run?.close();
    if (run) return edit;
  }
  return assert.fail(`no ${variant[0].name} was taken`);
}

test('under any two edits, in both orders, an updated run equals a new one', async () => {
  await withEngine({ kernels: 'base' }, async (engine) => {
    const model = await engine.open(files(tiny));
    const draw = randomBits(9);
    const random = (below) => draw() % below;
    const all = variants(model.describe);
    const fields = ['hidden', 'att', 'next'];
    let compared = 0;
    for (const first of all) {
      for (const second of all)
        for (let i = 0; i < (first[0].name === 'evict' ? 4 : 1); i++) {
          const one = await takenEdit(first, model, random);
          const edits = [one, drawEdit(second, model.describe, random)];
          const run = await model
            .run(text.slice(0, 8), { edits, capacity: 12, fields })
            .catch(() => undefined);
          const kept = random(9);
          const next = [...text.slice(0, kept), ...text.slice(0, 1 + random(12 - kept))];
          const updated = await run?.update(next).then(
            () => true,
            (error) => assert.equal(error.code, 'unsupported'),
          );
          if (updated) {
            const fresh = await model.run(next, { edits, capacity: 12, fields });
            const both = [run, fresh].map((one) => one.read(fields.map((field) => ({ field }))));
            const [found, expected] = await Promise.all(both);
            assert.deepEqual(found, expected, JSON.stringify(edits));
            compared++;
            await fresh.close();
          }
          await run?.close();
        }
    }
    assert.ok(compared > all.length ** 2 / 2, `${compared} of ${all.length} squared`);
  });
});

test('sampling after an update draws the tokens of a new run', async () => {
  await withEngine({}, async (engine) => {
    const model = await engine.open(files(softmax));
    const drawn = async (run) => {
      for await (const _ of run.generate({ count: 4, temperature: 0.9, seed: 3 }));
      return run.tokens;
    };
    const run = await model.run(text);
    await drawn(run);
    await run.update(text.slice(0, 5));
    assert.deepEqual(await drawn(run), await drawn(await model.run(text.slice(0, 5))));
  });
});

test('a rejected update gives the reason and leaves the run unchanged', async () => {
  await withEngine({}, async (engine) => {
    const model = await engine.open(files(tiny));
    const { V } = model.architecture;
    const edits = [{ kind: 'clamp_channel', channel: 1, to: 'mean', prompt: 6 }];
    const run = await model.run(text, { edits, capacity: 14 });
    const before = await run.field('att');
    const wrong = async (tokens, code, where) => {
      const error = await failure(run.update(tokens));
      assert.deepEqual([error.code, error.where], [code, where]);
      assert.deepEqual(run.tokens, text);
      assert.deepEqual(await run.field('att'), before);
    };
    await wrong(undefined, 'argument', 'tokens');
    await wrong([], 'argument', 'tokens.length');
    await wrong(Array(15).fill(1), 'argument', 'tokens.length');
    await wrong([1, V], 'argument', 'tokens[1]');
    await wrong([1, 2, 3], 'unsupported', 'edits[0].prompt');
    assert.equal((await failure(run.update([1], { onProgress: 1 }))).code, 'argument');
    await run.close();
    assert.equal((await failure(run.update([1]))).code, 'closed');
  });
});

for (const worker of [false, true])
  test(`a stopped update keeps the previous text and leaks no memory, ${worker ? 'in a worker' : 'without one'}`, async () => {
    await withEngine({ worker }, async (engine) => {
      const model = await engine.open(randomModel({ L: 8, D: 256, F: 1024, V: 64, context: 1000 }));
      const many = Array.from({ length: 1000 }, (_, i) => i % 64);
      const fields = ['hidden', 'loss'];
      const run = await model.run(text, { fields, capacity: 1000 });
      const before = await run.field('hidden');
      const stopped = async () => {
        const stop = new AbortController();
        const onProgress = () => stop.abort(new Error('enough'));
        const tokens = [...run.tokens];
        await assert.rejects(run.update(many, { signal: stop.signal, onProgress }), /enough/);
        assert.deepEqual(run.tokens, tokens);
      };
      await stopped();
      assert.deepEqual(await run.field('hidden'), before);
      const memory = await engine.memory();
      for (let i = 0; i < 3; i++) {
        await stopped();
        if (i === 1) await run.field('loss');
      }
      assert.equal(await engine.memory(), memory);
      // A stopped run can be updated at once; reads during the update wait for the new text.
      await stopped();
      const shorter = text.slice(0, 7);
      const [, hidden] = await Promise.all([run.update(shorter), run.field('hidden')]);
      assert.deepEqual(hidden, await (await model.run(shorter, { fields })).field('hidden'));
      await stopped();
      await run.close();
    });
  });

test('an update that is rejected after a stopped one leaves the text before both', async () => {
  await withEngine({}, async (engine) => {
    const model = await engine.open(randomModel({ L: 8, D: 256, F: 1024, V: 64, context: 1000 }));
    const many = Array.from({ length: 1000 }, (_, i) => i % 64);
    const edits = [{ kind: 'clamp_channel', channel: 1, to: 'mean', prompt: 6 }];
    const run = await model.run(text, { edits, fields: ['hidden'], capacity: 1000 });
    const before = await run.field('hidden');
    const stop = new AbortController();
    const onProgress = () => stop.abort(new Error('enough'));
    await assert.rejects(run.update(many, { signal: stop.signal, onProgress }), /enough/);
    assert.equal((await failure(run.update([1, 2, 3]))).code, 'unsupported');
    assert.ok(isDeepStrictEqual(await run.field('hidden'), before));
    assert.deepEqual(run.tokens, text);
  });
});

test('a run that begins from another has the numbers of a run from the start, and can be updated', async () => {
  await withEngine({}, async (engine) => {
    const model = await engine.open(files(softmax));
    const base = await model.run(text);
    for (const edits of [
      [],
      [{ kind: 'silence', layer: 2, head: 1 }],
      [{ kind: 'hide_key', key: 7 }],
      [{ kind: 'operation', operation: 'sigmoid', layer: 1 }],
      [{ kind: 'evict', policy: 'tova', budget: 4, layer: 1 }],
    ]) {
      const run = await model.run(text, { edits, from: { run: base } });
      const same = async (fresh) =>
        assert.deepEqual(await numbersOf(run, model), await numbersOf(fresh, model));
      await same(await model.run(text, { edits }));
      for await (const _ of run.generate({ count: 2 }));
      await same(await model.run(run.tokens, { edits }));
      await run.update([7, ...text]);
      await same(await model.run([7, ...text], { edits }));
      await run.close();
    }
    // An explicit layer, whatever the edits, requires a base with the same tokens.
    const from = await model.run(text, { from: { run: base, layer: 1 }, capacity: 20 });
    assert.equal((await failure(from.update([1, 2]))).code, 'unsupported');
    // A base with another text is ignored, also one that continues it. With an explicit layer it is refused.
    const others = text.map((id) => id + 1);
    const edits = [{ kind: 'silence', layer: 2, head: 1 }];
    const expected = await numbersOf(await model.run(others, { edits }), model);
    const beside = await model.run(others, { edits, from: { run: base } });
    assert.deepEqual(await numbersOf(beside, model), expected);
    const start = text.slice(0, 5);
    const shorter = await model.run(start, { edits, from: { run: base } });
    const plain = await model.run(start, { edits });
    assert.deepEqual(await numbersOf(shorter, model), await numbersOf(plain, model));
    const layered = await failure(model.run(others, { edits, from: { run: base, layer: 1 } }));
    assert.equal(layered.code, 'bad_request');
    await base.close();
    const after = await model.run(others, { edits, from: { run: base } });
    assert.deepEqual(await numbersOf(after, model), expected);
    const late = await failure(model.run(text, { from: { run: base, layer: 1 } }));
    assert.equal(late.code, 'closed');
  });
});
