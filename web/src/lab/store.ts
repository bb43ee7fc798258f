/**
 * Stores a lab's training run, so that it survives a reload: its log, and the state from which it continues with the same
 * results. If the browser stores nothing, as in some private windows, labs still train.
 */
import { del, get, set } from 'idb-keyval';
import type { LogEntry } from 'sinkscope';

export interface SavedTraining {
  readonly step: number;
  readonly seconds: number;
  readonly log: readonly LogEntry[];
  /** The bytes of `Training.state`. */
  readonly state: Uint8Array;
}

/** `of` is the key of the training run, with all that its results depend on; `readTraining` compares it. */
type Stored = SavedTraining & { readonly of: string };

export interface OwnText {
  readonly name: string;
  readonly text: string;
}

const TEXT_KEY = 'lab-text';
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

/** Reads the saved training run with this key; undefined if another one, or none, is saved. */
export async function readTraining(side: number, key: string): Promise<SavedTraining | undefined> {
  const storedTraining = (await read(storageKey(side))) as Partial<Stored> | undefined;
  const isComplete =
    storedTraining?.of === key &&
    storedTraining.state instanceof Uint8Array &&
    Array.isArray(storedTraining.log) &&
    storedTraining.log.length === storedTraining.step;
  return isComplete ? (storedTraining as Stored) : undefined;
}

export const saveTraining = (side: number, key: string, training: SavedTraining) =>
  attempt(() => set(storageKey(side), { ...training, of: key } satisfies Stored));

export const deleteTraining = (side: number) => attempt(() => del(storageKey(side)));

export const saveText = (text: OwnText) => attempt(() => set(TEXT_KEY, text));

export async function readText(): Promise<OwnText | undefined> {
  const storedText = (await read(TEXT_KEY)) as Partial<OwnText> | undefined;
  return typeof storedText?.text === 'string' && typeof storedText.name === 'string'
    ? (storedText as OwnText)
    : undefined;
}
