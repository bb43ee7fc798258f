/** What a reader does: looks, types, points, compares, generates. */
import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { createEngine, openTokenizer } from '../../wasm/index.js';
import { chips, figure, root, settled, text } from './stage.mjs';

const zoo = (path) => readFile(`${root}models/zoo/${path}`);

/** Sink_1 in percent of a text through a zoo model, by the package, outside the browser. */
async function sinkInNode(id, prompt, kernels, T = 64) {
  const engine = await createEngine({ worker: false, kernels });
  const files = {
    config: await zoo(`${id}/config.json`),
    weights: await zoo(`${id}/model.safetensors`),
  };
  const model = await engine.open(files);
  const tokenizer = openTokenizer(String(await zoo(`${id}/tokenizer.json`)));
  const ids = tokenizer.encode(prompt, { bos: true }).slice(0, T);
  const run = await model.run(ids.map((token) => token.id));
  const sink = await run.metric('sink_ratio', { eps: 0.3 });
  await engine.close();
  return `${(100 * sink.data[0]).toFixed(1)} %`;
}

async function colours(page, selector) {
  return page.evaluate((s) => {
    const canvas = document.querySelector(s);
    const { data } = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
    return new Set(new Uint32Array(data.buffer)).size;
  }, selector);
}

async function click(page, selector) {
  await page.click(selector);
  await settled(page);
}

async function fill(page, label, value) {
  const field = page.locator('label', { hasText: label }).locator('input').first();
  await field.fill(String(value));
  await field.press('Enter');
  await settled(page);
}

export const reading = {
  async 'the page opens with both models run and a sentence of what one sees'(stage) {
    const page = await stage.open();
    assert.match(await text(page, '#finding'), /\d+ %/);
    for (const side of ['a', 'b'])
      assert.ok((await colours(page, `#sinks .side-${side} canvas`)) > 3);
    assert.equal((await chips(page))[0], '<s>');
    const time = await page.evaluate(() => performance.getEntriesByName('first-sink')[0].startTime);
    assert.ok(time < 5000);
    assert.deepEqual(page.troubles, []);
    return `first sink after ${Math.round(time)} ms`;
  },

  async 'the twins show the contrast without a touch'(stage) {
    const page = await stage.open('n=20');
    const [softmax, sigmoid] = [await figure(page, 'a'), await figure(page, 'b')].map(parseFloat);
    assert.ok(
      softmax > 10 && sigmoid < 5 && softmax > sigmoid + 10,
      `${softmax} % and ${sigmoid} %`,
    );
    assert.match(await text(page, '#sinks .side-b .conditions'), /mean of 20 sequences.*row mass/);
    return `${softmax} % and ${sigmoid} % over 20 sequences`;
  },

  async 'the numbers are those of the package in Node, base and SIMD'(stage) {
    const page = await stage.open();
    const prompt = await page.inputValue('textarea');
    for (const [side, id] of [
      ['a', 'softmax'],
      ['b', 'sigmoid'],
    ]) {
      const shown = (await figure(page, side)).replace('*', '');
      for (const kernels of ['simd', 'base'])
        assert.equal(await sinkInNode(id, prompt, kernels), shown);
    }
  },

  async 'typing changes tokens, maps and the sentence'(stage) {
    const page = await stage.open();
    const before = await text(page, '#finding');
    await page.fill('textarea', 'The cat sat on the mat, and the dog lay down.');
    await page.waitForFunction(
      (old) => document.querySelector('#finding').textContent !== old,
      before,
    );
    await settled(page);
    const pieces = (await chips(page)).slice(1).join('').replaceAll('\u00a0', ' ');
    assert.equal(pieces.trim(), 'The cat sat on the mat, and the dog lay down.');
    assert.match(
      await text(page, '#attention .stamp'),
      new RegExp(`T = ${(await chips(page)).length} `),
    );
    assert.deepEqual(page.troubles, []);
  },

  async 'the three inputs, the seed, BOS, T and eps'(stage) {
    const page = await stage.open();
    await click(page, 'text=random tokens');
    const first = await chips(page);
    await fill(page, 'seed', 2);
    assert.notDeepEqual(await chips(page), first);
    await fill(page, 'seed', 1);
    assert.deepEqual(await chips(page), first);
    await click(page, 'text=one token repeated');
    assert.equal(new Set((await chips(page)).slice(1)).size, 1);
    await click(page, '.check input');
    assert.equal(new Set(await chips(page)).size, 1);
    assert.match(await text(page, '#attention .stamp'), /no BOS/);
    await fill(page, 'tokens T', 16);
    await fill(page, 'threshold', 0.5);
    assert.match(await text(page, '#sinks .conditions'), /ε = 0.5 · T = 16/);
    assert.deepEqual(page.troubles, []);
  },

  async 'pointing at a cell names it, lights it elsewhere, and arrow keys move'(stage) {
    const page = await stage.open();
    const map = page.locator('#attention .side-a .heatmap');
    const box = await map.boundingBox();
    await map.hover({ position: { x: box.width * 0.01, y: box.height * (32.5 / 64) } });
    await settled(page);
    const said = await text(page, '#attention .side-a .readout');
    assert.match(said, /^query 33 .* → key 1 “<s>”: \d/);
    assert.match(await text(page, '#attention .side-b .readout'), /^query 33 .* → key 1/);
    assert.equal(await page.locator('#attention .side-b .mark.lit:not([hidden])').count(), 1);
    await map.focus();
    await page.keyboard.press('ArrowDown');
    await settled(page);
    assert.match(await text(page, '#attention .side-a .readout'), /^query 34 /);
  },

  async 'a head is chosen by click and by keyboard, and every view follows'(stage) {
    const page = await stage.open();
    await page.click('#heads .side-a .thumb[data-layer="2"][data-head="1"]');
    await settled(page);
    await page.waitForFunction(() =>
      document
        .querySelector('#geometry .side-a .subtitle')
        .textContent.startsWith('layer 3, head 2'),
    );
    assert.match(await text(page, '#attention .side-b .subtitle'), /layer 3, head 2/);
    await page.locator('#sinks .side-a .heatmap').focus();
    await page.keyboard.press('ArrowRight');
    await page.keyboard.press('Enter');
    await settled(page);
    assert.match(await text(page, '#attention .side-a .subtitle'), /layer 3, head 3/);
  },

  async 'a swapped operation is a counterfactual, with its parameter'(stage) {
    const page = await stage.open();
    const menu = page.locator('#side-a select').nth(1);
    const names = await menu.locator('option').allTextContents();
    assert.ok(names.length >= 10);
    await menu.selectOption('sink_logit');
    await settled(page);
    assert.equal(await text(page, '#side-a .badge'), 'COUNTERFACTUAL');
    assert.match(await text(page, '#side-a .class-words'), /does not show what a model trained/);
    assert.match(
      await text(page, '#attention .side-a .stamp'),
      /^COUNTERFACTUAL.*edit: sink logit/,
    );
    const mass = await text(page, '#mass .side-a .conditions');
    await fill(page, 'logit', 5);
    assert.notEqual(await text(page, '#mass .side-a .conditions'), mass);
    assert.equal(await text(page, '#side-b .badge'), 'MEASURED');
    for (const value of ['identity', 'elu1', 'relu', 'softmax1']) {
      await menu.selectOption(value);
      await settled(page);
      assert.equal(await text(page, '#side-a .badge'), 'COUNTERFACTUAL');
    }
    assert.deepEqual(page.troubles, []);
  },

  async 'one model alone, another model, and back'(stage) {
    const page = await stage.open();
    await page.locator('#side-b select').first().selectOption('');
    await settled(page);
    assert.ok(!(await page.locator('#sinks .side-b').isVisible()));
    await page.locator('#side-a select').first().selectOption('sigmoid');
    await settled(page);
    assert.match(await text(page, '#finding'), /sigmoid twin/);
    await page.locator('#side-b select').first().selectOption('softmax');
    await settled(page);
    assert.ok(await page.locator('#sinks .side-b').isVisible());
  },

  async 'generation adds tokens, the views follow, and a seed repeats it'(stage) {
    const grown = [];
    for (let i = 0; i < 2; i++) {
      const page = await stage.open('T=40');
      await page.click('#generate button');
      await page.waitForFunction(() => document.querySelectorAll('.chip.made').length === 16);
      await page.waitForFunction(() =>
        /Generate/.test(document.querySelector('#generate button').textContent),
      );
      await settled(page);
      assert.match(await text(page, '#attention .side-a .stamp'), /T = 56 /);
      assert.match(await text(page, '#next .side-a .conditions'), /16 of the tokens generated/);
      grown.push(await chips(page));
    }
    assert.deepEqual(grown[0], grown[1]);
    return grown[0].slice(40).join('').replaceAll('\u00a0', ' ');
  },
};
