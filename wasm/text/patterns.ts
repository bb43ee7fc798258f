/** Compiles the patterns of a tokenizer.json, of Oniguruma, by @huggingface/tokenizers. */
// @ts-expect-error: the declarations of this package name their own files without an extension.
import { SplitPreTokenizer } from '@huggingface/tokenizers';
import { widthAt, type MatchPiece, type Pattern } from './aligned.ts';
import { refuse } from './vocabulary.ts';
import type { Stage } from './shapes.ts';

export function compile(pattern: Stage['pattern'], where: string): Pattern {
  if (typeof pattern?.Regex === 'string') return compileRegex(pattern.Regex);
  if (typeof pattern?.String === 'string') return createLiteralMatcher(pattern.String);
  const text = `expected a Regex or a String, got ${JSON.stringify(pattern)}`;
  return refuse(`${where}.pattern`, text);
}

export const createLiteralMatcher = (text: string) =>
  createMatcher(new RegExp(text.replace(/[\\^$.*+?()[\]{}|]/g, '\\$&'), 'gu'));

/** Compiles a pattern, with the long s for (?i:'s), which the library lacks and Oniguruma has. */
export function compileRegex(source: string) {
  const Regex = source.replaceAll("(?i:'s|", "(?i:'s|'\u017f|");
  const preTokenizer = new SplitPreTokenizer({
    pattern: { Regex },
    behavior: 'Isolated',
    invert: false,
  });
  return createMatcher(preTokenizer.pattern);
}

/**
 * Finds all matches of a regex with flags g and u. As in Rust's Oniguruma, an empty match counts
 * unless it directly follows another.
 */
export function createMatcher(regex: RegExp): Pattern {
  return (text) => {
    const pieces: MatchPiece[] = [];
    let [end, position, lastEnd] = [0, 0, -1];
    while (position <= text.length && text !== '') {
      regex.lastIndex = position;
      const match = regex.exec(text);
      if (!match) break;
      const [{ length }, start] = [match[0], match.index];
      if (length === 0 && (start === lastEnd || isInsidePair(text, start))) {
        position = start === position ? position + widthAt(text, position) : start + 1;
        continue;
      }
      if (start > end) pieces.push([end, start, false]);
      pieces.push([start, start + length, true]);
      end = position = lastEnd = start + length;
    }
    if (end < text.length) pieces.push([end, text.length, false]);
    return pieces;
  };
}

/** Returns whether an index is inside a surrogate pair, where V8 also finds empty matches. */
const isInsidePair = (text: string, index: number) => index > 0 && widthAt(text, index - 1) === 2;

export function invertPattern(pattern: Pattern): Pattern {
  return (text) => pattern(text).map(([start, end, isMatch]) => [start, end, !isMatch]);
}
