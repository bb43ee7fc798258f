/** Studies whose code is fetched when they are called: callers that only run models need none of it. */
import type * as suffix from './suffix.ts';
import type * as tasks from './tasks.ts';
import type * as unmasking from './unmasking.ts';

/**
 * Searches a suffix for a prompt greedily and without gradients, and compares it with random
 * suffixes: as many as the search tried, because the best of many beats one. The same seed
 * gives the same suffix for any number of workers. The method follows GCG (Zou et al. 2023) with
 * uniform instead of gradient-based candidates.
 * @throws SinkscopeError 'argument' for an unknown goal, ids outside the vocabulary, or texts too
 * long for the context
 * @example
 * const result = await searchSuffix(model, { prompt, continuation }, {
 *   goal: 'away', length: 5, steps: 20, width: 64, never: tokenizer.special,
 * });
 */
export const searchSuffix: typeof suffix.searchSuffix = async (...args) =>
  (await import('./suffix.ts')).searchSuffix(...args);

/**
 * Measures how a masked model's loss changes without its sink. Positions of each text are masked
 * and unmasked step by step, the most confident first and with the text's tokens: with every key,
 * without the strongest key of each step, and without a random one.
 * @throws SinkscopeError 'argument' if the model has no mask token
 * @example
 * const { strongest, random } = await measureUnmasking(model, sequences);
 * strongest.loss.change; // { mean: 0.02, error: 0.01 }
 */
export const measureUnmasking: typeof unmasking.measureUnmasking = async (...args) =>
  (await import('./unmasking.ts')).measureUnmasking(...args);

/** Predicts the second half of each sequence; chance is the share of its most frequent token. */
export const textTask: typeof tasks.textTask = async (...args) =>
  (await import('./tasks.ts')).textTask(...args);

/**
 * Makes the task to predict the second copy of `length` different random tokens (default 25), from
 * the second token of the copy on;
 * chance is 1/length. The same seed gives the same prompts.
 * @param V size of the vocabulary
 * @throws SinkscopeError 'argument' for a copy longer than the vocabulary allows
 */
export const copyTask: typeof tasks.copyTask = async (...args) =>
  (await import('./tasks.ts')).copyTask(...args);

/**
 * Makes the task to recall a name over a distance: "... My friend's name is Mary. ... My friend's name is", with
 * `between` sentences (default 2) between the two. The answer is the first token of the name, the choices are
 * those of up to 8 names with different first tokens, and chance is 1 divided by their number.
 * @returns undefined if fewer than two names differ in their first token, as with a token per byte
 */
export const recallTask: typeof tasks.recallTask = async (...args) =>
  (await import('./tasks.ts')).recallTask(...args);

/**
 * Measures a model's accuracy and loss on a task with every key, with the first or another key
 * evicted after the prompt, and with the first key hidden from the start. The same seed draws the
 * same keys.
 * @throws SinkscopeError 'argument' for a masked model, and for prompts that exceed its limits
 * @example
 * const result = await measureTask(model, await textTask(sequences));
 * result.first.accuracy.change; // { mean: -0.1, error: 0.02 }: without the first key 10 points fewer
 */
export const measureTask: typeof tasks.measureTask = async (...args) =>
  (await import('./tasks.ts')).measureTask(...args);
