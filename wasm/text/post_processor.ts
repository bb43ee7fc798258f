/** Reads the post-processor of a tokenizer.json, which adds tokens before and after a text. */
import { eachOf, refuse, rowOf } from './vocabulary.ts';
import type { PostProcessor } from './shapes.ts';

type Template = { before: number[]; after: number[] };
type IdOf = (token: string) => number | undefined;

export function readTemplate(
  stage: PostProcessor | null | undefined,
  idOf: IdOf,
  where: string = 'post_processor',
): Template {
  if (stage === null || stage === undefined) return { before: [], after: [] };
  return rowOf(POST_PROCESSORS, 'post_processor', stage)(stage, idOf, where);
}

const POST_PROCESSORS: Record<
  string,
  (stage: PostProcessor, idOf: IdOf, where: string) => Template
> = {
  /**
   * Adds no tokens. The tokenizers library would trim spaces from the offsets here; spans of Token
   * keep them.
   */
  ByteLevel: () => ({ before: [], after: [] }),
  BertProcessing: readEnds,
  RobertaProcessing: readEnds,
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
    const idsOf = (item: unknown, i: number) => {
      const name = (item as { SpecialToken?: { id?: unknown } } | null)?.SpecialToken?.id;
      const vocabularyIds = typeof name === 'string' ? [idOf(name)] : [];
      const ids = special_tokens?.[String(name)]?.ids ?? vocabularyIds;
      const isId = (id: unknown) => Number.isInteger(id) && Number(id) >= 0;
      if (Array.isArray(ids) && ids.length > 0 && ids.every(isId)) return ids;
      return refuse(`${where}.single ${i}`, `expected a token, got ${JSON.stringify(item)}`);
    };
    return {
      before: single.slice(0, places[0]).flatMap(idsOf),
      after: single.slice(places[0] + 1).flatMap((item, i) => idsOf(item, i + places[0] + 1)),
    };
  },
};

function readEnds({ cls, sep }: PostProcessor, _: IdOf, where: string): Template {
  const idOf = (pair: unknown, key: string) => {
    const id = (pair as unknown[] | undefined)?.[1];
    if (Number.isInteger(id) && Number(id) >= 0) return Number(id);
    return refuse(`${where}.${key}`, `expected a token and its id, got ${JSON.stringify(pair)}`);
  };
  return { before: [idOf(cls, 'cls')], after: [idOf(sep, 'sep')] };
}
