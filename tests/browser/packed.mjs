/** Tests the npm package `sinkscope-page`, as npm packs it and as a CDN serves it to a page of another origin. */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { mkdirSync, readdirSync, readFileSync, rmSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { load } from '../../wasm/index.ts';
import { ZOO_NAMES } from '../../wasm/loading/zoo.ts';
import { openSite } from './site.mjs';
import { root } from './stage.mjs';

const HOME = 'https://sinkscope.example/1.0.0/';
const MAX_BYTES = 20e6;
const TEXT =
  'The old man sat at the door and looked over the water. He thought of his child, and every night was long.';

/** Packs while this process serves the pages of the test that runs beside this one. */
async function pack(folder) {
  const run = promisify(execFile);
  const env = { ...process.env, SINKSCOPE_HOME: HOME, SINKSCOPE_PACKAGE: join(folder, 'built') };
  const npm = { cwd: folder, env, encoding: 'utf8' };
  const vite = join(root, 'web/node_modules/vite/bin/vite.js');
  const config = ['build', '--config', join(root, 'web/npm.config.ts'), '--logLevel', 'warn'];
  await run(process.execPath, [vite, ...config], { cwd: join(root, 'web'), env });
  const [packResult] = JSON.parse((await run('npm', ['pack', '--json', './built'], npm)).stdout);
  const { filename, unpackedSize } = packResult;
  await run('tar', ['xzf', filename], npm);
  return { packed: statSync(join(folder, filename)).size, unpacked: unpackedSize };
}

/** Serves `folder` below /npm/sinkscope-page@VERSION/ with CORS, and redirects addresses without a version. */
const serve = (folder, version) =>
  openSite(
    (path) => {
      const [, versionPart, file] = /^\/npm\/sinkscope-page(@[\d.]+)?\/(.*)$/.exec(path) ?? [];
      const location = `/npm/sinkscope-page@${version}/${file}`;
      return file && (versionPart ? join(folder, file) : { status: 302, headers: { location } });
    },
    { 'access-control-allow-origin': '*' },
  );

const courseOf = (
  origin,
) => `<!doctype html><html lang="en"><title>A course</title><link rel="icon" href="data:,">
<script type="module" src="${origin}/npm/sinkscope-page/sink-scope.js"></script>
<main>${ZOO_NAMES.map((model) => `<sink-scope view="sinks" shown="${model}"></sink-scope>`).join('\n')}</main>`;

/**
 * Returns the programs of the README's ten lines, which import from a CDN: the HTML of a CodePen and a cell of an
 * Observable notebook.
 */
function programs(origin, version) {
  const readme = readFileSync(join(root, 'wasm/README.md'), 'utf8');
  return [/^```html\n(<canvas[^]*?)^```/m, /^```js observable\n([^]*?)^```/m].map((block) => {
    const [, program] = block.exec(readme);
    assert.ok(program.trim().split('\n').length <= 12, program);
    assert.ok(program.includes(`https://cdn.jsdelivr.net/npm/sinkscope-page@${version}/`), program);
    return program.replaceAll('https://cdn.jsdelivr.net', origin);
  });
}

async function expectPrograms(page, host, cell) {
  await page.goto(`${host.origin}/codepen`);
  await page.waitForFunction(() => !/Measuring/.test(document.querySelector('#sink').textContent));
  assert.match(await page.textContent('#sink'), /^79\.2% of the heads have a sink$/);
  const mapPixels = await page.evaluate(() => {
    const { width, height } = document.querySelector('#map');
    const context = document.querySelector('#map').getContext('2d');
    return [width, height, ...context.getImageData(0, 0, 2, 1).data];
  });
  assert.deepEqual(mapPixels, [14, 14, 176, 48, 90, 255, 0, 0, 0, 0], 'row 0 gives key 0 all');
  // A notebook provides `display` and `Plot`, and runs the cell as the body of a module.
  const cellResult = await page.evaluate(async (body) => {
    const AsyncFunction = (async () => {}).constructor;
    let displayed;
    const Plot = { plot: (options) => options, cell: (data, channels) => ({ data, channels }) };
    await new AsyncFunction('display', 'Plot', body)((output) => (displayed = output), Plot);
    const { title, marks } = displayed;
    return { title, cells: marks[0].data, channels: marks[0].channels };
  }, cell);
  assert.match(cellResult.title, /^L\dH\d: rows attend to columns$/);
  assert.deepEqual(cellResult.cells[0], { query: 0, key: 0, weight: 1 });
  assert.ok(Object.values(cellResult.channels).every((name) => name in cellResult.cells[0]));
}

export const packed = {
  async 'one script tag of the package sinkscope-page draws figures in a page of another origin, and the README’s programs run'(
    stage,
  ) {
    const folder = join(root, '.build/packed');
    rmSync(folder, { recursive: true, force: true });
    mkdirSync(folder, { recursive: true });
    const { packed: bytes, unpacked } = await pack(folder);
    assert.ok(unpacked <= MAX_BYTES, `${unpacked} bytes`);
    const { version } = JSON.parse(readFileSync(join(folder, 'package/package.json'), 'utf8'));
    const cdn = await serve(join(folder, 'package'), version);
    const [pen, cell] = programs(cdn.origin, version);
    const pages = {
      '/': courseOf(cdn.origin),
      '/codepen': `<!doctype html><meta charset="utf-8"><link rel="icon" href="data:,">${pen}`,
    };
    const host = await openSite((path) => pages[path] && { body: pages[path] });
    const context = await stage.browser.newContext({ viewport: { width: 1280, height: 900 } });
    try {
      const page = await context.newPage();
      const troubles = [];
      page.on('console', (message) => message.type() === 'error' && troubles.push(message.text()));
      page.on('pageerror', (error) => troubles.push(error.message));
      page.on('request', (request) => {
        const isKnown = [cdn.origin, host.origin, `blob:${host.origin}`, 'data:'].some((from) =>
          request.url().startsWith(from),
        );
        if (!isKnown) troubles.push(`asks ${request.url()}`);
      });
      await page.addInitScript(() => {
        globalThis.runs = [];
        addEventListener('run', ({ detail }) => {
          globalThis.runs.push(...detail.results.map(({ subject, says }) => ({ subject, says })));
        });
        addEventListener('error', ({ detail }) => detail && console.error(detail.message));
      });
      await page.goto(host.origin);
      for (const figure of await page.locator('sink-scope').all())
        await figure.scrollIntoViewIfNeeded();
      await page.waitForFunction(
        (n) => new Set(globalThis.runs.map(({ subject }) => subject)).size >= n,
        ZOO_NAMES.length,
      );
      const runs = await page.evaluate(() => globalThis.runs);
      const subjects = new Set(runs.map(({ subject }) => subject));
      assert.deepEqual([...subjects].sort(), ZOO_NAMES.toSorted());
      const { says } = runs.find(({ subject }) => subject === 'softmax');
      assert.match(says, /^On this text, 15 of the 24 heads/, 'the numbers of the page');
      const workers = page.workers().map((worker) => worker.url());
      assert.ok(workers.length && workers.every((url) => url.startsWith(`blob:${host.origin}/`)));
      // The package contains no page, so its figures link to the page that the build named.
      const link = await page.locator('sink-scope a[part=link]').first().getAttribute('href');
      assert.ok(link.startsWith(`${HOME}#`), link);
      for (const name of ZOO_NAMES) {
        const zoo = `${cdn.origin}/npm/sinkscope-page@${version}/zoo/`;
        const model = await load(name, { zoo, cache: false });
        assert.equal(model.id, name);
        const { sink } = await model.measure(TEXT);
        if (name === 'softmax') assert.equal(Math.round(24 * sink), 15);
        await model.close();
      }
      // Only the page has the dialog with the code for a host.
      const files = readdirSync(join(folder, 'package/assets')).map((file) =>
        readFileSync(join(folder, 'package/assets', file), 'utf8'),
      );
      for (const file of files) assert.doesNotMatch(file, /Embed code copied/);
      const picture = await fetch(`${cdn.origin}/npm/sinkscope-page@${version}/pictures/1-map.svg`);
      assert.match(await picture.text(), /^<svg/);
      assert.deepEqual(troubles, []);
      // The browser reports requests for missing files as errors.
      await expectPrograms(page, host, cell);
      return `${(bytes / 1e6).toFixed(1)} MB, ${(unpacked / 1e6).toFixed(1)} MB unpacked`;
    } finally {
      await context.close();
      cdn.close();
      host.close();
      rmSync(folder, { recursive: true, force: true });
    }
  },
};
