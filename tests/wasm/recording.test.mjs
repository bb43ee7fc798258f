// Tests recordings of the engine's own runs and of other programs, and hostile files.
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { test } from 'node:test';
import assert from 'node:assert/strict';
import { measure, openTokenizer, recordMaps, recordStudy } from '../../wasm/index.ts';
import { cutText } from '../../wasm/internal.ts';
import { loadModule } from '../../wasm/engine/load_module.ts';
import { Backend } from '../../wasm/engine/backend.ts';
import { QUIET_JOB } from '../../wasm/engine/job.ts';
import { headerOf, withHeader } from '../safetensors.mjs';
import { binaries, failure, files, root, softmax, withEngine } from './helper.mjs';

const Ajv = createRequire(new URL('wasm/package.json', root))('ajv/dist/2020');
const schema = JSON.parse(readFileSync(new URL('core/report/recording.schema.json', root), 'utf8'));
const isValid = new Ajv({ strictTypes: false }).compile(schema);
const tokenizer = openTokenizer(readFileSync(new URL('tokenizer.json', softmax), 'utf8'));
const text = `Once upon a time there was a king who had lost his name, and nobody knew it. Every
morning the king went to the well for water, and every evening the king sat by the fire and told the
cat what had been. The cat did not know the name, but the cat was kind and slept beside the king.`;
const sequences = await cutText(tokenizer, text, { tokens: 16, sequences: 4 });
const strings = (ids) => ids.map((id) => tokenizer.piece(id));
const eps = [0.1, 0.2, 0.3];

function withMetadata(bytes, change) {
  const { header } = headerOf(bytes);
  header.__metadata__ = change(header.__metadata__);
  return new Uint8Array(withHeader(bytes, header));
}

const assertSame = (a, b, label) =>
  assert.deepEqual(
    Array.from(a, (x) => (x === null ? NaN : Math.fround(x))),
    Array.from(b, (x) => (x === null ? NaN : Math.fround(x))),
    label,
  );

test('a recording of a study has the bits of measure()', async () => {
  await withEngine({ worker: true, workers: 1, threads: 2 }, async (engine) => {
    const model = await engine.open(files(softmax));
    const result = await measure(model, sequences, { eps });
    const fields = ['att', 'q', 'k', 'v', 'hidden', 'seen'];
    const bytes = await recordStudy(model, sequences, {
      eps,
      keep: 2,
      strings,
      fields,
      half: false,
    });
    const recording = await engine.openRecording(bytes);
    const { T, sequences: count, metrics, byEps } = await measure(recording);
    assert.deepEqual([T, count], [result.T, result.sequences]);
    const rows = engine.describe.metrics.filter(({ name }) => name in result.metrics);
    assert.ok(rows.length > 10);
    for (const { name } of rows) {
      assert.deepEqual(metrics[name].shape, result.metrics[name].shape, name);
      assertSame(metrics[name].mean, result.metrics[name].mean, name);
      assertSame(metrics[name].deviation, result.metrics[name].deviation, name);
    }
    byEps.forEach((entry, i) =>
      assertSame(
        entry.metrics.sink_ratio.mean,
        result.byEps[i].metrics.sink_ratio.mean,
        `eps ${eps[i]}`,
      ),
    );
    const missingMetrics = [];
    for (const prompt of [0, 1]) {
      const run = await model.run(sequences[prompt]);
      const { shape, data } = await run.field('att');
      const map = await recording.field('att', { prompt });
      assert.deepEqual([map.shape, map.data], [shape, data]);
      for (const { name, arguments: args } of engine.describe.metrics) {
        if (args.includes('base')) continue;
        const place = args.includes('layer') ? { layer: 3, head: 2 } : {};
        const recordedMetric = await recording.metric(name, { prompt, ...place }).catch((error) => {
          assert.equal(error.code, 'bad_request', name);
          assert.match(
            error.text,
            /^needs the (field \w+, not recorded|model's weights, and a recording has none)$/,
            name,
          );
          missingMetrics.push(name);
        });
        if (recordedMetric && name !== 'loss_mean' && name !== 'loss_at')
          assertSame(recordedMetric.data, (await run.metric(name, place)).data, name);
      }
      await run.close();
    }
    const unrecordedMetrics = ['alpha_bias', 'sink_ratio_bias', 'gate_mean', 'super_weight'];
    for (const name of unrecordedMetrics) assert.ok(missingMetrics.includes(name), name);
    assert.ok(!missingMetrics.includes('contribution') && !missingMetrics.includes('kurtosis'));
    assert.deepEqual(recording.tokens, sequences[0]);
    assert.deepEqual(recording.conditions.tokens[1], strings(sequences[1]));
    const sinkRows = await recording.tensor('prompt.sink_1');
    assert.deepEqual(sinkRows.shape, [sequences.length, eps.length]);
    const mean =
      sinkRows.data.filter((_, i) => i % 3 === 2).reduce((a, b) => a + b) / sequences.length;
    assert.ok(Math.abs(mean - result.byEps[2].metrics.sink_ratio.mean[0]) < 1e-6);
    await recording.close();
    assert.equal((await failure(recording.metric('alpha'))).code, 'closed');
  });
});

test('closing a recording twice does not free its memory twice', async () => {
  const signs = new Float32Array([1, 0, 0.5, 0.5]);
  const bytes = recordMaps([{ att: [{ shape: [1, 2, 2], data: signs }] }]);
  const backend = new Backend(await loadModule(new URL('sinkscope.lab.wasm', binaries)), () => {});
  const { recording } = await backend.openRecording(QUIET_JOB, bytes);
  await backend.closeRecording(recording);
  assert.equal((await failure(backend.closeRecording(recording))).code, 'closed');
});

test('written recordings follow the schema', async () => {
  await withEngine({}, async (engine) => {
    const model = await engine.open(files(softmax));
    const run = await model.run(sequences[0]);
    const license = 'Apache-2.0';
    const aboutOptions = { license, source: 'a text', command: 'none', model: { id: 'softmax' } };
    const bytes = await recordStudy(model, sequences, { strings, eps, keep: 2, ...aboutOptions });
    for (const recordingBytes of [bytes, await run.record()]) {
      const conditions = JSON.parse(headerOf(recordingBytes).header.__metadata__.sinkscope);
      assert.ok(isValid(conditions), JSON.stringify(isValid.errors));
    }
    const { conditions } = await engine.openRecording(bytes);
    assert.deepEqual(
      [conditions.license, conditions.model.id, conditions.prompts.kept],
      [license, 'softmax', 2],
    );
  });
});

test('opening a recording reports the bytes read, and then that it is open', async () => {
  await withEngine({}, async (engine) => {
    const model = await engine.open(files(softmax));
    const bytes = await recordStudy(model, sequences.slice(0, 2), { strings });
    const stages = [];
    const onProgress = ({ stage, done, total }) => stages.push(`${stage} ${done}/${total}`);
    await (await engine.openRecording(bytes, { onProgress })).close();
    assert.deepEqual(stages, [`read ${bytes.length}/${bytes.length}`, 'open 1/1']);
  });
});

test('cut files and false entries are rejected with a place, and leave no memory', async () => {
  await withEngine({}, async (engine) => {
    const model = await engine.open(files(softmax));
    const bytes = await recordStudy(model, sequences.slice(0, 2), { strings });
    await (await engine.openRecording(bytes)).close();
    const before = await engine.memory();
    const cutError = await failure(engine.openRecording(bytes.slice(0, bytes.length - 1)));
    assert.deepEqual([cutError.code, /^\w+\.\w+$/.test(cutError.where)], ['bad_file', true]);
    assert.match(cutError.text, /data inside/);
    const evilConditions = JSON.parse(headerOf(bytes).header.__metadata__.sinkscope);
    // For the core a text ends with its NUL: JavaScript must not read fewer bytes than were checked.
    const hiddenJson = JSON.stringify(evilConditions).replace('"model":', '"model\\u0000x":');
    const hiddenFile = withMetadata(bytes, (m) => ({ ...m, sinkscope: hiddenJson }));
    const { name, code, where } = await failure(engine.openRecording(hiddenFile));
    assert.deepEqual([name, code, where], ['SinkscopeError', 'bad_config', 'model\0x']);
    const editedFile = withMetadata(bytes, (m) => ({
      ...m,
      sinkscope: m.sinkscope.replace('{', '{"__proto__":{"license":"all"},'),
    }));
    assert.equal((await engine.openRecording(editedFile)).conditions.license, null);
    for (let i = 0; i < 40; i++)
      await failure(engine.openRecording(bytes.slice(0, bytes.length - 1)));
    assert.ok((await engine.memory()) - before < 2 ** 22);
  });
  await withEngine({ lab: true }, async (engine) => {
    const bytes = recordMaps([{ att: { shape: [1, 1, 1, 1], data: [1] } }]);
    const { data } = await (await engine.openRecording(bytes)).metric('alpha');
    assert.deepEqual([...data], [1]);
  });
});
