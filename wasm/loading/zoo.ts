/** Models that have a name without an owner: those of the npm package `sinkscope-page`. */

/** The twins, and one model of each other way to do without a sink on the first token. */
export const ZOO = ['softmax', 'sigmoid', 'softmax1', 'sink-logit', 'key-bias', 'gated'];

/** The version of both packages, which are released together. A version never changes, so a name always means the same weights. */
const VERSION = '1.0.0';

/** A site that serves the files of npm's packages. */
const PLACE = `https://cdn.jsdelivr.net/npm/sinkscope-page@${VERSION}/zoo/`;

/**
 * The folder of a model; undefined where no model has that name.
 * @param place of a copy of the models
 */
export function folderInZoo(name: string, place: string | URL = PLACE): URL | undefined {
  return ZOO.includes(name) ? new URL(`${name}/`, place) : undefined;
}
