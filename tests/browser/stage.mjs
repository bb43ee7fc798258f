/**
 * Provides the infrastructure of the browser tests: a static server, Chromium, and a page that reports every trouble.
 */
import assert from 'node:assert/strict';
import { mkdirSync, readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { readFile } from 'node:fs/promises';
import { extname, join, normalize } from 'node:path';
import { setTimeout } from 'node:timers/promises';
import { CHROMIUM, chromium, require, root } from './chromium.mjs';
import { TYPES } from './site.mjs';

export { CHROMIUM, chromium, root };

export const pictures = `${root}.build/screenshots`;
mkdirSync(pictures, { recursive: true });
const axe = readFileSync(require.resolve('axe-core/axe.min.js'), 'utf8');
export const pageRoot = process.env.SINKSCOPE_PAGE ?? join(root, '.build/page');

const headers = Object.fromEntries(
  readFileSync(join(pageRoot, '_headers'), 'utf8')
    .split(/^(?=\/)/m)
    .filter((block) => block.startsWith('/*\n'))
    .flatMap((block) =>
      [...block.matchAll(/^ +(\S+): (.*)$/gm)].map(([, name, value]) => [name, value]),
    ),
);

/**
 * Serves the files of `folder()` as a static host does, with the headers of `_headers`.
 * `allowed` are further origins that the page's policy permits: the test's hub,
 * which has no certificate. `change` edits each header and page. `instead(path)` may return the body and
 * headers of another answer with status 200, such as a login page, or a host that answers all paths alike.
 */
export function createHost({
  allowed = [],
  folder = () => pageRoot,
  sentHeaders = headers,
  change = (text) => text,
  instead = () => undefined,
} = {}) {
  const widen = (text) =>
    change(text.replace('connect-src', ['connect-src', ...allowed].join(' ')));
  return createServer(async (request, response) => {
    const path = normalize(decodeURIComponent(new URL(request.url, 'http://x').pathname));
    const file = join(folder(), path.endsWith('/') ? `${path}index.html` : path);
    const type = TYPES[extname(file)] ?? 'application/octet-stream';
    const otherAnswer = instead(path);
    if (otherAnswer) return void response.writeHead(200, otherAnswer.headers).end(otherAnswer.body);
    try {
      const bytes = await readFile(file);
      for (const [name, value] of Object.entries(sentHeaders))
        response.setHeader(name, widen(value));
      response.writeHead(200, { 'content-type': type });
      response.end(type === 'text/html' ? widen(bytes.toString()) : bytes);
    } catch {
      response.writeHead(404).end();
    }
  });
}

export async function openStage() {
  const allowed = new Set();
  const policyViolations = [];
  const server = createHost({ allowed });
  await new Promise((done) => server.listen(0, '127.0.0.1', done));
  const browser = await chromium.launch(CHROMIUM);
  // Timeouts are long, because a machine may be busy; the time limit of a test ends what hangs.
  const newContext = browser.newContext.bind(browser);
  browser.newContext = async (options) => {
    const context = await newContext(options);
    context.setDefaultTimeout(120_000);
    return context;
  };
  const origin = `http://127.0.0.1:${server.address().port}`;
  return {
    browser,
    origin,
    allowed,
    /** Returns the violations of the Content-Security-Policy since the last call, and clears them. */
    takeViolations: () => policyViolations.splice(0),
    /**
     * Opens a page and waits until its sink is drawn, unless `waits` is false. Nothing plays by itself there, unless
     * `plays` is true: a test then waits for what is shown and not for a time.
     */
    async open(hash = '', options = {}) {
      const { file = 'index.html', width = 1280, scheme = 'light', script } = options;
      const { waits = true, plays = false } = options;
      const context = await browser.newContext({
        viewport: { width, height: 900 },
        colorScheme: scheme,
        reducedMotion: plays ? 'no-preference' : 'reduce',
        // offline.mjs tests the service worker.
        serviceWorkers: 'block',
        permissions: ['clipboard-read', 'clipboard-write'],
      });
      const page = await context.newPage();
      page.troubles = [];
      await page.exposeFunction('reportViolation', (violation) => policyViolations.push(violation));
      await page.addInitScript(() =>
        document.addEventListener('securitypolicyviolation', (event) =>
          globalThis.reportViolation(
            `${event.effectiveDirective} refuses ${event.blockedURI} (${event.sourceFile}:${event.lineNumber}) ${event.sample}`,
          ),
        ),
      );
      page.on('console', (m) => {
        if (m.type() === 'error') page.troubles.push(`${m.text()} (${m.location().url})`);
      });
      page.on('pageerror', (error) => page.troubles.push(error.message));
      page.on('request', (r) => {
        const isOwn = r.url().startsWith(origin) || /^(data|blob):/.test(r.url());
        if (!isOwn) page.troubles.push(`asks ${r.url()}`);
      });
      // The page cancels requests, such as those for a checkpoint that is no longer shown.
      page.on('requestfailed', (r) => {
        if (r.failure()?.errorText !== 'net::ERR_ABORTED') page.troubles.push(`failed: ${r.url()}`);
      });
      if (script) await page.addInitScript(script);
      await page.goto(`${origin}/${file}${hash ? `#${hash}` : ''}`);
      if (!waits) return page;
      await page.waitForFunction(() =>
        /first sink/.test(document.querySelector('#version').textContent),
      );
      await settled(page);
      return page;
    },
    /** Closes the pages that a test left open, because they would keep two cores busy. */
    async clear() {
      await Promise.all(browser.contexts().map((context) => context.close()));
    },
    async close() {
      await browser.close();
      server.close();
    },
  };
}

/**
 * Waits until the predicate returns true. Playwright's `waitForFunction` does not await an asynchronous predicate: to
 * it a promise is true at once.
 */
export async function until(isTrue) {
  while (!(await isTrue())) await setTimeout(50);
}

/** Script that says whether the reader's browser asks to save data. */
export function setSavesData(saveData) {
  Object.defineProperty(navigator, 'connection', { value: { saveData } });
}

/** Script that adds up the page's layout shifts in `shifted`. */
export const WATCHES_SHIFTS = `globalThis.shifted = 0;
  new PerformanceObserver((list) => {
    for (const entry of list.getEntries()) globalThis.shifted += entry.value;
  }).observe({ type: 'layout-shift', buffered: true });`;

/** Script that collects the messages of the page in `messagesSeen`. A notice is shown for six seconds only. */
export const WATCHES_MESSAGES = `globalThis.messagesSeen = [];
  new MutationObserver(() => {
    const said = document.querySelector('#messages')?.textContent.trim();
    if (said && globalThis.messagesSeen.at(-1) !== said) globalThis.messagesSeen.push(said);
  }).observe(document, { subtree: true, childList: true, characterData: true });`;

/** Waits for two frames, in which the page lays out what has changed and its observers report. */
export const twoFrames = (page) =>
  page.evaluate(
    () => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))),
  );

/**
 * Waits until nothing runs and the page has drawn all results. What the reader has done may start work a moment later,
 * as the event of a new address or an observer does, so the page must also be idle after two frames.
 */
export async function settled(page) {
  do {
    await page
      .waitForFunction(() => document.body && document.body.dataset.busy === undefined)
      .catch(async (cause) => {
        const messages = await page.textContent('#messages');
        throw new Error(`still busy at ${page.url()}: ${messages.trim()}`, { cause });
      });
    await twoFrames(page);
  } while (await page.evaluate(() => document.body.dataset.busy !== undefined));
}

export async function openFiles(page, files) {
  const input = page.locator('#open .file:not(.folder) input');
  if (!(await input.isVisible())) await page.getByRole('button', { name: 'Open a model' }).click();
  await input.setInputFiles(files);
}

/** Waits until the page shows a model from the reader's disk. */
export async function untilFromDisk(page) {
  await page.waitForFunction(() =>
    /from your disk/.test(document.querySelector('.about')?.textContent),
  );
  await settled(page);
}

/** Lets the page press Pause when its training slider, which plays, is at a step: it stays there for half a second. */
export const pauseAtStep = (page, step) =>
  page.locator('.walk input').evaluate((input, lastStep) => {
    new MutationObserver((_, observer) => {
      if (!input.getAttribute('aria-valuetext').includes(`step ${lastStep} `)) return;
      observer.disconnect();
      document.querySelector('.walk-play').click();
    }).observe(input, { attributeFilter: ['aria-valuetext'] });
  }, step);

export const text = async (page, selector) =>
  (await page.textContent(selector)).replaceAll(/\s+/g, ' ').trim();
export const chips = (page) => page.locator('.chip').allTextContents();

export async function saveFrom(page, menu, kind) {
  const downloading = page.waitForEvent('download');
  await menu.locator('summary').click();
  await menu.getByRole('button', { name: kind, exact: true }).click();
  const download = await downloading;
  return { name: download.suggestedFilename(), bytes: await readFile(await download.path()) };
}

export async function openSection(page, name) {
  const section = page.locator(`.ask-bar > .${name}`);
  if (!(await section.evaluate((element) => element.open)))
    await section.locator('summary').first().click();
}

export async function ask(page, question, tab) {
  await page.locator('.ask', { hasText: question }).click();
  if (tab)
    await page.locator('.asks.selected').getByRole('button', { name: tab, exact: true }).click();
}

/** Opens every tab of every question and every research view, and calls `look` with the title of each. */
export async function everyTab(page, look) {
  const open = async (button) => {
    await button.click();
    await settled(page);
    await look(await button.textContent());
  };
  for (const question of await page.locator('.ask').all()) {
    await question.click();
    const tabs = await page.locator('.asks.selected .tabs button').all();
    for (const button of tabs.length ? tabs : [question]) await open(button);
  }
  const research = page.locator('.research');
  if (!(await research.count())) return;
  if (!(await research.evaluate((element) => element.open)))
    await research.locator('summary').click();
  for (const button of await research.getByRole('button').all()) await open(button);
}

export async function staysWithin(page, width, name = 'the page') {
  // A chart takes the width of its place when its observer reports, in the frame after a change.
  await twoFrames(page);
  const pageWidth = await page.evaluate(() => document.documentElement.scrollWidth);
  assert.ok(pageWidth <= width, `${name}: ${pageWidth} px wide in ${width}`);
}

/**
 * A test that looks at one page in two widths and both schemes. They come in two pairs, since no color depends on the
 * width.
 * @param {(stage: object) => Promise<import('playwright-core').Page>} open
 * @param {(page: import('playwright-core').Page, size: { width: number, scheme: string }) => Promise<void>} look
 */
export const inAllSizes = (name, open, look) => ({
  async [`${name} at 1280 px, dark, and at 390 px, light: axe finds nothing, nothing scrolls sideways`](
    stage,
  ) {
    const page = await open(stage);
    for (const [width, height, scheme] of [
      [1280, 800, 'dark'],
      [390, 844, 'light'],
    ]) {
      await page.setViewportSize({ width, height });
      await page.emulateMedia({ colorScheme: scheme });
      await settled(page);
      await look(page, { width, height, scheme });
    }
    assert.deepEqual(page.troubles, []);
  },
});

/** Follows a link within the page. */
export async function goTo(page, hash) {
  await page.evaluate((next) => (location.hash = next), hash);
  await settled(page);
}

/** Runs axe on the page, and returns the rules that are broken, with the first place of each. */
export async function violations(page) {
  // The debugger evaluates the script, because the policy of the page would refuse a script element.
  await page.evaluate(axe);
  // Without details of what passes, which no test reads, a run takes a third less.
  const result = await page.evaluate(() => globalThis.axe.run({ resultTypes: ['violations'] }));
  return result.violations.map(({ id, nodes }) => `${id}: ${nodes[0].target} (${nodes.length})`);
}
