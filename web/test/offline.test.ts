// @vitest-environment happy-dom
// Checks that whoever waits for the cached files is answered, whatever becomes of the service worker.
import { afterEach, beforeEach, expect, test, vi } from 'vitest';

/** A service worker of one state that tells of its changes. */
class Worker extends EventTarget {
  state = 'installing';
  readonly postMessage = vi.fn();

  become(state: string) {
    this.state = state;
    this.dispatchEvent(new Event('statechange'));
  }
}

/** The browser's container, with the workers that a visit finds. */
class Container extends EventTarget {
  controller: Worker | null = null;
  readonly registration = Object.assign(new EventTarget(), {
    installing: null as Worker | null,
    waiting: null,
    active: null as Worker | null,
  });
  makeReady!: () => void;
  readonly ready = new Promise((done) => (this.makeReady = () => done(this.registration)));
  readonly register = () => Promise.resolve(this.registration);
}

let container: Container;
beforeEach(() => {
  vi.useFakeTimers();
  vi.resetModules();
  container = new Container();
  vi.stubGlobal('navigator', { serviceWorker: container });
});
afterEach(() => {
  vi.useRealTimers();
  vi.unstubAllGlobals();
});

/** Starts the service worker as the page does, and returns whether the wait for the files has ended. */
async function startPage() {
  const { keepForOffline, filesCached } = await import('../src/page/offline');
  keepForOffline(vi.fn());
  dispatchEvent(new Event('load'));
  let isOver = false;
  void filesCached().then(() => (isOver = true));
  await vi.runAllTimersAsync();
  return async () => {
    await vi.runAllTimersAsync();
    return isOver;
  };
}

test('a first visit waits until its worker answers for the page', async () => {
  const { registration } = container;
  const worker = (registration.installing = new Worker());
  const isOver = await startPage();
  registration.active = worker;
  container.makeReady();
  expect(await isOver()).toBe(false);
  expect(worker.postMessage).toHaveBeenCalledOnce();
  container.dispatchEvent(new Event('controllerchange'));
  expect(await isOver()).toBe(true);
});

test('a worker that cannot be installed keeps nobody waiting', async () => {
  const worker = (container.registration.installing = new Worker());
  const isOver = await startPage();
  expect(await isOver()).toBe(false);
  worker.become('redundant');
  expect(await isOver()).toBe(true);
});

test('a page that was reloaded past its worker does not wait for it', async () => {
  container.registration.active = new Worker();
  container.makeReady();
  expect(await (await startPage())()).toBe(true);
});
