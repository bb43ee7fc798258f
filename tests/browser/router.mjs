/** The router view: which experts the tokens of a mixture go through. */
import assert from 'node:assert/strict';
import { openFromDisk, readInNode } from './disk.mjs';
import {
  inAllSizes,
  pictures,
  saveFrom,
  settled,
  staysWithin,
  text,
  violations,
} from './stage.mjs';
const TEXT = 'The king went to the sea, and nobody knew his name.';

async function openExperts(stage, hash = '', options = {}) {
  const page = await stage.open(hash, options);
  await openFromDisk(page, 'experts');
  await page.waitForSelector('#router .side-a .chart svg');
  return page;
}

async function looks(stage, { width, scheme }) {
  const page = await openExperts(stage, '', { width, scheme });
  await staysWithin(page, width);
  await page.locator('#router').scrollIntoViewIfNeeded();
  await page.locator('#router').screenshot({ path: `${pictures}/router-${width}-${scheme}.png` });
  assert.deepEqual(await violations(page), []);
  assert.deepEqual(page.troubles, []);
}

export const routing = {
  async 'router: weights and loads are those of the package, on the screen and in the file'(stage) {
    const page = await openExperts(stage, `prompt=${encodeURIComponent(TEXT)}&layer=2&head=0`);
    const [{ shape, data }] = await readInNode('experts', TEXT, [{ field: 'router' }]);
    const [L, T, E] = shape;
    const { bytes } = await saveFrom(page, page.locator('#router .side-a .save'), 'JSON');
    const [weight, load] = JSON.parse(bytes).quantities;
    assert.deepEqual([weight.shape, weight.data], [shape, [...data]]);
    const shares = Array(L * E).fill(0);
    data.forEach((value, i) => {
      if (value > 0) shares[E * Math.floor(i / (T * E)) + (i % E)] += 1 / T;
    });
    load.data.forEach((share, i) => assert.ok(Math.abs(share - shares[i]) < 1e-6));
    const label = await page
      .locator('#router .side-a .chart svg')
      .first()
      .getAttribute('aria-label');
    const said = shares.slice(2 * E, 3 * E).map((share) => `${(100 * share).toFixed(0)} %`);
    assert.ok(label.includes(`layer 3 of model.safetensors: ${said.join(', ')}`), label);
    const first = [...data.subarray(2 * T * E, 2 * T * E + E)];
    const order = [...first.keys()].filter((e) => first[e]).sort((x, y) => first[y] - first[x]);
    const named = order.map((e) => `${e + 1} \\(${first[e].toFixed(2)}\\)`).join(' and ');
    assert.match(
      await text(page, '#router .side-a .router .conditions'),
      new RegExp(`^Layer 3: token 1, “<s>”, goes through expert ${named}; \\d+ % of the other`),
    );
    assert.deepEqual(page.troubles, []);
  },

  async 'router: it stands beside models with experts only, and its maps are read by keyboard'(
    stage,
  ) {
    const page = await stage.open('layer=0&head=0');
    assert.equal(await page.locator('#router').isVisible(), false);
    await openFromDisk(page, 'experts');
    await page.waitForSelector('#router .side-a .chart svg');
    assert.match(await text(page, '#router .side-b'), /has no experts/);
    const maps = page.locator('#router .side-a .heatmap');
    await maps.first().focus();
    await page.keyboard.press('ArrowRight');
    assert.match(
      await page.locator('#router .side-a .readout').first().textContent(),
      /^token 2 “.*”, expert 1: (weight 0\.\d+|not chosen)$/,
    );
    await maps.nth(1).focus();
    await page.keyboard.press('ArrowDown');
    await page.keyboard.press('Enter');
    await settled(page);
    assert.match(await text(page, '#router .side-a .router .conditions'), /^Layer 2: /);
    await page.locator('#side-a select').first().selectOption('softmax');
    await settled(page);
    assert.equal(await page.locator('#router').isVisible(), false);
    assert.deepEqual(page.troubles, []);
  },

  ...inAllSizes('router', looks),
};
