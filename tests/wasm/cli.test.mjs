// Compares the command line with the independent reference's measurements of the same model and texts.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import {
  closeSync,
  cpSync,
  mkdtempSync,
  openSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { after, test } from 'node:test';
import assert from 'node:assert/strict';
import { openHub } from '../hub/server.mjs';
import { root, runOk } from './helper.mjs';

const cli = fileURLToPath(new URL('wasm/cli.js', root));
const zoo = (id) => fileURLToPath(new URL(`models/zoo/${id}`, root));
const index = JSON.parse(readFileSync(new URL('models/zoo/index.json', root), 'utf8'));
const folder = mkdtempSync(join(tmpdir(), 'sinkscope-cli-'));
after(() => rmSync(folder, { recursive: true }));

const texts = JSON.parse(readFileSync(new URL('models/zoo/heldout.json', root), 'utf8'));
const lines = join(folder, 'lines.txt');
// The passages contain line breaks, so they cannot be one per line.
writeFileSync(lines, texts.map((text) => text.replace(/\s*\n\s*/g, ' ')).join('\n'));
// Each command cuts the whole text into tokens, so it has four passages.
const wholeFile = join(folder, 'whole.txt');
writeFileSync(wholeFile, texts.slice(0, 4).join('\n'));

const measure = async (...args) => JSON.parse((await runOk('measure', ...args, '--json')).stdout);

test('measures of a model are those of the reference', async () => {
  const { measured } = index.find(({ id }) => id === 'sigmoid');
  const result = await measure(zoo('sigmoid'), '--text-file', lines, '--lines');
  assert.deepEqual(
    [result.T, result.eps, result.sequences, result.class],
    [64, 0.3, 100, 'measured'],
  );
  const { sink_ratio, sink_ratio_raw, loss_mean, alpha, hidden_ratio } = result.metrics;
  const near = (actual, expected, tolerance) =>
    assert.ok(Math.abs(actual - expected) <= tolerance, `${actual} is near ${expected}`);
  near(100 * sink_ratio.mean[0], measured.sink_1, 0.5);
  near(100 * sink_ratio_raw.mean[0], measured.sink_1_raw, 0.5);
  near(loss_mean.mean[0], measured.loss, 0.02);
  near(Math.max(...alpha.mean.filter((_, i) => i % 64 === 0)), measured.alpha_max, 0.01);
  near(Math.max(...hidden_ratio.mean.slice(1)), measured.hidden_ratio, 0.1);
  assert.ok(sink_ratio.deviation[0] > 0);
});

test('an encoder has no loss, and the command gives the reason', async () => {
  const model = join(folder, 'bert');
  cpSync(new URL('tests/golden/hf-bert', root), model, { recursive: true });
  writeFileSync(join(model, 'vocab.txt'), '[UNK]\n[PAD]\n[CLS]\n[SEP]\na\n');
  const { stdout } = await runOk('measure', model, '--ids', '2,7,9,11,7,3');
  assert.match(stdout, /^note: every query sees every token, so that none is predicted/m);
  assert.match(stdout, /^loss +-$/m);
  assert.match(stdout, /^accuracy +-$/m);
});

test('--version prints the package’s version, describe each metric, field, edit and operation with its meaning', async () => {
  const { version } = JSON.parse(readFileSync(new URL('wasm/package.json', root), 'utf8'));
  assert.equal((await runOk('--version')).stdout, `${version}\n`);
  const tables = JSON.parse((await runOk('describe', '--json')).stdout);
  assert.deepEqual([tables.version, tables.measured_by], [version, undefined]);
  const { stdout } = await runOk('describe');
  for (const table of ['metrics', 'fields', 'edits', 'operations'])
    for (const { name, question, formula, meaning } of tables[table]) {
      const line = stdout.split('\n').find((line) => line.startsWith(`  ${name} `));
      assert.ok(line.endsWith(` ${question ?? formula ?? meaning}`), name);
    }
});

test('a reader that closes the pipe ends every command quietly', async () => {
  const measureArgs = ['measure', zoo('softmax'), '--text-file', wholeFile, '--sequences', '3'];
  const commands = [
    ['describe', '--json'],
    [...measureArgs, '--json'],
    ['train', '--steps', '100000'],
    ['measure', 'nowhere/at-all', '--text-file', join(folder, 'none')],
  ];
  for (const args of commands) {
    const child = spawn(process.execPath, [cli, ...args], { stdio: ['ignore', 'pipe', 'pipe'] });
    // The reader closes both pipes at the first byte, or before it.
    child.stdout.once('data', () => child.stdout.destroy());
    if (args[0] !== 'train') child.stdout.destroy();
    let errorText = '';
    child.stderr.on('data', (bytes) => (errorText += bytes));
    await once(child, 'exit');
    assert.doesNotMatch(errorText, /EPIPE|\n +at .*\(|Unhandled/, args.join(' '));
  }
});

test('an output that takes nothing ends every command with one sentence', async (t) => {
  if (process.platform !== 'linux') return t.diagnostic('only Linux has /dev/full');
  const measureArgs = ['measure', zoo('softmax'), '--text-file', wholeFile, '--sequences', '1'];
  const trainArgs = ['train', '--steps', '100000'];
  const commands = [['--version'], [...measureArgs, '--json'], trainArgs, trainArgs.with(2, '0')];
  const sentence = 'standard output: expected a place that can be written to, found ENOSPC';
  for (const args of commands) {
    const full = openSync('/dev/full', 'w');
    const child = spawn(process.execPath, [cli, ...args], { stdio: ['ignore', full, 'pipe'] });
    let errorText = '';
    child.stderr.on('data', (bytes) => (errorText += bytes));
    const [status] = await once(child, 'close');
    closeSync(full);
    assert.equal(status, 1, args.join(' '));
    const lines = errorText.split('\n').filter((line) => !/sequences a second/.test(line));
    assert.deepEqual(lines, [`sinkscope: ${sentence}`, ''], args.join(' '));
  }
});

test('the command line measures a model of the hub', async () => {
  const hub = await openHub();
  try {
    const args = ['--text-file', wholeFile, '--tokens', '16', '--sequences', '2'];
    const hubResult = await measure('sinkscope/softmax', ...args, '--endpoint', hub.endpoint);
    const diskResult = await measure(zoo('softmax'), ...args);
    assert.deepEqual(hubResult.metrics, diskResult.metrics);
  } finally {
    await hub.close();
  }
});

test('the command prints a summary for people, and errors on one line with exit code 1', async () => {
  const emptyFolder = mkdtempSync(join(folder, 'empty-'));
  const text = (
    await runOk('measure', zoo('softmax'), '--text-file', wholeFile, '--sequences', '1')
  ).stdout;
  assert.match(text, /Sink_1 +\d+\.\d\d%/);
  assert.doesNotMatch(text, /too short/);
  const args = ['measure', zoo('softmax'), '--text-file', wholeFile, '--sequences', '1'];
  const shortResult = await runOk(...args, '--tokens', '9');
  assert.match(
    shortResult.stdout,
    /too short: uniform attention alone exceeds eps 0\.3; Sink_1 needs at least 10 tokens/,
  );
  const endless = await runOk(...args, '--tokens', '9', '--eps', '0');
  assert.match(endless.stdout, /no text is long enough: uniform attention alone exceeds eps 0\n/);
  const measured = ['measure', zoo('softmax')];
  const ofText = [...measured, '--text-file', wholeFile];
  const cases = [
    [[...ofText, '--tokens', '129'], /from 1 to 128, the model's context, got 129/],
    [[...measured, '--text', 'The'], /at least 63 .*; a smaller --tokens than 64 needs fewer/],
    [[...ofText, '--edit', 'silence(head=zero)'], /silence.head: expected a number/],
    [[...ofText, '--special', '<nope>'], /special: expected tokens/],
    [[...measured, '--text-file', join(folder, 'none')], /ENOENT/],
    [['measure', emptyFolder, '--text-file', wholeFile], /expected model.safetensors/],
    [[...measured, '--ids', '0,123456789'], /123456789/],
    [['measure', `${zoo('softmax')}@x`, '--ids', '0,1'], /MODEL: step: expected a whole number/],
  ];
  for (const [args, message] of cases) {
    await assert.rejects(runOk(...args), (error) => {
      assert.equal(error.status, 1);
      assert.match(error.stderr, message);
      assert.equal(error.stderr.trimEnd().split('\n').length, 1, error.stderr);
      return true;
    });
  }
});
