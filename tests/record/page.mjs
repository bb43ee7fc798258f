// Recordings in the page, opened as a person opens a file in Explore.
//
//     node tests/record/page.mjs FOLDER FILE ...
//
// prints as JSON, for each file: the sentence about its strongest head, the views that Explore offers, what the
// map says of itself and of some of its cells, every text of the page, and what went wrong; pictures go to FOLDER.
import { readFileSync } from 'node:fs';
import { basename } from 'node:path';
import { openFiles, openStage, settled, text } from '../browser/stage.mjs';

const [folder, ...files] = process.argv.slice(2);
const CELLS = [
  [0, 0],
  [3, 1],
  [1, 3],
];
const stage = await openStage();
const found = {};

/** What the map says when the pointer is over a cell. */
async function cell(page, [row, col], side) {
  const map = page.locator('[data-view="attention"] .heatmap');
  const { width, height } = await map.boundingBox();
  const position = { x: ((col + 0.5) / side) * width, y: ((row + 0.5) / side) * height };
  await map.hover({ position });
  return { row, col, says: await text(page, '[data-view="attention"] .readout') };
}

try {
  for (const file of files) {
    const page = await stage.open('room=explore');
    const mimeType = 'application/octet-stream';
    await openFiles(page, { name: basename(file), mimeType, buffer: readFileSync(file) });
    await page.waitForSelector('[data-recorded]');
    await settled(page);
    const map = page.locator('[data-view="attention"] .heatmap');
    const side = await map.locator('canvas').evaluate(({ width }) => width);
    const cells = [];
    for (const at of CELLS) cells.push(await cell(page, at, side));
    const views = page.locator('.inspector .tabs button');
    const titles = await views.allTextContents();
    const texts = [await text(page, 'main')];
    const lacks = {};
    for (let i = 0; i < titles.length; i++) {
      await views.nth(i).click();
      await settled(page);
      const said = await page.locator('.inspector [data-lacks]').allTextContents();
      if (said.length) lacks[titles[i].trim()] = said.join(' ').trim();
      texts.push(await text(page, '.inspector'));
    }
    await page.screenshot({ path: `${folder}/${basename(file)}.png` });
    found[basename(file)] = {
      finding: await text(page, '[data-finding]'),
      views: titles.map((title) => title.trim()),
      lacks,
      side,
      map: await map.getAttribute('aria-label'),
      axes: await map.evaluate(({ parentElement }) => ({ ...parentElement.dataset })),
      cells,
      texts,
      troubles: page.troubles,
    };
    await page.context().close();
  }
} finally {
  await stage.close();
}
console.log(JSON.stringify(found));
