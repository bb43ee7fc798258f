/**
 * Adds addresses to a folder of releases, each in a folder of its version: `latest/` and the root lead to the newest
 * release. A release never changes, so a link into its folder always shows the same numbers.
 *
 *     node web/ship/site.ts FOLDER        FOLDER holds 1.0.0/, 1.1.0/ ... and, of the main branch, next/
 */
import { copyFileSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { filesOf } from './parts.ts';

/** The folder of the page that main builds. Its addresses last until the next commit. */
const NEXT = 'next';
const LATEST = 'latest';
const VERSION = /^(\d+)\.(\d+)\.(\d+)(-[\w.]+)?$/;
/** The size limit of GitHub Pages. */
const MOST_BYTES = 1e9;

/** Orders versions, older first; a pre-release precedes its release. */
function compare(a: string, b: string): number {
  const [one, other] = [a, b].map((version) => VERSION.exec(version)!);
  for (const i of [1, 2, 3]) if (one![i] !== other![i]) return Number(one![i]) - Number(other![i]);
  if (!one![4] || !other![4]) return Number(!one![4]) - Number(!other![4]);
  return one![4].localeCompare(other![4], 'en', { numeric: true });
}

/** A link's hash names its state, and a query may name its sender: the redirect keeps both. */
const GOES = `location.replace(document.currentScript.getAttribute('data-to') + location.search + location.hash);
`;

/**
 * Replaces the service worker that an old page without version folders had registered at this address: it would serve
 * that page from its cache, so it deletes its caches and unregisters.
 */
const ENDS = `const { scope } = self.registration;
self.addEventListener('install', () => self.skipWaiting());
self.addEventListener('activate', (event) =>
  event.waitUntil(
    (async () => {
      const isOwn = (name) => name.endsWith(scope) || name.startsWith('sinkscope ' + scope + ' ');
      for (const name of await caches.keys()) if (isOwn(name)) await caches.delete(name);
      await self.registration.unregister();
      for (const client of await self.clients.matchAll()) client.navigate(client.url);
    })(),
  ),
);
`;

/** The page leads to another one. What a preview of a link shows is the other one's. */
function leading(page: string, to: string, script: string): string {
  const head = page.match(
    /<meta (?:charset|name|property|http-equiv)[^>]*>|<title>[^<]*<\/title>/g,
  );
  return `<!doctype html>
<html lang="en">
  <head>
    ${(head ?? []).join('\n    ')}
    <link rel="canonical" href="${to}" />
    <link rel="icon" href="data:," />
    <noscript><meta http-equiv="refresh" content="0; url=${to}" /></noscript>
    <script src="${script}" data-to="${to}"></script>
  </head>
  <body>
    <p><a href="${to}">This page</a></p>
  </body>
</html>
`;
}

/** Writes into `folder`, below `site`, what leads to the release of that name. */
function lead(site: string, folder: string, release: string): void {
  const up = (depth: number) => '../'.repeat(depth) || './';
  const below = folder ? 1 : 0;
  const write = (path: string, text: string) => {
    const file = join(site, folder, path);
    mkdirSync(dirname(file), { recursive: true });
    writeFileSync(file, text);
  };
  write('goes.js', GOES);
  const releaseFolder = join(site, release);
  for (const path of filesOf(releaseFolder)) {
    if (/^(assets|engine|zoo|recordings)\//.test(path)) continue;
    const depth = path.split('/').length - 1;
    const to = `${up(depth + below)}${release}/${path}`;
    if (path.endsWith('.html'))
      write(
        path,
        leading(readFileSync(join(releaseFolder, path), 'utf8'), to, `${up(depth)}goes.js`),
      );
  }
  write('sink-scope.js', `import '${up(below)}${release}/sink-scope.js';\n`);
  // A host copies this file to its own site, so it has no imports.
  copyFileSync(join(releaseFolder, 'sink-widget.js'), join(site, folder, 'sink-widget.js'));
  write('sw.js', ENDS);
}

/** Prefixes the rules of each release with its folder. */
function headersOf(site: string, releases: readonly string[]): string {
  const rules = releases.map((release) =>
    readFileSync(join(site, release, '_headers'), 'utf8').replace(/^\//gm, `/${release}/`),
  );
  // Other sites load these as well. A rule for all paths would send the header twice for a release's files.
  const open = [`/${LATEST}/*`, '/sink-scope.js', '/sink-widget.js'];
  return [...open.map((path) => `${path}\n  Access-Control-Allow-Origin: *\n`), ...rules].join('');
}

/** @returns the releases, the oldest first, and the folder that latest/ and the root lead to */
export function writeSite(site: string): { readonly versions: string[]; readonly newest: string } {
  const folders = readdirSync(site, { withFileTypes: true })
    .filter((entry) => entry.isDirectory())
    .map(({ name }) => name);
  const versions = folders.filter((name) => VERSION.test(name)).sort(compare);
  const stable = versions.filter((version) => !version.includes('-'));
  const newest = stable.at(-1) ?? versions.at(-1) ?? (folders.includes(NEXT) ? NEXT : undefined);
  if (!newest) throw new Error(`${site}: expected folders named by a version, or ${NEXT}`);
  rmSync(join(site, LATEST), { recursive: true, force: true });
  for (const folder of ['', LATEST]) lead(site, folder, newest);
  const all = [...versions, ...folders.filter((name) => name === NEXT)];
  writeFileSync(join(site, '_headers'), headersOf(site, all));
  writeFileSync(join(site, 'versions.json'), `${JSON.stringify({ latest: newest, versions })}\n`);
  return { versions, newest };
}

if (import.meta.main) {
  const [site] = process.argv.slice(2);
  if (!site) throw new Error('expected the folder of the releases');
  const { versions, newest } = writeSite(site);
  const bytes = filesOf(site).reduce((sum, file) => sum + readFileSync(join(site, file)).length, 0);
  console.log(
    `${versions.length} releases, latest/ leads to ${newest}: ${(bytes / 1e6).toFixed(0)} MB`,
  );
  if (bytes > MOST_BYTES)
    throw new Error(
      `${site}: GitHub Pages publishes 1 GB; older releases need a host with more room`,
    );
}
