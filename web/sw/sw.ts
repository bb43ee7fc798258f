/**
 * The service worker: after one visit, the visited rooms work without a network.
 *
 * The page's own files are cached as one set (Workbox's precache): a visit is answered from one build
 * throughout, and the next build takes over when no tab shows this one. Models are cached when they are
 * first used, under addresses that carry the hash of the zoo. A response enters or leaves a cache only if its
 * SHA-256 is the one that the build lists, so neither a login page in place of a file nor a damaged
 * file stays.
 */
import type { WorkboxPlugin } from 'workbox-core';
import { ExpirationPlugin } from 'workbox-expiration';
import { addPlugins, cleanupOutdatedCaches, precacheAndRoute } from 'workbox-precaching';
import { registerRoute } from 'workbox-routing';
import { CacheFirst } from 'workbox-strategies';
import { HASH_BYTES, listedFor, unpackList } from './listed';

declare const self: ServiceWorkerGlobalScope;
declare const ZOO: string;
/** The build's packed list of files (listed.ts). */
declare const LIST: string;
const files = unpackList(LIST, ZOO);
const hashes = Object.fromEntries(files.map((file) => [file.path, file.hashes]));

/** The number of cached models, tokenizers and checkpoints: about 300 MB if each is the largest. */
const MOST_FILES = 150;

const { scope } = self.registration;
/** Returns a build's cache name. One site may have two builds, and each deletes only its own caches. */
const cacheName = (zoo: string) => `sinkscope ${scope} ${zoo}`;

/**
 * Headers that isolate the page on hosts that send none, from its second visit on: browsers give shared memory only to
 * a cross-origin isolated page. They ignore Document-Isolation-Policy (ship/policy.ts) from a service worker, but
 * accept these two headers; the page opens no windows and loads other sites' files only with CORS.
 */
const ISOLATION = {
  'Cross-Origin-Opener-Policy': 'same-origin',
  'Cross-Origin-Embedder-Policy': 'require-corp',
};

const hashesOf = (address: string) => listedFor(hashes, scope, address);

async function isListed(address: string, response: Response): Promise<boolean> {
  const listed = hashesOf(address);
  if (!listed || !response.ok) return false;
  const digest = await crypto.subtle.digest('SHA-256', await response.clone().arrayBuffer());
  return listed.includes(btoa(String.fromCharCode(...new Uint8Array(digest, 0, HASH_BYTES))));
}

/** A Workbox plugin that lets only files with a listed hash into and out of a cache. */
const checked: WorkboxPlugin = {
  // Takes files from the browser's cache at any age, since their hash shows whether they are of this build.
  // An integrity attribute would refuse a wrong file before `fetchDidSucceed` could fetch it again.
  async requestWillFetch({ request }) {
    return new Request(request, { integrity: '', cache: 'force-cache' });
  },
  async fetchDidSucceed({ request, response }) {
    if (await isListed(request.url, response)) return response;
    // The browser's cache may have a wrong file, so this request bypasses it.
    return fetch(request.url, { cache: 'reload' }).catch(() => response);
  },
  async cacheWillUpdate({ request, response }) {
    return (await isListed(request.url, response)) ? response : null;
  },
  async cachedResponseWillBeUsed({ request, cachedResponse }) {
    return cachedResponse && (await isListed(request.url, cachedResponse)) ? cachedResponse : null;
  },
};

addPlugins([
  checked,
  {
    async handlerWillRespond({ response }) {
      const headers = new Headers(response.headers);
      for (const [name, value] of Object.entries(ISOLATION)) headers.set(name, value);
      const { status, statusText } = response;
      return new Response(response.body, { status, statusText, headers });
    },
  },
]);
// Workbox repairs a damaged cache only for entries that state an integrity; `checked` does the comparison, with LIST.
const integrity = 'sha256-';
// The addresses of assets, engines and models contain a hash; the others need a revision.
precacheAndRoute(
  files
    .filter((file) => file.ahead)
    .map(({ path, hashes: [hash] }) => ({
      url: path,
      revision: /^(assets|engine|recordings|zoo)\//.test(path) ? null : hash!,
      integrity,
    })),
  { ignoreURLParametersMatching: [/^utm_/] },
);
cleanupOutdatedCaches();

registerRoute(
  ({ url }) => url.href.startsWith(scope) && hashesOf(url.href) !== undefined,
  new CacheFirst({
    cacheName: cacheName(ZOO),
    plugins: [checked, new ExpirationPlugin({ maxEntries: MOST_FILES, purgeOnQuotaError: true })],
  }),
);

self.addEventListener('activate', (event) => {
  event.waitUntil(
    (async () => {
      for (const cache of await caches.keys())
        if (cache.startsWith(cacheName('')) && cache !== cacheName(ZOO)) await caches.delete(cache);
      await self.clients.claim();
    })(),
  );
});

self.addEventListener('message', ({ data }) => {
  if (data?.type === 'SKIP_WAITING') void self.skipWaiting();
});
