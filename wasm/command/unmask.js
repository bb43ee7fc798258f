/** The command line's unmasking: what a model of masked diffusion loses without its sink. */
import { measureUnmasking } from '../index.js';
import { percent } from './tasks.js';

/**
 * @param {import('./command.js').OpenedModel} opened
 * @param {{ masked: number, steps: number, seed: number }} options
 */
export async function unmaskOpened({ id, model, tokenizer, sequences, edits }, options) {
  const never = tokenizer.special;
  return {
    model: id,
    edits,
    ...options,
    ...(await measureUnmasking(model, sequences, { never, edits, ...options })),
  };
}

/** @param {Awaited<ReturnType<typeof unmaskOpened>>} found */
export function unmaskText({
  model,
  prompts,
  predicted,
  steps,
  baseline,
  strongest,
  random,
  alpha,
  moves,
}) {
  const plusMinus = (/** @type {number | null} */ error) =>
    error === null ? '' : ` \u00b1 ${error.toFixed(3)}`;
  const row = (
    /** @type {string} */ name,
    /** @type {import('../sinkscope.js').UnmaskScores} */ { loss, accuracy },
  ) =>
    `  ${name.padEnd(26)}${loss.mean.toFixed(3).padEnd(8)}` +
    `${`${loss.change.mean.toFixed(3)}${plusMinus(loss.change.error)}`.padEnd(18)}${percent(accuracy.mean)}`;
  return `${[
    `${model}: ${predicted} hidden places of ${prompts} texts, uncovered in ${steps} steps; \u00b1 standard error over texts`,
    `  ${''.padEnd(26)}${'loss'.padEnd(8)}${'change, nats'.padEnd(18)}accuracy`,
    row('every key', baseline),
    row('without the strongest key', strongest),
    row('without a random key', random),
    `the strongest key receives ${percent(alpha.mean)} of all attention, and is another one in ${percent(moves.mean)} of the steps`,
  ].join('\n')}\n`;
}
