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

export * from './abi/abi.js';
export * from './engine/engine.js';
export * from './text/text.js';
export * from './loading/loading.js';
export * from './study/study.js';
export * from './lab/lab.js';
export * from './recording/recordings.js';
export * from './load/load.js';
