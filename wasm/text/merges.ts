/**
 * Stores the merges of a BPE model: pairs of tokens with ranks; the lowest rank merges first.
 * Large vocabularies have half a million merges, so a table holds each pair as two ids instead of a
 * string.
 */
import type { Piece } from './shapes.ts';

/**
 * Factor of the hash: an odd number near 2^32 divided by the golden ratio spreads consecutive ids
 * over the table.
 */
const HASH_FACTOR = 0x9e3779b1;

const EMPTY_RANK = -1;

export class MergeRanks {
  #lastSlot;
  #lefts;
  #rights;
  #ranks;
  /** Id of the merged token, by rank. */
  #mergedIds;

  constructor(count: number) {
    // At most half of the slots are used, so that a search soon meets an empty one.
    const slotCount = 2 ** Math.ceil(Math.log2(2 * count + 2));
    this.#lastSlot = slotCount - 1;
    this.#lefts = new Int32Array(slotCount);
    this.#rights = new Int32Array(slotCount);
    this.#ranks = new Int32Array(slotCount).fill(EMPTY_RANK);
    this.#mergedIds = new Int32Array(count);
  }

  /** Finds the slot that holds a pair, or else the empty slot where the pair belongs. */
  #findSlot(left: number, right: number) {
    const hash = Math.imul(Math.imul(left, HASH_FACTOR) ^ right, HASH_FACTOR);
    // The slot comes from the upper bits of the product, which are mixed best.
    let slot = hash >>> Math.clz32(this.#lastSlot);
    while (
      this.#ranks[slot] !== EMPTY_RANK &&
      (this.#lefts[slot] !== left || this.#rights[slot] !== right)
    ) {
      slot = slot === 0 ? this.#lastSlot : slot - 1;
    }
    return slot;
  }

  /** Adds a pair; a repeated pair keeps its last rank, as in the tokenizers library. */
  add(left: number, right: number, rank: number, mergedId: number) {
    const slot = this.#findSlot(left, right);
    this.#lefts[slot] = left;
    this.#rights[slot] = right;
    this.#ranks[slot] = rank;
    this.#mergedIds[rank] = mergedId;
  }

  get(left: number, right: number): number | undefined {
    const rank = this.#ranks[this.#findSlot(left, right)];
    return rank === EMPTY_RANK ? undefined : rank;
  }

  mergedIdOf(rank: number) {
    return this.#mergedIds[rank];
  }
}

/**
 * Merges pairs until no pair has a rank: the lowest rank first, and of equal ranks the leftmost
 * pair.
 */
export function mergePairs(pieces: readonly Piece[], ranks: MergeRanks): Piece[] {
  const n = pieces.length;
  /** Ids of the pieces; a piece that was merged into its left neighbor has -1. */
  const ids = Int32Array.from(pieces, ({ id }) => id);
  const nextIndices = Int32Array.from(pieces, (_, i) => i + 1);
  const previousIndices = Int32Array.from(pieces, (_, i) => i - 1);
  const queue = new PriorityQueue();
  const enqueue = (i: number) => {
    if (i < 0 || nextIndices[i] >= n) return;
    const rank = ranks.get(ids[i], ids[nextIndices[i]]);
    if (rank !== undefined) queue.push(rank * n + i);
  };
  for (let i = 0; i < n; i++) enqueue(i);
  for (let key = queue.pop(); key !== undefined; key = queue.pop()) {
    const i = key % n;
    const mergedId = ranks.mergedIdOf((key - i) / n);
    const right = nextIndices[i];
    if (ids[i] < 0 || right >= n) continue;
    const rank = ranks.get(ids[i], ids[right]);
    // Skips an entry whose pair was changed by another merge.
    if (rank === undefined || ranks.mergedIdOf(rank) !== mergedId) continue;
    ids[i] = mergedId;
    ids[right] = -1;
    nextIndices[i] = nextIndices[right];
    if (nextIndices[i] < n) previousIndices[nextIndices[i]] = i;
    enqueue(previousIndices[i]);
    enqueue(i);
  }
  const mergedPieces: Piece[] = [];
  for (let i = 0; i < n; i = nextIndices[i]) {
    mergedPieces.push({ id: ids[i], start: pieces[i].start, end: pieces[nextIndices[i] - 1].end });
  }
  return mergedPieces;
}

/** A priority queue: `pop` gives the smallest number. */
class PriorityQueue {
  #heap: number[] = [];

  push(key: number) {
    let i = this.#heap.length;
    for (let parent = (i - 1) >> 1; i > 0 && this.#heap[parent] > key; parent = (i - 1) >> 1) {
      this.#heap[i] = this.#heap[parent];
      i = parent;
    }
    this.#heap[i] = key;
  }

  pop(): number | undefined {
    const [smallest] = this.#heap;
    const key = this.#heap.pop();
    const n = this.#heap.length;
    if (key === undefined || n === 0) return smallest;
    let i = 0;
    for (let child = 1; child < n; child = 2 * i + 1) {
      if (child + 1 < n && this.#heap[child + 1] < this.#heap[child]) child++;
      if (this.#heap[child] >= key) break;
      this.#heap[i] = this.#heap[child];
      i = child;
    }
    this.#heap[i] = key;
    return smallest;
  }
}
