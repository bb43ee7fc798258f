// Checks that the command line makes recordings, prints them like models, and compares them.
import { mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { after, test } from 'node:test';
import assert from 'node:assert/strict';
import { root, runCli } from './helper.mjs';

const zoo = (id) => fileURLToPath(new URL(`models/zoo/${id}`, root));
const folder = mkdtempSync(join(tmpdir(), 'sinkscope-recording-'));
after(() => rmSync(folder, { recursive: true }));
const text = join(folder, 'text.txt');
const passages = JSON.parse(readFileSync(new URL('models/zoo/heldout.json', root), 'utf8'));
writeFileSync(text, passages.slice(0, 4).join(' '));
const file = join(folder, 'softmax.safetensors');
const size = ['--text-file', text, '--tokens', '32', '--sequences', '6'];

/** Returns all lines except the two that name the model and its conditions. */
const table = ({ stdout }) => stdout.split('\n').slice(2).join('\n');

test('a recording prints the numbers of its model', async () => {
  const eps = '0.1,0.2,0.3';
  const options = [...size, '--eps', eps, '--out', file, '--keep', '2'];
  const recordResult = await runCli('record', zoo('softmax'), ...options);
  assert.deepEqual([recordResult.status, recordResult.stderr], [0, '']);
  const model = await runCli('measure', zoo('softmax'), ...size, '--eps', eps);
  const read = await runCli('measure', file);
  assert.ok(table(model).includes('Sink_1') && table(model).includes('deviation'));
  assert.equal(table(read), table(model));
  assert.equal(read.stdout, recordResult.stdout);
  assert.match(
    read.stdout,
    /^softmax: llama, 6 layers, 4 heads\nmeasured over 6 sequences of 32 tokens/,
  );
  const json = JSON.parse((await runCli('measure', file, '--json')).stdout);
  const ofModel = await runCli('measure', zoo('softmax'), ...size, '--eps', eps, '--json');
  const result = JSON.parse(ofModel.stdout);
  assert.deepEqual(
    [json.T, json.sequences, json.conclusive],
    [result.T, result.sequences, result.conclusive],
  );
  result.metrics.alpha.mean.forEach((x, i) =>
    assert.equal(json.metrics.alpha.mean[i], Math.fround(x)),
  );
  assert.equal(json.conditions.prompts.source, 'text.txt');
  assert.match(json.conditions.model.sha256, /^[0-9a-f]{64}$/);
  assert.doesNotMatch(JSON.stringify(json.conditions), /\/work|\/tmp/);
  assert.doesNotMatch(json.conditions.command, /[/\\]tmp/);
});

test('a recording of edited runs prints the numbers of the edited model, and the edits', async () => {
  const edits = ['--edit', 'silence(layer=0,head=1)', '--edit', 'operation(operation=sigmoid)'];
  await runCli('record', zoo('softmax'), ...size, '--out', file);
  const out = join(folder, 'edited.safetensors');
  const recordResult = await runCli('record', zoo('softmax'), ...size, ...edits, '--out', out);
  assert.deepEqual([recordResult.status, recordResult.stderr], [0, '']);
  const model = await runCli('measure', zoo('softmax'), ...size, ...edits);
  const read = await runCli('measure', out);
  // Comparisons with the unedited model need runs of it, and are not recorded.
  const modelTable = table(model).replace(/^(KL|loss change) .*\n/gm, '');
  assert.notEqual(modelTable, table(model));
  assert.equal(table(read), modelTable);
  const [title] = read.stdout.split('\n');
  assert.equal(title, model.stdout.split('\n')[0].replace(zoo('softmax'), 'softmax'));
  const {
    conditions,
    edits: editLabels,
    class: kind,
  } = JSON.parse((await runCli('measure', out, '--json')).stdout);
  assert.equal(editLabels.length, edits.length / 2);
  for (const { label } of editLabels) assert.ok(title.includes(label), title);
  assert.equal(kind, 'counterfactual');
  assert.equal(conditions.model.operation, 'sigmoid');
  // If no edits are given, the model is measured under those of the recording.
  const equalResult = await runCli('compare', out, zoo('softmax'), '--text-file', text);
  assert.deepEqual([equalResult.status, equalResult.stderr], [0, '']);
  const differentResult = await runCli('compare', out, file);
  assert.equal(differentResult.status, 1);
  assert.match(differentResult.stdout, /^edits: \[".+"\] and \[\]$/m);
});

test('compare takes two recordings, or one and its model, and exits with 1 if they differ', async () => {
  const exact = ['--out', file, '--keep', '1', '--precision', 'single'];
  await runCli('record', zoo('softmax'), ...size, ...exact);
  const options = ['--text-file', text, '--tolerance', '0', ...size.slice(2)];
  const equalResult = await runCli('compare', file, zoo('softmax'), ...options);
  assert.deepEqual([equalResult.status, equalResult.stderr], [0, '']);
  assert.match(equalResult.stdout, /\d+ tensors agree within 0\n$/);
  const otherFile = join(folder, 'sigmoid.safetensors');
  await runCli('record', zoo('sigmoid'), ...size, '--out', otherFile);
  const differentResult = await runCli('compare', file, otherFile);
  assert.equal(differentResult.status, 1);
  assert.match(differentResult.stdout, /^operation: "softmax" and "sigmoid"$/m);
  assert.match(
    differentResult.stdout,
    /^mean\.sink_ratio\[0\]\[0\]: .* apart; \d+ of 32 numbers differ$/m,
  );
  const strictResult = await runCli('compare', file, file, '--tolerance', '0', '--json');
  assert.deepEqual([strictResult.status, JSON.parse(strictResult.stdout).differences], [0, []]);
});

test('failures to record, read or compare are reported in a sentence', async () => {
  const brokenFile = join(folder, 'broken.safetensors');
  const bytes = readFileSync(file);
  writeFileSync(brokenFile, bytes.subarray(0, bytes.length - 5));
  const record = ['record', zoo('softmax'), ...size];
  const compare = ['compare', file, zoo('softmax')];
  const refusals = [
    [record, /--out: expected a file to write/],
    [[...record, '--out', file, '--fields', 'attention'], /field: expected one of/],
    [[...record, '--out', file, '--edit', 'melt'], /edit: expected one of softmax, .*silence/],
    [['measure', file, '--eps', '0.7'], /eps: expected one of 0\.3/],
    [['measure', brokenFile], /expected data inside/],
    [['compare', zoo('softmax'), zoo('sigmoid')], /A B: expected a recording/],
    [[...compare, '--tokens', '9'], /--tokens: expected \d+, as in the recording, got "9"/],
    [[...compare, '--sequences', '1'], /--sequences: expected at least \d+, as in the recording/],
    [[...compare, '--eps', '0.1'], /--eps: expected 0\.3, as in the recording, got "0\.1"/],
    [['compare', file, file, '--tokens', '9'], /--tokens: needs a model, and both are recordings/],
    [['compare', file, file, '--tolerance=-1'], /--tolerance: expected a number/],
  ];
  const before = statSync(file).mtimeMs;
  for (const [args, sentence] of refusals) {
    const { status, stderr, stdout } = await runCli(...args);
    assert.deepEqual([status, stdout], [1, ''], args.join(' '));
    assert.match(stderr, sentence);
  }
  assert.equal(statSync(file).mtimeMs, before);
});
