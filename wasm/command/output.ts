/**
 * Escapes what the command line writes: names and tokens from untrusted files must not control the
 * terminal.
 */

/** Control characters except tab and line feed, and characters that reorder or break a line. */
const CONTROLS = /[\0-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]/g;

/** Escapes a character as JSON and JavaScript do, so that JSON keeps its value. */
const escapeCharacter = (character: string) =>
  `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`;

/** Escapes the control characters of a text, which is then safe for the terminal. */
export function escapeControls(text: string) {
  return text.replace(CONTROLS, escapeCharacter);
}

/** Returns a safe text on one line, such as a name, which then cannot imitate a table's line. */
export function oneLine(text: string) {
  return escapeControls(text).replace(/[\t\n]/g, escapeCharacter);
}
