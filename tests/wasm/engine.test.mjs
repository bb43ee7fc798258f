import { test } from 'node:test';
import assert from 'node:assert/strict';
import { files, golden, softmax, tiny, withEngine } from './helper.mjs';

const tokens = [0, 17, 392, 5, 5, 81, 900, 3];

for (const worker of [false, true]) {
  const place = worker ? 'in a worker' : 'in this thread';

  test(`opens, runs, reads, generates and closes ${place}`, async () => {
    await withEngine({ worker }, async (engine) => {
      const model = await engine.open(files(softmax));
      const { L, H, V } = model.architecture;
      const run = await model.run(tokens, { capacity: 12 });
      assert.deepEqual(run.tokens, tokens);
      const T = tokens.length;
      const [att, head, alpha, sink] = await run.read([
        { field: 'att' },
        { field: 'att', layer: 2, head: 1 },
        { metric: 'alpha' },
        { metric: 'sink_ratio', eps: 0.1, tokens: 4 },
      ]);
      assert.deepEqual(att.shape, [L, H, T, T]);
      assert.deepEqual(head.shape, [T, T]);
      assert.deepEqual(head.data, att.data.slice((2 * H + 1) * T * T, (2 * H + 2) * T * T));
      assert.deepEqual(alpha.shape, [L, H, T]);
      assert.deepEqual(sink.shape, [4]);
      assert.deepEqual((await run.field('tokens')).data, Int32Array.from(tokens));

      const steps = [];
      for await (const step of run.generate({ count: 4, temperature: 0.8, topK: 40, seed: 9 })) {
        assert.deepEqual(step.att.shape, [L, H, step.position + 1]);
        assert.ok(step.token >= 0 && step.token < V);
        steps.push(step.token);
      }
      assert.deepEqual(run.tokens, [...tokens, ...steps]);
      await run.close();
      await model.close();
    });
  });
}

test('every field and metric of describe can be read', async () => {
  await withEngine({}, async (engine) => {
    const model = await engine.open(files(new URL('hf-mixtral/', golden)));
    const fields = engine.describe.fields.filter(
      ({ needs }) => !needs || model.architecture[needs],
    );
    const ids = [1, 2, 3, 4, 5, 6];
    const run = await model.run(ids, { fields: fields.map(({ name }) => name) });
    const sizes = { ...model.architecture, T: ids.length };
    // A size is a letter, a number, or a sum of them.
    const size = (text) =>
      text.split('+').reduce((sum, term) => sum + (sizes[term] ?? Number(term)), 0);
    for (const { name, shape, type } of fields) {
      const field = await run.field(name);
      assert.deepEqual(field.shape, shape.map(size), name);
      assert.ok(field.data instanceof (type === 'i32' ? Int32Array : Float32Array), name);
    }
    for (const { name, shape, range, arguments: needs } of engine.describe.metrics) {
      const baseArgument = needs.includes('base') ? { base: run } : {};
      const metric = await run.metric(name, { layer: 0, head: 0, ...baseArgument });
      assert.deepEqual(metric.shape, shape.map(size), name);
      const [low, high] = [range[0] ?? -Infinity, range[1] ?? Infinity];
      for (const x of metric.data) {
        assert.ok(Number.isNaN(x) || (x >= low - 1e-4 && x <= high + 1e-4), `${name}: ${x}`);
      }
    }
  });
});

test('generation is repeatable by its seed and does not depend on how the prompt was cut', async () => {
  await withEngine({}, async (engine) => {
    const model = await engine.open(files(tiny));
    const { V, context } = model.architecture;
    const longIds = Array.from({ length: Math.min(context, 40) - 6 }, (_, i) => (i * 7) % V);
    const wholeRun = await model.run(longIds);
    const options = { count: 6, temperature: 1, seed: 4 };
    const steps = await Array.fromAsync?.(wholeRun.generate(options));
    const secondRun = await model.run(longIds);
    const tokens = [];
    for await (const { token } of secondRun.generate(options)) tokens.push(token);
    if (steps)
      assert.deepEqual(
        steps.map(({ token }) => token),
        tokens,
      );
    // Without topK every token may be drawn; with 1 only the most likely one is.
    const drawnWith = async (topK) => {
      const run = await model.run(longIds);
      for await (const _ of run.generate({ ...options, topK }));
      return run.tokens.slice(longIds.length);
    };
    assert.deepEqual(await drawnWith(0), tokens);
    assert.notDeepEqual(await drawnWith(1), tokens);
    // By default the likeliest token is taken; if only a temperature is given, all may be drawn, from seed 1.
    const drawnBy = async (options) => {
      const run = await model.run(longIds);
      for await (const _ of run.generate({ count: 6, ...options }));
      return run.tokens.slice(longIds.length);
    };
    const likeliest = await drawnBy({});
    assert.deepEqual(await drawnBy({ temperature: 0, topK: 0, seed: 1 }), likeliest);
    const randomTokens = await drawnBy({ temperature: 1 });
    assert.notDeepEqual(randomTokens, likeliest);
    assert.deepEqual(await drawnBy({ temperature: 1, topK: 0, seed: 1 }), randomTokens);
    assert.notDeepEqual(await drawnBy({ temperature: 1, seed: 2 }), randomTokens);
    await assert.rejects(drawnBy({ temperature: Infinity }), { where: 'temperature' });
    const prefilled = await model.run(secondRun.tokens);
    const [stepped, prefilledAtt] = [await secondRun.field('att'), await prefilled.field('att')];
    assert.deepEqual(stepped, prefilledAtt);
  });
});

test('without the field att, a generated token has no attention row', async () => {
  await withEngine({}, async (engine) => {
    const model = await engine.open(files(tiny));
    const run = await model.run([1, 2], { fields: [] });
    for await (const { att } of run.generate({ count: 1 })) assert.equal(att.data.length, 0);
    await assert.rejects(run.field('att'), { code: 'bad_request' });
  });
});
