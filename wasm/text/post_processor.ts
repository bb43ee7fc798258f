/** Reads the post-processor of a tokenizer.json, which adds tokens before and after a text. */
import { createStages, refuse, findRow } from './vocabulary.ts';
import type { PostProcessor } from './shapes.ts';

type Template = { prefix: number[]; suffix: number[] };
type IdOf = (token: string) => number | undefined;

export function readTemplate(
  stage: PostProcessor | null | undefined,
  idOf: IdOf,
  where: string = 'post_processor',
): Template {
  if (stage === null || stage === undefined) return { prefix: [], suffix: [] };
  return findRow(POST_PROCESSORS, 'post_processor', stage)(stage, idOf, where);
}

const POST_PROCESSORS: Record<
  string,
  (stage: PostProcessor, idOf: IdOf, where: string) => Template
> = {
  /** Adds no tokens. The tokenizers library trims spaces from offsets; spans of Token keep them. */
  ByteLevel: () => ({ prefix: [], suffix: [] }),
  BertProcessing: readClsAndSep,
  RobertaProcessing: readClsAndSep,
  Sequence({ processors }, idOf, where) {
    const stages = createStages(processors, `${where}.processors`, (stage, place) =>
      readTemplate(stage, idOf, place),
    );
    return stages.reduce(
      (template, { prefix, suffix }) => ({
        prefix: [...prefix, ...template.prefix],
        suffix: [...template.suffix, ...suffix],
      }),
      { prefix: [], suffix: [] },
    );
  },
  TemplateProcessing({ single, special_tokens }, idOf, where) {
    if (!Array.isArray(single))
      return refuse(`${where}.single`, `expected an array, got ${JSON.stringify(single)}`);
    const textIndices = single.flatMap((item, i) => (item?.Sequence ? [i] : []));
    if (textIndices.length !== 1)
      refuse(`${where}.single`, `expected the text once, got it ${textIndices.length} times`);
    const readItemIds = (item: unknown, i: number) => {
      const name = (item as { SpecialToken?: { id?: unknown } } | null)?.SpecialToken?.id;
      const vocabularyIds = typeof name === 'string' ? [idOf(name)] : [];
      const ids = special_tokens?.[String(name)]?.ids ?? vocabularyIds;
      const isId = (id: unknown) => Number.isInteger(id) && Number(id) >= 0;
      if (Array.isArray(ids) && ids.length > 0 && ids.every(isId)) return ids;
      return refuse(`${where}.single ${i}`, `expected a token, got ${JSON.stringify(item)}`);
    };
    return {
      prefix: single.slice(0, textIndices[0]).flatMap(readItemIds),
      suffix: single
        .slice(textIndices[0] + 1)
        .flatMap((item, i) => readItemIds(item, i + textIndices[0] + 1)),
    };
  },
};

function readClsAndSep({ cls, sep }: PostProcessor, _: IdOf, where: string): Template {
  const readId = (pair: unknown, key: string) => {
    const id = (pair as unknown[] | undefined)?.[1];
    if (Number.isInteger(id) && Number(id) >= 0) return Number(id);
    return refuse(`${where}.${key}`, `expected a token and its id, got ${JSON.stringify(pair)}`);
  };
  return { prefix: [readId(cls, 'cls')], suffix: [readId(sep, 'sep')] };
}
