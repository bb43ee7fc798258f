/**
 * The merges of a BPE model: pairs of tokens, each with its rank; the lowest rank is joined first.
 * Large vocabularies have half a million of them, so that a pair is stored as two ids in a table, not
 * as a string.
 */
/** An odd number near 2^32 divided by the golden ratio spreads consecutive ids over the table. */
const SPREAD = 0x9e3779b1;

/** The rank in a slot that holds no pair. */
const EMPTY = -1;

/**
 * How large a table is: at most half of its slots are filled, so that a search soon meets an empty one.
 * @param {number} count of merges
 */
export function slotsOf(count) {
  return 2 ** Math.ceil(Math.log2(2 * count + 2));
}

/**
 * Takes the place of the library's `bpe_ranks`, whose keys are pairs written as JSON.
 * @extends {Map<string, number>}
 */
export class Ranks extends Map {
  #idOf;
  #last;
  /** Of each slot the left id, the right id and the rank. */
  #lefts;
  #rights;
  #ranks;

  /**
   * @param {(token: string) => number | undefined} idOf
   * @param {number} count of merges
   */
  constructor(idOf, count) {
    super();
    this.#idOf = idOf;
    const slots = slotsOf(count);
    this.#last = slots - 1;
    this.#lefts = new Int32Array(slots);
    this.#rights = new Int32Array(slots);
    this.#ranks = new Int32Array(slots).fill(EMPTY);
  }

  /**
   * The slot of a pair: the one that holds it, else the empty one where it belongs.
   * @param {number | undefined} left
   * @param {number | undefined} right of an unknown token, which no slot holds
   */
  #slot(left, right) {
    const hash = Math.imul(Math.imul(Number(left), SPREAD) ^ Number(right), SPREAD);
    // The upper bits are those that a product spreads best.
    let slot = hash >>> Math.clz32(this.#last);
    while (
      this.#ranks[slot] !== EMPTY &&
      (this.#lefts[slot] !== left || this.#rights[slot] !== right)
    ) {
      slot = slot === 0 ? this.#last : slot - 1;
    }
    return slot;
  }

  /**
   * A pair that comes twice has the rank of its last place, as in the tokenizers library.
   * @param {number} left
   * @param {number} right
   * @param {number} rank
   */
  add(left, right, rank) {
    const slot = this.#slot(left, right);
    this.#lefts[slot] = left;
    this.#rights[slot] = right;
    this.#ranks[slot] = rank;
  }

  /** @param {string} pair `["left","right"]` */
  get(pair) {
    const [left, right] = JSON.parse(pair).map(this.#idOf);
    const rank = this.#ranks[this.#slot(left, right)];
    return rank === EMPTY ? undefined : rank;
  }
}
