/**
 * Aligns a text that the stages of a tokenizer change with the original: each unit has the span of
 * the original character that it was made from. Alignment follows the NormalizedString of the
 * tokenizers library, so that spans of tokens equal its offsets.
 */

/** A piece of a text, as [start, end, isMatch]. */
export type MatchPiece = [number, number, boolean];
/** Splits a text into matches and the text between them. */
export type Pattern = (text: string) => MatchPiece[];
/** A character and its change count, which `transform` explains. */
export type Change = [string, number];

export class AlignedText {
  readonly text;
  readonly starts;
  readonly ends;
  readonly start;
  /** Of each unit's character in the original, and of the section that this text covers. */
  constructor(text: string, starts: Uint32Array, ends: Uint32Array, start: number) {
    this.text = text;
    this.starts = starts;
    this.ends = ends;
    this.start = start;
  }

  static of(text: string) {
    const starts = new Uint32Array(text.length);
    const ends = new Uint32Array(text.length);
    let start = 0;
    for (const character of text) {
      const end = start + character.length;
      starts.fill(start, start, end);
      ends.fill(end, start, end);
      start = end;
    }
    return new AlignedText(text, starts, ends, 0);
  }

  slice(start: number, end: number) {
    const [starts, ends] = [this.starts.subarray(start, end), this.ends.subarray(start, end)];
    return new AlignedText(this.text.slice(start, end), starts, ends, starts[0] ?? this.start);
  }

  /**
   * Replaces all characters. The change count of a character says what it replaces: with 0 it replaces
   * the next character; with -n it also removes the n characters after that one; with 1 it is
   * inserted and gets the span of the character before it.
   * @param removedCount number of leading characters to remove
   */
  transform(changes: readonly Change[], removedCount: number = 0) {
    const text = changes.map(([character]) => character).join('');
    const starts = new Uint32Array(text.length);
    const ends = new Uint32Array(text.length);
    let [position, length] = [0, 0];
    const skip = (count: number) => {
      for (; count > 0 && position < this.text.length; count--)
        position += widthAt(this.text, position);
    };
    skip(removedCount);
    for (const [character, change] of changes) {
      const unit = change > 0 ? position - 1 : position;
      const end = length + character.length;
      starts.fill(this.starts[unit] ?? this.start, length, end);
      ends.fill(this.ends[unit] ?? this.start, length, end);
      length = end;
      if (change <= 0) skip(1 - change);
    }
    return new AlignedText(text, starts, ends, this.start);
  }

  /** Replaces each character by those that `change` returns: several, one or none. */
  map(change: (character: string) => string) {
    const changes: Change[] = [];
    let [removedCount, leadingCount] = [0, 0];
    const addRemoved = () => {
      const last = changes.at(-1);
      if (last) last[1] -= removedCount;
      else leadingCount = removedCount;
      removedCount = 0;
    };
    for (const character of this.text) {
      const replacement = change(character);
      if (replacement === '') removedCount++;
      else {
        addRemoved();
        [...replacement].forEach((part, i) => changes.push([part, i > 0 ? 1 : 0]));
      }
    }
    addRemoved();
    return this.transform(changes, leadingCount);
  }

  /** Prepends a text, which gets the span of the first character. */
  prepend(text: string) {
    if (this.text === '') return this;
    const length = text.length + this.text.length;
    const [starts, ends] = [new Uint32Array(length), new Uint32Array(length)];
    starts.set(this.starts, text.length);
    ends.set(this.ends, text.length);
    starts.fill(this.starts[0], 0, text.length);
    ends.fill(this.ends[0], 0, text.length);
    return new AlignedText(text + this.text, starts, ends, this.start);
  }

  /** Replaces all matches by `content`, which gets the span of the match's last character. */
  replace(pattern: Pattern, content: string) {
    const pieces = pattern(this.text);
    if (!pieces.some(([, , isMatch]) => isMatch)) return this;
    const texts = pieces.map(([start, end, isMatch]) =>
      isMatch ? content : this.text.slice(start, end),
    );
    const text = texts.join('');
    const [starts, ends] = [new Uint32Array(text.length), new Uint32Array(text.length)];
    let length = 0;
    pieces.forEach(([start, end, isMatch], i) => {
      const textEnd = length + texts[i].length;
      if (isMatch) {
        starts.fill(this.starts[end - 1] ?? this.start, length, textEnd);
        ends.fill(this.ends[end - 1] ?? this.start, length, textEnd);
      } else {
        starts.set(this.starts.subarray(start, end), length);
        ends.set(this.ends.subarray(start, end), length);
      }
      length = textEnd;
    });
    return new AlignedText(text, starts, ends, this.start);
  }

  /** Splits the text at the matches of a pattern, as BEHAVIORS say. */
  split(pattern: Pattern, behavior: string) {
    const pieces = BEHAVIORS[behavior](pattern(this.text));
    return pieces
      .filter(([start, end]) => end > start)
      .map(([start, end]) => this.slice(start, end));
  }
}

export const widthAt = (text: string, index: number) =>
  Number(text.codePointAt(index)) > 0xffff ? 2 : 1;

/** For each behavior of a splitter, makes pieces from matches and the text between them. */
export const BEHAVIORS: Record<string, (pieces: MatchPiece[]) => MatchPiece[]> = {
  Isolated: (pieces) => pieces,
  Removed: (pieces) => pieces.filter(([, , isMatch]) => !isMatch),
  Contiguous: (pieces) => joinPieces(pieces, (isMatch, wasMatch) => isMatch === wasMatch),
  MergedWithPrevious: (pieces) => joinPieces(pieces, (isMatch, wasMatch) => isMatch && !wasMatch),
  MergedWithNext: (pieces) =>
    joinPieces([...pieces].reverse(), (isMatch, wasMatch) => isMatch && !wasMatch).reverse(),
};

/** Joins adjacent pieces, in the order of the text or in reverse, where `isJoined` says so. */
function joinPieces(
  pieces: readonly MatchPiece[],
  isJoined: (isMatch: boolean, wasMatch: boolean) => boolean,
) {
  const groups: MatchPiece[] = [];
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
