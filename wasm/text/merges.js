/**
 * The merges of a BPE model: pairs of tokens, each with its rank; the lowest rank is joined first.
 * Large vocabularies have half a million of them, so that a pair is stored as two ids in a table, not
 * as a string.
 */
/** An odd number near 2^32 divided by the golden ratio spreads consecutive ids over the table. */
const SPREAD = 0x9e3779b1;

/**
 * Takes the place of the library's `bpe_ranks`, whose keys are pairs written as JSON.
 * @extends {Map<string, number>}
 */
export class Ranks extends Map {
  #idOf;
  #mask;
  /** Left id and right id of each slot. */
  #pairs;
  /** Rank of each slot; -1 where the slot is empty. */
  #ranks;

  /**
   * @param {(token: string) => number | undefined} idOf
   * @param {number} count of merges
   */
  constructor(idOf, count) {
    super();
    this.#idOf = idOf;
    // At most half of the slots are filled, so that a search soon meets an empty one.
    const slots = 2 ** Math.ceil(Math.log2(2 * count + 2));
    this.#mask = slots - 1;
    this.#pairs = new Int32Array(2 * slots);
    this.#ranks = new Int32Array(slots).fill(-1);
  }

  /**
   * The slot of a pair: the one that holds it, else the empty one where it belongs.
   * @param {number} left
   * @param {number} right
   */
  #slot(left, right) {
    const hash = Math.imul(Math.imul(left, SPREAD) ^ right, SPREAD);
    let slot = (hash ^ (hash >>> 15)) & this.#mask;
    while (
      this.#ranks[slot] >= 0 &&
      (this.#pairs[2 * slot] !== left || this.#pairs[2 * slot + 1] !== right)
    ) {
      slot = (slot + 1) & this.#mask;
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
    this.#pairs[2 * slot] = left;
    this.#pairs[2 * slot + 1] = right;
    this.#ranks[slot] = rank;
  }

  /** @param {string} pair `["left","right"]` */
  get(pair) {
    const [left, right] = JSON.parse(pair).map(this.#idOf);
    if (left === undefined || right === undefined) return undefined;
    const rank = this.#ranks[this.#slot(left, right)];
    return rank < 0 ? undefined : rank;
  }
}
