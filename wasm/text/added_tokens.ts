/** Finds the `added_tokens` of a tokenizer.json in a text, before the text is split. */
import { AlignedText, widthAt } from './aligned.ts';
import { countTrailingSpaces, type Normalizer } from './normalizers.ts';
import { isWord } from './pre_tokenizers.ts';
import { checkId, refuse } from './vocabulary.ts';
import type { Model } from './models.ts';
import type { AddedToken } from './shapes.ts';

type SearchedToken = { token: AddedToken; text: string };
/** A part of a text; `token` is the added token that it consists of, or null. */
type Section = { text: AlignedText; token: AddedToken | null };

/** As in the tokenizers library, ids come from the vocabulary or are the next free ones. */
export function readAddedTokens(
  addedTokens: readonly AddedToken[] | undefined = [],
  { ids, idOf }: Model,
): AddedToken[] {
  if (!Array.isArray(addedTokens))
    refuse('added_tokens', `expected an array, got ${typeof addedTokens}`);
  const byContent: Map<string, AddedToken> = new Map();
  let nextId = ids.count;
  addedTokens.forEach((token, i) => {
    const content = token?.content;
    if (typeof content !== 'string' || content === '')
      refuse(`added_tokens ${i} content`, `expected text, got ${JSON.stringify(content)}`);
    checkId(token.id, `added_tokens ${i} id`);
    const id = idOf(content) ?? byContent.get(content)?.id ?? nextId++;
    byContent.set(content, { ...token, id });
  });
  return [...byContent.values()];
}

/** Returns the search text of each token: a normalized token is searched for in normalized text. */
export function searchedTokensOf(
  addedTokens: readonly AddedToken[],
  normalize: Normalizer,
): SearchedToken[] {
  return addedTokens.map((token) => {
    const text = isNormalized(token)
      ? normalize(AlignedText.of(token.content)).text
      : token.content;
    if (text === '') refuse('added_tokens', `"${token.content}" is empty once normalized`);
    return { token, text };
  });
}

const isNormalized = ({ normalized, special }: AddedToken) => normalized ?? !special;

/** Returns a function that splits a text into added tokens and normalized sections between them. */
export function createAddedTokenSplitter(
  searchTokens: readonly SearchedToken[],
  normalize: Normalizer,
): (text: AlignedText) => Section[] {
  const splitPlain = createSplitter(searchTokens.filter(({ token }) => !isNormalized(token)));
  const splitNormalized = createSplitter(searchTokens.filter(({ token }) => isNormalized(token)));
  return (text) =>
    splitPlain(text).flatMap((section) =>
      section.token ? [section] : splitNormalized(normalize(section.text)),
    );
}

function createSplitter(searchTokens: readonly SearchedToken[]): (text: AlignedText) => Section[] {
  /** Tokens by the first unit of their text, the longest text first. */
  const tokensByStart: Map<string, SearchedToken[]> = new Map();
  for (const searchedToken of [...searchTokens].sort((a, b) => b.text.length - a.text.length)) {
    tokensByStart.set(searchedToken.text[0], [
      ...(tokensByStart.get(searchedToken.text[0]) ?? []),
      searchedToken,
    ]);
  }
  return (alignedText) => {
    const { text } = alignedText;
    const sections: Section[] = [];
    let end = 0;
    const addSection = (from: number, to: number, token: AddedToken | null) => {
      if (to > from) sections.push({ text: alignedText.slice(from, to), token });
    };
    for (let position = 0; position < text.length;) {
      const match = tokensByStart
        .get(text[position])
        ?.find((searchedToken) => text.startsWith(searchedToken.text, position));
      if (!match) {
        position++;
        continue;
      }
      const stop = position + match.text.length;
      const { token } = match;
      if (!token.single_word || isSeparateWord(text, position, stop)) {
        const sectionStart = token.lstrip
          ? Math.max(position - countTrailingSpaces(text.slice(end, position)), end)
          : position;
        const sectionEnd = token.rstrip ? stop + countLeadingSpaces(text, stop) : stop;
        addSection(end, sectionStart, null);
        addSection(Math.min(sectionStart, sectionEnd), sectionEnd, token);
        end = sectionEnd;
      }
      position = stop;
    }
    addSection(end, text.length, null);
    return sections;
  };
}

function isSeparateWord(text: string, start: number, end: number) {
  const previousStart = Math.max(start - widthAt(text, start - 2), 0);
  const neighbors = [text.slice(previousStart, start), text.slice(end, end + widthAt(text, end))];
  return !neighbors.some(isWord);
}

function countLeadingSpaces(text: string, start: number) {
  let end = start;
  while (/\p{White_Space}/u.test(text.charAt(end))) end++;
  return end - start;
}
