/**
 * Tests studies of fake models with known numbers: which runs they make and close, what they add up, and the sentences
 * of errors.
 */
import { test } from 'node:test';
import assert from 'node:assert/strict';
import { judge, measure, spread, unmask } from '../../wasm/index.ts';
import {
  copyTask,
  cutText,
  headEffects,
  labelHead,
  leastTokens,
  uniformAlphas,
  measureTask,
  measureUnmasking,
  recallTask,
  searchSuffix,
  sweep,
  textTask,
} from '../../wasm/internal.ts';
import { drawItems, meanWithError } from '../../wasm/study/tasks.ts';
import { refuses } from './helper.mjs';

const row = (name, fields, changes = {}) => ({
  name,
  fields,
  arguments: [],
  summary: true,
  ...changes,
});
const describe = {
  defaults: { eps: 0.3 },
  operations: [{ name: 'softmax', proxy: 'weights' }],
  metrics: [
    row('loss', ['loss']),
    row('sink', ['att'], { arguments: ['eps'], accumulated: true }),
    row('kl', ['logits'], { arguments: ['base'] }),
    row('rare', ['norm'], { summary: false }),
    row('bare', [], { summary: false }),
    row('dots', ['q'], { summary: false }),
    row('tags', ['v'], { summary: false }),
    row('cosines', ['q'], { summary: false, accumulated: true }),
    row('gap', ['loss'], { arguments: ['base'], summary: false }),
  ],
  fields: [
    { name: 'loss', streamed: true },
    { name: 'att', streamed: false },
    { name: 'logits', streamed: false },
    { name: 'norm', streamed: true },
    { name: 'q', streamed: false },
    { name: 'v', streamed: false },
  ],
  edits: [
    { name: 'late', waits: true, fields: ['kept'] },
    { name: 'early', waits: false, fields: [] },
  ],
};

/** Returns a fake model that records its runs; a metric is the first token plus ten times the threshold. */
function fakeModel({ fails = () => false, context = 4, replicas } = {}) {
  const runs = [];
  let openCount = 0;
  const run = (replica) => async (ids, options) => {
    const runIndex = runs.push({ ids, replica, ...options }) - 1;
    openCount++;
    return {
      runIndex,
      close: async () => void openCount--,
      read: async (reads) => {
        if (fails(runIndex)) throw new Error('no read');
        runs[runIndex].reads = reads;
        return reads.map(({ metric, eps = 0 }) => ({
          shape: [1],
          data: Float32Array.of(metric === 'rare' ? NaN : ids[0] + 10 * eps),
        }));
      },
      metric: async (name, { base }) => {
        if (fails(runIndex)) throw new Error('no metric');
        runs[runIndex].asked = [name, base.runIndex];
        const { layer, head } = options.edits.at(-1);
        return { shape: [1], data: Float32Array.of(1 + 2 * layer + head) };
      },
    };
  };
  const attention = { operation: 'softmax' };
  const architecture = { L: 2, H: 2, V: 10, context, attention, mask: { kind: 'causal' } };
  const model = { describe, architecture, run: run(0) };
  if (replicas) model.replicas = Array.from({ length: replicas }, (_, i) => ({ run: run(i) }));
  return { model, runs, countOpen: () => openCount };
}

test('a run stores rows of maps and vectors only if a metric or an edited run reads them', async () => {
  const lateEdits = [{ kind: 'late' }];
  for (const [metrics, cases, options, measuring] of [
    [['loss', 'sink', 'cosines'], [[]], {}, [['loss', 'sink', 'cosines']]],
    [['sink', 'dots'], [[]], {}, [false]],
    [['sink', 'tags'], [[]], {}, [false]],
    [['loss'], [lateEdits], { streaming: true }, [false]],
    [['sink'], [lateEdits, lateEdits, lateEdits], {}, [undefined, false, false, false]],
    [['sink', 'kl'], [[{ kind: 'early', layer: 0 }]], {}, [undefined, ['sink', 'kl']]],
  ]) {
    const { model, runs } = fakeModel();
    await sweep(model, [[1, 1]], cases, { metrics, ...options });
    assert.deepEqual(
      runs.map((run) => run.measuring),
      measuring,
      metrics.join(),
    );
    const isShared = cases.length > 2;
    assert.ok(runs.every(({ maps }) => maps === (isShared ? undefined : 0)));
  }
});

test('the unedited run is made once if edited runs begin from it or are compared with it', async () => {
  const lateEdits = [{ kind: 'late' }];
  const upperEdits = [{ kind: 'early', layer: 1 }];
  const lowestEdits = [{ kind: 'early', layer: 0 }];
  const plainFields = ['att', 'hidden', 'loss'];
  const allFields = ['logits', 'att', 'hidden', 'loss'];
  const comparedOptions = { metrics: ['loss', 'kl'] };
  for (const [cases, options, T, fields, begin] of [
    [[lateEdits, upperEdits], {}, 4, undefined, []],
    [[lateEdits, upperEdits, lateEdits], {}, 4, plainFields, [0, 1, 2]],
    [
      [[], lateEdits, lowestEdits, upperEdits, [...lateEdits, { kind: 'early' }], lateEdits],
      {},
      4,
      plainFields,
      [1, 3, 5],
    ],
    [[lateEdits, upperEdits, [...upperEdits, ...lateEdits]], {}, 4, undefined, []],
    [
      [lateEdits, upperEdits, [...upperEdits, { kind: 'late', layer: 2 }]],
      {},
      4,
      plainFields,
      [0, 1, 2],
    ],
    [[lateEdits, lateEdits, lateEdits], {}, 5, undefined, []],
    [[lateEdits, lateEdits, lateEdits], { streaming: true }, 4, undefined, []],
    [[lateEdits], comparedOptions, 4, allFields, [0]],
    [[lowestEdits], comparedOptions, 4, ['logits'], []],
    [[[]], comparedOptions, 4, ['logits'], []],
  ]) {
    const { model, runs, countOpen } = fakeModel();
    const calls = [];
    const onSequence = (_, ...indices) => calls.push(indices);
    await sweep(model, [Array(T).fill(1)], cases, { metrics: ['loss'], onSequence, ...options });
    assert.deepEqual(
      calls,
      cases.map((_, caseIndex) => [0, caseIndex]),
    );
    const where = JSON.stringify([cases, options, T]);
    const editedRuns = fields ? runs.slice(1) : runs;
    if (fields) {
      assert.deepEqual([runs[0].edits, runs[0].fields], [undefined, fields], where);
      assert.deepEqual([runs[0].capacity, runs[0].reads], [T, undefined]);
    }
    const expectedFields = options.metrics ? ['loss', 'logits'] : ['loss'];
    assert.deepEqual(
      editedRuns.map((run) => [run.edits, run.fields, run.capacity, run.streaming]),
      cases.map((edits) => [edits, expectedFields, T, options.streaming]),
      where,
    );
    const derivedIndices = editedRuns.flatMap(({ from }, i) => (from ? [i] : []));
    assert.deepEqual(derivedIndices, begin, where);
    for (const { from } of editedRuns) assert.ok(!from || from.run.runIndex === 0);
    const bases = editedRuns.map(({ reads }) => reads.map(({ base }) => base?.runIndex));
    const base = options.metrics ? [undefined, 0] : [undefined];
    assert.deepEqual(bases, Array(cases.length).fill(base), where);
    assert.equal(countOpen(), 0);
  }
});

test('means and deviations are computed for each threshold, and progress has a rate', async (t) => {
  let time = 0;
  t.mock.method(performance, 'now', () => 500 * time++);
  const { model } = fakeModel();
  const progresses = [];
  const sequenceCalls = [];
  const options = {
    eps: [0.5, 0.25],
    metrics: ['loss', 'sink', 'rare'],
    onProgress: (progress) => progresses.push(progress),
    onSequence: (metrics, index, caseIndex) =>
      sequenceCalls.push([Object.keys(metrics), index, caseIndex]),
  };
  const measurement = await measure(model, [[1], [3]], options);
  const metricOf = (a, b) => ({
    shape: [1],
    mean: [(a + b) / 2],
    deviation: [Math.abs(a - b) / 2 ** 0.5],
  });
  const roundDeviation = (entry) => ({
    ...entry,
    deviation: entry.deviation.map((x) => x?.toFixed(9)),
  });
  const { metrics, byEps, ...others } = measurement;
  assert.deepEqual(others, { eps: 0.5, T: 1, sequences: 2 });
  assert.deepEqual(Object.keys(metrics), ['loss', 'sink', 'rare']);
  // The fake model adds ten times eps to the first token: 1 + 5 and 3 + 5. Every metric gets the first eps.
  assert.deepEqual(roundDeviation(metrics.loss), roundDeviation(metricOf(6, 8)));
  assert.deepEqual(roundDeviation(metrics.sink), roundDeviation(metricOf(6, 8)));
  assert.deepEqual(metrics.rare, { shape: [1], mean: [null], deviation: [null] });
  assert.deepEqual(byEps[0], { eps: 0.5, metrics: { sink: metrics.sink } });
  assert.equal(byEps[1].eps, 0.25);
  assert.deepEqual(Object.keys(byEps[1].metrics), ['sink']);
  assert.deepEqual(roundDeviation(byEps[1].metrics.sink), roundDeviation(metricOf(3.5, 5.5)));
  assert.deepEqual(
    progresses.map(({ stage, done, total, rate }) => [stage, done, total, rate]),
    [
      ['measure', 1, 2, 2],
      ['measure', 2, 2, 2],
    ],
  );
  assert.deepEqual(sequenceCalls, [
    [options.metrics, 0, 0],
    [options.metrics, 1, 0],
  ]);
  const singleMeasurement = await measure(fakeModel().model, [[5]], { metrics: ['loss'] });
  assert.deepEqual(singleMeasurement, {
    ...{ eps: 0.3, T: 1, sequences: 1 },
    metrics: { loss: { shape: [1], mean: [8], deviation: [null] } },
  });
});

test('by default a study measures the summary metrics, and a streaming study those that its fields allow', async () => {
  const names = async (cases, options) => {
    const [measurement] = await sweep(fakeModel().model, [[1]], cases, options);
    return Object.keys(measurement.metrics);
  };
  assert.deepEqual(await names([[]]), ['loss', 'sink']);
  assert.deepEqual(await names([[], [{ kind: 'early' }]]), ['loss', 'sink', 'kl']);
  assert.deepEqual(await names([[{ kind: 'early' }]], { streaming: true }), ['loss', 'rare']);
});

test('a study closes every run, also if one fails', async () => {
  const edits = [{ kind: 'early' }];
  for (const failingRun of [0, 1, 2]) {
    const { model, countOpen, runs } = fakeModel({ fails: (i) => i === failingRun });
    const sweepPromise = sweep(model, [[1]], [edits, edits], { metrics: ['kl'] });
    if (failingRun === 0) await sweepPromise;
    else await assert.rejects(sweepPromise, /no read/);
    // The first run is the baseline; this test reads no metric of it.
    assert.deepEqual([countOpen(), runs.length], [0, failingRun === 1 ? 2 : 3]);
  }
  const { model, countOpen } = fakeModel({ fails: (i) => i === 1 });
  await assert.rejects(headEffects(model, [[1]]), /no metric/);
  assert.equal(countOpen(), 0);
});

test('an empty study, and one of unequal lengths, is rejected in a sentence', async (t) => {
  const { model } = fakeModel();
  const measureCall = (sequences, options) => () => measure(model, sequences, options);
  await refuses(t, [
    measureCall([]),
    measureCall([[1, 2], [1]]),
    measureCall([[1]], { eps: [] }),
    measureCall([[1]], { eps: [0.1, 0.1] }),
    measureCall([[1]], { eps: ['x'] }),
    () => sweep(model, [[1]], [3]),
    () => headEffects(model, [[1]], { edits: [3] }),
    () => headEffects(model, []),
  ]);
});

test('workers share the heads of few sequences evenly, and each run begins below its ablated head', async () => {
  const edits = [{ kind: 'late' }];
  for (const [replicas, n, expectedHeads] of [
    [1, 1, [[0, 1, 2, 3]]],
    [2, 1, [[0, 2], [1, 3]]], // prettier-ignore
    [3, 2, [[0, 2], [1, 3], [0, 2], [1, 3]]], // prettier-ignore
  ]) {
    const { model, runs, countOpen } = fakeModel({ replicas });
    const progresses = [];
    const onProgress = (progress) => progresses.push(progress);
    const sequences = Array.from({ length: n }, (_, i) => [i, 1]);
    const effects = await headEffects(model, sequences, { edits, onProgress });
    const mean = [1, 2, 3, 4];
    assert.deepEqual(effects, { shape: [2, 2], mean, deviation: Array(4).fill(n > 1 ? 0 : null) });
    const total = 4 * n;
    assert.deepEqual(
      progresses,
      Array.from({ length: total }, (_, i) => ({ stage: 'measure', done: i + 1, total })),
    );
    assert.equal(countOpen(), 0);
    const bases = runs.flatMap((run, runIndex) => (run.from ? [] : [runIndex]));
    for (const baseIndex of bases) {
      const { ids, fields, capacity } = runs[baseIndex];
      assert.deepEqual(
        [runs[baseIndex].edits, fields, capacity],
        [edits, ['hidden', 'loss', 'kept'], 2],
      );
      assert.equal(ids.length, 2);
    }
    const derivedRuns = bases.map((baseIndex) =>
      runs.filter(({ from }) => from?.run.runIndex === baseIndex),
    );
    const heads = derivedRuns.map((list) =>
      list.map((run) => 2 * run.edits[1].layer + run.edits[1].head),
    );
    assert.deepEqual(heads.map(String).sort(), expectedHeads.map(String).sort());
    for (const run of derivedRuns.flat()) {
      const { layer, head } = run.edits[1];
      assert.deepEqual(run.edits, [...edits, { kind: 'silence', layer, head }]);
      assert.deepEqual([run.from.layer, run.fields, run.capacity], [layer, ['loss'], 2]);
      assert.deepEqual(run.asked, ['loss_change', run.from.run.runIndex]);
    }
  }
});

test('each replica gets two items at a time, and none starts after the consumer has stopped', async () => {
  const releases = [];
  let startedCount = 0;
  const work = () =>
    new Promise((resolve) => releases.push(() => resolve(startedCount)) && startedCount++);
  const turn = () => new Promise(setImmediate);
  const results = spread({ replicas: ['a', 'b', 'c'] }, Array(90).fill(0), work);
  const firstResult = results.next();
  await turn();
  assert.equal(startedCount, 6);
  // All items except the first end, and then those that replaced them.
  for (let i = 1; i < releases.length; i++) {
    releases[i]();
    await turn();
  }
  assert.equal(startedCount, 12);
  releases[0]();
  await firstResult;
  await turn();
  assert.equal(startedCount, 12);
  await results.next();
  assert.equal(startedCount, 13);
  await results.return();
  for (const release of releases) release();
  await turn();
  assert.equal(startedCount, 13);
});

/** A tokenizer in which the id of a word is its length; special tokens begin and end a text. */
const words = {
  encode: async (text, { special }) => {
    const ids = text.split(' ').filter(Boolean).map((word) => ({ id: word.length, special: false })); // prettier-ignore
    const edgeToken = (id) => (special === 'none' ? [] : [{ id, special: true }]);
    return [...edgeToken(100), ...ids, ...edgeToken(101)];
  },
};

test('a text is cut into as many sequences as fit, up to the requested number', async (t) => {
  const sixWords = 'a bb ccc dddd eeeee ffffff';
  for (const [text, options, sequences, cut] of [
    [sixWords, { tokens: 5, sequences: 9 }, [[100, 1, 2, 3, 101], [100, 4, 5, 6, 101]], [3, 6, 0, 6]], // prettier-ignore
    [sixWords, { tokens: 6, sequences: 9 }, [[100, 1, 2, 3, 4, 101]], [4, 6, 0, 6]],
    [sixWords, { tokens: 5, sequences: 1 }, [[100, 1, 2, 3, 101]], [3, 6, 0, 6]],
    [sixWords, { tokens: 3, sequences: 2, special: 'none' }, [[1, 2, 3], [4, 5, 6]], [3, 6, 0, 6]], // prettier-ignore
    [['a bb', 'a bb ccc', 'ccc bb a a'], { tokens: 5, sequences: 9 }, [[100, 1, 2, 3, 101], [100, 3, 2, 1, 101]], [3, 9, 1, 4]], // prettier-ignore
    [['a bb ccc', 'x', 'x'], { tokens: 5, sequences: 1 }, [[100, 1, 2, 3, 101]], [3, 3, 0, 3]],
    ['a bb\r\n \ncc ddd e', { tokens: 4, sequences: 9, lines: true }, [[100, 1, 2, 101], [100, 2, 3, 101]], [2, 5, 0, 3]], // prettier-ignore
  ]) {
    let cuts;
    const onCut = (counts) => (cuts = counts);
    assert.deepEqual(await cutText(words, text, { ...options, onCut }), sequences);
    const [room, read, short, longest] = cut;
    const asked = options.sequences;
    const ofTexts = typeof text === 'string' && !options.lines ? {} : { texts: cuts.texts };
    const counts = { sequences: sequences.length, room, read, short, longest, notes: [] };
    assert.deepEqual(cuts, { asked, ...counts, ...ofTexts });
  }
  const cutCall = (text, options) => () =>
    cutText(words, text, { tokens: 5, sequences: 1, ...options });
  await refuses(t, [
    cutCall('a'),
    cutCall(['a', 'a bb']),
    cutCall('a', { lines: true }),
    cutCall('a', { tokens: 2 }),
    cutCall('a', { tokens: 0 }),
    cutCall('a', { sequences: 0 }),
    cutCall(['a', 3]),
    cutCall('a', { lines: 1 }),
    cutCall('a', { onCut: 1 }),
  ]);
  assert.deepEqual(await cutText(words, 'a', { tokens: 3, sequences: 1 }), [[100, 1, 101]]);
});

test('the minimal length for a threshold is that at which uniform attention no longer exceeds it', async (t) => {
  // Uniform attention over 2 tokens is (1 + 1/2) / 2; over 4096 it is sum / 4096.
  let sum = 0;
  for (let t = 1; t <= 4096; t++) sum += 1 / t;
  for (const [eps, least] of [
    [1, 1],
    [0.75, 2],
    [0.7499, 3],
    [0.3, 10],
    [(sum / 4096) * 1.00001, 4096],
    [(sum / 4096) * 0.99999, 4097],
    [1e-7, Infinity],
    [0, Infinity],
    [-1, Infinity],
    [NaN, Infinity],
  ])
    assert.equal(leastTokens(eps), least, `eps ${eps}`);
  // Where all queries see all keys it is 1/T, with a bias key 1/(T+1); a prefix adds earlier queries.
  const bidirectional = { kind: 'bidirectional' };
  for (const [seen, least] of [
    [{ mask: { kind: 'causal' } }, 10],
    [{ mask: { kind: 'window', window: 4 } }, 10],
    [{ mask: bidirectional }, 4],
    [{ mask: bidirectional, bias_key: 'head' }, 3],
    [{ mask: { kind: 'prefix', prefix: 3 } }, 5], // (3/3 + 1/4 + 1/5) / 5 = 0.29
    [{ first: 3 }, 4], // the fourth query alone gives it 1/4
    [{ first: 1 }, 6], // (1/2 + 1/3 + 1/4 + 1/5 + 1/6) / 5 = 0.29
    [{ bias_key: 'shared' }, 5], // (1/2 + ... + 1/6) / 5 = 0.29
  ])
    assert.equal(leastTokens(0.3, seen), least, JSON.stringify(seen));
  await refuses(t, [() => leastTokens('1'), () => leastTokens(0.3, { first: -1 })]);
});

test('uniform attention is computed for a number of tokens that a text can have', async (t) => {
  assert.deepEqual(
    [0, 1, 2].map((T) => [...uniformAlphas(T)]),
    [[], [1], [0.75, 0.5]],
  );
  await refuses(t, [() => uniformAlphas(1.5), () => uniformAlphas(2 ** 21)]);
});

test('a judgment counts weights and says the count of shares beside it, and labels need numbers', async (t) => {
  const known = { eps: 0.3, even: 0.1, sink: 0.4, sinkRaw: 0.2, normalizes: false };
  assert.deepEqual(judge(known), {
    ...{ sink: 0.2, sinkByShares: 0.4, of: 'weights', even: 0.1, conclusive: true, least: 10 },
  });
  assert.equal(judge({ ...known, sinkRaw: 0.5 }).sink, 0.5);
  const { sink, of } = judge({ ...known, signed: true });
  assert.deepEqual([sink, of], [0.4, 'shares'], 'means of signed weights decide nothing');
  assert.equal(judge({ ...known, mask: { kind: 'bidirectional' } }).least, 4);
  const head = { eps: 0.3, share: 0.5, contribution: 0 };
  await refuses(t, [
    () => judge({ ...known, even: '1' }),
    () => judge({ ...known, sinkRaw: null }),
    () => labelHead({ ...head, share: 'x' }),
    () => labelHead({ ...head, contribution: null }),
    () => labelHead({ ...head, effect: null }),
  ]);
  assert.equal(labelHead({ ...head, effect: -0.01 }).dormant, false);
  assert.equal(labelHead({ ...head, effect: 0.0099 }).dormant, true);
});

/** Returns a fake model whose next token is always the successor; with a hidden key it repeats the token. */
function successorModel({ context = 12, V = 10, mask = { kind: 'causal' } } = {}) {
  const runs = [];
  let openCount = 0;
  const run = async (ids, options) => {
    runs.push({ ids, ...options });
    openCount++;
    const T = ids.length;
    const fields = {
      loss: [[T], ids.map((_, t) => t / 4)],
      rank: [[T], ids.map((id, t) => (t && id === ids[t - 1] + 1 ? 0 : 3))],
      logits: [[T, V], ids.flatMap((id) => Array.from({ length: V }, (_, v) => Number(v > id)))],
    };
    return {
      close: async () => void openCount--,
      field: async (name) => ({ shape: fields[name][0], data: Float32Array.from(fields[name][1]) }),
    };
  };
  return {
    model: { run, architecture: { V, context, mask, L: 1, H: 1 } },
    runs,
    countOpen: () => openCount,
  };
}

test('a task evicts its key after the prompt or the evidence was read, and compares with an ordinary key', async () => {
  const hideEdits = (key, queries) => queries.map((query) => ({ kind: 'hide_key', key, query }));
  const edits = [{ kind: 'silence' }];
  for (const [prompt, queries, controlKey] of [
    [{ ids: [9, 1, 2, 5, 6], from: 3 }, [2, 3], 1],
    [{ ids: [9, 1, 2, 5, 6, 7], from: 4, lost: 3, needs: [1] }, [3, 4], 2],
    [{ ids: [9, 1, 2, 5, 6, 7], from: 4, lost: 2 }, [2, 3, 4], 1],
    [{ ids: [9, 1, 2, 3, 5], from: 4, choices: [4, 5, 9] }, [3], undefined],
  ]) {
    const { model, runs, countOpen } = successorModel();
    const progresses = [];
    const onProgress = (progress) => progresses.push(progress);
    const task = { name: 'mine', prompts: [prompt], chance: 0.5 };
    const result = await measureTask(model, task, { edits, onProgress });
    const { ids, from, choices } = prompt;
    const drawnKey = runs[2].edits[1].key;
    if (controlKey === undefined) assert.ok(drawnKey === 1 || drawnKey === 2);
    else assert.equal(drawnKey, controlKey);
    const conditionEdits = [
      [],
      hideEdits(0, queries),
      hideEdits(drawnKey, queries),
      [{ kind: 'hide_key', key: 0 }],
    ];
    const fields = ['loss', 'rank', ...(choices ? ['logits'] : [])];
    assert.deepEqual(
      runs.map((run) => [run.edits, run.fields, run.capacity]),
      conditionEdits.map((edit) => [[...edits, ...edit], fields, ids.length]),
    );
    assert.equal(countOpen(), 0);
    assert.deepEqual(
      progresses,
      [1, 2, 3, 4].map((done) => ({ stage: 'measure', done, total: 4 })),
    );
    assert.deepEqual([result.prompts, result.predicted], [1, ids.length - from]);
    const rightCount = ids.slice(from).filter((id, i) => id === ids[from + i - 1] + 1).length;
    assert.equal(result.baseline.accuracy.mean, rightCount / (ids.length - from));
    assert.equal(result.baseline.loss.mean, (from + ids.length - 1) / 8);
    assert.equal(result.baseline.choice?.mean, choices && 0);
  }
  const prompts = [{ ids: [9, 1, 2, 3, 5], from: 4, choices: [9, 5] }];
  const result = await measureTask(successorModel().model, { name: 'mine', prompts, chance: 0.5 });
  assert.deepEqual([result.baseline.choice.mean, result.can], [1, true]);
});

test('a model can do a task if its accuracy exceeds chance by two standard errors', async () => {
  const [rightPrompt, wrongPrompt] = [{ ids: [9, 1, 2, 3], from: 3 }, { ids: [9, 1, 2, 5], from: 3 }]; // prettier-ignore
  // Three of four prompts are right: the error is sqrt((3 / 16 * 4) / 3 / 4) = 1 / 4.
  const prompts = [rightPrompt, rightPrompt, rightPrompt, wrongPrompt];
  for (const [chance, can] of [
    [0.2499, true],
    [0.25, false],
  ])
    assert.equal(
      (await measureTask(successorModel().model, { name: 'x', prompts, chance })).can,
      can,
    );
  const task = { name: 'x', prompts: [rightPrompt], chance: 0.9999 };
  assert.equal((await measureTask(successorModel().model, task)).can, true);
  assert.equal((await measureTask(successorModel().model, { ...task, chance: 1 })).can, false);
  assert.deepEqual(meanWithError([1, 2, 3]), { mean: 2, error: Math.sqrt(1 / 3) });
  assert.deepEqual(meanWithError([2]), { mean: 2, error: null });
});

test('the chosen answer has the largest logit, and among equal logits the lowest id', async () => {
  const { model } = successorModel();
  for (const [logits, best] of [
    [{ 2: 0, 5: 1, 7: 2 }, 7],
    [{ 2: 2, 5: 1, 7: 0 }, 2],
    [{ 2: 0, 5: 1, 7: 1 }, 5],
    [{ 2: 1, 5: 0, 7: 1 }, 2],
  ])
    for (const choices of [
      [2, 5, 7],
      [7, 5, 2],
      [5, 7, 2],
    ])
      for (const answer of choices) {
        const run = async (ids, options) => {
          const run = await model.run(ids, options);
          const data = Float32Array.from(
            ids.flatMap(() => Array.from(Array(10), (_, v) => logits[v] ?? 9)),
          );
          const field = async (name) =>
            name === 'logits' ? { shape: [ids.length, 10], data } : run.field(name);
          return { ...run, field };
        };
        const prompts = [{ ids: [9, 1, 3, answer], from: 3, choices }];
        const { baseline } = await measureTask({ ...model, run }, { prompts, chance: 0.5 });
        assert.equal(baseline.choice.mean, Number(answer === best), `${answer} of ${choices}`);
      }
});

test('a search replaces its suffix only by a better candidate, the first of equal ones, and has seed 0 by default', async () => {
  const pair = { prompt: [1, 2], continuation: [3, 4] };
  const search = async (losses, options = {}) => {
    const { model, runs, countOpen } = successorModel();
    const run = async (ids, options) => {
      const loss = losses[Math.min(runs.length, losses.length - 1)];
      const run = await model.run(ids, options);
      const field = async () => ({
        shape: [ids.length],
        data: new Float32Array(ids.length).fill(loss),
      });
      return { ...run, field };
    };
    const choices = { goal: 'loss', length: 3, steps: 1, width: 3, ...options };
    const result = await searchSuffix({ ...model, run }, pair, choices);
    assert.equal(countOpen(), 0, 'every run is closed');
    return { result, tried: runs.map(({ ids }) => ids.slice(2, 5)) };
  };
  for (const [losses, chosenIndex] of [
    [[1], 0],
    [[1, 0.5], 0],
    [[1, 2, 2, 1], 1],
    [[1, 0.5, 2, 2, 1], 2],
  ]) {
    const { result, tried } = await search(losses);
    assert.equal(new Set(tried.slice(0, 4).map(String)).size, 4, 'four suffixes');
    assert.deepEqual(
      [result.suffix, result.score],
      [tried[chosenIndex], losses[chosenIndex]],
      `${losses}`,
    );
  }
  const [defaultResult, resultOfZero, resultOfOne] = [{}, { seed: 0 }, { seed: 1 }].map((options) =>
    search([1], options),
  );
  assert.deepEqual((await defaultResult).tried, (await resultOfZero).tried);
  assert.notDeepEqual((await defaultResult).tried, (await resultOfOne).tried);
});

test('draws distinct items by the numbers of the generator', () => {
  const drawLowest = () => 0;
  const drawHighest = () => 2 ** 32 - 1;
  const list = [...'abcd'];
  assert.deepEqual(drawItems(list, 2, drawLowest), ['a', 'b']);
  assert.deepEqual(drawItems(list, 2, drawHighest), ['d', 'a']);
  assert.deepEqual(drawItems(list, 4, drawHighest), ['d', 'a', 'b', 'c']);
  assert.deepEqual(list, [...'abcd']);
});

test('measureTask rejects invalid prompts in a sentence', async (t) => {
  const { model } = successorModel();
  const goodPrompt = { ids: [9, 1, 2, 3], from: 3 };
  const measureTaskCall = (change, options) => () =>
    measureTask(model, { name: 'x', prompts: [{ ...goodPrompt, ...change }], chance: 0 }, options);
  await refuses(t, [
    measureTaskCall({ ids: [9, 1, 2] }),
    measureTaskCall({ ids: Array(13).fill(1) }),
    measureTaskCall({ ids: [9, 1, 2, 10] }),
    measureTaskCall({ from: 2 }),
    measureTaskCall({ from: 4 }),
    measureTaskCall({ lost: 1 }),
    measureTaskCall({ lost: 3 }),
    measureTaskCall({ needs: [1] }),
    measureTaskCall({ choices: [-1] }),
    measureTaskCall({ choices: [3, 10] }),
    measureTaskCall({ choices: [4] }),
    measureTaskCall({ ids: [9, 1, 2, 3, 4], choices: [4] }),
    () => measureTask(model, { prompts: [], chance: 0 }),
    () => measureTask(model, { prompts: [goodPrompt] }),
    () =>
      measureTask(successorModel({ mask: { kind: 'bidirectional' } }).model, {
        prompts: [goodPrompt],
        chance: 0,
      }),
    () => textTask([]),
    () => copyTask(0),
    () => copyTask(1),
    () => copyTask(8, { length: 8 }),
    () => copyTask(8, { length: 1 }),
    () => copyTask(8, { length: 2, prompts: 0 }),
    () => recallTask(fakeTokenizer, { between: 12 }),
    () => recallTask(fakeTokenizer, { prompts: 0 }),
    () => recallTask(fakeTokenizer, { names: [3] }),
  ]);
  for (const ids of [[9, 1, 2, 0], Array(12).fill(9)])
    await measureTask(model, {
      name: 'x',
      prompts: [{ ids, from: 3, choices: ids.length > 4 ? undefined : [0, 9] }],
      chance: 0,
    });
});

test('the text task predicts the second half of each text, and the copy task has default sizes', async () => {
  const { prompts, chance } = await textTask([[1, 2, 3, 4, 5], Uint8Array.of(1, 2, 4, 3)]);
  assert.deepEqual(prompts, [
    { ids: [1, 2, 3, 4, 5], from: 3 },
    { ids: [1, 2, 4, 3], from: 2 },
  ]);
  assert.equal(chance, 2 / 4);
  const defaults = { first: [], never: [], length: 25, prompts: 24, seed: 0 };
  const task = await copyTask(60);
  assert.deepEqual(task, await copyTask(60, defaults));
  assert.deepEqual([task.prompts.length, task.prompts[0].from, task.chance], [24, 27, 1 / 25]);
  const { prompts: startedPrompts } = await copyTask(8, { first: [7, 3], never: [0], length: 4 });
  for (const { ids, from } of startedPrompts) {
    assert.deepEqual([ids.slice(0, 2), from, ids.length], [[7, 3], 7, 10]);
    assert.ok(ids.slice(2).every((id) => ![0, 3, 7].includes(id)));
  }
});

/** A fake tokenizer: each word with the blank before it, and each punctuation mark, is a token. */
const fakeTokenizer = {
  known: [],
  encode: async (text, options = {}) => {
    fakeTokenizer.options = options;
    return [...text.matchAll(fakeTokenizer.parts)].map(({ 0: word, index }) => {
      if (!fakeTokenizer.known.includes(word)) fakeTokenizer.known.push(word);
      return { id: fakeTokenizer.known.indexOf(word), start: index, end: index + word.length };
    });
  },
  parts: / ?[\w']+|[.,]/g,
};

test('the recall task states a name once, evicts it, and requests it at the end', async () => {
  const wordsOf = ({ ids }) => ids.map((id) => fakeTokenizer.known[id]).join('');
  const names = ['Mary', 'Tom'];
  const nearTask = await recallTask(fakeTokenizer, {
    between: 0,
    prompts: 25,
    names,
    special: 'none',
  });
  assert.deepEqual(fakeTokenizer.options, { special: 'none' });
  assert.deepEqual([nearTask.name, nearTask.chance, nearTask.distance, nearTask.prompts.length], ['recall', 0.5, 6, 25]); // prettier-ignore
  const [first, second, third] = nearTask.prompts;
  const dayFiller = 'It was a cold day, and the snow lay deep on the road.';
  const houseFiller = 'The old house stood at the end of the lane.';
  const riverFiller = 'We walked down to the river and sat in the grass.';
  const cue = "My friend's name is";
  assert.equal(wordsOf(first), `${dayFiller} ${cue} Mary. ${cue} Mary`);
  assert.deepEqual([first.from, first.needs, first.lost], [25, [19], 20]);
  assert.equal(wordsOf(second), `${dayFiller} ${cue} Tom. ${cue} Tom`);
  assert.equal(wordsOf(third), `${houseFiller} ${cue} Mary. ${cue} Mary`);
  assert.equal(wordsOf(nearTask.prompts[24]), wordsOf(first));
  const farTask = await recallTask(fakeTokenizer, { names, prompts: 2 });
  assert.deepEqual(fakeTokenizer.options, {});
  assert.equal(
    wordsOf(farTask.prompts[1]),
    `${dayFiller} ${cue} Tom. ${houseFiller} ${riverFiller} ${cue} Tom`,
  );
  const defaultTask = await recallTask(fakeTokenizer);
  assert.deepEqual(
    [defaultTask.prompts.length, defaultTask.chance, defaultTask.prompts[0].choices.length],
    [24, 1 / 8, 8],
  );
  // Of names that begin with the same token, the first counts.
  assert.equal(await recallTask(fakeTokenizer, { names: ['Mary', 'Mary'] }), undefined);
  // If the question and the name are one token, the evidence is evicted before the answer.
  fakeTokenizer.parts = / Mary\. My friend's name is| ?[\w']+|[.,]/g;
  const [prompt] = (await recallTask(fakeTokenizer, { between: 0, names: ['Mary', 'Tom'] }))
    .prompts;
  fakeTokenizer.parts = / ?[\w']+|[.,]/g;
  assert.deepEqual([prompt.from, prompt.needs, prompt.lost], [20, [19], 19]);
  // A separate token for the space before the name does not count as evidence.
  fakeTokenizer.parts = / (?=(?:Mary|Tom)\.)| ?[\w']+|[.,]/g;
  const [separatePrompt] = (await recallTask(fakeTokenizer, { between: 0, names: ['Mary', 'Tom'] }))
    .prompts;
  fakeTokenizer.parts = / ?[\w']+|[.,]/g;
  assert.deepEqual(
    wordsOf({ ids: separatePrompt.needs.map((i) => separatePrompt.ids[i]) }),
    'Mary',
  );
});

test('invalid options of unmasking and searches are rejected in a sentence', async (t) => {
  const { model } = successorModel({ mask: { kind: 'bidirectional' } });
  model.architecture.mask_token = 1;
  const { model: causal } = successorModel();
  causal.architecture.mask_token = 1;
  const unmaskCall = (tokens, options) => () => unmask(model, tokens, { steps: 1, ...options });
  const study = (texts, options) => () => measureUnmasking(model, texts, options);
  const pair = { prompt: [1, 2], continuation: [3] };
  const search = (pair, options) => () =>
    searchSuffix(causal, pair, { goal: 'loss', length: 2, steps: 0, width: 1, ...options });
  await refuses(t, [
    unmaskCall([]),
    unmaskCall([2]),
    unmaskCall([1], { steps: 0 }),
    unmaskCall([1], { seed: -1 }),
    unmaskCall([1], { without: 'last' }),
    unmaskCall([1], { without: 'random' }),
    unmaskCall(Array(13).fill(1)),
    unmaskCall([1], { mask: 10 }),
    unmaskCall([1], { never: [0, 10] }),
    unmaskCall([1], { never: [0, 2, 3, 4, 5, 6, 7, 8, 9] }),
    unmaskCall([1, 2], { answers: [3] }),
    unmaskCall([1, 2], { answers: [3, 10] }),
    unmaskCall([1, 2], { answers: [3, 4], never: [4] }),
    () => unmask(causal, [1], { steps: 1 }),
    study([[2]]),
    study([[2, 1]]),
    study([[2, 3]], { masked: 0 }),
    study([[2, 3]], { masked: 1.01 }),
    study([[2, 3]], { seed: -1 }),
    ...[causal, successorModel({ mask: { kind: 'window' } }).model].map((model) =>
      study([[2, 10]], { causal: model }),
    ),
    study([[2]], { causal }),
    study([[2, 3]], { causal: model }),
    search(pair, { length: 0 }),
    search(pair, { width: 0 }),
    search(pair, { never: [10] }),
    search(pair, { never: [...Array(10).keys()] }),
    search({ ...pair, prompt: [] }),
    search({ ...pair, prompt: [10] }),
    search({ ...pair, prompt: Array(10).fill(1) }),
    search(pair, { others: [pair, 3] }),
  ]);
  // The longest suffix that fits is searched, also if only one token is allowed.
  const onlyOptions = { never: [0, 1, 2, 3, 4, 5, 6, 7, 8] };
  const result = await search({ ...pair, prompt: Array(9).fill(1) }, onlyOptions)();
  assert.deepEqual([result.suffix, result.score, result.others], [[9, 9], 11 / 4, null]);
  // Each suffix has one token fewer before it and moves the continuation: its loss is its position.
  assert.deepEqual([result.none, result.random.mean, result.shuffled], [9 / 4, 11 / 4, 11 / 4]);
  assert.equal(result.evaluated, 1);
});

test('unmasking in one step reports no move, and ties go to the leftmost position and the lowest id', async () => {
  const describe = {
    metrics: [{ name: 'alpha', fields: ['att'], arguments: [] }],
    fields: [{ name: 'logits' }],
  };
  let openCount = 0;
  const runs = [];
  const run = async (tokens, options) => {
    runs.push({ tokens: [...tokens], ...options });
    openCount++;
    const T = tokens.length;
    const alpha = { shape: [1, 2, T], data: new Float32Array(2 * T).fill(0.25) };
    return {
      read: async () => [alpha, { shape: [T, 4], data: new Float32Array(4 * T) }],
      close: async () => void openCount--,
    };
  };
  const mask = { kind: 'bidirectional' };
  const model = {
    run,
    describe: describe,
    architecture: { V: 4, context: 8, mask, mask_token: 0 },
  };
  const [step, ...otherSteps] = await unmask(model, [2, 0, 0], { steps: 2 });
  assert.deepEqual(step.filled, [{ place: 1, token: 1, probability: 1 / 3 }]);
  assert.deepEqual(
    [step.sink, step.without, otherSteps.length],
    [{ place: 0, alpha: 0.25 }, null, 1],
  );
  assert.deepEqual(runs[0].fields, ['att', 'logits']);
  assert.deepEqual([runs[0].capacity, runs.length], [3, 2]);
  const result = await measureUnmasking(model, [[2, 1, 3]], { steps: 1, masked: 1 });
  assert.deepEqual([result.prompts, result.predicted, result.steps], [1, 2, 1]);
  assert.deepEqual(result.moves, { mean: 0, error: null });
  assert.equal(result.baseline.accuracy.mean, 1 / 2);
  assert.ok(Math.abs(result.baseline.loss.mean - Math.log(3)) < 1e-6);
  // The masked share of three positions is rounded, and is at least one position.
  for (const [masked, predicted] of [
    [0.01, 1],
    [0.5, 2],
    [0.4, 1],
  ])
    assert.equal((await measureUnmasking(model, [[2, 1, 3, 1]], { masked })).predicted, predicted);
  assert.equal((await measureUnmasking(model, [[2, 1, 3, 1]])).steps, 8);
  const hiddenTokens = async (options) => {
    runs.length = 0;
    await measureUnmasking(model, [[2, 1, 3, 1, 2, 2, 3, 1]], { steps: 1, ...options });
    return runs.map(({ tokens }) => tokens.join());
  };
  assert.deepEqual(await hiddenTokens({}), await hiddenTokens({ seed: 0 }));
  assert.notDeepEqual(await hiddenTokens({}), await hiddenTokens({ seed: 1 }));
  const twoStepResult = await measureUnmasking(model, [[2, 1, 3]], { steps: 2, masked: 1 });
  assert.deepEqual([twoStepResult.steps, twoStepResult.moves.mean], [2, 0]);
  const keys = async (options) => {
    runs.length = 0;
    await unmask(model, [2, ...Array(7).fill(0)], { steps: 7, without: 'random', ...options });
    return JSON.stringify(runs.map(({ edits }) => edits));
  };
  assert.equal(await keys({}), await keys({ seed: 0 }));
  assert.notEqual(await keys({}), await keys({ seed: 1 }));
  const silence = { kind: 'silence' };
  await keys({ edits: [silence] });
  assert.ok(runs.every(({ edits }) => edits[0] === silence));
  // The likeliest token may be the first of the vocabulary.
  const zeroLogits = async (...args) => {
    const modelRun = await run(...args);
    const T = args[0].length;
    const logits = {
      shape: [T, 4],
      data: Float32Array.from({ length: 4 * T }, (_, i) => -(i % 4)),
    };
    return { ...modelRun, read: async () => [(await modelRun.read())[0], logits] };
  };
  const architecture = { ...model.architecture, mask_token: 3 };
  const [{ filled }] = await unmask({ ...model, run: zeroLogits, architecture }, [2, 3], {
    steps: 1,
  });
  assert.equal(filled[0].token, 0);
  assert.equal(openCount, 0);
});
