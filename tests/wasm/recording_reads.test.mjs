// Tests a recording as its reader uses it, with a fake engine; and comparisons of two recordings.
import { test } from 'node:test';
import assert from 'node:assert/strict';
import { compareRecordings } from '../../wasm/index.ts';
import { Recording } from '../../wasm/recording/recording.ts';
import { OpenRecordings } from '../../wasm/engine/open_recordings.ts';
import { errorOf, failure } from './helper.mjs';

const describe = {
  defaults: { eps: 0.2 },
  metrics: [
    { name: 'alpha', arguments: [], shape: ['L', 'H+1'], summary: true },
    { name: 'sinks', arguments: ['eps'], shape: ['L'], summary: true },
    { name: 'gone', arguments: [], shape: ['T'], summary: true },
    { name: 'kl', arguments: ['base'], shape: [], summary: true },
    { name: 'inner', arguments: [], shape: ['T'], summary: false },
  ],
};
const sizes = {
  ...{ family: 'llama', L: 2, blocks: 5, layers: [1, 3], H: 1, G: 1 },
  ...{ K: 4, U: 4, D: 8, V: 9, F: 16, E: 0 },
};
const mask = { kind: 'causal' };
const conditionsOf = ({
  count = 3,
  kept = 2,
  eps = [0.1, 0.2],
  tokens = [
    ['a', 'b'],
    ['c', 'd'],
  ],
} = {}) => ({
  model: { ...sizes, operation: 'softmax', mask, windows: [null, null], id: 'own' },
  prompts: { count, kept, T: 2 },
  tokens,
  eps,
  edits: [],
});
const tensor = (shape, numbers) => ({ shape, data: Float32Array.from(numbers) });

function engine(tensors, conditions) {
  const calls = [];
  const brokenBackends = new Set();
  const backendOf = (name) => {
    const call = async (method, result) => {
      calls.push(`${name} ${method}`);
      if (brokenBackends.delete(method)) throw new Error(`${method} failed`);
      return result;
    };
    return {
      openRecording: (job, source) =>
        call(`open ${source} ${job.id}`, {
          recording: 7,
          conditions,
          tensors: Object.entries(tensors).map(([key, { shape }]) => [
            key,
            { dtype: 'F32', shape },
          ]),
          ids: [
            [4, 5],
            [6, 7],
          ].slice(0, conditions.prompts.kept),
          bytes: 99,
        }),
      readRecordingTensor: (id, key, layer, head) =>
        call(`tensor ${id} ${key} ${layer} ${head}`, [tensors[key]]),
      openRecordedPrompt: (id, prompt) => call(`prompt ${id} ${prompt}`, 10 + prompt),
      read: (run, reads) =>
        call(
          `read ${run} ${JSON.stringify(reads)}`,
          reads.map(({ eps = 0 }) => tensor([1], [run + eps])),
        ),
      closeRecording: (id) => call(`close ${id}`),
    };
  };
  let [backend, count] = [backendOf('A'), 0];
  const link = {
    isOpen: true,
    ask: async (use) => use(backend),
    job: async (options, use) => use(backend, { id: options.job, reports: false }),
  };
  return { link, calls, brokenBackends, replace: () => (backend = backendOf('BCD'[count++])) };
}

async function openFake(tensors = {}, change = {}) {
  const fakeEngine = engine(tensors, conditionsOf(change));
  const recording = await new Recording(fakeEngine.link, describe, () => 'source').open({ job: 3 });
  assert.deepEqual(fakeEngine.calls.splice(0), ['A open source 3']);
  return { ...fakeEngine, recording };
}

test('a recording has the sizes, the tokens and the tensors of its file', async () => {
  const { recording } = await openFake({ 'mean.alpha': tensor([2, 2], [1, 2, 3, 4]) });
  const { bytes, tokens, edits, architecture, tensors, conditions } = recording;
  assert.deepEqual([bytes, tokens, edits, conditions.model.id], [99, [4, 5], [], 'own']);
  const attention = { operation: 'softmax', parameters: {} };
  assert.deepEqual(architecture, { ...sizes, attention, mask, windows: [null, null] });
  assert.deepEqual([...tensors], [['mean.alpha', { dtype: 'F32', shape: [2, 2] }]]);
  assert.deepEqual((await openFake({}, { kept: 0 })).recording.tokens, []);
});

test('a tensor is read whole, or for a layer and a head', async () => {
  const { recording, calls } = await openFake({ x: tensor([1], [5]) });
  assert.deepEqual(await recording.tensor('x'), tensor([1], [5]));
  await recording.tensor('x', { layer: 1 });
  await recording.tensor('x', { layer: 0, head: 2 });
  assert.deepEqual(calls, ['A tensor 7 x -1 -1', 'A tensor 7 x 1 -1', 'A tensor 7 x 0 2']);
});

test('means and deviations have the shapes of their metrics, and the values at the requested threshold', async (t) => {
  const { recording } = await openFake({
    'mean.alpha': tensor([4], [1, 2, 3, 4]),
    'deviation.alpha': tensor([4], [5, 6, 7, 8]),
    'mean.sinks': tensor([2, 2], [1, 2, 3, 4]),
    'deviation.sinks': tensor([2, 2], [5, 6, 7, 8]),
    'mean.inner': tensor([2], [9, 8]),
  });
  assert.deepEqual(await recording.mean('alpha'), tensor([2, 2], [1, 2, 3, 4]));
  assert.deepEqual(await recording.deviation('alpha'), tensor([2, 2], [5, 6, 7, 8]));
  assert.deepEqual(await recording.mean('inner'), tensor([2], [9, 8]));
  assert.deepEqual(await recording.mean('sinks'), tensor([2], [3, 4]));
  assert.deepEqual(await recording.mean('sinks', { eps: 0.1 }), tensor([2], [1, 2]));
  // Thresholds are compared in single precision.
  assert.deepEqual(
    await recording.deviation('sinks', { eps: Math.fround(0.2) }),
    tensor([2], [7, 8]),
  );
  const assertRefused = async (use) => t.assert.snapshot(await failure(use));
  await assertRefused(recording.mean('sinks', { eps: 0.3 }));
  await assertRefused(recording.mean('gone'));
  await assertRefused(recording.deviation('inner'));
  await assertRefused(recording.mean('alpha', { eps: 'a' }));
  assert.equal((await failure(recording.mean('x'))).where, 'metric');
  // If the default threshold is not recorded, the first one is used.
  const otherRecording = await openFake(
    { 'mean.sinks': tensor([2, 2], [1, 2, 3, 4]) },
    { eps: [0.4, 0.5] },
  );
  assert.deepEqual(await otherRecording.recording.mean('sinks'), tensor([2], [1, 2]));
});

test('all reads of a recorded prompt share one run, which is created once', async (t) => {
  const { recording, calls, brokenBackends, replace } = await openFake();
  assert.deepEqual(await recording.metric('alpha', { layer: 1 }), tensor([1], [10]));
  await recording.field('att', { head: 2 });
  await recording.read([{ metric: 'alpha', base: undefined }, { field: 'q' }], { prompt: 1 });
  assert.deepEqual(calls.splice(0), [
    'A prompt 7 0',
    'A read 10 [{"layer":1,"metric":"alpha"}]',
    'A read 10 [{"head":2,"field":"att"}]',
    'A prompt 7 1',
    'A read 11 [{"metric":"alpha"},{"field":"q"}]',
  ]);
  // Another worker opens the file again, with runs of its own.
  replace();
  brokenBackends.add('prompt 7 0');
  assert.match((await recording.field('att').catch((error) => error)).message, /failed/);
  await recording.metric('alpha', { prompt: 0 });
  assert.deepEqual(calls.splice(0), [
    'B open source 0',
    'B prompt 7 0',
    'B prompt 7 0',
    'B read 10 [{"metric":"alpha"}]',
  ]);
  replace();
  brokenBackends.add('open source 0');
  assert.match((await recording.field('att').catch((error) => error)).message, /failed/);
  await recording.field('att', { prompt: 1 });
  assert.deepEqual(calls.splice(0), [
    'C open source 0',
    'C open source 0',
    'C prompt 7 1',
    'C read 11 [{"field":"att"}]',
  ]);
  for (const use of [
    () => recording.read([], { prompt: 2 }),
    () => recording.read([{ metric: 'a' }, { metric: 'a', base: 1 }]),
  ])
    t.assert.snapshot(await failure(use()));
  const emptyRecording = await openFake({}, { kept: 0 });
  t.assert.snapshot(await failure(emptyRecording.recording.field('att')));
});

test('pooled maps have 255 levels, with a scale for each map', async () => {
  const { recording, calls } = await openFake({
    '1.att_pooled': tensor([2, 1, 2], [255, 51, 0, 102]),
    '1.att_scale': tensor([2], [2, 0.5]),
  });
  assert.deepEqual(
    await recording.pooled({ prompt: 1, layer: 1 }),
    tensor([2, 1, 2], [2, 0.4, 0, 0.2]),
  );
  assert.deepEqual(calls, ['A tensor 7 1.att_pooled 1 -1', 'A tensor 7 1.att_scale 1 -1']);
  const { code, where, text } = await failure(recording.pooled());
  assert.deepEqual([code, where], ['bad_request', 'pooled']);
  assert.match(text, /^expected 0\.att_pooled in/);
});

const MEAN_TENSORS = {
  'mean.alpha': tensor([4], [1, 2, NaN, 4]),
  'deviation.alpha': tensor([4], [5, 6, 7, NaN]),
  'mean.sinks': tensor([2, 2], [1, 2, 3, 4]),
  'mean.inner': tensor([2], [1, 2]),
};
const alpha = { shape: [2, 2], mean: [1, 2, null, 4], deviation: [5, 6, 7, null] };
const sinks = (...mean) => ({ shape: [2], mean, deviation: [null, null] });

test('measuring a recording gives its stored means at each threshold', async () => {
  const { recording } = await openFake(MEAN_TENSORS);
  const firstResult = { eps: 0.1, T: 2, sequences: 3, metrics: { alpha, sinks: sinks(1, 2) } };
  const byEps = [
    { eps: 0.1, metrics: { sinks: sinks(1, 2) } },
    { eps: 0.2, metrics: { sinks: sinks(3, 4) } },
  ];
  assert.deepEqual(await recording.measure(), { ...firstResult, byEps });
  assert.deepEqual(await recording.measure({ eps: [0.1] }), firstResult);
  assert.deepEqual(await recording.measure({ eps: 0.2 }), {
    ...firstResult,
    eps: 0.2,
    metrics: { alpha, sinks: sinks(3, 4) },
  });
  const backwards = await recording.measure({ eps: [0.2, 0.1], metrics: ['sinks', 'alpha'] });
  assert.deepEqual(backwards.byEps, byEps.toReversed());
  assert.deepEqual(Object.keys(backwards.metrics), ['sinks', 'alpha']);
  for (const [options, code, where] of [
    [{ metrics: ['gone'] }, 'bad_request', 'gone'],
    [{ metrics: ['x'] }, 'argument', 'metric'],
    [{ eps: 0.3 }, 'argument', 'eps'],
  ]) {
    const error = await failure(recording.measure(options));
    assert.deepEqual([error.code, error.where], [code, where], JSON.stringify(options));
  }
  const bareRecording = await openFake(MEAN_TENSORS, { eps: [] });
  assert.equal(
    (await failure(bareRecording.recording.measure({ metrics: ['sinks'] }))).where,
    'eps',
  );
  assert.deepEqual((await bareRecording.recording.measure({ metrics: ['alpha'] })).eps, 0.2);
});

test('means missing from a file are computed from its prompts, if all of them are stored', async () => {
  const { recording, calls } = await openFake({}, { count: 2, kept: 2, eps: [0.5] });
  const { metrics, sequences } = await recording.measure({ metrics: ['alpha', 'sinks'] });
  assert.equal(sequences, 2);
  // Runs 10 and 11, to which the threshold was added; their deviation is the root of a half.
  assert.deepEqual(
    [metrics.alpha.shape, metrics.alpha.mean, metrics.sinks.mean],
    [[1], [11], [11]],
  );
  assert.ok(Math.abs(metrics.sinks.deviation[0] - Math.SQRT1_2) < 1e-12);
  assert.ok(calls.includes('A read 11 [{"eps":0.5,"metric":"sinks"}]'));
  const partRecording = await openFake({}, { count: 3, kept: 2 });
  assert.deepEqual((await partRecording.recording.measure()).metrics, {});
  const unevenRecording = await openFake({}, { count: 2, kept: 2, tokens: [['a'], ['b', 'c']] });
  assert.equal(
    (await failure(unevenRecording.recording.measure({ metrics: ['alpha'] }))).where,
    'sequences[1].length',
  );
});

test('a closed recording rejects all calls, and its handle is closed once', async () => {
  const { recording, calls } = await openFake();
  await recording.close();
  assert.deepEqual(calls, ['A close 7']);
  for (const use of [
    () => recording.close(),
    () => recording.field('att'),
    () => recording.tensor('x'),
  ]) {
    const { code, where } = await failure(use());
    assert.deepEqual([code, where], ['closed', 'recording']);
  }
  const movedRecording = await openFake();
  movedRecording.replace();
  await movedRecording.recording.close();
  const endedRecording = await openFake();
  endedRecording.link.isOpen = false;
  await endedRecording.recording.close();
  const emptyEngine = engine({}, conditionsOf());
  const earlyRecording = new Recording(emptyEngine.link, describe, () => 'source');
  assert.equal(earlyRecording.bytes, 0);
  await earlyRecording.close();
  assert.deepEqual([movedRecording.calls, endedRecording.calls, emptyEngine.calls], [[], [], []]);
});

function fakeRecording(
  tensors,
  { model = {}, first = {}, prompts = {}, eps = [], edits = [] } = {},
) {
  return {
    tensors: new Map(Object.entries(tensors)),
    tensor: async (name) => tensors[name],
    pooled() {},
    conditions: {
      model: { L: 2, blocks: 2, layers: [0, 1], H: 1, G: 1, operation: 'softmax', ...model },
      first: { position: 0, ...first },
      prompts: { T: 2, count: 3, ...prompts },
      eps,
      edits: edits.map((label) => ({ kind: 'x', label })),
    },
  };
}

test('recordings of different sizes are reported with both values of each size', async () => {
  const model = { L: 3, blocks: 9, layers: [1, 4, 7], H: 2, G: 2, operation: 'sigmoid' };
  const prompts = { T: 3, count: 4 };
  const otherRecording = fakeRecording(
    {},
    { model, first: { position: 1 }, prompts, eps: [0.1], edits: ['one'] },
  );
  const { differences } = await compareRecordings(fakeRecording({}), otherRecording);
  assert.deepEqual(differences, [
    { name: 'L', a: 2, b: 3 },
    { name: 'blocks', a: 2, b: 9 },
    { name: 'layers', a: [0, 1], b: [1, 4, 7] },
    { name: 'H', a: 1, b: 2 },
    { name: 'G', a: 1, b: 2 },
    { name: 'operation', a: 'softmax', b: 'sigmoid' },
    { name: 'first position', a: 0, b: 1 },
    { name: 'T', a: 2, b: 3 },
    { name: 'count', a: 3, b: 4 },
    { name: 'eps', a: [], b: [0.1] },
    { name: 'edits', a: [], b: ['one'] },
  ]);
  const similarRecording = fakeRecording({}, { model: { id: 'other' }, eps: [] });
  assert.deepEqual((await compareRecordings(fakeRecording({}), similarRecording)).differences, []);
});

test('what half precision lost is no difference, of one recording or of both', async () => {
  const half = (value) => ({ ...tensor([1], [value]), dtype: 'F16' });
  const single = (value) => ({ ...tensor([1], [value]), dtype: 'F32' });
  const differ = async (a, b) =>
    (await compareRecordings(fakeRecording({ a }), fakeRecording({ a: b }))).differences.length;
  // 0.1 is 0.0999755859375 in half precision, and the next number 0.10003662109375.
  assert.equal(await differ(half(0.0999755859375), single(0.1)), 0);
  assert.equal(await differ(single(0.0999755859375), single(0.1)), 1);
  assert.equal(await differ(half(0.0999755859375), half(0.10003662109375)), 0);
  assert.equal(await differ(half(0.0999755859375), single(0.10003662109375)), 1);
  assert.equal(await differ(half(0.0999755859375), half(0.1002)), 1);
  assert.equal(await differ(half(2 ** -24), single(1.4 * 2 ** -24)), 0);
});

test('only tensors in both recordings are compared, in the order of their names', async () => {
  const sameTensor = tensor([1], [1]);
  const comparison = await compareRecordings(
    fakeRecording({ c: sameTensor, a: sameTensor, b: sameTensor, z: sameTensor }),
    fakeRecording({ y: sameTensor, d: sameTensor, c: sameTensor, a: sameTensor }),
  );
  assert.deepEqual(comparison, {
    differences: [],
    compared: ['a', 'c'],
    onlyA: ['b', 'z'],
    onlyB: ['d', 'y'],
  });
});

test('the largest difference has its place, and the numbers beyond the tolerance are counted', async () => {
  const compare = async (a, b, tolerance) => {
    const { differences } = await compareRecordings(
      fakeRecording({ x: a }),
      fakeRecording({ x: b }),
      { tolerance },
    );
    return differences;
  };
  const numbers = (...list) => tensor([list.length], list);
  for (const [a, b, tolerance, expectedDifference] of [
    [[1, 2, 3], [1, 2, 3], undefined, null],
    [[1, 2, 3], [1, 2.5, 2], undefined, { index: [2], a: 3, b: 2, difference: 1, count: 2 }],
    [[0, 0], [1, -1], 0, { index: [0], a: 0, b: 1, difference: 1, count: 2 }],
    [[0.5], [0.75], 0.25, null],
    [[0.5], [0.75], 0.125, { index: [0], a: 0.5, b: 0.75, difference: 0.25, count: 1 }],
    [[8, -8], [10, -10], 0.25, null],
    [[10, -10], [8, -8], 0.25, null],
    [[2], [4], 0.25, { index: [0], a: 2, b: 4, difference: 2, count: 1 }],
    [[4], [2], 0.5, null],
    [[-4], [-2], 0.5, null],
    [[NaN, 1], [NaN, 1], 0, null],
    [[Infinity, -Infinity], [Infinity, -Infinity], 0, null],
    [[5, 1], [5, Infinity], 9, { index: [1], a: 1, b: Infinity, difference: Infinity, count: 1 }],
    [
      [Infinity],
      [-Infinity],
      9,
      { index: [0], a: Infinity, b: -Infinity, difference: Infinity, count: 1 },
    ],
    [[0, 1], [7, NaN], 9, { index: [1], a: 1, b: NaN, difference: Infinity, count: 1 }],
    [[NaN, 0], [1, 3], 0, { index: [0], a: NaN, b: 1, difference: Infinity, count: 2 }],
  ])
    assert.deepEqual(
      await compare(numbers(...a), numbers(...b), tolerance),
      expectedDifference ? [{ name: 'x', of: a.length, ...expectedDifference }] : [],
      `${a} and ${b}`,
    );
  const cube = Array.from({ length: 24 }, () => 0);
  for (const [flatIndex, index] of [
    [0, [0, 0, 0]],
    [1, [0, 0, 1]],
    [4, [0, 1, 0]],
    [12, [1, 0, 0]],
    [23, [1, 2, 3]],
  ]) {
    const [difference] = await compare(
      tensor([2, 3, 4], cube),
      tensor([2, 3, 4], cube.with(flatIndex, 1)),
    );
    assert.deepEqual(difference.index, index);
  }
  const tensorOfShape = (shape) => tensor(shape, [1, 2]);
  assert.deepEqual(await compare(tensorOfShape([2, 1]), tensorOfShape([1, 2])), []);
  assert.deepEqual(await compare(tensorOfShape([2, 1]), numbers(1)), [
    { name: 'x', a: [2, 1], b: [1] },
  ]);
});

test('a comparison takes two recordings and a tolerance', async () => {
  const emptyRecording = fakeRecording({});
  for (const [a, b, options, where, expected] of [
    [{}, emptyRecording, {}, 'a', 'a recording, got an object'],
    [emptyRecording, 3, {}, 'b', 'a recording, got 3'],
    [emptyRecording, emptyRecording, 3, 'options', 'an object, got 3'],
    [emptyRecording, emptyRecording, { tolerance: 'a' }, 'tolerance', 'a number, got "a"'],
    [emptyRecording, emptyRecording, { tolerance: -0.5 }, 'tolerance', '0 or more, got -0.5'],
  ]) {
    const { code, where: place, text } = await failure(compareRecordings(a, b, options));
    assert.deepEqual([code, place, text], ['argument', where, `expected ${expected}`]);
  }
});

test('a recording that fails to open leaves no memory or handle behind', () => {
  const log = [];
  const module = (canOpen) => ({
    handle: () => (canOpen ? 7 : assert.fail('no recording')),
    bytes: () => assert.fail('no header'),
    release: (address) => log.push(['release', address]),
    call: (...call) => log.push(call),
  });
  for (const [canOpen, calls] of [
    [false, ['release', 64]],
    [true, ['recording_close', 7]],
  ]) {
    const openRecordings = new OpenRecordings(module(canOpen));
    log.length = 0;
    assert.throws(() => openRecordings.add(1, { address: 64, bytes: 9 }), /no (recording|header)/);
    assert.deepEqual(log, [calls]);
    assert.equal(errorOf(() => openRecordings.get(1))[0], 'closed');
  }
});
