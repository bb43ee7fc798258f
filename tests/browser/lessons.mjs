/** Tests the course: its figures against their runs, guesses, print, and readers without JavaScript. */
import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import { readFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { pageRoot, pictures, root, staysWithin, violations } from './stage.mjs';

const slugs = JSON.parse(await readFile(join(root, 'web/lessons/order.json')));
const prefixOf = (slug) => /^\d+/.exec(slug)?.[0] ?? slug;
const slugOf = (number) => slugs.find((slug) => slug.startsWith(`${number}-`));
const recordedPictures = JSON.parse(
  await readFile(join(root, 'web/lessons/pictures/pictures.json')),
);
const SIZES = [1280, 390].flatMap((width) =>
  ['light', 'dark'].map((scheme) => ({ width, scheme })),
);
const BYTES_MAX = 300_000;

const open = (stage, slug, options = {}) =>
  stage.open('', { file: `learn/${slug}/index.html`, waits: false, ...options });

async function readThrough(page) {
  const figures = page.locator('sink-scope');
  for (let i = 0; i < (await figures.count()); i++) {
    await figures.nth(i).scrollIntoViewIfNeeded();
    await page.waitForFunction(
      (at) => document.querySelectorAll('sink-scope')[at].hasAttribute('data-live'),
      i,
    );
  }
}

const readNumbers = (page) =>
  page.$$eval('output[data-figure]', (all) =>
    all.map(({ dataset: { figure, value }, textContent }) => `${figure} ${value} ${textContent}`),
  );

/** A page of the course is one column of text, in its own style alone. */
async function expectColumn(page) {
  // A page is attached before its style has come.
  await page.waitForLoadState('load');
  const [widest, letters] = await page.$$eval('main p, main h2', (all) => [
    Math.max(...all.map((element) => element.getBoundingClientRect().width)),
    getComputedStyle(document.body).fontSize,
  ]);
  assert.ok(widest > 300 && widest <= 760, `${widest} px`);
  assert.equal(letters, '17px');
}

const lessonTests = Object.fromEntries(
  slugs.map((slug, i) => {
    const size = SIZES[i % SIZES.length];
    return [
      `lesson ${slug} at ${size.width} px, ${size.scheme}: its text says what its figures measure, axe finds nothing`,
      async (stage) => {
        const page = await open(stage, slug, size);
        const numbers = await readNumbers(page);
        await readThrough(page);
        assert.deepEqual(await readNumbers(page), numbers, 'a run has the numbers of the text');
        const number = prefixOf(slug);
        const labels = await page.$$eval('sink-scope', (all) =>
          all.map(({ id, internals }) => [id, internals.ariaLabel]),
        );
        for (const [id, ariaLabel] of labels) {
          // A lab is drawn when the reader starts it; another test covers this.
          if (recordedPictures[`${number}-${id}`].state.view === 'lab') continue;
          const picture = recordedPictures[`${number}-${id}`].says.trim();
          // The label ends each sentence with a full stop, even one that has a full stop.
          const label = ariaLabel.replaceAll('.. ', '. ');
          assert.ok(label.endsWith(picture), `${id}: ${label}`);
        }
        const repeatedSentences = await page.$$eval('sink-scope', (all) =>
          all.flatMap(({ id, shadowRoot }) => {
            const copies = [...shadowRoot.querySelectorAll('p')].map((paragraph) =>
              paragraph.cloneNode(true),
            );
            for (const copy of copies)
              for (const part of copy.querySelectorAll('.unseen')) part.remove();
            const beginnings = copies
              .map((copy) => copy.textContent.trim().slice(0, 30))
              .filter((text) => text.length === 30 && !/^(MEASURED|COUNTERFACTUAL)/.test(text));
            return beginnings
              .filter((text, i) => beginnings.indexOf(text) !== i)
              .map((text) => [id, text]);
          }),
        );
        assert.deepEqual(repeatedSentences, [], 'no sentence occurs twice in a figure');
        await staysWithin(page, size.width, slug);
        await expectColumn(page);
        assert.deepEqual(await violations(page), []);
        await page.screenshot({ path: `${pictures}/lesson-${number}.png`, fullPage: true });
        await page.evaluate(() => document.querySelector('.next-lesson').scrollIntoView());
        await page.waitForFunction(
          (lessonSlug) => (localStorage.getItem('sinkscope:lessons') ?? '').includes(lessonSlug),
          slug,
        );
        assert.deepEqual(page.troubles, []);
      },
    ];
  }),
);

export const lessons = {
  ...lessonTests,

  async 'the reader’s text changes the numbers in a lesson'(stage) {
    const page = await open(stage, slugs[0]);
    await page.waitForFunction(() => document.querySelector('#map').hasAttribute('data-live'));
    await page.locator('#map textarea').fill('He sat.');
    await page.waitForFunction(
      () => document.querySelector('output[data-value="tokens"]').textContent === '4',
    );
    const uniform = page.locator('output[data-figure="map"][data-value="uniform"]');
    // Uniform attention to the first of 4 tokens, on average: (1 + 1/2 + 1/3 + 1/4) / 4.
    assert.equal(await uniform.textContent(), '52%');
  },

  async 'a guess opens the answer, and opened heads are counted'(stage) {
    const page = await open(stage, slugs[0]);
    const answer = page.locator('.predict details');
    assert.equal(await answer.isVisible(), false);
    await page.locator('.predict input').fill('3');
    await page.getByRole('button', { name: 'Check' }).click();
    assert.match(await page.locator('.predict-guess').textContent(), /Your guess: 3\./);
    assert.ok(await answer.locator('p').isVisible());
    await page.locator('#heads').scrollIntoViewIfNeeded();
    await page.waitForFunction(() => document.querySelector('#heads').hasAttribute('data-live'));
    const count = page.locator('.head-count');
    const [otherHead, sinkHead] = ['L0H0', 'L1H3'].map((name) =>
      page.locator(`#heads .thumb[aria-label^="${name}"]`),
    );
    await otherHead.click();
    await count.filter({ hasText: /opened 1 of 24 heads: 0 give/ }).waitFor();
    await sinkHead.click();
    await sinkHead.click();
    await count.filter({ hasText: /opened 2 of 24 heads: 1 give/ }).waitFor();
  },

  async 'a row by hand: switches change the formula, sliders show that softmax1 is a key bias'(
    stage,
  ) {
    const page = await open(stage, slugs[1]);
    const row = page.locator('sink-row').nth(1);
    const formula = () => row.locator('.row-formula').textContent();
    const statusText = () => row.getByRole('status').textContent();
    for (const name of ['Key k of the bias, with q = 1', 'Value v of the bias'])
      await row.getByLabel(name).fill('0');
    assert.match(await statusText(), /softmax₁ is a key bias with k = 0 and v = 0/);
    const oldFormula = await formula();
    await row.getByRole('button', { name: 'sink logit s' }).click();
    assert.notEqual(await formula(), oldFormula);
    assert.equal(await row.getByLabel('Value v of the bias').count(), 0);
    await row.getByRole('button', { name: 'sigmoid' }).click();
    assert.match(await statusText(), /Without that sum it changes nothing/);
    await row.getByRole('button', { name: 'Reset' }).click();
    assert.equal(await formula(), oldFormula);
    assert.match(await statusText(), /^The three weights sum to/);
    assert.deepEqual(await violations(page), []);
    for (const { width, scheme } of SIZES) {
      await page.setViewportSize({ width, height: 900 });
      await page.emulateMedia({ colorScheme: scheme });
      await staysWithin(page, width, 'a row');
      await row.screenshot({ path: `${pictures}/row-${width}-${scheme}.png` });
    }
  },

  async 'training the two models of a lesson gives the numbers of its picture'(stage) {
    const page = await open(stage, slugOf(3));
    const lab = page.locator('#lab');
    await lab.scrollIntoViewIfNeeded();
    const train = lab.getByRole('button', { name: 'Train' });
    await train.waitFor();
    const heightOf = () => lab.evaluate((figure) => figure.offsetHeight);
    const [oldHeight, picture] = [await heightOf(), lab.locator('img')];
    assert.ok(await picture.isVisible());
    assert.equal(await lab.locator('.lab-grid').isVisible(), false);
    await train.click();
    await picture.waitFor({ state: 'hidden' });
    assert.ok(await lab.locator('.lab-grid').isVisible());
    assert.equal(await heightOf(), oldHeight, 'nothing below the lab moves');
    await page.waitForFunction(() =>
      /step 400 of 400/.test(document.querySelector('#lab').shadowRoot.textContent),
    );
    const says = recordedPictures['3-lab'].says.trim();
    await lab.getByText(says.slice(0, 60)).waitFor();
    assert.equal((await lab.locator('[data-finding]').textContent()).trim(), says);
    assert.deepEqual(await violations(page), []);
    await lab.screenshot({ path: `${pictures}/lesson-lab.png` });
  },

  async 'text generated with three caches equals the recorded texts, and differs with another seed'(
    stage,
  ) {
    const page = await open(stage, slugOf(4));
    const write = page.locator('sink-write');
    const readTexts = () => write.locator('tbody tr td:nth-child(2)').allTextContents();
    const recordedTexts = await readTexts();
    assert.equal(recordedTexts.length, 3);
    const generate = async () => {
      await write.getByRole('button', { name: 'Generate' }).click();
      await write.getByRole('button', { name: 'Generate', disabled: false }).waitFor();
    };
    await generate();
    // Every build has the same bits, so the same draws give the same text.
    assert.deepEqual(await readTexts(), recordedTexts);
    await write.locator('input').fill('5');
    await generate();
    await page.waitForFunction(() => document.querySelector('sink-write').dataset.seed === '5');
    assert.notDeepEqual(await readTexts(), recordedTexts);
    assert.deepEqual(await violations(page), []);
  },

  async 'without JavaScript every lesson has its text, its answers and its pictures'(stage) {
    const context = await stage.browser.newContext({ javaScriptEnabled: false });
    const page = await context.newPage();
    for (const slug of slugs) {
      await page.goto(`${stage.origin}/learn/${slug}/index.html`);
      const figures = await page.locator('sink-scope').count();
      const images = page.locator('sink-scope img');
      assert.equal(await images.count(), figures);
      for (let i = 0; i < figures; i++) {
        await images.nth(i).scrollIntoViewIfNeeded();
        assert.ok((await images.nth(i).boundingBox()).height > 100, `${slug}: picture ${i}`);
        await page.waitForFunction(
          (at) => document.querySelectorAll('sink-scope img')[at].naturalWidth > 0,
          i,
        );
        assert.ok((await images.nth(i).getAttribute('alt')).length > 20);
      }
      await page.locator('.predict summary').first().click();
      await page.locator('.predict details p').first().waitFor();
    }
    await page.screenshot({ path: `${pictures}/lesson-plain.png`, fullPage: true });
  },

  async 'a printed lesson has pictures and answers, and no controls'(stage) {
    const page = await open(stage, slugs[0]);
    await readThrough(page);
    await page.emulateMedia({ media: 'print' });
    for (const figure of await page.locator('sink-scope').all()) {
      // A figure that waits for the reader, as the lab does, and one that was not drawn print their picture.
      const isLive = await figure.evaluate((element) =>
        element.matches('[data-live]:not([data-waits])'),
      );
      assert.equal(await figure.locator('img').first().isVisible(), !isLive);
      const controls = await figure.locator('button:not(.term), input, select, textarea').all();
      for (const control of isLive ? controls : []) assert.equal(await control.isVisible(), false);
    }
    assert.ok(await page.locator('#map .heatmap canvas').first().isVisible());
    assert.equal(await page.locator('.predict form').isVisible(), false);
    assert.ok(await page.locator('.predict details p').isVisible());
    await page.pdf({ path: `${pictures}/lesson-1.pdf`, format: 'A4' });
  },

  async 'a lesson fetches at most 300 KB before its first figure'() {
    const sizes = [];
    for (const slug of slugs) {
      const folder = join(pageRoot, 'learn', slug);
      const html = await readFile(join(folder, 'index.html'), 'utf8');
      const [, image = ''] = /<img src="([^"]+)"/.exec(html) ?? [];
      const references = [
        ...html.matchAll(/<(?:script|link)[^>]* (?:src|href)="([^"]+\.(?:js|css))"/g),
      ];
      const files = [...new Set([...references.map(([, file]) => file), image])].filter(Boolean);
      assert.ok(files.length >= 3, slug);
      let bytes = gzipSync(html).length;
      for (const file of files)
        bytes += gzipSync(await readFile(join(dirname(`${folder}/x`), file))).length;
      sizes.push(Math.round(bytes / 1000));
      assert.ok(bytes <= BYTES_MAX, `${slug}: ${bytes} bytes`);
    }
    return `${sizes.join(', ')} KB`;
  },

  async 'a lesson in a frame of another site is live'(stage) {
    const site = createServer((_, response) => {
      response.writeHead(200, { 'content-type': 'text/html' });
      response.end(
        `<!doctype html><html lang="en"><title>A course</title><iframe title="Lesson" style="width:900px;height:900px" src="${stage.origin}/learn/${slugs[0]}/index.html"></iframe>`,
      );
    });
    await new Promise((done) => site.listen(0, '127.0.0.1', done));
    try {
      const context = await stage.browser.newContext({ serviceWorkers: 'block' });
      const page = await context.newPage();
      await page.goto(`http://127.0.0.1:${site.address().port}/`);
      await page.frameLocator('iframe').locator('#map[data-live]').waitFor();
    } finally {
      site.close();
      site.closeAllConnections();
    }
  },

  async 'the room lists the lessons and which were read; the tour of Start ends in lesson 1'(
    stage,
  ) {
    const page = await stage.open('why=6', { waits: false });
    const first = page.getByRole('link', { name: /^Lesson 1: / });
    await first.waitFor();
    await first.click();
    await page.waitForURL(/learn\/1-/);
    await page.evaluate(() => document.querySelector('.next-lesson').scrollIntoView());
    await page.waitForFunction(() => localStorage.getItem('sinkscope:lessons'));
    await page.getByRole('link', { name: 'All lessons' }).click();
    await page.getByRole('link', { name: 'Continue with lesson 2' }).waitFor();
    assert.equal(await page.locator('.lessons li').count(), slugs.length);
    assert.match(await page.locator('.lessons li').first().textContent(), /· read/);
    assert.deepEqual(await violations(page), []);
    await page.getByRole('link', { name: 'Glossary' }).click();
    await page.locator('dt', { hasText: 'attention sink' }).waitFor();
    await expectColumn(page);
    assert.deepEqual(await violations(page), []);
  },
};
