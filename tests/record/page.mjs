// Opens recordings in the page as readers open a file in Explore.
//
//     tests/node tests/record/page.mjs FOLDER FILE ...
//
// For each file, the script prints as JSON: the sentence about the strongest head, the views that Explore offers, the
// description of the map and of some of its cells, every text of the page, and the errors. Pictures go to FOLDER.
import { readFileSync } from 'node:fs';
import { basename } from 'node:path';
import { everyTab, openFiles, openStage, settled, text, until } from '../browser/stage.mjs';

const [folder, ...files] = process.argv.slice(2);
const CELLS = [
  [0, 0],
  [3, 1],
  [1, 3],
];
const stage = await openStage();
const found = {};

/** Returns the map's readout of a cell. */
async function cell(page, [row, col], side) {
  const map = page.locator('[data-view="attention"] .heatmap');
  const { width, height } = await map.boundingBox();
  const position = { x: ((col + 0.5) / side) * width, y: ((row + 0.5) / side) * height };
  const readout = '[data-view="attention"] .readout';
  const lastWords = await text(page, readout);
  await map.hover({ position });
  await until(async () => (await text(page, readout)) !== lastWords);
  return { row, col, says: await text(page, readout) };
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
    // The map's readout is read here because later steps replace it.
    const shown = {
      finding: await text(page, '[data-finding]'),
      map: await map.getAttribute('aria-label'),
      axes: await map.evaluate(({ parentElement }) => ({ ...parentElement.dataset })),
    };
    const texts = [await text(page, 'main')];
    const [titles, lacks] = [new Set(), {}];
    // Figures are drawn only when they are on the screen.
    await page.setViewportSize({ width: 1280, height: 5000 });
    await everyTab(page, async () => {
      for (const figure of await page.locator('.stage > .figure').all()) {
        const title = await figure.getAttribute('aria-label');
        titles.add(title);
        const said = await figure.locator('[data-lacks]').allTextContents();
        if (said.length) lacks[title] = said.join(' ').trim();
      }
      texts.push(await text(page, '.room'));
    });
    await page.setViewportSize({ width: 1280, height: 900 });
    await page.screenshot({ path: `${folder}/${basename(file)}.png` });
    found[basename(file)] = {
      ...shown,
      views: [...titles],
      lacks,
      side,
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
