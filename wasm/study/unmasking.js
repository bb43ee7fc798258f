/**
 * Measures how a masked-diffusion model's loss changes if each step of unmasking hides its
 * strongest key, and how a causal model's loss changes at the same positions without its own
 * strongest key.
 */
import { check, checkList, checkOptions } from '../abi/arguments.js';
import { expect, expectInteger } from '../abi/errors.js';
import { randomBits } from '../engine/random.js';
import { spread } from './spread.js';
import { drawSome, meanOf } from './tasks.js';
import { maskOf, predict, unmask, WITHOUT } from './unmask.js';

const CONDITIONS = [undefined, ...WITHOUT];

/** @type {typeof import('../sinkscope.js').measureUnmasking} */
export async function measureUnmasking(model, sequences, options = {}) {
  check(model, 'model', 'model');
  checkList(sequences, 'list', 'sequences');
  checkOptions(options, { never: 'list', edits: 'list', signal: 'signal', onProgress: 'call' });
  const { masked = 0.5, steps = 8, seed = 0, never = [], edits = [] } = options;
  const { signal, causal, onProgress = () => {} } = options;
  const mask = maskOf(model, options.mask);
  if (causal !== undefined) check(causal, 'model', 'causal');
  if (causal) checkCausal(causal, sequences);
  expect(masked > 0 && masked <= 1, 'masked', 'a share above 0, at most 1', masked);
  expectInteger(seed, 0, 2 ** 32 - 1, 'seed');
  const random = randomBits(seed);
  const excluded = new Set([mask, ...never]);
  const items = sequences.map((answers, i) => {
    checkList(answers, 'count', `sequences[${i}]`);
    expectInteger(answers.length, 2, model.architecture.context, `sequences[${i}].length`);
    const places = answers.flatMap((id, place) => (place > 0 && !excluded.has(id) ? [place] : []));
    expect(places.length > 0, `sequences[${i}]`, 'a token after the first to hide', 'none');
    const count = Math.max(1, Math.round(masked * places.length));
    const hidden = new Set(drawSome(places, count, random));
    return {
      answers,
      places: places.filter((place) => hidden.has(place)),
      tokens: answers.map((id, place) => (hidden.has(place) ? mask : id)),
      seed: random(),
    };
  });
  const total = (causal ? 2 : 1) * CONDITIONS.length * items.length;
  let done = 0;
  /**
   * Measures every condition of every prompt.
   * @param {typeof model} one
   * @param {(replica: Pick<import('../sinkscope.js').Model, 'run' | 'architecture' | 'describe'>, item: typeof items[number], without: typeof CONDITIONS[number]) => Promise<readonly Pick<import('../sinkscope.js').UnmaskStep, 'filled' | 'sink'>[]>} steps
   */
  const measured = async (one, steps) => {
    const { architecture, describe } = one;
    /** Scores by prompt, then by condition. @type {ReturnType<typeof scoresOf>[][]} */
    const all = [];
    const look = async (
      /** @type {import('../sinkscope.js').Replica} */ replica,
      /** @type {typeof items[number]} */ item,
    ) => {
      const replicaModel = { architecture, describe, run: replica.run.bind(replica) };
      const scores = [];
      for (const without of CONDITIONS) {
        scores.push(scoresOf(await steps(replicaModel, item, without)));
        onProgress({ stage: 'measure', done: ++done, total });
      }
      return scores;
    };
    for await (const scores of spread(one, items, look, { signal })) all.push(scores);
    return all;
  };
  const shared = { never, edits, signal };
  const maskedScores = await measured(model, (one, { answers, tokens, seed }, without) =>
    unmask(one, tokens, { ...shared, steps, mask, answers, seed, ...(without ? { without } : {}) }),
  );
  const causalScores =
    causal &&
    (await measured(causal, async (one, { answers, places, seed }, without) => [
      await predict(one, answers, places, { ...shared, seed, without }),
    ]));
  return {
    prompts: items.length,
    predicted: items.reduce((sum, { places }) => sum + places.length, 0),
    steps,
    ...conditionsOf(maskedScores),
    moves: meanOf(maskedScores.map(([one]) => one.moves)),
    causal: causalScores ? conditionsOf(causalScores) : null,
  };
}

/** @param {ReturnType<typeof scoresOf>[][]} all by prompt, then by condition */
function conditionsOf(all) {
  const [baseline, strongest, random] = CONDITIONS.map((_, at) => {
    const scoreOf = (/** @type {'loss' | 'accuracy'} */ quantity) => ({
      ...meanOf(all.map((one) => one[at][quantity])),
      change: meanOf(all.map((one) => one[at][quantity] - one[0][quantity])),
    });
    return { loss: scoreOf('loss'), accuracy: scoreOf('accuracy') };
  });
  return { baseline, strongest, random, alpha: meanOf(all.map(([one]) => one.alpha)) };
}

/**
 * @param {Pick<import('../sinkscope.js').Model, 'architecture'>} causal
 * @param {readonly (readonly number[])[]} sequences
 */
function checkCausal({ architecture: { mask, V, context } }, sequences) {
  const isCausal = mask.kind === 'causal' || mask.kind === 'window';
  expect(isCausal, 'causal', 'a model whose queries see no later key', `${mask.kind} attention`);
  sequences.forEach((ids, i) => {
    expectInteger(ids?.length, 2, context, `sequences[${i}].length`);
    Array.from(ids, (id, t) => expectInteger(id, 0, V - 1, `sequences[${i}][${t}]`));
  });
}

/** @param {readonly Pick<import('../sinkscope.js').UnmaskStep, 'filled' | 'sink'>[]} steps */
function scoresOf(steps) {
  const filled = steps.flatMap((step) => step.filled);
  const changes = steps.filter(({ sink }, i) => i > 0 && sink.place !== steps[i - 1].sink.place);
  return {
    loss: meanOf(filled.map(({ loss = NaN }) => loss)).mean,
    accuracy: meanOf(filled.map(({ token, guess }) => Number(token === guess))).mean,
    alpha: meanOf(steps.map(({ sink }) => sink.alpha)).mean,
    moves: steps.length > 1 ? changes.length / (steps.length - 1) : 0,
  };
}
