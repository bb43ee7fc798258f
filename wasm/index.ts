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

export { createEngine } from './load/engine.ts';
export { filesOfDrop, planFiles } from './loading/disk.ts';
export { SinkscopeError } from './abi/errors.ts';
export { guardTokenizer } from './text/guard.ts';
export { findPlan } from './loading/find.ts';
export { load } from './load/load.ts';
export { resolveHub } from './loading/hub.ts';
export { measure } from './study/measure.ts';
export { judge } from './study/judge.ts';
export { modelFiles } from './loading/plan.ts';
export { planTokenizer } from './text/plan_tokenizer.ts';
export { openTimeline } from './loading/timeline.ts';
export { openTokenizer } from './text/tokenizer.ts';
export { labConfig } from './lab/model.ts';
export { checkLabRecipe, labFolder, labTokenizer } from './lab/folder.ts';
export { compareRecordings, recordStudy } from './recording/study.ts';
export { recordMaps } from './recording/write.ts';
export { sha256 } from './loading/hash.ts';
export { labOnward } from './lab/onward.ts';
export { spread } from './study/spread.ts';
export { unmask } from './study/unmask.ts';
