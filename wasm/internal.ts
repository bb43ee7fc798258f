/**
 * What the page and the command line use beside the exports of index.ts: `sinkscope/internal`. These names are
 * not promised and may change in every version.
 * This module has no code of its own, so that a bundle gets only what its callers use.
 */
export { cacheBytes, cacheClear, cacheList } from './loading/cache.ts';
export { editLabel, readEdit } from './engine/edit_text.ts';
export { filesOfList } from './loading/disk.ts';
export { tokenizerOfGguf } from './text/gguf_tokenizer.ts';
export { csvField, csvOf } from './study/csv.ts';
export { cutText, cutTokens, splitText } from './study/cut.ts';
export { fieldsFor, sweep } from './study/measure.ts';
export { headEffects } from './study/effects.ts';
export { labelHead, leastTokens, uniformAlphas } from './study/judge.ts';
export { markOf, openSeries } from './recording/series.ts';
export type { Series } from './recording/series.ts';
export { openPlan } from './load/open_plan.ts';
export { planText } from './loading/plan.ts';
export { tokenNotes } from './text/notes.ts';
export { tokenizerOfVocabulary } from './text/vocabulary.ts';
export { LAB_MODEL } from './lab/model.ts';
export { heldLoss } from './lab/held.ts';
export {
  copyTask,
  measureTask,
  measureUnmasking,
  recallTask,
  searchSuffix,
  textTask,
} from './study/lazy.ts';
