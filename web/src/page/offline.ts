/** Keeps what a visit saw for the next one, which may have no network. */
import { base } from '../base';

/** After what the reader waits for; until then the network is theirs. */
const LATER_MS = 2000;

/**
 * Starts the service worker, and lets it keep what was fetched before it ran.
 * @param offer called when a newer build has come, with what takes it up
 */
export function keepForOffline(offer: (take: () => void) => void): void {
  if (!('serviceWorker' in navigator)) return;
  addEventListener('load', () =>
    setTimeout(() => {
      // A browser that keeps nothing, or a host without the file: the page works as before.
      start(offer).catch(() => {});
    }, LATER_MS),
  );
}

async function start(offer: (take: () => void) => void): Promise<void> {
  const { serviceWorker } = navigator;
  // Of a first visit there is none, and what comes then is no newer build.
  const isLater = Boolean(serviceWorker.controller);
  let isTaken = false;
  serviceWorker.addEventListener('controllerchange', () => {
    if (isTaken) location.reload();
    // Another tab has taken it: files of this build are gone.
    else if (isLater) offer(() => location.reload());
  });
  const registration = await serviceWorker.register('sw.js');
  const look = (worker: ServiceWorker | null) => {
    if (worker?.state !== 'installed' || !serviceWorker.controller) return;
    offer(() => {
      isTaken = true;
      worker.postMessage({ type: 'SKIP_WAITING' });
    });
  };
  look(registration.waiting);
  registration.addEventListener('updatefound', () => {
    const coming = registration.installing;
    coming?.addEventListener('statechange', () => look(coming));
  });
  const { active } = await serviceWorker.ready;
  const urlsToCache = performance
    .getEntriesByType('resource')
    .map(({ name }) => name)
    .filter((name) => name.startsWith(new URL(ZOO, base).href));
  active?.postMessage({ type: 'CACHE_URLS', payload: { urlsToCache } });
}
