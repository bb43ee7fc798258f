/** Figures and numbers as files: what is seen is what is saved, whatever a vocabulary holds. */
import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { parse } from '../../web/node_modules/csv-parse/lib/sync.js';
import { root, saveFrom, settled } from './stage.mjs';

const menu = (page, view) => page.locator(`[data-view="${view}"] .save`);
const save = async (page, view, kind) => saveFrom(page, menu(page, view), kind);

/**
 * A text as XML, by the browser's own parser: its root's name, or what is wrong. On an empty page, for
 * the policy of Sinkscope's lets no text become markup.
 */
async function asXml(page, text) {
  const empty = await page.context().newPage();
  const said = await empty.evaluate((xml) => {
    const made = new DOMParser().parseFromString(xml, 'image/svg+xml');
    const wrong = made.querySelector('parsererror');
    return wrong
      ? wrong.textContent
      : `${made.documentElement.localName} ${made.querySelectorAll('text').length}`;
  }, text);
  await empty.close();
  return said;
}

export const saving = {
  async 'both subjects stand in the picture; text stays text, lines stay lines'(stage) {
    const page = await stage.open('room=compare&view=norms');
    await page.waitForSelector('[data-view="norms"] .cell:nth-child(2) .chart-picture');
    const { name, bytes } = await save(page, 'norms', 'SVG');
    assert.match(name, /^sinkscope-norms-softmax-model-sigmoid-model\.svg$/);
    const text = bytes.toString();
    assert.match(await asXml(page, text), /^svg \d\d/);
    assert.match(text, /Softmax model.*Sigmoid model/s);
    assert.ok(
      (text.match(/<path[^>]* d="M[\d.]+,[\d.]+L/g) ?? []).length >= 12,
      'lines are vectors',
    );
    assert.doesNotMatch(text, /<image/);
    const png = await save(page, 'norms', 'PNG');
    assert.equal(png.bytes.subarray(1, 4).toString(), 'PNG');
    const map = await save(page, 'attention', 'SVG');
    assert.equal((map.bytes.toString().match(/<image/g) ?? []).length, 2, 'a map for each');
    assert.match(map.bytes.toString(), />thought</, 'and its words');
  },

  async 'numbers of every subject, with all that is needed to get them again'(stage) {
    const page = await stage.open('room=compare&shown=softmax,softmax~sigmoid&T=12');
    await page.waitForFunction(
      () => document.querySelectorAll('[data-view="sinks"] .cell').length === 2,
    );
    await settled(page);
    const json = JSON.parse((await save(page, 'sinks', 'JSON')).bytes);
    assert.deepEqual(
      json.subjects.map((one) => one.class),
      ['MEASURED', 'COUNTERFACTUAL'],
    );
    for (const one of json.subjects) {
      assert.deepEqual(
        [one.T, one.eps, one.verdict.tells, one.verdict.least_tokens],
        [12, 0.3, true, 10],
      );
      assert.equal(one.quantities.find(({ name }) => name === 'alpha_1').data.length, 24);
    }
    assert.match(json.link, /shown=softmax,softmax~sigmoid/);
    const csv = parse((await save(page, 'sinks', 'CSV')).bytes);
    const numbers = csv.slice(csv.findIndex(([first]) => !first.startsWith('# ')));
    assert.deepEqual(numbers[0].slice(0, 2), ['subject', 'quantity']);
    assert.equal(numbers.filter(([subject]) => subject === 'softmax~sigmoid').length, 4 + 24);
    const table = page.locator('.numbers-of-all .save');
    const study = parse((await saveFrom(page, table, 'CSV')).bytes, { comment: '#' });
    assert.deepEqual(study[0].slice(0, 5), ['subject', 'class', 'metric', 'mean', 'deviation']);
    assert.equal(JSON.parse((await saveFrom(page, table, 'JSON')).bytes).subjects.length, 2);
    assert.deepEqual(page.troubles, []);
  },

  async 'control characters in a token are seen, and the picture is still XML'(stage) {
    const page = await stage.open('room=explore');
    const zoo = (name) => readFile(`${root}models/zoo/softmax/${name}`);
    const json = JSON.parse(await zoo('tokenizer.json'));
    // The vocabulary's “ the” reads as an escape, a bell and half a surrogate in this one.
    json.model.vocab = Object.fromEntries(
      Object.entries(json.model.vocab).map(([name, id]) => [name, id]),
    );
    json.added_tokens.push({
      id: 2,
      content: '\u001b\u0007',
      single_word: false,
      lstrip: false,
      rstrip: false,
      normalized: false,
      special: false,
    });
    const file = (name, buffer) => ({ name, mimeType: 'application/octet-stream', buffer });
    await page.setInputFiles('#open .file:not(.folder) input', [
      file('config.json', await zoo('config.json')),
      file('own.safetensors', await zoo('model.safetensors')),
      file('tokenizer.json', Buffer.from(JSON.stringify(json))),
    ]);
    await page.waitForFunction(() =>
      /own\.safetensors/.test(
        document.querySelector('[data-view="attention"] .stamp')?.textContent,
      ),
    );
    await page.fill('textarea', 'The old \u001b\u0007 man \u001b\u0007 sat.');
    await page.waitForFunction(() =>
      [...document.querySelectorAll('.chip')].some((chip) => chip.textContent.includes('␛␇')),
    );
    await settled(page);
    const { bytes } = await save(page, 'attention', 'SVG');
    assert.match(await asXml(page, bytes.toString()), /^svg \d/);
    assert.match(bytes.toString(), /␛␇/);
    assert.equal((await save(page, 'attention', 'PNG')).bytes.subarray(1, 4).toString(), 'PNG');
    assert.deepEqual(page.troubles, []);
  },
};
