/**
 * Drives three browsers by one interface: Chromium by Playwright, Firefox by Puppeteer over WebDriver BiDi
 * (Playwright needs more than the Firefox of Debian offers), WebKitGTK by Selenium and its own driver.
 *
 *     open(url), evaluate(function, ...values), click(selector), type(selector, text),
 *     press(key), upload(selector, path), close()
 *
 * Keys are named as KeyboardEvent.key names them. Each driver rejects if its browser does not start.
 */
import { spawn } from 'node:child_process';
import { createRequire } from 'node:module';
import { createServer } from 'node:net';
import { existsSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { CHROMIUM, root } from './stage.mjs';

const require = createRequire(join(root, 'web/package.json'));
const SIZE = { width: 1280, height: 900 };
const LIBRARIES = '/usr/lib';
const FIREFOX = process.env.FIREFOX ?? '/usr/bin/firefox-esr';

async function chromium() {
  const browser = await require('playwright-core').chromium.launch(CHROMIUM);
  const page = await browser.newPage({ viewport: SIZE });
  return {
    version: `Chromium ${browser.version()}`,
    open: (url) => page.goto(url),
    evaluate: (look, ...values) => page.evaluate(`(${look})(...${JSON.stringify(values)})`),
    click: (selector) => page.locator(selector).first().click(),
    async type(selector, text) {
      await page.locator(selector).first().fill('');
      await page.locator(selector).first().pressSequentially(text);
    },
    press: (key) => page.keyboard.press(key),
    upload: (selector, path) => page.setInputFiles(selector, path),
    close: () => browser.close(),
  };
}

async function firefox() {
  const { default: puppeteer } = await import(
    pathToFileURL(require.resolve('puppeteer-core')).href
  );
  const browser = await puppeteer.launch({
    browser: 'firefox',
    executablePath: FIREFOX,
    headless: true,
    defaultViewport: SIZE,
    // By default Firefox forbids local files to read one another; Puppeteer would allow it.
    extraPrefsFirefox: { 'security.fileuri.strict_origin_policy': true },
  });
  const [page] = await browser.pages();
  return {
    version: (await browser.version()).replace('firefox/', 'Firefox '),
    open: (url) => page.goto(url),
    evaluate: (look, ...values) => page.evaluate(`(${look})(...${JSON.stringify(values)})`),
    click: async (selector) => (await page.waitForSelector(selector)).click(),
    async type(selector, text) {
      await page.$eval(selector, (field) => field.select());
      await page.type(selector, text);
    },
    press: (key) => page.keyboard.press(key),
    upload: async (selector, path) => (await page.$(selector)).uploadFile(path),
    close: () => browser.close(),
  };
}

/** Starts a process, which may write to descriptor 3; `failure` rejects if it cannot start. */
function start(command, argv, options = {}) {
  const child = spawn(command, argv, { stdio: ['ignore', 'ignore', 'ignore', 'pipe'], ...options });
  const failure = new Promise((_, reject) => child.once('error', reject));
  failure.catch(() => {});
  return { child, failure };
}

export async function freePort() {
  const server = createServer();
  await new Promise((done) => server.listen(0, '127.0.0.1', done));
  const { port } = server.address();
  await new Promise((done) => server.close(done));
  return port;
}

function miniBrowser() {
  const folders = readdirSync(LIBRARIES)
    .map((name) => join(LIBRARIES, name))
    .flatMap((machine) => ['webkit2gtk-4.1', 'webkit2gtk-4.0'].map((name) => join(machine, name)));
  const path = folders
    .map((folder) => join(folder, 'MiniBrowser'))
    .find((path) => existsSync(path));
  if (!path) throw new Error('WebKitGTK has no MiniBrowser here (Debian: webkit2gtk-driver)');
  return path;
}

async function webkit() {
  const { Builder, By, Capabilities, Key } = require('selenium-webdriver');
  // WebKitGTK has no headless mode: it draws on a virtual screen, without a GPU.
  const screen = start('Xvfb', [
    '-displayfd',
    '3',
    '-screen',
    '0',
    '1280x900x24',
    '-nolisten',
    'tcp',
  ]);
  const number = await Promise.race([
    screen.failure,
    new Promise((done) => screen.child.stdio[3].once('data', (text) => done(String(text).trim()))),
  ]);
  const port = await freePort();
  const driver = start('WebKitWebDriver', [`--port=${port}`], {
    env: {
      ...process.env,
      DISPLAY: `:${number}`,
      LIBGL_ALWAYS_SOFTWARE: '1',
      WEBKIT_DISABLE_DMABUF_RENDERER: '1',
      // The sandbox needs user namespaces, which a container lacks; the pages are our own.
      WEBKIT_DISABLE_SANDBOX_THIS_IS_DANGEROUS: '1',
    },
  });
  const address = `http://127.0.0.1:${port}`;
  const close = () => [driver, screen].forEach(({ child }) => child.kill());
  try {
    await waitUntilListening(`${address}/status`, driver.failure);
    const capabilities = new Capabilities({
      browserName: 'MiniBrowser',
      'webkitgtk:browserOptions': { binary: miniBrowser(), args: ['--automation'] },
    });
    const browser = await new Builder().usingServer(address).withCapabilities(capabilities).build();
    const version = (await browser.getCapabilities()).get('browserVersion');
    await browser.manage().window().setRect(SIZE);
    const find = (selector) => browser.findElement(By.css(selector));
    return {
      version: `WebKitGTK ${version}`,
      open: (url) => browser.get(url),
      evaluate: (look, ...values) =>
        browser.executeScript(`return (${look})(...arguments)`, ...values),
      click: async (selector) => (await find(selector)).click(),
      async type(selector, text) {
        await browser.executeScript('document.querySelector(arguments[0]).select()', selector);
        await (await find(selector)).sendKeys(text);
      },
      press: (key) =>
        browser
          .actions()
          .sendKeys(Key[key.replace(/(?<=[a-z])(?=[A-Z])/g, '_').toUpperCase()] ?? key)
          .perform(),
      upload: async (selector, path) => (await find(selector)).sendKeys(path),
      async close() {
        await browser.quit().finally(close);
      },
    };
  } catch (error) {
    close();
    throw error;
  }
}

export async function waitUntilListening(url, failure) {
  for (let i = 0; i < 600; i++) {
    const answer = await Promise.race([failure, fetch(url).catch(() => undefined)]);
    if (answer?.ok) return;
    await new Promise((done) => setTimeout(done, 100));
  }
  throw new Error(`${url} does not answer`);
}

export const drivers = { chromium, firefox, webkit };
