/**
 * Implements the host interface for browsers; node.ts is the twin. Workers import it, so it starts
 * none.
 */
import type { Port } from '../engine/messages.ts';
import type { Streamed } from '../loading/files.ts';
import type { DiskFile } from '../loading/types.ts';

/** Posts messages to a worker, or from within a worker to its page. */
export const portTo = (other: Pick<Worker, 'postMessage' | 'addEventListener'>): Port => ({
  post: (message, moved) => other.postMessage(message, moved),
  listen: (hear) => other.addEventListener('message', ({ data }) => hear(data)),
});

export const workerPort = () => portTo(globalThis as unknown as Worker);

/** Holds a lock of that name as long as this worker lives; false where the host has no locks. */
export function holdLivenessLock(name: string): Promise<boolean> {
  return new Promise((resolve) => {
    const hold = () => {
      resolve(true);
      return new Promise(() => {});
    };
    if (!navigator.locks) resolve(false);
    else navigator.locks.request(name, hold).catch(() => resolve(false));
  });
}

/**
 * Returns the folder of the package, or undefined in a bundle that does not reveal it.
 * `import.meta.url` would reveal it too, but some bundlers replace it by a path on the builder's
 * machine, as they do for a call of `import.meta.resolve`.
 */
export function home(): string | undefined {
  const { resolve } = import.meta;
  return resolve?.('../');
}

export const hasWorkers = typeof Worker === 'function';

/** Memory can be shared only in a page that its headers isolate from other sites. */
export const canShare = () => globalThis.crossOriginIsolated === true;

export const cores = () => navigator.hardwareConcurrency || 1;

/** Returns a Blob that can be posted: in a browser, the Blob itself. */
export function portable(blob: Blob): Blob | Streamed {
  return blob;
}

export function request(address: URL, init?: RequestInit) {
  return fetch(address, init);
}

/** Lets pending messages in. Browsers delay nested timers by 4 ms, a port has no delay. */
export function pause() {
  return new Promise((resolve) => {
    const { port1, port2 } = new MessageChannel();
    port1.onmessage = () => {
      port1.close();
      resolve(undefined);
    };
    port2.postMessage(0);
  });
}

/** A page has no access to paths. */
export async function diskFiles(_path: string): Promise<DiskFile[] | undefined> {
  return undefined;
}
