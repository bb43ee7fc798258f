/**
 * Tests what a screen reader says: the accessibility tree of each room, kept as text in .build/heard, the announcements
 * that follow an act of the reader, and the cells that arrow keys read.
 */
import assert from 'node:assert/strict';
import { mkdirSync, writeFileSync } from 'node:fs';
import { root, settled, text } from './stage.mjs';

const heardFolder = `${root}.build/heard`;
mkdirSync(heardFolder, { recursive: true });

/**
 * Script that collects in `announced` what a room's live regions say: a region's text after each of its changes, or, where it
 * changes while it is busy, its text when it no longer is. `wasBusy` notes that the page began or ended a run.
 */
const HEARS = `globalThis.announced = [];
  const LIVE = 'main :is([role=status], [role=alert], [aria-live=polite], [aria-live=assertive])';
  const waiting = new Set();
  globalThis.wasBusy = false;
  new MutationObserver((changes) => {
    for (const { target, attributeName } of changes) {
      globalThis.wasBusy ||= attributeName === 'data-busy';
      const region = (target.closest ? target : target.parentElement)?.closest(LIVE);
      if (region) waiting.add(region);
    }
    for (const region of waiting) {
      if (region.ariaBusy === 'true') continue;
      waiting.delete(region);
      if (region.checkVisibility())
        globalThis.announced.push(region.textContent.replace(/\\s+/g, ' ').trim());
    }
  }).observe(document, {
    subtree: true, childList: true, characterData: true, attributeFilter: ['aria-busy', 'data-busy'],
  });`;

const announcedBy = async (page, act) => {
  await page.evaluate(() => globalThis.announced.splice(0));
  await act();
  await settled(page);
  const announced = await page.evaluate(() => globalThis.announced.filter(Boolean));
  return announced.filter((said, i) => said !== announced[i - 1]);
};

/** Each control has a name, headings hold titles alone, one region announces. */
async function expectTree(page, room) {
  const tree = await page.locator('body').ariaSnapshot();
  writeFileSync(`${heardFolder}/${room}.txt`, `${tree}\n`);
  const lines = tree.split('\n').map((line) => line.trim());
  const roles = 'button|link|textbox|combobox|slider|checkbox|radio|spinbutton|application|region';
  assert.deepEqual(
    lines.filter((line) => new RegExp(`^- (?:${roles})(?: \\[|:|$)`).test(line)),
    [],
    'without a name',
  );
  assert.deepEqual(
    lines.filter((line) => /^- '?heading ".*(?:Link to|Copy link|>_|<\/>)/.test(line)),
    [],
    'more than a title',
  );
  assert.equal(lines.filter((line) => /^- '?heading ".*\[level=1\]/.test(line)).length, 1);
  const regions = await page.evaluate(() =>
    [...document.querySelectorAll('main :is([role=status], [aria-live=polite])')]
      .filter((region) => region.checkVisibility())
      .map((region) => region.className),
  );
  assert.ok(regions.length <= 1, `regions that announce: ${regions}`);
}

const trees = ['purpose', 'lab', 'learn'].map((room) => [
  `heard, ${room}: each control has a name, headings hold titles alone, one region announces`,
  async (stage) => {
    const page = await stage.open(`room=${room}`, { waits: false });
    await page.locator('main h1').first().waitFor();
    await settled(page);
    await expectTree(page, room);
  },
]);

const announcements = ['start', 'explore', 'compare', 'training'].map((room) => [
  `heard, ${room}: controls have names, a new sentence announces its result once, and a map's cells name their model`,
  async (stage) => {
    const page = await stage.open(`room=${room}`, { script: HEARS });
    await expectTree(page, room);
    const announced = await announcedBy(page, async () => {
      await page.evaluate(() => {
        globalThis.wasBusy = false;
      });
      await page.locator('main textarea').first().fill('The king gave his daughter a golden ring.');
      // A short run begins and ends between two looks of the test, so the page itself notes that one began.
      await page.waitForFunction(() => globalThis.wasBusy);
    });
    assert.equal(announced.length, 1, announced.join(' | '));
    assert.equal(announced[0], await text(page, 'main [role=status]:visible'));
    for (const map of await page.locator('main .heatmap:visible').all()) {
      const label = await map.getAttribute('aria-label');
      await map.focus();
      // Where the selected cell is in the last row, only one of the two keys moves.
      const moved = await announcedBy(page, async () => {
        await page.keyboard.press('ArrowUp');
        await page.keyboard.press('ArrowDown');
      });
      const said = moved.at(-1);
      if (!['explore', 'training'].includes(room) || /at step 0/.test(label))
        assert.match(said ?? '', new RegExp(/(?:softmax|sigmoid) model/i.exec(label)?.[0], 'i'));
      assert.match(said ?? '', /\d%|\d\.\d|later token/);
    }
  },
]);

export const heard = Object.fromEntries([...trees, ...announcements]);
