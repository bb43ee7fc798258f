/** Tests the story of Start: six steps below the first screen, each with one act, by mouse and by keyboard. */
import assert from 'node:assert/strict';
import {
  WATCHES_SHIFTS,
  inAllSizes,
  pictures,
  settled,
  staysWithin,
  text,
  violations,
} from './stage.mjs';

async function goTo(page, n) {
  await page
    .locator(`.step-${n}`)
    .evaluate((element) => element.scrollIntoView({ block: 'start', behavior: 'instant' }));
  await page.locator(`.step-${n}:not(.unread) .answer`).waitFor();
  await settled(page);
}

/** Focuses a slider or button by its label, without Tab, and presses a key. */
async function press(page, target, key) {
  await target.focus();
  await page.keyboard.press(key);
}

const ACTS = {
  1: {
    read: (page) => text(page, '.step-1 .step-words'),
    mouse: (page) => page.locator('.step-1 .thumb').nth(5).click(),
    keyboard: (page) => press(page, page.locator('.step-1 .thumb').nth(6), 'Enter'),
  },
  2: {
    read: (page) => text(page, '.step-2 .view-row'),
    mouse: (page) => page.locator('.step-2 .step-words input').click({ position: { x: 40, y: 8 } }),
    keyboard: (page) => press(page, page.locator('.step-2 .step-words input'), 'ArrowRight'),
  },
  3: {
    read: (page) => text(page, '.recorded[role=status]'),
    mouse: (page) => page.getByRole('button', { name: 'Show it again' }).click(),
    keyboard: (page) =>
      press(page, page.getByRole('button', { name: 'Hide the first token' }), 'Enter'),
  },
  4: {
    read: (page) => text(page, '.step-4 .step-words'),
    mouse: (page) => page.locator('.output').nth(12).click(),
    keyboard: (page) => press(page, page.locator('.output').nth(7), 'Enter'),
  },
  5: {
    read: (page) => text(page, '.step-5 .answer + p'),
    mouse: (page) => page.getByRole('button', { name: 'Next checkpoint' }).click(),
    keyboard: (page) => press(page, page.locator('.step-5 .walk input'), 'End'),
  },
};

export const story = {
  async 'each step of the story answers in a plain sentence, and works by mouse and keyboard'(
    stage,
  ) {
    const page = await stage.open();
    await page.getByRole('button', { name: 'Test it in 6 steps' }).click();
    await page.waitForFunction(
      () => Math.abs(document.querySelector('.step-1').getBoundingClientRect().top) < 2,
    );
    const answers = [];
    for (const [n, { read, mouse, keyboard }] of Object.entries(ACTS)) {
      await goTo(page, n);
      answers.push(await text(page, `.step-${n} .answer`));
      const answersRead = [await read(page)];
      for (const act of [mouse, keyboard]) {
        await act(page);
        await settled(page);
        await page.waitForFunction(() => !document.querySelector('.step .stale'));
        answersRead.push(await read(page));
      }
      for (const i of [1, 2])
        assert.notEqual(
          answersRead[i],
          answersRead[i - 1],
          `step ${n}: ${answersRead.join(' | ')}`,
        );
      await staysWithin(page, 1280, `step ${n}`);
    }
    await goTo(page, 6);
    answers.push(await text(page, '.step-6 .answer'));
    for (const answer of answers) {
      assert.match(answer, /^(?:[A-Z]|<s>)[^.]*\.$/, answer);
      assert.doesNotMatch(answer, /\d|[αε‖×]|L\d/, answer);
    }
    assert.match(await page.evaluate(() => location.hash), /layer=1&head=3/);
    assert.doesNotMatch(await page.evaluate(() => location.hash), /@/);
    assert.deepEqual(page.troubles, []);
    return answers.join(' ');
  },

  async 'the story’s weights are fetched when scrolled to, and the page does not shift when it loads'(
    stage,
  ) {
    const shifts = [];
    for (const width of [1280, 390]) {
      const page = await stage.open('', { width, script: WATCHES_SHIFTS });
      await page.setViewportSize({ width, height: width === 390 ? 844 : 800 });
      await page.waitForLoadState('networkidle');
      const requestedFiles = [];
      page.on('request', (request) =>
        requestedFiles.push(new URL(request.url()).pathname.split('/').at(-1)),
      );
      await page.locator('.step-5 .answer').waitFor({ state: 'attached' });
      await page.waitForLoadState('networkidle');
      const isData = (name) => /\.(gz|wasm|safetensors)$/.test(name);
      assert.deepEqual(requestedFiles.filter(isData), []);
      const shiftBefore = await page.evaluate(() => globalThis.shifted);
      await goTo(page, 3);
      // The recorded text needs no model; the story's numbers are those of weights that are loaded.
      assert.deepEqual(requestedFiles.filter(isData), []);
      await goTo(page, 5);
      await page.waitForFunction(() =>
        /Step 0 of/.test(document.querySelector('.step-5').textContent),
      );
      assert.ok(requestedFiles.includes('0000.gz'));
      await goTo(page, 6);
      await page.waitForLoadState('networkidle');
      // The maps of the untrained models are drawn when the reader comes to them.
      await page.locator('.step-6 canvas').nth(1).waitFor();
      const shift = (await page.evaluate(() => globalThis.shifted)) - shiftBefore;
      assert.ok(shift < 0.1, `${shift} moved, at ${width}`);
      shifts.push(shift.toFixed(3));
      assert.deepEqual(page.troubles, []);
      await page.close();
    }
    return shifts.join(', ');
  },

  async 'the lab in the story trains in place, where Train is pressed before the page has an engine'(
    stage,
  ) {
    const page = await stage.open('why=6', {
      waits: false,
      // Holds the list of models, without which there is no engine.
      script: () => {
        const { fetch } = globalThis;
        const released = new Promise((done) => (globalThis.releaseModels = done));
        globalThis.fetch = async (...request) => {
          if (/index\.json/.test(request[0]?.url ?? request[0])) await released;
          return fetch(...request);
        };
      },
    });
    await page.locator('.step-6').evaluate((step) => step.scrollIntoView());
    await press(page, page.locator('.step-6 .train'), 'Enter');
    await page.waitForFunction(() => document.querySelector('.step-6 .train').disabled);
    assert.match(await text(page, '.step-6 .lab-step'), /^loading …/);
    await page.evaluate(() => globalThis.releaseModels());
    await page.waitForFunction(() =>
      /step 400 of 400/.test(document.querySelector('.step-6 .lab-step')?.textContent ?? ''),
    );
    await page.locator('.step-6 canvas').nth(1).waitFor();
    assert.deepEqual(page.troubles, []);
  },

  async 'the training in the story plays from step 0 for one head, and only the map changes'(
    stage,
  ) {
    for (const width of [1280, 390]) {
      const page = await stage.open('why=5', { width });
      await goTo(page, 5);
      await page.waitForFunction(() =>
        /Step 0 of/.test(document.querySelector('.step-5').textContent),
      );
      await page.evaluate(() => {
        const places = ['.step-words', '.heatmap', '.walk'].map(
          (selector) => `.step-5 ${selector}`,
        );
        const boxes = () =>
          places
            .flatMap((selector) => [...document.querySelectorAll(selector)])
            .map((element) =>
              Object.values(element.getBoundingClientRect().toJSON()).map(Math.round).join(),
            )
            .join(' ');
        const status = document.querySelector('.step-5 .answer + p');
        globalThis.seen = { first: boxes(), moved: [], said: [] };
        const readStatus = () => status.textContent.replace(/\s+/g, ' ').trim();
        const look = () => {
          if (boxes() !== globalThis.seen.first) globalThis.seen.moved.push(readStatus());
          requestAnimationFrame(look);
        };
        look();
        // A busy machine may draw fewer frames than the training has checkpoints.
        const listen = () => {
          if (globalThis.seen.said.at(-1) !== readStatus()) globalThis.seen.said.push(readStatus());
        };
        listen();
        const changes = { subtree: true, childList: true, characterData: true };
        new MutationObserver(listen).observe(status, changes);
      });
      await page.locator('.walk-play').click();
      await page.waitForFunction(
        () =>
          /After training/.test(document.querySelector('.step-5').textContent) &&
          /▶ *Play/.test(document.querySelector('.walk-play').textContent.replace(/\s+/g, ' ')),
      );
      const { said, moved } = await page.evaluate(() => globalThis.seen);
      assert.deepEqual(moved, [], `at ${width}`);
      assert.ok(said.length >= 10, said.join('\n'));
      for (const sentence of said)
        assert.match(sentence, /: head L1H3 gives <s> \d+% of its attention/);
      // At the end the two maps are not the same one twice.
      assert.deepEqual((await page.locator('.step-5 .which').allTextContents()).slice(0, 2), [
        'Before training',
        'After training',
      ]);
      assert.deepEqual(page.troubles, []);
      await page.close();
    }
  },

  async 'the published model generates without the first token, and a sentence says what its numbers support'(
    stage,
  ) {
    const page = await stage.open('why=1');
    await goTo(page, 3);
    await page.getByRole('button', { name: /^Try it with the small model/ }).click();
    await page.locator('.start-without').getByRole('button', { name: 'Put it back' }).waitFor();
    const table = page.locator('.start-without .without');
    assert.equal(await table.locator('tbody tr').count(), 4);
    const cells = await table.locator('.written').allTextContents();
    assert.ok(new Set(cells).size >= 3);
    for (const cell of cells) assert.ok(cell.startsWith('The old man sat'), cell);
    const sentence = await text(page, '.start-without [role=status]');
    const [, deleted, kept] = /is (\d+\.\d+) nats per token, against (\d+\.\d+)/.exec(sentence);
    const losses = await table.locator('td:last-child').allTextContents();
    assert.deepEqual([kept, deleted], losses.slice(0, 2));
    for (const [width, colorScheme] of [
      [1280, 'light'],
      [390, 'dark'],
    ]) {
      await page.setViewportSize({ width, height: 900 });
      await page.emulateMedia({ colorScheme });
      await staysWithin(page, width);
      assert.deepEqual(await violations(page), []);
    }
    await page.locator('.start-text textarea').fill('Attention is all you need.');
    await page.locator('.start-without').waitFor({ state: 'hidden' });
    assert.deepEqual(page.troubles, []);
  },

  ...inAllSizes(
    'the story',
    (stage) => stage.open('', { scheme: 'dark' }),
    async (page, { width, scheme }) => {
      for (const n of [1, 2, 3, 4, 5, 6]) {
        await goTo(page, n);
        await page.screenshot({ path: `${pictures}/story-${n}-${width}-${scheme}.png` });
      }
      await staysWithin(page, width);
      await page.setViewportSize({ width: Math.min(width, 320), height: 700 });
      await staysWithin(page, Math.min(width, 320));
      assert.deepEqual(await violations(page), []);
    },
  ),
};
