/** What a model of masked diffusion loses when each step of unmasking does without its strongest key. */
import { check, checkList, checkOptions } from '../abi/arguments.js';
import { expect, expectInteger } from '../abi/errors.js';
import { randomBits } from '../engine/random.js';
import { spread } from './spread.js';
import { drawSome, meanOf } from './tasks.js';
import { maskOf, unmask, WITHOUT } from './unmask.js';

const CONDITIONS = [undefined, ...WITHOUT];

/** @type {typeof import('../sinkscope.js').measureUnmasking} */
export async function measureUnmasking(model, sequences, options = {}) {
  check(model, 'model', 'model');
  checkList(sequences, 'list', 'sequences');
  checkOptions(options, { never: 'list', edits: 'list', signal: 'signal', onProgress: 'call' });
  const { masked = 0.5, steps = 8, seed = 0, never = [], edits = [] } = options;
  const { signal, onProgress = () => {} } = options;
  const mask = maskOf(model);
  expect(masked > 0 && masked <= 1, 'masked', 'a share above 0, at most 1', masked);
  expectInteger(seed, 0, 2 ** 32 - 1, 'seed');
  const random = randomBits(seed);
  const items = sequences.map((answers, i) => {
    checkList(answers, 'count', `sequences[${i}]`);
    expectInteger(answers.length, 2, model.architecture.context, `sequences[${i}].length`);
    const places = Array.from({ length: answers.length - 1 }, (_, place) => place + 1);
    const count = Math.max(1, Math.round(masked * places.length));
    const hidden = new Set(drawSome(places, count, random));
    return {
      answers,
      tokens: answers.map((id, place) => (hidden.has(place) ? mask : id)),
      seed: random(),
    };
  });
  const total = CONDITIONS.length * items.length;
  let done = 0;
  const look = async (
    /** @type {import('../sinkscope.js').Replica} */ replica,
    /** @type {typeof items[number]} */ { answers, tokens, seed },
  ) => {
    const { architecture, describe } = model;
    const own = { architecture, describe, run: replica.run.bind(replica) };
    const found = [];
    for (const without of CONDITIONS) {
      const given = { steps, never, edits, answers, seed, signal, ...(without ? { without } : {}) };
      found.push(scoresOf(await unmask(own, tokens, given)));
      onProgress({ stage: 'measure', done: ++done, total });
    }
    return found;
  };
  /** @type {ReturnType<typeof scoresOf>[][]} by the prompt, then by the condition */
  const all = [];
  for await (const found of spread(model, items, look, { signal })) all.push(found);
  const conditionOf = (/** @type {unknown} */ _, /** @type {number} */ at) => {
    const of = (/** @type {'loss' | 'accuracy'} */ what) => ({
      ...meanOf(all.map((one) => one[at][what])),
      change: meanOf(all.map((one) => one[at][what] - one[0][what])),
    });
    return { loss: of('loss'), accuracy: of('accuracy') };
  };
  const [baseline, strongest, drawn] = CONDITIONS.map(conditionOf);
  return {
    prompts: items.length,
    predicted: items.reduce(
      (sum, { tokens }) => sum + tokens.filter((id) => id === mask).length,
      0,
    ),
    steps,
    baseline,
    strongest,
    random: drawn,
    alpha: meanOf(all.map(([one]) => one.alpha)),
    moves: meanOf(all.map(([one]) => one.moves)),
  };
}

/** @param {readonly import('../sinkscope.js').UnmaskStep[]} steps */
function scoresOf(steps) {
  const filled = steps.flatMap((step) => step.filled);
  const moved = steps.filter(({ sink }, i) => i > 0 && sink.place !== steps[i - 1].sink.place);
  return {
    loss: meanOf(filled.map(({ loss = NaN }) => loss)).mean,
    accuracy: meanOf(filled.map(({ token, guess }) => Number(token === guess))).mean,
    alpha: meanOf(steps.map(({ sink }) => sink.alpha)).mean,
    moves: steps.length > 1 ? moved.length / (steps.length - 1) : 0,
  };
}
