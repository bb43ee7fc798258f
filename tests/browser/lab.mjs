/** Tests the lab, where a reader trains two models. */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { mkdir, mkdtemp, readFile, readdir, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { unzipSync } from '../../web/node_modules/fflate/esm/index.mjs';
import {
  WATCHES_MESSAGES,
  ask,
  everyTab,
  inAllSizes,
  pictures,
  root,
  saveFrom,
  settled,
  staysWithin,
  text,
  violations,
} from './stage.mjs';

/** Settings of a small and quick training, for tests that do not look at the numbers. */
export const SMALL = 'width:16,length:12,batch:4,steps:40';
export const smallLab = (left = SMALL, right = `operation:relu,${SMALL}`) =>
  `room=lab&leftRun=${left}&rightRun=${right}`;

const button = (page, name) => page.getByRole('button', { name, exact: true });
/** Opens the fold with everything but the next step. */
export const openMore = (page) =>
  page.locator('.lab-more').evaluate((fold) => void (fold.open = true));
/** The button that trains; before the first step it skips the guess. */
export const trainButton = (page) =>
  page.getByRole('button', { name: /^(Skip the guess|Train|Continue)$/ });

async function enter(stage, hash, options = {}) {
  const page = await stage.open(hash, { ...options, waits: false });
  await page.waitForFunction(() => document.querySelectorAll('.lab-map canvas').length === 2);
  await waitUntilPaused(page);
  await openMore(page);
  return page;
}

/** Waits until both training runs are paused. */
export async function waitUntilPaused(page) {
  // The button comes with the room, which may not be drawn yet.
  await page.waitForFunction(() =>
    document.querySelector('.room-lab .train')?.matches(':not(:disabled, :empty)'),
  );
  await settled(page);
}

/** Reloads the page; the lab is ready once its models are loaded. */
async function reload(page) {
  await page.reload();
  await page.waitForFunction(() => {
    const said = document.querySelector('.lab-map') && document.querySelector('.lab-step');
    return said && !/loading/.test(said.textContent);
  });
  await waitUntilPaused(page);
  await openMore(page);
}

/** Resets both models, and waits until the page shows step 0: at first it still shows the old step. */
async function reset(page) {
  await button(page, 'Reset').click();
  await page.waitForFunction(() => document.querySelector('.lab-step strong').textContent === '0');
  await waitUntilPaused(page);
}

/** Lets the page press Pause after a step: a click from the test could come after the last step. */
const pauseAfter = (page, step) =>
  page.evaluate(
    (lastStep) =>
      new Promise((done) => {
        const bar = document.querySelector('.lab-steer .lab-buttons');
        new MutationObserver((_, observer) => {
          const trainButton = bar.querySelector('.train');
          const shownStep = Number(document.querySelector('.lab-step strong').textContent);
          if (shownStep <= lastStep || !/Pause/.test(trainButton?.textContent)) return;
          observer.disconnect();
          trainButton.click();
          done();
        }).observe(bar, { subtree: true, childList: true, characterData: true });
      }),
    step,
  );

const waitUntilEnded = (page) =>
  page.waitForFunction(
    () => /Train more/.test(document.querySelector('.room-lab .train').textContent),
    undefined,
    { timeout: 170_000 },
  );
const stepOf = async (page) => Number(await text(page, '.lab-step strong'));

async function savedJson(page) {
  const { bytes } = await saveFrom(page, page.locator('.lab-bar .save'), 'JSON');
  return JSON.parse(String(bytes));
}

/** Downloads the ZIP archive of a lab. Returns the name of the folder in it, and its files by name. */
async function savedModel(page, which) {
  const downloading = page.waitForEvent('download');
  await button(page, 'Save model')[which]().click();
  const download = await downloading;
  const entries = unzipSync(await readFile(await download.path()));
  const [name] = Object.keys(entries)[0].split('/');
  assert.equal(download.suggestedFilename(), `${name}.zip`);
  const files = Object.entries(entries).map(([path, bytes]) => [
    path.slice(name.length + 1),
    bytes,
  ]);
  return { name, files: Object.fromEntries(files) };
}

const cli = (...args) =>
  promisify(execFile)(process.execPath, [`${root}wasm/cli.js`, ...args], { cwd: root });

/** Asserts that every view that Explore offers draws something; returns their titles. */
async function inspect(page) {
  const titles = [];
  await everyTab(page, async (title) => {
    await page
      .locator('.stage > .main')
      .locator('svg, canvas, li, button.primary, .output')
      .first()
      .waitFor();
    titles.push(title.trim());
  });
  return titles;
}

/**
 * The last lines of
 *
 *     wasm/cli train --operation OPERATION --seed 1 --steps 200 --json --every 1
 */
const LAST_ENTRIES = {
  softmax: {
    loss_triggers: 1.230185,
    loss_elsewhere: 2.727684,
    first_elsewhere: 0.4422374,
    first_triggers: 0.0002442555,
    value_ratio: 0.3127725,
    hidden_ratio: 1.068942,
  },
  sigmoid_log_n: {
    loss_triggers: 1.437034,
    loss_elsewhere: 2.721045,
    first_elsewhere: 0.02936568,
    first_triggers: 0.1094035,
    value_ratio: 0.595103,
    hidden_ratio: 0.9050748,
  },
};

async function compareModels(stage) {
  const page = await enter(
    stage,
    'room=lab&leftRun=steps:200&rightRun=operation:sigmoid_log_n,steps:200',
  );
  await page.setViewportSize({ width: 1280, height: 800 });
  await page.screenshot({ path: `${pictures}/lab-start.png` });
  await trainButton(page).click();
  await page.waitForFunction(
    () => Number(document.querySelector('.lab-step strong').textContent) > 90,
    undefined,
    { timeout: 90_000 },
  );
  await page.screenshot({ path: `${pictures}/lab-middle.png` });
  await waitUntilEnded(page);
  await settled(page);
  await page.screenshot({ path: `${pictures}/lab-end.png` });
  const { labs } = await savedJson(page);
  labs.forEach(({ settings, log }) => {
    const expected = LAST_ENTRIES[settings.operation];
    assert.equal(log.length, 200);
    assert.deepEqual(
      Object.fromEntries(Object.keys(expected).map((name) => [name, log.at(-1)[name]])),
      expected,
    );
  });
  assert.match(await text(page, 'h1'), /^Only softmax has a sink: it looks at <s> when /);
  assert.match(
    await text(page, '.lab-guess'),
    /Both models have partly learned to copy: .* blind guess gives it 2%/,
  );
  assert.match(
    await text(page, '.lab-map[data-side=left] .caption'),
    /^\s*softmax \d\d% on <s> in this text; tokens with nothing to copy spend 100% in total/,
  );
  const sentence = (await text(page, '.lab-numbers')).trim();
  assert.match(
    sentence,
    /^Softmax has a sink; sigmoid has none\. Softmax gives <s> \d\d% of its attention/,
    sentence,
  );
  assert.match(sentence, /Sigmoid gives <s> a weight of \d+%\. /, sentence);
  assert.match(
    sentence,
    /Loss above the best possible: 0\.\d\d and 0\.\d\d nats with nothing to copy/,
    sentence,
  );
  assert.deepEqual(page.troubles, []);
}

export const lab = {
  'the lab: a sink comes in the softmax model and none in its sigmoid twin, digit for digit':
    compareModels,

  async 'the lab trains, pauses, steps and resets, also by keyboard'(stage) {
    const page = await enter(stage, smallLab());
    assert.equal(await stepOf(page), 0);
    await trainButton(page).focus();
    await page.keyboard.press('s');
    await page.waitForFunction(
      () => document.querySelector('.lab-step strong').textContent === '1',
    );
    await waitUntilPaused(page);
    await button(page, 'One step').click();
    await page.waitForFunction(
      () => document.querySelector('.lab-step strong').textContent === '2',
    );
    await waitUntilPaused(page);
    await page.selectOption('.lab-buttons select', '2');
    await trainButton(page).focus();
    await page.keyboard.press('t');
    await page.waitForFunction(
      () => Number(document.querySelector('.lab-step strong').textContent) > 4,
    );
    await page.keyboard.press('t');
    await trainButton(page).waitFor();
    const at = await stepOf(page);
    assert.ok(at > 4 && at < 40, `${at}`);
    await page.waitForTimeout(1200);
    assert.equal(await stepOf(page), at, 'it is paused');
    await page.selectOption('.lab-buttons select', '0');
    await trainButton(page).focus();
    await page.keyboard.press('r');
    await page.waitForFunction(
      () => document.querySelector('.lab-step strong').textContent === '0',
    );
    await waitUntilPaused(page);
    await trainButton(page).click();
    await waitUntilEnded(page);
    assert.equal(await stepOf(page), 40);
    const firstRun = await savedJson(page);
    await reset(page);
    await trainButton(page).click();
    await waitUntilEnded(page);
    assert.deepEqual(
      (await savedJson(page)).labs,
      firstRun.labs,
      'the same recipe, the same digits',
    );
    const { bytes } = await saveFrom(page, page.locator('.lab-bar .save'), 'CSV');
    assert.equal(String(bytes).match(/^relu[^,]*,/gim).length, 40);
    const picture = await saveFrom(page, page.locator('.lab-bar .save'), 'SVG');
    assert.match(String(picture.bytes), /<title>Lab: softmax after 40 steps \| /);
    assert.match(String(picture.bytes), /<g [^>]*scale\([^]*<path/);
    assert.match(
      await page.evaluate(() => location.hash),
      /leftRun=width:16,length:12,batch:4,steps:40/,
    );
    assert.deepEqual(page.troubles, []);
  },

  async 'two workers share a lab if there are enough cores, with the numbers of one worker'(stage) {
    const logs = [];
    for (const cores of [2, 4]) {
      const script = `Object.defineProperty(navigator, 'hardwareConcurrency', { value: ${cores} });
        const { Worker } = globalThis;
        globalThis.started = 0;
        globalThis.Worker = class extends Worker {
          constructor(...args) {
            super(...args);
            globalThis.started++;
          }
        };`;
      const page = await enter(stage, smallLab(), { script });
      await trainButton(page).click();
      await waitUntilEnded(page);
      const { labs } = await savedJson(page);
      logs.push([labs, await page.evaluate(() => globalThis.started)]);
      assert.deepEqual(page.troubles, []);
      await page.context().close();
    }
    const [[narrowLabs, fewWorkers], [wideLabs, manyWorkers]] = logs;
    assert.deepEqual(wideLabs, narrowLabs);
    assert.equal(manyWorkers, fewWorkers + 2);
  },

  async 'a lab model opens in Explore, and the lab keeps its state'(stage) {
    const changes = 'bias_key:head,gate:output_element,layers:2,heads:2';
    const page = await enter(stage, smallLab(SMALL, `operation:relu,${changes},${SMALL}`));
    await trainButton(page).click();
    await waitUntilEnded(page);
    await button(page, 'Open in Explore').last().click();
    await page.waitForSelector('[data-room="explore"] [data-view="attention"] canvas');
    await settled(page);
    const titlesWithBias = await inspect(page);
    await page.getByRole('link', { name: 'Lab', exact: true }).click();
    await page.waitForFunction(() => document.querySelectorAll('.lab-map canvas').length === 2);
    await openMore(page);
    await button(page, 'Open in Explore').first().click();
    await page.waitForSelector('[data-room="explore"] .stage > .main .cell-body');
    await settled(page);
    assert.match(await text(page, '.subject-list'), /softmax after 40 steps/);
    const titles = await inspect(page);
    assert.ok(titles.length >= 11, `${titles}`);
    assert.deepEqual(
      titlesWithBias.filter((title) => !titles.includes(title)),
      // Without a bias key “Query and key” is the only tab of its question, and has no button.
      ['Row sums', 'Query and key', 'Bias key', 'Gate'],
    );
    assert.equal(await page.locator('.chip').count(), 12);
    assert.equal((await page.locator('.chip').first().textContent()).trim(), '<s>');
    // No link carries an edit of a model that has no address, but Back undoes it, and then returns to the lab.
    await ask(page, 'What if');
    await page.locator('.hand').getByRole('link', { name: 'Hide the first token' }).click();
    await page.locator('.hand').getByRole('link', { name: 'Undo first token hidden' }).waitFor();
    await settled(page);
    await page.goBack();
    await page.locator('.hand').getByRole('link', { name: 'Hide the first token' }).waitFor();
    await page.waitForSelector('.view-change', { state: 'hidden' });
    while ((await page.evaluate(() => location.hash)).includes('room=explore')) await page.goBack();
    await page.waitForFunction(() => document.querySelectorAll('.lab-map canvas').length === 2);
    await page.waitForFunction(() => document.querySelectorAll('.lab-map canvas').length === 2);
    assert.equal(await stepOf(page), 40);
    await openMore(page);
    assert.match(Object.keys((await savedModel(page, 'last')).files).join(), /config\.json,model/);
    assert.deepEqual(page.troubles, []);
  },

  async 'the command next to a lab prints its numbers, and its saved model is a folder that the command line trains again to the same bytes'(
    stage,
  ) {
    const size = 'length:16,batch:2,steps:3';
    const folder = await mkdtemp(join(tmpdir(), 'sinkscope-'));
    try {
      for (const [i, hash] of [
        smallLab(SMALL, `operation:relu,first:any,seed:4,triggers:3,layers:2,${SMALL}`),
        smallLab(
          `from:softmax,at:1000,${size}`,
          `from:softmax,operation:sigmoid_log_n,first:any,planted:0.5,${size}`,
        ),
      ].entries()) {
        const page = await enter(stage, hash);
        await trainButton(page).click();
        await waitUntilEnded(page);
        const { labs } = await savedJson(page);
        const commands = await page.$$eval('.lab-set .copy-command', (all) =>
          all.map((copyButton) => copyButton.title),
        );
        assert.equal(commands.length, 2);
        for (const [n, command] of commands.entries()) {
          const args = command.replace(/^sinkscope /, '').split(' ');
          const lines = (await cli(...args, '--every', '1')).stdout.trim().split('\n');
          // The last line has the measurements before the next step.
          assert.deepEqual(lines.slice(0, -1).map(JSON.parse), labs[n].log, command);
        }
        assert.deepEqual(page.troubles, []);
        for (const which of ['first', 'last']) {
          const { name, files } = await savedModel(page, which);
          const modelFolder = join(folder, name);
          await mkdir(modelFolder);
          for (const [path, bytes] of Object.entries(files))
            await writeFile(join(modelFolder, path), bytes);
          const repeatFolder = `${modelFolder}-again`;
          await cli('train', '--recipe', modelFolder, '--out', repeatFolder);
          assert.deepEqual((await readdir(repeatFolder)).sort(), Object.keys(files).sort());
          const weights = await readFile(join(repeatFolder, 'model.safetensors'));
          assert.ok(weights.equals(files['model.safetensors']), `${name}: the same bytes`);
          const text = join(folder, 'text.txt');
          await writeFile(
            text,
            i ? 'Once there was a king. '.repeat(9) : 'abcdefghijklmnop'.repeat(9),
          );
          const textOptions = ['--text-file', text, '--tokens', '12', '--sequences', '2'];
          assert.match(
            (await cli('measure', modelFolder, ...textOptions)).stdout,
            /measured over 2 sequences/,
          );
        }
        await page.context().close();
      }
    } finally {
      await rm(folder, { recursive: true });
    }
  },

  async 'training continues after a reload to the numbers of an uninterrupted run'(stage) {
    const size = 'width:32,length:24,batch:16,steps:250';
    const hash = smallLab(size, `operation:relu,${size}`);
    const page = await enter(stage, hash, { script: WATCHES_MESSAGES });
    await trainButton(page).click();
    await waitUntilEnded(page);
    const uninterrupted = await savedJson(page);
    await reset(page);
    const pausing = pauseAfter(page, 9);
    await trainButton(page).click();
    await pausing;
    await trainButton(page).waitFor();
    const at = await stepOf(page);
    await reload(page);
    assert.equal(await stepOf(page), at);
    await page.waitForFunction(
      (words) => globalThis.messagesSeen.join().includes(words),
      `restored at step ${at}.`,
    );
    await button(page, 'Continue').click();
    await waitUntilEnded(page);
    assert.deepEqual((await savedJson(page)).labs, uninterrupted.labs);
    await reset(page);
    await reload(page);
    assert.equal(await stepOf(page), 0);
    assert.deepEqual(page.troubles, []);
    // Saved bytes that this program did not write must not open as a training.
    await page.evaluate(async () => {
      const open = indexedDB.open('keyval-store');
      const db = await new Promise((done) => (open.onsuccess = () => done(open.result)));
      const store = db.transaction('keyval', 'readwrite').objectStore('keyval');
      const pairs = store.get('lab-pairs');
      const [pair] = await new Promise((done) => (pairs.onsuccess = () => done(pairs.result)));
      store.put({ step: 3, log: [1, 2, 3], state: new Uint8Array(4) }, `lab-0 ${pair}`);
      store.put('nonsense', `lab-1 ${pair}`);
      await new Promise((done) => (store.transaction.oncomplete = done));
      db.close();
    });
    await reload(page);
    assert.equal(await stepOf(page), 0);
    assert.deepEqual(page.troubles, []);
  },

  async 'a hidden tab pauses and says so; a worker that ends leaves its last checkpoint'(stage) {
    const script = `${WATCHES_MESSAGES}
      globalThis.workers = [];
      const { Worker } = globalThis;
      globalThis.Worker = class extends Worker {
        constructor(...args) {
          super(...args);
          globalThis.workers.push(this);
        }
      };`;
    // The training must not end before the worker does.
    const slow = 'width:32,length:32,batch:16,steps:20000';
    const page = await enter(stage, smallLab(slow, `operation:relu,${slow}`), { script });
    const setHidden = (hidden) =>
      page.evaluate((isHidden) => {
        Object.defineProperty(document, 'hidden', { value: isHidden, configurable: true });
        document.dispatchEvent(new Event('visibilitychange'));
      }, hidden);
    await trainButton(page).click();
    await page.waitForFunction(
      () => Number(document.querySelector('.lab-step strong').textContent) > 4,
    );
    await setHidden(true);
    await trainButton(page).waitFor();
    const at = await stepOf(page);
    await setHidden(false);
    await page.waitForFunction(
      (n) => Number(document.querySelector('.lab-step strong').textContent) > n,
      at,
    );
    await page.waitForFunction(() =>
      /Training paused while this tab was hidden/.test(globalThis.messagesSeen.join()),
    );
    // The lab saves a checkpoint with the first picture after three seconds.
    const seconds = (line) => Number(line.match(/([\d.]+) s/)[1]);
    const startSeconds = seconds(await text(page, '.lab-step'));
    await page.waitForFunction(
      (until) =>
        Number(document.querySelector('.lab-step').textContent.match(/([\d.]+)\s+s/)[1]) > until,
      startSeconds + 4,
      { timeout: 90_000 },
    );
    await page.evaluate(() =>
      globalThis.workers.forEach((worker) =>
        worker.dispatchEvent(new ErrorEvent('error', { message: 'gone' })),
      ),
    );
    const continueButtons = page.getByRole('button', { name: /^Continue from step \d+$/ });
    await continueButtons.first().waitFor();
    const savedStep = Number((await continueButtons.first().textContent()).match(/\d+/)[0]);
    assert.ok(savedStep > 0);
    await continueButtons.first().click();
    await page.waitForFunction(() => document.querySelectorAll('.lab-under .trouble').length === 1);
    const lostSide = await page
      .locator('.lab-under .trouble')
      .evaluate((trouble) => (trouble.closest('.lab-map').dataset.side === 'left' ? 0 : 1));
    assert.ok(await button(page, 'Open in Explore').nth(lostSide).isDisabled());
    assert.deepEqual(page.troubles, []);
  },

  async 'fine-tuning states its cost first, and learns a text of the reader'(stage) {
    const size = 'length:16,batch:2,steps:4';
    const page = await enter(
      stage,
      smallLab(`from:softmax,${size}`, `from:softmax,operation:sigmoid_log_n,first:any,${size}`),
    );
    await page.waitForFunction(() => /to go/.test(document.querySelector('.lab-step').textContent));
    assert.match(await text(page, '.lab-step'), /step 0 of 4 · about \d+ s to go/);
    assert.equal(await page.locator('.lab-map .caption').first().locator('strong').count(), 1);
    assert.match(
      await text(page, '.lab-bar .how'),
      /public domain.*20,\d\d\d tokens. 4 steps read each/s,
    );
    await trainButton(page).click();
    await waitUntilEnded(page);
    const { labs } = await savedJson(page);
    assert.deepEqual(
      labs.map(({ log }) => log.length),
      [4, 4],
    );
    // Both labs have the same weights. Only one has its start token, and so the sink.
    assert.ok(labs[0].log[0].first_elsewhere > 0.4 && labs[0].log[0].value_ratio < 0.5);
    assert.ok(labs[1].log[0].value_ratio > 0.6);
    const sentence = await text(page, '.lab-numbers');
    assert.match(
      sentence,
      /Softmax model, .*: attention of the strongest head on the first token \(even share: \d+%\) \d+% → \d+%/,
      sentence,
    );
    await page.locator('.lab-models select').first().selectOption('2');
    await page.waitForFunction(() => /leftRun=from:softmax,.*head:2/.test(location.hash));
    await settled(page);
    assert.match(await text(page, '.lab-map .caption'), /\d% on <s>.* head L0H2/s);
    assert.equal(await stepOf(page), 4);
    assert.deepEqual(await violations(page), []);
    await page.screenshot({ path: `${pictures}/lab-onward.png` });
    const width = page.viewportSize().width;
    await page.setViewportSize({ width: 390, height: 844 });
    await staysWithin(page, 390);
    await page.setViewportSize({ width, height: 800 });
    const fileField = page.locator('.lab-choice input[type=file]');
    await fileField.setInputFiles({
      name: 'own.txt',
      mimeType: 'text/plain',
      buffer: Buffer.from('Oh!'),
    });
    await page.waitForFunction(() =>
      /text: expected at least 16 tokens for sequences of 16, found [123]\b/.test(
        document.querySelector('.lab-under .trouble')?.textContent,
      ),
    );
    const longText = 'The cat sat on the mat and looked at the king. '.repeat(20);
    await fileField.setInputFiles({
      name: 'own.txt',
      mimeType: 'text/plain',
      buffer: Buffer.from(longText),
    });
    await waitUntilPaused(page);
    await trainButton(page).click();
    await waitUntilEnded(page);
    assert.match(await text(page, '.lab-bar .how'), /your text own\.txt: \d\d\d tokens/);
    await button(page, 'Open in Explore').last().click();
    await page.waitForSelector('[data-room="explore"] [data-view="attention"] canvas');
    await settled(page);
    assert.match(await text(page, '.subject-list'), /sigmoid.* after 4 steps/i);
    assert.deepEqual(page.troubles, []);
    await page.context().close();
    const refusedPage = await stage.open(smallLab('from:experts', 'from:softmax,text:own'), {
      waits: false,
    });
    await refusedPage.waitForFunction(
      () => document.querySelectorAll('.lab-under .trouble').length === 2,
    );
    const troubles = await refusedPage.locator('.lab-under .trouble').allTextContents();
    assert.match(troubles[0], /expected a model that can be trained here, found one with experts/);
    assert.match(troubles[1], /Links do not contain your text/);
    assert.deepEqual(refusedPage.troubles, []);
  },

  ...inAllSizes(
    'the room lab',
    async (stage) => {
      const page = await enter(stage, smallLab(), { scheme: 'dark' });
      await trainButton(page).click();
      await waitUntilEnded(page);
      return page;
    },
    async (page, { width, height, scheme }) => {
      await page.evaluate(() => scrollTo(0, 0));
      await page.screenshot({ path: `${pictures}/lab-${width}-${scheme}.png` });
      const bottom = await page.evaluate(
        () => document.querySelector('.lab-map .map-place').getBoundingClientRect().bottom,
      );
      assert.ok(bottom < height, 'the maps are seen without scrolling');
      await staysWithin(page, width);
      assert.deepEqual(await violations(page), []);
      const more = page.locator('.lab-more > summary');
      await more.click();
      assert.deepEqual(await violations(page), []);
      await more.click();
      await page.setViewportSize({ width: Math.min(width, 320), height: 700 });
      await staysWithin(page, Math.min(width, 320));
    },
  ),
};
