/** Names of tokens that are bytes of one character, as the page writes them everywhere: “注 1/3”, “注 2/3”, “注 3/3”. */

/** The end of the name of a token that is one of several of a character: “注 2/3”. Text that a reader types has no such space. */
const PART = /\u202f(\d+)\/\d+$/;
export const namePart = (character: string, part: number, count: number): string =>
  `${character}\u202f${part}/${count}`;

/** Returns the character of a token that is one of several of a character, and which one it is, from 1. */
export function partOf(
  name: string,
): { readonly character: string; readonly part: number } | undefined {
  const [end, part] = PART.exec(name) ?? [];
  return (end && { character: name.slice(0, -end.length), part: Number(part) }) || undefined;
}

/** Joins the names of tokens to the text that they are of: each character once. */
export const joinTokens = (names: readonly string[]): string =>
  names
    .map((name, i) => {
      const part = partOf(name);
      return !part ? name : part.part > 1 && i && partOf(names[i - 1]!) ? '' : part.character;
    })
    .join('');
