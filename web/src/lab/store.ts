/**
 * What a lab has trained, kept over a reload: its log, and the state from which it goes on to the same
 * digits. Where the browser keeps nothing, as in some private windows, labs train all the same.
 */
import { del, get, set } from 'idb-keyval';
import type { LogEntry } from 'sinkscope';

export interface Kept {
  readonly step: number;
  /** Seconds that it has trained. */
  readonly seconds: number;
  readonly log: readonly LogEntry[];
  /** What `Training.state` gave. */
  readonly state: Uint8Array;
}

interface Stored extends Kept {
  /** The training by everything that its digits depend on. */
  readonly of: string;
}

export interface OwnText {
  readonly name: string;
  readonly text: string;
}

const TEXT = 'lab-text';
const place = (side: number) => `lab-${side}`;

/** Undefined where the browser keeps nothing: a page in a sandbox may not even name its storage. */
async function attempt<T>(use: () => Promise<T>): Promise<T | undefined> {
  try {
    return await use();
  } catch {
    return undefined;
  }
}

const read = (key: string): Promise<unknown> => attempt(() => get(key));

/** Of this training; undefined where another one, or none, is kept. */
export async function keptOf(side: number, of: string): Promise<Kept | undefined> {
  const found = (await read(place(side))) as Partial<Stored> | undefined;
  const isWhole =
    found?.of === of &&
    found.state instanceof Uint8Array &&
    Array.isArray(found.log) &&
    found.log.length === found.step;
  return isWhole ? (found as Stored) : undefined;
}

export async function keep(side: number, of: string, kept: Kept): Promise<void> {
  await attempt(() => set(place(side), { ...kept, of } satisfies Stored));
}

export async function forget(side: number): Promise<void> {
  await attempt(() => del(place(side)));
}

export async function keepText(text: OwnText): Promise<void> {
  await attempt(() => set(TEXT, text));
}

export async function keptText(): Promise<OwnText | undefined> {
  const found = (await read(TEXT)) as Partial<OwnText> | undefined;
  return typeof found?.text === 'string' && typeof found.name === 'string'
    ? (found as OwnText)
    : undefined;
}
