/** Stores bytes by name in the browser, across visits; store_node.ts is the counterpart. */
import type { Store } from './types.ts';

type SyncHandle = {
  getSize(): number;
  truncate(size: number): void;
  read(bytes: Uint8Array, options: { at: number }): number;
  write(bytes: Uint8Array, options: { at: number }): number;
  flush(): void;
  close(): void;
};
type FileHandle = FileSystemFileHandle & {
  createSyncAccessHandle?(options?: { mode: string }): Promise<SyncHandle>;
};

const FOLDER = 'sinkscope';

/**
 * Opens the origin private file system; undefined in a private window and in an insecure page,
 * which lack it. The Cache API is no fallback: it fails in the same browsers.
 */
export async function openStore(): Promise<Store | undefined> {
  const folder = await openFolder().catch(() => undefined);
  if (!folder) return undefined;
  return {
    async put(name, bytes) {
      await write(await folder.getFileHandle(name, { create: true }), bytes);
    },
    async get(name, reusedBuffer) {
      const handle = await folder.getFileHandle(name).catch(() => undefined);
      return handle && read(handle, reusedBuffer);
    },
    async remove(name) {
      await folder.removeEntry(name).catch(() => {});
    },
    async names() {
      const names = [];
      for await (const name of folder.keys()) names.push(name);
      return names;
    },
  };
}

async function openFolder() {
  const root = await navigator.storage.getDirectory();
  return root.getDirectoryHandle(FOLDER, { create: true });
}

/**
 * Reads a file straight from the disk in a worker, while no other page locks the file: a Blob
 * passes through another process of the browser, which takes five times as long.
 * @param reusedBuffer memory that is reused if large enough
 */
async function read(handle: FileHandle, reusedBuffer?: Uint8Array<ArrayBuffer>) {
  const file = await handle.createSyncAccessHandle?.({ mode: 'read-only' }).catch(() => undefined);
  if (!file) return new Uint8Array(await (await handle.getFile()).arrayBuffer());
  try {
    const size = file.getSize();
    const buffer =
      reusedBuffer && reusedBuffer.buffer.byteLength >= size
        ? reusedBuffer.buffer
        : new ArrayBuffer(size);
    return new Uint8Array(buffer, 0, file.read(new Uint8Array(buffer, 0, size), { at: 0 }));
  } finally {
    file.close();
  }
}

/** Writes all or nothing; older versions of Safari only with sync handles, in workers. */
async function write(handle: FileHandle, bytes: Uint8Array<ArrayBuffer>) {
  if (handle.createWritable) {
    const file = await handle.createWritable();
    try {
      await file.write(bytes);
    } catch (error) {
      await file.abort().catch(() => {});
      throw error;
    }
    return file.close();
  }
  const file = await handle.createSyncAccessHandle?.();
  if (!file) throw new Error('files cannot be written here');
  try {
    file.truncate(0);
    if (file.write(bytes, { at: 0 }) !== bytes.length) throw new Error('the disk is full');
    file.flush();
  } finally {
    file.close();
  }
}
