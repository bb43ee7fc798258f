/** What the command line writes: names and tokens of other people's files must not control the terminal. */

/** Controls of both sets but tab and line feed, and those that reorder or break a line of text. */
const CONTROLS = /[\0-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]/g;

/** As JSON and JavaScript write a character, so that JSON stays the same value. @param {string} character */
const escaped = (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`;

/**
 * A text as it is written to the terminal.
 * @param {string} text
 */
export function visible(text) {
  return text.replace(CONTROLS, escaped);
}

/**
 * The same of a text that has one line, such as a name: it cannot pretend to be a line of a table.
 * @param {string} text
 */
export function oneLine(text) {
  return visible(text).replace(/[\t\n]/g, escaped);
}
