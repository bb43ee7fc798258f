/** The training view: its runs, its scrubber, and what the other views show at a step. */
import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { createEngine, openTimeline, openTokenizer } from '../../wasm/index.js';
import {
  figure,
  inAllSizes,
  pictures,
  root,
  saveFrom,
  settled,
  staysWithin,
  text,
  violations,
} from './stage.mjs';
const zoo = new URL('models/zoo/', `file://${root}`);
const indexOf = async (id) =>
  JSON.parse(await readFile(new URL(`${id}/timeline/index.json`, zoo), 'utf8'));
const sinkAt = (index, step) => index.checkpoints.find((one) => one.step === step).measured.sink_1;

/** The page with its training view drawn. */
async function openTraining(stage, hash = '', options = {}) {
  const page = await stage.open(hash, options);
  await page.locator('#training').scrollIntoViewIfNeeded();
  await page.waitForSelector('#training .walk-row_mass svg');
  await settled(page);
  return page;
}

const slider = (page) => page.locator('#training input[type=range]');

/** Presses a key on the slider, and waits until the step is drawn on both sides. */
async function press(page, ...keys) {
  await slider(page).focus();
  for (const key of keys) await page.keyboard.press(key);
  await page.waitForFunction(() => !/…/.test(document.querySelector('.walk-step').textContent));
  await settled(page);
}

/** Sink_1 of a text at a step, by the package, outside the browser; as the page writes it. */
async function sinkInNode(id, step, prompt) {
  const timeline = await openTimeline(new URL(`${id}/timeline/index.json`, zoo));
  const engine = await createEngine({ worker: false });
  const model = await engine.open(await timeline.open(step));
  const json = await readFile(new URL(`${id}/tokenizer.json`, zoo), 'utf8');
  const ids = openTokenizer(json).encode(prompt, { bos: true }).slice(0, 64);
  const run = await model.run(ids.map((token) => token.id));
  const sink = await run.metric('sink_ratio', { eps: 0.3 });
  await engine.close();
  return `${(100 * sink.data[0]).toFixed(1)} %`;
}

const save = (page, kind) => saveFrom(page, page.locator('#training .save'), kind);

/** The steps of training, by the models that each side says it shows. */
const shownSteps = (page) =>
  Promise.all(
    ['a', 'b'].map(async (side) => {
      const said = await text(page, `#sinks .side-${side} .conditions`);
      return Number(/at step ([\d,]+) of/.exec(said)?.[1].replaceAll(',', '') ?? NaN);
    }),
  );

async function look(stage, { width, scheme }) {
  const page = await openTraining(stage, 'step=2000', { width, scheme });
  await staysWithin(page, width);
  const path = `${pictures}/training-${width}-${scheme}.png`;
  await page.screenshot({ path, fullPage: true });
  assert.deepEqual(await violations(page), []);
  // Far from its place, the scrubber stands at the foot of the window.
  await page.locator('#norms').scrollIntoViewIfNeeded();
  await page.waitForSelector('.walk-controls.afloat');
  await page.screenshot({ path: path.replace('.png', '-afloat.png') });
  assert.deepEqual(await violations(page), []);
  assert.deepEqual(page.troubles, []);
}

export const timeline = {
  async 'training: nothing of it is fetched before the reader comes near'(stage) {
    const page = await stage.open();
    const asked = () =>
      page.evaluate(() => performance.getEntriesByType('resource').map(({ name }) => name));
    const isOfTraining = (url) => /timeline|panel-/.test(url);
    assert.deepEqual((await asked()).filter(isOfTraining), []);
    await page.locator('#training').scrollIntoViewIfNeeded();
    await page.waitForSelector('#training .walk-row_mass svg');
    const now = await asked();
    assert.ok(now.some((url) => url.endsWith('softmax/timeline/index.json')));
    assert.ok(!now.some((url) => url.endsWith('.gz')), 'no weights before a step is wanted');
    assert.deepEqual(page.troubles, []);
  },

  async 'training: the sink of the softmax twin emerges, and none in its sigmoid twin'(stage) {
    const [softmax, sigmoid] = [await indexOf('softmax'), await indexOf('sigmoid')];
    const last = softmax.checkpoints.at(-1).step;
    assert.equal(sinkAt(softmax, 0), 0);
    assert.ok(sinkAt(softmax, last) > 50);
    assert.ok(sigmoid.checkpoints.every(({ measured }) => measured.sink_1 < 10));
    const page = await openTraining(stage, 'n=20&step=0');
    const seen = [];
    for (const keys of [[], ['End']]) {
      await press(page, ...keys);
      seen.push([await figure(page, 'a'), await figure(page, 'b')].map(parseFloat));
    }
    assert.deepEqual(seen[0], [0, 0]);
    assert.ok(seen[1][0] > 40 && seen[1][1] < 10, `${seen[1]}`);
    assert.deepEqual(page.troubles, []);
    return `step 0: ${seen[0].join(' and ')} %, step ${last}: ${seen[1].join(' and ')} %`;
  },

  async 'training: keys move the slider, and every view shows that step'(stage) {
    const page = await openTraining(stage);
    const prompt = await page.inputValue('textarea');
    const steps = (await indexOf('softmax')).checkpoints.map(({ step }) => step);
    const times = steps.indexOf(1400);
    await press(page, 'Home', ...Array(times).fill('ArrowRight'));
    assert.deepEqual(await shownSteps(page), [1400, 1400]);
    await page.waitForFunction(() => /step=1400/.test(location.hash));
    for (const [side, id] of [
      ['a', 'softmax'],
      ['b', 'sigmoid'],
    ]) {
      const shown = (await figure(page, side)).replace('*', '');
      assert.equal(shown, await sinkInNode(id, 1400, prompt), id);
    }
    for (const view of ['attention', 'scores', 'heads', 'geometry', 'norms', 'mass', 'next'])
      assert.match(await text(page, `#${view} .side-a .stamp`), /at step 1,400 of 4,000/, view);
    assert.match(await text(page, '#finding'), /softmax twin at step 1,400/);
    assert.match(await text(page, '#side-a .class'), /MEASURED.*trained here.*bits a weight/s);
    await press(page, 'End');
    assert.deepEqual(await shownSteps(page), [steps.at(-1), steps.at(-1)]);
    await page.click('.walk-trained');
    await settled(page);
    assert.doesNotMatch(await text(page, '#sinks .side-a .conditions'), /at step/);
    assert.deepEqual(page.troubles, []);
  },

  async 'training: it plays, waits for what it shows, pauses, and begins anew'(stage) {
    const page = await openTraining(stage);
    const seen = [];
    await page.exposeFunction('noted', (step) => seen.push(step));
    await page.evaluate(() => {
      const of = (side) => document.querySelector(`#sinks .side-${side} .conditions`).textContent;
      const stepOf = (said) => /at step ([\d,]+) of/.exec(said)?.[1];
      new MutationObserver(() => {
        const [a, b] = ['a', 'b'].map((side) => stepOf(of(side)));
        if (a && a === b) globalThis.noted(a);
      }).observe(document.querySelector('#sinks'), {
        subtree: true,
        childList: true,
        characterData: true,
      });
    });
    const play = page.locator('.walk-play');
    await play.focus();
    await page.keyboard.press('Space');
    assert.match(await play.textContent(), /Pause/);
    await page.waitForFunction(() =>
      /at step 200 of/.test(document.querySelector('#sinks .side-b .conditions').textContent),
    );
    await page.keyboard.press('Space');
    await settled(page);
    assert.match(await play.textContent(), /Play/);
    const there = await shownSteps(page);
    await page.waitForTimeout(1200);
    assert.deepEqual(await shownSteps(page), there);
    const order = [...new Set(seen)];
    assert.deepEqual(order.slice(0, 5), ['0', '10', '30', '100', '200'], 'each one was drawn');
    assert.deepEqual(page.troubles, []);
  },

  async 'training: who drags fast gets the last step, and no error'(stage) {
    const page = await openTraining(stage, 'step=0');
    const count = Number(await slider(page).getAttribute('max'));
    for (let i = 1; i <= count; i++) {
      await slider(page).fill(String(i));
      await page.waitForTimeout(20);
    }
    await press(page, 'ArrowLeft', 'Home', 'ArrowRight', 'ArrowRight');
    assert.deepEqual(await shownSteps(page), [30, 30]);
    assert.equal(await text(page, '#messages'), '');
    // What was given up counts as failed in the browser's own books.
    assert.deepEqual(
      page.troubles.filter((trouble) => !/\.gz$/.test(trouble)),
      [],
    );
  },

  async 'training: a damaged checkpoint is named, and the last good one stays'(stage) {
    const page = await openTraining(stage, 'step=10');
    const bytes = await readFile(new URL('softmax/timeline/0030.gz', zoo));
    bytes[1000] ^= 1;
    await page.route('**/softmax/timeline/0030.gz', (route) => route.fulfill({ body: bytes }));
    await slider(page).focus();
    await page.keyboard.press('ArrowRight');
    await page.waitForFunction(() =>
      /timeline\/0030\.gz: expected sha256/.test(document.querySelector('#messages').textContent),
    );
    assert.equal((await shownSteps(page))[0], 10);
    assert.match(await text(page, '#messages'), /The last good result is shown/);
    await page.unroute('**/softmax/timeline/0030.gz');
    await press(page, 'ArrowLeft', 'ArrowRight');
    assert.equal((await shownSteps(page))[0], 30);
    assert.equal(await text(page, '#messages'), '');
  },

  async 'training: a link names any step, and a model without checkpoints says so'(stage) {
    const page = await openTraining(stage, 'step=1399&b=softmax1');
    assert.deepEqual(await shownSteps(page), [1400, NaN]);
    assert.match(await text(page, '#side-b .class'), /no checkpoints of it are kept here/);
    await page.evaluate(() => (location.hash = '#a=softmax1&b=&step=100'));
    await page.waitForSelector('#training .walk-controls p');
    await page.click('text=Show the twins');
    await page.waitForSelector('#training input[type=range]');
    await settled(page);
    assert.deepEqual(await shownSteps(page), [100, 100]);
    assert.deepEqual(page.troubles, []);
  },

  async 'training: its numbers and its picture are saved'(stage) {
    const page = await openTraining(stage, 'step=1000');
    const json = JSON.parse((await save(page, 'JSON')).bytes);
    assert.deepEqual(
      [json.figure, json.class, json.eps, json.T],
      ['training', 'MEASURED', 0.3, 64],
    );
    const index = await indexOf('softmax');
    const run = json.runs.find(({ id }) => id === 'softmax');
    assert.equal(run.checkpoints.length, index.checkpoints.length);
    assert.equal(run.checkpoints.at(-1).stored.sink_1, index.checkpoints.at(-1).stored.sink_1);
    assert.equal(run.log.length, index.log.length);
    const csv = (await save(page, 'CSV')).bytes.toString();
    const line = `${run.title},1,measured,4000,sink_1,${sinkAt(index, 4000)}`;
    assert.ok(csv.split('\n').includes(line), line);
    const svg = (await save(page, 'SVG')).bytes.toString();
    assert.ok(/step 1,000.*MEASURED on weights/s.test(svg), 'its step and its class');
    assert.ok(!/var\(--|class=|<style/.test(svg), 'nothing of the page is needed');
    const png = (await save(page, 'PNG')).bytes;
    assert.deepEqual([...png.subarray(0, 4)], [0x89, 0x50, 0x4e, 0x47]);
    const other = await page.context().newPage();
    await other.setContent('<img>');
    await other.evaluate((source) => {
      const image = document.querySelector('img');
      image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(source)}`;
      return image.decode();
    }, svg);
    await other.locator('img').screenshot({ path: `${pictures}/export-training.png` });
    assert.deepEqual(page.troubles, []);
  },

  async 'training: it can be embedded, with the sink map above it'(stage) {
    const options = { file: 'embed.html', width: 720 };
    const page = await openTraining(stage, 'view=training&step=800&hide=prompt,numbers', options);
    const shown = await page.locator('.view').evaluateAll((all) => all.map((one) => one.id));
    assert.deepEqual(shown, ['sinks', 'training']);
    assert.deepEqual(await shownSteps(page), [800, 800]);
    assert.equal(await text(page, '#messages'), '');
    const other = await stage.open('view=attention&step=800', options);
    assert.match(await text(other, '#attention .side-b .stamp'), /at step 800 of/);
    assert.deepEqual([...page.troubles, ...other.troubles], []);
  },

  ...inAllSizes('training', look),
};
