/** Keeps what a visit saw for the next one, which may have no network. */
import { base } from './base';

/** After what the reader waits for; until then the network is theirs. */
const LATER_MS = 2000;

/** Starts the service worker, and lets it keep what was fetched before it ran. */
export function keepForOffline(): void {
  if (!('serviceWorker' in navigator)) return;
  addEventListener('load', () =>
    setTimeout(() => {
      // A browser that keeps nothing, or a host without the file: the page works as before.
      start().catch(() => {});
    }, LATER_MS),
  );
}

async function start(): Promise<void> {
  await navigator.serviceWorker.register('sw.js');
  const { active } = await navigator.serviceWorker.ready;
  const urlsToCache = performance
    .getEntriesByType('resource')
    .map(({ name }) => name)
    .filter((name) => name.startsWith(new URL(ZOO, base).href));
  active?.postMessage({ type: 'CACHE_URLS', payload: { urlsToCache } });
}
