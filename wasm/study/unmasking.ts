/**
 * Measures how the loss of a masked-diffusion model changes without the strongest key of each step,
 * and that of a causal model at the same positions without its own.
 */
import { check, checkList, checkOptions } from '../abi/arguments.ts';
import { expect, expectInteger } from '../abi/errors.ts';
import { randomBits } from '../engine/random.ts';
import { spread } from './spread.ts';
import { drawItems, meanWithError } from './tasks.ts';
import { maskOf, predict, unmask, HIDDEN_KEYS } from './unmask.ts';
import type { Model, Replica } from '../engine/types.ts';
import type { StudyModel, UnmaskStudyOptions, UnmaskResult, UnmaskStep } from './types.ts';

const CONDITIONS = [undefined, ...HIDDEN_KEYS];

export async function measureUnmasking(
  model: StudyModel,
  sequences: readonly (readonly number[])[],
  options: UnmaskStudyOptions = {},
): Promise<UnmaskResult> {
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
  const excludedIds = new Set([mask, ...never]);
  const items = sequences.map((answers, i) => {
    checkList(answers, 'count', `sequences[${i}]`);
    expectInteger(answers.length, 2, model.architecture.context, `sequences[${i}].length`);
    const places = answers.flatMap((id, place) =>
      place > 0 && !excludedIds.has(id) ? [place] : [],
    );
    expect(places.length > 0, `sequences[${i}]`, 'a token after the first to hide', 'none');
    const count = Math.max(1, Math.round(masked * places.length));
    const hiddenPlaces = new Set(drawItems(places, count, random));
    return {
      answers,
      places: places.filter((place) => hiddenPlaces.has(place)),
      tokens: answers.map((id, place) => (hiddenPlaces.has(place) ? mask : id)),
      seed: random(),
    };
  });
  const total = (causal ? 2 : 1) * CONDITIONS.length * items.length;
  let runsDone = 0;
  const scoreConditions = async (
    studiedModel: StudyModel,
    runSteps: (
      replica: Replica,
      item: (typeof items)[number],
      without: (typeof CONDITIONS)[number],
    ) => Promise<readonly Pick<UnmaskStep, 'filled' | 'sink'>[]>,
  ) => {
    const scoresByPrompt: ReturnType<typeof scoresOf>[][] = [];
    const scoreItem = async (replica: Replica, item: (typeof items)[number]) => {
      const scores = [];
      for (const without of CONDITIONS) {
        scores.push(scoresOf(await runSteps(replica, item, without)));
        onProgress({ stage: 'measure', done: ++runsDone, total });
      }
      return scores;
    };
    for await (const scores of spread(studiedModel, items, scoreItem, { signal }))
      scoresByPrompt.push(scores);
    return scoresByPrompt;
  };
  const sharedOptions = { never, edits, signal };
  const maskedScores = await scoreConditions(model, (replica, { answers, tokens, seed }, without) =>
    unmask(replica, tokens, { ...sharedOptions, steps, mask, answers, seed, without }),
  );
  const causalScores =
    causal &&
    (await scoreConditions(causal, async (replica, { answers, places, seed }, without) => [
      await predict(replica, answers, places, { ...sharedOptions, seed, without }),
    ]));
  return {
    prompts: items.length,
    predicted: items.reduce((sum, { places }) => sum + places.length, 0),
    steps,
    ...conditionsOf(maskedScores),
    moves: meanWithError(maskedScores.map(([baseline]) => baseline.moves)),
    causal: causalScores ? conditionsOf(causalScores) : null,
  };
}

function conditionsOf(scoresByPrompt: ReturnType<typeof scoresOf>[][]) {
  const [baseline, strongest, random] = CONDITIONS.map((_, conditionIndex) => {
    const scoreOf = (quantity: 'loss' | 'accuracy') => ({
      ...meanWithError(scoresByPrompt.map((scores) => scores[conditionIndex][quantity])),
      change: meanWithError(
        scoresByPrompt.map((scores) => scores[conditionIndex][quantity] - scores[0][quantity]),
      ),
    });
    return { loss: scoreOf('loss'), accuracy: scoreOf('accuracy') };
  });
  return {
    baseline,
    strongest,
    random,
    alpha: meanWithError(scoresByPrompt.map(([baseline]) => baseline.alpha)),
  };
}

function checkCausal(
  { architecture: { mask, V, context } }: Pick<Model, 'architecture'>,
  sequences: readonly (readonly number[])[],
) {
  const isCausal = mask.kind === 'causal' || mask.kind === 'window';
  expect(isCausal, 'causal', 'a model whose queries see no later key', `${mask.kind} attention`);
  sequences.forEach((ids, i) => {
    expectInteger(ids?.length, 2, context, `sequences[${i}].length`);
    Array.from(ids, (id, t) => expectInteger(id, 0, V - 1, `sequences[${i}][${t}]`));
  });
}

function scoresOf(steps: readonly Pick<UnmaskStep, 'filled' | 'sink'>[]) {
  const filled = steps.flatMap((step) => step.filled);
  const changes = steps.filter(({ sink }, i) => i > 0 && sink.place !== steps[i - 1].sink.place);
  return {
    loss: meanWithError(filled.map(({ loss = NaN }) => loss)).mean,
    accuracy: meanWithError(filled.map(({ token, guess }) => Number(token === guess))).mean,
    alpha: meanWithError(steps.map(({ sink }) => sink.alpha)).mean,
    moves: steps.length > 1 ? changes.length / (steps.length - 1) : 0,
  };
}
