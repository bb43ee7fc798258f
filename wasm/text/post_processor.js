/** The post-processor of a tokenizer.json, which adds tokens before and after a text. */
import { eachOf, refuse, rowOf } from './vocabulary.js';

/** @typedef {import('./shapes.js').PostProcessor} PostProcessor */
/** @typedef {{ before: number[], after: number[] }} Template */
/** @typedef {(token: string) => number | undefined} Lookup */

/**
 * @param {PostProcessor | null | undefined} stage
 * @param {Lookup} idOf
 * @param {string} [where]
 * @returns {Template}
 */
export function readTemplate(stage, idOf, where = 'post_processor') {
  if (stage === null || stage === undefined) return { before: [], after: [] };
  return rowOf(POST_PROCESSORS, 'post_processor', stage)(stage, idOf, where);
}

/** @type {Record<string, (stage: PostProcessor, idOf: Lookup, where: string) => Template>} */
const POST_PROCESSORS = {
  /** The library would trim spaces from the offsets; our spans keep them. */
  ByteLevel: () => ({ before: [], after: [] }),
  BertProcessing: ends,
  RobertaProcessing: ends,
  Sequence({ processors }, idOf, where) {
    const stages = eachOf(processors, `${where}.processors`, (stage, at) =>
      readTemplate(stage, idOf, at),
    );
    return stages.reduce(
      (inner, { before, after }) => ({
        before: [...before, ...inner.before],
        after: [...inner.after, ...after],
      }),
      { before: [], after: [] },
    );
  },
  TemplateProcessing({ single, special_tokens }, idOf, where) {
    if (!Array.isArray(single)) {
      return refuse(`${where}.single`, `expected an array, got ${JSON.stringify(single)}`);
    }
    const places = single.flatMap((item, i) => (item?.Sequence ? [i] : []));
    if (places.length !== 1) {
      refuse(`${where}.single`, `expected the text once, got it ${places.length} times`);
    }
    const idsOf = (/** @type {unknown} */ item, /** @type {number} */ i) => {
      const name = /** @type {{ SpecialToken?: { id?: unknown } } | null} */ (item)?.SpecialToken
        ?.id;
      const vocabularyIds = typeof name === 'string' ? [idOf(name)] : [];
      const ids = special_tokens?.[String(name)]?.ids ?? vocabularyIds;
      const isId = (/** @type {unknown} */ id) => Number.isInteger(id) && Number(id) >= 0;
      if (Array.isArray(ids) && ids.length > 0 && ids.every(isId)) return ids;
      return refuse(`${where}.single ${i}`, `expected a token, got ${JSON.stringify(item)}`);
    };
    return {
      before: single.slice(0, places[0]).flatMap(idsOf),
      after: single.slice(places[0] + 1).flatMap((item, i) => idsOf(item, i + places[0] + 1)),
    };
  },
};

/**
 * @param {PostProcessor} stage
 * @param {Lookup} _
 * @param {string} where
 * @returns {Template}
 */
function ends({ cls, sep }, _, where) {
  const idOf = (/** @type {unknown} */ pair, /** @type {string} */ key) => {
    const id = /** @type {unknown[] | undefined} */ (pair)?.[1];
    if (Number.isInteger(id) && Number(id) >= 0) return Number(id);
    return refuse(`${where}.${key}`, `expected a token and its id, got ${JSON.stringify(pair)}`);
  };
  return { before: [idOf(cls, 'cls')], after: [idOf(sep, 'sep')] };
}
