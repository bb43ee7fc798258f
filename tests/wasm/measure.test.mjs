// Tests measuring over sequences: the cutting of texts, the numbers of each sequence, and runs under an edit.
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import assert from 'node:assert/strict';
import { judge, measure, openTokenizer } from '../../wasm/index.ts';
import { cutText, fieldsFor, leastTokens } from '../../wasm/internal.ts';
import { failure, files, golden, softmax, tiny, withEngine } from './helper.mjs';

const tokenizer = openTokenizer(readFileSync(new URL('tokenizer.json', softmax), 'utf8'));
const texts = [
  'Once upon a time there was a king\nwho had lost his name, and nobody knew it.',
  'Too short.',
  'Every morning she went to the well for water, and every evening she sat by the fire.',
];
const cut = (text, more) => cutText(tokenizer, text, { tokens: 12, sequences: 9, ...more });

test('each text of an array gives one sequence, its first tokens, line breaks included', async () => {
  const sequences = await cut(texts);
  const expectedSequences = [texts[0], texts[2]].map((text) =>
    tokenizer
      .encode(text)
      .slice(0, 12)
      .map(({ id }) => id),
  );
  assert.deepEqual(sequences, expectedSequences);
  assert.equal((await cut(texts, { sequences: 1 })).length, 1);
  await assert.rejects(cut(['Hi.', '']), { code: 'argument', where: 'text' });
});

test('each sequence ends with the tokens that the tokenizer appends', async () => {
  const bert = openTokenizer(
    readFileSync(new URL('tokenizers/bert/tokenizer.json', golden), 'utf8'),
  );
  const ids = (text) => bert.encode(text, { special: 'none' }).map(({ id }) => id);
  const [start, end] = bert.encode('').map(({ id }) => id);
  const allIds = ids(texts[0]);
  assert.deepEqual(await cutText(bert, texts[0], { tokens: 12, sequences: 2 }), [
    [start, ...allIds.slice(0, 10), end],
    [start, ...allIds.slice(10, 20), end],
  ]);
  assert.deepEqual(await cutText(bert, texts, { tokens: 12, sequences: 9, special: ['[CLS]'] }), [
    [start, ...allIds.slice(0, 11)],
    [start, ...ids(texts[2]).slice(0, 11)],
  ]);
});

test('two runs can be compared only if model, number of tokens and fields agree', async () => {
  await withEngine({}, async (engine) => {
    const [model, otherModel] = [await engine.open(files(tiny)), await engine.open(files(tiny))];
    const run = await model.run([1, 2, 3], { fields: ['logits'] });
    const assertRefused = async (base, code, where) => {
      const { code: actualCode, where: actualWhere } = await failure(
        run.metric('kl_mean', { base }),
      );
      assert.deepEqual([actualCode, actualWhere], [code, where]);
    };
    await assertRefused(
      await otherModel.run([1, 2, 3], { fields: ['logits'] }),
      'argument',
      'base',
    );
    await assertRefused({}, 'argument', 'base');
    await assertRefused(undefined, 'bad_request', 'kl_mean');
    await assertRefused(await model.run([1, 2], { fields: ['logits'] }), 'bad_request', 'kl_mean');
    await assertRefused(await model.run([1, 2, 3], { fields: ['loss'] }), 'bad_request', 'kl_mean');
    const closed = await model.run([1, 2, 3], { fields: ['logits'] });
    await closed.close();
    await assertRefused(closed, 'closed', 'run');
    assert.deepEqual([...(await run.metric('kl_mean', { base: run })).data], [0]);
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
    sinkByShares: 0.4,
    of: 'weights',
    even: 0.1,
    conclusive: true,
    least: leastTokens(0.3),
  });
  // If rows need not sum to 1, attention is the weight; the count of shares is a second number.
  const unnormalized = { ...known, even: 0.1, normalizes: false };
  const { sink, sinkByShares } = judge(unnormalized);
  assert.deepEqual([sink, sinkByShares], [0.1, 0.4]);
});
