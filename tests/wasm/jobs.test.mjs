import { test } from 'node:test';
import assert from 'node:assert/strict';
import { getEventListeners } from 'node:events';
import { createServer } from 'node:http';
import { Chain, runInTurn } from '../../wasm/engine/chain.ts';
import { failure, files, randomModel, softmax, tiny, withEngine } from './helper.mjs';

const tokens = Array.from({ length: 120 }, (_, i) => i);

test('an action that is stopped before its turn, or before it is asked for, ends at once and never begins', async () => {
  const chain = new Chain();
  let release;
  const held = runInTurn({ changedChain: chain }, () => new Promise((end) => (release = end)));
  let begun = 0;
  for (const isEarly of [true, false]) {
    const stop = new AbortController();
    if (isEarly) stop.abort(new Error('enough'));
    const turn = { changedChain: chain, signal: stop.signal };
    const waiting = runInTurn(turn, async () => begun++);
    stop.abort(new Error('enough'));
    await assert.rejects(waiting, /enough/);
  }
  release();
  await held;
  await runInTurn({ changedChain: chain }, async () => assert.equal(begun, 0));
});

for (const worker of [false, true]) {
  const place = worker ? 'in a worker' : 'in this thread';

  test(`progress is reported and a run stops on request ${place}`, async () => {
    await withEngine({ worker }, async (engine) => {
      const stages = [];
      const noteStage = ({ stage, done, total }) => stages.push(`${stage} ${done}/${total}`);
      const { config, weights } = files(softmax);
      const model = await engine.open({ config, weights }, { onProgress: noteStage });
      assert.deepEqual(stages, [
        `read ${weights.length}/${weights.length}`,
        'open 0/1',
        'open 1/1',
      ]);

      // The run takes half a second or more: reports arrive every 40 ms, and a request to stop is read as often.
      const slowModel = await engine.open(
        randomModel({ L: 8, D: 256, F: 1024, V: 64, context: 1000 }),
      );
      const longIds = Array.from({ length: 1000 }, (_, i) => i % 64);
      const positions = [];
      const note = ({ done }) => positions.push(done);
      await slowModel.run(longIds, { onProgress: note });
      assert.equal(positions.at(-1), longIds.length);
      assert.ok(
        positions.length > 2 && positions.every((n, i) => i === 0 || n >= positions[i - 1]),
      );

      // If an edit needs all tokens at once, they pass the layers in one piece.
      positions.length = 0;
      const edits = [{ kind: 'clamp_channel', channel: 1, to: 'mean' }];
      await slowModel.run(longIds, { edits, onProgress: note });
      assert.ok(positions.at(-2) > longIds.length / 2, `${positions}`);

      const stop = new AbortController();
      const stoppedPositions = [];
      const onProgress = ({ done }) => {
        stoppedPositions.push(done);
        stop.abort(new Error('enough'));
      };
      await assert.rejects(slowModel.run(longIds, { signal: stop.signal, onProgress }), /enough/);
      assert.ok(!stoppedPositions.includes(longIds.length), `stopped after ${stoppedPositions}`);
      await assert.rejects(slowModel.run(longIds, { signal: stop.signal }), /enough/);
      await slowModel.close();

      const run = await model.run(tokens.slice(0, 4));
      const controller = new AbortController();
      const steps = [];
      const generation = (async () => {
        for await (const { token } of run.generate({ count: 20, signal: controller.signal })) {
          if (steps.push(token) === 2) controller.abort();
        }
      })();
      await assert.rejects(generation, { name: 'AbortError' });
      assert.equal(steps.length, 2);
    });
  });
}

test('progress counts only finished tokens, as integers', async (t) => {
  await withEngine({}, async (engine) => {
    const model = await engine.open(files(tiny));
    // Each piece takes long, so that each is reported.
    let time = 0;
    t.mock.method(performance, 'now', () => (time += 100));
    const positions = [];
    await model.run([1, 2, 3, 4, 5, 6, 7], { onProgress: ({ done }) => positions.push(done) });
    t.mock.restoreAll();
    // After one and two of three pieces, 2.3 and 4.7 tokens are finished.
    assert.deepEqual(positions, [2, 4, 7]);
  });
});

for (const worker of [false, true])
  test(`a run stopped at its last report leaves no memory behind ${worker ? 'in a worker' : 'in this thread'}`, async () => {
    await withEngine({ worker }, async (engine) => {
      const model = await engine.open(files(tiny));
      const run = await model.run([1, 2, 3]);
      const bytes = await run.record({ strings: (ids) => ids.map(String) });
      const signals = new Set();
      /** Aborts a call at its last report, when the answer already exists. */
      const stopAtStage = async (stage, begin) => {
        const stop = new AbortController();
        signals.add(stop.signal);
        const onProgress = (report) => {
          if (report.stage === stage && report.done === report.total)
            stop.abort(new Error('enough'));
        };
        await assert.rejects(begin({ signal: stop.signal, onProgress }), /enough/);
      };
      const stopEachStage = async () => {
        await stopAtStage('open', (options) => engine.open(files(tiny), options));
        await stopAtStage('open', (options) => engine.openRecording(bytes.slice(), options));
        await stopAtStage('run', (options) => model.run([1, 2, 3], { ...options, capacity: 32 }));
      };
      for (let i = 0; i < 3; i++) await stopEachStage();
      const before = await engine.memory();
      for (let i = 0; i < 12; i++) await stopEachStage();
      assert.equal(await engine.memory(), before);
      for (const signal of signals) assert.equal(getEventListeners(signal, 'abort').length, 0);
    });
  });

test('a model that fails to open gives back the memory of its weights', async () => {
  const { config, weights } = files(softmax);
  await withEngine({}, async (engine) => {
    const refuse = async () => {
      await assert.rejects(engine.open({ config: '{}', weights }), { code: 'unsupported' });
      await assert.rejects(engine.open({ config, weights: [weights, new Uint8Array(0)] }));
      const controller = new AbortController();
      const onProgress = ({ stage }) => stage === 'open' && controller.abort(new Error('stopped'));
      const openPromise = engine.open(
        { config, weights },
        { signal: controller.signal, onProgress },
      );
      await assert.rejects(openPromise, /stopped/);
    };
    await refuse();
    const before = await engine.memory();
    for (let i = 0; i < 20; i++) await refuse();
    assert.equal(await engine.memory(), before);
  });
});

test('a read that fails at a later file gives back the memory of the earlier ones', async () => {
  const { config, weights } = files(softmax);
  await withEngine({}, async (engine) => {
    const refuse = async () => {
      const missingUrl = new URL('none.safetensors', softmax);
      const error = await failure(engine.open({ config, weights: [weights, missingUrl] }));
      assert.equal(error.code, 'read');
    };
    await refuse();
    const before = await engine.memory();
    for (let i = 0; i < 20; i++) await refuse();
    assert.equal(await engine.memory(), before);
  });
});

test('weights download in pieces, with or without a stated length', async () => {
  const { config, weights } = files(tiny);
  const server = createServer(({ url }, response) => {
    if (url === '/config.json') return response.end(config);
    if (url === '/gone') return response.writeHead(404).end();
    if (url !== '/chunked') response.setHeader('content-length', weights.length);
    response.write(weights.subarray(0, 1000));
    setTimeout(() => {
      if (url === '/broken') response.destroy();
      else if (url !== '/silent') response.end(weights.subarray(1000));
    }, 50);
  });
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
  const urlOf = (path) => new URL(path, `http://127.0.0.1:${server.address().port}`);
  const openFrom = (engine, path, options) =>
    engine.open({ config: urlOf('/config.json'), weights: urlOf(path) }, options);
  try {
    for (const worker of [false, true]) {
      await withEngine({ worker }, async (engine) => {
        const totals = [];
        const onProgress = ({ stage, total }) => stage === 'read' && totals.push(total);
        await (await openFrom(engine, '/sized', { onProgress })).close();
        assert.equal(totals.at(-1), weights.length);
        await (await openFrom(engine, '/chunked')).close();
        const blob = new Blob([weights]);
        await (await engine.open({ config: config.toString(), weights: blob })).close();
        assert.equal((await failure(openFrom(engine, '/gone'))).code, 'read');
        assert.equal((await failure(openFrom(engine, '/broken'))).code, 'read');
        const signal = AbortSignal.timeout(100);
        await assert.rejects(openFrom(engine, '/silent', { signal }), { name: 'TimeoutError' });
      });
    }
  } finally {
    server.closeAllConnections();
    server.close();
  }
});
