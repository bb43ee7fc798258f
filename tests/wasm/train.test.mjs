// Tests the lab: the same bits in wasm and natively, a sink that emerges or does not, a file that opens, bad input.
import { execFile, execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  readdirSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { after, before, test } from 'node:test';
import assert from 'node:assert/strict';
import {
  SinkscopeError,
  createEngine,
  labConfig,
  labOnward,
  openTimeline,
  openTokenizer,
} from '../../wasm/index.ts';
import { LAB_MODEL } from '../../wasm/internal.ts';
import { Trainer } from '../../wasm/engine/trainer.ts';
import { train } from '../../wasm/command/train.ts';
import { stampFiles } from '../../wasm/loading/stamp.ts';
import { openOut } from '../../wasm/command/out_folder.ts';
import { root, runOk } from './helper.mjs';

const trainer = fileURLToPath(new URL('.build/native/trainer', root));
const folder = mkdtempSync(join(tmpdir(), 'sinkscope-train-'));
const SMALL_MODEL = { width: 16, inner: 32, vocabulary: 24, context: 16 };
const RECIPE = { batch: 8, length: 16, triggers: 3, steps: 6 };

let engine;
before(async () => (engine = await createEngine({ lab: true, worker: false })));
after(async () => {
  await engine.close();
  rmSync(folder, { recursive: true });
});

const hash = (bytes) => createHash('sha256').update(bytes).digest('hex');

async function trainAll(config, recipe, options = {}) {
  const trainingEngine = await createEngine({ lab: true, worker: false });
  const training = await trainingEngine.train({ config, recipe, ...options });
  const log = await training.step(recipe.steps);
  log.push(await training.look());
  const weights = await training.weights();
  await training.close();
  await trainingEngine.close();
  return { log, weights };
}

for (const choices of [
  {},
  {
    operation: 'sigmoid_log_n',
    positions: 'rotary',
    norm: 'rms',
    feed_forward: 'gated',
    activation: 'silu',
  },
  { operation: 'sink_logit', gate: 'output_element', bias_key: 'head', heads: 2 },
]) {
  test(`wasm with SIMD and native without train ${JSON.stringify(choices)} to the same bits`, async (context) => {
    if (!existsSync(trainer)) return context.skip('no native trainer');
    const config = labConfig({ ...SMALL_MODEL, ...choices });
    const [configFile, recipeFile, out] = ['native.json', 'recipe.json', 'native.safetensors'].map(
      (name) => join(folder, name),
    );
    writeFileSync(configFile, JSON.stringify(config));
    writeFileSync(recipeFile, JSON.stringify(RECIPE));
    const lines = execFileSync(trainer, [configFile, recipeFile, out], { stdio: 'pipe' });
    const { log, weights } = await trainAll(config, RECIPE);
    assert.equal(hash(readFileSync(out)), hash(weights));
    // C prints nan for a number that this training has not.
    const last = JSON.parse(
      String(lines)
        .trim()
        .split('\n')
        .at(-1)
        .replaceAll(/-?nan\b/g, 'null'),
    );
    const digits = (value) => value && Number(Math.fround(value).toPrecision(7));
    for (const [name, value] of Object.entries(last))
      assert.equal(log.at(-1)[name], digits(value), name);
    assert.ok(last.loss < log[0].loss);
  });
}

for (const worker of [true, false]) {
  test(`workers that share a training run have the bits of one worker, ${worker ? 'in a worker' : 'in this thread'}`, async () => {
    const config = labConfig(SMALL_MODEL);
    const { log, weights } = await trainAll(config, RECIPE);
    for (const workers of [2, 3, 4]) {
      const trainingEngine = await createEngine({ lab: true, worker, workers });
      const training = await trainingEngine.train({ config, recipe: RECIPE, workers });
      const [looked] = await Promise.all([training.look(), training.sample()]);
      assert.equal(looked.loss, log[0].loss);
      const steps = await training.step(2);
      // A call during a step waits for the step.
      const [laterEntries, currentEntry] = await Promise.all([training.step(4), training.look()]);
      assert.ok(Number.isFinite(currentEntry.loss));
      assert.deepEqual([...steps, ...laterEntries, await training.look()], log);
      assert.equal(hash(await training.weights()), hash(weights));
      await training.close();
      await trainingEngine.close();
    }
  });
}

test('ending a training run does not wait for its helper', async () => {
  const calls = [];
  const module = {
    reserve: () => 8,
    release: (address) => calls.push(['release', address]),
    bytes: () => new Uint8Array(4),
    lend: (_, use) => use(0),
    handle: () => 16,
    call: (...args) => calls.push(args),
  };
  const trainer = new Trainer(module, 1);
  const id = trainer.begin({ config: '{}', recipe: '{}', text: Int32Array.of(1) });
  const { port1, port2 } = new MessageChannel();
  trainer.lead(id, [port1], []);
  // The helper is asked for its parts, and never answers.
  const step = assert.rejects(trainer.takeSteps(id, 1, 0), { code: 'closed', where: 'training' });
  await once(
    port2.on('message', () => {}),
    'message',
  );
  const endPromise = trainer.end(id);
  port2.close();
  await endPromise;
  await step;
  assert.deepEqual(calls, [
    ['train_end', 16],
    ['release', 8],
  ]);
  assert.throws(() => trainer.weights(id), { code: 'closed' });
});

test('a model of the zoo continues from its last step, as another variant too', async () => {
  const relu = new URL('models/zoo/relu/', root); // stored in 8 bits
  const trainedConfig = JSON.parse(readFileSync(new URL('config.json', relu), 'utf8'));
  const begin = new Uint8Array(readFileSync(new URL('model.safetensors', relu)));
  const tokens = Array.from({ length: 24 }, (_, t) => (t * 37) % 1000);
  const reads = [{ metric: 'alpha' }, { metric: 'value_ratio' }];
  const model = await engine.open({ config: JSON.stringify(trainedConfig), weights: begin });
  for (const operation of ['relu', 'softmax']) {
    const edits = operation === 'relu' ? [] : [{ kind: 'operation', operation }];
    const run = await model.run(tokens, { edits });
    const expected = await run.read(reads);
    const onward = labOnward(trainedConfig, { operation }, { batch: 1, length: 16, steps: 2 });
    assert.equal(onward.recipe.first, 0);
    const training = await engine.train({ ...onward, begin, text: tokens });
    const numbers = await training.read(tokens, reads);
    numbers.forEach(({ data }, i) =>
      data.forEach((value, j) => assert.ok(Math.abs(value - expected[i].data[j]) < 1e-5)),
    );
    assert.ok(!('quantization_config' in training.config));
    const [{ loss }] = await training.step(2);
    assert.ok(Number.isFinite(loss) && (await training.look()).loss !== loss);
    await training.close();
  }
  await model.close();
  const gatedTraining = await engine.train({
    ...labOnward(
      trainedConfig,
      { bias_key: 'head', gate: 'output_head' },
      { batch: 1, length: 16 },
    ),
    begin,
    text: tokens,
  });
  assert.ok(Number.isFinite((await gatedTraining.look()).loss));
  await gatedTraining.close();
  assert.throws(() => labOnward(trainedConfig, { width: '3' }), {
    code: 'argument',
    where: 'width',
  });
  await assert.rejects(
    engine.train({ ...labOnward(labConfig(SMALL_MODEL)), begin, text: tokens }),
    {
      code: 'bad_token',
    },
  );
});

test('training requires an engine with the trainer', async () => {
  const plainEngine = await createEngine({ worker: false });
  assert.equal(plainEngine.describe.training, undefined);
  await assert.rejects(plainEngine.train({ config: labConfig() }), {
    code: 'unsupported',
    message: /lab: true/,
  });
  await plainEngine.close();
});

test('each word that an option of the model lists trains, and another choice names the option', async () => {
  const { training } = await engine.explain();
  for (const { name, words = [] } of training.model)
    for (const word of words) {
      const gate = word === 'silu' ? { feed_forward: 'gated' } : {};
      const config = labConfig({ ...SMALL_MODEL, ...gate, [name]: word });
      await (await engine.train({ config, recipe: RECIPE })).close();
    }
  const words = training.model.flatMap(({ name, words }) => (words ? [name] : []));
  assert.deepEqual(
    words.toSorted(),
    Object.keys(LAB_MODEL)
      .filter((name) => typeof LAB_MODEL[name] === 'string')
      .toSorted(),
  );
  const { stdout: help } = await runOk('train', '--help');
  assert.match(help, /--gate WORD +of the model: none, output_element, [^-]*value_state \(none\)/);
  const odd = ['--positions', 'rotary', '--width', '6', '--heads', '2'];
  for (const [args, message] of [
    [['--gate', 'head'], /: --gate: expected one of none, output_element, .*, got "head"\n/],
    [['--optimizer', 'x'], /: --optimizer: expected one of adamw, sgd, got "x"\n/],
    [['--heads', '7'], /: --heads: expected a divisor of --width 64, got 7\n/],
    [['--layers', '0'], /: --layers: expected a whole number from 1 to 1024, got "0"\n/],
    [odd, /: head_dim: this build computes an even number .*, the file says an odd one\n/],
  ])
    await assert.rejects(runOk('train', ...args), { stderr: message });
});

test('the train command prints the numbers of the package, and writes a model that opens', async () => {
  const out = join(folder, 'out');
  const choices = Object.entries({ ...SMALL_MODEL, ...RECIPE }).flatMap(([k, v]) => [
    `--${k}`,
    `${v}`,
  ]);
  const { stdout } = await runOk(
    ...['train', '--task', 'backcopy', '--operation', 'relu', '--seed', '3', '--every', '2'],
    ...choices,
    ...['--json', '--out', out],
  );
  const lines = stdout
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line));
  assert.deepEqual(
    lines.map(({ step }) => step),
    [0, 2, 4, 6],
  );
  const config = labConfig({ ...SMALL_MODEL, operation: 'relu' });
  const { log, weights } = await trainAll(config, { ...RECIPE, seed: 3 });
  assert.deepEqual(
    lines,
    log.filter(({ step }) => step % 2 === 0),
  );
  const stamped = stampFiles(config, weights);
  assert.deepEqual(JSON.parse(readFileSync(join(out, 'config.json'), 'utf8')), stamped.config);
  assert.equal(hash(readFileSync(join(out, 'model.safetensors'))), hash(stamped.weights));
  assert.equal(LAB_MODEL.operation, 'softmax');
});

const contents = (target) =>
  Object.fromEntries(
    readdirSync(target).map((name) => [name, hash(readFileSync(join(target, name)))]),
  );

test('the train command writes a complete folder, from which training continues and can be repeated', async () => {
  const [out, repeatFolder, text] = ['whole', 'again', 'corpus.txt'].map((name) =>
    join(folder, name),
  );
  const choices = Object.entries({ ...SMALL_MODEL, ...RECIPE }).flatMap(([k, v]) => [`--${k}`, v]);
  await runOk('train', ...choices, '--seed', 7, '--warm-up', 2, '--fall', 0.5, '--out', out);
  assert.deepEqual(readdirSync(out).sort(), [
    ...['config.json', 'model.safetensors', 'recipe.json'],
    ...['tokenizer.json', 'tokenizer_config.json'],
  ]);
  const { settings, steps_done: steps } = JSON.parse(readFileSync(join(out, 'recipe.json')));
  assert.deepEqual([settings.seed, settings.triggers, settings.beta1, steps], [7, 3, 0.9, 6]);
  await runOk('train', '--recipe', out, '--out', repeatFolder);
  assert.deepEqual(contents(repeatFolder), contents(out));
  // The tokens of the folder's tokenizer are letters.
  const letters = 'abcdefghijklmnopqrst';
  writeFileSync(text, letters.repeat(40));
  const measureArgs = ['--text-file', text, '--tokens', 16, '--sequences', 2, '--json'];
  const { stdout } = await runOk('measure', out, '--special', '<s>', ...measureArgs);
  assert.deepEqual(JSON.parse(stdout).architecture.V, 24);
  const [onward, onwardRepeatFolder] = ['onward', 'twice'].map((name) => join(folder, name));
  const sizes = ['--batch', 1, '--length', 12, '--steps', 3];
  await runOk('train', '--from', out, '--text-file', text, ...sizes, '--out', onward);
  rmSync(text);
  await runOk('train', '--recipe', onward, '--out', onwardRepeatFolder);
  assert.deepEqual(contents(onwardRepeatFolder), contents(onward));
  assert.equal(
    JSON.parse(readFileSync(join(onwardRepeatFolder, 'recipe.json'))).text.name,
    'corpus.txt',
  );
  await assert.rejects(
    runOk('train', '--recipe', onward, '--from', onward),
    /--from .*onward: expected the bytes that the recipe names, sha256 [0-9a-f]{64}, found/,
  );
  writeFileSync(join(onward, 'text.txt'), letters);
  await assert.rejects(runOk('train', '--recipe', onward), /--text-file .*expected the bytes/);
  await assert.rejects(
    runOk('train', '--recipe', out, '--seed', 2),
    /no other setting, got "seed"/,
  );
});

test('an output path that cannot be written is rejected before the first step', async (t) => {
  const train = (...args) => runOk('train', ...args);
  const file = join(folder, 'a-file');
  writeFileSync(file, '');
  // No process can create files in these places, and the recursive mkdir of Node.js never ends there.
  const places = ['/proc/sinkscope/x', '/dev/null/x', join(file, 'x')];
  for (const place of places.filter((path) => process.platform === 'linux' || path[1] !== 'p')) {
    const { stdout, stderr } = await train('--steps', '100000', '--out', place).catch(
      (error) => error,
    );
    assert.equal(stdout, '', place);
    assert.match(stderr, /--out: .*expected a folder that can be written to, found/, place);
  }
  const outFolder = await openOut(join(folder, 'never'), [], 60_000);
  // Only a regular file is replaced. A writer does not wait for the reader of a pipe, and follows no link.
  const keptFile = join(folder, 'kept');
  writeFileSync(keptFile, 'kept');
  const pathOf = (name) => join(folder, 'never', name);
  await promisify(execFile)('mkfifo', [pathOf('pipe')]);
  symlinkSync(keptFile, pathOf('link'));
  symlinkSync(join(folder, 'nowhere'), pathOf('broken'));
  mkdirSync(pathOf('folder'));
  for (const [path, kind] of [
    ['pipe', 'a device or a pipe'],
    ['link', 'a link'],
    ['broken', 'a link'],
    ['folder', 'a folder'],
    ['.', 'a folder'],
  ]) {
    const refusal = { code: 'write', text: `expected a regular file or none, found ${kind}` };
    await assert.rejects(outFolder.write([{ path, data: '{}' }]), refusal);
    await assert.rejects(openOut(join(folder, 'never'), [path]), refusal);
  }
  assert.equal(readFileSync(keptFile, 'utf8'), 'kept');
  assert.deepEqual(readdirSync(join(folder, 'never')).sort(), ['broken', 'folder', 'link', 'pipe']);
  writeFileSync(pathOf('config.json'), 'old');
  // A finished command does not wait for its timeout.
  const clear = t.mock.method(globalThis, 'clearTimeout');
  const setTimer = t.mock.method(globalThis, 'setTimeout');
  await outFolder.write([{ path: 'config.json', data: '{}' }]);
  const clearedTimers = clear.mock.calls.map(({ arguments: [timer] }) => timer);
  assert.deepEqual(
    setTimer.mock.calls.map(({ result }) => clearedTimers.includes(result)),
    [true],
  );
  t.mock.restoreAll();
  t.mock.timers.enable({ apis: ['setTimeout'] });
  const lateWrite = outFolder.write([{ path: 'late.json', data: '{}' }]);
  t.mock.timers.tick(60_000);
  await assert.rejects(lateWrite, /found Error: no answer within 60 s$/);
  t.mock.timers.reset();
  assert.equal(readFileSync(pathOf('config.json'), 'utf8'), '{}');
});

test('commands that create the same folder at once do not fail', async () => {
  const path = join(folder, 'shared', 'by', 'several');
  const outFolders = await Promise.all(Array.from({ length: 8 }, () => openOut(path, [], 5000)));
  await Promise.all(
    outFolders.map((outFolder, i) => outFolder.write([{ path: `${i}.json`, data: `${i}` }])),
  );
  for (let i = 0; i < 8; i++) assert.equal(readFileSync(join(path, `${i}.json`), 'utf8'), `${i}`);
});

test('writers of one file at once leave one of their files and no part', async () => {
  const path = join(folder, 'contested');
  const outFolders = await Promise.all(Array.from({ length: 4 }, () => openOut(path, [], 5000)));
  const data = Array.from('abcd', (letter) => letter.repeat(2 ** 20));
  const abandoned = join(path, '.sinkscope-part-p4194305-x');
  writeFileSync(abandoned, 'of a process that has ended');
  const files = (text) => [{ path: 'r.safetensors', data: text }];
  await Promise.all(outFolders.map((outFolder, i) => outFolder.write(files(data[i]))));
  assert.deepEqual(readdirSync(path), ['r.safetensors']);
  const written = readFileSync(join(path, 'r.safetensors'), 'utf8');
  assert.ok(data.includes(written));
  // A disk on which the file does not fit, here a limit of 20 KB, keeps the old file and no part.
  const code = `
    import { openOut } from ${JSON.stringify(new URL('wasm/command/out_folder.ts', root).href)};
    process.on('SIGXFSZ', () => {});
    const folder = await openOut(${JSON.stringify(path)});
    await folder.write([{ path: 'r.safetensors', data: 'e'.repeat(2 ** 20) }]);`;
  const command = 'ulimit -f 20; exec "$0" --input-type=module -e "$1"';
  await assert.rejects(
    promisify(execFile)('bash', ['-c', command, process.execPath, code]),
    /--out: .*found EFBIG/,
  );
  assert.deepEqual(readdirSync(path), ['r.safetensors']);
  assert.equal(readFileSync(join(path, 'r.safetensors'), 'utf8'), written);
});

test('fine-tuning on a text resumes to the same files, with another number of workers too', async () => {
  const text = join(folder, 'resumed.txt');
  writeFileSync(text, 'Once there was a king who had a golden ball. '.repeat(4));
  const from = fileURLToPath(new URL('models/zoo/softmax/', root));
  const sizes = { batch: '4', length: '12', steps: '4', every: '1', checkpoint: '0' };
  const given = { from, 'text-file': [text], operation: 'sigmoid_log_n', ...sizes };
  const [whole, stopped] = ['tuned', 'tuned-twice'].map((name) => join(folder, name));
  await train(engine, { ...given, out: whole }, async () => {});
  let lines = 0;
  const print = async () => {
    if (++lines === 2) throw new SinkscopeError('write', 'standard output', 'x');
  };
  await assert.rejects(train(engine, { ...given, out: stopped }, print), { code: 'write' });
  rmSync(text);
  const twoWorkers = await createEngine({ lab: true, workers: 2 });
  await train(twoWorkers, { resume: stopped, workers: '2' }, async () => {});
  await twoWorkers.close();
  assert.deepEqual(contents(stopped), contents(whole));
});

test('only an unfinished training can be resumed, and only with options that leave its results alone', async () => {
  const run = (...args) => runOk('train', ...args);
  const [out, untrained] = ['resumable', 'untrained'].map((name) => join(folder, name));
  const choices = Object.entries({ ...SMALL_MODEL, ...RECIPE }).flatMap(([k, v]) => [
    `--${k}`,
    `${v}`,
  ]);
  await run(...choices, '--steps', '0', '--out', untrained);
  await run(...choices, '--out', out);
  for (const [args, sentence] of [
    [['--resume', out], /--resume: .*expected an unfinished training, found none/],
    [['--resume', join(folder, 'nowhere')], /expected an unfinished training, found none/],
    [['--resume', out, '--out', 'x'], /--out: --resume has it already/],
    [['--resume', out, '--config', 'x'], /--config: is part of --resume/],
    [['--resume', out, '--seed', '3'], /--resume: expected no other setting, got "seed"/],
    [
      ['--recipe', untrained],
      /untrained: steps_done: expected a training of one step or more, got 0/,
    ],
    [['--checkpoint', '-1'], /--checkpoint: expected a number from 0 to/],
  ])
    await assert.rejects(run(...args), sentence);
});

test('a full disk behind the output stops a training like a closed pipe, and its folder stays whole', async () => {
  const out = join(folder, 'no-room');
  const given = {
    ...Object.fromEntries(Object.entries(SMALL_MODEL).map(([k, v]) => [k, `${v}`])),
    out,
  };
  const settings = { length: '16', batch: '2', triggers: '3', steps: '1000000', every: '1' };
  const error = new SinkscopeError('write', 'standard output', 'expected a place, found ENOSPC');
  let lines = 0;
  const print = async () => {
    if (++lines === 3) throw error;
  };
  await assert.rejects(train(engine, { ...given, ...settings }, print), {
    code: 'write',
    message: /found ENOSPC; "sinkscope train --resume" continues after step \d+$/,
  });
  const recipe = JSON.parse(readFileSync(join(out, 'recipe.json'), 'utf8'));
  const state = readFileSync(join(out, 'checkpoint', 'training.state'));
  assert.equal(state.readUInt32LE(4), recipe.steps_done);
  assert.ok(recipe.steps_done >= 3);
});

test('a file that never ends is refused by each option of train', async () => {
  const text = join(folder, 'short.txt');
  writeFileSync(text, 'Once');
  const endless = '/dev/zero';
  const zooSoftmax = fileURLToPath(new URL('models/zoo/softmax/', root));
  for (const option of ['config', 'begin', 'tokenizer', 'held-file', 'from', 'recipe', 'resume']) {
    const options = { [option]: endless, 'text-file': option === 'tokenizer' ? [text] : undefined };
    const isFolder = ['from', 'recipe', 'resume'].includes(option);
    const endlessFolder = join(folder, `endless-${option}`);
    if (isFolder) {
      mkdirSync(join(endlessFolder, 'checkpoint'), { recursive: true });
      for (const name of ['config.json', 'recipe.json', 'checkpoint/training.state'])
        symlinkSync(endless, join(endlessFolder, name));
      symlinkSync(endless, join(endlessFolder, 'checkpoint', 'recipe.json'));
      options[option] = endlessFolder;
    }
    if (option === 'held-file') options.tokenizer = join(zooSoftmax, 'tokenizer.json');
    await assert.rejects(
      train(engine, options, async () => {}),
      (error) => {
        assert.match(error.message, /expected (at most \d+ bytes|a regular file)/, option);
        return true;
      },
    );
  }
});

test('the loss on held-out text equals that of the reference', async () => {
  const file = join(folder, 'new.txt');
  writeFileSync(file, 'You may reproduce and distribute copies of the Work. '.repeat(9));
  const from = fileURLToPath(new URL('models/zoo/softmax/', root));
  const passages = fileURLToPath(new URL('models/zoo/heldout.json', root));
  const train = async (...words) => {
    const args = ['train', '--from', from, '--text-file', file, '--held-file', passages, ...words];
    const { stdout } = await runOk(...args);
    return stdout.trim().split('\n');
  };
  // The expected numbers are those of PyTorch over 100 passages of 64 tokens.
  const zoo = JSON.parse(readFileSync(new URL('models/zoo/index.json', root), 'utf8'));
  const { loss } = zoo.find(({ id }) => id === 'softmax').measured;
  const [look] = await train('--steps', 0, '--batch', 1, '--held', 100, '--json');
  assert.ok(Math.abs(JSON.parse(look).loss_held - loss) < 6e-4, look);
  // The training text differs from the held-out one, and each line has the loss of its own weights.
  const sizes = ['--batch', 2, '--length', 32, '--learning-rate', 0.002, '--held', 2];
  const lines = await train(...sizes, '--steps', 5, '--every', 2, '--json');
  const log = lines.map((line) => JSON.parse(line));
  assert.deepEqual(
    log.map(({ step }) => step),
    [0, 2, 4, 5],
  );
  assert.ok(log[3].loss < log[0].loss - 0.5 && log[3].loss_held > log[0].loss_held, lines.join());
  const [lastEntry] = (await train(...sizes, '--steps', 4)).slice(-1);
  assert.match(lastEntry, new RegExp(`loss of the held text ${log[2].loss_held.toFixed(3)}$`));
});

test('held-out texts that are too short are refused with the name of their option', async () => {
  const file = join(folder, 'long_enough.txt');
  writeFileSync(file, 'You may reproduce and distribute copies of the Work. '.repeat(9));
  const passages = join(folder, 'short.json');
  writeFileSync(passages, JSON.stringify(['Once.', 'Once upon a time.']));
  const from = fileURLToPath(new URL('models/zoo/softmax/', root));
  const args = ['train', '--from', from, '--text-file', file, '--held-file', passages];
  await assert.rejects(
    runOk(...args),
    /--held-file: expected a text of at least 63 tokens, found \d in the longest; a smaller --length than 64 needs fewer\n/,
  );
});

test('the train command continues from a folder with its tokenizer on a text', async () => {
  const file = join(folder, 'text.txt');
  writeFileSync(file, 'Once there was a king who had a golden ball. '.repeat(4));
  const from = fileURLToPath(new URL('models/zoo/softmax/', root));
  const words = ['--from', from, '--text-file', file, '--operation', 'sigmoid_log_n', '--json'];
  const sizes = ['--batch', '1', '--length', '12', '--steps', '2', '--every', '1'];
  const { stdout } = await runOk('train', ...words, ...sizes);
  const log = stdout
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line));
  assert.deepEqual(
    log.map(({ step, learning_rate: rate }) => [step, rate]),
    [0, 1, 2].map((step) => [step, 0.001]),
  );
  assert.ok(log[0].value_ratio < 0.6 && log[2].loss < log[0].loss + 3);
  const trainArgs = ['train', '--from', `${from}@1400`, '--text-file', file, ...sizes, '--json'];
  const { stdout: earlyOutput } = await runOk(...trainArgs);
  const index = new URL('models/zoo/softmax/timeline/index.json', root);
  const { config, weights: begin } = await (await openTimeline(index)).open(1400);
  const tokenizer = openTokenizer(readFileSync(join(from, 'tokenizer.json'), 'utf8'));
  const ids = tokenizer.encode(readFileSync(file, 'utf8'), { special: 'none' });
  const training = await engine.train({
    ...labOnward(JSON.parse(config), {}, { batch: 1, length: 12, steps: 2 }),
    begin,
    text: Int32Array.from(ids, ({ id }) => id),
  });
  assert.deepEqual(JSON.parse(earlyOutput.split('\n')[0]), (await training.step())[0]);
  await training.close();
  await assert.rejects(
    runOk(...trainArgs, '--from', `${from}@1401`),
    /step: expected one of 0, 10, .* got 1401/,
  );
  await assert.rejects(
    runOk(...trainArgs, '--steps', '2x'),
    /--steps: expected a whole number from 0 to 1000000000, got "2x"/,
  );
  writeFileSync(file, 'Short.');
  await assert.rejects(
    runOk('train', ...words, ...sizes),
    /text: expected at least 12 tokens for sequences of 12, found \d/,
  );
});
