// Tests a study that becomes a recording, on a fake model, so that every number is known.
import { createHash } from 'node:crypto';
import { test } from 'node:test';
import assert from 'node:assert/strict';
import { recordStudy } from '../../wasm/index.ts';
import { headerOf, tensorsOf } from '../safetensors.mjs';

const EXACT_METRICS = ['alpha', 'row_mass', 'hidden_norm', 'key_norm', 'value_norm'];
const metric = (name, fields, otherFields = {}) => ({
  name,
  fields,
  arguments: [],
  shape: [],
  averaged: true,
  ...otherFields,
});
const describe = {
  version: '1',
  defaults: { eps: 0.3 },
  operations: [{ name: 'softmax', proxy: 'weights' }],
  fields: [
    { name: 'att', needs: null, standard: true },
    { name: 'loss', needs: null, averaged: true },
    { name: 'seen', needs: null },
    { name: 'hidden', needs: null },
  ],
  metrics: [
    metric('alpha', ['att']),
    metric('loss_mean', ['loss']),
    metric('sinks', ['att'], { arguments: ['eps'] }),
    metric('kl', ['att'], { arguments: ['base'] }),
    metric('deep', ['att', 'hidden']),
    metric('single', ['att'], { averaged: false }),
    ...EXACT_METRICS.slice(1).map((name) => metric(name, ['hidden'], { averaged: false })),
  ],
  edits: [
    { name: 'silence', label: 'silent', parameters: [], counterfactual: true },
    { name: 'evict', label: 'evicted', parameters: [], counterfactual: false },
  ],
};
const sizes = { L: 2, H: 2, G: 2, K: 4, D: 8, V: 9, F: 16, E: 0 };
const architecture = {
  family: 'llama',
  ...sizes,
  context: 9,
  attention: { operation: 'softmax' },
  mask: { kind: 'causal' },
  windows: [null, null],
};

/** The weights of the first key by the first token of a sequence; the weights of the other keys are 7. */
const FIRST_ALPHAS = { 1: [0.5, 0.3, 0.1, 0.9], 2: [0.1, 0.2, 0.3, 0.4], 3: [NaN, 1, 1, 1] };
const tensor = (shape, numbers) => ({ shape, data: Float32Array.from(numbers) });

function fakeModel() {
  const runs = [];
  const numberOf = ([first], { field, metric: name, eps }) => {
    if (name === 'alpha')
      return tensor(
        [2, 2, 2],
        FIRST_ALPHAS[first].flatMap((x) => [x, 7]),
      );
    if (name === 'loss_mean') return tensor([2], [first * 2, 99]);
    if (name === 'sinks') return tensor([1], [first + eps]);
    if (field === 'loss') return tensor([2], [NaN, first]);
    return tensor([1], [field === 'att' ? 0.1 : first]);
  };
  const run = async (ids, options) => {
    const fakeRun = { ids, options, reads: [], isClosed: false };
    runs.push(fakeRun);
    const read = async (reads) => {
      fakeRun.reads.push(...reads);
      return reads.map((read) => numberOf(ids, read));
    };
    return { tokens: ids, read, close: async () => void (fakeRun.isClosed = true) };
  };
  return { runs, model: { describe, architecture, run } };
}

function parse(file) {
  const bytes = Buffer.from(file);
  const tensors = tensorsOf(bytes).map(([name, { dtype, shape }, data]) => {
    const { buffer } = Uint8Array.from(data);
    const numbers = dtype === 'F32' ? [...new Float32Array(buffer)] : dtype;
    return [name, { shape, numbers }];
  });
  return {
    conditions: JSON.parse(headerOf(bytes).header.__metadata__.sinkscope),
    tensors: Object.fromEntries(tensors),
  };
}
const toFloat32 = (...numbers) => numbers.map(Math.fround);
const sinkRows = [
  [1, 5],
  [2, 6],
];

test("a recording has the sinks, the first key's weight and the loss of each prompt, beside their means", async () => {
  const { model, runs } = fakeModel();
  const { tensors, conditions } = parse(
    await recordStudy(model, sinkRows, { eps: [0.3, 0.2], keep: 0 }),
  );
  assert.deepEqual(tensors['prompt.sink_1'], { shape: [2, 2], numbers: [0.5, 0.75, 0.25, 0.5] });
  assert.deepEqual(tensors['prompt.alpha_1'].shape, [2]);
  tensors['prompt.alpha_1'].numbers.forEach((x, i) =>
    assert.ok(Math.abs(x - [0.45, 0.25][i]) < 1e-7),
  );
  assert.deepEqual(tensors['prompt.loss'], { shape: [2], numbers: [2, 4] });
  assert.deepEqual(tensors['mean.loss_mean'], { shape: [2], numbers: [3, 99] });
  assert.deepEqual(tensors['mean.sinks'], { shape: [2, 1], numbers: toFloat32(1.8, 1.7) });
  // Metrics that need an unusual field or a second run, or that have no mean, are not measured.
  const means = Object.keys(tensors).filter((name) => name.startsWith('mean.'));
  assert.deepEqual(means.sort(), ['mean.alpha', 'mean.loss_mean', 'mean.sinks']);
  assert.equal(Object.keys(tensors).length, 2 * means.length + 3);
  assert.equal(runs.length, 2);
  // The hash of what was run: the ids of all sequences, also of those that are not kept.
  const sha256 = createHash('sha256').update(new Int32Array(sinkRows.flat())).digest('hex');
  assert.deepEqual(
    [conditions.prompts, conditions.eps, conditions.tokens],
    [{ source: null, sha256, source_sha256: null, count: 2, kept: 0, T: 2 }, [0.3, 0.2], []],
  );
});

test('the first token is that of all prompts, also of those that are not kept', async () => {
  const { model } = fakeModel();
  const strings = (ids) => ids.map((id) => `<${id}>`);
  const firstOf = async (rows, keep) => {
    const { conditions } = parse(await recordStudy(model, rows, { keep, strings }));
    return conditions.first;
  };
  const none = { token: null, id: null, position: 0 };
  const one = { token: '<1>', id: 1, position: 0 };
  for (const keep of [0, 1]) {
    assert.deepEqual(await firstOf(sinkRows, keep), none, 'the prompts begin with 1 and with 2');
    assert.deepEqual(await firstOf([sinkRows[0], [1, 6]], keep), one);
    assert.deepEqual(await firstOf(sinkRows.slice(0, 1), keep), one);
  }
});

test("the hash of the source is stored under another key than that of the prompts' ids", async () => {
  const { model } = fakeModel();
  const hashes = [];
  for (const rows of [sinkRows, sinkRows.slice(0, 1)]) {
    const { conditions } = parse(await recordStudy(model, rows, { sourceSha256: 'ab' }));
    assert.equal(conditions.prompts.source_sha256, 'ab');
    hashes.push(conditions.prompts.sha256);
  }
  assert.notEqual(hashes[0], hashes[1]);
});

test('a prompt with an undefined weight has no sinks, and one without a loss has no loss', async () => {
  const { model } = fakeModel();
  const { tensors } = parse(await recordStudy(model, [[3, 5]], { keep: 0, metrics: ['sinks'] }));
  assert.deepEqual(tensors['prompt.sink_1'], { shape: [1, 1], numbers: [NaN] });
  assert.deepEqual(tensors['prompt.loss'], { shape: [1], numbers: [NaN] });
  assert.deepEqual(
    Object.keys(tensors)
      .filter((name) => name.startsWith('mean.'))
      .sort(),
    ['mean.alpha', 'mean.sinks'],
  );
  assert.deepEqual(tensors['mean.sinks'], { shape: [1, 1], numbers: toFloat32(3.3) });
});

test('the first prompts are stored, each from a run that is then closed', async () => {
  for (const [keep, keptCount] of [
    [undefined, 1],
    [0, 0],
    [1, 1],
    [2, 2],
  ]) {
    const { model, runs } = fakeModel();
    const { tensors, conditions } = parse(
      await recordStudy(model, sinkRows, { keep, license: 'MIT' }),
    );
    const prompts = Object.keys(tensors).filter((name) => name.endsWith('.tokens'));
    assert.deepEqual(prompts, ['0.tokens', '1.tokens'].slice(0, keptCount));
    assert.deepEqual([conditions.prompts.kept, conditions.license], [keptCount, 'MIT']);
    assert.deepEqual(
      conditions.tokens,
      [
        ['1', '5'],
        ['2', '6'],
      ].slice(0, keptCount),
    );
    assert.equal(runs.length, 2 + keptCount);
    assert.deepEqual(
      runs.slice(2).map(({ ids }) => ids),
      sinkRows.slice(0, keptCount),
    );
    for (const run of runs) assert.ok(run.isClosed);
    for (const { options } of runs.slice(2))
      assert.deepEqual(options.fields, ['att', 'loss', 'hidden']);
    if (keptCount) {
      assert.equal(tensors['0.att'].numbers, 'F16');
      assert.deepEqual(tensors['0.loss'], { shape: [1], numbers: [1] });
    }
  }
  const { model } = fakeModel();
  const { tensors } = parse(await recordStudy(model, sinkRows, { half: false }));
  assert.deepEqual(tensors['0.att'].numbers, toFloat32(0.1));
  const { runs, model: unused } = fakeModel();
  await assert.rejects(recordStudy(unused, sinkRows, { keep: 3 }), { where: 'keep' });
  assert.equal(runs.length, 0);
});

test('a recording of edited runs stores the visible keys, the edits and their class', async () => {
  for (const [edits, kind, recordedClass] of [
    [[], 'MEASURED'],
    [[{ kind: 'evict' }], 'MEASURED'],
    [[{ kind: 'silence' }], 'COUNTERFACTUAL'],
    [[{ kind: 'evict' }, { kind: 'silence' }], 'COUNTERFACTUAL'],
    [[{ kind: 'silence' }], 'OWN', 'OWN'],
  ]) {
    const { model, runs } = fakeModel();
    const options = { edits, ...(recordedClass && { class: recordedClass }) };
    const { tensors, conditions } = parse(await recordStudy(model, sinkRows, options));
    assert.equal(conditions.class, kind);
    assert.equal('0.seen' in tensors, edits.length > 0);
    assert.deepEqual(
      conditions.edits?.map((edit) => edit.kind) ?? [],
      edits.map((edit) => edit.kind),
    );
    for (const run of runs) assert.deepEqual(run.options.edits, edits);
  }
});

test('recordStudy reports progress and passes its signal to every run', async () => {
  const { model, runs } = fakeModel();
  const { signal } = new AbortController();
  const reports = [];
  await recordStudy(model, sinkRows, {
    signal,
    onProgress: ({ done, total }) => reports.push(`${done}/${total}`),
  });
  assert.deepEqual(reports, ['1/2', '2/2']);
  for (const { options } of runs) assert.equal(options.signal, signal);
});
