/**
 * Makes a site of a folder of releases, each in a folder of its version: `latest/` and the root lead to the newest
 * release. A release never changes, so a link into its folder always shows the same numbers.
 *
 *     tests/node web/ship/site.ts FOLDER        FOLDER has 1.0.0/, 1.1.0/ ..., and next/ for the build of the main branch
 */
import { copyFileSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { filesOf } from './parts.ts';

/** The folder of the page that the main branch builds. Its addresses last until the next commit. */
const NEXT = 'next';
const LATEST = 'latest';
const VERSION_PATTERN = /^(\d+)\.(\d+)\.(\d+)(-[\w.]+)?$/;
/** The size limit of GitHub Pages. */
const MAX_BYTES = 1e9;

/** Compares versions for sorting, older first; a pre-release precedes its release. */
function compareVersions(a: string, b: string): number {
  const [one, other] = [a, b].map((version) => VERSION_PATTERN.exec(version)!);
  for (const i of [1, 2, 3]) if (one![i] !== other![i]) return Number(one![i]) - Number(other![i]);
  if (!one![4] || !other![4]) return Number(!one![4]) - Number(!other![4]);
  return one![4].localeCompare(other![4], 'en', { numeric: true });
}

/** A script that redirects to another page and keeps the link's query, which may name its sender, and its hash. */
const REDIRECT = `location.replace(document.currentScript.getAttribute('data-to') + location.search + location.hash);
`;

/** Deletes caches and unregisters, in place of an old page's worker, which would go on to serve from its cache. */
const RETIRING_WORKER = `const { scope } = self.registration;
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

function redirectPage(page: string, to: string, script: string): string {
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

function writeRedirects(site: string, folder: string, release: string): void {
  const pathUp = (depth: number) => '../'.repeat(depth) || './';
  const folderDepth = folder ? 1 : 0;
  const write = (path: string, text: string) => {
    const file = join(site, folder, path);
    mkdirSync(dirname(file), { recursive: true });
    writeFileSync(file, text);
  };
  write('goes.js', REDIRECT);
  const releaseFolder = join(site, release);
  for (const path of filesOf(releaseFolder)) {
    if (/^(assets|engine|zoo|recordings)\//.test(path)) continue;
    const depth = path.split('/').length - 1;
    const target = `${pathUp(depth + folderDepth)}${release}/${path}`;
    if (path.endsWith('.html'))
      write(
        path,
        redirectPage(
          readFileSync(join(releaseFolder, path), 'utf8'),
          target,
          `${pathUp(depth)}goes.js`,
        ),
      );
  }
  write('sink-scope.js', `import '${pathUp(folderDepth)}${release}/sink-scope.js';\n`);
  // This is the file itself, which imports nothing: hosts copy it to their own sites.
  copyFileSync(join(releaseFolder, 'sink-widget.js'), join(site, folder, 'sink-widget.js'));
  write('sw.js', RETIRING_WORKER);
}

function headersOf(site: string, releases: readonly string[]): string {
  const rules = releases.map((release) =>
    readFileSync(join(site, release, '_headers'), 'utf8').replace(/^\//gm, `/${release}/`),
  );
  // Other sites load these paths, too. A rule for all paths would send the header twice for a release's files.
  const openPaths = [`/${LATEST}/*`, '/sink-scope.js', '/sink-widget.js'];
  return [...openPaths.map((path) => `${path}\n  Access-Control-Allow-Origin: *\n`), ...rules].join(
    '',
  );
}

/** Writes redirects and headers; returns the releases, the oldest first, and the folder of latest/ and the root. */
export function writeSite(site: string): {
  readonly versions: string[];
  readonly newestFolder: string;
} {
  const folders = readdirSync(site, { withFileTypes: true })
    .filter((entry) => entry.isDirectory())
    .map(({ name }) => name);
  const versions = folders.filter((name) => VERSION_PATTERN.test(name)).sort(compareVersions);
  const stableVersions = versions.filter((version) => !version.includes('-'));
  const newestFolder =
    stableVersions.at(-1) ?? versions.at(-1) ?? (folders.includes(NEXT) ? NEXT : undefined);
  if (!newestFolder) throw new Error(`${site}: expected folders named by a version, or ${NEXT}`);
  rmSync(join(site, LATEST), { recursive: true, force: true });
  for (const folder of ['', LATEST]) writeRedirects(site, folder, newestFolder);
  const servedFolders = [...versions, ...folders.filter((name) => name === NEXT)];
  writeFileSync(join(site, '_headers'), headersOf(site, servedFolders));
  writeFileSync(
    join(site, 'versions.json'),
    `${JSON.stringify({ latest: newestFolder, versions })}\n`,
  );
  return { versions, newestFolder };
}

if (import.meta.main) {
  const [site] = process.argv.slice(2);
  if (!site) throw new Error('expected the folder of the releases');
  const { versions, newestFolder } = writeSite(site);
  const bytes = filesOf(site).reduce((sum, file) => sum + readFileSync(join(site, file)).length, 0);
  console.log(
    `${versions.length} releases, latest/ leads to ${newestFolder}: ${(bytes / 1e6).toFixed(0)} MB`,
  );
  if (bytes > MAX_BYTES)
    throw new Error(
      `${site}: GitHub Pages publishes 1 GB; older releases need a host with more room`,
    );
}
