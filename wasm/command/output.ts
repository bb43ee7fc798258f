/** Escapes what is printed: names and tokens from untrusted files must not control the terminal. */

/** Control characters except tab and line feed, and characters that reorder or break a line. */
const CONTROL_PATTERN =
  /[\0-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]/g;

/** Escapes a character in the form of JSON and JavaScript, so that programs read the same text. */
const escapeCharacter = (character: string) =>
  `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`;

export const escapeControls = (text: string) => text.replace(CONTROL_PATTERN, escapeCharacter);

/** Returns a text that is safe and on one line, so that a name cannot imitate a line of a table. */
export const oneLine = (text: string) => escapeControls(text).replace(/[\t\n]/g, escapeCharacter);
