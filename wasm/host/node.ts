/** Implements the host interface for Node.js; browser.ts is the counterpart. */
import { parentPort } from 'node:worker_threads';
import { openAsBlob } from 'node:fs';
import { open, readdir, stat } from 'node:fs/promises';
import { availableParallelism } from 'node:os';
import { basename, join, sep } from 'node:path';
import { NEXT_FOLDER, currentPath } from './node_folder.ts';
import type { DiskFile, Port, StreamSource } from './types.ts';

export const portTo = (
  target: import('node:worker_threads').Worker | import('node:worker_threads').MessagePort,
): Port => ({
  post: (message, transferList) =>
    target.postMessage(message, transferList as import('node:worker_threads').Transferable[]),
  listen: (onMessage) => target.on('message', onMessage),
});

export function workerPort() {
  if (!parentPort) throw new Error('worker.js runs in a worker only');
  return portTo(parentPort);
}

/** Returns true without a lock: Node.js reports the end of every thread. */
export const holdLivenessLock = async (_name: string) => true;

export const packageUrl = (): string | undefined => new URL('..', import.meta.url).href;

export const hasWorkers = true;

export const canShareMemory = () => true;

export const cores = availableParallelism;

/** Returns a Blob that can be posted; for a Blob on a file, the stream of its bytes. */
export function toPortable(blob: Blob): Blob | StreamSource {
  try {
    return structuredClone(blob);
  } catch {
    const name = 'name' in blob ? String(blob.name) : 'weights';
    return { stream: blob.stream(), bytes: blob.size, name };
  }
}

/** Fetches an address. Also reads `file:` addresses, which Node's fetch does not support. */
export async function request(address: URL, init?: RequestInit): Promise<Response> {
  if (address.protocol !== 'file:') return fetch(address, init);
  const file = await open(address);
  const { size } = await file.stat();
  const stream = file.readableWebStream({ type: 'bytes' }) as unknown as ReadableStream<Uint8Array>;
  const type = address.pathname.endsWith('.wasm') ? 'application/wasm' : '';
  const headers = { 'content-length': String(size), 'content-type': type };
  return new Response(
    withClose(stream, () => file.close()),
    { headers },
  );
}

function withClose(stream: ReadableStream<Uint8Array>, close: () => Promise<void>) {
  const reader = stream.getReader();
  return new ReadableStream({
    async pull(controller) {
      const { done, value } = await reader.read();
      if (!done) return controller.enqueue(value);
      await close();
      controller.close();
    },
    async cancel() {
      await reader.cancel().catch(() => {});
      await close();
    },
  });
}

export const pause = () => new Promise((resolve) => setImmediate(resolve));

/** The file of an unfinished training, the reason why its folder may have no weights yet. */
const TRAINING_STATE = join('checkpoint', 'training.state');

export async function subfolders(path: string): Promise<string[]> {
  const entries = await readdir(path, { withFileTypes: true }).catch(() => []);
  return entries
    .filter((entry) => entry.isDirectory() && !entry.name.startsWith('.'))
    .map(({ name }) => join(path, name))
    .sort((a, b) => a.localeCompare(b, 'en', { numeric: true }));
}

/** Returns lazy Blobs of the files at a path, in subfolders where an index may name them. */
export async function diskFiles(path: string): Promise<DiskFile[] | null | undefined> {
  const stats = await stat(path).catch(() => undefined);
  if (!stats) return null;
  if (!stats.isDirectory()) return [{ path: basename(path), file: await openAsBlob(path) }];
  const topNames = await readdir(path);
  const recursive = topNames.some((name) => name.endsWith('.index.json'));
  const names = recursive ? await readdir(path, { recursive }) : topNames;
  const nextNames = await readdir(join(path, NEXT_FOLDER)).catch(() => []);
  const files = await Promise.all(
    [...new Set([...names, ...nextNames, TRAINING_STATE])].map(async (name) => {
      if (name.startsWith(NEXT_FOLDER)) return [];
      const fullPath = await currentPath(path, name);
      if (!(await stat(fullPath).catch(() => undefined))?.isFile()) return [];
      return [{ path: name.replaceAll(sep, '/'), file: await openAsBlob(fullPath) }];
    }),
  );
  return files.flat();
}
