// Tests the commands map, ablate and generate: they print the numbers of `load`, or refuse.
import { after, before, test } from 'node:test';
import assert from 'node:assert/strict';
import { mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { load } from '../../wasm/index.ts';
import { binaries, failure, runCli, softmax } from './helper.mjs';

const TEXT = 'The old man sat at the door, and the sea was calm.';
const folder = fileURLToPath(softmax);

let model;
before(async () => (model = await load(folder, { base: binaries, worker: false })));
after(() => model.close());

test('map prints the head that gives the first token most, or the one that is named', async () => {
  const strongest = await model.measure(TEXT);
  const result = JSON.parse((await runCli('map', folder, '--text', TEXT, '--json')).stdout);
  const { layer, head, tokens } = strongest;
  assert.deepEqual(
    { ...result, map: result.map.flat() },
    {
      measured_by: `Sinkscope ${model.engine.describe.version}`,
      ...{
        model: 'softmax',
        text: TEXT,
        tokens,
        notes: [],
        generated: 0,
        layer,
        head,
        shape: strongest.map.shape,
      },
      map: [...strongest.map.data],
    },
  );
  const namedText = (await runCli('map', folder, '--text', TEXT, '--layer', '2', '--head', '1'))
    .stdout;
  const { map } = await model.map(TEXT, { layer: 2, head: 1 });
  const T = tokens.length;
  assert.match(namedText, /^softmax, L2H1: /);
  tokens.forEach((piece, t) => {
    const line = namedText.split('\n')[2 + t];
    assert.ok(line.startsWith(`${String(t).padStart(5)}  ${piece.padEnd(16)}`), line);
    assert.ok(line.includes(map.data[t * T].toFixed(3)), line);
  });
});

test('map --csv has a line for each cell, with both tokens', async () => {
  const { stdout } = await runCli('map', folder, '--text', 'The "old" man', '--csv');
  const { tokens, map } = await model.measure('The "old" man');
  const lines = stdout.trimEnd().split('\n');
  const T = tokens.length;
  assert.equal(lines.length, 4 + T * T);
  assert.match(lines[0], /^# measured_by,Sinkscope \d+\.\d+\.\d+/);
  assert.equal(lines[3], 'query,query_text,key,key_text,weight');
  assert.equal(lines.at(-1).split(',').at(-1), String(map.data[T * T - 1]));
});

test('map --generate has the rows of the tokens that the model writes, to the bits of one run', async () => {
  const options = ['--generate', '6', '--temperature', '0.8', '--seed', '2'];
  const result = JSON.parse(
    (await runCli('map', folder, '--text', TEXT, ...options, '--json')).stdout,
  );
  const ids = (await model.tokenizer.encode(TEXT)).map(({ id }) => id);
  const run = await model.model.run(ids, { fields: ['att'], capacity: ids.length + 6 });
  for await (const { token } of run.generate({ count: 6, temperature: 0.8, seed: 2 }))
    ids.push(token);
  await run.close();
  const { layer, head, tokens, generated, shape, map } = result;
  assert.deepEqual([generated, shape], [6, [ids.length, ids.length]]);
  assert.equal(tokens.slice(-6).join(''), await model.tokenizer.decode(ids.slice(-6)));
  const whole = await model.model.run(ids, { fields: ['att'] });
  assert.deepEqual(map.flat(), [...(await whole.field('att', { layer, head })).data]);
  await whole.close();
  const { stdout } = await runCli('map', folder, '--text', TEXT, ...options);
  assert.match(
    stdout,
    new RegExp(`; the model wrote tokens ${ids.length - 6} to ${ids.length - 1}\n`),
  );
  const refused = await runCli('map', folder, '--text', TEXT, '--generate', '200');
  assert.match(
    refused.stderr,
    /^sinkscope: --generate: expected an integer from 0 to \d+, what the text's \d+ tokens leave of the model's context of 128, got 200/,
  );
});

test('a start token that the text repeats, and characters without tokens, are noted', async (t) => {
  const notesOf = async (text, ...options) =>
    JSON.parse((await runCli('map', folder, '--text', text, ...options, '--json')).stdout).notes;
  assert.deepEqual(await notesOf('The old man'), []);
  const [twice] = await notesOf('<s> The');
  assert.deepEqual(await notesOf('<s> The', '--special', 'none'), []);
  t.assert.snapshot([await notesOf('<s> The'), await notesOf('注意 ok')]);
  const map = (await runCli('map', folder, '--text', '<s>注意 ok')).stdout;
  assert.ok(map.includes(`\nnote: ${twice}\nnote: `), map);
  const options = ['--tokens', '5', '--sequences', '1'];
  const summary = await runCli('measure', folder, '--text', '<s>注意 ok', ...options);
  assert.ok(summary.stdout.includes(`\nnote: ${twice}\nnote: `), summary.stdout);
});

test('ablate prints loss and sink before and after', async () => {
  const { before: before, after: after, change } = await model.ablate(TEXT, { layer: 0, head: 1 });
  const args = ['ablate', folder, '--text', TEXT, '--layer', '0', '--head', '1'];
  const result = JSON.parse((await runCli(...args, '--json')).stdout);
  assert.equal(result.change, change);
  assert.deepEqual([result.before.loss, result.after.loss], [before.loss, after.loss]);
  assert.deepEqual([result.before.sink, result.after.sink], [before.sink, after.sink]);
  const { stdout } = await runCli(...args);
  const sign = change >= 0 ? '+' : '';
  for (const part of [before.loss.toFixed(4), after.loss.toFixed(4), `${sign}${change.toFixed(4)}`])
    assert.ok(stdout.includes(part), `${part} in ${stdout}`);
  assert.match(
    (await runCli('ablate', folder, '--text', 'The', '--edit', 'hide_key(key=0)')).stdout,
    /says nothing here/,
  );
});

test('generate prints the text and its continuation, from a file and from a checkpoint', async () => {
  const file = join(mkdtempSync(join(tmpdir(), 'text-')), 'text.txt');
  writeFileSync(file, TEXT);
  const drawOptions = ['--count', '6', '--temperature', '0.8', '--top-k', '20', '--seed', '2'];
  const written = await model.generate(TEXT, { count: 6, temperature: 0.8, topK: 20, seed: 2 });
  const result = JSON.parse(
    (await runCli('generate', folder, '--text-file', file, ...drawOptions, '--json')).stdout,
  );
  assert.equal(result.written, written);
  assert.equal(result.text, TEXT);
  const earlyResult = await runCli('generate', `${folder}@1400`, '--text', TEXT, ...drawOptions);
  assert.equal(earlyResult.status, 0, earlyResult.stderr);
  assert.ok(earlyResult.stdout.startsWith(TEXT) && !earlyResult.stdout.includes(written));
  const { length } = await model.tokenizer.encode(TEXT);
  const { text: range, where } = await failure(model.generate(TEXT, { count: 200 }));
  assert.ok(where === 'count' && range.includes(` ${128 - length},`), range);
  const tooMany = await runCli('generate', folder, '--text', TEXT, '--count', '200');
  assert.equal(tooMany.stderr, `sinkscope: --count: ${range}\n`);
});

test('invalid arguments are rejected with their place', async () => {
  const refusals = {
    'ablate MODEL --text a': /--layer: expected a layer, or an --edit, found neither/,
    'ablate MODEL --text a --layer 0 --head 9': /head: expected an integer from 0 to 3, got 9/,
    'ablate MODEL --text a --head 1': /layer: expected/,
    'ablate MODEL --text a --edit hide_key(key=50)':
      /edits\[0\]\.key: expected an integer from 0 to 1, found 50/,
    'map MODEL --text a --layer 1': /head: expected an integer from 0 to 3/,
    'map MODEL': /text: expected one of --text and --text-file, found none/,
    'map MODEL --text a --text-file b': /text: expected one of --text and --text-file, got 2/,
    'map MODEL --text a --layer x --head 0': /--layer: expected/,
    'generate MODEL --text a --count -1': /--count: expected/,
    'generate MODEL --text a --ids 1': /--ids/,
    'ablate MODEL --text a --layer 0 --csv': /--csv/,
  };
  for (const [words, message] of Object.entries(refusals)) {
    const [command, , ...rest] = words.split(' ');
    const { status, stderr, stdout } = await runCli(command, folder, ...rest);
    assert.equal(status, 1, words);
    assert.match(stderr, message, words);
    assert.equal(stdout, '', words);
  }
});
