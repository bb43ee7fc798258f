/** Tests recordings in the page: dropped, linked to, compared, saved and embedded ones, and hostile ones. */
import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import { readdirSync, readFileSync } from 'node:fs';
import { recordMaps } from '../../wasm/index.ts';
import {
  ask,
  everyTab,
  goTo,
  inAllSizes,
  openSection,
  pictures,
  root,
  settled,
  staysWithin,
  text,
  violations,
  openFiles,
  until,
} from './stage.mjs';

const NAME = 'smollm2-135m-instruct.safetensors';
const readShipped = () => readFileSync(`${root}models/recordings/${NAME}`);
const REAL_SUBJECT = `recording:${NAME}`;

/** Makes maps of uniform attention of T tokens in L layers of H heads: the first token receives the most. */
function uniformMaps(L, H, T) {
  const data = new Float32Array(L * H * T * T);
  for (let head = 0; head < L * H; head++)
    for (let t = 0; t < T; t++)
      for (let k = 0; k <= t; k++) data[(head * T + t) * T + k] = 1 / (t + 1);
  return { shape: [L, H, T, T], data };
}

/**
 * Serves another site that lets every page read its files; `requests` lists the requests. Some answers do not state
 * their length.
 */
async function serveOtherSite(files) {
  const requests = [];
  const server = createServer((request, response) => {
    requests.push(`${request.method} ${request.url}`);
    const body = files[request.url];
    if (request.method === 'HEAD' && body && !request.url.includes('unknown'))
      response.setHeader('content-length', body.length);
    response.setHeader('access-control-allow-origin', '*');
    response.setHeader(
      'content-type',
      request.url.endsWith('/') ? 'text/html' : 'application/octet-stream',
    );
    response.writeHead(body ? 200 : 404).end(body);
  });
  await new Promise((done) => server.listen(0, '127.0.0.1', done));
  const address = `http://127.0.0.1:${server.address().port}`;
  return { address, requests, close: () => server.close() };
}

async function choose(page, name, bytes) {
  const mimeType = 'application/octet-stream';
  await openFiles(page, { name, mimeType, buffer: Buffer.from(bytes) });
  await settled(page);
}

const findingText = (page) => text(page, '[data-finding]');
const waitUntilHidden = (page) => page.waitForSelector('#open', { state: 'hidden' });

async function checkLooks(page, { width, scheme }) {
  for (const room of ['explore', 'compare', 'start']) {
    const shown = room === 'compare' ? `softmax,${REAL_SUBJECT}` : REAL_SUBJECT;
    await goTo(page, `room=${room}&shown=${shown}`);
    await page.waitForFunction(
      (name) =>
        document.querySelector('main').dataset.room === name &&
        /head|135/.test(document.querySelector('[data-finding]').textContent),
      room,
    );
    await settled(page);
    await staysWithin(page, width, room);
    assert.deepEqual(await violations(page), [], room);
    await page.screenshot({ path: `${pictures}/recording-${room}-${width}-${scheme}.png` });
  }
}

const WIDTHS = [1280, 390];
const KINDS_FOLDER = `${root}tests/golden/recordings/`;
const kinds = readdirSync(KINDS_FOLDER)
  .filter((name) => name.endsWith('.safetensors'))
  .map((name) => name.replace('.safetensors', ''));

/** Counts the color scales in the large picture that are covered by a button. */
const coveredScales = (page) =>
  page.evaluate(() => {
    const boxes = (selector) =>
      [...document.querySelectorAll(`.stage > .main ${selector}`)].map((element) =>
        element.getBoundingClientRect(),
      );
    const buttons = boxes('> .figure-head summary');
    return boxes('.map-key .scale').filter((scale) =>
      buttons.some(
        ({ left, right, top, bottom }) =>
          left < scale.right && scale.left < right && top < scale.bottom && scale.top < bottom,
      ),
    ).length;
  });

/** Looks at recordings in Explore and Compare at each width, at the first one by axe. */
async function inspectRecordings(stage, names, widths) {
  const page = await stage.open('room=explore', { width: widths[0] });
  for (const kind of names) {
    await choose(page, `${kind}.safetensors`, readFileSync(`${KINDS_FOLDER}${kind}.safetensors`));
    await waitUntilHidden(page);
    await page.waitForSelector('[data-recorded]');
    for (const room of ['explore', 'compare']) {
      if (room === 'compare')
        await page.locator('nav').getByRole('link', { name: 'Compare' }).click();
      await page.waitForFunction(() =>
        document.querySelector('[data-finding]')?.textContent.trim(),
      );
      await settled(page);
      const where = `${kind} in ${room}`;
      for (const width of [...widths, widths[0]]) {
        await page.setViewportSize({ width, height: 900 });
        await staysWithin(page, width, where);
        assert.equal(await coveredScales(page), 0, `${where} at ${width}`);
      }
      assert.doesNotMatch(await text(page, 'main'), /\bNaN|undefined|Infinity|\[object/, where);
      if (room === 'compare') {
        await page.getByText('How sure?').click();
        await page.getByRole('button', { name: 'All numbers' }).click();
        const columns = () => text(page, '.numbers-of-all');
        await until(async () => /Sink|α|‖[hkv]/.test(await columns()));
        assert.equal(/Sink₁|α₁|‖[hkv]₁‖/.test(await columns()), kind !== 'first');
      }
      assert.deepEqual(await violations(page), [], where);
    }
    assert.deepEqual(page.troubles, [], kind);
    await goTo(page, 'room=explore&shown=softmax');
    await page.waitForSelector('[data-recorded]', { state: 'detached' });
  }
}

/** Opens a series, goes through its steps with the slider and the keyboard, and back to the last one. */
async function walkSeries(stage) {
  const page = await stage.open('room=explore');
  await choose(page, 'series.safetensors', readFileSync(`${root}tests/golden/series.safetensors`));
  const slider = page.getByRole('slider', { name: 'Training step' });
  await slider.waitFor();
  await settled(page);
  assert.match(page.url(), /room=training/);
  const stepShown = () => slider.getAttribute('aria-valuetext');
  assert.match(await stepShown(), /1,000/);
  for (const step of [/^training step 30 of 1,000/, /^training step 0 of 1,000/]) {
    await slider.press('ArrowLeft');
    await until(async () => step.test(await stepShown()));
    await page.waitForFunction(
      (words) => document.querySelector('main').textContent.includes(words),
      (await stepShown()).match(/step \d+/)[0],
    );
    await settled(page);
  }
  // A figure outside the window is drawn when it comes into view.
  await page.locator('[data-view="training"]').scrollIntoViewIfNeeded();
  const caption = '[data-view="training"] .caption';
  await until(async () =>
    /lab\/llama at step 0: loss 5\.71, heads with a sink 38\.3%, strongest head 0\.35 \(recorded: 5 prompts/.test(
      await page.locator(caption).textContent(),
    ),
  );
  assert.doesNotMatch(await text(page, 'main'), /\bNaN|undefined|Infinity|\[object/);
  for (const width of WIDTHS) {
    await page.setViewportSize({ width, height: 900 });
    await staysWithin(page, width, 'training');
    assert.deepEqual(await violations(page), []);
    await page.screenshot({ path: `${pictures}/series-${width}.png`, fullPage: true });
  }
  assert.deepEqual(page.troubles, []);
}

export const recording = {
  'recording: a series opens in Training with the slider': walkSeries,
  ...Object.fromEntries(
    [WIDTHS, WIDTHS.toReversed()].map((widths, half) => [
      `recording: ${half ? 'every other kind' : 'half of the kinds'} in Explore and Compare at ${widths.join(' and ')} px`,
      (stage) =>
        inspectRecordings(
          stage,
          kinds.filter((_, i) => i % 2 === half),
          widths,
        ),
    ]),
  ),

  'recording: a chosen file is shown without weights, and says which views it lacks the numbers for':
    async (stage) => {
      const page = await stage.open('room=explore');
      await choose(page, 'mine.safetensors', readShipped());
      await waitUntilHidden(page);
      await page.waitForFunction(() =>
        /SmolLM2/.test(document.querySelector('.subject-list').textContent),
      );
      await settled(page);
      assert.match(await findingText(page), /mean over all 270 heads is 49%/);
      assert.match(await text(page, '.stage .stamp'), /SmolLM2-135M-Instruct · recorded/);
      assert.equal(await page.locator('.chip').count(), 64);
      assert.equal(await page.locator('.stage > .main [data-lacks] p').count(), 0);
      await ask(page, 'Why does the first key win?');
      assert.match(
        await text(page, '.stage [data-lacks]'),
        /“Query-key geometry|needs the field q, not recorded/,
      );
      assert.match(await text(page, '[data-recorded]'), /no weights/);
      assert.equal(await page.locator('textarea').count(), 0);
      assert.equal(await page.getByText('Generate text').count(), 0);
      // The address of the page must not name the recording, because a link cannot open a file on a disk.
      assert.doesNotMatch(page.url(), /recording/);
      let lackingCount = 0;
      await everyTab(page, async (title) => {
        const [drawnCount, noteCount] = [
          await page.locator('.stage > .main .cell-body').count(),
          await page.locator('.stage > .main [data-lacks]').count(),
        ];
        assert.ok(drawnCount + noteCount > 0, title);
        lackingCount += noteCount;
      });
      assert.ok(lackingCount > 2);
      assert.deepEqual(page.troubles, []);
    },

  'recording: a link asks before another site is contacted, and then shows it': async (stage) => {
    const bytes = recordMaps([{ att: uniformMaps(2, 2, 24) }], { id: 'A stranger’s model' });
    const otherSite = await serveOtherSite({
      '/r.safetensors': bytes,
      '/unknown.safetensors': bytes,
    });
    stage.allowed.add(otherSite.address);
    try {
      const shown = `recording:${otherSite.address}/r.safetensors`;
      const page = await stage.open(`room=explore&shown=${shown}`, { waits: false });
      await page.waitForSelector('#open[open]');
      assert.match(await text(page, '#open'), /contacts 127\.0\.0\.1:\d+ only if you agree/);
      assert.deepEqual(otherSite.requests, []);
      const load = page.getByRole('button', { name: 'Load the recording' });
      await page.getByRole('button', { name: 'Look it up' }).click();
      await load.waitFor();
      const kilobytes = Math.round(bytes.length / 1000);
      assert.match(await text(page, '.open-plan'), new RegExp(`to download ${kilobytes} kB`));
      assert.deepEqual(otherSite.requests, ['HEAD /r.safetensors']);
      await load.click();
      await waitUntilHidden(page);
      await page.waitForFunction(() =>
        /uniform attention/.test(document.querySelector('[data-finding]').textContent),
      );
      assert.deepEqual(otherSite.requests, ['HEAD /r.safetensors', 'GET /r.safetensors']);
      assert.match(await text(page, '.subject-list'), /A stranger’s model/);
      const editedPage = await stage.open(`room=explore&shown=${shown}~sigmoid`, { waits: false });
      await editedPage.waitForFunction(() => /has no weights/.test(document.body.textContent));
      assert.equal(otherSite.requests.length, 2);
      const unknown = `recording:${otherSite.address}/unknown.safetensors`;
      const unknownPage = await stage.open(`room=explore&shown=${unknown}`, { waits: false });
      await unknownPage.getByRole('button', { name: 'Look it up' }).click();
      await unknownPage.getByText('size unknown').waitFor();
      assert.equal(otherSite.requests.length, 3);
    } finally {
      stage.allowed.delete(otherSite.address);
      otherSite.close();
    }
  },

  'recording: Start shows a real model at one click, and goes back': async (stage) => {
    const page = await stage.open('');
    await page.locator('.step-3').scrollIntoViewIfNeeded();
    await page.getByRole('link', { name: 'See the real model’s attention maps' }).click();
    await page.waitForFunction(() =>
      /SmolLM2/.test(document.querySelector('.start-captions').textContent),
    );
    await settled(page);
    assert.match(
      await text(page, '.start-head'),
      /SmolLM2-135M-Instruct read this text.*the first of 98 such texts\. In this softmax head, almost every token attends to the first one, “Up”/,
    );
    assert.match(await text(page, '.start-facts'), /mean over all 270 heads is 49%/);
    assert.equal(await page.locator('textarea').count(), 0);
    await page.waitForFunction(() => scrollY === 0);
    await page.locator('.step-3').scrollIntoViewIfNeeded();
    await page.getByRole('link', { name: 'Back to the two small models' }).click();
    await page.waitForFunction(
      () => document.querySelectorAll('.start-captions .twin').length === 2,
    );
    assert.equal(await page.locator('textarea').count(), 1);
    assert.deepEqual(page.troubles, []);
  },

  'recording: a figure is saved as one, its size first, and opened again with the same numbers':
    async (stage) => {
      const page = await stage.open('room=explore&shown=softmax');
      const sentence = await findingText(page);
      const menu = page.locator('[data-view="attention"] .save');
      await menu.locator('summary').click();
      await menu.getByRole('button', { name: 'Recording …' }).click();
      const button = menu.getByRole('button', { name: /Save recording \(\d+ kB\)/ });
      await button.waitFor();
      const downloading = page.waitForEvent('download');
      await button.click();
      const download = await downloading;
      assert.match(download.suggestedFilename(), /^sinkscope-recording-softmax.*\.safetensors$/);
      await choose(page, 'again.safetensors', readFileSync(await download.path()));
      await waitUntilHidden(page);
      await page.waitForSelector('[data-recorded]');
      await settled(page);
      assert.equal(await findingText(page), sentence);
      await ask(page, 'Why does the first key win?');
      await page.waitForSelector('.view-geometry canvas, .view-geometry .heatmap');
      assert.equal(await page.locator('[data-recorded]').count(), 1);
      // A recording shows the number that a paper reports for its model, as the opened model does.
      await page.locator('nav').getByRole('link', { name: 'Compare' }).click();
      await page.getByText('How sure?').click();
      await page.getByRole('button', { name: 'In papers?' }).click();
      await page.waitForSelector('.reported-rows');
      const reportedText = await text(page, '.reported-rows');
      assert.match(reportedText, /Softmax model’s counterpart REPORTED [\d.]+%/);
      assert.deepEqual(page.troubles, []);
    },

  'recording: markup in its words stays text, and false shapes are refused in a sentence': async (
    stage,
  ) => {
    const markup = '<img src=x onerror="globalThis.hit=1">';
    const facts = { id: markup, family: markup, source: markup, license: markup, command: markup };
    const tokens = [
      markup,
      '<script>globalThis.hit=1</script>',
      '{{7*7}}',
      ...Array.from({ length: 21 }, () => markup),
    ];
    const bytes = recordMaps([{ att: uniformMaps(1, 2, 24), tokens }], facts);
    const page = await stage.open('room=explore');
    await choose(page, 'evil.safetensors', bytes);
    await waitUntilHidden(page);
    await page.waitForFunction(() => document.querySelectorAll('.chip').length === 24);
    await openSection(page, 'settings');
    for (const summary of await page.locator('.about summary').all()) await summary.click();
    assert.equal(await page.locator('.chip img, .about img, h1 img, .subject-list img').count(), 0);
    assert.match(await page.locator('.chip').first().textContent(), /<img/);
    assert.equal(await page.evaluate(() => globalThis.hit), undefined);
    for (const room of ['compare', 'start']) {
      await page.evaluate(
        (name) => (location.hash = location.hash.replace(/room=\w+/, `room=${name}`)),
        room,
      );
      await settled(page);
      assert.equal(await page.evaluate(() => globalThis.hit), undefined, room);
    }
    const falseFile = Buffer.from(bytes);
    const at = falseFile.indexOf('[1,2,24,24]');
    falseFile.write('[2,1,24,24]', at);
    await choose(page, 'lie.safetensors', falseFile);
    await page.waitForSelector('.open-error:not([hidden])');
    assert.match(
      await text(page, '.open-error'),
      /0\.att.*expected.*\[1, 2, 24, 24\].*found.*\[2, 1, 24, 24\]/,
    );
    const newerFile = Buffer.from(bytes);
    newerFile.write('"sinkscope.recording":"9"', newerFile.indexOf('"sinkscope.recording":"1"'));
    await page
      .locator('#open input[type=file]')
      .first()
      .setInputFiles({ name: 'n.safetensors', mimeType: 'x/y', buffer: newerFile });
    // Asked from here: a page that draws no frames would never look again.
    const isNewError = (error) => error && !error.includes('[2, 1, 24, 24]');
    await until(async () => isNewError(await text(page, '.open-error')));
    assert.match(await text(page, '.open-error'), /newer Sinkscope/);
    assert.deepEqual(page.troubles, []);
  },

  'recording: an embed draws one that its page names, and no weights are fetched': async (
    stage,
  ) => {
    const html = (name) =>
      `<!doctype html><title>x</title><script type="module" src="${stage.origin}/sink-scope.js"></script>` +
      `<sink-scope view="attention" recording="${name}"></sink-scope><sink-scope view="attention" shown="recording:http://127.0.0.1:9/x.safetensors"></sink-scope>`;
    const otherSite = await serveOtherSite({
      '/': html('course/r.safetensors'),
      '/course/r.safetensors': readShipped(),
    });
    const context = await stage.browser.newContext({ serviceWorkers: 'block' });
    const page = await context.newPage();
    const fetchedUrls = [];
    page.on('request', (request) => fetchedUrls.push(request.url()));
    try {
      await page.addInitScript(() => {
        globalThis.errors = [];
        addEventListener('run', ({ detail }) => (globalThis.ran = detail));
        addEventListener('error', ({ detail }) => detail && globalThis.errors.push(detail.message));
      });
      await page.goto(`${otherSite.address}/`);
      await page.waitForFunction(() => globalThis.ran && globalThis.errors.length);
      const { results } = await page.evaluate(() => globalThis.ran);
      assert.equal(results[0].title, 'SmolLM2-135M-Instruct');
      assert.equal(results[0].tokens.length, 64);
      // The page does not fetch files that another attribute names.
      assert.match((await page.evaluate(() => globalThis.errors)).join(), /not loaded yet/);
      assert.ok(!fetchedUrls.some((url) => url.includes(':9/')));
      assert.deepEqual(
        fetchedUrls.filter((url) => /zoo\/.*(safetensors|tokenizer)/.test(url)),
        [],
      );
      assert.equal(fetchedUrls.filter((url) => /\.wasm$/.test(url)).length, 1);
    } finally {
      await context.close();
      otherSite.close();
    }
  },

  ...inAllSizes('recording', (stage) => stage.open('room=explore', { scheme: 'dark' }), checkLooks),
};
