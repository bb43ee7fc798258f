/**
 * Tests the page under adverse conditions: the back button, strangers in other frames, hosts without a bundler.
 */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { openSite } from './site.mjs';
import { chromium, CHROMIUM, root, settled, text } from './stage.mjs';

/** Names a file that npm would have installed: of the packed package or of its dependencies. */
const installedFile = (path) =>
  join(
    root,
    path
      .replace('/node_modules/sinkscope/', '/.build/import-map-package/')
      .replace(/^\/node_modules/, '/wasm/node_modules'),
  );

export const conditions = {
  async 'the page responds after the back button'() {
    const options = { ...CHROMIUM, ignoreDefaultArgs: ['--disable-back-forward-cache'] };
    const browser = await chromium.launch(options);
    try {
      const { origin } = this.stage;
      const page = await (await browser.newContext({ serviceWorkers: 'block' })).newPage();
      const troubles = [];
      page.on('pageerror', ({ message }) => troubles.push(message));
      await page.addInitScript(() =>
        addEventListener('pageshow', ({ persisted }) => (globalThis.isPersisted = persisted)),
      );
      await page.goto(`${origin}/#room=explore&shown=softmax`);
      await settled(page);
      await page.goto(`${origin}/embed.html`);
      await page.goBack({ waitUntil: 'commit' });
      await settled(page);
      await page.fill('textarea', 'My cat sat on the mat and looked at me.');
      await settled(page);
      await page
        .waitForFunction(() =>
          document.querySelector('[data-view="attention"]')?.textContent.includes('T = 1'),
        )
        .catch(async (cause) => {
          throw new Error((await text(page, 'body')).slice(0, 3000), { cause });
        });
      assert.deepEqual(troubles, []);
      return (await page.evaluate(() => globalThis.isPersisted))
        ? 'from the cache'
        : 'loaded again';
    } finally {
      await browser.close();
    }
  },

  async 'messages from other frames and windows are ignored'(stage) {
    const script = `<script>
      const all = [null, 1, 'height', {}, { sinkscope: 'height' }, { sinkscope: 'height', height: 1e9 },
        { sinkscope: 'height', height: 'x' }, { type: 'RAW', id: 1, path: ['open'] }, new ArrayBuffer(8)];
      for (const one of all) for (const target of [parent, parent.frames[0], top]) target.postMessage(one, '*');
    </script>`;
    const stranger = await openSite(() => ({ body: script }));
    const host = await openSite(() => ({
      body: `<!doctype html><title>A course</title>
        <iframe src="${stage.origin}/embed.html#view=attention" width="700" height="500"></iframe>
        <script type="module" src="${stage.origin}/sink-scope.js"></script>
        <sink-scope view="sinks" style="--sinkscope-height: 300px"></sink-scope>
        <iframe src="${stranger.address}"></iframe>`,
    }));
    const context = await stage.browser.newContext({ serviceWorkers: 'block' });
    const page = await context.newPage();
    const troubles = [];
    page.on('pageerror', ({ message }) => troubles.push(message));
    await page.goto(host.address);
    const figure = page.frameLocator('iframe').first();
    await figure.locator('.heatmap').first().waitFor();
    const heights = await page.evaluate(() =>
      [...document.querySelectorAll('iframe, sink-scope')].map((element) => element.offsetHeight),
    );
    assert.ok(
      heights.every((height) => height < 2000),
      `${heights}`,
    );
    assert.deepEqual(troubles, []);
  },

  async 'a module script and an import map run the package without a bundler'(stage) {
    const pack = [join(root, 'wasm/pack.js'), join(root, '.build/import-map-package')];
    await promisify(execFile)(process.execPath, pack);
    const readme = await readFile(join(root, 'wasm/README.md'), 'utf8');
    const [map] = /<script type="importmap">[^]*?<\/script>/.exec(readme);
    const html = `<!doctype html><title>No bundler</title>${map}
      <script type="module">
        import { createEngine, openTokenizer } from 'sinkscope';
        const at = (file) => new URL('/models/zoo/softmax/' + file, location.href);
        const tokenizer = openTokenizer(await (await fetch(at('tokenizer.json'))).text());
        const engine = await createEngine({ worker: false });
        const model = await engine.open({ config: at('config.json'), weights: at('model.safetensors') });
        const run = await model.run(tokenizer.encode('Once upon a time').map(({ id }) => id));
        document.title = 'alpha ' + (await run.metric('alpha')).shape;
      </script>`;
    const host = await openSite((path) => (path === '/' ? { body: html } : installedFile(path)));
    const page = await (await stage.browser.newContext()).newPage();
    const troubles = [];
    page.on('console', (message) => troubles.push(message.text()));
    page.on('requestfailed', (r) => troubles.push(r.url()));
    page.on('pageerror', ({ message }) => troubles.push(message));
    await page.goto(host.address);
    await page
      .waitForFunction(() => document.title.startsWith('alpha'))
      .catch((cause) => {
        throw new Error(troubles.join('; ') || 'nothing came', { cause });
      });
    assert.match(await page.title(), /alpha 6,4,\d/);
  },
};
for (const [name, test] of Object.entries(conditions))
  conditions[name] = (stage) => test.call({ stage }, stage);
