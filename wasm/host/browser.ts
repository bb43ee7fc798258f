/** The host interface in browsers, as node.ts. Workers import it, so it must not start one. */
import type { DiskFile, Port, StreamSource } from './types.ts';

export const portTo = (target: Pick<Worker, 'postMessage' | 'addEventListener'>): Port => ({
  post: (message, transferList) => target.postMessage(message, transferList),
  listen: (onMessage) => target.addEventListener('message', ({ data }) => onMessage(data)),
});

export const workerPort = () => portTo(globalThis as unknown as Worker);

/** Holds the named lock as long as this worker lives; false where the host has no locks. */
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
 * Returns the package's folder, if known. Bundlers replace `import.meta.url` and direct calls
 * of `import.meta.resolve` by a path of the builder's machine, so the function is taken out first.
 */
export function packageUrl(): string | undefined {
  const { resolve } = import.meta;
  return resolve?.('../');
}

export const hasWorkers = typeof Worker === 'function';

/** Memory can be shared only in a page that its headers isolate from other sites. */
export const canShareMemory = () => globalThis.crossOriginIsolated === true;

export const cores = () => navigator.hardwareConcurrency || 1;

/** Returns a Blob that can be posted: in a browser, the Blob itself. */
export const toPortable = (blob: Blob): Blob | StreamSource => blob;

export const request = (address: URL, init?: RequestInit) => fetch(address, init);

/** Waits until messages are handled: by a port, since browsers delay nested timers by 4 ms. */
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

export const subfolders = async (_path: string): Promise<string[]> => [];

/** Returns undefined: a browser opens no paths. */
export const diskFiles = async (_path: string): Promise<DiskFile[] | null | undefined> => undefined;
