// Tests unmasking: the uncovered positions, their order, the reports, and the refusals.
import { test } from 'node:test';
import assert from 'node:assert/strict';
import { fileURLToPath } from 'node:url';
import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { unmask } from '../../wasm/index.ts';
import { measureUnmasking } from '../../wasm/internal.ts';
import {
  failure,
  files,
  golden,
  near,
  randomModel,
  readSafetensors,
  root,
  runOk,
  withEngine,
} from './helper.mjs';

/** A model with 20 tokens, one of them the mask, in which every query sees every key. */
const bidirectional = new URL('var-bidirectional/', golden);
const MASK = 1;
const PROMPT = [0, 7, 12, 3];
const MASKED_TOKENS = [...PROMPT, ...Array(7).fill(MASK)];

async function withModel(use) {
  await withEngine({}, async (engine) => use(await engine.open(files(bidirectional)), engine));
}

/** Returns the likeliest token other than the mask at each masked position, its probability, and alpha of this run. */
async function guesses(model, tokens) {
  const run = await model.run(tokens, { fields: ['att', 'logits'] });
  const logits = await run.field('logits');
  const alpha = await run.metric('alpha');
  await run.close();
  const { V } = model.architecture;
  const likeliest = tokens.flatMap((token, place) => {
    if (token !== MASK) return [];
    const powers = [...logits.data.subarray(place * V, (place + 1) * V)].map(Math.exp);
    powers[MASK] = 0;
    const probability = Math.max(...powers) / powers.reduce((a, b) => a + b);
    return [{ place, token: powers.indexOf(Math.max(...powers)), probability }];
  });
  return { likeliest, alpha };
}

test('alpha is the mean over all heads for the tokens before the step', () =>
  withModel(async (model) => {
    const steps = await unmask(model, MASKED_TOKENS, { steps: 2 });
    const T = MASKED_TOKENS.length;
    for (const [i, { alpha, sink }] of steps.entries()) {
      const fullAlpha = (await guesses(model, i ? steps[i - 1].tokens : MASKED_TOKENS)).alpha;
      const [L, H] = fullAlpha.shape;
      assert.deepEqual(alpha.shape, [T]);
      for (let k = 0; k < T; k++) {
        let sum = 0;
        for (let head = 0; head < L * H; head++) sum += fullAlpha.data[head * T + k];
        assert.ok(Math.abs(alpha.data[k] - sum / (L * H)) < 1e-6);
      }
      const largestAlpha = Math.max(...alpha.data);
      assert.deepEqual(sink, { place: alpha.data.indexOf(largestAlpha), alpha: largestAlpha });
    }
    // Every query sees every key, so a row's attention is shared among all of them.
    const total = steps[0].alpha.data.reduce((a, b) => a + b);
    assert.ok(Math.abs(total - 1) < 1e-5);
  }));

test('with more steps than masked positions, one position is filled per step', () =>
  withModel(async (model) => {
    const reportedSteps = [];
    const options = { steps: 100, onStep: (step, i) => (reportedSteps[i] = step) };
    const steps = await unmask(model, MASKED_TOKENS, options);
    assert.deepEqual(reportedSteps, steps);
    assert.deepEqual(await unmask(model, Int32Array.from(MASKED_TOKENS), { steps: 100 }), steps);
    assert.deepEqual(
      steps.map(({ filled }) => filled.length),
      Array(7).fill(1),
    );
  }));

test('a token that is not allowed is never filled in, and its probability goes to the others', () =>
  withModel(async (model) => {
    const [free] = await unmask(model, MASKED_TOKENS, { steps: 1 });
    const excludedIds = [...new Set(free.filled.map(({ token }) => token))];
    const [bound] = await unmask(model, MASKED_TOKENS, { steps: 1, never: excludedIds });
    for (const { token, probability } of bound.filled) {
      assert.ok(![MASK, ...excludedIds].includes(token));
      assert.ok(probability > 0 && probability <= 1);
    }
    const otherIds = Array.from({ length: 20 }, (_, id) => id).filter(
      (id) => id !== MASK && id !== 5,
    );
    const [step] = await unmask(model, MASKED_TOKENS, { steps: 1, never: otherIds });
    for (const { token, probability } of step.filled)
      assert.deepEqual([token, probability], [5, 1]);
  }));

test('an encoder with the given mask token has the predictions of transformers', () =>
  withEngine({}, async (engine) => {
    const bert = new URL('hf-bert/', golden);
    const model = await engine.open(files(bert));
    const known = readSafetensors(new URL('golden.safetensors', bert));
    const tokens = [...known.tokens.data];
    const [T, V] = known.logits.shape;
    const mask = tokens[5];
    const [step] = await unmask(model, tokens, { steps: 1, mask });
    const places = tokens.flatMap((id, place) => (id === mask ? [place] : []));
    assert.deepEqual(
      step.filled.map(({ place }) => place).sort((a, b) => a - b),
      places,
    );
    for (const { place, token } of step.filled) {
      const row = [...known.logits.data.subarray(place * V, (place + 1) * V)];
      row[mask] = -Infinity;
      assert.equal(token, row.indexOf(Math.max(...row)), `place ${place} of ${T}`);
    }
    const error = await failure(unmask(model, tokens, { steps: 1 }));
    assert.deepEqual([error.code, error.where], ['argument', 'model']);
    assert.match(error.text, /got bidirectional attention and no mask token$/);
    assert.equal((await failure(unmask(model, tokens, { steps: 1, mask: V }))).where, 'mask');
    assert.equal((await failure(measureUnmasking(model, [tokens]))).where, 'model');
    // [CLS] and [SEP] are never predicted, and so never masked.
    const edgeIds = [tokens[0], tokens.at(-1)];
    const innerIds = tokens.filter((id) => id !== mask && !edgeIds.includes(id));
    const text = [edgeIds[0], ...innerIds, edgeIds[1]];
    const result = await measureUnmasking(model, [text], { mask, never: edgeIds, masked: 1 });
    assert.equal(result.predicted, innerIds.length);
    assert.ok(result.baseline.loss.mean > 0);
    const emptyError = await failure(measureUnmasking(model, [edgeIds], { mask, never: edgeIds }));
    assert.equal(emptyError.where, 'sequences[0]');
  }));

test('an encoder without an output layer is rejected, since it predicts nothing', () =>
  withEngine({}, async (engine) => {
    const model = await engine.open(files(new URL('hf-bert-bare/', golden)));
    const error = await failure(unmask(model, [2, 7, 9, 3], { steps: 1, mask: 9 }));
    assert.deepEqual([error.code, error.where], ['unsupported', 'model']);
    assert.match(error.text, /a head that predicts tokens, got none/);
  }));

test('a signal stops unmasking between steps or inside one, and all runs are closed', () =>
  withEngine({ worker: true }, async (engine) => {
    const maskSettings = { mask: { kind: 'bidirectional' }, mask_token: MASK };
    const { config, weights } = randomModel({ L: 4, D: 64, F: 128, V: 64, context: 512 });
    const masked = JSON.stringify({ ...JSON.parse(config), sinkscope: maskSettings });
    const model = await engine.open({ config: masked, weights });
    const tokens = Array(256).fill(MASK);
    const job = new AbortController();
    const reason = new Error('enough');
    let count = 0;
    const onStep = () => (++count === 2 ? job.abort(reason) : undefined);
    const unmaskPromise = unmask(model, tokens, { steps: 64, signal: job.signal, onStep });
    await assert.rejects(unmaskPromise, reason);
    assert.equal(count, 2);
    const before = await engine.memory();
    for (let i = 0; i < 4; i++) {
      const insideController = new AbortController();
      setTimeout(() => insideController.abort(reason), 5);
      await assert.rejects(
        unmask(model, tokens, { steps: 64, signal: insideController.signal }),
        reason,
      );
    }
    assert.equal(await engine.memory(), before);
  }));

const known = JSON.parse(readFileSync(new URL('unmask/golden.json', golden), 'utf8'));

test('with known answers, the losses with a key hidden in each step equal the reference', () =>
  withModel(async (model) => {
    const { steps, never } = known;
    for (const course of known.courses)
      for (const [name, without] of [
        ['baseline', undefined],
        ['strongest', 'strongest'],
        ['random', 'random'],
      ]) {
        const { answers, seed } = course;
        const tokens = answers.map((id, place) => (course.hidden.includes(place) ? MASK : id));
        const options = { steps, never, answers, seed, ...(without ? { without } : {}) };
        const actualSteps = await unmask(model, tokens, options);
        const shownSteps = actualSteps.map(({ alpha: _, ...step }) => step);
        near(shownSteps, course[name], name);
      }
  }));

for (const workers of [1, 2])
  test(`the loss without the strongest key is that of the reference, with ${workers} workers`, () =>
    withEngine({ workers }, async (engine) => {
      const model = await engine.open(files(bidirectional));
      const causal = await engine.open(files(new URL(`${known.causal}/`, golden)));
      const { seed, steps, never, masked } = known;
      const progresses = [];
      const onProgress = ({ done, total }) => progresses.push([done, total]);
      const texts = known.courses.map(({ answers }) => answers);
      const options = { seed, steps, never, masked, onProgress };
      near(await measureUnmasking(model, texts, { ...options, causal }), known.study, 'study');
      assert.deepEqual(progresses.at(-1), [18, 18]);
      const singleResult = await measureUnmasking(model, texts, options);
      near(singleResult, { ...known.study, causal: null }, 'study without a causal model');
      assert.deepEqual(progresses.at(-1), [9, 9]);
    }));

test('the command line measures a model of the zoo, and prints its result', async () => {
  const path = (name) => fileURLToPath(new URL(name, root));
  const args = ['unmask', path('models/zoo/diffusion'), '--lines'];
  const text = ['--text-file', path('models/zoo/heldout.json'), '--tokens', '12'];
  const options = [...args, ...text, '--sequences', '2', '--steps', '3', '--masked', '0.25'];
  const result = JSON.parse((await runOk(...options, '--json')).stdout);
  assert.deepEqual(
    [result.model, result.prompts, result.predicted, result.steps],
    ['diffusion', 2, 6, 3],
  );
  const { stdout } = await runOk(...options);
  const { loss, accuracy } = result.strongest;
  assert.match(stdout, /^diffusion: 6 hidden places of 2 texts, uncovered in 3 steps;/);
  const line = `  without the strongest key +${loss.mean.toFixed(3)} +${loss.change.mean.toFixed(3)} \u00b1 .* ${(100 * accuracy.mean).toFixed(1)}%$`;
  assert.match(stdout, new RegExp(line, 'm'));

  const twin = path('models/zoo/softmax');
  const twinOutput = await runOk(...options, '--causal', twin);
  assert.ok(twinOutput.stdout.startsWith(stdout));
  const [name, ...rows] = twinOutput.stdout.slice(stdout.length).trimEnd().split('\n');
  assert.match(name, /^softmax: the next token at the same places/);
  assert.equal(rows.length, 4);
  const twinResult = JSON.parse((await runOk(...options, '--causal', twin, '--json')).stdout);
  assert.equal(twinResult.causal_model, 'softmax');
  const { loss: firstLoss } = twinResult.causal.baseline;
  assert.match(rows[0], new RegExp(`^  every key +${firstLoss.mean.toFixed(3)} +0.000 `));
  const otherModel = path('tests/golden/hf-llama-gqa');
  await assert.rejects(runOk(...options, '--causal', otherModel));
});

test("the command line takes the mask token from the encoder's tokenizer, and reports if there is none", async () => {
  const folder = mkdtempSync(join(tmpdir(), 'unmask-'));
  try {
    const model = join(folder, 'bert');
    cpSync(new URL('hf-bert', golden), model, { recursive: true });
    const letters = [...'abcdefghijklmnopqrstuvwxyz'];
    const tokens = ['[PAD]', '[UNK]', '[CLS]', '[SEP]', '[MASK]', ...letters];
    const words = [...tokens, ...letters.map((letter) => `##${letter}`)];
    const cli = (names) => {
      writeFileSync(join(model, 'vocab.txt'), names.join('\n'));
      const text = ['--text', 'the cat sat', '--tokens', '11', '--sequences', '1'];
      const args = ['unmask', model, ...text];
      return runOk(...args, '--masked', '1', '--json');
    };
    const result = JSON.parse((await cli(words)).stdout);
    // The text has nine letters between [CLS] and [SEP].
    assert.deepEqual([result.predicted, result.causal], [9, null]);
    const error = await cli(words.with(4, 'x1')).catch((failed) => failed);
    assert.match(error.stderr, /expected a mask token and attention in both directions/);
  } finally {
    rmSync(folder, { recursive: true });
  }
});
