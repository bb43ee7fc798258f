/** How it looks: axe, no sideways scrolling, and pictures for people in .build/screenshots. */
import assert from 'node:assert/strict';
import { mkdirSync } from 'node:fs';
import { root, violations } from './stage.mjs';

const folder = `${root}.build/screenshots`;
const CASES = [1280, 390].flatMap((width) =>
  ['light', 'dark'].map((scheme) => ({ width, scheme })),
);
const PAGES = {
  page: { file: 'index.html', hash: '' },
  swapped: { file: 'index.html', hash: 'swapA=sigmoid&scale=root' },
  embed: { file: 'embed.html', hash: 'view=geometry&hide=prompt,numbers,generate,links' },
};

async function look(stage, name, { width, scheme }) {
  const { file, hash } = PAGES[name];
  const page = await stage.open(hash, { file, width, scheme });
  // Plots come after the maps.
  if (name !== 'embed') await page.waitForSelector('#norms .side-b svg');
  const wide = await page.evaluate(() => document.documentElement.scrollWidth);
  assert.ok(wide <= width, `${wide} px wide in ${width}`);
  const path = `${folder}/${name}-${width}-${scheme}.png`;
  await page.screenshot({ path, fullPage: true });
  assert.deepEqual(await violations(page), []);
  assert.deepEqual(page.troubles, []);
  await page.context().close();
  return path.slice(root.length);
}

mkdirSync(folder, { recursive: true });

export const looks = Object.fromEntries(
  Object.keys(PAGES).flatMap((name) =>
    CASES.map((one) => [
      `${name} at ${one.width} px, ${one.scheme}: axe finds nothing, nothing scrolls sideways`,
      (stage) => look(stage, name, one),
    ]),
  ),
);
