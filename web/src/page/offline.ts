/** Caches the files of a visit for the next one, which may be offline. */
import { base, savesData } from '../base';

/** Caching waits this many milliseconds, so that the reader's own requests come first. */
const CACHE_DELAY_MS = 2000;

let caching: Promise<unknown> = Promise.resolve();

/** Resolves once the service worker answers for the page's files, so that none is fetched twice, or there is none. */
export const filesCached = (): Promise<unknown> => caching;

/**
 * Starts the service worker, unless the browser saves data: it fetches the other files, too.
 * @param offer gets a function that activates a newer build
 */
export function keepForOffline(offer: (activate: () => void) => void): void {
  if (!('serviceWorker' in navigator)) return;
  if (savesData() && !navigator.serviceWorker.controller) return;
  const delay = new Promise((done) =>
    addEventListener('load', () => setTimeout(done, CACHE_DELAY_MS)),
  );
  // Without a service worker the page works, only not offline.
  caching = delay.then(() => startServiceWorker(offer)).catch(() => {});
}

async function startServiceWorker(offer: (activate: () => void) => void): Promise<void> {
  const { serviceWorker } = navigator;
  // On a first visit no service worker controls the page, so the new one is not an update.
  const hadController = Boolean(serviceWorker.controller);
  let isAccepted = false;
  serviceWorker.addEventListener('controllerchange', () => {
    if (isAccepted) location.reload();
    // Another tab has activated the newer build, whose service worker deletes the old files.
    else if (hadController) offer(() => location.reload());
  });
  const registration = await serviceWorker.register('sw.js');
  // A page that was reloaded past its service worker gets none: an active one takes over no page a second time.
  const isPastWorker = Boolean(registration.active) && !serviceWorker.controller;
  const offerWorker = (worker: ServiceWorker | null) => {
    if (worker?.state !== 'installed' || !serviceWorker.controller) return;
    offer(() => {
      isAccepted = true;
      worker.postMessage({ type: 'SKIP_WAITING' });
    });
  };
  const offerOnceInstalled = () => {
    const newWorker = registration.installing;
    newWorker?.addEventListener('statechange', () => offerWorker(newWorker));
  };
  offerWorker(registration.waiting);
  // Another tab may have found the newer build just before: it is being installed, and `updatefound` is past.
  offerOnceInstalled();
  registration.addEventListener('updatefound', offerOnceInstalled);
  // A first one that cannot be installed, as where the disk is full, is never ready.
  const isInstalled = Promise.race([serviceWorker.ready, whenRedundant(registration.installing)]);
  const active = (await isInstalled)?.active;
  const urlsToCache = performance
    .getEntriesByType('resource')
    .map(({ name }) => name)
    .filter((name) => name.startsWith(new URL(ZOO, base).href));
  active?.postMessage({ type: 'CACHE_URLS', payload: { urlsToCache } });
  if (serviceWorker.controller || isPastWorker || !active) return;
  await new Promise((done) =>
    serviceWorker.addEventListener('controllerchange', done, { once: true }),
  );
}

/** Resolves once a service worker has failed to install; never for one that succeeds, or for none. */
function whenRedundant(worker: ServiceWorker | null): Promise<undefined> {
  return new Promise((done) =>
    worker?.addEventListener('statechange', () => {
      if (worker.state === 'redundant') done(undefined);
    }),
  );
}
