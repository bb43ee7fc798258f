/**
 * Stores a lab's training over a reload: its log, and the state from which it continues to the same digits. If the
 * browser stores nothing, as in some private windows, labs train all the same.
 */
import { del, get, set } from 'idb-keyval';
import type { LogEntry } from 'sinkscope';

export interface Kept {
  readonly step: number;
  /** The seconds of training so far. */
  readonly seconds: number;
  readonly log: readonly LogEntry[];
  /** The bytes of `Training.state`. */
  readonly state: Uint8Array;
}

interface Stored extends Kept {
  /** A key of all settings that the training's digits depend on. */
  readonly of: string;
}

export interface OwnText {
  readonly name: string;
  readonly text: string;
}

const TEXT = 'lab-text';
/** Returns the storage key of a lab. */
const storageKey = (side: number) => `lab-${side}`;

/** Uses the storage; returns undefined if that fails, as in a sandboxed page. */
async function attempt<T>(use: () => Promise<T>): Promise<T | undefined> {
  try {
    return await use();
  } catch {
    return undefined;
  }
}

const read = (key: string): Promise<unknown> => attempt(() => get(key));

/** Reads the saved training with this key; undefined if another training, or none, is saved. */
export async function keptOf(side: number, of: string): Promise<Kept | undefined> {
  const stored = (await read(storageKey(side))) as Partial<Stored> | undefined;
  const isWhole =
    stored?.of === of &&
    stored.state instanceof Uint8Array &&
    Array.isArray(stored.log) &&
    stored.log.length === stored.step;
  return isWhole ? (stored as Stored) : undefined;
}

/** Saves a training. */
export async function keep(side: number, of: string, kept: Kept): Promise<void> {
  await attempt(() => set(storageKey(side), { ...kept, of } satisfies Stored));
}

/** Deletes a saved training. */
export async function forget(side: number): Promise<void> {
  await attempt(() => del(storageKey(side)));
}

export async function keepText(text: OwnText): Promise<void> {
  await attempt(() => set(TEXT, text));
}

/** Reads the reader's saved text. */
export async function keptText(): Promise<OwnText | undefined> {
  const stored = (await read(TEXT)) as Partial<OwnText> | undefined;
  return typeof stored?.text === 'string' && typeof stored.name === 'string'
    ? (stored as OwnText)
    : undefined;
}
