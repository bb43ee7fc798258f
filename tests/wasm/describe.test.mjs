import { test } from 'node:test';
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { binaries, withEngine } from './helper.mjs';

test('describe() is the same in all binaries except for training', async () => {
  const descriptions = [];
  for (const lab of [false, true])
    for (const threads of [1, 2])
      await withEngine({ lab, threads }, async ({ describe }) => {
        const { training, operations, ...others } = describe;
        assert.equal(training !== undefined, lab);
        const rows = operations.map((row) => ({ ...row, trainable: undefined }));
        assert.ok(operations.every(({ trainable }) => trainable === (lab ? true : undefined)));
        descriptions.push({ ...others, operations: rows });
      });
  for (const description of descriptions) assert.deepEqual(description, descriptions[0]);
});

const rowsOf = ({ training: _training, ...describe }, hasTexts) =>
  JSON.parse(
    JSON.stringify(describe, (key, value) => {
      if (key === 'trainable') return undefined;
      const texts = ['meaning', 'question', 'formula', 'source'];
      return hasTexts || !texts.includes(key) ? value : undefined;
    }),
  );

test('explain() has the rows of describe() with their meanings, and the rows of the lab', async () => {
  await withEngine({}, async (engine) => {
    const { describe } = engine;
    const texts = await engine.explain();
    assert.deepEqual(rowsOf(texts, false), rowsOf(describe, true));
    const { model: _, ...training } = texts.training;
    await withEngine({ lab: true }, async (lab) =>
      assert.deepEqual(training, lab.describe.training),
    );
  });
});

test('texts that are missing or belong to another build are rejected', async () => {
  const answers = { '/': 'nothing', '/older/': '{"version":"0.0.1","abi":8}', '/null/': 'null' };
  const server = createServer(({ url }, response) => {
    const [, folder, name] = /^(.*\/)(.*)$/.exec(url);
    response.end(name.endsWith('.json') ? answers[folder] : readFileSync(new URL(name, binaries)));
  });
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
  const assertRefused = (folder, error) =>
    withEngine({ base: `http://127.0.0.1:${server.address().port}${folder}` }, (engine) =>
      assert.rejects(engine.explain(), error),
    );
  try {
    await assertRefused('/', { code: 'read', text: /expected JSON/ });
    await assertRefused('/older/', {
      code: 'abi',
      text: /expected version \S+ .* found version 0\.0\.1/,
    });
    await assertRefused('/null/', { code: 'abi' });
  } finally {
    server.close();
  }
});

// tests/native/test_describe.c checks names, types, letters and the parameters of operations.
test('every row of describe has its texts, summaries are made of means, and defaults are in their ranges', async () => {
  await withEngine({}, async (engine) => {
    const { metrics, edits, status, letters, defaults } = await engine.explain();
    for (const { name, question, source, label, topic, summary, averaged } of metrics) {
      assert.ok(question && source && label && topic, name);
      assert.ok(averaged || !summary, `${name}: a summary is made of means`);
    }
    for (const { name, meaning, source, parameters } of edits) {
      assert.ok(meaning && source, name);
      for (const parameter of parameters) {
        const { default: standard, min, max, choices, labels, type, required } = parameter;
        const where = `${name}: ${parameter.name}`;
        assert.ok(standard === null || !required, where);
        if (typeof standard === 'number') assert.ok(!(min > standard || max < standard), where);
        if (type === 'choice') {
          assert.ok(required || choices.includes(standard), where);
          assert.equal(new Set(labels).size, choices.length, where);
        }
        if (type === 'index') assert.ok(letters[parameter.below[0]], where);
      }
    }
    assert.deepEqual(defaults, { eps: 0.3, tokens: 64, keys: 10 });
    assert.deepEqual(
      status.map(({ code }) => code),
      status.map((_, i) => i),
    );
  });
});
