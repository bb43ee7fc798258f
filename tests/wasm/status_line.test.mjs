// Tests the line on a terminal that says what a command is doing.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { openNamedModel } from '../../wasm/command/open.ts';
import { createStatusLine, openingPhase } from '../../wasm/command/status_line.ts';
import { golden, withEngine } from './helper.mjs';

const makeStream = (isTTY) => {
  const writes = [];
  return { isTTY, writes, write: (text) => writes.push(text) };
};

test('a status line counts the seconds of each phase, and leaves an empty line', (t) => {
  t.mock.timers.enable({ apis: ['setInterval'] });
  const stream = makeStream(true);
  const statusLine = createStatusLine(stream);
  statusLine.show('reading', '1 MB');
  t.mock.timers.tick(2000);
  statusLine.show('reading', '2 MB');
  statusLine.show('checking');
  t.mock.timers.tick(1000);
  statusLine.end();
  t.mock.timers.tick(5000);
  const lines = ['reading, 1 MB', 'reading, 1 MB, 1 s', 'reading, 1 MB, 2 s', 'reading, 2 MB, 2 s'];
  const expected = [...lines, 'checking', 'checking, 1 s', ''];
  assert.deepEqual(
    stream.writes,
    expected.map((line) => `\r\x1b[K${line}`),
  );
});

test('a file or a pipe gets no status line', (t) => {
  t.mock.timers.enable({ apis: ['setInterval'] });
  const stream = makeStream(undefined);
  const statusLine = createStatusLine(stream);
  statusLine.show('reading');
  t.mock.timers.tick(9000);
  statusLine.end();
  assert.deepEqual(stream.writes, []);
});

test('reading and checking have words of their own, and a size where it is known', () => {
  assert.deepEqual(openingPhase({ stage: 'read', done: 5e6, total: 98e6 }), [
    'reading the weights',
    '5.0 of 98.0 MB',
  ]);
  assert.deepEqual(openingPhase({ stage: 'read', done: 5e6, total: NaN }), [
    'reading the weights',
    '5.0 MB',
  ]);
  assert.deepEqual(openingPhase({ stage: 'open', done: 0, total: 1 }), ['checking the weights']);
});

test('a GGUF file opens in three phases', async (t) => {
  const writes = [];
  const { isTTY } = process.stderr;
  t.mock.method(process.stderr, 'write', (text) => writes.push(text));
  process.stderr.isTTY = true;
  t.after(() => (process.stderr.isTTY = isTTY));
  await withEngine({}, async (engine) => {
    const path = fileURLToPath(new URL('gguf-llama-bias-bf16/model.gguf', golden));
    const { model, tokenizer } = await openNamedModel(engine, path, { 'tokenizer-limit': '60' }, [
      [1],
    ]);
    tokenizer.close();
    await model.close();
  });
  const phases = writes.map((text) => /^\r\x1b\[K([a-z ]*)/.exec(text)?.[1]);
  assert.deepEqual(
    phases.filter((phase, i) => phase !== phases[i - 1]),
    ['reading the weights', 'checking the weights', 'opening the tokenizer', ''],
  );
});
