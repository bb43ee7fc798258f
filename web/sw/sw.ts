/**
 * The service worker: after one visit, what was seen works without a network.
 *
 * The page's own files are kept as one set (Workbox's precache): a visit is answered from one build
 * throughout, and the next build takes over when no tab shows this one. Models are kept as they are
 * seen, under addresses that carry the hash of the zoo.
 */
import { ExpirationPlugin } from 'workbox-expiration';
import { cleanupOutdatedCaches, precacheAndRoute, type PrecacheEntry } from 'workbox-precaching';
import { registerRoute } from 'workbox-routing';
import { CacheFirst } from 'workbox-strategies';

declare const self: ServiceWorkerGlobalScope;
declare const FILES: PrecacheEntry[];
declare const ZOO: string;

/** The engines that train, that multiply in eight bits, and that of threads. */
const OTHERS = /\/sinkscope\.(lab|eight|threads)[.\w]*\.wasm$/;
/** Of models, tokenizers and checkpoints together: about 300 MB where each is the largest. */
const MOST_FILES = 150;

const { scope } = self.registration;
/** Two builds may lie on one site; each clears up after itself only. */
const name = (zoo: string) => `sinkscope ${scope} ${zoo}`;

precacheAndRoute(FILES, { ignoreURLParametersMatching: [/^utm_/] });
cleanupOutdatedCaches();

registerRoute(
  ({ url }) => url.href.startsWith(scope + ZOO) || OTHERS.test(url.pathname),
  new CacheFirst({
    cacheName: name(ZOO),
    plugins: [new ExpirationPlugin({ maxEntries: MOST_FILES, purgeOnQuotaError: true })],
  }),
);

self.addEventListener('activate', (event) => {
  event.waitUntil(
    (async () => {
      for (const cache of await caches.keys())
        if (cache.startsWith(name('')) && cache !== name(ZOO)) await caches.delete(cache);
      await self.clients.claim();
    })(),
  );
});

self.addEventListener('message', ({ data }) => {
  if (data?.type === 'SKIP_WAITING') void self.skipWaiting();
});
