/** Where a browser keeps bytes under names, from one visit to the next; store_node.js is the twin. */

/** @typedef {import('../supply/parts.js').Store} Store */

const FOLDER = 'sinkscope';

/**
 * The origin's private files, else the Cache API, else nothing: a private window may refuse both.
 * @returns {Promise<Store | undefined>}
 */
export async function openStore() {
  for (const open of [openFiles, openCacheApi]) {
    try {
      return await open();
    } catch {
      // The next one, then.
    }
  }
  return undefined;
}

/** @returns {Promise<Store>} */
async function openFiles() {
  const root = await navigator.storage.getDirectory();
  const folder = await root.getDirectoryHandle(FOLDER, { create: true });
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

/**
 * Whole or not at all with a writable, which Safari got late; its handles are for workers only.
 * @param {any} handle a FileSystemFileHandle
 * @param {Uint8Array} bytes
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
  const file = await handle.createSyncAccessHandle();
  try {
    file.truncate(0);
    if (file.write(bytes, { at: 0 }) !== bytes.length) throw new Error('the disk is full');
    file.flush();
  } finally {
    file.close();
  }
}

/** @returns {Promise<Store>} */
async function openCacheApi() {
  const cache = await caches.open(FOLDER);
  const base = new URL(`/${FOLDER}-cache/`, location.origin);
  const addressOf = (/** @type {string} */ name) => new URL(name, base).href;
  return {
    kind: 'cache',
    put: (name, bytes) => cache.put(addressOf(name), new Response(bytes)),
    async get(name) {
      const found = await cache.match(addressOf(name));
      return found && new Uint8Array(await found.arrayBuffer());
    },
    async remove(name) {
      await cache.delete(addressOf(name));
    },
    async names() {
      return (await cache.keys()).map(({ url }) => url.slice(base.href.length));
    },
  };
}
