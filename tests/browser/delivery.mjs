/** Tests the delivery of the built page: its policy, its notices, hosts, and visits without a network. */
import { gzipSync } from 'node:zlib';
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { mkdir, mkdtemp, readdir, readFile, rm, symlink } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { freePort, waitUntilListening } from './drivers.mjs';
import {
  createHost,
  pageRoot,
  root,
  setSavesData,
  settled,
  twoFrames,
  until,
  WATCHES_SHIFTS,
} from './stage.mjs';

/** Static servers as a course uses them: without our headers, and with their own tables of types. */
const SERVERS = {
  'python3 -m http.server': (port, folder) => [
    'python3',
    ['-m', 'http.server', port, '--bind', '127.0.0.1', '--directory', folder],
  ],
  sirv: (port, folder) => [
    process.execPath,
    [join(root, 'web/node_modules/sirv-cli/bin.js'), folder, '--host', '127.0.0.1', '--port', port],
  ],
};

function engineOf(page) {
  const names = [];
  page.on('request', (request) => {
    if (request.url().endsWith('.wasm')) names.push(request.url().split('/').at(-1));
  });
  return names;
}

async function fromSubPath(stage, name) {
  const site = await mkdtemp(join(tmpdir(), 'sinkscope-'));
  await mkdir(join(site, 'course'));
  await symlink(pageRoot, join(site, 'course/week 3'));
  const port = String(await freePort());
  const [command, argv] = SERVERS[name](port, site);
  const server = spawn(command, argv, { stdio: 'ignore' });
  const troubles = [];
  const engines = [];
  try {
    const address = `http://127.0.0.1:${port}/course/week%203/`;
    await waitUntilListening(address, new Promise((_, reject) => server.once('error', reject)));
    for (const path of ['', 'embed.html#view=attention']) {
      // Each is a first visit: the service worker isolates the second, which then has the engine with threads.
      const context = await stage.browser.newContext();
      const page = await context.newPage();
      engines.push(engineOf(page));
      page.on('console', (message) => message.type() === 'error' && troubles.push(message.text()));
      page.on('response', (answer) => {
        if (answer.status() >= 400) troubles.push(`${answer.status()} ${answer.url()}`);
      });
      await page.goto(address + path);
      await page.waitForFunction(() => performance.getEntriesByName('first-sink').length > 0);
      await page.waitForFunction(() => navigator.serviceWorker.controller);
      await context.close();
    }
    assert.deepEqual(troubles, []);
    assert.deepEqual(engines, [['sinkscope.wasm'], ['sinkscope.wasm']]);
  } finally {
    server.kill();
    await rm(site, { recursive: true });
  }
}

/** Returns the bytes of files of the page. Hosts compress what is not compressed yet. */
async function zippedBytes(paths) {
  const sizes = await Promise.all(
    paths.map(
      async (path) =>
        gzipSync(await readFile(join(pageRoot, path === '/' ? 'index.html' : path))).length,
    ),
  );
  return sizes.reduce((a, b) => a + b, 0);
}

/** Opens Start, whose models' files wait until `release` is called. */
async function openHeld(
  { browser, origin },
  { hash = '', held = /\/zoo\/.*\.gz$/, ...options } = {},
) {
  const context = await browser.newContext({ serviceWorkers: 'block', ...options });
  const page = await context.newPage();
  const { promise: isReleased, resolve: release } = Promise.withResolvers();
  await context.route(held, async (route) => {
    await isReleased;
    await route.continue();
  });
  await page.addInitScript(WATCHES_SHIFTS);
  const requestedPaths = new Set();
  context.on('request', (request) => requestedPaths.add(new URL(request.url()).pathname));
  await page.goto(`${origin}/${hash}`);
  return { page, release, requestedPaths };
}

/** Returns what a reader sees of Start, without the line about the saved picture: words, labels, and pixels. */
async function lookAtStart(page) {
  await twoFrames(page);
  const read = () => {
    const parts = ['.start-head', '.start-captions', '.start-legend', '.start-facts', '.cells'];
    const texts = parts.map((part) =>
      document.querySelector(part).textContent.replace(/\s+/g, ' '),
    );
    const labels = [...document.querySelectorAll('.cells [aria-label]')];
    return [...texts, ...labels.map((element) => element.ariaLabel)];
  };
  const style = '.start-saved { visibility: hidden !important }';
  return { words: await page.evaluate(read), pixels: await page.screenshot({ style }) };
}

export const delivery = {
  ...Object.fromEntries(
    Object.keys(SERVERS).map((name) => [
      `page, embed and service worker work from a folder of a site, served by ${name}`,
      (stage) => fromSubPath(stage, name),
    ]),
  ),

  async 'the first picture is drawn from at most six files and 0.13 MB, before any of a model or the engine'(
    stage,
  ) {
    const held = /\/(zoo|engine)\//;
    const { page, release, requestedPaths } = await openHeld(stage, { held });
    await page.waitForFunction(() => performance.getEntriesByName('first-picture').length > 0);
    await page.getByText('Recorded; the model is loading').waitFor();
    assert.equal(await page.locator('.cell canvas').count(), 2);
    const neededPaths = [...requestedPaths].filter((path) => !held.test(path));
    const bytes = await zippedBytes(neededPaths);
    assert.ok(neededPaths.length <= 6 && bytes < 0.13e6, `${bytes}\n${neededPaths.join('\n')}`);
    assert.deepEqual(
      await page.evaluate(() => performance.getEntriesByName('first-sink')),
      [],
      'no model has answered',
    );
    release();
    return `${neededPaths.length}, ${(bytes / 1e6).toFixed(3)} MB`;
  },

  async 'the saved picture has the words and pixels of the live one, which replaces it in place'(
    stage,
  ) {
    for (const [width, height, colorScheme] of [
      [1280, 800, 'dark'],
      [390, 844, 'light'],
    ]) {
      const { page, release } = await openHeld(stage, { viewport: { width, height }, colorScheme });
      await page.locator('.start-saved').waitFor();
      const map = page.locator('.heatmap').first();
      await map.focus();
      await page.keyboard.press('ArrowDown');
      const saved = await lookAtStart(page);
      const shift = await page.evaluate(() => globalThis.shifted);
      assert.match(saved.words.join(), /93%/);
      release();
      await page.locator('.start-saved').waitFor({ state: 'detached' });
      await settled(page);
      const live = await lookAtStart(page);
      assert.deepEqual(live.words, saved.words);
      assert.ok(live.pixels.equals(saved.pixels), `pixels at ${width} px, ${colorScheme}`);
      assert.equal(await page.evaluate(() => globalThis.shifted), shift, 'nothing moved');
      assert.ok(await map.evaluate((element) => element.contains(document.activeElement)));
    }
  },

  async 'a text that is typed over the saved picture is kept, and answered'(stage) {
    const { page, release } = await openHeld(stage);
    await page.locator('.start-saved').waitFor();
    await page.locator('textarea').fill('A bird');
    await page.keyboard.type(' sang.');
    await page.locator('.cell.stale').first().waitFor();
    release();
    await page.waitForFunction(() =>
      /bird/.test(document.querySelector('.cell .row-words').textContent),
    );
    await settled(page);
    assert.equal(await page.locator('textarea').inputValue(), 'A bird sang.');
    assert.equal(await page.locator('.start-saved, .cell.stale').count(), 0);
    assert.equal(await page.evaluate(() => document.activeElement.tagName), 'TEXTAREA');
  },

  async 'the first sink is drawn after at most ten requests and 1.16 MB'({ browser, origin }) {
    const page = await (await browser.newContext({ serviceWorkers: 'block' })).newPage();
    const requestedPaths = new Set();
    page.context().on('request', (request) => requestedPaths.add(new URL(request.url()).pathname));
    await page.goto(origin);
    await page.waitForFunction(() => performance.getEntriesByName('first-sink').length > 0);
    // While it draws, the page requests the twin's weights, which come after the picture.
    const isLater = (path) => /\/sigmoid\//.test(path);
    const neededPaths = [...requestedPaths].filter((path) => !isLater(path));
    const bytes = await zippedBytes(neededPaths);
    assert.ok(neededPaths.length <= 10 && bytes < 1.16e6, `${bytes}\n${neededPaths.join('\n')}`);
    return `${neededPaths.length}, ${(bytes / 1e6).toFixed(3)} MB`;
  },

  async 'a first visit to a host without cache headers fetches each file once, at most 2.7 MB, 1.2 MB with Save-Data'({
    browser,
  }) {
    const sizes = [];
    for (const [savesData, limit] of [
      [false, 2.7e6],
      [true, 1.2e6],
    ]) {
      const requestCounts = new Map();
      const host = createHost({
        sentHeaders: {},
        instead: (path) => void requestCounts.set(path, (requestCounts.get(path) ?? 0) + 1),
      });
      await new Promise((done) => host.listen(0, '127.0.0.1', done));
      const context = await browser.newContext({ serviceWorkers: 'allow' });
      try {
        const page = await context.newPage();
        await page.addInitScript(setSavesData, savesData);
        await page.clock.install();
        await page.goto(`http://127.0.0.1:${host.address().port}/`);
        // A service worker would begin to fetch other files after two seconds.
        if (savesData) await page.clock.fastForward(10_000);
        else await page.waitForFunction(() => navigator.serviceWorker.controller);
        // The second model waits for a press where data are saved.
        const twins = `.twin${savesData ? '-0' : '-1'} > strong`;
        await page.locator(twins).waitFor();
        await page.waitForFunction(() => document.body.dataset.busy === undefined);
        const repeated = [...requestCounts].filter(([, times]) => times > 1);
        assert.deepEqual(repeated, []);
        const bytes = await zippedBytes([...requestCounts.keys()]);
        const words = `${(bytes / 1e6).toFixed(3)} MB in ${requestCounts.size} files`;
        assert.ok(bytes < limit, words);
        sizes.push(words);
      } finally {
        await context.close();
        host.close();
        host.closeAllConnections();
      }
    }
    return `${sizes.join('; with Save-Data ')}, compressed`;
  },

  async 'with the headers of _headers the page is cross-origin isolated and uses the engine with threads'({
    browser,
    origin,
  }) {
    const page = await (await browser.newContext({ serviceWorkers: 'block' })).newPage();
    const engines = engineOf(page);
    await page.goto(origin);
    await page.waitForFunction(() => performance.getEntriesByName('first-sink').length > 0);
    assert.ok(await page.evaluate(() => crossOriginIsolated));
    assert.deepEqual(engines, ['sinkscope.threads.wasm']);
  },

  async 'both pages and _headers have the policy, which forbids what the page does not use'(stage) {
    const headers = await readFile(join(pageRoot, '_headers'), 'utf8');
    const [, policy] = headers.match(/Content-Security-Policy: (.*)/);
    const unescapeQuotes = (html) => html.replaceAll('&#39;', "'");
    for (const file of ['index.html', 'embed.html']) {
      const html = unescapeQuotes(await readFile(join(pageRoot, file), 'utf8'));
      assert.ok(html.includes(`content="${policy}"`), file);
      assert.doesNotMatch(html, /<script(?![^>]*\bsrc=)/, 'no inline script');
    }
    const page = await stage.open();
    assert.deepEqual(stage.takeViolations(), []);
    const outcome = await page.evaluate(async () => {
      const script = () => document.body.appendChild(document.createElement('script'));
      const tries = {
        inline: () => (script().textContent = 'globalThis.ran = true'),
        text: () => script().append('globalThis.ran = true'),
        foreign: () => (script().src = 'https://example.invalid/x.js'),
        markup: () => (document.body.lastChild.innerHTML = '<img src=x onerror=alert(1)>'),
        handler: () => document.body.setAttribute('onclick', 'globalThis.ran = true'),
        unsafe: () => fetch('http://example.invalid/'),
      };
      const refusedTries = [];
      for (const [name, attempt] of Object.entries(tries))
        try {
          await attempt();
        } catch {
          refusedTries.push(name);
        }
      document.body.click();
      return { refused: refusedTries, ran: globalThis.ran };
    });
    assert.equal(outcome.ran, undefined);
    assert.deepEqual(outcome.refused, ['inline', 'foreign', 'markup', 'handler', 'unsafe']);
    const rules = ['require-trusted-types-for', 'connect-src'];
    const violations = [];
    await until(() => {
      violations.push(...stage.takeViolations());
      return rules.every((rule) => violations.join().includes(rule));
    });
    for (const rule of rules) assert.match(violations.join('\n'), new RegExp(`${rule} refuses`));
  },

  async 'every bundled package and every library in a binary has its license notice on the site'() {
    const notices = await readFile(join(pageRoot, 'NOTICES.md'), 'utf8');
    const notedNames = [...notices.matchAll(/^## (.+)/gm)].map(([, name]) => name);
    const packages = ['workbox-core'];
    for (const folder of ['web', 'wasm']) {
      const text = await readFile(join(root, folder, 'package.json'), 'utf8');
      packages.push(...Object.keys(JSON.parse(text).dependencies));
    }
    for (const packageName of packages)
      assert.ok(
        notedNames.some((name) => name.startsWith(`${packageName} `)),
        packageName,
      );
    for (const library of ['cJSON', 'musl', 'Emscripten'])
      assert.match(notices, new RegExp(`wasm: ${library}`));
    for (const section of notices.split(/^## /m).slice(1))
      assert.match(
        section,
        /permission|licen[cs]ed? under|terms given above|Redistribution/i,
        section.slice(0, 60),
      );
    assert.match(await readFile(join(pageRoot, 'LICENSE'), 'utf8'), /Apache License/);
  },

  async 'a sandboxed frame says that its host must let other origins read its scripts'(stage) {
    const host = createHost({ sentHeaders: {} });
    await new Promise((done) => host.listen(0, '127.0.0.1', done));
    try {
      const page = await (await stage.browser.newContext()).newPage();
      const address = `http://127.0.0.1:${host.address().port}/embed.html`;
      await page.setContent(
        `<iframe sandbox="allow-scripts" src="${address}" width="700" height="500"></iframe>`,
      );
      const frame = page.frameLocator('iframe');
      await frame.locator('#plain-sandbox').waitFor({ state: 'visible' });
      const text = await frame.locator('#plain-sandbox').textContent();
      assert.match(text, /sandboxed frame.*Access-Control-Allow-Origin/);
      assert.equal(await frame.locator('#plain-host').isVisible(), false);
    } finally {
      host.close();
    }
  },

  async 'on a page whose policy forbids WebAssembly, the figure names the missing keyword'({
    browser,
  }) {
    const removeKeyword = (value) => value.replace(" 'wasm-unsafe-eval'", '');
    const headers = { 'content-security-policy': "script-src 'self'; worker-src 'self'" };
    const host = createHost({ sentHeaders: headers, change: removeKeyword });
    await new Promise((done) => host.listen(0, '127.0.0.1', done));
    try {
      const page = await (await browser.newContext({ serviceWorkers: 'block' })).newPage();
      await page.goto(`http://127.0.0.1:${host.address().port}/`);
      await page.waitForFunction(() => /wasm-unsafe-eval/.test(document.body.textContent));
      assert.match(
        await page.textContent('#messages'),
        /expected a page that may run WebAssembly, found a Content-Security-Policy without 'wasm-unsafe-eval' in script-src/,
      );
    } finally {
      host.close();
    }
  },

  async 'without JavaScript the page has a picture and a sentence that says so'(stage) {
    const context = await stage.browser.newContext({ javaScriptEnabled: false });
    const page = await context.newPage();
    for (const file of ['index.html', 'embed.html']) {
      await page.goto(`${stage.origin}/${file}`);
      await page.locator('#plain img').waitFor({ state: 'visible' });
      assert.match(await page.locator('#plain').textContent(), /JavaScript is off/);
    }
  },

  async 'every room and lesson has a page with a title, a sentence and a picture for previews'() {
    const pages = (await readdir(pageRoot, { recursive: true })).filter((file) =>
      /(^|\/)index\.html$/.test(file),
    );
    const titles = new Set();
    for (const page of pages) {
      const html = await readFile(join(pageRoot, page), 'utf8');
      const tagsOf = (name) => [
        ...html.matchAll(new RegExp(`<meta (?:property|name)="${name}" content="([^"]*)"`, 'g')),
      ];
      const [title, description, image, width, height] = [
        ...['og:title', 'og:description', 'og:image', 'og:image:width', 'og:image:height'],
      ].map((name) => {
        assert.equal(tagsOf(name).length, 1, `${page}: ${name}`);
        return tagsOf(name)[0][1];
      });
      titles.add(title);
      assert.ok(description.length > 20, page);
      const png = await readFile(join(pageRoot, dirname(page), image));
      assert.deepEqual([png.readUInt32BE(16), png.readUInt32BE(20)], [+width, +height], page);
    }
    assert.equal(titles.size, pages.length);
    return `${pages.length} pages`;
  },

  async 'the page of a room leads to the room'(stage) {
    const page = await stage.open('', { file: 'lab/index.html', waits: false });
    await page.waitForFunction(() => document.querySelector('main')?.dataset.room === 'lab');
    assert.deepEqual(page.troubles, []);
  },
};
