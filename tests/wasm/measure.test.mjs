// Tests measuring over sequences: the cutting of texts, the numbers of each sequence, and runs under an edit.
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import assert from 'node:assert/strict';
import {
  cutText,
  fieldsFor,
  judge,
  leastTokens,
  measure,
  openTokenizer,
  sweep,
} from '../../wasm/index.ts';
import { failure, files, golden, softmax, tiny, withEngine } from './helper.mjs';

const tokenizer = openTokenizer(readFileSync(new URL('tokenizer.json', softmax), 'utf8'));
const texts = [
  'Once upon a time there was a king\nwho had lost his name, and nobody knew it.',
  'Too short.',
  'Every morning she went to the well for water, and every evening she sat by the fire.',
];
const cut = (text, more) => cutText(tokenizer, text, { tokens: 12, sequences: 9, ...more });

test('each text of an array gives one sequence, its first tokens, line breaks included', async () => {
  const found = await cut(texts);
  const own = [texts[0], texts[2]].map((text) =>
    tokenizer
      .encode(text)
      .slice(0, 12)
      .map(({ id }) => id),
  );
  assert.deepEqual(found, own);
  assert.equal((await cut(texts, { sequences: 1 })).length, 1);
  await assert.rejects(cut(['Hi.', '']), { code: 'argument', where: 'text' });
});

test('each sequence ends with the tokens that the tokenizer appends', async () => {
  const bert = openTokenizer(
    readFileSync(new URL('tokenizers/bert/tokenizer.json', golden), 'utf8'),
  );
  const ids = (text) => bert.encode(text, { special: 'none' }).map(({ id }) => id);
  const [start, end] = bert.encode('').map(({ id }) => id);
  const all = ids(texts[0]);
  assert.deepEqual(await cutText(bert, texts[0], { tokens: 12, sequences: 2 }), [
    [start, ...all.slice(0, 10), end],
    [start, ...all.slice(10, 20), end],
  ]);
  assert.deepEqual(await cutText(bert, texts, { tokens: 12, sequences: 9, special: ['[CLS]'] }), [
    [start, ...all.slice(0, 11)],
    [start, ...ids(texts[2]).slice(0, 11)],
  ]);
});

test('progress reports a rate in runs per second', async () => {
  await withEngine({}, async (engine) => {
    const model = await engine.open(files(softmax));
    const began = performance.now();
    const late = [];
    await measure(model, await cut(texts), {
      // At the reported rate, the finished sequences took no longer than the call so far.
      onProgress: ({ done, rate }) => late.push(done / rate - (performance.now() - began) / 1000),
    });
    assert.equal(late.length, 2);
    assert.ok(
      late.every((seconds) => seconds < 0.001),
      `${late}`,
    );
  });
});

test('each sequence has its own numbers, and their mean is reported', async () => {
  await withEngine({}, async (engine) => {
    const model = await engine.open(files(softmax));
    const losses = [];
    const sequences = await cut(texts);
    const { metrics } = await measure(model, sequences, {
      onSequence: ({ loss_mean }, i) => (losses[i] = loss_mean.data[0]),
    });
    const mean = losses.reduce((a, b) => a + b) / losses.length;
    assert.equal(losses.length, sequences.length);
    assert.equal(metrics.loss_mean.mean[0], mean);
    const { L, H } = model.architecture;
    assert.deepEqual(metrics.cos_gap.shape, [L, H]);
  });
});

test('the deviation over sequences is that of a sample, head by head, and undefined for one sequence', async () => {
  await withEngine({}, async (engine) => {
    const model = await engine.open(files(softmax));
    const sequences = await cut(texts.join(' '), { tokens: 8, sequences: 5 });
    assert.ok(sequences.length >= 4);
    for (const n of [1, 2, sequences.length]) {
      const each = [];
      const { metrics } = await measure(model, sequences.slice(0, n), {
        metrics: ['value_ratio', 'loss_mean'],
        onSequence: (reported) => each.push(reported),
      });
      for (const name of ['value_ratio', 'loss_mean'])
        metrics[name].deviation.forEach((found, i) => {
          const values = each.map((reported) => reported[name].data[i]);
          const mean = values.reduce((a, b) => a + b) / n;
          const squares = values.reduce((a, b) => a + (b - mean) ** 2, 0);
          if (n === 1) assert.equal(found, null);
          else assert.ok(Math.abs(found - Math.sqrt(squares / (n - 1))) < 1e-6 * Math.abs(mean));
        });
    }
  });
});

test('one run measures a list of thresholds, with the numbers of separate runs', async () => {
  await withEngine({}, async (engine) => {
    const model = await engine.open(files(softmax));
    const sequences = await cut(texts);
    let runs = 0;
    const counted = {
      ...model,
      replicas: undefined,
      run: (...args) => (runs++, model.run(...args)),
    };
    const eps = [0.5, 0.1, 0.3];
    const found = await measure(counted, sequences, { eps });
    assert.equal(runs, sequences.length);
    assert.deepEqual([found.eps, found.byEps.map((one) => one.eps)], [0.5, eps]);
    const depending = engine.describe.metrics.filter((row) => row.arguments.includes('eps'));
    assert.ok(depending.length >= 4);
    for (const [i, one] of eps.entries()) {
      const alone = await measure(model, sequences, { eps: one });
      assert.equal(alone.byEps, undefined);
      for (const { name } of depending)
        assert.deepEqual(found.byEps[i].metrics[name], alone.metrics[name], name);
      if (i === 0) assert.deepEqual(found.metrics, alone.metrics);
    }
    const [low, high] = [1, 0].map((i) => found.byEps[i].metrics.sink_ratio.mean[0]);
    assert.ok(low > high);
    for (const wrong of [[], [0.1, 0.1], ['0.1'], '0.1', NaN, {}])
      await assert.rejects(measure(model, sequences, { eps: wrong }), { code: 'argument' });
  });
});

test('a cut reports its sequences, the tokens read, the texts that were too short, and the longest', async () => {
  const of = async (text, more) => {
    let reported;
    await cut(text, { ...more, onCut: (found) => (reported = found) }).catch(() => {});
    return reported;
  };
  const tokens = (text) => tokenizer.encode(text, { special: 'none' }).length;
  const [first, short, third] = texts.map(tokens);
  assert.deepEqual(await of(texts), {
    asked: 9,
    sequences: 2,
    room: 11,
    read: first + short + third,
    short: 1,
    longest: Math.max(first, third),
  });
  assert.deepEqual(await of('Too short.'), {
    asked: 9,
    sequences: 0,
    room: 11,
    read: short,
    short: 1,
    longest: short,
  });
  const nothing = { asked: 9, sequences: 0, room: 11, read: 0, short: 1, longest: 0 };
  assert.deepEqual(await of(['']), nothing);
  const { asked, sequences, read } = await of(texts.join(' '), { sequences: 2 });
  assert.deepEqual([asked, sequences, read], [2, 2, tokens(texts.join(' '))]);
});

test('an edit applies to every sequence', async () => {
  await withEngine({}, async (engine) => {
    const model = await engine.open(files(softmax));
    const masses = async (edits) => {
      const { metrics } = await measure(model, await cut(texts), { edits });
      return metrics.row_mass_summary.mean;
    };
    const [own, edited] = [
      await masses(undefined),
      await masses([{ kind: 'operation', operation: 'sigmoid' }]),
    ];
    assert.ok(own.every((mass) => Math.abs(mass - 1) < 1e-5));
    assert.ok(edited.every((mass) => Math.abs(mass - 1) > 1e-3));
  });
});

test('metrics that compare two runs compare with the unedited run', async () => {
  await withEngine({}, async (engine) => {
    const model = await engine.open(files(softmax));
    const sequences = await cut(texts);
    const cases = [
      [],
      [{ kind: 'silence', layer: 0 }],
      [{ kind: 'scale_value', key: 0, factor: 1 }],
    ];
    const reported = [];
    const found = await sweep(model, sequences, cases, {
      metrics: ['loss_mean', 'loss_change', 'kl_mean', 'hidden_change'],
      onSequence: (_, index, at) => reported.push([index, at]),
    });
    const of = (at, name) => found[at].metrics[name].mean;
    const change = of(1, 'loss_mean')[0] - of(0, 'loss_mean')[0];
    assert.ok(Math.abs(change) > 0.01);
    assert.ok(Math.abs(of(1, 'loss_change')[0] - change) < 1e-5);
    assert.ok(of(1, 'kl_mean')[0] > 0.01);
    assert.ok(of(1, 'hidden_change').some((x) => x > 0.01));
    for (const at of [0, 2])
      for (const name of ['loss_change', 'kl_mean', 'hidden_change'])
        assert.ok(
          of(at, name).every((x) => x === 0),
          name,
        );
    assert.deepEqual(
      reported,
      sequences.flatMap((_, i) => cases.map((__, at) => [i, at])),
    );
    // A summary includes metrics of comparison if some case has edits.
    const summaries = await sweep(model, sequences, cases);
    assert.deepEqual(
      summaries[1],
      await measure(model, sequences, {
        edits: cases[1],
        metrics: Object.keys(summaries[1].metrics),
      }),
    );
    assert.ok('kl_mean' in summaries[1].metrics);
    assert.ok(!('kl_mean' in (await measure(model, sequences)).metrics));
  });
});

test('two runs can be compared only if model, number of tokens and fields agree', async () => {
  await withEngine({}, async (engine) => {
    const [model, other] = [await engine.open(files(tiny)), await engine.open(files(tiny))];
    const run = await model.run([1, 2, 3], { fields: ['logits'] });
    const wrong = async (base, code, where) => {
      const { code: found, where: place } = await failure(run.metric('kl_mean', { base }));
      assert.deepEqual([found, place], [code, where]);
    };
    await wrong(await other.run([1, 2, 3], { fields: ['logits'] }), 'argument', 'base');
    await wrong({}, 'argument', 'base');
    await wrong(undefined, 'bad_request', 'kl_mean');
    await wrong(await model.run([1, 2], { fields: ['logits'] }), 'bad_request', 'kl_mean');
    await wrong(await model.run([1, 2, 3], { fields: ['loss'] }), 'bad_request', 'kl_mean');
    const closed = await model.run([1, 2, 3], { fields: ['logits'] });
    await closed.close();
    await wrong(closed, 'closed', 'run');
    assert.deepEqual([...(await run.metric('kl_mean', { base: run })).data], [0]);
  });
});

test('sequences of unequal length, and an empty list, are rejected', async () => {
  await withEngine({}, async (engine) => {
    const model = await engine.open(files(tiny));
    for (const [sequences, where] of [
      [[], 'sequences'],
      [undefined, 'sequences'],
      [
        [
          [1, 2, 3],
          [1, 2],
        ],
        'sequences[1].length',
      ],
    ]) {
      const { code, where: found } = await failure(measure(model, sequences));
      assert.deepEqual([code, found], ['argument', where]);
    }
  });
});

test('every metric can be read from the fields that are recorded for it, and the caller can choose the metrics', async () => {
  await withEngine({}, async (engine) => {
    const model = await engine.open(files(tiny));
    const { describe } = engine;
    for (const { name: metric, averaged } of describe.metrics) {
      const reads = [{ metric, layer: 0, head: 0 }];
      const run = await model.run([1, 2, 3], { fields: fieldsFor(describe, reads) });
      await run.read(reads.map((read) => ({ ...read, base: run })));
      if (!averaged) continue;
      const { metrics } = await measure(model, [[1, 2, 3]], { metrics: [metric] });
      assert.deepEqual(Object.keys(metrics), [metric]);
    }
    assert.deepEqual(fieldsFor(describe, [{ metric: 'alpha' }, { field: 'logits' }]), [
      'att',
      'logits',
    ]);
    assert.throws(() => fieldsFor(describe, [{ metric: 'beta' }]), { where: 'metric' });
  });
});

test('heads are counted only where uniform attention alone is at most eps', () => {
  const known = { eps: 0.3, sink: 0.4, sinkRaw: 0.1, normalizes: true };
  for (const [even, conclusive] of [
    [0.1, true],
    [0.16, true],
    [0.3, true],
    [0.3001, false],
    [1, false],
  ])
    assert.equal(judge({ ...known, even }).conclusive, conclusive, `uniform attention ${even}`);
  assert.deepEqual(judge({ ...known, even: 0.1 }), {
    sink: 0.4,
    of: 'weights',
    even: 0.1,
    conclusive: true,
    least: leastTokens(0.3),
  });
  // If rows need not sum to 1, heads are counted both by share and by weight, and the smaller count holds.
  assert.equal(judge({ ...known, even: 0.1, normalizes: false }).sink, 0.1);
});
