/** Tests the rooms as a reader uses them: looking, pointing, typing, choosing and following links. */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import { promisify } from 'node:util';
import { createEngine, openTokenizer } from '../../wasm/index.ts';
import { fieldsFor } from '../../wasm/internal.ts';
import {
  WATCHES_SHIFTS,
  ask,
  chips,
  everyTab,
  goTo,
  inAllSizes,
  openSection,
  pauseAtStep,
  pictures,
  root,
  settled,
  staysWithin,
  text,
  twoFrames,
  until,
  violations,
} from './stage.mjs';

const zoo = (path) => readFile(`${root}models/zoo/${path}`);
const findingOf = (page) => text(page, '[data-finding]');
const mapOf = (page, nth = 0) => page.locator('[data-view="attention"] .heatmap').nth(nth);

/** Returns what the package reads of a model of the zoo in Node.js. */
async function readInNode(id, prompt, reads, edits = []) {
  const engine = await createEngine({ worker: false });
  const [config, weights] = await Promise.all([
    zoo(`${id}/config.json`),
    zoo(`${id}/model.safetensors`),
  ]);
  const model = await engine.open({ config, weights });
  const tokenizer = openTokenizer(String(await zoo(`${id}/tokenizer.json`)));
  const ids = tokenizer.encode(prompt).map((token) => token.id);
  const run = await model.run(ids.slice(0, 64), {
    edits,
    fields: fieldsFor(engine.describe, reads),
  });
  const tensors = await run.read(reads);
  await engine.close();
  return tensors;
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
      /^In this softmax head, almost every token attends to <s>, the start token\. Softmax makes each token spend exactly 100% of its attention\. A head that needs no other token must still spend it: it can go to <s>, which every token sees\. Sigmoid has no such rule\.$/,
    );
    const sides = (await page.locator('.twin').allTextContents()).map((caption) =>
      caption.replace(/\s+/g, ' ').trim(),
    );
    assert.match(sides[0], /^Softmax model strongest head “his” spends 9\d% on <s> <s>$/);
    assert.match(
      sides[1],
      /^Sigmoid model strongest head “his” spends 0\.\d% on <s>, [5-6]\d% in all other tokens ?not spent$/,
    );
    const headNotes = [];
    for (const term of await page.locator('.twin .term').all()) {
      await term.click();
      headNotes.push(await page.locator('.note').textContent());
      await page.keyboard.press('Escape');
    }
    assert.match(headNotes[0], /^Of 24 heads, L1H3 \(layer 1, head 3\) gives <s> most: 93% of /);
    assert.match(headNotes[1], /^Of 24 heads, L4H0 .* gives <s> most: [12]% on average\.$/);
    const [sink, otherRemark] = await page.locator('.remark:visible').allTextContents();
    assert.equal(sink, '◀ 93% on <s> on average: a sink (over 30%)');
    assert.match(otherRemark, /^◀ [12]% on <s> on average: no sink$/);
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
            /spend/.test(document.querySelector('.lead')?.textContent ?? ''),
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
    const gap = wordBox.y - noteBox.y - noteBox.height;
    assert.ok(gap >= 0 && gap < 12, `${noteBox.y} over ${wordBox.y}`);
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

  async 'a pressed row is read above both maps, by mouse, by keyboard and by touch'(stage) {
    const page = await stage.open();
    const rows = () => page.locator('[data-row]').allTextContents();
    const bold = () => page.locator('.row-words .bold').allTextContents();
    const { height } = await mapOf(page).boundingBox();
    const press = (row) => ({ position: { x: 5, y: ((row + 0.5) / 26) * height } });
    await mapOf(page).click(press(12));
    await page.locator('[data-row]', { hasText: '“water”' }).nth(1).waitFor();
    assert.match((await rows())[0], /^“water” spends\s+9\d% on <s>$/);
    assert.deepEqual(await bold(), ['water', 'water']);
    await page.keyboard.press('ArrowDown');
    await page.keyboard.press('ArrowDown');
    await page.keyboard.press('Enter');
    await page.locator('[data-row]', { hasText: '“He”' }).nth(1).waitFor();
    // The frame ends with the token itself, and is in both maps.
    const ends = await page.locator('.mark.chosen:visible').evaluateAll((marks) =>
      marks.map((mark) => {
        const [{ right }, map] = [mark, mark.parentElement].map((one) =>
          one.getBoundingClientRect(),
        );
        return Math.round((26 * (right - map.left)) / map.width);
      }),
    );
    assert.deepEqual(ends, [15, 15]);
    const touch = await stage.browser.newContext({ hasTouch: true, serviceWorkers: 'block' });
    const phone = await touch.newPage();
    await phone.setViewportSize({ width: 390, height: 844 });
    await phone.goto(`${stage.origin}/index.html`);
    await phone.locator('[data-row]').nth(1).waitFor({ state: 'attached' });
    const box = await mapOf(phone).boundingBox();
    await mapOf(phone).tap({ position: { x: 5, y: (12.5 / 26) * box.height } });
    await phone.locator('[data-row]', { hasText: '“water”' }).first().waitFor();
    await touch.close();
    assert.deepEqual(page.troubles, []);
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
};

const reading = {
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

  async 'the map is operated by the keyboard, and all tokens are one tab stop'(stage) {
    const isThere = (page) =>
      page.evaluate(
        () => document.activeElement.closest('[data-view="attention"] .heatmap') !== null,
      );
    const rooms = await stage.open('runs=1');
    await rooms.keyboard.press('Tab');
    for (const room of ['start', 'compare', 'training', 'purpose', 'lab', 'explore']) {
      await goTo(rooms, `room=${room}&runs=1`);
      await rooms.waitForSelector(`[data-room="${room}"] [data-view="attention"] .heatmap`);
      await settled(rooms);
      if (room !== 'start') await rooms.locator('.skip').focus();
      await rooms.keyboard.press('Enter');
      assert.ok(await isThere(rooms), `${room}: the skip link leads to the map`);
    }
    await rooms.close();
    let stops = 0;
    for (const [room, width, few] of [
      // Tab reaches first the text, its start token, the examples, the five words that the lead explains, and both heads.
      ['start', 1280, 14],
      // Tab reaches first the bar with the models, the text, its tokens and all settings.
      ['explore', 390, 11],
    ]) {
      const page = await stage.open(`room=${room}`, { width });
      for (stops = 0; !(await isThere(page)); stops++) await page.keyboard.press('Tab');
      // Besides the links to the rooms, whose number grows, only a few controls come first.
      const links = await page.locator('nav.rooms a').count();
      assert.ok(stops <= links + few, `${room}: the map is ${stops} stops away`);
    }
    const page = await stage.open('room=explore');
    const columns = ['bar', 'rail', 'middle', 'inspector'];
    let column = 0;
    for (let i = 0; i < 120; i++) {
      await page.keyboard.press('Tab');
      const name = await page.evaluate(() => {
        const names = ['bar', 'rail', 'middle', 'inspector'];
        return names.find((part) => document.activeElement.closest(`.room > .${part}`)) ?? '';
      });
      if (!name && column === 3) break;
      if (!name) continue;
      assert.ok(columns.indexOf(name) >= column, `${name} after ${columns[column]}`);
      column = columns.indexOf(name);
    }
    assert.equal(column, 3);
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
    const prompt = await page.locator('textarea').inputValue();
    const [oldLosses] = await readInNode('softmax', prompt, [{ metric: 'loss_mean' }]);
    const edits = [{ kind: 'hide_key', key: 0 }];
    const [newLosses] = await readInNode('softmax', prompt, [{ metric: 'loss_mean' }], edits);
    const rise = newLosses.data[0] - oldLosses.data[0];
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
    assert.match(await findingOf(page), /^\d of 4 models have heads with a sink/);
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
  async 'no chapter of Compare and none of its models makes the page scroll sideways or a label leave its map'(
    stage,
  ) {
    const checkLabels = async (page, width, labels, name) => {
      await settled(page);
      await staysWithin(page, width, name);
      const outside = await page.$$eval(labels, (all) =>
        all
          .filter((label) => {
            const [own, map] = [label, label.parentElement].map((element) =>
              element.getBoundingClientRect(),
            );
            return own.left < map.left || own.right > map.right + 1 || own.bottom > map.bottom;
          })
          .map((label) => label.textContent),
      );
      assert.deepEqual(outside, [], `${name} at ${width} px`);
    };
    let count = 0;
    const page = await stage.open('room=compare');
    const chapters = (await page.locator('.chapters button').allTextContents()).slice(0, -1);
    for (const chapter of chapters) {
      await page.getByRole('button', { name: chapter.trim(), exact: true }).click();
      // All models of the chapter are measured.
      await page.waitForFunction(() =>
        [...document.querySelectorAll('.model .count')].every(({ textContent }) =>
          /\d/.test(textContent),
        ),
      );
      assert.match(await text(page, 'h1'), /^(Sinks form|Give heads an extra slot)/, chapter);
      assert.match(
        await findingOf(page),
        /\d of \d+ heads ha(s|ve) a sink \(over 30% on /,
        chapter,
      );
      for (const row of await page.locator('.model button').all()) {
        await row.click();
        const name = await row.locator('b').textContent();
        await page.waitForFunction(
          (title) =>
            [...document.querySelectorAll('.view-attention .cell-head > strong')].at(-1)
              ?.textContent === title,
          name,
        );
        for (const width of [390, 1280]) {
          await page.setViewportSize({ width, height: 900 });
          await checkLabels(page, width, '.view-attention .remark:not([hidden])', name);
        }
        count++;
      }
    }
    await page.goBack();
    await page.waitForFunction(
      (chapter) =>
        document.querySelector('.chapters [aria-current]').textContent.trim() === chapter,
      chapters.at(-2).trim(),
    );
    assert.deepEqual(page.troubles, []);
    return `${count} models`;
  },
};

/** Runs `sinkscope` commands that the page shows, as a shell reads them, by the command line of this repository. */
async function runCommands(lines) {
  const run = async (...command) =>
    (await promisify(execFile)(...command, { cwd: root, maxBuffer: 1e9 })).stdout;
  const wordsOf = async (line) =>
    (await run('sh', ['-c', `sinkscope() { printf '%s\\0' "$@"; }\n${line}`])).split('\0');
  const words = (await Promise.all(lines.map(wordsOf))).map((all) => all.slice(0, -1));
  const program = ['tests/browser/run_commands.mjs', JSON.stringify(words)];
  return JSON.parse(await run(process.execPath, program));
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
    const page = await stage.open('room=compare&panel=numbers');
    const shown = [];
    for (const hash of cases) {
      await goTo(page, `room=compare&panel=numbers&${hash}`);
      const count = hash.split('&')[0].split(/,(?![^(]*\))/).length;
      await page.waitForFunction(
        (n) => document.querySelectorAll('.metrics tr[data-subject]:not(.stale)').length === n,
        count,
      );
      const rows = await page.$$eval('.metrics tr[data-subject]:not(.stale)', (all) =>
        all.map((row) => ({
          command: row.querySelector('.copy-command').title,
          loss: row.querySelector('[data-metric="loss"] .value').textContent,
          sinkPercent: parseFloat(row.querySelector('[data-metric="sink_1"] .value').textContent),
        })),
      );
      shown.push(...rows);
    }
    const results = await runCommands(shown.map(({ command }) => command));
    for (const [i, { metrics, loss }] of results.entries()) {
      const { command, ...row } = shown[i];
      assert.equal(row.loss, loss.toFixed(3), command);
      const sinkPercent = 100 * (metrics.sink_ratio_raw ?? metrics.sink_ratio).mean[0];
      assert.ok(Math.abs(row.sinkPercent - sinkPercent) <= 0.05, command);
    }
    assert.equal(results.length, 11);
    assert.deepEqual(page.troubles, []);
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
    const page = await stage.open('room=purpose&runs=1');
    const compared = [];
    for (const hash of [
      'runs=2&length=64',
      'experiment=cache&runs=2&length=48&shown=softmax',
      'experiment=quantization&runs=2&length=48&shown=sigmoid',
      'experiment=fragility&runs=2&repeats=20&shown=softmax',
      'experiment=fragility&perturbation=channel&runs=2&length=40&shown=softmax',
      'runs=1&length=300&positions=cache&shown=softmax',
    ]) {
      await goTo(page, `room=purpose&${hash}`);
      await page.waitForSelector('.settings tbody tr', { state: 'attached' });
      await settled(page);
      const rows = await page.$$eval('.settings tbody tr', (all) =>
        all.map((row) => [row.cells[2].textContent, row.querySelector('.copy-command')?.title]),
      );
      assert.ok(rows.length > 1, hash);
      // The first row has no edit; the test of numbers above runs such commands.
      compared.push(...rows.slice(1, 3), rows.at(-1));
    }
    const results = await runCommands(compared.map(([, command]) => command));
    for (const [i, [lossCell, command]] of compared.entries()) {
      const { loss, metrics } = results[i];
      const value = loss ?? metrics.loss_mean.mean[0];
      assert.equal(lossCell.split(' (')[0].trim(), value.toFixed(3), command);
    }
    assert.equal(results.length, 18);
    assert.deepEqual(page.troubles, []);
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
      /^Here, before training, no heads have a sink with softmax, none with sigmoid/,
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
    // Each model has a map at the chosen step, and in its corner one before training.
    const subjects = await page
      .locator('.maps .cell:not(.stale)')
      .evaluateAll((cells) => cells.map(({ dataset }) => dataset.subject));
    assert.deepEqual(subjects, ['softmax', 'softmax@0', 'sigmoid', 'sigmoid@0']);
    // The thumb of the slider is below the line of the shown step, at both ends and between them.
    const alignments = [];
    for (const keys of [['End'], ['ArrowLeft', 'ArrowLeft', 'ArrowLeft'], ['Home']]) {
      for (const key of keys) await page.keyboard.press(key);
      await settled(page);
      alignments.push(
        await page.evaluate(() => {
          const input = document.querySelector('.walk input');
          const { left, width } = input.getBoundingClientRect();
          const thumb = left + 8 + ((width - 16) * input.value) / input.max;
          const cursor = document.querySelector('.room-training > .chart .cursor');
          return Math.round(Math.abs(thumb - cursor.getBoundingClientRect().x));
        }),
      );
    }
    assert.ok(Math.max(...alignments) <= 3, `thumb and line are ${alignments} px apart`);
    await page.keyboard.press('End');
    await settled(page);
    // An emptied text leaves the last good result.
    const heading = () => text(page, '.room-training h1');
    const answer = await heading();
    assert.equal(answer, 'Sinks appear by step 400 with softmax, never with sigmoid');
    const typed = await page.locator('.text-place textarea').inputValue();
    await page.locator('.text-place textarea').fill('');
    await page.waitForSelector('.trouble');
    await settled(page);
    assert.equal(await heading(), answer);
    await page.locator('.text-place textarea').fill(typed);
    await page.waitForSelector('.trouble', { state: 'detached' });
    await settled(page);
    assert.equal(await heading(), answer);
    // The first head with a sink is marked at the title's step, and the followed one later.
    const rings = await page.locator('.ring-words').allTextContents();
    assert.equal(rings.length, 2);
    assert.equal(rings[0], 'first: step 400');
    assert.match(rings[1], /^mapped: from step [\d,]+$/);
    // The curve ends at the count that the sentence below it states.
    const labelOfChart = await page.locator('.chart-picture').first().getAttribute('aria-label');
    const [, atEnd] = /Softmax: .*?, (\d+) at step 4000/.exec(labelOfChart);
    const finding = await page.locator('[data-finding]').textContent();
    assert.match(
      finding,
      new RegExp(`after training, ${atEnd} of 24 heads have a sink with softmax`),
    );
    // Small maps are where the large ones have no cells.
    const overlaps = await page.locator('.maps .cell.before').evaluateAll((cells) =>
      cells.map((cell) => {
        const [small, large] = [cell, cell.previousElementSibling].map((one) =>
          one.querySelector('.heatmap').getBoundingClientRect(),
        );
        const diagonal = ((small.bottom - large.top) / large.height) * large.width + large.left;
        return Math.round(diagonal - small.left);
      }),
    );
    assert.ok(overlaps.length === 2 && Math.max(...overlaps) <= 0, `${overlaps}`);
    // Each model writes on in the fold: words of its books, and nonsense before training.
    await page.locator('.counts .more summary').click();
    await settled(page);
    const writing = async () => (await page.locator('.writing').allTextContents()).join();
    await page.waitForFunction(() => document.querySelectorAll('.writing').length === 2);
    assert.match(await writing(), /\bI am\b/);
    await page
      .locator('.chart-picture.choosable')
      .first()
      .click({ position: { x: 120, y: 80 } });
    await page.waitForFunction(() => /softmax@\d+/.test(decodeURIComponent(location.hash)));
    await slider.focus();
    await page.keyboard.press('Home');
    await page.waitForFunction(() =>
      /TheThe/.test(document.querySelector('.writing')?.textContent),
    );
    await settled(page);
    assert.doesNotMatch(await writing(), /\uFFFD/);
    // The lines of the menu are one below another.
    await page.locator('.maps .how summary').click();
    const tops = await page
      .locator('.maps .how p:visible')
      .evaluateAll((lines) => lines.map((line) => line.getBoundingClientRect().top));
    assert.ok(tops.length > 2 && tops.every((top, i) => !i || top > tops[i - 1]), `${tops}`);
    await page.keyboard.press('Escape');
    // A named head is drawn in each map.
    await page.evaluate(() => (location.hash += '&layer=2&head=1'));
    await settled(page);
    const heads = await page.locator('.maps .cell .hint').allTextContents();
    assert.deepEqual(heads, Array(2).fill('layer 2, head 1'));
    assert.deepEqual(page.troubles, []);
  },

  async 'Training plays once by itself through each step, and not again when the reader comes back'(
    stage,
  ) {
    const script = `globalThis.steps = [];
      new MutationObserver(() => {
        const said = document.querySelector('.walk input')?.getAttribute('aria-valuetext');
        const finding = document.querySelector('[data-finding]')?.textContent;
        if (said && !document.querySelector('.awaited') && globalThis.steps.at(-1)?.[0] !== said)
          globalThis.steps.push([said, finding]);
      }).observe(document, { subtree: true, childList: true, attributes: true });`;
    const page = await stage.open('room=training', { script, plays: true, waits: false });
    await page.getByRole('button', { name: 'Play again' }).waitFor();
    await settled(page);
    const steps = await page.evaluate(() => globalThis.steps);
    assert.match(steps[0][0], /^training step 0 of 4,000/);
    assert.match(steps.at(-1)[0], /^training step 4,000 of 4,000/);
    assert.equal(steps.length, 16, steps.join('\n'));
    assert.ok(
      steps.every(([, finding]) => /heads have a sink/.test(finding)),
      steps.join('\n'),
    );
    assert.doesNotMatch(page.url(), /@/);
    await page.getByRole('link', { name: 'Lab', exact: true }).click();
    await page.waitForSelector('.room-lab');
    await page.getByRole('link', { name: 'Training', exact: true }).click();
    await page.locator('.room-training .heatmap').first().waitFor();
    await settled(page);
    assert.match(
      await page.locator('.walk input').getAttribute('aria-valuetext'),
      /training step 4,000 of 4,000/,
    );
    assert.deepEqual(page.troubles, []);
  },

  async 'each measurement that waits for a click runs, and says what it found'(stage) {
    for (const [hash, name, said] of [
      ['shown=diffusion&view=unmasking&masked=8&denoise=4', 'Unmask', /most attended token/],
      ['shown=diffusion&view=masked', 'Measure', /predicts the same tokens/],
      ['view=tasks', 'Measure', /Copying random tokens .* Recalling a name/s],
      ['view=suffix&goal=away&suffix=3', 'Search', /in another order/],
    ]) {
      const page = await stage.open(`room=explore&${hash}`);
      const view = page.locator('.stage > .main');
      await view.getByRole('button', { name, exact: true }).click();
      await view.locator('.caption').filter({ hasText: said }).first().waitFor();
      assert.deepEqual(page.troubles, [], hash);
      await page.context().close();
    }
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
};

const links = {
  async 'a copied link leads to the page of its room, which restores the same state'(stage) {
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
    assert.equal(new URL(link).pathname, '/explore/index.html');
    const otherPage = await stage.open(link.split('#')[1], { file: 'explore/index.html' });
    const readPage = (target) =>
      Promise.all([chips(target), findingOf(target), text(target, 'h1'), text(target, '.stage')]);
    assert.deepEqual(await readPage(otherPage), await readPage(page));
    await page.waitForFunction(() => document.querySelector('.message').hidden);
  },

  async 'menus and dialogs of a figure stay in the window, and close by a click elsewhere'(stage) {
    for (const width of [1280, 390]) {
      const page = await stage.open('room=explore', { width });
      const menus = page.locator('details:is(.how, .save)');
      // The browser reports an opened menu in a later task, in which the menu moves into the window.
      await menus.evaluateAll((elements) =>
        elements.forEach((menu) => {
          menu.dataset.place = 'closed';
          menu.addEventListener('toggle', () => {
            const { left, right } = menu.lastElementChild.getBoundingClientRect();
            const place = left >= 0 && right <= innerWidth ? 'within' : `${left} to ${right}`;
            menu.dataset.place = menu.open ? place : 'closed';
          });
        }),
      );
      let openedCount = 0;
      for (const menu of await menus.all()) {
        if (!(await menu.locator('summary').isVisible())) continue;
        openedCount++;
        const isPlaced = async (isOpen) => {
          let place;
          const isClosed = async () => (place = await menu.getAttribute('data-place')) === 'closed';
          await until(async () => (await isClosed()) !== isOpen);
          assert.equal(place, isOpen ? 'within' : 'closed');
        };
        await menu.locator('summary').click();
        await isPlaced(true);
        await page.locator('.middle').click({ position: { x: 2, y: 2 } });
        await isPlaced(false);
        await menu.locator('summary').click();
        await isPlaced(true);
        await page.keyboard.press('Escape');
        await isPlaced(false);
      }
      assert.ok(openedCount >= 4, `${openedCount}`);
      assert.deepEqual(page.troubles, []);
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

const looks = (room) =>
  inAllSizes(
    `the room ${room}`,
    (stage) => stage.open(`room=${room}&runs=2`, { scheme: 'dark' }),
    async (page, { width, scheme }) => {
      await page.screenshot({ path: `${pictures}/${room}-${width}-${scheme}.png` });
      await staysWithin(page, width);
      await page.setViewportSize({ width: Math.min(width, 320), height: 700 });
      await staysWithin(page, Math.min(width, 320));
      assert.deepEqual(await violations(page), []);
    },
  );

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
  ...Object.assign({}, ...['start', 'explore', 'compare', 'training', 'purpose'].map(looks)),
};
