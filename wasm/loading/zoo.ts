/** Finds models that have a name without an owner: those of the npm package `sinkscope-page`. */

/**
 * The names of the models: softmax, the same model with sigmoid attention, and one model for each
 * of the other methods that avoid a sink on the first token.
 */
export const ZOO_NAMES = ['softmax', 'sigmoid', 'softmax1', 'sink-logit', 'key-bias', 'gated'];

/**
 * The version of the packages `sinkscope` and `sinkscope-page`, which are released together. A
 * published version never changes, so a name always means the same weights.
 */
const VERSION = '1.0.0';

/** The address of the models: a site that serves the files of npm packages. */
const ZOO_ADDRESS = `https://cdn.jsdelivr.net/npm/sinkscope-page@${VERSION}/zoo/`;

/** Returns a model's folder in the zoo, or in a copy at `base`; undefined for another name. */
export const folderInZoo = (name: string, base: string | URL = ZOO_ADDRESS): URL | undefined =>
  ZOO_NAMES.includes(name) ? new URL(`${name}/`, base) : undefined;
