// Checks that every binary refuses the same random lists of edits, and computes the same bits for the others.
import { test } from 'node:test';
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { files, root, tiny, withEngine } from './helper.mjs';

const outcomes = fileURLToPath(new URL('.build/native/outcomes', root));
const tokens = [3, 1, 4, 1];

function hash(...parts) {
  let bits = 2166136261;
  for (const { data } of parts)
    for (const byte of new Uint8Array(data.buffer, data.byteOffset, data.byteLength))
      bits = Math.imul(bits ^ byte, 16777619);
  return (bits >>> 0).toString(16).padStart(8, '0');
}

async function outcomeOf(model, edits) {
  const fields = ['hidden', 'next'];
  let run;
  try {
    run = await model.run(tokens, { edits, capacity: tokens.length + 1, fields });
    const [hidden, next] = [await run.field('hidden'), await run.field('next')];
    assert.ok(hidden.data.every(Number.isFinite) && next.data.every(Number.isFinite));
    return `ok\t${hash(hidden, next)}`;
  } catch (error) {
    return `${error.code}\t${error.where}\t${error.text}`;
  } finally {
    await run?.close();
  }
}

/** Reads an edit whose values may be outside their ranges, which `readEdit` would refuse. */
function editOf(text) {
  const [, kind, list] = /^(\w+)\((.*)\)$/.exec(text);
  const pairs = list
    .split(',')
    .filter(Boolean)
    .map((pair) => pair.split('='));
  const values = pairs.map(([key, value]) => [key, Number.isNaN(Number(value)) ? value : +value]);
  return { kind, ...Object.fromEntries(values) };
}

const BINARIES = {
  'one thread': {},
  'two threads': { threads: 2 },
};

for (const [name, engineOptions] of Object.entries(BINARIES))
  test(`edits at the borders of a text: ${name} and native agree`, async (context) => {
    if (!existsSync(outcomes)) return context.skip('no native build');
    const lines = execFileSync(outcomes, [fileURLToPath(tiny), '67'], { encoding: 'utf8' })
      .trim()
      .split('\n')
      .map((line) => line.split('\t'));
    assert.ok(lines.length > 500);
    await withEngine(engineOptions, async (engine) => {
      const model = await engine.open(files(tiny));
      let acceptedCount = 0;
      for (const [texts, status, ...rest] of lines) {
        const edits = texts.split(' ').map(editOf);
        assert.equal(await outcomeOf(model, edits), [status, ...rest].join('\t'), texts);
        acceptedCount += status === 'ok';
      }
      assert.ok(acceptedCount > 100 && acceptedCount < lines.length - 100);
    });
  });
