/**
 * Aligns a text that the stages of a tokenizer change with the original: each unit has the span of
 * the original character that it was made from. Alignment follows the NormalizedString of the
 * tokenizers library, so that spans of tokens equal its offsets.
 */

/** A piece of a text, as [start, end, isMatch]. */
export type Piece = [number, number, boolean];
/** Splits a text into matches and the text between them. */
export type Pattern = (text: string) => Piece[];
/** A character and its change count, which `transform` explains. */
export type Change = [string, number];

export class Aligned {
  readonly text;
  readonly from;
  readonly to;
  readonly start;
  /**
   * @param from start of each unit's character in the original
   * @param to end of each unit's character in the original
   * @param start start of the section of the original that this text covers
   */
  constructor(text: string, from: Uint32Array, to: Uint32Array, start: number) {
    this.text = text;
    this.from = from;
    this.to = to;
    this.start = start;
  }

  static of(text: string) {
    const from = new Uint32Array(text.length);
    const to = new Uint32Array(text.length);
    let at = 0;
    for (const character of text) {
      const end = at + character.length;
      from.fill(at, at, end);
      to.fill(end, at, end);
      at = end;
    }
    return new Aligned(text, from, to, 0);
  }

  slice(start: number, end: number) {
    const [from, to] = [this.from.subarray(start, end), this.to.subarray(start, end)];
    return new Aligned(this.text.slice(start, end), from, to, from[0] ?? this.start);
  }

  /**
   * Replaces all characters. The change count of a character says what it replaces: with 0 it replaces
   * the next character; with -n it also removes the n characters after that one; with 1 it is
   * inserted and gets the span of the character before it.
   * @param removed number of leading characters to remove
   */
  transform(changes: readonly Change[], removed: number = 0) {
    const text = changes.map(([character]) => character).join('');
    const from = new Uint32Array(text.length);
    const to = new Uint32Array(text.length);
    let [at, length] = [0, 0];
    const skip = (count: number) => {
      for (; count > 0 && at < this.text.length; count--) at += widthAt(this.text, at);
    };
    skip(removed);
    for (const [character, change] of changes) {
      const unit = change > 0 ? at - 1 : at;
      const end = length + character.length;
      from.fill(this.from[unit] ?? this.start, length, end);
      to.fill(this.to[unit] ?? this.start, length, end);
      length = end;
      if (change <= 0) skip(1 - change);
    }
    return new Aligned(text, from, to, this.start);
  }

  /**
   * Replaces each character.
   * @param change returns the characters that replace a character: several, one or none
   */
  map(change: (character: string) => string) {
    const changes: Change[] = [];
    let [removed, leading] = [0, 0];
    const addRemoved = () => {
      const last = changes.at(-1);
      if (last) last[1] -= removed;
      else leading = removed;
      removed = 0;
    };
    for (const character of this.text) {
      const replacement = change(character);
      if (replacement === '') removed++;
      else {
        addRemoved();
        [...replacement].forEach((next, i) => changes.push([next, i > 0 ? 1 : 0]));
      }
    }
    addRemoved();
    return this.transform(changes, leading);
  }

  /** Prepends a text, which gets the span of the first character. */
  prepend(text: string) {
    if (this.text === '') return this;
    const length = text.length + this.text.length;
    const [from, to] = [new Uint32Array(length), new Uint32Array(length)];
    from.set(this.from, text.length);
    to.set(this.to, text.length);
    from.fill(this.from[0], 0, text.length);
    to.fill(this.to[0], 0, text.length);
    return new Aligned(text + this.text, from, to, this.start);
  }

  /**
   * Replaces all matches of a pattern.
   * @param content the replacement, which gets the span of the last character of the match
   */
  replace(pattern: Pattern, content: string) {
    const pieces = pattern(this.text);
    if (!pieces.some(([, , isMatch]) => isMatch)) return this;
    const texts = pieces.map(([start, end, isMatch]) =>
      isMatch ? content : this.text.slice(start, end),
    );
    const text = texts.join('');
    const [from, to] = [new Uint32Array(text.length), new Uint32Array(text.length)];
    let length = 0;
    pieces.forEach(([start, end, isMatch], i) => {
      const next = length + texts[i].length;
      if (isMatch) {
        from.fill(this.from[end - 1] ?? this.start, length, next);
        to.fill(this.to[end - 1] ?? this.start, length, next);
      } else {
        from.set(this.from.subarray(start, end), length);
        to.set(this.to.subarray(start, end), length);
      }
      length = next;
    });
    return new Aligned(text, from, to, this.start);
  }

  /**
   * Splits the text at the matches of a pattern.
   * @param behavior a key of BEHAVIORS
   */
  split(pattern: Pattern, behavior: string) {
    const pieces = BEHAVIORS[behavior](pattern(this.text));
    return pieces
      .filter(([start, end]) => end > start)
      .map(([start, end]) => this.slice(start, end));
  }
}

export function widthAt(text: string, at: number) {
  return Number(text.codePointAt(at)) > 0xffff ? 2 : 1;
}

/**
 * For each behavior of a splitter, a function that makes pieces from matches and the text between
 * them.
 */
export const BEHAVIORS: Record<string, (pieces: Piece[]) => Piece[]> = {
  Isolated: (pieces) => pieces,
  Removed: (pieces) => pieces.filter(([, , isMatch]) => !isMatch),
  Contiguous: (pieces) => joinPieces(pieces, (isMatch, wasMatch) => isMatch === wasMatch),
  MergedWithPrevious: (pieces) => joinPieces(pieces, (isMatch, wasMatch) => isMatch && !wasMatch),
  MergedWithNext: (pieces) =>
    joinPieces([...pieces].reverse(), (isMatch, wasMatch) => isMatch && !wasMatch).reverse(),
};

/**
 * Joins adjacent pieces.
 * @param pieces in the order of the text or in reverse
 * @param isJoined returns whether a piece is joined to the previous one
 */
function joinPieces(
  pieces: readonly Piece[],
  isJoined: (isMatch: boolean, wasMatch: boolean) => boolean,
) {
  const groups: Piece[] = [];
  let wasMatch = false;
  for (const [start, end, isMatch] of pieces) {
    const lastGroup = groups.at(-1);
    if (lastGroup && isJoined(isMatch, wasMatch)) {
      lastGroup[0] = Math.min(lastGroup[0], start);
      lastGroup[1] = Math.max(lastGroup[1], end);
    } else groups.push([start, end, isMatch]);
    wasMatch = isMatch;
  }
  return groups;
}
