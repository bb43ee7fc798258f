/**
 * Stores the tokens and the merges of a model in hash tables. A merge is a pair of tokens with a rank; the
 * lowest rank merges first. Large vocabularies have half a million merges, so a table holds each pair as
 * two ids, and finds a token by a range of a text: neither needs a string of its own.
 */
import type { Piece } from './shapes.ts';

/** Odd and near 2^32 over the golden ratio, it spreads consecutive ids over the table. */
const HASH_FACTOR = 0x9e3779b1;

/** Returns the number of slots for `count` entries: at most half are used, so that a search soon meets an empty one. */
const slotCountFor = (count: number) => 2 ** Math.ceil(Math.log2(2 * count + 2));

export class TokenIds {
  /** Tokens by id; without entries at the ids that no token has. */
  readonly texts;
  /** Number of tokens. */
  count = 0;
  #lastSlot;
  /** Each an id + 1; 0 if the slot is empty. */
  #slots;

  /** @param onRepeated called with both ids of equal tokens; `idOf` returns the last one */
  constructor(
    texts: readonly string[],
    onRepeated: (id: number, firstId: number) => void = () => {},
  ) {
    this.texts = texts;
    this.#slots = new Int32Array(slotCountFor(texts.length));
    this.#lastSlot = this.#slots.length - 1;
    texts.forEach((text, id) => {
      const slot = this.#findSlot(text, 0, text.length);
      if (this.#slots[slot]) onRepeated(id, this.#slots[slot] - 1);
      this.#slots[slot] = id + 1;
      this.count++;
    });
  }

  #findSlot(text: string, start: number, end: number) {
    let hash = 0;
    for (let i = start; i < end; i++) hash = Math.imul(hash ^ text.charCodeAt(i), HASH_FACTOR);
    let slot = Math.imul(hash ^ (hash >>> 15), HASH_FACTOR) >>> Math.clz32(this.#lastSlot);
    while (this.#slots[slot] && !this.#isAt(this.#slots[slot] - 1, text, start, end))
      slot = slot === 0 ? this.#lastSlot : slot - 1;
    return slot;
  }

  #isAt(id: number, text: string, start: number, end: number) {
    const token = this.texts[id];
    let i = token.length;
    if (i !== end - start) return false;
    while (i > 0 && token.charCodeAt(i - 1) === text.charCodeAt(start + i - 1)) i--;
    return i === 0;
  }

  idOf(text: string, start: number = 0, end: number = text.length): number | undefined {
    const id = this.#slots[this.#findSlot(text, start, end)];
    return id ? id - 1 : undefined;
  }
}

export class MergeRanks {
  #lastSlot;
  /** Each slot is a left id, a right id and a rank + 1, which lie side by side; the last is 0 if the slot is empty. */
  #slots;
  #mergedIds;

  constructor(count: number) {
    const slotCount = slotCountFor(count);
    this.#lastSlot = slotCount - 1;
    this.#slots = new Int32Array(3 * slotCount);
    this.#mergedIds = new Int32Array(count);
  }

  /** Finds the slot that holds a pair, or else the empty slot where the pair belongs; returns its index in `#slots`. */
  #findSlot(left: number, right: number) {
    const hash = Math.imul(Math.imul(left, HASH_FACTOR) ^ right, HASH_FACTOR);
    // The slot comes from the upper bits of the product, which are mixed best.
    let at = 3 * (hash >>> Math.clz32(this.#lastSlot));
    while (this.#slots[at + 2] && (this.#slots[at] !== left || this.#slots[at + 1] !== right))
      at = at === 0 ? 3 * this.#lastSlot : at - 3;
    return at;
  }

  /** Adds a pair; a repeated pair keeps its last rank, as in the tokenizers library. */
  add(left: number, right: number, rank: number, mergedId: number) {
    const at = this.#findSlot(left, right);
    this.#slots[at] = left;
    this.#slots[at + 1] = right;
    this.#slots[at + 2] = rank + 1;
    this.#mergedIds[rank] = mergedId;
  }

  get(left: number, right: number): number | undefined {
    const rank = this.#slots[this.#findSlot(left, right) + 2];
    return rank ? rank - 1 : undefined;
  }

  mergedIdOf(rank: number) {
    return this.#mergedIds[rank];
  }
}

/** Merges the pair of lowest rank, at a tie the leftmost, until no pair has a rank. */
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
  for (let i = 0; i < n; i = nextIndices[i])
    mergedPieces.push({ id: ids[i], start: pieces[i].start, end: pieces[nextIndices[i] - 1].end });
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
