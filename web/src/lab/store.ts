/**
 * Stores the training runs of the last pairs of labs, so that they survive a reload, other settings and another tab. Each
 * run has its log, and the state from which it continues with the same results. If the browser stores nothing, as in some
 * private windows, labs still train.
 */
import { createStore, delMany, get, promisifyRequest, set } from 'idb-keyval';
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
/** A storage that is silent for this long is not waited for again before it answers. */
export const SILENCE_MS = 3000;
/** The store of `get`, `set` and `delMany`. */
const useStore = createStore('keyval-store', 'keyval');
let isSilent = false;
/** @param pair all that the results of both runs depend on */
const storageKey = (side: number, pair: string) => `lab-${side} ${pair}`;

/** Uses the storage; returns undefined if that fails, as in a sandboxed page, or if the storage does not answer. */
async function attempt<T>(use: () => Promise<T>): Promise<T | undefined> {
  if (isSilent) return undefined;
  let timer: ReturnType<typeof setTimeout>;
  const silence = new Promise<undefined>((resolve) => {
    timer = setTimeout(() => resolve(void (isSilent = true)), SILENCE_MS);
  });
  const answer = (async () => use())()
    .catch(() => undefined)
    .finally(() => {
      clearTimeout(timer);
      isSilent = false;
    });
  return Promise.race([answer, silence]);
}

const read = (key: string): Promise<unknown> => attempt(() => get(key));

/** Returns what is stored if it is a whole training run. */
function trainingOf(stored: unknown): SavedTraining | undefined {
  const training = stored as Partial<SavedTraining> | undefined;
  const isComplete =
    training?.state instanceof Uint8Array &&
    Array.isArray(training.log) &&
    training.log.length === training.step;
  return isComplete ? (training as SavedTraining) : undefined;
}

/** Reads the saved training run of a pair's side; undefined if none is saved. */
export const readTraining = async (side: number, pair: string) =>
  trainingOf(await read(storageKey(side, pair)));

/**
 * Saves a run, and deletes those of other pairs than the last four: in one transaction, since other tabs save as well. A
 * later step stays, which another tab has reached in the same training.
 */
export const saveTraining = (side: number, pair: string, training: SavedTraining) =>
  attempt(() =>
    useStore('readwrite', async (store) => {
      const pairs = await promisifyRequest<readonly string[] | undefined>(store.get(PAIRS_KEY));
      const lastPairs = [pair, ...(pairs ?? []).filter((other) => other !== pair)];
      const stored = trainingOf(await promisifyRequest(store.get(storageKey(side, pair))));
      if (!(stored && stored.step > training.step)) store.put(training, storageKey(side, pair));
      store.put(lastPairs.slice(0, MAX_PAIRS), PAIRS_KEY);
      for (const old of lastPairs.slice(MAX_PAIRS))
        for (const oldSide of [0, 1]) store.delete(storageKey(oldSide, old));
      await promisifyRequest(store.transaction);
    }),
  );

export const deleteTrainings = (pair: string) =>
  attempt(() => delMany([0, 1].map((side) => storageKey(side, pair))));

export const saveText = (text: OwnText) => attempt(() => set(TEXT_KEY, text));

export async function readText(): Promise<OwnText | undefined> {
  const storedText = (await read(TEXT_KEY)) as Partial<OwnText> | undefined;
  return typeof storedText?.text === 'string' && typeof storedText.name === 'string'
    ? (storedText as OwnText)
    : undefined;
}
