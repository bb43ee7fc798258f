/** Names of tokens that are bytes of one character, as the page writes them everywhere: “注 1/3”, “注 2/3”, “注 3/3”. */

/** The end of the name of a token that is one of several of a character: “注 2/3”. Text that a reader types has no such space. */
const PART = /\u200e?\u202f(\d+)\/\d+$/;
/** Letters that are written from the right: marks before and after them keep the number at their right, as in all other names. */
const FROM_RIGHT = /[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc]/;

export function namePart(character: string, part: number, count: number): string {
  const mark = FROM_RIGHT.test(character) ? '\u200e' : '';
  return `${mark}${character}${mark}\u202f${part}/${count}`;
}

/** Returns the character of a token that is one of several of a character, and which one it is, from 1. */
export function partOf(
  name: string,
): { readonly character: string; readonly part: number } | undefined {
  const [end, part] = PART.exec(name) ?? [];
  if (!end) return undefined;
  return { character: name.slice(0, -end.length).replace(/^\u200e/, ''), part: Number(part) };
}

/** Joins the names of tokens to the text that they are of: each character once. */
export const joinTokens = (names: readonly string[]): string =>
  names
    .map((name, i) => {
      const part = partOf(name);
      return !part ? name : part.part > 1 && i && partOf(names[i - 1]!) ? '' : part.character;
    })
    .join('');
