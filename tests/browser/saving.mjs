/** Tests figures and numbers as files: a file must show what the screen shows, with any vocabulary. */
import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { openFiles, pictures, root, saveFrom, settled } from './stage.mjs';

const menu = (page, view) => page.locator(`[data-view="${view}"] .save`);
const save = async (page, view, kind) => saveFrom(page, menu(page, view), kind);

async function evaluateOnEmptyPage(page, run, argument) {
  const emptyPage = await page.context().newPage();
  const result = await emptyPage.evaluate(run, argument);
  await emptyPage.close();
  return result;
}

/**
 * Parses a text as XML in the browser. Returns the name of its root and the number of its texts, or the error. This runs
 * on an empty page, because the policy of Sinkscope lets no text become markup.
 */
const asXml = (page, text) =>
  evaluateOnEmptyPage(
    page,
    (xml) => {
      const svg = new DOMParser().parseFromString(xml, 'image/svg+xml');
      const parserError = svg.querySelector('parsererror');
      return parserError
        ? parserError.textContent
        : `${svg.documentElement.localName} ${svg.querySelectorAll('text').length}`;
    },
    text,
  );

/** Opens the softmax model from files, with `content` in its vocabulary instead of the last merged token. */
async function openWith(page, content) {
  const readZoo = (name) => readFile(`${root}models/zoo/softmax/${name}`);
  const json = JSON.parse(await readZoo('tokenizer.json'));
  const tokenOptions = { single_word: false, lstrip: false, rstrip: false, normalized: false };
  // An added token has the id of its text in the vocabulary, or a new one.
  const { vocab, merges } = json.model;
  const lastToken = merges.pop().join('');
  const id = vocab[lastToken];
  delete vocab[lastToken];
  vocab[content] = id;
  json.added_tokens.push({ id, content, ...tokenOptions, special: false });
  const file = (name, buffer) => ({ name, mimeType: 'application/octet-stream', buffer });
  await openFiles(page, [
    file('config.json', await readZoo('config.json')),
    file('own.safetensors', await readZoo('model.safetensors')),
    file('tokenizer.json', Buffer.from(JSON.stringify(json))),
  ]);
  await page.waitForFunction(() =>
    /own\.safetensors/.test(document.querySelector('[data-view="attention"] .stamp')?.textContent),
  );
}

const readPixels = (page, selector) =>
  page.$$eval(selector, (all) =>
    all.map((canvas) => {
      const { width, height } = canvas;
      return { width, data: [...canvas.getContext('2d').getImageData(0, 0, width, height).data] };
    }),
  );

/** Returns the color of a saved picture's paper, and for each of its maps the number of cells with another color. */
async function compareCells({ xml, cells }) {
  const image = new Image();
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(xml)}`;
  await image.decode();
  const canvas = document.createElement('canvas');
  Object.assign(canvas, { width: image.width, height: image.height });
  const context = canvas.getContext('2d');
  context.drawImage(image, 0, 0);
  const at = (x, y) => [...context.getImageData(Math.round(x), Math.round(y), 1, 1).data];
  const svg = new DOMParser().parseFromString(xml, 'image/svg+xml');
  const maps = [...svg.querySelectorAll('g[shape-rendering]')];
  const wrongCounts = maps.map((map, i) => {
    const [x, y, w, h] = map
      .getAttribute('transform')
      .match(/[\d.]+/g)
      .map(Number);
    const { width, data } = cells[i];
    let count = 0;
    for (let n = 0; n < data.length / 4; n++) {
      const shownPixel = at(x + ((n % width) + 0.5) * w, y + (Math.floor(n / width) + 0.5) * h);
      if (data.slice(4 * n, 4 * n + 3).some((byte, j) => byte !== shownPixel[j])) count++;
    }
    return count;
  });
  return { paper: at(2, 2), wrong: wrongCounts };
}

async function choosePicture(page, view) {
  const settings = page.locator('details.settings');
  if (!(await settings.evaluate(({ open }) => open))) await settings.locator('> summary').click();
  await page.getByLabel('picture', { exact: true }).selectOption(view);
  await page.waitForSelector(`[data-view="${view}"] .cell:nth-child(2) :is(canvas, svg)`);
  await settled(page);
}

export const saving = {
  async 'a saved picture has both subjects, with text as text and lines as lines'(stage) {
    const page = await stage.open('room=compare&view=norms');
    await page.waitForSelector('[data-view="norms"] .cell:nth-child(2) .chart-picture');
    const { name, bytes } = await save(page, 'norms', 'SVG');
    assert.match(name, /^sinkscope-norms-softmax-model-sigmoid-model\.svg$/);
    const text = bytes.toString();
    assert.match(await asXml(page, text), /^svg \d\d/);
    assert.match(text, /Softmax model.*Sigmoid model/s);
    assert.ok(
      (text.match(/<path[^>]* d="M[\d.]+,[\d.]+L/g) ?? []).length >= 12,
      'lines are vectors',
    );
    assert.doesNotMatch(text, /<image/);
    const png = await save(page, 'norms', 'PNG');
    assert.equal(png.bytes.subarray(1, 4).toString(), 'PNG');
    await choosePicture(page, 'attention');
    const map = (await save(page, 'attention', 'SVG')).bytes.toString();
    assert.doesNotMatch(map, /<image/);
    assert.match(map, />water</, 'its words');
    const words = map.replace(/<[^>]*>/g, ' ').replace(/\s+/g, ' ');
    assert.match(words, /L1H3 .*L4H0 /, 'its heads');
  },

  async 'a saved map has the column of an extra key, which is no token'(stage) {
    const page = await stage.open('room=compare&shown=softmax,key-bias');
    await page.waitForSelector('.extra-key:not([hidden]) i');
    const colors = await page.$$eval('.extra-key:not([hidden]) i', (cells) =>
      cells.map((cell) => getComputedStyle(cell).backgroundColor),
    );
    const svg = (await save(page, 'attention', 'SVG')).bytes.toString();
    const cells = [...svg.matchAll(/<rect [^>]*fill="([^"]*)" shape-rendering/g)];
    assert.ok(colors.length > 20);
    assert.deepEqual(
      cells.map(([, fill]) => fill),
      colors,
    );
    assert.deepEqual(page.troubles, []);
  },

  async 'a saved map has each cell as drawn, on white paper in any theme, and names its conditions'(
    stage,
  ) {
    const page = await stage.open('room=compare', { scheme: 'dark' });
    const oldPixels = await readPixels(page, '[data-view="attention"] canvas');
    const darkSvg = (await save(page, 'attention', 'SVG')).bytes.toString();
    assert.deepEqual(
      await readPixels(page, '[data-view="attention"] canvas'),
      oldPixels,
      'the page is as it was',
    );
    assert.equal(await page.getAttribute('html', 'data-theme'), 'dark');
    const lightPage = await stage.open('room=compare');
    const lightSvg = (await save(lightPage, 'attention', 'SVG')).bytes.toString();
    assert.equal(darkSvg, lightSvg);
    const comparison = await evaluateOnEmptyPage(lightPage, compareCells, {
      xml: lightSvg,
      cells: await readPixels(lightPage, '[data-view="attention"] canvas'),
    });
    assert.deepEqual(comparison.paper, [255, 255, 255, 255]);
    // The words in each map cover a few of its cells.
    assert.ok(Math.max(...comparison.wrong) <= 16, `${comparison.wrong}`);
    assert.match(lightSvg, /<title>Attention map: Softmax model, Sigmoid model<\/title>/);
    assert.match(lightSvg, /<desc>[^<]*93% on average[^<]*T = 26[^<]*<\/desc>/);
    const [, json] = /<metadata>([^<]*)<\/metadata>/.exec(lightSvg);
    const facts = JSON.parse(
      json.replaceAll('&lt;', '<').replaceAll('&gt;', '>').replaceAll('&amp;', '&'),
    );
    assert.deepEqual([facts.subjects[0].T, facts.subjects[1].operation], [26, 'sigmoid']);
    assert.equal(facts.link, undefined, 'no other machine can open a link to this one');
    assert.doesNotMatch(lightSvg, /127\.0\.0\.1|localhost/);
    await choosePicture(lightPage, 'arrows');
    const arrowsSvg = (await save(lightPage, 'geometry', 'SVG')).bytes.toString();
    assert.match(arrowsSvg, />cosine</);
    assert.doesNotMatch(arrowsSvg, />(q·k|angles|‖q‖‖k‖)</);
    assert.deepEqual([...page.troubles, ...lightPage.troubles], []);
  },

  async 'maps of several models are aligned, on the page and in the file'(stage) {
    const shown = 'softmax,softmax~softpick,key-bias,gated,lr-1e-3,sigmoid';
    const page = await stage.open(`room=compare&shown=${shown}`);
    // Two cards are in a row.
    const drawnTops = await page.$$eval('[data-view="attention"] canvas', (all) =>
      all.map((element) => Math.round(element.getBoundingClientRect().top)),
    );
    const rowsOf = (tops) => [0, 2, 4].map((i) => tops.slice(i, i + 2));
    for (const tops of rowsOf(drawnTops)) assert.equal(new Set(tops).size, 1);
    const { bytes } = await save(page, 'attention', 'SVG');
    const places = [...bytes.toString().matchAll(/translate\([\d.]+ ([\d.]+)\) scale/g)];
    assert.equal(places.length, 6);
    for (const tops of rowsOf(places.map(([, y]) => Math.round(y))))
      assert.equal(new Set(tops).size, 1);
  },

  async 'a token of 24 letters is cut in the gutter of its map, in every room and file'(stage) {
    const longToken = 'supercalifragilisticexpi';
    const page = await stage.open('room=explore');
    await openWith(page, longToken);
    const words = `The ${longToken} man and the ${longToken} sat at the door of the house by the sea.`;
    await page.fill('textarea', words);
    await page.waitForFunction(
      (longText) =>
        [...document.querySelectorAll('.chip')].some((chip) => chip.textContent.includes(longText)),
      longToken,
    );
    for (const [room, name] of [
      ['Explore', 'explore'],
      ['Start', 'start'],
      ['Compare', 'compare'],
      ['Training', 'training'],
      ['Why it matters', 'purpose'],
    ]) {
      await page.locator('nav.rooms').getByRole('link', { name: room, exact: true }).click();
      await page.waitForSelector(`.room-${name} [data-view] canvas`);
      await settled(page);
      const overflowing = await page.evaluate(() =>
        [...document.querySelectorAll('.map-inner')].flatMap((map) => {
          const { left } = map.querySelector('.heatmap').getBoundingClientRect();
          return [...map.querySelectorAll('.row-words span')]
            .filter((span) => span.checkVisibility())
            .filter((span) => span.getBoundingClientRect().right > left + 0.5)
            .map((span) => span.textContent);
        }),
      );
      assert.deepEqual(overflowing, [], room);
    }
    await page.locator('nav.rooms').getByRole('link', { name: 'Explore', exact: true }).click();
    await page.waitForSelector('.room-explore [data-view="attention"] .row-words span');
    await settled(page);
    const label = page.locator(`[data-view="attention"] .row-words span[title="${longToken}"]`);
    assert.equal(await label.count(), 2, 'hovering shows the whole of it');
    await page.screenshot({ path: `${pictures}/long-token.png` });
    const svg = (await save(page, 'attention', 'SVG')).bytes.toString();
    assert.match(svg, />super[a-z]{0,6}…</);
    const overhangs = await evaluateOnEmptyPage(
      page,
      (xml) => {
        const svg = new DOMParser().parseFromString(xml, 'image/svg+xml').documentElement;
        document.body.append(document.importNode(svg, true));
        const { left } = document.querySelector('g[shape-rendering]').getBoundingClientRect();
        return [...document.querySelectorAll('text[text-anchor="end"]:not([transform])')]
          .filter((element) => element.textContent !== 'attended to (key)')
          .map((element) => element.getBoundingClientRect().right - left);
      },
      svg,
    );
    assert.ok(overhangs.length > 10 && overhangs.every((end) => end <= 0.5), `${overhangs}`);
    assert.deepEqual(page.troubles, []);
  },
};
