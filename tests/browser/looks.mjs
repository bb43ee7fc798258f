/** How it looks: axe, no sideways scrolling, and pictures for people in .build/screenshots. */
import assert from 'node:assert/strict';
import { inAllSizes, pictures, root, staysWithin, violations } from './stage.mjs';

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
  await staysWithin(page, width);
  const path = `${pictures}/${name}-${width}-${scheme}.png`;
  await page.screenshot({ path, fullPage: true });
  assert.deepEqual(await violations(page), []);
  assert.deepEqual(page.troubles, []);
  await page.context().close();
  return path.slice(root.length);
}

export const looks = Object.assign(
  {},
  ...Object.keys(PAGES).map((name) => inAllSizes(name, (stage, one) => look(stage, name, one))),
);
