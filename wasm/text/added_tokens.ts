/** Finds the `added_tokens` of a tokenizer.json in a text, before the text is split. */
import { Aligned, widthAt } from './aligned.ts';
import { spacesAtEnd } from './normalizers.ts';
import { isWord } from './pre_tokenizers.ts';
import { checkId, refuse } from './vocabulary.ts';
import type { Model } from './models.ts';
import type { Normalizer } from './normalizers.ts';
import type { Added } from './shapes.ts';

/** An added token and the text that is searched for. */
type SearchedToken = { token: Added; text: string };
/** A part of a text; `token` is the added token that it consists of, or null. */
type Section = { text: Aligned; token: Added | null };

/**
 * Reads the added tokens of a file. As in the tokenizers library, each gets its id in the vocabulary,
 * or else the next free id; the ids in the file are not used.
 */
export function readAdded(
  added: readonly Added[] | undefined = [],
  { tokens, idOf }: Model,
): Added[] {
  if (!Array.isArray(added)) refuse('added_tokens', `expected an array, got ${typeof added}`);
  const byContent: Map<string, Added> = new Map();
  let next = tokens.length;
  added.forEach((token, i) => {
    const content = token?.content;
    if (typeof content !== 'string' || content === '') {
      refuse(`added_tokens ${i} content`, `expected text, got ${JSON.stringify(content)}`);
    }
    checkId(token.id, `added_tokens ${i} id`);
    const id = idOf(content) ?? byContent.get(content)?.id ?? next++;
    byContent.set(content, { ...token, id });
  });
  return [...byContent.values()];
}

/** Returns the search text of each token: a normalized token is searched for in normalized text. */
export function searchTextsOf(added: readonly Added[], normalize: Normalizer): SearchedToken[] {
  return added.map((token) => {
    const text = isNormalized(token) ? normalize(Aligned.of(token.content)).text : token.content;
    if (text === '') refuse('added_tokens', `"${token.content}" is empty once normalized`);
    return { token, text };
  });
}

function isNormalized({ normalized, special }: Added) {
  return normalized ?? !special;
}

/** Returns a function that splits a text into added tokens and normalized sections between them. */
export function createFinder(
  wanted: readonly SearchedToken[],
  normalize: Normalizer,
): (text: Aligned) => Section[] {
  const first = createSplitter(wanted.filter(({ token }) => !isNormalized(token)));
  const second = createSplitter(wanted.filter(({ token }) => isNormalized(token)));
  return (text) =>
    first(text).flatMap((section) => (section.token ? [section] : second(normalize(section.text))));
}

function createSplitter(wanted: readonly SearchedToken[]): (text: Aligned) => Section[] {
  /** Tokens by the first unit of their text, the longest text first. */
  const byFirst: Map<string, SearchedToken[]> = new Map();
  for (const one of [...wanted].sort((a, b) => b.text.length - a.text.length)) {
    byFirst.set(one.text[0], [...(byFirst.get(one.text[0]) ?? []), one]);
  }
  return (aligned) => {
    const { text } = aligned;
    const sections: Section[] = [];
    let end = 0;
    const addSection = (from: number, to: number, token: Added | null) => {
      if (to > from) sections.push({ text: aligned.slice(from, to), token });
    };
    for (let at = 0; at < text.length;) {
      const match = byFirst.get(text[at])?.find((one) => text.startsWith(one.text, at));
      if (!match) {
        at++;
        continue;
      }
      const stop = at + match.text.length;
      const { token } = match;
      if (!token.single_word || standsAlone(text, at, stop)) {
        const start = token.lstrip ? Math.max(at - spacesAtEnd(text.slice(end, at)), end) : at;
        const right = token.rstrip ? stop + spacesAtStart(text, stop) : stop;
        addSection(end, start, null);
        addSection(Math.min(start, right), right, token);
        end = right;
      }
      at = stop;
    }
    addSection(end, text.length, null);
    return sections;
  };
}

/** Returns whether no word character precedes or follows the span. */
function standsAlone(text: string, start: number, end: number) {
  const before = Math.max(start - widthAt(text, start - 2), 0);
  const sides = [text.slice(before, start), text.slice(end, end + widthAt(text, end))];
  return !sides.some(isWord);
}

function spacesAtStart(text: string, at: number) {
  let end = at;
  while (/\p{White_Space}/u.test(text.charAt(end))) end++;
  return end - at;
}
