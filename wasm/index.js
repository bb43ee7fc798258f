export { cacheBytes, cacheClear, cacheKind, cacheList } from './loading/cache.js';
export { createEngine } from './engine/client.js';
export { editLabel, readEdit } from './engine/edits.js';
export { filesOfDrop, filesOfList, planFiles } from './loading/disk.js';
export { openDownload } from './loading/open_download.js';
export { SinkscopeError } from './abi/errors.js';
export { guardTokenizer } from './text/guard.js';
export { tokenizerOfGguf } from './text/gguf_tokenizer.js';
export { findPlan } from './loading/find.js';
export { load } from './load/load.js';
export { resolveHub } from './loading/hub.js';
export { cutText, fieldsFor, measure, sweep } from './study/measure.js';
export { headEffects } from './study/effects.js';
export { groupsOf } from './study/labels.js';
export { judge, labelHead, leastTokens } from './study/judge.js';
export { modelFiles, planText } from './loading/plan.js';
export { planTokenizer } from './text/plan_tokenizer.js';
export { openTimeline } from './loading/timeline.js';
export { openTokenizer } from './text/tokenizer.js';
export { tokenizerOfVocabulary } from './text/vocabulary.js';
export { LAB_MODEL, labConfig } from './lab/model.js';
export { checkLabRecipe, labFolder, labTokenizer } from './lab/folder.js';
export { compareRecordings, recordStudy } from './recording/study.js';
export { recordMaps } from './recording/write.js';
export { sha256 } from './loading/hash.js';
export { heldLoss } from './lab/held.js';
export { labOnward } from './lab/onward.js';
export { spread } from './study/spread.js';
export { unmask } from './study/unmask.js';

/** @type {typeof import('./sinkscope.js').searchSuffix} */
export async function searchSuffix(model, pair, options) {
  const suffix = await import('./study/suffix.js');
  return suffix.searchSuffix(model, pair, options);
}

/** @type {typeof import('./sinkscope.js').measureUnmasking} */
export async function measureUnmasking(model, sequences, options) {
  const unmasking = await import('./study/unmasking.js');
  return unmasking.measureUnmasking(model, sequences, options);
}

/** @type {typeof import('./sinkscope.js').textTask} */
export async function textTask(sequences) {
  const tasks = await import('./study/tasks.js');
  return tasks.textTask(sequences);
}

/** @type {typeof import('./sinkscope.js').copyTask} */
export async function copyTask(V, options) {
  const tasks = await import('./study/tasks.js');
  return tasks.copyTask(V, options);
}

/** @type {typeof import('./sinkscope.js').recallTask} */
export async function recallTask(tokenizer, options) {
  const tasks = await import('./study/tasks.js');
  return tasks.recallTask(tokenizer, options);
}

/** @type {typeof import('./sinkscope.js').measureTask} */
export async function measureTask(model, task, options) {
  const tasks = await import('./study/tasks.js');
  return tasks.measureTask(model, task, options);
}
