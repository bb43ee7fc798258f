// Tests the command line's search for a suffix: the package's result, in words and as JSON.
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { test } from 'node:test';
import assert from 'node:assert/strict';
import { openTokenizer } from '../../wasm/index.ts';
import { searchSuffix } from '../../wasm/internal.ts';
import { files, root, runCli, softmax, withEngine } from './helper.mjs';

const path = (name) => fileURLToPath(new URL(name, root));
const textOptions = '--lines --tokens 20 --sequences 3'.split(' ');
const textArgs = ['--text-file', path('models/zoo/heldout.json'), ...textOptions];
const size = '--length 2 --steps 2 --width 4 --seed 5 --prompt 8'.split(' ');

const run = (...args) => runCli('suffix', ...args);

test('the command searches on the first text and tries the suffix on the others', async () => {
  const tokenizer = openTokenizer(readFileSync(new URL('tokenizer.json', softmax), 'utf8'));
  const texts = JSON.parse(readFileSync(path('models/zoo/heldout.json'), 'utf8')).slice(0, 3);
  const [pair, ...others] = texts.map((text) => {
    const ids = tokenizer.encode(text).map(({ id }) => id);
    return { prompt: ids.slice(0, 8), continuation: ids.slice(8, 20) };
  });
  const goal = 'away';
  const args = [path('models/zoo/softmax'), ...textArgs, ...size, '--goal', goal];
  const runResult = await run(...args, '--json');
  assert.deepEqual([runResult.status, runResult.stderr], [0, '']);
  const {
    measured_by,
    model,
    prompt,
    tokens,
    pieces,
    goal: goalName,
    cut,
    T,
    ...result
  } = JSON.parse(runResult.stdout);
  assert.deepEqual([model, prompt, tokens, goalName], ['softmax', 8, 20, goal]);
  assert.deepEqual([cut.sequences, T], [3, 20]);
  await withEngine({}, async (engine) => {
    assert.equal(measured_by, `Sinkscope ${engine.describe.version}`);
    const options = {
      goal,
      length: 2,
      steps: 2,
      width: 4,
      seed: 5,
      never: tokenizer.special,
      others,
    };
    assert.deepEqual(result, await searchSuffix(await engine.open(files(softmax)), pair, options));
  });
  assert.deepEqual(
    pieces,
    result.suffix.map((id) => tokenizer.piece(id)),
  );
  const { stdout } = await run(...args);
  const line = (name) => Number(new RegExp(`^  ${name} +(\\d+\\.\\d+)`, 'm').exec(stdout)[1]);
  assert.equal(line('found'), Number((-result.score).toFixed(3)), stdout);
  assert.equal(line('best of 9 random'), Number((-result.random.best).toFixed(3)), stdout);
  assert.match(stdout, /on 2 texts that the search did not see/);
});

test('an impossible search is rejected in a sentence', async (t) => {
  const model = path('models/zoo/softmax');
  for (const args of [
    ['--goal', 'fear'],
    ['--prompt', '20'],
    ['--steps', 'x'],
  ]) {
    const { status, stderr } = await run(model, ...textArgs, ...args);
    t.assert.snapshot([status, stderr.trim()]);
  }
});

test('every command on a cut text says how many sequences the text did not give', async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'sinkscope-'));
  t.after(() => rmSync(folder, { recursive: true }));
  const texts = JSON.parse(readFileSync(path('models/zoo/heldout.json'), 'utf8')).slice(0, 2);
  const file = join(folder, 'two.json');
  writeFileSync(file, JSON.stringify(texts));
  const cutArgs = ['--text-file', file, '--lines', '--tokens', '12', '--sequences', '3'];
  for (const [command, model, ...args] of [
    ['suffix', 'softmax', '--length', '1', '--steps', '1', '--width', '1'],
    ['tasks', 'softmax', '--prompts', '1', '--copied', '2', '--between', '1'],
    ['unmask', 'diffusion', '--steps', '1'],
    ['measure', 'softmax'],
  ]) {
    const { stdout } = await runCli(command, path(`models/zoo/${model}`), ...args, ...cutArgs);
    assert.match(
      stdout,
      /^note: 2 of the 3 sequences asked for, one for each of 2 texts$/m,
      command,
    );
  }
});
