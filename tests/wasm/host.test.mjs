/** Tests code for browsers, with fakes of what Node.js lacks, and both stores for bytes. */
import assert from 'node:assert/strict';
import { readFileSync, readdirSync, readlinkSync, realpathSync } from 'node:fs';
import { mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import test, { describe } from 'node:test';
import { fileURLToPath } from 'node:url';
import * as browser from '../../wasm/host/browser.ts';
import * as node from '../../wasm/host/node.ts';
import { openStore as openInBrowser } from '../../wasm/host/store_browser.ts';
import { openStore as openInNode } from '../../wasm/host/store_node.ts';
import { listen, reply } from '../../wasm/host/inside_browser.ts';
import { startWorker } from '../../wasm/host/start_browser.ts';
import { canWait, startThread } from '../../wasm/host/thread_browser.ts';
import * as textHost from '../../wasm/host/text_browser.ts';

/**
 * Sets globals until the end of a test.
 * @param {import('node:test').TestContext} t
 * @param {Record<string, unknown>} values
 */
function withGlobals(t, values) {
  for (const [name, value] of Object.entries(values)) {
    const before = Object.getOwnPropertyDescriptor(globalThis, name);
    Object.defineProperty(globalThis, name, { value, configurable: true, writable: true });
    t.after(() => {
      if (before) Object.defineProperty(globalThis, name, before);
      else Reflect.deleteProperty(globalThis, name);
    });
  }
}

/** Imitates a worker: it runs nothing and records its calls. */
class FakeWorker extends EventTarget {
  /** @type {FakeWorker[]} */
  static started = [];
  /** @type {unknown[]} */
  given = [];
  isOver = false;
  /** @param {string | URL} url @param {WorkerOptions} [options] */
  constructor(url, options) {
    super();
    this.url = url;
    this.options = options;
    FakeWorker.started.push(this);
  }
  /** @param {unknown} message */
  postMessage(message) {
    this.given.push(message);
  }
  terminate() {
    this.isOver = true;
  }
}

const origin = new URL('../../wasm/host/reach.ts', import.meta.url).origin;
const last = () => FakeWorker.started.at(-1);

/**
 * Returns the modules that a module of the package imports in a browser, immediately or later, including
 * itself.
 */
function graphOf(path, paths = new Set()) {
  if (paths.has(path)) return paths;
  paths.add(path);
  const { imports } = JSON.parse(readFileSync(new URL('package.json', wasm), 'utf8'));
  const text = readFileSync(new URL(path, wasm), 'utf8').replaceAll(/\/\*[^]*?\*\//g, '');
  for (const [, name] of text.matchAll(/(?:from |import\(|import )'([.#][^']+)'/g)) {
    const to = name.startsWith('#')
      ? imports[name].default
      : new URL(name, new URL(path, wasm)).href;
    graphOf(new URL(to, wasm).href.slice(wasm.href.length), paths);
  }
  return paths;
}
const wasm = new URL('../../wasm/', import.meta.url);

test('no worker imports a module that starts it: a bundler that follows both would never end', () => {
  const startOf = (path) =>
    [...readFileSync(new URL(path, wasm), 'utf8').matchAll(/new Worker\(new URL\('([^']+)'/g)].map(
      ([, to]) => new URL(to, new URL(path, wasm)).href.slice(wasm.href.length),
    );
  const startedWorkers = [...graphOf('index.ts')].flatMap(startOf);
  assert.deepEqual(startedWorkers.sort(), [
    'engine/thread.ts',
    'engine/worker.ts',
    'text/worker.ts',
  ]);
  const bundleOf = (path, paths = new Set()) => {
    if (paths.has(path)) return paths;
    paths.add(path);
    for (const importer of graphOf(path))
      for (const worker of startOf(importer)) bundleOf(worker, paths);
    return paths;
  };
  for (const worker of startedWorkers)
    for (const importer of graphOf(worker))
      for (const innerWorker of startOf(importer))
        assert.ok(!bundleOf(innerWorker).has(worker), `${worker}: ${importer}`);
});

test('in Node.js a file is closed after its last byte, and when its reader stops', async () => {
  const address = new URL('package.json', wasm);
  const path = realpathSync(fileURLToPath(address));
  // Other descriptors of the process may come and go meanwhile; one that is gone has no link.
  const openCount = () =>
    readdirSync('/dev/fd').filter((descriptor) => {
      try {
        return readlinkSync(`/dev/fd/${descriptor}`) === path;
      } catch {
        return false;
      }
    }).length;
  const response = await node.request(address);
  assert.equal(openCount(), 1);
  assert.equal(await response.text(), readFileSync(address, 'utf8'));
  assert.equal(openCount(), 0);
  await (await node.request(address)).body.cancel();
  assert.equal(openCount(), 0);
});

describe('the browser host', () => {
  test('shares memory only on an isolated page, and has one core if the number is unknown', (t) => {
    for (const [isApart, shares] of [
      [true, true],
      [false, false],
      [undefined, false],
    ]) {
      withGlobals(t, { crossOriginIsolated: isApart });
      assert.equal(browser.canShareMemory(), shares);
    }
    for (const [hardwareConcurrency, cores] of [
      [8, 8],
      [undefined, 1],
      [0, 1],
    ]) {
      withGlobals(t, { navigator: { hardwareConcurrency } });
      assert.equal(browser.cores(), cores);
    }
    assert.equal(canWait(), true);
    withGlobals(t, { document: {} });
    assert.equal(canWait(), false);
  });

  test('receives messages, and leaves no port open', async (t) => {
    let openChannels = 0;
    const Channel = MessageChannel;
    const WatchedChannel = class {
      constructor() {
        const { port1, port2 } = new Channel();
        openChannels++;
        port1.close = new Proxy(port1.close, {
          apply: (close, channel) => (openChannels--, Reflect.apply(close, channel, [])),
        });
        Object.assign(this, { port1, port2 });
      }
    };
    withGlobals(t, { MessageChannel: WatchedChannel });
    await browser.pause();
    assert.equal(openChannels, 0);
  });

  test('posts any Blob, and receives messages', async () => {
    const blob = new Blob(['x']);
    assert.equal(browser.toPortable(blob), blob);
    /** @type {string[]} */
    const order = [];
    const { port1, port2 } = new MessageChannel();
    port1.onmessage = () => (order.push('message'), port1.close());
    port2.postMessage(0);
    await browser.pause().then(() => order.push('pause'));
    assert.deepEqual(order, ['message', 'pause']);
  });

  test('reports the end of a worker, also if only its liveness lock shows it', async (t) => {
    withGlobals(t, { Worker: FakeWorker, location: { origin, href: import.meta.url } });
    for (const event of [
      Object.assign(new Event('error'), { message: 'no memory' }),
      Object.assign(new Event('error'), { message: '' }),
      new Event('messageerror'),
    ]) {
      const { endReason } = startWorker();
      assert.match(String(last().url), /\/engine\/worker\.ts$/);
      assert.deepEqual(last().options, { type: 'module' });
      last().dispatchEvent(event);
      t.assert.snapshot(await endReason);
    }
    /** @type {{ name: string, signal: AbortSignal, free: () => void }[]} */
    const lockRequests = [];
    /** @type {LockManager['request']} */
    const request = (name, { signal }, callback) =>
      new Promise((resolve, reject) => {
        signal.addEventListener('abort', () => reject(signal.reason));
        lockRequests.push({ name, signal, free: () => resolve(callback()) });
      });
    withGlobals(t, { navigator: { locks: { request } } });
    const worker = startWorker();
    worker.watch('alive 1');
    assert.equal(lockRequests[0].name, 'alive 1');
    lockRequests[0].free();
    assert.equal(await worker.endReason, 'without a word');
    worker.watch('alive 2');
    worker.terminate();
    assert.deepEqual([last().isOver, lockRequests[1].signal.aborted], [true, true]);
  });

  test('holds a liveness lock during its life, where there are locks', async (t) => {
    withGlobals(t, { navigator: {} });
    assert.equal(await browser.holdLivenessLock('a'), false);
    withGlobals(t, { navigator: { locks: { request: async () => assert.fail('refused') } } });
    assert.equal(await browser.holdLivenessLock('a'), false);
    /** @type {Promise<unknown> | undefined} */
    let lockPromise;
    /** @type {(name: string, hold: () => Promise<unknown>) => Promise<unknown>} */
    const request = (_, hold) => (lockPromise = hold());
    withGlobals(t, { navigator: { locks: { request } } });
    assert.equal(await browser.holdLivenessLock('a'), true);
    assert.equal(await Promise.race([lockPromise, browser.pause().then(() => 'held')]), 'held');
  });

  test('starts the worker of another site through one of its own', (t) => {
    withGlobals(t, {
      Worker: FakeWorker,
      location: { origin: 'https://elsewhere.example', href: 'https://elsewhere.example/x' },
    });
    startWorker();
    assert.match(String(last().url), /^blob:/);
    assert.equal(globalThis.Worker, FakeWorker);
    withGlobals(t, { location: { origin, href: import.meta.url } });
    startWorker();
    assert.doesNotMatch(String(last().url), /^blob:/);
  });

  test('creates a Trusted Types policy for its own scripts once, where the page requires it', (t) => {
    /** @type {{ createScriptURL: (url: string) => string | null }[]} */
    const rules = [];
    const trustedTypes = {
      /** @type {unknown} */
      defaultPolicy: undefined,
      /** @param {string} name @param {typeof rules[number]} rule */
      createPolicy(name, rule) {
        assert.equal(name, 'default');
        rules.push(rule);
        this.defaultPolicy = rule;
      },
    };
    withGlobals(t, {
      Worker: FakeWorker,
      location: { origin, href: import.meta.url },
      trustedTypes,
    });
    /** @type {unknown[]} */
    const messages = [];
    const thread = startThread(
      () => messages.push('ready'),
      (reason) => messages.push(reason),
    );
    startThread(
      () => {},
      () => {},
    );
    assert.equal(rules.length, 1);
    const threadUrl = new URL('thread.js', import.meta.url).href;
    assert.equal(rules[0].createScriptURL(threadUrl), threadUrl);
    assert.equal(rules[0].createScriptURL('https://elsewhere.example/thread.js'), null);
    const worker = FakeWorker.started.at(-2);
    assert.match(String(worker.url), /\/engine\/thread\.ts$/);
    worker.onmessage();
    worker.onerror({ message: 'broken' });
    worker.onerror({ message: '' });
    t.assert.snapshot(messages);
    thread.give('task');
    thread.end();
    assert.deepEqual([worker.given, worker.isOver], [['task'], true]);
  });

  test('listens to messages in a worker, and replies', (t) => {
    /** @type {unknown[]} */
    const messages = [];
    withGlobals(t, {
      onmessage: undefined,
      postMessage: (message) => messages.push(message),
      Worker: FakeWorker,
    });
    listen((task) => messages.push(['task', task]));
    globalThis.onmessage({ data: 1 });
    reply('answer');
    assert.deepEqual(messages, [['task', 1], 'answer']);
    withGlobals(t, { location: { origin, href: import.meta.url } });
    textHost.startWorker();
    assert.match(String(last().url), /\/text\/worker\.ts$/);
  });
});

/**
 * Imitates the private folder of a browser, in memory.
 * @param {'writable' | 'handle' | 'neither'} kind how files are written
 * @param {{ room?: number }} [given] `room`: the number of bytes that a write accepts
 */
function privateFolder(kind, { room = Infinity } = {}) {
  /** @type {Map<string, Uint8Array>} */
  const files = new Map();
  const log = /** @type {string[]} */ ([]);
  const handleOf = (name) => ({
    getFile: async () => new Blob([files.get(name)]),
    ...(kind === 'writable' && {
      createWritable: async () => {
        let bytes;
        return {
          write: async (data) => {
            if (data.length > room) throw new Error('quota');
            bytes = data;
          },
          abort: async () => void log.push('abort'),
          close: async () => void files.set(name, bytes),
        };
      },
    }),
    ...(kind === 'handle' && {
      createSyncAccessHandle: async () => ({
        opened: log.push('open'),
        getSize: () => files.get(name).length,
        read: (target, { at }) => {
          const content = files.get(name).subarray(at, at + target.length);
          target.set(content);
          return content.length;
        },
        truncate: (size) => files.set(name, files.get(name).slice(0, size)),
        write: (bytes, { at }) => {
          const writtenBytes = bytes.slice(0, room);
          const newContent = new Uint8Array(
            Math.max(files.get(name).length, at + writtenBytes.length),
          );
          newContent.set(files.get(name));
          newContent.set(writtenBytes, at);
          files.set(name, newContent);
          return writtenBytes.length;
        },
        flush: () => void log.push('flush'),
        close: () => void log.push('close'),
      }),
    }),
  });
  const folder = {
    async getFileHandle(name, { create = false } = {}) {
      if (!files.has(name) && !create) throw new Error('not found');
      if (!files.has(name)) files.set(name, new Uint8Array());
      return handleOf(name);
    },
    async removeEntry(name) {
      if (!files.delete(name)) throw new Error('not found');
    },
    keys: () => files.keys(),
  };
  const getDirectoryHandle = async (name, { create }) => {
    assert.deepEqual([name, create], ['sinkscope', true]);
    return folder;
  };
  return { log, storage: { getDirectory: async () => ({ getDirectoryHandle }) } };
}

async function keepsBytes(store) {
  assert.deepEqual(await store.names(), []);
  assert.equal(await store.get('a'), undefined);
  await store.remove('a');
  await store.put('a', Uint8Array.of(1, 2, 3));
  await store.put('b', Uint8Array.of(4));
  await store.put('a', Uint8Array.of(5, 6));
  assert.deepEqual((await store.names()).sort(), ['a', 'b']);
  assert.deepEqual([...(await store.get('a'))], [5, 6]);
  // The buffer of an earlier call may be reused, whatever its size.
  for (const buffer of [new Uint8Array(8), await store.get('b')])
    assert.deepEqual([...(await store.get('a', buffer))], [5, 6]);
  await store.remove('a');
  assert.deepEqual(await store.names(), ['b']);
  assert.equal(await store.get('a'), undefined);
  assert.deepEqual([...(await store.get('b'))], [4]);
}

describe('a store of bytes by name', () => {
  for (const kind of ['writable', 'handle'])
    test(`in a browser's private files, by a ${kind}`, async (t) => {
      const { storage, log } = privateFolder(kind);
      withGlobals(t, { navigator: { storage } });
      const store = await openInBrowser();
      await keepsBytes(store);
      // An open handle locks the file against other tabs.
      const openCalls = log.filter((call) => call === 'open');
      assert.equal(log.filter((call) => call === 'close').length, openCalls.length);
      assert.equal(openCalls.length > 0, kind === 'handle');
    });

  test('a buffer of the right size is reused for the bytes of a handle', async (t) => {
    withGlobals(t, { navigator: { storage: privateFolder('handle').storage } });
    const store = await openInBrowser();
    await store.put('a', Uint8Array.of(5, 6));
    for (const [size, isReused] of [
      [1, false],
      [2, true],
      [3, true],
    ]) {
      const target = new Uint8Array(size);
      const { buffer } = await store.get('a', target);
      assert.equal(buffer === target.buffer, isReused, `${size}`);
    }
  });

  test('keeps files in a folder, without temporary files', async (t) => {
    const folder = await mkdtemp(join(tmpdir(), 'sinkscope-'));
    t.after(() => rm(folder, { recursive: true }));
    const before = { ...process.env };
    t.after(() => (process.env = before));
    process.env.SINKSCOPE_CACHE = join(folder, 'own');
    await keepsBytes(await openInNode());
    assert.deepEqual(await readdir(join(folder, 'own')), ['b']);
    delete process.env.SINKSCOPE_CACHE;
    process.env.XDG_CACHE_HOME = folder;
    await (await openInNode()).put('c', Uint8Array.of(7));
    assert.deepEqual(await readdir(join(folder, 'sinkscope')), ['c']);
  });

  test('is unavailable in a private window', async (t) => {
    withGlobals(t, { navigator: { storage: { getDirectory: async () => assert.fail('denied') } } });
    assert.equal(await openInBrowser(), undefined);
    withGlobals(t, { navigator: {} });
    assert.equal(await openInBrowser(), undefined);
  });

  test('rejects a write on a full disk or without a writer', async (t) => {
    for (const [kind, expected, log] of [
      ['writable', /quota/, ['abort']],
      ['handle', /the disk is full/, ['open', 'close']],
      ['neither', /files cannot be written here/, []],
    ]) {
      const folder = privateFolder(kind, { room: 2 });
      withGlobals(t, { navigator: { storage: folder.storage } });
      const store = await openInBrowser();
      await assert.rejects(store.put('a', Uint8Array.of(1, 2, 3)), expected);
      assert.deepEqual(folder.log, log);
    }
    const folder = privateFolder('handle', { room: 2 });
    withGlobals(t, { navigator: { storage: folder.storage } });
    await (await openInBrowser()).put('a', Uint8Array.of(1, 2));
    assert.deepEqual(folder.log, ['open', 'flush', 'close']);
  });
});
