/**
 * A text that the stages of a tokenizer change, aligned with the original: each unit has the span of
 * the original character that it was made from. Alignment follows the NormalizedString of the
 * tokenizers library, so that spans of tokens equal its offsets.
 */

/** Pieces of a text in order, as [start, end, isMatch]. @typedef {[number, number, boolean]} Piece */
/** Splits a text into matches and the text between them. @typedef {(text: string) => Piece[]} Pattern */
/** A character and its change count: see `transform`. @typedef {[string, number]} Change */

export class Aligned {
  /**
   * @param {string} text
   * @param {Uint32Array} from start of each unit's character in the original
   * @param {Uint32Array} to end of each unit's character in the original
   * @param {number} start start of the section of the original that this text covers
   */
  constructor(text, from, to, start) {
    this.text = text;
    this.from = from;
    this.to = to;
    this.start = start;
  }

  /** @param {string} text */
  static of(text) {
    const from = new Uint32Array(text.length);
    const to = new Uint32Array(text.length);
    for (let at = 0; at < text.length;) {
      const end = at + widthAt(text, at);
      from.fill(at, at, end);
      to.fill(end, at, end);
      at = end;
    }
    return new Aligned(text, from, to, 0);
  }

  /**
   * @param {number} start
   * @param {number} end
   */
  slice(start, end) {
    const [from, to] = [this.from.subarray(start, end), this.to.subarray(start, end)];
    return new Aligned(this.text.slice(start, end), from, to, from[0] ?? this.start);
  }

  /**
   * Replaces all characters. The change count of a character says what it replaces: with 0 it replaces
   * the next character, with -n it also removes the n after that one, and with 1 it is inserted and
   * gets the span of the character before it.
   * @param {readonly Change[]} changes
   * @param {number} [removed] number of leading characters to remove
   */
  transform(changes, removed = 0) {
    const text = changes.map(([character]) => character).join('');
    const from = new Uint32Array(text.length);
    const to = new Uint32Array(text.length);
    let [at, length] = [0, 0];
    const skip = (/** @type {number} */ count) => {
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

  /** @param {(character: string) => string} change maps each character to several, one or none */
  map(change) {
    /** @type {Change[]} */
    const changes = [];
    let [removed, first] = [0, 0];
    const settle = () => {
      const last = changes.at(-1);
      if (last) last[1] -= removed;
      else first = removed;
      removed = 0;
    };
    for (const character of this.text) {
      const replacement = change(character);
      if (replacement === '') removed++;
      else {
        settle();
        [...replacement].forEach((next, i) => changes.push([next, i > 0 ? 1 : 0]));
      }
    }
    settle();
    return this.transform(changes, first);
  }

  /** @param {string} text gets the span of the first character */
  prepend(text) {
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
   * @param {Pattern} pattern
   * @param {string} content gets the span of the last character that it replaces
   */
  replace(pattern, content) {
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
   * @param {Pattern} pattern
   * @param {string} behavior a key of BEHAVIORS
   */
  split(pattern, behavior) {
    const pieces = BEHAVIORS[behavior](pattern(this.text));
    return pieces
      .filter(([start, end]) => end > start)
      .map(([start, end]) => this.slice(start, end));
  }
}

/**
 * Returns the number of units of the character at an index.
 * @param {string} text
 * @param {number} at
 */
export function widthAt(text, at) {
  return Number(text.codePointAt(at)) > 0xffff ? 2 : 1;
}

/**
 * Defines how matches and the text between them become pieces.
 * @type {Record<string, (pieces: Piece[]) => Piece[]>}
 */
export const BEHAVIORS = {
  Isolated: (pieces) => pieces,
  Removed: (pieces) => pieces.filter(([, , isMatch]) => !isMatch),
  Contiguous: (pieces) => join(pieces, (isMatch, wasMatch) => isMatch === wasMatch),
  MergedWithPrevious: (pieces) => join(pieces, (isMatch, wasMatch) => isMatch && !wasMatch),
  MergedWithNext: (pieces) =>
    join([...pieces].reverse(), (isMatch, wasMatch) => isMatch && !wasMatch).reverse(),
};

/**
 * @param {readonly Piece[]} pieces in either direction
 * @param {(isMatch: boolean, wasMatch: boolean) => boolean} isJoined joins a piece to the previous one
 */
function join(pieces, isJoined) {
  /** @type {Piece[]} */
  const groups = [];
  let wasMatch = false;
  for (const [start, end, isMatch] of pieces) {
    const last = groups.at(-1);
    if (last && isJoined(isMatch, wasMatch)) {
      last[0] = Math.min(last[0], start);
      last[1] = Math.max(last[1], end);
    } else groups.push([start, end, isMatch]);
    wasMatch = isMatch;
  }
  return groups;
}
