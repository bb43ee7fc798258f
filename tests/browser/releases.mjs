/**
 * Tests two releases on a plain file server: each keeps its address; latest/ and the root lead to the newer release.
 */
import assert from 'node:assert/strict';
import { linkSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { filesOf } from '../../web/ship/parts.ts';
import { writeSite } from '../../web/ship/site.ts';
import { createHost, pageRoot, root, until } from './stage.mjs';

const OLDER = '0.1.0';
const NEWER = '0.2.0';

function writeRelease(site, version, change) {
  for (const file of filesOf(pageRoot)) {
    const target = join(site, version, file);
    mkdirSync(dirname(target), { recursive: true });
    if (change && /^zoo\/\w+\/index\.json$/.test(file))
      writeFileSync(target, change(readFileSync(join(pageRoot, file), 'utf8')));
    else linkSync(join(pageRoot, file), target);
  }
}

const COURSE = `<!doctype html><html lang="en"><title>A course</title><link rel="icon" href="data:,">
<iframe src="/${OLDER}/embed.html#view=sinks&shown=softmax"></iframe>
<iframe src="/latest/embed.html#view=sinks&shown=softmax"></iframe>
<script type="module" src="/latest/sink-scope.js"></script><sink-scope view="sinks" shown="softmax"></sink-scope>`;

export const releases = {
  async 'of two releases on a plain file server, links into the older stay valid, and latest/ leads to the newer'(
    stage,
  ) {
    const site = join(root, '.build/releases');
    rmSync(site, { recursive: true, force: true });
    writeRelease(site, OLDER, (text) =>
      text.replaceAll('"Softmax model"', '"Older softmax model"'),
    );
    writeRelease(site, NEWER);
    writeSite(site);
    writeFileSync(join(site, 'course.html'), COURSE);
    // GitHub Pages sends this header; without it the dialog offers only frames.
    const headers = { 'Access-Control-Allow-Origin': '*' };
    const server = createHost({ folder: () => site, sentHeaders: headers });
    await new Promise((done) => server.listen(0, '127.0.0.1', done));
    const origin = `http://127.0.0.1:${server.address().port}`;
    const context = await stage.browser.newContext({
      viewport: { width: 1280, height: 900 },
      permissions: ['clipboard-read', 'clipboard-write'],
      serviceWorkers: 'block',
    });
    try {
      const page = await context.newPage();
      const title = () => page.locator('[data-view="sinks"] .cell').first();
      const hash = '#room=explore&view=sinks&shown=softmax';
      for (const from of ['/', '/latest/', '/latest/explore/']) {
        await page.goto('about:blank');
        await page.goto(`${origin}${from}?utm_source=book${hash}`);
        await page.waitForURL(`${origin}/${NEWER}/**`);
        await page.locator('[data-view="sinks"] .stamp').waitFor();
        assert.match(page.url(), /view=sinks/);
        assert.match(await title().textContent(), /Softmax model/);
      }
      await page.getByRole('button', { name: 'Share', exact: true }).click();
      const link = () => page.evaluate(() => navigator.clipboard.readText());
      await until(async () => /^http/.test(await link()));
      assert.ok((await link()).startsWith(`${origin}/${NEWER}/explore/index.html#`), await link());
      await page.locator('[data-view="sinks"] .how summary').click();
      await page.locator('[data-view="sinks"] .code').click();
      const dialog = page.locator('.embed-dialog');
      const code = dialog.locator('textarea');
      await code.waitFor();
      const kinds = await dialog.getByLabel('for').locator('option').count();
      for (let i = 0; i < kinds; i++) {
        await dialog.getByLabel('for').selectOption(String(i));
        const addresses = (await code.inputValue()).match(/http:[^"\s)#]+/g);
        for (const address of addresses)
          assert.ok(address.startsWith(`${origin}/${NEWER}/`), address);
      }
      await page.goto('about:blank');
      await page.goto(`${origin}/${OLDER}/explore/index.html${hash}`);
      await page.locator('[data-view="sinks"] .stamp').waitFor();
      assert.ok(page.url().startsWith(`${origin}/${OLDER}/`), page.url());
      assert.match(await title().textContent(), /Older softmax model/);
      // Another page can hold both releases, and the element is the newest release's.
      await page.goto(`${origin}/course.html`);
      const frames = await page.locator('iframe').elementHandles();
      const [older, newer] = await Promise.all(frames.map((frame) => frame.contentFrame()));
      // In a frame of the usual size the figure hides its title.
      const attached = { state: 'attached' };
      await older.getByText('Older softmax model').first().waitFor(attached);
      await newer.getByText('Softmax model').first().waitFor(attached);
      assert.ok(newer.url().startsWith(`${origin}/${NEWER}/embed.html#`), newer.url());
      assert.match(newer.url(), /view=sinks/);
      await page.locator('sink-scope[data-live]').waitFor();
      const pageLink = await page.locator('sink-scope a[part=link]').getAttribute('href');
      assert.ok(pageLink.startsWith(`${origin}/${NEWER}/`), pageLink);
    } finally {
      await context.close();
      server.close();
      rmSync(site, { recursive: true, force: true });
    }
  },
};
