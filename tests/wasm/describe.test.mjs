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
    await withEngine({ lab: true }, async (lab) =>
      assert.deepEqual(texts.training, lab.describe.training),
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

test('every table of describe has unique names, and its rows refer to known fields, arguments and letters', async () => {
  await withEngine({}, async (engine) => {
    const describe = await engine.explain();
    const { operations, metrics, fields, edits, status, letters } = describe;
    for (const table of [operations, metrics, fields, edits, status]) {
      const names = table.map(({ name }) => name);
      assert.ok(
        names.length > 0 && names.every((name) => /^[a-z][a-z0-9_]*$/.test(name)),
        names.join(),
      );
      assert.equal(new Set(names).size, names.length, 'a name occurs twice');
    }
    const known = fields.map(({ name }) => name);
    for (const row of metrics) {
      const { name, range, arguments: args, fields: neededFields, summary, averaged } = row;
      assert.ok(row.question && row.source && row.label && row.topic, name);
      assert.ok(averaged || !summary, `${name}: a summary is made of means`);
      assert.ok(
        range.every((bound) => bound === null || Number.isFinite(bound)),
        name,
      );
      assert.ok(
        args.every((arg) => ['eps', 'tokens', 'layer', 'head', 'base'].includes(arg)),
        name,
      );
      assert.ok(
        neededFields.every((field) => known.includes(field)),
        name,
      );
    }
    for (const { name, shape } of [...metrics, ...fields]) {
      for (const size of shape)
        assert.ok(letters[size[0]] || /^\d+$/.test(size), `${name}: ${size}`);
    }
    for (const { name, meaning, source, parameters, fields: recordedFields } of edits) {
      assert.ok(meaning && source, name);
      assert.ok(
        recordedFields.every((field) => known.includes(field)),
        name,
      );
      for (const parameter of parameters) {
        const {
          default: defaultValue,
          min,
          max,
          choices,
          labels,
          type,
          below: upperBound,
        } = parameter;
        assert.equal(
          defaultValue === null || !parameter.required,
          true,
          `${name}: ${parameter.name}`,
        );
        if (typeof defaultValue === 'number' && min !== undefined)
          assert.ok(min <= defaultValue && defaultValue <= max);
        if (type === 'choice') {
          assert.ok(parameter.required || choices.includes(defaultValue));
          assert.equal(
            new Set(labels).size,
            choices.length,
            `${name}: ${parameter.name}: ${labels}`,
          );
        }
        if (type === 'index') assert.ok(letters[upperBound[0]], `${name}: ${upperBound}`);
      }
    }
    assert.deepEqual(describe.defaults, { eps: 0.3, tokens: 64, keys: 10 });
    for (const { name, proxy, formula, parameters } of operations) {
      assert.ok(['weights', 'share', 'share_abs'].includes(proxy) && formula, name);
      for (const { min, max, default: defaultValue } of parameters)
        assert.ok(min <= defaultValue && defaultValue <= max, name);
    }
    assert.deepEqual(
      status.map(({ code }) => code),
      status.map((_, i) => i),
    );
  });
});
