/** Figures and their numbers as files: every view, every kind, and what stands in them. */
import assert from 'node:assert/strict';
import { pictures, saveFrom, settled } from './stage.mjs';

const VIEWS = ['sinks', 'attention', 'scores', 'heads', 'geometry', 'norms', 'mass', 'next'];
const save = (page, view, kind, side = 'a') =>
  saveFrom(page, page.locator(`#${view} .side-${side} .save`), kind);

function rowsOf(csv) {
  const lines = csv.toString().trimEnd().split('\n');
  return lines.filter((line) => !line.startsWith('#')).map((line) => line.split(','));
}

export const exporting = {
  async 'the numbers of every view are saved with their conditions'(stage) {
    const page = await stage.open('T=16&eps=0.25');
    await page.waitForSelector('#norms .side-a svg');
    for (const view of VIEWS) {
      const { name, bytes } = await save(page, view, 'JSON');
      assert.match(name, new RegExp(`^sinkscope-${view}-softmax-twin\\.json$`));
      const made = JSON.parse(bytes);
      const { T, eps, sequences, first_tokens, class: kind, model } = made;
      assert.deepEqual(
        { T, eps, sequences, first_tokens, kind, model },
        {
          T: 16,
          eps: 0.25,
          sequences: 1,
          first_tokens: ['<s>'],
          kind: 'MEASURED',
          model: 'Softmax twin',
        },
      );
      assert.ok(made.quantities.length > 0, view);
      for (const { shape, axes, data } of made.quantities) {
        assert.equal(
          data.length,
          shape.reduce((a, b) => a * b, 1),
          view,
        );
        assert.equal(axes.length, shape.length, view);
      }
    }
    assert.deepEqual(page.troubles, []);
  },

  async 'a saved map has the numbers on the screen, and its rows sum to 1'(stage) {
    const page = await stage.open('T=12&layer=2&head=1');
    const { bytes } = await save(page, 'attention', 'CSV');
    const [head, ...rows] = rowsOf(bytes);
    assert.deepEqual(head, ['quantity', 'query', 'key', 'value']);
    const weights = rows.filter(([name]) => name === 'weight');
    assert.equal(weights.length, (12 * 13) / 2, 'what the mask hides is left out');
    for (let query = 1; query <= 12; query++) {
      const row = weights.filter(([, q]) => Number(q) === query);
      const sum = row.reduce((all, [, , , value]) => all + Number(value), 0);
      assert.ok(Math.abs(sum - 1) < 1e-5, `query ${query}: ${sum}`);
    }
    await page.locator('#attention .side-a .heatmap').focus();
    await page.keyboard.press('ArrowDown');
    const said = await page.textContent('#attention .side-a .readout');
    const [, query, key, shown] = /query (\d+) .*key (\d+) .*: ([\d.]+)$/.exec(said);
    const [, , , value] = weights.find(([, q, k]) => q === query && k === key);
    assert.equal(Number(value).toFixed(4), shown);
  },

  async 'figures are saved as SVG that stands alone, and as PNG'(stage) {
    const page = await stage.open('T=24');
    await page.waitForSelector('#norms .side-a svg');
    const texts = [];
    for (const view of VIEWS) {
      const svg = await save(page, view, 'SVG');
      const text = svg.bytes.toString();
      assert.match(text, /T = 24/, `${view} says its conditions`);
      assert.ok(!/var\(--|class=|<style|http(?!:\/\/www\.w3\.org|:\/\/127)/.test(text), view);
      texts.push(text);
      const png = await save(page, view, 'PNG');
      assert.deepEqual([...png.bytes.subarray(0, 4)], [0x89, 0x50, 0x4e, 0x47], view);
    }
    assert.deepEqual(page.troubles, []);
    const other = await page.context().newPage();
    for (const [i, text] of texts.entries()) {
      await other.setContent('<img>');
      await other.evaluate((source) => {
        const image = document.querySelector('img');
        image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(source)}`;
        return image.decode();
      }, text);
      await other.locator('img').screenshot({ path: `${pictures}/export-${VIEWS[i]}.png` });
    }
  },

  async 'an edited run says so in its file, and an embedded figure can be saved'(stage) {
    const page = await stage.open('view=sinks&swapA=sigmoid&b=&hide=prompt', {
      file: 'embed.html',
    });
    await settled(page);
    const csv = (await save(page, 'sinks', 'CSV')).bytes.toString();
    assert.match(csv, /^# COUNTERFACTUAL .* edit: /);
    assert.match(csv, /# edits: \[\{"kind":"operation","operation":"sigmoid"/);
    const hidden = await stage.open('view=sinks&hide=save', { file: 'embed.html' });
    assert.equal(await hidden.locator('.save').first().isVisible(), false);
  },
};
