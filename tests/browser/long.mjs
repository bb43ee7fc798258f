/**
 * Tests a long text: its map is drawn in blocks and read exactly where the reader zooms, by mouse, keyboard and touch.
 * A small limit of cells makes the text of a small model long.
 */
import assert from 'node:assert/strict';
import { pictures, settled, until } from './stage.mjs';

const TEXT = 'room=explore&shown=softmax&input=random&T=120&cells=32&layer=1&head=2';
const MAP = '[data-view="attention"] .heatmap';

const waitForReadout = (page, hasText) =>
  page.locator('[data-view="attention"] .readout', { hasText }).waitFor({ state: 'attached' });
const lensOf = (page) => page.locator('[data-view="attention"] .lens');
const zoomOf = (page) =>
  page.evaluate(() => {
    const state = new URLSearchParams(location.hash.slice(1));
    return ['zoomQuery', 'zoomKey'].map((name) => Number(state.get(name) ?? -1));
  });

async function waitForRows(page, count) {
  await page.waitForFunction(
    ([map, n]) => document.querySelector(`${map} canvas`)?.height === n,
    [MAP, count],
  );
  await settled(page);
}

export const long = {
  async 'a long text is drawn in blocks, exactly where the reader zooms, and in blocks again'(
    stage,
  ) {
    const page = await stage.open(TEXT);
    await waitForRows(page, 30);
    const map = page.locator(MAP);
    const { width, height } = await map.boundingBox();
    const side = await page.evaluate(() => document.querySelector('.thumb canvas').height);
    assert.ok(side <= 32, `a small map has ${side} rows`);
    await map.hover({ position: { x: 0.02 * width, y: 0.98 * height } });
    await waitForReadout(
      page,
      /^queries 116-119 → keys 0-3: mean weight [\d.e-]+, largest [\d.e-]+$/,
    );
    await lensOf(page).getByRole('button', { name: 'Largest' }).click();
    await page.waitForFunction(() =>
      /the largest over 4 × 4/.test(document.querySelector('.subtitle').textContent),
    );
    await page.screenshot({ path: `${pictures}/long-blocks.png` });

    await map.click({ position: { x: 0.02 * width, y: 0.98 * height } });
    await waitForRows(page, 40);
    assert.match(await lensOf(page).textContent(), /Shown exactly: queries 80-119, keys 0-39\./);
    const box = await map.boundingBox();
    await map.hover({ position: { x: 0.01 * box.width, y: 0.99 * box.height } });
    await waitForReadout(page, /^query 119 “.*” → key 0 “.*”: [\d.e-]+$/);
    await page.screenshot({ path: `${pictures}/long-exact.png` });
    await page.getByRole('button', { name: 'Whole map' }).click();
    await waitForRows(page, 30);

    await map.focus();
    await page.keyboard.press('Enter');
    await waitForRows(page, 40);
    await until(async () => (await zoomOf(page))[0] >= 0);
    const oldZoom = await zoomOf(page);
    for (let i = 0; i < 45; i++) await page.keyboard.press('ArrowUp');
    await until(async () => (await zoomOf(page))[0] < oldZoom[0]);
    await page.keyboard.press('Escape');
    await waitForRows(page, 30);
    await until(async () => (await zoomOf(page)).join() === '-1,-1');
    assert.deepEqual(page.troubles, []);
  },

  async 'a long text is zoomed by touch on a phone, and moved by the small map'(stage) {
    const page = await stage.open(TEXT, { width: 390 });
    await waitForRows(page, 30);
    const map = page.locator(MAP);
    await map.click({ position: { x: 5, y: 100 } });
    await waitForRows(page, 40);
    await until(async () => (await zoomOf(page))[0] >= 0);
    const oldZoom = await zoomOf(page);
    const smallMap = page.locator('[data-view="attention"] .locator');
    await smallMap.click({ position: { x: 30, y: 60 } });
    await until(async () => (await zoomOf(page))[0] !== oldZoom[0]);
    await until(async () => /queries 80-119/.test(await lensOf(page).textContent()));
    await page.screenshot({ path: `${pictures}/long-phone.png`, fullPage: true });
    await page.getByRole('button', { name: 'Whole map' }).click();
    await waitForRows(page, 30);
    assert.deepEqual(page.troubles, []);
  },
};
