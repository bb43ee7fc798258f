/** Where a browser keeps bytes under names, from one visit to the next; store_node.js is the twin. */

/** @typedef {import('../loading/parts.js').Store} Store */
/** @typedef {{ truncate(size: number): void, write(bytes: Uint8Array, options: { at: number }): number, flush(): void, close(): void }} SyncHandle */

const FOLDER = 'sinkscope';

/**
 * The origin's private files; nothing where a private window or a page that is not secure has none. The
 * Cache API exists and fails in the same browsers.
 * @returns {Promise<Store | undefined>}
 */
export async function openStore() {
  const folder = await openFolder().catch(() => undefined);
  if (!folder) return undefined;
  return {
    kind: 'opfs',
    async put(name, bytes) {
      await write(await folder.getFileHandle(name, { create: true }), bytes);
    },
    async get(name) {
      const handle = await folder.getFileHandle(name).catch(() => undefined);
      return handle && new Uint8Array(await (await handle.getFile()).arrayBuffer());
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
 * Whole or not at all with a writable, which Safari got late; its handles are for workers only.
 * @param {FileSystemFileHandle & { createSyncAccessHandle?(): Promise<SyncHandle> }} handle
 * @param {Uint8Array<ArrayBuffer>} bytes
 */
async function write(handle, bytes) {
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
