/** Tests a second visit: without a network, and after the host has taken up another build. */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { readdirSync } from 'node:fs';
import { cp, readFile, readdir, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { createHost, pageRoot, root, until } from './stage.mjs';

const NEXT = { page: join(root, '.build/page-next'), zoo: join(root, '.build/zoo-next') };

let buildingNext;
const buildNextOnce = () => (buildingNext ??= buildNext());

/** Builds the page again: every file differs, and the zoo has two models. */
async function buildNext() {
  const zoo = join(root, 'models/zoo');
  await rm(NEXT.zoo, { recursive: true, force: true });
  for (const name of ['softmax', 'sigmoid', 'heldout.json'])
    await cp(join(zoo, name), join(NEXT.zoo, name), { recursive: true });
  const cards = JSON.parse(await readFile(join(zoo, 'index.json')));
  const twoCards = cards.filter(({ id }) => ['softmax', 'sigmoid'].includes(id));
  await writeFile(join(NEXT.zoo, 'index.json'), JSON.stringify(twoCards));
  const env = { ...process.env, SINKSCOPE_PAGE: NEXT.page, SINKSCOPE_ZOO: NEXT.zoo };
  const vite = join(root, 'web/node_modules/vite/bin/vite.js');
  await promisify(execFile)(process.execPath, [vite, 'build', '--minify', 'false'], {
    cwd: join(root, 'web'),
    env,
  });
}

/** Returns the folder of the models of a build. Its name contains their hash. */
const zooOf = (page) => `/zoo/${readdirSync(join(page, 'zoo'))[0]}/`;

async function openHost() {
  let folder = pageRoot;
  let intercepted = /^$/;
  let interceptedCount = 0;
  const page = '<!doctype html><title>Log in to this network</title>';
  const login = {
    body: page,
    headers: { 'content-type': 'text/html', 'cache-control': 'max-age=600' },
  };
  // Like most hosts, this one does not send the headers of `_headers`.
  const host = createHost({
    folder: () => folder,
    sentHeaders: {},
    instead(path) {
      if (!intercepted.test(path)) return undefined;
      interceptedCount++;
      return login;
    },
  });
  await new Promise((done) => host.listen(0, '127.0.0.1', done));
  return {
    address: `http://127.0.0.1:${host.address().port}/`,
    serve: (other) => (folder = other),
    /** Makes the host answer matching paths with a login page, which browsers may cache for ten minutes. */
    interpose: (paths) => (intercepted = paths),
    relent: () => (intercepted = /^$/),
    interceptedCount: () => interceptedCount,
    close() {
      host.close();
      host.closeAllConnections();
    },
  };
}

async function visit(context, address, path = '') {
  const page = await context.newPage();
  page.loaded = [];
  page.on('response', (answer) => page.loaded.push(answer));
  await page.goto(address + path);
  return page;
}

const waitUntilDrawn = (page) =>
  page.waitForFunction(() => performance.getEntriesByName('first-sink').length > 0);

/** Waits until the page has asked for a model of the next build; a failure says which service workers there are. */
async function waitUntilOfNext(page) {
  const asksForNext = (zoo) =>
    performance.getEntriesByType('resource').some(({ name }) => name.includes(zoo));
  await page.waitForFunction(asksForNext, zooOf(NEXT.page)).catch(async (error) => {
    const state = await page.evaluate(async () => {
      const registration = await navigator.serviceWorker.getRegistration();
      const workers = [registration.installing, registration.waiting, registration.active];
      const resources = performance.getEntriesByType('resource').length;
      return {
        states: workers.map((worker) => worker?.state ?? null),
        now: performance.now(),
        resources,
      };
    });
    throw new Error(`${error.message}: ${JSON.stringify(state)}`);
  });
}

const isIsolated = (page) => page.evaluate(() => crossOriginIsolated);

async function waitUntilCached(page, ...paths) {
  await page.waitForFunction(() => navigator.serviceWorker.controller);
  for (const path of paths)
    await until(async () => (await cachedAddresses(page, /./)).some((url) => url.endsWith(path)));
}

async function loadWeights(page, address) {
  await page.goto(`${address}#room=compare`);
  await waitUntilCached(page, 'softmax/packed.gz', 'sigmoid/packed.gz');
  await page.goto(`${address}#room=start`);
}

const cachedAddresses = (page, pattern) =>
  page.evaluate(async (source) => {
    const urls = [];
    for (const name of await caches.keys())
      for (const { url } of await (await caches.open(name)).keys()) urls.push(url.split('?')[0]);
    return urls.filter((url) => new RegExp(source).test(url));
  }, pattern.source);

/** Counts the loaded files of the build in `folder`; fails at any other file. */
async function countFilesOf(page, address, folder) {
  const buildResponses = page.loaded.filter(
    (response) => response.url().startsWith(address) && response.ok(),
  );
  for (const response of buildResponses) {
    const path = new URL(response.url()).pathname.slice(1) || 'index.html';
    const expected = await readFile(join(folder, path)).catch(() =>
      assert.fail(`${path} is not of ${folder}`),
    );
    const body = await response.body().catch(() => undefined);
    if (body) assert.ok(body.equals(expected), `${path} is as in ${folder}`);
  }
  return buildResponses.length;
}

async function withContext(stage, use) {
  const context = await stage.browser.newContext({ serviceWorkers: 'allow' });
  const host = await openHost();
  try {
    return await use(context, host);
  } finally {
    await context.close();
    host.close();
  }
}

export const offline = {
  'after one visit, the visited rooms work without a network': (stage) =>
    withContext(stage, async (context, host) => {
      const page = await visit(context, host.address);
      await waitUntilDrawn(page);
      assert.ok(!(await isIsolated(page)), 'this host sends no headers');
      await waitUntilCached(page, 'softmax/packed.gz', 'sigmoid/packed.gz');
      const cachedEarly = await cachedAddresses(page, /recordings\/|\.lab\.|assets\/\d-|picture/);
      assert.deepEqual(cachedEarly, [], 'what few readers ask for is fetched on demand');
      await loadWeights(page, host.address);
      await page.goto(`${host.address}#room=explore&shown=gated`);
      // Wait until the model is drawn: an aborted download is not cached.
      await page.waitForFunction(() =>
        [...document.querySelectorAll('.stamp')].some((stamp) => /Gated/.test(stamp.textContent)),
      );
      await waitUntilCached(page, 'gated/model.safetensors', 'softmax/tokenizer.json');
      await page.close();
      host.close();
      const secondPage = await visit(context, host.address);
      await waitUntilDrawn(secondPage);
      assert.ok(await isIsolated(secondPage), 'threads may share memory, though no host says so');
      const gatedPage = await visit(context, host.address, '#room=explore&shown=gated');
      await waitUntilDrawn(gatedPage);
      const figurePage = await visit(context, host.address, 'embed.html#view=attention');
      await waitUntilDrawn(figurePage);
      const lessonPage = await visit(context, host.address, 'learn/1-what-is-an-attention-sink/');
      await lessonPage.locator('#map[data-live]').waitFor();
      const reluPage = await visit(context, host.address, '#room=explore&shown=relu');
      await reluPage.waitForFunction(() => /relu/i.test(document.body.textContent));
      const networkResponses = secondPage.loaded.filter(
        (response) => !response.fromServiceWorker() && !/^data:/.test(response.url()),
      );
      assert.deepEqual(
        networkResponses.map((response) => response.url()),
        [],
      );
    }),

  'a newer build is offered, and a click takes it up, in every tab': (stage) =>
    withContext(stage, async (context, host) => {
      await buildNextOnce();
      const page = await visit(context, host.address);
      await waitUntilDrawn(page);
      await waitUntilCached(page, 'softmax/packed.gz');
      await loadWeights(page, host.address);
      host.serve(NEXT.page);
      const [other, second] = [
        await visit(context, host.address),
        await visit(context, host.address, '#room=compare'),
      ];
      await waitUntilDrawn(other);
      await waitUntilDrawn(second);
      await other.waitForFunction(() => navigator.serviceWorker.controller);
      await second.evaluate(async () => (await navigator.serviceWorker.getRegistration()).update());
      await second.getByRole('button', { name: 'Reload' }).click();
      await waitUntilOfNext(second);
      assert.match(second.url(), /room=compare/, 'what was shown is shown again');
      await other.getByRole('button', { name: 'Reload' }).click();
      await waitUntilDrawn(other);
      await waitUntilOfNext(other);
    }),

  'after the host takes up another build, a visit is of one build throughout': (stage) =>
    withContext(stage, async (context, host) => {
      await buildNextOnce();
      const files = (await readdir(NEXT.page, { recursive: true })).length;
      const page = await visit(context, host.address);
      await waitUntilDrawn(page);
      await waitUntilCached(page, 'softmax/packed.gz', 'sigmoid/packed.gz');
      await loadWeights(page, host.address);
      const firstCount = await countFilesOf(page, host.address, pageRoot);
      host.serve(NEXT.page);
      // While the old build is in use, a second tab and its late requests get the old build too.
      const secondPage = await visit(context, host.address);
      await waitUntilDrawn(secondPage);
      await until(() =>
        secondPage.evaluate(async () => {
          const registration = await navigator.serviceWorker.getRegistration();
          await registration.update();
          return registration.waiting !== null;
        }),
      );
      await secondPage.goto(`${host.address}#room=compare&shown=softmax,sigmoid`);
      await secondPage.waitForSelector('.view-attention canvas, .trouble, .message.error');
      assert.deepEqual(await secondPage.locator('.trouble, .message.error').allTextContents(), []);
      const middleCount = await countFilesOf(secondPage, host.address, pageRoot);
      // A model that was not cached is lost with the old build: the page says so, and never takes it from the new one.
      await secondPage.goto(`${host.address}#room=explore&shown=gated`);
      await secondPage.waitForFunction(() =>
        /404|could not be fetched/.test(document.body.textContent),
      );
      await page.close();
      await secondPage.close();
      // The old build is deleted when no tab shows it; each visit uses one build.
      let lastCount = 0;
      while (!lastCount) {
        const thirdPage = await visit(context, host.address);
        await waitUntilDrawn(thirdPage);
        const isNext = thirdPage.loaded.some((response) =>
          response.url().includes(zooOf(NEXT.page)),
        );
        const count = await countFilesOf(thirdPage, host.address, isNext ? NEXT.page : pageRoot);
        if (isNext) lastCount = count;
        await thirdPage.close();
      }
      assert.ok(firstCount > 8 && middleCount > 8 && lastCount > 8);
      return `${firstCount}, ${middleCount} and ${lastCount} files looked at; the other build has ${files}`;
    }),

  'a room that another build has replaced leaves the old one standing, and offers the newer version':
    async (stage) => {
      await buildNextOnce();
      const host = await openHost();
      const context = await stage.browser.newContext({ serviceWorkers: 'block' });
      try {
        const page = await visit(context, host.address);
        await waitUntilDrawn(page);
        host.serve(NEXT.page);
        await page.getByRole('link', { name: 'Compare', exact: true }).click();
        await page.getByText('A newer version of this page is available.').waitFor();
        assert.ok(
          await page.locator('.room-start [data-view="attention"] canvas').first().isVisible(),
        );
        assert.equal(await page.locator('.message.error:visible').count(), 0);
        assert.match(await page.title(), /^Why do language models/);
        await page.getByRole('button', { name: 'Reload' }).click();
        await page.getByRole('link', { name: 'Compare', exact: true }).click();
        await page.waitForSelector('.room-compare');
        // An unreachable host must not count as a newer version.
        await context.setOffline(true);
        await page.getByRole('link', { name: 'Training', exact: true }).click();
        await page.locator('.message.error').waitFor();
        assert.ok(await page.locator('.room-compare').isVisible());
        assert.equal(await page.getByText('A newer version').count(), 0);
        await context.setOffline(false);
        await page.getByRole('link', { name: 'Training', exact: true }).click();
        await page.waitForSelector('.room-training');
      } finally {
        await context.close();
        host.close();
      }
    },

  'a login page in place of a file is never cached, and Try again gets the file': (stage) =>
    withContext(stage, async (context, host) => {
      const page = await visit(context, host.address);
      await waitUntilDrawn(page);
      await waitUntilCached(page, 'softmax/packed.gz');
      host.interpose(/gated\/(model.safetensors|config.json)$/);
      await page.goto(`${host.address}#room=explore&shown=gated`);
      await page.getByRole('alert').getByRole('button', { name: 'Try again' }).waitFor();
      assert.deepEqual(await cachedAddresses(page, /gated\/model\.safetensors$/), []);
      host.relent();
      await page.getByRole('alert').getByRole('button', { name: 'Try again' }).click();
      await page.waitForFunction(() =>
        [...document.querySelectorAll('.stamp')].some((stamp) => /Gated/.test(stamp.textContent)),
      );
      await waitUntilCached(page, 'gated/model.safetensors');
    }),

  'a login page in place of a file of the page ends the installation, and the next visit installs':
    (stage) =>
      withContext(stage, async (context, host) => {
        host.interpose(/reported\.json$/);
        const page = await visit(context, host.address);
        await waitUntilDrawn(page);
        // Only the installation asks for this file.
        await until(() => host.interceptedCount() > 0);
        await until(() =>
          page.evaluate(
            async () => (await navigator.serviceWorker.getRegistration()) === undefined,
          ),
        );
        assert.equal(await page.evaluate(() => navigator.serviceWorker.controller), null);
        assert.deepEqual(await cachedAddresses(page, /reported\.json$/), []);
        host.relent();
        const nextPage = await visit(context, host.address);
        await waitUntilCached(nextPage, 'reported.json', 'softmax/packed.gz');
      }),

  'damaged files of the cache are replaced: engine, page and models': (stage) =>
    withContext(stage, async (context, host) => {
      const page = await visit(context, host.address);
      await waitUntilDrawn(page);
      await waitUntilCached(page, 'softmax/packed.gz', 'sigmoid/packed.gz');
      const damagedCount = await page.evaluate(async () => {
        let count = 0;
        for (const name of await caches.keys()) {
          const cache = await caches.open(name);
          for (const request of await cache.keys()) {
            if (!/\.(wasm|js|css|safetensors|gz|json)(\?|$)/.test(request.url)) continue;
            const oldResponse = await cache.match(request);
            const bytes = new Uint8Array(await oldResponse.arrayBuffer());
            bytes[bytes.length >> 1] ^= 0x20;
            await cache.put(request, new Response(bytes, { headers: oldResponse.headers }));
            count++;
          }
        }
        return count;
      });
      assert.ok(damagedCount > 20, `${damagedCount} files are damaged`);
      const secondPage = await visit(context, host.address);
      await waitUntilDrawn(secondPage);
      await countFilesOf(secondPage, host.address, pageRoot);
      await waitUntilCached(secondPage, 'softmax/packed.gz', 'sigmoid/packed.gz');
      // Files that were fetched again are cached: a third visit needs no network for them.
      await page.close();
      await secondPage.close();
      host.close();
      const thirdPage = await visit(context, host.address);
      await waitUntilDrawn(thirdPage);
      return `${damagedCount} files`;
    }),

  'without a service worker Try again goes past what the browser has cached': async (stage) => {
    const host = await openHost();
    const context = await stage.browser.newContext({ serviceWorkers: 'block' });
    try {
      for (const [what, paths, hash] of [
        ['list of models', /zoo\/\w+\/index.json$/, ''],
        ['engine', /\.wasm$/, ''],
        ['packed weights', /softmax\/packed.gz$/, ''],
        ['weights', /gated\/model.safetensors$/, '#room=explore&shown=gated'],
        ['configuration', /gated\/config.json$/, '#room=explore&shown=gated'],
        ['tokenizer', /no-bos\/tokenizer.json$/, '#room=explore&shown=no-bos'],
        ['checkpoint', /timeline\/index.json$/, '#room=explore&shown=softmax@1400'],
        ['checkpoint’s weights', /timeline\/.*gz$/, '#room=explore&shown=softmax@1400'],
      ]) {
        host.interpose(paths);
        const page = await visit(context, host.address, hash);
        const retryButton = page.getByRole('button', { name: 'Try again' }).first();
        await retryButton.waitFor().catch((cause) => {
          throw new Error(`${what}: no Try again`, { cause });
        });
        host.relent();
        await retryButton.click();
        await waitUntilDrawn(page).catch(async (cause) => {
          throw new Error(`${what}: ${await page.textContent('#messages')}`, { cause });
        });
        await page.close();
        await context.clearCookies();
      }
    } finally {
      await context.close();
      host.close();
    }
  },
};
