/** Tests the rooms as a reader uses them: looking, pointing, typing, choosing and following links. */
import assert from 'node:assert/strict';
import { exec } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import { promisify } from 'node:util';
import { createEngine, judge, openTokenizer } from '../../wasm/index.ts';
import { fieldsFor } from '../../wasm/internal.ts';
import {
  WATCHES_SHIFTS,
  ask,
  chips,
  everyTab,
  inAllSizes,
  openSection,
  pauseAtStep,
  pictures,
  root,
  saveFrom,
  setSavesData,
  settled,
  staysWithin,
  text,
  twoFrames,
  violations,
  until,
} from './stage.mjs';

const zoo = (path) => readFile(`${root}models/zoo/${path}`);
const findingOf = (page) => text(page, '[data-finding]');
const mapOf = (page, nth = 0) => page.locator('[data-view="attention"] .heatmap').nth(nth);

async function openInNode(id, prompt) {
  const engine = await createEngine({ worker: false });
  const [config, weights] = await Promise.all([
    zoo(`${id}/config.json`),
    zoo(`${id}/model.safetensors`),
  ]);
  const model = await engine.open({ config, weights });
  const tokenizer = openTokenizer(String(await zoo(`${id}/tokenizer.json`)));
  const tokens = tokenizer.encode(prompt, { bos: true }).slice(0, 64);
  return { engine, model, ids: tokens.map((token) => token.id) };
}

async function readInNode(id, prompt, reads, edits = []) {
  const { engine, model, ids } = await openInNode(id, prompt);
  const run = await model.run(ids, { edits, fields: fieldsFor(engine.describe, reads) });
  const tensors = await run.read(reads);
  const { operations } = engine.describe;
  const { attention, H } = model.architecture;
  await engine.close();
  return {
    tensors,
    H,
    T: ids.length,
    operation: operations.find(({ name }) => name === attention.operation),
  };
}

/** Counts the distinct colors of a canvas; a blank canvas has one or two. */
const countColors = (page, selector) =>
  page.evaluate((s) => {
    const canvas = document.querySelector(s);
    const { data } = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
    return new Set(new Uint32Array(data.buffer)).size;
  }, selector);

const isSeen = (page, selector) =>
  page.evaluate((s) => {
    const { top, bottom, left, right } = document.querySelector(s).getBoundingClientRect();
    return top >= 0 && left >= 0 && bottom <= innerHeight && right <= innerWidth && bottom > top;
  }, selector);

async function go(page, room) {
  await page.getByRole('link', { name: room, exact: true }).click();
  await page.waitForSelector(`[data-room="${room.toLowerCase()}"]`);
  await page.waitForSelector('[data-view="attention"] canvas');
  await settled(page);
}

async function type(page, words) {
  await page.fill('textarea', words);
  await page.waitForTimeout(50);
  await settled(page);
}

const WATCHES_HIDING = (selector) => `globalThis.wasHidden = false;
  new MutationObserver(() => {
    const place = document.querySelector('${selector}');
    if (place && getComputedStyle(place).visibility === 'hidden') globalThis.wasHidden = true;
  }).observe(document, { subtree: true, childList: true, attributes: true });`;

const start = {
  async 'the first screen shows the sink, names it, and asks why'(stage) {
    const requestedUrls = [];
    const page = await stage.open('', { waits: false });
    page.on('request', (request) => requestedUrls.push(request.url()));
    await page.waitForFunction(() => performance.getEntriesByName('first-sink').length);
    await settled(page);
    assert.match(
      await findingOf(page),
      /^In this softmax head, almost every token attends to the first one: the start token <s>, which begins this model’s texts\. Softmax must hand out 100% per row: what is unused goes to <s>, which every row sees\. Sigmoid, trained alike, weighs each token alone: rows may sum to anything\.$/,
    );
    const sides = (await page.locator('.twin').allTextContents()).map((caption) =>
      caption.replace(/\s+/g, ' ').trim(),
    );
    assert.match(
      sides[0],
      /^Softmax model Highest of 24 heads: L1H3 \(layer 1, head 3\) gives <s> 93% on average\.$/,
    );
    assert.match(sides[1], /^Sigmoid model Highest of 24: L4H0 gives <s> [12]% on average\.$/);
    const [sink, otherRemark] = await page.locator('.remark:visible').allTextContents();
    assert.equal(sink, '◀ attention sink; rows sum to 100%');
    assert.match(otherRemark, /^no strong column; rows sum to \d+% on average$/);
    // Both maps have many colors: the sigmoid model shows the head with the largest weight, not the largest share.
    for (const nth of [1, 2])
      assert.ok((await countColors(page, `.cell:nth-child(${nth}) canvas`)) > 30);
    assert.match(
      await page.locator('.facts').textContent(),
      /The sigmoid model: head\s+L4H0 .* Rows sum to \d-1\d\d%, 4\d% on average/s,
    );
    assert.equal(
      (await page.locator('.cell').first().locator('.row-words span').allTextContents()).join(' '),
      '<s> The old man sat at the door and looked over the water . He thought of his child , and every night was long .',
    );
    const mainText = await page.locator('main').innerText();
    assert.doesNotMatch(mainText, /[αε]|alpha|\bT =|first word|start mark|look(?:s|ing)? at/i);
    assert.deepEqual(page.troubles, []);
    return findingOf(page);
  },

  async 'Start shows a quick look, says so, and then exact numbers; with Save-Data on request'({
    browser,
    origin,
  }) {
    for (const savesData of [false, true]) {
      const context = await browser.newContext({ serviceWorkers: 'block' });
      await context.addInitScript(setSavesData, savesData);
      const page = await context.newPage();
      const requestedFiles = [];
      page.on('request', (request) => requestedFiles.push(request.url().split('/').at(-1)));
      await page.goto(origin);
      await page.waitForFunction(() => document.querySelectorAll('.twin > strong').length === 2);
      const refinements = () => requestedFiles.filter((name) => name === 'refinement.gz').length;
      if (savesData) {
        await settled(page);
        assert.equal(refinements(), 0);
        assert.match(await text(page, '.preview'), /^Quick look: weights rounded to 3\.\d bits/);
        assert.match(await text(page, '.start-captions'), /one head gives <s> about \d\d%/);
        await page.locator('.preview button', { hasText: /Use exact weights/ }).click();
      }
      await page.getByText('Exact now; the quick').waitFor();
      await settled(page);
      assert.equal(refinements(), 2);
      assert.doesNotMatch(await text(page, '.start-captions'), /about|one head/);
      await context.close();
    }
  },

  async 'text that is already visible does not move when pictures arrive'(stage) {
    const shifts = [];
    for (const room of ['explore', 'compare', 'training', 'purpose'])
      for (const width of [1280, 390]) {
        const context = await stage.browser.newContext({
          viewport: { width, height: 900 },
          serviceWorkers: 'block',
        });
        const page = await context.newPage();
        // Holds the models until the controls were seen without the pictures.
        const { promise: isSeenEarly, resolve: release } = Promise.withResolvers();
        await context.route(/\/zoo\/.*\.(gz|safetensors)$/, async (route) => {
          await isSeenEarly;
          await route.continue();
        });
        // Holds the courses until the shown models have answered: a slow network gives any order.
        const { promise: isAnswered, resolve: releaseCourses } = Promise.withResolvers();
        await context.route(/\/timeline\/index\.json$/, async (route) => {
          await isAnswered;
          await route.continue();
        });
        await page.addInitScript(WATCHES_SHIFTS);
        await page.goto(`${stage.origin}/index.html#room=${room}&runs=1`);
        await page.waitForSelector('.room.late', { state: 'attached' });
        await page
          .locator('.room :is(textarea, select, .experiments button):visible')
          .first()
          .waitFor();
        release();
        if (room === 'training')
          await page.waitForFunction(() =>
            document.querySelector('.lead').textContent.includes('sigmoid'),
          );
        await twoFrames(page);
        releaseCourses();
        await page.waitForSelector('.room:not(.awaited)');
        await settled(page);
        await page.waitForLoadState('networkidle');
        const shift = await page.evaluate(() => globalThis.shifted);
        assert.ok(shift < 0.15, `${shift} of ${room} moved while it loaded, at ${width}`);
        shifts.push(shift.toFixed(3));
        assert.ok(await page.locator('footer').isVisible());
        await context.close();
      }
    return shifts.join(', ');
  },

  async 'the first screen fits without scrolling at 1280x800 and 390x844'(stage) {
    for (const [width, height] of [
      [1280, 800],
      [390, 844],
    ]) {
      const script = WATCHES_SHIFTS + WATCHES_HIDING('.room-start .lead');
      const page = await stage.open('', { width, script });
      const shift = await page.evaluate(() => globalThis.shifted);
      assert.equal(await page.evaluate(() => globalThis.wasHidden), false);
      assert.ok(shift < 0.1, `${shift} of the page moved while it loaded, at ${width}`);
      await page.setViewportSize({ width, height });
      for (const selector of [
        '[data-finding]',
        '[data-view="attention"] .heatmap',
        '[data-subject="sigmoid"] .heatmap',
        '.remark',
        'textarea',
        '.start-ask .primary',
      ])
        assert.ok(await isSeen(page, selector), `${selector} at ${width}x${height}`);
      await staysWithin(page, width);
      await page.screenshot({ path: `${pictures}/start-${width}x${height}.png` });
      if (width > 390) continue;
      // The corner of the map with masked cells shows the twin; a tap on it exchanges the models.
      const widths = async () => {
        const boxes = ['softmax', 'sigmoid'].map((subject) =>
          page.locator(`[data-subject="${subject}"] .heatmap`).boundingBox(),
        );
        return (await Promise.all(boxes)).map((box) => Math.round(box.width));
      };
      const [large, small] = await widths();
      assert.ok(large > 2 * small && small > 100, `${large}, ${small}`);
      await page.locator('[data-subject="sigmoid"] .heatmap').click();
      await page.waitForFunction(() => location.hash.includes('at=1'));
      await settled(page);
      assert.deepEqual(await widths(), [small, large]);
    }
  },

  async 'the bar fits seven rooms at 390 and 320 px without scrolling, in targets of 24 px'(stage) {
    const page = await stage.open();
    for (const width of [390, 320]) {
      await page.setViewportSize({ width, height: 844 });
      await staysWithin(page, width);
      const boxes = await page.$$eval('.top :is(a, button, select)', (all) =>
        all.map((control) => {
          const { left, right, height } = control.getBoundingClientRect();
          return { name: control.textContent.trim(), left, right, height };
        }),
      );
      assert.ok(boxes.length >= 11);
      const lines = await page.$$eval(
        '.rooms a',
        (all) => new Set(all.map((link) => link.offsetTop)).size,
      );
      assert.equal(lines, 1, `the rooms are one line at ${width} px`);
      for (const { name, left, right, height } of boxes)
        assert.ok(left >= 0 && right <= width && height >= 24, `${name}: ${left} to ${right} px`);
    }
  },

  async 'a reader goes from room to room and back without an error'(stage) {
    const page = await stage.open();
    const names = await page.locator('nav.rooms a').allTextContents();
    for (const name of [...names, ...names]) {
      await page.locator('nav.rooms').getByRole('link', { name, exact: true }).click();
      await page.waitForFunction(
        (title) => document.title.startsWith(`${title} ·`) && document.querySelector('#main .room'),
        name === 'Start' ? 'Why do language models stare at the first token?' : name,
      );
      await page.waitForTimeout(100);
    }
    assert.deepEqual(page.troubles, []);
  },

  async 'a term is explained where it occurs'(stage) {
    const page = await stage.open('room=explore');
    const oldBox = await page.locator('[data-view="attention"] .heatmap').first().boundingBox();
    const word = page.locator('[data-finding] .term', { hasText: 'head' }).first();
    await word.focus();
    await page.keyboard.press('Enter');
    const note = page.locator('.note');
    await note.waitFor({ state: 'visible' });
    assert.match(await note.textContent(), /^Every layer has several attention heads/);
    const [wordBox, noteBox] = [await word.boundingBox(), await note.boundingBox()];
    assert.ok(
      Math.abs(noteBox.y - wordBox.y - wordBox.height) < 12,
      `${noteBox.y} under ${wordBox.y}`,
    );
    const newBox = await page.locator('[data-view="attention"] .heatmap').first().boundingBox();
    assert.deepEqual(newBox, oldBox, 'nothing moves');
    await page.keyboard.press('Escape');
    await note.waitFor({ state: 'hidden' });
    const stampTerms = page.locator('[data-view="attention"] .stamp .term');
    assert.deepEqual(await stampTerms.allTextContents(), [
      'MEASURED',
      'ε',
      'T',
      'start token',
      'prompt',
      'Softmax',
    ]);
    assert.equal(
      await page.locator('[data-view="attention"] .stamp .term[tabindex="0"]').count(),
      1,
    );
    await stampTerms.first().focus();
    for (const key of ['ArrowRight', 'ArrowRight', 'Enter']) await page.keyboard.press(key);
    assert.match(await note.textContent(), /^The number of tokens that were run/);
    await page.keyboard.press('Escape');
    await openSection(page, 'settings');
    await page.locator('.question-controls .field .term', { hasText: /^T$/ }).click();
    assert.match(await note.textContent(), /^The number of tokens that were run/);
    await page.keyboard.press('Escape');
    assert.equal(await page.getByLabel('T ≤').inputValue(), '64');
    await page.setViewportSize({ width: 320, height: 700 });
    for (const term of await page.locator('.lead .term').all()) {
      await term.click();
      const { x, width } = await note.boundingBox();
      assert.ok(x >= 0 && x + width <= 320, `${x} to ${x + width}`);
      await page.keyboard.press('Escape');
    }
  },

  async 'a hovered token is marked in both maps'(stage) {
    const page = await stage.open();
    await mapOf(page).hover({ position: { x: 5, y: 200 } });
    const readout = page.locator('.readout', { hasText: /attends to “<s>”: \d+\.\d%/ });
    await readout.first().waitFor();
    // The other map follows.
    await page.locator('.mark.lit:visible').nth(1).waitFor();
    assert.equal(await page.locator('.mark.lit:visible').count(), 2);
  },

  async 'a hovered token is marked in the map and among the tokens'(stage) {
    const page = await stage.open('room=explore');
    await openSection(page, 'tokens');
    await page.locator('.chip', { hasText: 'door' }).hover();
    await page.locator('.mark.lit:visible').first().waitFor();
    const look = await page
      .locator('.chip')
      .first()
      .evaluate((chip) => Number(chip.style.getPropertyValue('--look')));
    assert.ok(look > 0.8, `the start token is colored: ${look}`);
    await page.setViewportSize({ width: 390, height: 844 });
    const lastChip = page.locator('.chip').last();
    await mapOf(page).evaluate((element) => element.scrollIntoView({ block: 'end' }));
    const { x, y, height } = await mapOf(page).boundingBox();
    await page.mouse.move(x + 5, y + height - 3);
    await page.waitForFunction(() => {
      const [chip] = [...document.querySelectorAll('.chip')].slice(-1);
      const [a, b] = [chip, chip.parentElement].map((element) => element.getBoundingClientRect());
      return chip.classList.contains('query') && a.left >= b.left && a.right <= b.right + 1;
    });
    assert.equal(await lastChip.textContent(), '.');
  },
};

const reading = {
  async 'the page has the numbers of the package in Node.js'(stage) {
    const page = await stage.open('room=explore&shown=softmax,sigmoid');
    const prompt = await page.inputValue('textarea');
    for (const [at, id] of ['softmax', 'sigmoid'].entries()) {
      await page.locator('.subject-list button').nth(at).click();
      await settled(page);
      const names = ['sink_ratio', 'sink_ratio_raw', 'alpha_uniform', 'alpha'];
      const { tensors, H, T, operation } = await readInNode(id, prompt, [
        ...names.map((metric) => ({ metric })),
        { field: 'att' },
      ]);
      const [sink, raw, even, alpha, weights] = tensors.map(({ data }) => data);
      const verdict = judge({
        eps: 0.3,
        even: even[0],
        normalizes: operation.normalizes,
        sink: sink[0],
        sinkRaw: raw[0],
      });
      const firstAlphas = [...alpha].filter((_, i) => i % T === 0);
      // The head is chosen by its weight, which is a share only if rows sum to 1.
      const firstWeights = firstAlphas.map((_, head) => {
        const rows = Array.from({ length: T }, (_, row) => weights[(head * T + row) * T]);
        return rows.reduce((a, b) => a + b) / T;
      });
      const best = firstWeights.indexOf(Math.max(...firstWeights));
      const name = `L${Math.floor(best / H)}H${best % H}`;
      const [share, most] = [firstAlphas[best], firstWeights[best]].map((x) => 100 * x);
      const count = Math.round(verdict.sink * firstAlphas.length);
      const sentence = await findingOf(page);
      const mean = firstAlphas.reduce((a, b) => a + b) / firstAlphas.length;
      const numbers = operation.normalizes
        ? `^Head ${name} gives the start token <s> ${share.toFixed(0)}% of its attention\\. The mean over all 24 heads is ${(100 * mean).toFixed(0)}%;`
        : `^No head gives the start token <s> more than ${Math.ceil(most)}%; head ${name} gives it the most\\. Rows need not sum to 100%: those of this head sum to`;
      assert.match(sentence, new RegExp(numbers));
      assert.match(sentence, new RegExp(`On this text, ${count || 'none'} of the 24 heads`));
      assert.match(await text(page, '.room-head .hint'), new RegExp(`\\(${name}\\);`));
    }
  },

  async 'a short text has its share with a caveat, and heads are counted only where that is meaningful'(
    stage,
  ) {
    // Whatever a visitor types first, the first screen shows a share and that of uniform attention.
    const startPage = await stage.open();
    for (const words of [
      'The quick brown fox jumps over the lazy dog',
      'Attention is all you need',
      'Hello world',
      'The capital of France is',
      'My cat sat on the mat.',
      'What is the meaning of life?',
      'Good morning, how are you?',
      'I love you',
    ]) {
      await type(startPage, words);
      assert.match(
        await findingOf(startPage),
        /first one: the start token <s>, which begins this model’s texts|too short to distinguish a sink/,
        words,
      );
      assert.match(
        await text(startPage, '.twin-0'),
        /gives <s> (about )?\d+% on average\./s,
        words,
      );
      assert.equal(await startPage.locator('.remark:visible').count(), 2, words);
    }
    const examples = startPage.locator('.examples option');
    assert.equal(await examples.count(), 5);
    await startPage.locator('.examples').selectOption({ index: 2 });
    await settled(startPage);
    assert.equal(await startPage.inputValue('textarea'), 'Attention is all you need.');
    assert.match(await text(startPage, '.starts'), /starts with <s> ✕/);
    await startPage.locator('.starts').click();
    await settled(startPage);
    assert.match(await text(startPage, '.starts'), /no start token: add <s>/);
    assert.match(await text(startPage, '.twin-0'), /gives “A” (about )?\d+%/);
    await startPage.close();
    const page = await stage.open('room=explore');
    await type(page, 'The capital of France is');
    assert.match(
      await findingOf(page),
      /uniform attention, spread evenly over the tokens that each row sees, would give 2\d%\. On this text, \d+ of the 24 heads give <s> more than 30%: such a head has an attention sink\.$/,
    );
    await type(page, 'a');
    assert.match(
      await findingOf(page),
      /Heads are not counted: in a text of 2 tokens, uniform attention alone gives <s> 75%, above ε = 0\.3; 10 tokens suffice/,
    );
    await type(page, '');
    assert.equal(
      (await text(page, '.trouble')).trim(),
      'Type a sentence: there is no text yet. The last good result is shown.',
    );
    await type(page, '从前有一个小女孩，她和祖母住在森林边的小屋里。每天早晨她去井边打水。');
    assert.doesNotMatch(await findingOf(page), /Heads are not counted/);
    assert.match(
      await findingOf(page),
      /uniform attention, spread evenly over the tokens that each row sees, would give \d+%/,
    );
    await go(page, 'Compare');
    await type(page, 'I love you');
    assert.match(await findingOf(page), /Heads are not counted/);
    assert.deepEqual(page.troubles, []);
    for (const room of ['start', 'explore', 'compare', 'training']) {
      const emptyPage = await stage.open(`room=${room}&prompt=`, { waits: false });
      await emptyPage.waitForSelector('.wanting');
      await settled(emptyPage);
      assert.doesNotMatch(
        await text(emptyPage, 'main'),
        /coming|Loading|Measuring|Try again/,
        room,
      );
      assert.equal(await emptyPage.locator('.wanting').count(), 1);
      // Start's steps say that they wait for a text; none is a heading over an empty place.
      if (room === 'start') {
        const waiting = emptyPage.locator('.step > .hint:visible', { hasText: 'waits for a text' });
        const bareSteps = emptyPage.locator(
          '.step:not(:has(.answer:not(:empty)), :has(> .hint:not(:empty)))',
        );
        assert.equal(await emptyPage.locator('.step:visible').count(), 6);
        assert.ok((await waiting.count()) >= 4);
        assert.equal(await bareSteps.count(), 0);
        await type(emptyPage, 'The old man sat at the door.');
        assert.equal(await emptyPage.locator('.step:visible').count(), 6);
        assert.equal(await waiting.count(), 0);
      }
      await emptyPage.close();
    }
  },

  async 'Explore shows the heads, the picture of one question and all six questions on one screen'(
    stage,
  ) {
    const page = await stage.open('room=explore');
    await page.setViewportSize({ width: 1280, height: 800 });
    for (const selector of [
      '.rail .thumbs',
      '[data-view="attention"] .heatmap',
      '.tabs',
      '.asks:last-of-type',
    ])
      assert.ok(await isSeen(page, selector), selector);
    await page.locator('.rail .thumb').first().click();
    await settled(page);
    assert.match(await text(page, '.room-head .hint'), /^In layer 0, head 0 \(L0H0\)/);
    assert.equal(await page.locator('.ask').count(), 6);
    const openedViews = [];
    await everyTab(page, async () => {
      assert.ok((await page.locator('.asks.selected .tabs button').count()) <= 4);
      await page.waitForSelector('.stage > .main .cell');
      const shown = await page.locator('.stage > .main').getAttribute('data-view');
      // “What if” shows the map until the reader makes an edit.
      assert.ok(!openedViews.includes(shown) || shown === 'attention', `${shown} is of one tab`);
      openedViews.push(shown);
      assert.ok(await isSeen(page, '.stage > .main .figure-head'), `${shown} is on the stage`);
      assert.equal(await page.locator('.middle .figure').first().getAttribute('data-view'), shown);
      assert.ok((await text(page, 'h1')).length > 10);
    });
    assert.deepEqual(page.troubles, []);
    return openedViews.join(', ');
  },

  async 'a new text updates the shown charts and maps, and replaces none of them'(stage) {
    const page = await stage.open('room=explore&view=norms');
    await page.evaluate(() => {
      for (const element of document.querySelectorAll(
        '.chart-picture, .chart-picture path, .heatmap',
      ))
        element.isTheSame = true;
    });
    const paths = () =>
      page.$$eval('.chart-picture path', (all) => all.map((path) => path.getAttribute('d')).join());
    const oldPaths = await paths();
    await page.locator('.stage .how summary').first().focus();
    await page.fill('textarea', 'A bird sang in the garden, and the king heard it all the night.');
    await settled(page);
    assert.notEqual(await paths(), oldPaths);
    const selector = '.chart-picture, .chart-picture path, .heatmap';
    assert.deepEqual(
      await page.$$eval(selector, (all) => all.filter((element) => !element.isTheSame)),
      [],
    );
    await page.close();
  },

  async 'the curves of Sink₁ by threshold and by length equal runs at each value'(stage) {
    const page = await stage.open('room=explore&shown=softmax&view=threshold&eps=0.25');
    const prompt = await page.locator('textarea').inputValue();
    const readSaved = async (view) => {
      await page.waitForSelector(`.view-${view} .chart-picture`);
      await settled(page);
      const menu = page.locator(`.view-${view} .save`);
      const { subjects } = JSON.parse((await saveFrom(page, menu, 'JSON')).bytes);
      return Object.fromEntries(
        subjects[0].quantities.map((quantity) => [quantity.name, quantity.data]),
      );
    };
    const { sink_1_by_eps: shares } = await readSaved('threshold');
    const { engine, model, ids } = await openInNode('softmax', prompt, 'auto');
    const sinkAt = async (tokens, eps) => {
      const run = await model.run(tokens, { fields: ['att'] });
      const tensors = await run.read([{ metric: 'sink_ratio', eps }, { metric: 'alpha' }]);
      await run.close();
      return tensors;
    };
    for (const percent of [5, 10, 25, 30, 50, 90]) {
      const [{ data }] = await sinkAt(ids, percent / 100);
      assert.ok(
        Math.abs(shares[percent] - data[0]) < 1e-6,
        `${percent}%: ${shares[percent]}, ${data[0]}`,
      );
    }
    assert.match(await text(page, '.view-threshold .caption'), /^Of 24 heads, .* have α₁ > 0\.3/);
    await page.locator('.view-length').scrollIntoViewIfNeeded();
    const { sink_1: sinks, mean_alpha_1: means } = await readSaved('length');
    assert.equal(sinks.length, ids.length);
    for (const T of [2, 9, 17, ids.length]) {
      const [{ data }, alpha] = await sinkAt(ids.slice(0, T), 0.25);
      assert.ok(Math.abs(sinks[T - 1] - data[0]) < 1e-6, `T = ${T}`);
      const mean = Array.from({ length: 24 }, (_, i) => alpha.data[i * T]).reduce((a, b) => a + b);
      assert.ok(Math.abs(means[T - 1] - mean / 24) < 1e-5, `T = ${T}`);
    }
    await engine.close();
    // Rows that need not sum to 1 are counted by their shares, as Sink₁ is.
    const otherPage = await stage.open('room=explore&shown=sigmoid&view=length');
    await otherPage.waitForSelector('.view-length .chart-picture');
    await settled(otherPage);
    const [, shownPercent] = /Sink₁ (\d+)%, mean α₁ [\d.]+ \(uniform [\d.]+\)\.$/.exec(
      await text(otherPage, '.view-length .caption'),
    );
    const sigmoidModel = await openInNode('sigmoid', prompt, 'auto');
    const run = await sigmoidModel.model.run(sigmoidModel.ids, { fields: ['att'] });
    const { data } = await run.metric('sink_ratio', { eps: 0.3 });
    assert.equal(shownPercent, (100 * data[0]).toFixed(0));
    await sigmoidModel.engine.close();
    assert.deepEqual([...page.troubles, ...otherPage.troubles], []);
  },

  async 'every view is listed by name, and views that a model does not support are not offered'(
    stage,
  ) {
    const page = await stage.open('room=explore&shown=gated');
    const listViews = async () =>
      (await page.locator('.questions button').allTextContents()).map((button) => button.trim());
    assert.ok((await listViews()).includes('Gate') && !(await listViews()).includes('Bias key'));
    for (const [shown, view] of [
      ['gated', 'gate'],
      ['key-bias', 'bias'],
      ['experts', 'router'],
    ]) {
      const viewPage = await stage.open(`room=explore&shown=${shown}&view=${view}`);
      await viewPage.waitForSelector(`[data-view="${view}"] canvas`);
      assert.deepEqual(viewPage.troubles, []);
    }
  },

  async 'several keys are selected with Shift, by keyboard and mouse, and are part of the link'(
    stage,
  ) {
    const page = await stage.open('room=explore');
    await settled(page);
    const map = page.locator('.stage [data-view="attention"] .heatmap').first();
    const words = () => text(page, '.stage .span-words');
    await map.focus();
    for (const key of ['ArrowRight', 'Enter', 'Shift+ArrowRight', 'Shift+ArrowRight'])
      await map.press(key);
    await until(async () => /^Tokens 1–3, “The old man”, together receive/.test(await words()));
    const { width, height } = await map.boundingBox();
    await map.click({ position: { x: 0.5 * width, y: 0.9 * height } });
    const [x, y] = [0.7 * width, 0.9 * height];
    await map.click({ position: { x, y }, modifiers: ['Shift'] });
    const said =
      /^Tokens 13–18, “\. He thought of his child”, .* of the 8 queries that see all of them/;
    await until(async () => said.test(await words()));
    assert.match(await map.getAttribute('aria-label'), /Tokens 13–18/);
    await until(() => page.url().includes('lastKey=18'));
    const linked = await stage.open(page.url().split('#')[1], { width: 390 });
    await settled(linked);
    assert.match(await text(linked, '.stage .span-words'), said);
    await staysWithin(linked, 390, 'explore');
    await map.press('Escape');
    await page.waitForSelector('.stage .span-words', { state: 'hidden' });
    assert.deepEqual([...page.troubles, ...linked.troubles], []);
  },

  async 'the map is operated by the keyboard, and all tokens are one tab stop'(stage) {
    const isThere = (page) =>
      page.evaluate(
        () => document.activeElement.closest('[data-view="attention"] .heatmap') !== null,
      );
    for (const room of ['compare', 'training', 'purpose', 'lab', 'start', 'explore']) {
      const page = await stage.open(`room=${room}&runs=1`, { waits: false });
      await page.waitForSelector('[data-view="attention"] .heatmap');
      await settled(page);
      await page.keyboard.press('Tab');
      await page.keyboard.press('Enter');
      assert.ok(await isThere(page), `${room}: the skip link leads to the map`);
      await page.close();
    }
    let stops = 0;
    for (const [room, width, few] of [
      // Tab reaches first the text, its start token, the examples, the name of the head and uniform attention.
      ['start', 1280, 10],
      // Tab reaches first the bar with the models, the text, its tokens and all settings.
      ['explore', 390, 11],
    ]) {
      const page = await stage.open(`room=${room}`, { width });
      for (stops = 0; !(await isThere(page)); stops++) await page.keyboard.press('Tab');
      // Besides the links to the rooms, whose number grows, only a few controls come first.
      const rooms = await page.locator('nav.rooms a').count();
      assert.ok(stops <= rooms + few, `${room}: the map is ${stops} stops away`);
    }
    const widePage = await stage.open('room=explore');
    const columns = ['bar', 'rail', 'middle', 'inspector'];
    let column = 0;
    for (let i = 0; i < 120; i++) {
      await widePage.keyboard.press('Tab');
      const name = await widePage.evaluate(() => {
        const names = ['bar', 'rail', 'middle', 'inspector'];
        return names.find((part) => document.activeElement.closest(`.room > .${part}`)) ?? '';
      });
      if (!name && column === 3) break;
      if (!name) continue;
      assert.ok(columns.indexOf(name) >= column, `${name} after ${columns[column]}`);
      column = columns.indexOf(name);
    }
    assert.equal(column, 3);
    const page = await stage.open('room=explore');
    await mapOf(page).focus();
    for (const key of ['ArrowDown', 'ArrowDown', 'ArrowRight']) await page.keyboard.press(key);
    assert.match(
      await text(page, '[data-view="attention"] .readout'),
      /query 2 “old” → key 1 “The”: 0\.\d{4}/,
    );
    await openSection(page, 'tokens');
    assert.equal(await page.locator('.chip[tabindex="0"]').count(), 1);
    await page.locator('.chip[tabindex="0"]').focus();
    await page.keyboard.press('ArrowRight');
    assert.equal(await page.evaluate(() => document.activeElement.textContent), 'The');
    return `${stops} stops`;
  },

  async 'What if hides a key, ablates a head and zeroes a value; the change is reported, and Back undoes it'(
    stage,
  ) {
    const page = await stage.open('room=explore&shown=softmax&view=change&layer=3&head=1');
    const move = (name) => page.locator('.hand').getByRole('link', { name, exact: true });
    const hash = () => page.evaluate(() => decodeURIComponent(location.hash));
    const badge = () => page.locator('.stage > .main .stamp').textContent();
    const changeView = page.locator('.view-change');
    assert.equal(await changeView.isVisible(), false);
    assert.deepEqual(
      await page
        .locator('.hand .move')
        .evaluateAll((all) =>
          all.filter((link) => link.checkVisibility()).map((link) => link.textContent.trim()),
        ),
      ['Hide the first token “<s>”'],
    );
    await page.locator('.hand summary').click();
    await mapOf(page).evaluate((element) => element.scrollIntoView({ block: 'center' }));
    const box = await mapOf(page).locator('canvas').boundingBox();
    await page.mouse.click(box.x + 2, box.y + box.height - 2);
    await move('Hide the first token “<s>”').click();
    await page.waitForSelector('.view-change .heatmap');
    await settled(page);
    assert.match(await hash(), /shown=softmax~hide_key\(0\)/);
    assert.match(await badge(), /COUNTERFACTUAL/);
    const sentence = await text(page, '.view-change .caption');
    const { tensors } = await readInNode('softmax', await page.locator('textarea').inputValue(), [
      { metric: 'loss_at' },
      { metric: 'alpha' },
    ]);
    const editedRun = await readInNode(
      'softmax',
      await page.locator('textarea').inputValue(),
      [{ metric: 'loss_mean' }],
      [{ kind: 'hide_key', key: 0 }],
    );
    const oldLosses = tensors[0].data.slice(1);
    const rise =
      editedRun.tensors[0].data[0] - oldLosses.reduce((a, b) => a + b) / oldLosses.length;
    assert.ok(sentence.includes(`+${rise.toFixed(3)} nats per token`), sentence);
    assert.match(
      sentence,
      /The mean weight of <s> in head L3H1 is 0%; in the baseline it is \d\d%\./,
    );
    assert.ok((await countColors(page, '.view-change .heatmap canvas')) > 4);
    await move('Ablate head L3H1').focus();
    await page.keyboard.press('Enter');
    await page.waitForFunction(() => location.hash.includes('silence'));
    await settled(page);
    assert.match(await hash(), /softmax~hide_key\(0\)~silence\(3,1\)/);
    await page.goBack();
    await page.waitForFunction(() => !location.hash.includes('silence'));
    await settled(page);
    assert.match(await hash(), /shown=softmax~hide_key\(0\)&/);
    await page.locator('.hand select').selectOption('head');
    await move('Zero the value of the first token “<s>”').click();
    await page.waitForFunction(() => location.hash.includes('scale_value'));
    await settled(page);
    assert.match(await hash(), /scale_value\(0,0,3,1\)/);
    for (const [editLabel, name] of [
      ['first token hidden', 'hide_key'],
      ['value of the first token zeroed in layer 3, key/value head 1', 'scale_value'],
    ]) {
      await move(`Undo ${editLabel}`).click();
      await page.waitForFunction((edit) => !location.hash.includes(edit), name);
      await settled(page);
    }
    assert.ok(!(await hash()).includes('~'));
    assert.equal(await changeView.isVisible(), false);
    assert.deepEqual(page.troubles, []);
  },

  async 'a click on a channel of a token offers edits of this number, also by keyboard'(stage) {
    const page = await stage.open('room=explore&shown=softmax&view=channels');
    const picture = page.locator('.view-channels .heatmap');
    assert.match(
      await text(page, '.view-channels .caption'),
      /Kurtosis \d+ \(a normal distribution has 3\)/,
    );
    const box = await picture.boundingBox();
    // The middle of channel 64 of 128 and of token 2 of 26.
    await picture.click({ position: { x: (64.5 * box.width) / 128, y: (2.5 * box.height) / 26 } });
    await settled(page);
    const move = (name) => page.locator('.hand').getByRole('link', { name });
    await ask(page, 'What if');
    await move(/^Zero channel 64 (after layer \d|at the embedding), token 2$/).waitFor();
    // The address follows a moment later, and the way back leads to the picture.
    await page.waitForFunction(() => location.hash.includes('view=change'));
    await page.goBack();
    await picture.waitFor();
    await picture.focus();
    await page.keyboard.press('ArrowRight');
    await page.keyboard.press('Enter');
    await ask(page, 'What if');
    await move('Set channel 65 there to its mean').focus();
    await page.keyboard.press('Enter');
    await page.waitForSelector('.view-change .heatmap');
    await settled(page);
    const hash = decodeURIComponent(await page.evaluate(() => location.hash));
    assert.match(hash, /softmax~clamp_channel\(65,\d,2,to=mean\)/);
    await page.goBack();
    await page.waitForSelector('.view-change', { state: 'hidden' });
    const invalidPage = await stage.open('room=explore&shown=softmax~clamp_channel(999)', {
      waits: false,
    });
    await invalidPage.waitForSelector('.trouble');
    assert.match(
      await text(invalidPage, '.trouble'),
      /channel: expected an integer from 0 to 127, found 999/,
    );
    assert.deepEqual([...page.troubles, ...invalidPage.troubles], []);
  },

  async 'a link is followed although the address of an earlier change is not written yet'(stage) {
    const page = await stage.open('room=explore&shown=softmax&view=change');
    const timers = await page.evaluate(() => {
      const delayed = [];
      const setTimer = window.setTimeout;
      window.setTimeout = (run, ms) => (ms === 150 ? delayed.push(run) : setTimer(run, ms));
      const select = document.querySelector('.hand select');
      select.value = 'head';
      select.dispatchEvent(new Event('change'));
      document.querySelector('.rooms a[href*="compare"]').click();
      // The link's event is a task of its own: the browser may run the timer first.
      for (const run of delayed) run();
      window.setTimeout = setTimer;
      return delayed.length;
    });
    assert.ok(timers > 0, 'the address was to be written later');
    await page.waitForSelector('[data-room="compare"]');
    await page.waitForFunction(() => location.hash.includes('room=compare'));
    await page.goBack();
    await page.waitForSelector('[data-room="explore"] .hand');
    assert.equal(await page.locator('.hand select').inputValue(), 'head');
    assert.deepEqual(page.troubles, []);
  },

  async 'the ablation of each head and the replacement of a token give the package’s numbers'(
    stage,
  ) {
    const page = await stage.open('room=explore&shown=softmax&view=effects&layer=5&head=0');
    const prompt = await page.locator('textarea').inputValue();
    const readSaved = async (view) => {
      const menu = page.locator(`.view-${view} .save`);
      const { subjects } = JSON.parse((await saveFrom(page, menu, 'JSON')).bytes);
      return Object.fromEntries(
        subjects[0].quantities.map((quantity) => [quantity.name, quantity.data]),
      );
    };
    const measureLoss = async (edits) =>
      (await readInNode('softmax', prompt, [{ metric: 'loss_mean' }], edits)).tensors[0].data[0];
    const rise =
      (await measureLoss([{ kind: 'silence', layer: 5, head: 0 }])) - (await measureLoss([]));
    const { effect } = await readSaved('effects');
    assert.ok(Math.abs(effect[20] - rise) < 1e-5, `${effect[20]} and ${rise}`);
    const sentence = await text(page, '.view-effects .caption');
    const { first_share } = await readSaved('effects');
    const dormantEdits = effect.flatMap((headRise, i) =>
      Math.abs(headRise) < 0.01 && first_share[i] > 0.3
        ? [{ kind: 'silence', layer: Math.floor(i / 4), head: i % 4 }]
        : [],
    );
    const riseWithoutAll = (await measureLoss(dormantEdits)) - (await measureLoss([]));
    assert.ok((await text(page, '.lead')).includes(` for ${dormantEdits.length} of the `));
    assert.match(
      await text(page, '.lead'),
      new RegExp(`at once: [+−]${Math.abs(riseWithoutAll).toFixed(3)}\\.$`),
    );
    assert.ok(sentence.includes(`changes the loss by +${rise.toFixed(3)}`), sentence);
    const counts = await page.locator('.view-effects td:nth-child(2)').allTextContents();
    assert.equal(
      counts.map(Number).reduce((a, b) => a + b),
      24,
    );

    await ask(page, 'What does the head write?');
    await page.waitForSelector('.view-contribution .heatmap');
    await settled(page);
    const contributionRun = await readInNode('softmax', prompt, [
      { metric: 'contribution_out_at' },
    ]);
    const { data } = contributionRun.tensors[0];
    assert.deepEqual((await readSaved('contribution')).contribution_out_at, [...data]);
    const part = `and ${(100 * data[20 * contributionRun.T]).toFixed(0)}% after it.`;
    assert.ok((await text(page, '.view-contribution .caption')).includes(part), part);

    await ask(page, 'What if');
    await page.getByText('If no token could attend to <s>, the model would').waitFor();
    const losses = [await measureLoss([]), await measureLoss([{ kind: 'hide_key', key: 0 }])];
    const [oldLoss, hiddenLoss] = losses.map((loss) => loss.toFixed(2));
    assert.ok((await text(page, '.lead')).includes(`from ${oldLoss} to ${hiddenLoss} nats`));
    assert.deepEqual(page.troubles, []);
    // An embed shows two models; one predicts no next token.
    const embed = await stage.open('view=effects&shown=softmax,diffusion', { file: 'embed.html' });
    await embed.waitForSelector('.view-effects .heatmap');
    assert.match(await text(embed, 'body'), /heads are dormant.*does not apply to/s);
    assert.deepEqual(embed.troubles, []);
    return sentence;
  },

  async 'a text can be random or repeated tokens with a given length and first token'(stage) {
    const page = await stage.open('room=explore&T=16');
    await openSection(page, 'settings');
    const kind = page.getByLabel('prompts from');
    await kind.selectOption('repeat');
    await settled(page);
    assert.equal(new Set((await chips(page)).slice(1)).size, 1);
    await kind.selectOption('random');
    await settled(page);
    const drawnTokens = await chips(page);
    assert.equal(drawnTokens.length, 16);
    await page.getByLabel('first token', { exact: true }).selectOption('none');
    await settled(page);
    assert.ok(!(await chips(page)).includes('<s>'));
    assert.match(await text(page, '[data-view="attention"] .stamp'), /T = 16 · no start token/);
    await page.waitForFunction(() => /first=none/.test(location.hash));
    const linkedPage = await stage.open(new URL(page.url()).hash.slice(1));
    assert.deepEqual(await chips(linkedPage), await chips(page), 'a link draws the same');
  },

  async 'generated tokens appear in the views, and generation can be stopped'(stage) {
    const page = await stage.open('room=explore');
    const oldCount = (await chips(page)).length;
    for (const name of ['tokens', 'settings']) await openSection(page, name);
    await page.locator('summary', { hasText: 'Generate text' }).click();
    // The page clicks as soon as it has a first token: a click from the test could come after sixteen runs.
    await page.evaluate(() => {
      const button = document.querySelector('.generate button');
      new MutationObserver((_, observer) => {
        if (!document.querySelector('.chip.made')) return;
        observer.disconnect();
        if (/Stop/.test(button.textContent)) button.click();
      }).observe(document.body, { childList: true, subtree: true });
      button.click();
    });
    await page.waitForSelector('.chip.made');
    await page.waitForFunction(() =>
      /Generate/.test(document.querySelector('.generate button').textContent),
    );
    await settled(page);
    const madeCount = await page.locator('.chip.made').count();
    assert.ok(madeCount >= 1 && madeCount <= 16, `${madeCount}`);
    assert.match(await text(page, '.generate .generated'), /^The old man sat .* long\. ?\S/);
    assert.equal((await chips(page)).length, oldCount + madeCount);
    assert.match(
      await text(page, '[data-view="attention"] .stamp'),
      new RegExp(`T = ${oldCount + madeCount} `),
    );
    // Measurements with runs of their own wait for the last token, and then cover the longer text.
    await ask(page, 'Does the sink matter?');
    await page.waitForSelector('.view-effects .heatmap');
    await page.getByRole('button', { name: 'Generate 16 tokens' }).click();
    await settled(page);
    const longerStamp = `T = ${oldCount + madeCount + 16} `;
    await page.waitForFunction(
      (words) =>
        document.querySelector('.view-effects .stamp').textContent.includes(words) &&
        !document.querySelector('.view-effects .cell.stale'),
      longerStamp,
    );
    assert.deepEqual(page.troubles, []);
    return `${madeCount} tokens`;
  },
};

const comparing = {
  async 'two to six subjects are compared on one text, with a table'(stage) {
    const page = await stage.open(
      'room=compare&shown=softmax,sigmoid,softmax@1000,softmax~sigmoid&input=heldout&n=10&panel=numbers',
    );
    await page.waitForFunction(
      () => document.querySelectorAll('.metrics tr[data-subject]:not(.stale)').length === 4,
    );
    await settled(page);
    assert.match(await text(page, 'h1'), /^\d of 4 models have heads with a sink/);
    assert.equal(await page.locator('.runs tbody tr').count(), 4);
    const rows = await page.locator('.metrics tr[data-subject]').allTextContents();
    assert.ok(rows.every((row) => /10 prompts/.test(row)));
    assert.match(rows[3], /COUNTERFACTUAL/);
    assert.match(rows[2], /stored at \d\.\d bits per weight/);
    assert.equal(await page.locator('[data-view="attention"] .cell').count(), 4);
    assert.match(await text(page, '.differs'), /attention operation.*softmax.*sigmoid/s);
    await page.getByRole('button', { name: 'In papers?' }).click();
    assert.match(
      await text(page, '.reported-rows'),
      /Gu et al\. 2025.*GPT2-XL\s+REPORTED\s+77\.00%.*Mistral-7B\s+REPORTED\s+97\.49%/s,
    );
    await page.locator('.metrics').getByRole('button', { name: /loss/ }).first().click();
    assert.equal(await page.locator('th[aria-sort="descending"]').count(), 1);
    assert.deepEqual(page.troubles, []);
    const sixPage = await stage.open(
      'room=compare&shown=softmax,sigmoid,relu,softmax@1400,softmax~sigmoid,gated&panel=numbers',
      { width: 320 },
    );
    await sixPage.locator('.metrics tr[data-subject]').nth(5).waitFor();
    await settled(sixPage);
    await staysWithin(sixPage, 320);
    await sixPage.setViewportSize({ width: 1280, height: 800 });
    const excess = await sixPage.$eval(
      '.numbers-of-all .table-place',
      (region) => region.scrollWidth - region.clientWidth,
    );
    assert.ok(excess <= 0, `the table has ${excess} px too many`);
  },

  async 'an edit without effect is not a what-if, and the last step is the trained weights'(stage) {
    const page = await stage.open(
      'room=compare&shown=softmax,softmax~softmax,softmax@4000&panel=numbers',
    );
    await page.locator('.metrics tr[data-subject]').nth(2).waitFor();
    await settled(page);
    const rows = await page.locator('.metrics tr[data-subject]').allTextContents();
    assert.equal(new Set(rows).size, 1);
    assert.match(rows[0], /Softmax model\s+MEASURED 1 prompt/);
  },

  async 'models, steps and what-ifs are selected, added and removed'(stage) {
    const page = await stage.open('room=compare');
    await page.getByRole('button', { name: 'Your models' }).click();
    await page.locator('#pick label', { hasText: /^Softmax1$/ }).click();
    await page.waitForSelector('#pick select[name="step"]');
    await page.locator('#pick select[name="step"]').selectOption('1000');
    await page.getByRole('button', { name: 'Add checkpoint' }).click();
    const offered = await page.locator('#pick select[name="edit"] option').allTextContents();
    assert.ok(!offered.includes('softmax'), 'what a model was trained with is no counterfactual');
    const groups = page.locator('#pick optgroup');
    assert.equal(await groups.first().getAttribute('label'), 'operation');
    assert.ok((await groups.count()) > 5);
    await page.locator('#pick select[name="edit"]').selectOption('softpick');
    await page.getByRole('button', { name: 'Add counterfactual' }).click();
    await page.getByRole('button', { name: 'Done' }).click();
    await page.waitForFunction(() => document.querySelectorAll('.runs tbody tr').length === 5);
    await settled(page);
    assert.match(
      decodeURIComponent(page.url()),
      /shown=softmax,sigmoid,softmax1,softmax@1000,softmax~softpick/,
    );
    await page.getByRole('button', { name: 'Sigmoid model', exact: true }).click();
    await page.waitForFunction(() => document.querySelectorAll('.runs tbody tr').length === 4);
    assert.deepEqual(page.troubles, []);
  },
};

/** Runs a `sinkscope` command that the page shows, by the command line of this repository. */
async function runCommand(command) {
  const localCommand = command.replace(/^sinkscope /, `'${process.execPath}' wasm/cli.js `);
  return JSON.parse((await promisify(exec)(`${localCommand} --json`, { cwd: root })).stdout);
}

const commands = {
  async 'the command next to a number prints that number, for texts, passages, checkpoints, edits and tokens'(
    stage,
  ) {
    const subjects = 'softmax,softmax@1000,sigmoid~hide_key(0)';
    const cases = [
      `shown=${subjects}&prompt=${encodeURIComponent("The king's “old” dog & $HOME sat; then it ran over the hill. ".repeat(2))}`,
      `shown=${subjects}&input=heldout&n=5&T=48&first=none`,
      'shown=softmax,softmax~mask(first=1,recent=9)&input=heldout&n=4&T=120&eps=0.2',
      'shown=softmax,sigmoid&input=random&n=3&T=20',
      'shown=no-bos&input=repeat&T=18&first=bos',
    ];
    for (const hash of cases) {
      const page = await stage.open(`room=compare&panel=numbers&${hash}`);
      const rows = page.locator('.metrics tr[data-subject]:not(.stale)');
      const count = hash.split('&')[0].split(/,(?![^(]*\))/).length;
      await page.waitForFunction(
        (n) => document.querySelectorAll('.metrics tr[data-subject]:not(.stale)').length === n,
        count,
      );
      await settled(page);
      for (let i = 0; i < count; i++) {
        const row = rows.nth(i);
        const command = await row.locator('.copy-command').getAttribute('title');
        const { metrics, loss } = await runCommand(command);
        const shownNumber = async (name) =>
          row.locator(`[data-metric="${name}"] .value`).textContent();
        assert.equal(await shownNumber('loss'), loss.toFixed(3), command);
        const sinkPercent = 100 * (metrics.sink_ratio_raw ?? metrics.sink_ratio).mean[0];
        assert.ok(Math.abs(parseFloat(await shownNumber('sink_1')) - sinkPercent) <= 0.05, command);
      }
      assert.deepEqual(page.troubles, []);
      await page.context().close();
    }
    const page = await stage.open('room=compare&shown=softmax&panel=numbers');
    const button = page.locator('.metrics .copy-command').first();
    // The button has the class for two seconds only.
    await button.evaluate((element) => {
      globalThis.copied = new Promise((done) => {
        const look = () => element.classList.contains('copied') && done();
        new MutationObserver(look).observe(element, { attributeFilter: ['class'] });
      });
    });
    await button.click();
    await page.evaluate(() => globalThis.copied);
    assert.equal(
      await page.evaluate(() => navigator.clipboard.readText()),
      await button.getAttribute('title'),
    );
  },

  async 'the command beside each row of an experiment prints its loss'(stage) {
    for (const hash of [
      'runs=2&length=64',
      'experiment=cache&runs=2&length=48&shown=softmax',
      'experiment=quantization&runs=2&length=48&shown=sigmoid',
      'experiment=fragility&runs=2&repeats=20&shown=softmax',
      'experiment=fragility&perturbation=channel&runs=2&length=40&shown=softmax',
      'runs=1&length=300&positions=cache&shown=softmax',
    ]) {
      const page = await stage.open(`room=purpose&${hash}`);
      await page.waitForSelector('.settings tbody tr', { state: 'attached' });
      await settled(page);
      const rows = await page.$$eval('.settings tbody tr', (all) =>
        all.map((row) => [row.cells[2].textContent, row.querySelector('.copy-command')?.title]),
      );
      assert.ok(rows.length > 1, hash);
      for (const [lossCell, command] of [...rows.slice(0, 4), rows.at(-1)]) {
        const { loss, metrics } = await runCommand(command);
        const value = loss ?? metrics.loss_mean.mean[0];
        assert.equal(lossCell.split(' (')[0].trim(), value.toFixed(3), command);
      }
      assert.deepEqual(page.troubles, []);
      await page.context().close();
    }
  },
};

const training = {
  async 'the slider moves every subject through its training and ends at the trained weights'(
    stage,
  ) {
    const page = await stage.open('room=training');
    const slider = page.locator('.walk input');
    await page.waitForSelector('.walk input');
    assert.match(await slider.getAttribute('aria-valuetext'), /training step 4,000 of 4,000/);
    const trainedFinding = await findingOf(page);
    await slider.focus();
    await page.keyboard.press('Home');
    await page.waitForFunction(() => /softmax@0,sigmoid@0/.test(decodeURIComponent(location.hash)));
    await settled(page);
    assert.match(
      await findingOf(page),
      /^Before training, on this text, no heads of the softmax model have a sink, none of/,
    );
    await pauseAtStep(page, 30);
    await page.getByRole('button', { name: 'Play' }).click();
    await page.waitForFunction(() => /softmax@30,/.test(decodeURIComponent(location.hash)));
    await settled(page);
    assert.equal(await text(page, '.walk-play'), '▶ Play');
    await slider.focus();
    await page.keyboard.press('End');
    await page.waitForFunction(() => !/@/.test(decodeURIComponent(location.hash)));
    await settled(page);
    assert.equal(await findingOf(page), trainedFinding);
    assert.deepEqual(
      await page
        .locator('[data-view="attention"] .cell')
        .evaluateAll((cells) => cells.map(({ dataset }) => dataset.subject)),
      ['softmax@0', 'softmax'],
    );
    await page.locator('.chart-picture.choosable').click({ position: { x: 120, y: 80 } });
    await page.waitForFunction(() => /softmax@\d+/.test(decodeURIComponent(location.hash)));
    await settled(page);
    assert.deepEqual(page.troubles, []);
  },

  async 'the spread over seeds is drawn and stated if a model has logs of several'(stage) {
    const readLogs = async (id) => {
      const all = [1, 2, 3, 4, 5].map((seed) => zoo(`${id}/seeds/${seed}.json`).then(JSON.parse));
      const results = await Promise.allSettled(all);
      return results.flatMap(({ value }) => value ?? []);
    };
    const readBands = async (id) => {
      const page = await stage.open(`room=training&shown=${id}`);
      const chart = page.locator('[data-view="training"]');
      await chart.locator('.chart-picture').waitFor();
      // The course and the logs, where a model has them, arrive after the chart.
      if ((await readLogs(id)).length)
        await chart
          .locator('.caption', { hasText: 'start token first).' })
          .filter({ hasText: /Over \d+ seeds/ })
          .waitFor({ state: 'attached' });
      else await page.waitForLoadState('networkidle');
      const caption = await chart.locator('.caption').textContent();
      // The switch adds the repeat runs.
      await chart.locator('.check input').check();
      const bandCount = await chart.locator('path.band').count();
      await page.close();
      return { drawn: bandCount, said: caption };
    };
    const runs = await readLogs('softmax');
    const longRuns = runs.filter(({ points }) => points.at(-1).step >= 4000);
    const lastStep = Math.min(...longRuns.map(({ points }) => points.at(-1).step));
    const sinks = longRuns.map(
      ({ points }) => points.find(({ step }) => step === lastStep)['sink_0.3'],
    );
    const [low, high] = [Math.min(...sinks), Math.max(...sinks)].map((x) => x.toFixed(1));
    const softmaxBands = await readBands('softmax');
    assert.equal(softmaxBands.drawn, 1);
    assert.ok(
      softmaxBands.said.includes(
        `Over ${longRuns.length} seeds, at step ${lastStep.toLocaleString('en')} of runs of 16,000: Sink₁ ${low} to ${high}%`,
      ),
      softmaxBands.said,
    );
    assert.match(
      softmaxBands.said,
      /^Softmax model, seed 1, at step 4,000: .*start token first\)\./,
    );
    // The model `short` has no long runs: its 2,000 steps are those of softmax.
    assert.deepEqual(await readLogs('short'), []);
    const shortBands = await readBands('short');
    assert.equal(shortBands.drawn, 0);
    assert.doesNotMatch(shortBands.said, /seeds/);
    const index = JSON.parse(await zoo('index.json'));
    const { seeds, outcomes } = index.find(({ id }) => id === 'sigmoid').differs;
    const comparePage = await stage.open('room=compare&panel=seeds&shown=softmax,sigmoid,short');
    const rows = comparePage.locator('table.seeds tbody tr');
    await rows.first().waitFor();
    const rowTexts = await rows.allTextContents();
    assert.equal(rowTexts.length, 6, rowTexts.join('\n'));
    const [softmax] = index.filter(({ id }) => id === 'softmax');
    const sinkPercents = [softmax.measured, ...softmax.further_seeds].map(({ sink_1 }) => sink_1);
    const rangeText = [Math.min(...sinkPercents), Math.max(...sinkPercents)]
      .map((x) => x.toFixed(1))
      .join(' to ');
    assert.match(
      rowTexts[0],
      /4,000 steps, as shown: 3 seeds \(1, 2, 3\); the weights here are seed 1’s/,
    );
    assert.ok(rowTexts[0].includes(rangeText), rowTexts[0]);
    assert.equal(await rows.first().locator('td').first().locator('circle.shown').count(), 1);
    const sigmoidSteps = (await readLogs('sigmoid')).map(({ points }) => points.at(-1).step);
    const commonStep = Math.min(
      lastStep,
      ...sigmoidSteps.filter((step) => step >= 4000),
    ).toLocaleString('en');
    for (const line of rowTexts.slice(3, 5))
      assert.match(line, new RegExp(` at step ${commonStep} of runs`));
    assert.match(rowTexts[3], new RegExp(`${longRuns.length} seeds, `));
    assert.equal(
      await rows.nth(3).locator('td').first().locator('circle').count(),
      longRuns.length,
    );
    const [mean, least, most] = outcomes.value_ratio.map((x) => x.toFixed(2));
    const text = rowTexts[5].replace(/\s+/g, ' ');
    assert.ok(text.includes(`+${mean} (${least} to ${most})`), text);
    assert.match(
      text,
      new RegExp(
        `${seeds} pairs of seeds, α₁ above uniform attention: less sink than softmax: −0\\.\\d{3} `,
      ),
    );
    const aboutPage = await stage.open('room=explore&shown=short');
    await openSection(aboutPage, 'settings');
    await aboutPage.locator('details.about summary').click();
    const card = aboutPage.locator('.about table.seeds');
    await card.first().waitFor();
    assert.equal(await card.count(), 1, 'no long runs of it');
    assert.match(await card.textContent(), /2,000 steps, as shown: 3 seeds.*2\.1 to 45\.\d/s);
    const windowPage = await stage.open('room=explore&shown=window');
    await openSection(windowPage, 'settings');
    await windowPage.locator('details.about summary').click();
    await windowPage.getByText('one seed (1): how far another would differ is not known').waitFor();
    assert.match(await windowPage.textContent('.about'), /Sink₁\s+0% \(seed 1, the only one\)/);
  },

  async 'a half-typed number stays when the page is redrawn'(stage) {
    const page = await stage.open('room=explore');
    await openSection(page, 'settings');
    const field = page.getByLabel('T ≤');
    await field.fill('20');
    await page.evaluate(() => (location.hash = `${location.hash}&view=norms`));
    await page.locator('[data-view="norms"]').waitFor();
    await settled(page);
    assert.equal(await field.inputValue(), '20');
    await field.press('Enter');
    await page.waitForFunction(() => location.hash.includes('T=20'));
    await field.fill('0');
    await field.press('Enter');
    assert.equal(await field.inputValue(), '1');
    await page.evaluate(() => (location.hash = '#room=explore&T=30'));
    await page.waitForFunction(() => document.querySelector('[aria-label="T ≤"]').value === '30');
  },

  async 'a masked diffusion model fills in masked tokens step by step'(stage) {
    const page = await stage.open('room=explore&shown=diffusion&view=unmasking&masked=8&denoise=4');
    await page.getByRole('button', { name: 'Unmask', exact: true }).click();
    await page.waitForFunction(() =>
      /most attended token/.test(document.querySelector('.unmask-controls + .caption').textContent),
    );
    assert.equal(await page.locator('.unmask-map canvas').evaluate((canvas) => canvas.height), 4);
    assert.equal(await page.locator('.unmask-text .hidden').count(), 0);
    await page.locator('.unmask-controls input[type="range"]').focus();
    await page.keyboard.press('Home');
    assert.equal(await page.locator('.unmask-text .hidden').count(), 6);
    const stamp = page.locator('[data-view="unmasking"] .stamp');
    assert.match(await stamp.textContent(), /^MEASURED /);
    await page.getByRole('button', { name: 'strongest', exact: true }).click();
    await page.getByRole('button', { name: 'Unmask', exact: true }).click();
    await stamp
      .filter({ hasText: /^COUNTERFACTUAL .*, the strongest key of each step hidden$/ })
      .waitFor();
    await page.waitForFunction(() =>
      /hid its most attended token/.test(
        document.querySelector('.unmask-controls + .caption').textContent,
      ),
    );
    assert.deepEqual(page.troubles, []);
  },

  async 'the loss at masked tokens is shown beside that of the causal model'(stage) {
    const page = await stage.open('room=explore&shown=diffusion&view=masked');
    const view = page.locator('[data-view="masked"]');
    await view.getByRole('button', { name: 'Measure', exact: true }).click();
    await page.waitForFunction(() =>
      /predicts the same tokens/.test(
        document.querySelector('[data-view="masked"] .caption').textContent,
      ),
    );
    const caption = await view.locator('.caption').textContent();
    assert.match(
      caption,
      /^Masked diffusion, \d+ masked tokens of 1 prompt, .* loss \d\.\d\d nats\./,
    );
    for (const title of ['Masked diffusion', 'Softmax'])
      assert.ok(
        caption.includes(title) && (await view.locator('.plot').getByText(title).count()),
        title,
      );
    assert.match(await view.locator('.stamp').textContent(), /^COUNTERFACTUAL .* with and without/);
    assert.deepEqual(page.troubles, []);
  },

  async 'tasks are measured with all keys, and with the first or another key evicted'(stage) {
    const page = await stage.open('room=explore&view=tasks');
    await type(page, 'The cat sat on the mat and looked at me.');
    await settled(page);
    const view = page.locator('[data-view="tasks"]');
    await view.getByRole('button', { name: 'Measure', exact: true }).click();
    await page.waitForFunction(
      () =>
        (document.querySelector('[data-view="tasks"] .caption')?.textContent ?? '').split(
          'Recalling a name',
        ).length === 3,
      undefined,
      { timeout: 120_000 },
    );
    const caption = await view.locator('.caption').textContent();
    assert.match(caption, /^Next token \(1 prompt\): /);
    assert.match(
      caption,
      /Copying random tokens \(24 prompts\): the model cannot do this, its accuracy is 0\.\d% /,
    );
    for (const name of ['all keys', 'first gone', 'other gone', 'first hidden'])
      assert.equal(await view.locator('svg').getByText(name, { exact: true }).count(), 1, name);
    assert.deepEqual(page.troubles, []);
  },

  async 'the search inserts tokens between the halves of the text, and compares them with random ones'(
    stage,
  ) {
    const page = await stage.open('room=explore&view=suffix&goal=away&suffix=3');
    await type(page, 'The cat sat on the mat and looked at me.');
    await settled(page);
    const view = page.locator('[data-view="suffix"]');
    await view.getByRole('button', { name: 'Search', exact: true }).click();
    await page.waitForFunction(
      () =>
        /in another order/.test(
          document.querySelector('[data-view="suffix"] .caption')?.textContent ?? '',
        ),
      undefined,
      { timeout: 120_000 },
    );
    const caption = await view.locator('.caption').textContent();
    const shares = [...caption.matchAll(/(\d+\.\d)%/g)].map(([, share]) => Number(share));
    assert.equal(shares.length, 5, caption);
    const [none, found, random, best] = shares;
    assert.ok(none > 0 && found <= random && best <= random, caption);
    for (const name of ['found', 'no suffix', 'random, mean of 100', 'random, best of 385'])
      assert.equal(await view.getByText(name, { exact: true }).count(), 1, name);
    await view.getByRole('button', { name: 'raise the loss', exact: true }).click();
    await page.waitForFunction(
      () => document.querySelector('[data-view="suffix"] .caption').textContent.trim() === '',
    );
    assert.deepEqual(page.troubles, []);
  },
};

const links = {
  async 'a copied link restores the same state in another page'(stage) {
    const page = await stage.open('room=explore');
    await type(
      page,
      'A small “house” — 漢字, 50% & more #1. It stood at the edge of the wood, and nobody knew who had lived in it.',
    );
    await page.locator('.rail .thumb').nth(5).click();
    await ask(page, 'What does the head write?', 'Norms');
    await settled(page);
    await page.getByRole('button', { name: 'Share', exact: true }).click();
    await page.waitForFunction(() =>
      /Link copied/.test(document.querySelector('.message').textContent),
    );
    const link = await page.evaluate(() => navigator.clipboard.readText());
    const otherPage = await stage.open(new URL(link).hash.slice(1));
    const readPage = (target) =>
      Promise.all([chips(target), findingOf(target), text(target, 'h1'), text(target, '.stage')]);
    assert.deepEqual(await readPage(otherPage), await readPage(page));
    await page.waitForFunction(() => document.querySelector('.message').hidden);
  },

  async 'a link pasted over the current address is followed'(stage) {
    const page = await stage.open('room=explore&shown=key-bias&first=none&T=30');
    assert.equal(await page.getAttribute('main', 'data-room'), 'explore');
    assert.match(await text(page, '[data-view="attention"] .stamp'), /no start token .* Key bias/);
    await page.evaluate(
      () => (location.hash = '#room=compare&shown=softmax,softmax~sigmoid(-4.8)'),
    );
    await page.waitForFunction(() => document.querySelectorAll('.runs tbody tr').length === 2);
    assert.equal(await page.getAttribute('main', 'data-room'), 'compare');
    await page.evaluate(() => (location.hash = '#room=explore&shown=alibi&input=file'));
    await page.getByText('Choose a file of prompts').first().waitFor();
    await page.evaluate(() => (location.hash = '#room=explore&shown=alibi&n=1'));
    await page.waitForSelector('[data-view="attention"] canvas');
    assert.deepEqual(page.troubles, []);
  },

  async 'menus and dialogs of a figure stay in the window, and close by a click elsewhere'(stage) {
    for (const width of [1280, 390]) {
      const page = await stage.open('room=explore', { width });
      const menus = page.locator('details:is(.how, .save)');
      let openedCount = 0;
      for (let i = 0; i < (await menus.count()); i++) {
        const menu = menus.nth(i);
        if (!(await menu.locator('summary').isVisible())) continue;
        openedCount++;
        await menu.locator('summary').click();
        // The menu moves into the window in a later task, when the browser reports that it is open.
        const isWithin = (menuElement) => {
          const { left, right } = menuElement.lastElementChild.getBoundingClientRect();
          return left >= 0 && right <= innerWidth;
        };
        await page.waitForFunction(isWithin, await menu.elementHandle());
        await page.locator('.middle').click({ position: { x: 2, y: 2 } });
        assert.equal(await menu.evaluate((details) => details.open), false);
        await menu.locator('summary').click();
        await page.waitForFunction(isWithin, await menu.elementHandle());
        await page.keyboard.press('Escape');
        assert.equal(await menu.evaluate((details) => details.open), false);
      }
      assert.ok(openedCount >= 4, `${openedCount}`);
      assert.deepEqual(page.troubles, []);
    }
  },

  async 'twelve views work alone in an embed'(stage) {
    for (const view of [
      'attention',
      'sinks',
      'geometry',
      'scores',
      'norms',
      'ratios',
      'mass',
      'threshold',
      'length',
      'heads',
      'next',
      'training',
    ]) {
      const page = await stage.open(`view=${view}&shown=softmax`, {
        file: 'embed.html',
        width: 720,
      });
      await page.waitForSelector(`[data-view="${view}"] .cell`);
      assert.equal(await page.locator('.figure').count(), 1);
      assert.equal(await page.locator('textarea, select').count(), 0);
      assert.ok((await findingOf(page)).length > 20 || view === 'heads' || view === 'training');
      assert.match(await page.locator('.figure-foot a').getAttribute('href'), /room=explore/);
      assert.deepEqual(page.troubles, []);
      await page.context().close();
    }
  },

  async 'hostile links leave a working page, which reports them'(stage) {
    const hostile = [
      'shown=../../etc/passwd&T=1e99',
      'shown=softmax~%3Cscript%3Ealert(1)%3C/script%3E',
      'shown=nothing-here,neither~hardmax&view=wat&room=nowhere',
      '__proto__=1&constructor=2&%ff=%',
      'room=explore&layer=1023&head=1023&query=4095&key=4095',
      `eps=NaN&n=-1&seed=1e400&prompt=${'%00'.repeat(2000)}`,
    ];
    for (const hash of hostile) {
      const page = await stage.open(hash, { waits: false });
      await page.waitForFunction(
        () =>
          document.querySelector('[data-view="attention"] canvas') ||
          document.querySelector('.trouble'),
      );
      await settled(page);
      if (!hash.startsWith('room=explore'))
        assert.ok((await text(page, '.message')).length > 20, hash);
      if (hash.includes('nowhere'))
        assert.match(
          await text(page, '.message'),
          /the room “nowhere”, which this page does not have/,
        );
      await type(page, 'Still here, and reading.');
      const words = page.locator(':is(.chip, .cell .row-words span)');
      assert.ok((await words.count()) > 3, hash);
      assert.deepEqual(page.troubles, [], hash);
      await page.context().close();
    }
  },
};

async function checkLooks(stage, room, { width, scheme }) {
  const page = await stage.open(`room=${room}&runs=2`, { width, scheme });
  await page.setViewportSize({ width, height: width === 390 ? 844 : 800 });
  await settled(page);
  await page.screenshot({ path: `${pictures}/${room}-${width}-${scheme}.png` });
  await staysWithin(page, width);
  await page.setViewportSize({ width: Math.min(width, 320), height: 700 });
  await staysWithin(page, Math.min(width, 320));
  assert.deepEqual(await violations(page), []);
  assert.deepEqual(page.troubles, []);
}

export const rooms = {
  async 'Compare hides large models behind a question, lists their twins, and fits a phone'(stage) {
    const page = await stage.open('room=compare&shown=softmax', { width: 390 });
    await page.getByText('How sure?').click();
    await page.getByRole('button', { name: 'In large models?' }).click();
    const twin = page.locator('.remedies tbody', { hasText: 'gpt-oss' }).getByText('Compare its');
    await twin.waitFor();
    // The address is written a moment after the room is drawn.
    await page.waitForFunction(() => location.hash.includes('panel=remedies'));
    const isWide = () => document.documentElement.scrollWidth > innerWidth;
    assert.equal(await page.evaluate(isWide), false);
    await twin.click();
    await page.waitForFunction(() => location.hash.includes('shown=softmax,sink-logit'));
    assert.deepEqual(page.troubles, []);
  },
  ...start,
  ...reading,
  ...comparing,
  ...commands,
  ...training,
  ...links,
  ...Object.assign(
    {},
    ...['start', 'explore', 'compare', 'training', 'purpose'].map((room) =>
      inAllSizes(`the room ${room}`, (stage, size) => checkLooks(stage, room, size)),
    ),
  ),
};
