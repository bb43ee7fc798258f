/** How the built page is delivered: its policy, its notices, hosts, and visits without a network. */
import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { pageRoot } from './stage.mjs';

export const delivery = {
  async 'the policy stands in both pages and in _headers, and refuses what the page has not'(
    stage,
  ) {
    const headers = await readFile(join(pageRoot, '_headers'), 'utf8');
    const [, policy] = headers.match(/Content-Security-Policy: (.*)/);
    const unquoted = (html) => html.replaceAll('&#39;', "'");
    for (const file of ['index.html', 'embed.html']) {
      const html = unquoted(await readFile(join(pageRoot, file), 'utf8'));
      assert.ok(html.includes(`content="${policy}"`), file);
      assert.doesNotMatch(html, /<script(?![^>]*\bsrc=)/, 'no inline script');
    }
    const page = await stage.open();
    assert.deepEqual(stage.takeViolations(), []);
    await page.evaluate(() => {
      const script = document.createElement('script');
      script.textContent = 'globalThis.ran = true';
      document.body.append(script);
      return fetch('http://example.invalid/').catch(() => {});
    });
    assert.equal(await page.evaluate(() => globalThis.ran), undefined);
    const refused = stage.takeViolations();
    assert.match(refused.join('\n'), /script-src-elem refuses inline/);
    assert.match(refused.join('\n'), /connect-src refuses http:\/\/example\.invalid/);
  },

  async 'every package in a bundle and every library in a binary has its notice beside the page'() {
    const notices = await readFile(join(pageRoot, 'NOTICES.md'), 'utf8');
    const named = [...notices.matchAll(/^## (.+)/gm)].map(([, one]) => one);
    for (const one of ['lit ', '@observablehq/plot ', 'd3-array ', 'comlink ', 'workbox-core '])
      assert.ok(
        named.some((name) => name.startsWith(one)),
        one,
      );
    for (const one of ['cJSON', 'musl', 'Emscripten'])
      assert.match(notices, new RegExp(`wasm: ${one}`));
    // Each with its text, not with its name alone.
    for (const section of notices.split(/^## /m).slice(1))
      assert.match(
        section,
        /permission|licen[cs]ed? under|terms given above|Redistribution/i,
        section.slice(0, 60),
      );
    assert.match(await readFile(join(pageRoot, 'LICENSE'), 'utf8'), /Apache License/);
  },
};
