// Ends trainings at random moments, by signals, full disks and closed pipes: each folder opens as the old model or as the
// new one, or has no model yet, and the resumed training has the bits of an undisturbed one. A short run tries the first
// moments; SINKSCOPE_MOMENTS=200 tries as many, SINKSCOPE_MOMENTS=17:18 only number 17.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { cpSync, existsSync, mkdtempSync, readFileSync, readdirSync, rmSync } from 'node:fs';
import { constants, tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { after, before, test } from 'node:test';
import {
  createEngine,
  findPlan,
  labConfig,
  labFolder,
  labTokenizer,
  modelFiles,
} from '../../wasm/index.ts';
import { train } from '../../wasm/command/train.ts';
import { currentPath } from '../../wasm/host/node_folder.ts';
import { binaries, root } from './helper.mjs';

const SHORT_RUN = 12;
const [from, to] = (([first, last]) => (last ? [first, last] : [0, first ?? SHORT_RUN]))(
  (process.env.SINKSCOPE_MOMENTS?.split(':') ?? []).map(Number),
);
const LAST_CALLS = 18;
const STEPS = 8;
const MODEL = { width: 8, inner: 8, context: 8 };
const RECIPE = { length: 8, batch: 2, triggers: 2, steps: STEPS };
const OLD_SEED = 7;
const NEW_SEED = 9;
/** The models by their seeds; they differ in every file. */
const CHOICES = {
  [OLD_SEED]: { operation: 'softmax', vocabulary: 20 },
  [NEW_SEED]: { operation: 'sigmoid', vocabulary: 16 },
};
const cli = fileURLToPath(new URL('wasm/cli.js', root));
const preload = fileURLToPath(new URL('end_early.mjs', import.meta.url));
const folder = mkdtempSync(join(tmpdir(), 'sinkscope-ended-'));
const oldFolder = join(folder, 'old');
const newFolder = join(folder, 'new');

let engine;
let counts;
/** Seed, steps and the hashes of the other files of each model, by the hash of its weights. */
const models = new Map();

const hash = (bytes) => createHash('sha256').update(bytes).digest('hex');
const contents = (target) =>
  Object.fromEntries(
    readdirSync(target).map((name) => [name, hash(readFileSync(join(target, name)))]),
  );
const argumentsOf = (seed, out) => {
  const choices = { ...MODEL, ...CHOICES[seed], ...RECIPE, seed };
  const settings = { ...choices, every: 1, checkpoint: 0, out };
  return Object.entries(settings).flatMap(([name, value]) => [`--${name}`, `${value}`]);
};

function start(out, moment) {
  const env = { ...process.env, SINKSCOPE_END: JSON.stringify(moment) };
  return spawn(
    process.execPath,
    ['--import', preload, cli, 'train', ...argumentsOf(NEW_SEED, out)],
    {
      env: { ...env, ...(moment.countsFile ? { SINKSCOPE_COUNTS: moment.countsFile } : {}) },
      stdio: ['ignore', 'pipe', 'pipe'],
    },
  );
}

before(async () => {
  engine = await createEngine({ base: binaries, lab: true, worker: false });
  for (const seed of [OLD_SEED, NEW_SEED]) {
    const { vocabulary } = CHOICES[seed];
    const config = labConfig({ ...MODEL, ...CHOICES[seed] });
    const training = await engine.train({ config, recipe: { ...RECIPE, seed } });
    for (let step = 0; step <= STEPS; step++) {
      const recipe = { settings: {}, steps_done: step, from: null, text: null };
      const { tokenizer } = labTokenizer({ vocabulary, triggers: 2 });
      const files = labFolder({ config, weights: await training.weights(), tokenizer, recipe });
      const [configHash, weightsHash, tokenizerHash] = files.map(({ data }) => hash(data));
      models.set(weightsHash, { seed, step, configHash, tokenizerHash });
      await training.step();
    }
    await training.close();
  }
  const oldOptions = Object.fromEntries(
    argumentsOf(OLD_SEED, oldFolder).map((word, i, words) => [word.slice(2), words[i + 1]]),
  );
  await train(engine, oldOptions, async () => {});
  const countsFile = join(folder, 'counts.json');
  const [status] = await once(start(newFolder, { countsFile }).on('error', assert.fail), 'exit');
  assert.equal(status, 0);
  counts = JSON.parse(readFileSync(countsFile, 'utf8'));
});
after(async () => {
  await engine.close();
  rmSync(folder, { recursive: true });
});

/** Returns a generator of whole numbers below a bound, the same for each number. */
function createRandom(number) {
  let state = number * 0x9e3779b9;
  return (bound) => {
    state = Math.imul(state ^ (state >>> 15), 0x2c1b3c6d) + 0x6d2b79f5;
    const mixed = Math.imul(state ^ (state >>> 12), 0x297a2d39);
    return ((mixed ^ (mixed >>> 15)) >>> 0) % bound;
  };
}

function drawMoment(number) {
  const random = createRandom(number + 1);
  const signal = ['SIGKILL', 'SIGKILL', 'SIGTERM', 'SIGHUP', 'SIGINT'][random(5)];
  const line = random(STEPS + 1);
  const replacesModel = random(2) === 1;
  const phase = ['before', 'middle', 'after'][random(3)];
  const call = random(counts.calls);
  // The last calls replace the model.
  const lastCall = counts.calls - 1 - random(LAST_CALLS);
  return [
    { kind: 'call', replacesModel, signal, call, phase },
    { kind: 'call', replacesModel, signal: 'SIGKILL', call: lastCall, phase },
    { kind: 'line', replacesModel, signal, line },
    { kind: 'disk', replacesModel, bytes: random(counts.bytes) },
    { kind: 'pipe', replacesModel, line },
  ][random(5)];
}

/** Trains until the moment; returns how the process ended. */
async function trainUntil(out, moment) {
  const child = start(out, moment);
  let errors = '';
  child.stderr.on('data', (text) => (errors += text));
  let lines = 0;
  const reader = createInterface(child.stdout);
  reader.on('line', () => {
    if (lines++ !== moment.line) return;
    if (moment.kind === 'pipe') child.stdout.destroy();
    else child.kill(moment.signal);
  });
  const [status, signal] = await once(child, 'close');
  return { status: status ?? signal, errors, lines };
}

function expectStatus({ kind, signal }, { status, errors }) {
  const number = constants.signals[kind === 'pipe' ? 'SIGPIPE' : signal];
  const hadEnded = 0;
  // A signal before or after the training itself ends the process as usual.
  const allowed = kind === 'disk' ? [1, hadEnded] : [128 + number, signal, hadEnded];
  assert.ok(allowed.includes(status), `exit status ${status}: ${errors}`);
  if (status === 1) assert.match(errors, /^sinkscope: --out: .*found ENOSPC/);
  assert.ok(errors.split('\n').length <= 2, errors);
}

/** Asserts that a training which was stopped after a line has saved the weights of that line's step. */
function expectSaved({ kind, signal, line }, { status }, model) {
  const isStopped = kind === 'pipe' || (kind === 'line' && signal !== 'SIGKILL');
  if (!isStopped) return;
  const steps = status === signal ? STEPS : Math.min(line + 1, STEPS);
  assert.ok(model?.seed === NEW_SEED && model.step >= steps, `${JSON.stringify(model)}: ${steps}`);
}

/** Resumes a training and asserts that it goes on from the last checkpoint, to the bits of an undisturbed one. */
async function resume(out, statePath) {
  const step = readFileSync(statePath).readUInt32LE(4);
  const steps = [];
  const print = async (line) => void steps.push(JSON.parse(line).step);
  await train(engine, { resume: out, every: '1', checkpoint: '0', json: true }, print);
  assert.deepEqual(
    steps,
    Array.from({ length: STEPS + 1 - step }, (_, i) => step + i),
  );
  assert.deepEqual(contents(out), contents(newFolder));
}

/** Returns seed and step of the model in a folder; undefined if the folder says that it has none. */
async function modelIn(out) {
  let plan;
  try {
    plan = await findPlan(out);
  } catch (error) {
    assert.match(error.message, /Nothing is trained there yet|found no files/);
    return undefined;
  }
  await (await engine.open(modelFiles(plan))).close();
  const weights = new Uint8Array(await plan.files.weights[0].blob.arrayBuffer());
  const model = models.get(hash(weights));
  assert.ok(model, 'the weights are those of no step');
  const recipe = JSON.parse(readFileSync(await currentPath(out, 'recipe.json'), 'utf8'));
  assert.deepEqual([recipe.settings.seed, recipe.steps_done], [model.seed, model.step]);
  const { config, tokenizer } = plan.files;
  assert.equal(hash(await config.blob.text()), model.configHash);
  assert.equal(hash(await tokenizer.blob.text()), model.tokenizerHash);
  return model;
}

for (let number = from; number < to; number++) {
  test(`a training that ends early loses nothing, moment ${number}`, async () => {
    const moment = drawMoment(number);
    const out = join(folder, `${number}`);
    const described = JSON.stringify(moment);
    try {
      if (moment.replacesModel) cpSync(oldFolder, out, { recursive: true });
      const end = await trainUntil(out, moment);
      expectStatus(moment, end);
      const model = existsSync(out) ? await modelIn(out) : undefined;
      if (moment.replacesModel) assert.ok(model, 'the old model is lost');
      const statePath = await currentPath(join(out, 'checkpoint'), 'training.state');
      expectSaved(moment, end, model);
      if (end.status === 0) {
        assert.deepEqual(contents(out), contents(newFolder));
      } else if (existsSync(statePath)) {
        await resume(out, statePath);
      } else {
        // The first checkpoint precedes the first line.
        const isFinished = model?.seed === NEW_SEED && model.step === STEPS;
        const hasBegun = model?.seed === NEW_SEED || end.lines > 0;
        assert.ok(isFinished || !hasBegun, 'a training without its checkpoint');
      }
    } catch (error) {
      error.message += `\nthe moment: ${described}`;
      throw error;
    }
  });
}
