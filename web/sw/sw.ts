/**
 * The service worker: after one visit, what was seen works without a network.
 *
 * The page's own files are kept as one set (Workbox's precache): a visit is answered from one build
 * throughout, and the next build takes over when no tab shows this one. Models are kept as they are
 * seen, under addresses that carry the hash of the zoo.
 */
import { ExpirationPlugin } from 'workbox-expiration';
import {
  addPlugins,
  cleanupOutdatedCaches,
  precacheAndRoute,
  type PrecacheEntry,
} from 'workbox-precaching';
import { registerRoute } from 'workbox-routing';
import { CacheFirst } from 'workbox-strategies';

declare const self: ServiceWorkerGlobalScope;
declare const FILES: PrecacheEntry[];
declare const ZOO: string;

/** The engines that train, and those that multiply in eight bits. */
const OTHERS = /\/sinkscope\.(lab|eight)[.\w]*\.wasm$/;
/** Of models, tokenizers and checkpoints together: about 300 MB where each is the largest. */
const MOST_FILES = 150;

const { scope } = self.registration;
/** Two builds may lie on one site; each clears up after itself only. */
const name = (zoo: string) => `sinkscope ${scope} ${zoo}`;

/**
 * Memory that threads share is for a page that its headers set apart from other sites. Many hosts let
 * nobody choose headers: there a page is set apart from its second visit on. Browsers do not take
 * Document-Isolation-Policy (ship/policy.ts) from a service worker; these two they do, and nothing here
 * opens windows or loads other sites' files but with CORS.
 */
const APART = {
  'Cross-Origin-Opener-Policy': 'same-origin',
  'Cross-Origin-Embedder-Policy': 'require-corp',
};

addPlugins([
  {
    async handlerWillRespond({ response }) {
      const headers = new Headers(response.headers);
      for (const [name, value] of Object.entries(APART)) headers.set(name, value);
      const { status, statusText } = response;
      return new Response(response.body, { status, statusText, headers });
    },
  },
]);
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
