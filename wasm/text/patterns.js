/**
 * Compiles the patterns of a tokenizer.json, which have Oniguruma's syntax; @huggingface/tokenizers
 * translates them to JavaScript's.
 */
// @ts-expect-error: Its declarations name their own files without an extension.
import { SplitPreTokenizer } from '@huggingface/tokenizers';
import { widthAt } from './aligned.js';
import { refuse } from './vocabulary.js';

/** @typedef {import('./aligned.js').Piece} Piece */
/** @typedef {import('./aligned.js').Pattern} Pattern */

/**
 * @param {import('./shapes.js').Stage['pattern']} pattern
 * @param {string} where
 * @returns {Pattern}
 */
export function compile(pattern, where) {
  if (typeof pattern?.Regex === 'string') return compileRegex(pattern.Regex);
  if (typeof pattern?.String === 'string') return literal(pattern.String);
  const text = `expected a Regex or a String, got ${JSON.stringify(pattern)}`;
  return refuse(`${where}.pattern`, text);
}

/** @param {string} text */
export function literal(text) {
  return matcher(new RegExp(text.replace(/[\\^$.*+?()[\]{}|]/g, '\\$&'), 'gu'));
}

/**
 * Compiles a regular expression. The library folds (?i:'s) in ASCII; Oniguruma also matches the
 * long s.
 * @param {string} source
 */
export function compileRegex(source) {
  const Regex = source.replaceAll("(?i:'s|", "(?i:'s|'\u017f|");
  const split = new SplitPreTokenizer({ pattern: { Regex }, behavior: 'Isolated', invert: false });
  return matcher(split.pattern);
}

/**
 * Finds all matches. As in Oniguruma's crate, an empty match counts unless it directly follows
 * another match.
 * @param {RegExp} regex with the flags g and u
 * @returns {Pattern}
 */
export function matcher(regex) {
  return (text) => {
    /** @type {Piece[]} */
    const pieces = [];
    let [end, at, last] = [0, 0, -1];
    while (at <= text.length && text !== '') {
      regex.lastIndex = at;
      const match = regex.exec(text);
      if (!match) break;
      const [{ length }, start] = [match[0], match.index];
      if (length === 0 && (start === last || isInside(text, start))) {
        at = start === at ? at + widthAt(text, at) : start + 1;
        continue;
      }
      if (start > end) pieces.push([end, start, false]);
      pieces.push([start, start + length, true]);
      end = at = last = start + length;
    }
    if (end < text.length) pieces.push([end, text.length, false]);
    return pieces;
  };
}

/**
 * Tells whether an index is inside a surrogate pair, where V8 also matches an empty (?! ).
 * @param {string} text
 * @param {number} at
 */
function isInside(text, at) {
  return at > 0 && widthAt(text, at - 1) === 2;
}

/**
 * @param {Pattern} pattern
 * @returns {Pattern}
 */
export function invert(pattern) {
  return (text) => pattern(text).map(([start, end, isMatch]) => [start, end, !isMatch]);
}
