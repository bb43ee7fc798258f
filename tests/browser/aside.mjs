/** Bias keys and gates: what takes a head's attention aside, or its output away. */
import assert from 'node:assert/strict';
import { readInNode } from './disk.mjs';
import {
  inAllSizes,
  pictures,
  saveFrom,
  settled,
  staysWithin,
  text,
  violations,
} from './stage.mjs';
const TEXT = 'The king went to the sea, and nobody knew his name.';
const BOTH = `a=key-bias&b=gated&prompt=${encodeURIComponent(TEXT)}&layer=1&head=2`;

async function open(stage, options = {}) {
  const page = await stage.open(BOTH, options);
  for (const [view, side] of [
    ['bias', 'a'],
    ['gate', 'b'],
  ])
    await page.waitForSelector(`#${view} .side-${side} .chart svg`);
  return page;
}

async function saved(page, view, side) {
  const menu = page.locator(`#${view} .side-${side} .save`);
  return JSON.parse((await saveFrom(page, menu, 'JSON')).bytes).quantities;
}

const percent = (share) => `${(100 * share).toFixed(1)} %`;

async function looks(stage, { width, scheme }) {
  const page = await open(stage, { width, scheme });
  await staysWithin(page, width);
  for (const view of ['bias', 'gate']) {
    await page.locator(`#${view}`).scrollIntoViewIfNeeded();
    const path = `${pictures}/${view}-${width}-${scheme}.png`;
    await page.locator(`#${view}`).screenshot({ path });
  }
  assert.deepEqual(await violations(page), []);
  assert.deepEqual(page.troubles, []);
}

export const aside = {
  async 'bias key: its shares are those of the package, on the screen and in the file'(stage) {
    const page = await open(stage);
    const reads = [
      { metric: 'sink_ratio_bias', eps: 0.3 },
      { metric: 'alpha_bias' },
      { field: 'att_bias' },
    ];
    const [sink, alpha, weights] = await readInNode('key-bias', TEXT, reads);
    const made = await saved(page, 'bias', 'a');
    for (const [i, tensor] of [sink, alpha, weights].entries())
      assert.deepEqual(made[i].data, [...tensor.data]);
    assert.deepEqual(made[2].shape, weights.shape);
    const share = sink.data[0];
    assert.ok(share > 0.5, `Sink_* is ${share}`);
    assert.equal(await text(page, '#bias .side-a .figure'), percent(share));
    assert.equal(await text(page, '#sinks .side-a .figure'), '0.0 %');
    const heads = Math.round(share * alpha.data.length);
    assert.match(
      await text(page, '#finding'),
      new RegExp(
        `A bias key, .*, takes more than 30 % in ${heads} of the ${alpha.data.length} heads`,
      ),
    );
    const largest = Math.max(...alpha.data).toFixed(2);
    assert.match(await text(page, '#bias .side-a .conditions >> nth=1'), new RegExp(`${largest}$`));
    assert.match(await text(page, '#bias .side-b'), /has no bias key/);
    assert.deepEqual(page.troubles, []);
  },

  async 'gate: its means are those of the package, on the screen and in the file'(stage) {
    const page = await open(stage);
    const reads = [{ metric: 'gate_mean' }, { field: 'gate' }];
    const [means, gates] = await readInNode('gated', TEXT, reads);
    const made = await saved(page, 'gate', 'b');
    for (const [i, tensor] of [means, gates].entries())
      assert.deepEqual([made[i].shape, made[i].data], [tensor.shape, [...tensor.data]]);
    const [, H, T] = gates.shape;
    const at = (1 * H + 2) * T;
    assert.match(
      await text(page, '#gate .side-b .gate .conditions'),
      new RegExp(`Layer 2, head 3: ${gates.data[at].toFixed(2)} at token 1, `),
    );
    assert.match(await text(page, '#gate .side-a'), /has no gate/);
    assert.equal(await page.locator('#gate .side-a .save').isVisible(), false);
    assert.equal(await page.locator('#gate .side-a .stamp').isVisible(), false);
    assert.deepEqual(page.troubles, []);
  },

  async 'bias key and gate: means of several sequences, and gone with their models'(stage) {
    const page = await stage.open('a=key-bias&b=gated&T=16&n=3&layer=0&head=0');
    await settled(page);
    const sink = Number.parseFloat(await text(page, '#bias .side-a .figure')) / 100;
    const heads = sink * 24;
    assert.ok(Math.abs(heads * 3 - Math.round(heads * 3)) < 0.05, `${heads} heads on average`);
    assert.match(await text(page, '#bias .side-a .conditions >> nth=1'), /mean of 3 sequences/);
    assert.match(await text(page, '#gate .side-b .stamp'), /mean of 3 sequences/);
    const maps = page.locator('#bias .side-a .heatmap');
    await maps.focus();
    await page.keyboard.press('ArrowRight');
    assert.match(await text(page, '#bias .side-a .readout'), /^layer 1, head 2: α∗ = 0\.\d{3}$/);
    for (const side of ['a', 'b'])
      await page.locator(`#side-${side} select`).first().selectOption('softmax');
    await settled(page);
    for (const view of ['bias', 'gate'])
      assert.equal(await page.locator(`#${view}`).isVisible(), false);
    assert.deepEqual(page.troubles, []);
  },

  ...inAllSizes('bias key and gate', looks),
};
