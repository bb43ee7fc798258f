/**
 * Stores the training runs of the last pairs of labs, so that they survive a reload, other settings and another tab. Each
 * run has its log, and the state from which it continues with the same results. If the browser stores nothing, as in some
 * private windows, labs still train.
 */
import { del, delMany, get, keys, set } from 'idb-keyval';
import type { LogEntry } from 'sinkscope';

export interface SavedTraining {
  readonly step: number;
  readonly seconds: number;
  readonly log: readonly LogEntry[];
  /** The bytes of `Training.state`. */
  readonly state: Uint8Array;
}

export interface OwnText {
  readonly name: string;
  readonly text: string;
}

const TEXT_KEY = 'lab-text';
/** The key of a list: the pairs that have saved runs, the last saved first. */
const PAIRS_KEY = 'lab-pairs';
const MAX_PAIRS = 4;
const SAVED_RUN = /^lab-\d/;
/** @param pair all that the results of both runs depend on */
const storageKey = (side: number, pair: string) => `lab-${side} ${pair}`;

/** Uses the storage; returns undefined if that fails, as in a sandboxed page. */
async function attempt<T>(use: () => Promise<T>): Promise<T | undefined> {
  try {
    return await use();
  } catch {
    return undefined;
  }
}

const read = (key: string): Promise<unknown> => attempt(() => get(key));

/** Reads the saved training run of a pair's side; undefined if none is saved. */
export async function readTraining(side: number, pair: string): Promise<SavedTraining | undefined> {
  const training = (await read(storageKey(side, pair))) as Partial<SavedTraining> | undefined;
  const isComplete =
    training?.state instanceof Uint8Array &&
    Array.isArray(training.log) &&
    training.log.length === training.step;
  return isComplete ? (training as SavedTraining) : undefined;
}

/** Saves a run, and deletes those of other pairs than the last four. */
export const saveTraining = (side: number, pair: string, training: SavedTraining) =>
  attempt(async () => {
    await set(storageKey(side, pair), training);
    const pairs = (await get<readonly string[]>(PAIRS_KEY)) ?? [];
    if (pairs[0] === pair) return;
    const lastPairs = [pair, ...pairs.filter((other) => other !== pair)].slice(0, MAX_PAIRS);
    await set(PAIRS_KEY, lastPairs);
    const usedKeys = new Set(lastPairs.flatMap((key) => [storageKey(0, key), storageKey(1, key)]));
    const unusedKeys = (await keys<string>()).filter(
      (key) => SAVED_RUN.test(key) && !usedKeys.has(key),
    );
    await delMany(unusedKeys);
  });

export const deleteTraining = (side: number, pair: string) =>
  attempt(() => del(storageKey(side, pair)));

export const saveText = (text: OwnText) => attempt(() => set(TEXT_KEY, text));

export async function readText(): Promise<OwnText | undefined> {
  const storedText = (await read(TEXT_KEY)) as Partial<OwnText> | undefined;
  return typeof storedText?.text === 'string' && typeof storedText.name === 'string'
    ? (storedText as OwnText)
    : undefined;
}
