/** The unmasking view: what it shows of a masked diffusion model, and what the other views leave out. */
import assert from 'node:assert/strict';
import { unmask } from '../../wasm/index.js';
import { inNode, openFromDisk } from './disk.mjs';
import {
  inAllSizes,
  pictures,
  saveFrom,
  settled,
  staysWithin,
  text,
  violations,
} from './stage.mjs';
const TEXT = 'The king went to the sea.';
const SETTING = `prompt=${encodeURIComponent(TEXT)}&masked=9&denoise=4`;

async function openMasked(stage, hash = SETTING, options = {}) {
  const page = await stage.open(hash, options);
  await openFromDisk(page, 'diffusion');
  await page.waitForSelector('#unmasking .unmask-controls button');
  return page;
}

const view = (page) => page.locator('#unmasking');
const readable = (piece) => piece.replaceAll(' ', '\u00a0').replaceAll('\n', '↵');

async function press(page) {
  await view(page).getByRole('button', { name: 'Unmask' }).click();
  await page.waitForFunction(() => document.querySelector('.unmask-words')?.textContent);
  await page.waitForFunction(() => !('busy' in document.querySelector('#unmasking').dataset));
}

/** The same steps by the package, outside the browser. */
const stepsInNode = () =>
  inNode('diffusion', TEXT, async ({ ids, model, tokenizer }) => {
    const tokens = [...ids, ...Array(9).fill(model.architecture.mask_token)];
    const steps = await unmask(model, tokens, { steps: 4, never: tokenizer.special });
    return { steps, tokenizer, kept: ids.length };
  });

const saved = (page, kind) => saveFrom(page, view(page).locator('.save'), kind);

async function looks(stage, { width, scheme }) {
  const page = await openMasked(stage, '', { width, scheme });
  await press(page);
  await staysWithin(page, width);
  await view(page).scrollIntoViewIfNeeded();
  await view(page).screenshot({ path: `${pictures}/unmasking-${width}-${scheme}.png` });
  assert.deepEqual(await violations(page), []);
  assert.deepEqual(page.troubles, []);
}

export const unmasking = {
  async 'unmasking: the steps are those of the package in Node, and the sentence counts them'(
    stage,
  ) {
    const page = await openMasked(stage);
    await press(page);
    const { steps, tokenizer, kept } = await stepsInNode();
    const moves = steps.filter(({ sink }, i) => i && sink.place !== steps[i - 1].sink.place).length;
    const words = await text(page, '.unmask-words');
    const count = moves === 1 ? 'once' : `${moves} times`;
    assert.match(words, moves ? new RegExp(`moves ${count} in 4 steps`) : /stays at .* in 4 steps/);
    const made = JSON.parse((await saved(page, 'JSON')).bytes);
    assert.equal(made.figure, 'unmasking');
    assert.deepEqual(
      made.tokens.map(({ id }) => id),
      steps[3].tokens,
    );
    assert.equal(made.T, kept + 9);
    const quantity = (name) => made.quantities.find((one) => one.name === name);
    assert.deepEqual(
      quantity('alpha').data,
      steps.flatMap(({ alpha }) => [...alpha.data]),
    );
    assert.deepEqual(
      quantity('strongest_place').data,
      steps.map(({ sink }) => sink.place + 1),
    );
    const filledIn = quantity('filled_in_step').data;
    steps.forEach(({ filled }, s) => {
      for (const { place } of filled) assert.equal(filledIn[place], s + 1);
    });
    const shown = await page.locator('.unmask-text span').allTextContents();
    const wanted = steps[3].tokens.map((id) => readable(tokenizer.piece(id)));
    assert.deepEqual(shown, wanted);
    assert.deepEqual(page.troubles, []);
    return words;
  },

  async 'unmasking: the slider and the map walk through the steps, by the keyboard too'(stage) {
    const page = await openMasked(stage);
    await press(page);
    const hidden = () => page.locator('.unmask-text .hidden').count();
    assert.equal(await hidden(), 0);
    const slider = page.getByLabel('Step of unmasking');
    await slider.focus();
    await page.keyboard.press('Home');
    assert.equal(await slider.getAttribute('aria-valuetext'), 'step 1 of 4');
    // ceil(9 / 4) are filled in the first step.
    assert.deepEqual([await hidden(), await page.locator('.unmask-text .now').count()], [6, 3]);
    assert.equal(await page.locator('.unmask-text .is-sink').count(), 1);
    assert.equal(await page.locator('#unmasking .mark.outlined').count(), 4);
    await page.locator('#unmasking .heatmap').focus();
    await page.keyboard.press('ArrowDown');
    assert.match(await text(page, '#unmasking .readout'), /^step 2, place 1 “<s>”: mean α = \d/);
    await page.keyboard.press('Enter');
    assert.equal(await slider.getAttribute('aria-valuetext'), 'step 2 of 4');
  },

  async 'unmasking: other numbers are in the link, and what was made of the old ones goes'(stage) {
    const page = await openMasked(stage);
    await press(page);
    const field = view(page).getByLabel('hidden places');
    await field.fill('999');
    await field.press('Enter');
    assert.equal(await field.inputValue(), '127');
    assert.equal(await view(page).locator('.unmask-picture').isVisible(), false);
    await page.waitForFunction(() => /masked=127/.test(location.hash));
    await press(page);
    // One token of the text is left, for the model holds 128.
    assert.match(await text(page, '#unmasking .stamp'), /T = 128, 127 hidden · 4 steps/);
    await view(page).getByLabel('steps', { exact: true }).fill('100');
    await view(page).getByLabel('steps', { exact: true }).press('Enter');
    await view(page).getByRole('button', { name: 'Unmask' }).click();
    await view(page).getByRole('button', { name: 'Stop' }).click();
    await page.waitForFunction(() => !('busy' in document.querySelector('#unmasking').dataset));
    assert.equal(await view(page).getByRole('button', { name: 'Unmask' }).count(), 1);
    assert.deepEqual(page.troubles, []);
  },

  async 'unmasking: a model without a next token lists none, and continues nothing'(stage) {
    const page = await openMasked(stage, `${SETTING}&b=`);
    assert.equal(await page.locator('#next .side-a li').count(), 0);
    assert.match(
      await text(page, '#next .side-a .conditions'),
      /there is no next one.*mean loss – nat per token \(perplexity –\)/,
    );
    assert.equal(await page.getByRole('button', { name: 'Generate' }).count(), 0);
    const first = page.locator('#attention .side-a .heatmap');
    await first.focus();
    for (const key of ['ArrowRight', 'ArrowRight']) await page.keyboard.press(key);
    assert.match(await text(page, '#attention .side-a .readout'), /^query 1 .* → key 3 .*: \d/);
    // Back to a causal model: the view goes, generation comes.
    await page.locator('#side-a select').first().selectOption('softmax');
    await settled(page);
    assert.equal(await view(page).isVisible(), false);
    assert.ok((await page.locator('#next .side-a li').count()) > 0);
    assert.equal(await page.getByRole('button', { name: 'Generate' }).count(), 1);
    assert.deepEqual(page.troubles, []);
  },

  async 'unmasking: its code is not fetched for other models, and files say what they hold'(stage) {
    const page = await stage.open();
    const fetched = () =>
      page.evaluate(() => performance.getEntriesByType('resource').map(({ name }) => name));
    assert.equal(await view(page).isVisible(), false);
    const before = (await fetched()).filter((name) => /panel/.test(name)).length;
    await openFromDisk(page, 'diffusion');
    await page.waitForSelector('#unmasking .unmask-controls button');
    assert.ok((await fetched()).filter((name) => /panel/.test(name)).length > before);
    await press(page);
    const csv = String((await saved(page, 'CSV')).bytes);
    assert.match(csv, /^# MEASURED /);
    assert.match(csv, /\nquantity,step,place,label,value\n/);
    const svg = String((await saved(page, 'SVG')).bytes);
    assert.match(svg, /strongest column/);
    assert.equal(svg.match(/<rect[^>]* stroke=/g).length, 12, 'a frame for each step');
    assert.ok(!/var\(--|class=|<style/.test(svg));
    assert.deepEqual(page.troubles, []);
  },

  async 'unmasking: an embedded figure shows it alone, and an edited run as what it is'(stage) {
    const page = await openMasked(stage, `${SETTING}&view=unmasking&b=`, { file: 'embed.html' });
    assert.equal(await page.locator('#sinks').isVisible(), false);
    await press(page);
    const before = await text(page, '.unmask-words');
    await page.locator('#side-a select').nth(1).selectOption('sigmoid');
    await settled(page);
    assert.equal(await view(page).locator('.unmask-picture').isVisible(), false);
    await press(page);
    assert.match(await text(page, '#unmasking .stamp'), /^COUNTERFACTUAL .* edit: sigmoid/);
    assert.notEqual(await text(page, '.unmask-words'), before);
    assert.deepEqual(page.troubles, []);
  },

  ...inAllSizes('unmasking', looks),
};
