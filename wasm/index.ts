/**
 * Sinkscope in JavaScript: open a model, run tokens through it, read what the run recorded.
 *
 *     file bytes -> model -> run (+ edits) -> trace -> metrics -> report -> frame -> views
 *
 * Letters in shapes: L layers, H query heads, G key/value heads, T tokens, D model width,
 * K head width, F feed-forward width, V vocabulary, E experts. A capital is a size, a small letter an
 * index.
 *
 * @example
 * const engine = await createEngine();
 * const model = await engine.open({ config, weights });
 * const run = await model.run([0, 17, 392], { fields: ['att', 'hidden'] });
 * const alpha = await run.metric('alpha');            // shape [L, H, T]
 * const map = await run.field('att', { layer: 2, head: 1 }); // shape [T, T]
 * await engine.close();
 */
import type * as suffix from './study/suffix.ts';
import type * as tasks from './study/tasks.ts';
import type * as unmasking from './study/unmasking.ts';

export type * from './abi/types.ts';
export type * from './engine/types.ts';
export type * from './lab/types.ts';
export type * from './load/types.ts';
export type * from './loading/types.ts';
export type * from './recording/types.ts';
export type * from './study/types.ts';
export type * from './text/types.ts';
export type { DiskFile } from './host/types.ts';
export type { LoadedModel } from './load/loaded_model.ts';

export { cacheBytes, cacheClear, cacheKind, cacheList } from './loading/cache.ts';
export { createEngine } from './load/engine.ts';
export { editLabel, readEdit } from './engine/edits.ts';
export { filesOfDrop, filesOfList, planFiles } from './loading/disk.ts';
export { openDownload } from './loading/open_download.ts';
export { SinkscopeError } from './abi/errors.ts';
export { guardTokenizer } from './text/guard.ts';
export { tokenizerOfGguf } from './text/gguf_tokenizer.ts';
export { findPlan } from './loading/find.ts';
export { load } from './load/load.ts';
export { resolveHub } from './loading/hub.ts';
export { csvField, csvOf } from './study/csv.ts';
export { cutText, cutTokens, splitText } from './study/cut.ts';
export { fieldsFor, measure, sweep } from './study/measure.ts';
export { headEffects } from './study/effects.ts';
export { groupsOf } from './study/labels.ts';
export { judge, labelHead, leastTokens, uniformAlphas } from './study/judge.ts';
export { modelFiles, planText } from './loading/plan.ts';
export { tokenNotes } from './text/notes.ts';
export { planTokenizer } from './text/plan_tokenizer.ts';
export { openTimeline } from './loading/timeline.ts';
export { openTokenizer } from './text/tokenizer.ts';
export { tokenizerOfVocabulary } from './text/vocabulary.ts';
export { LAB_MODEL, labConfig } from './lab/model.ts';
export { checkLabRecipe, labFolder, labTokenizer } from './lab/folder.ts';
export { compareRecordings, recordStudy } from './recording/study.ts';
export { recordMaps } from './recording/write.ts';
export { sha256 } from './loading/hash.ts';
export { heldLoss } from './lab/held.ts';
export { labOnward } from './lab/onward.ts';
export { spread } from './study/spread.ts';
export { unmask } from './study/unmask.ts';

// Lazy imports: callers that only run models need none of these modules.

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
  (await import('./study/suffix.ts')).searchSuffix(...args);

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
  (await import('./study/unmasking.ts')).measureUnmasking(...args);

/**
 * Makes the task to predict the second half of each sequence; chance is the share of the most
 * frequent token there.
 */
export const textTask: typeof tasks.textTask = async (...args) =>
  (await import('./study/tasks.ts')).textTask(...args);

/**
 * Makes the task to predict the second copy of `length` different random tokens (default 25), from
 * the second token of the copy on;
 * chance is 1/length. The same seed gives the same prompts.
 * @param V size of the vocabulary
 * @throws SinkscopeError 'argument' for a copy longer than the vocabulary allows
 */
export const copyTask: typeof tasks.copyTask = async (...args) =>
  (await import('./study/tasks.ts')).copyTask(...args);

/**
 * Makes the task to recall a name over a distance: "... My friend's name is Mary. ... My friend's name is", with
 * `between` sentences (default 2) between the two. The answer is the first token of the name, the choices are
 * those of up to 8 names with different first tokens, and chance is 1 divided by their number.
 * @returns undefined if fewer than two names differ in their first token, as with a token per byte
 */
export const recallTask: typeof tasks.recallTask = async (...args) =>
  (await import('./study/tasks.ts')).recallTask(...args);

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
  (await import('./study/tasks.ts')).measureTask(...args);
