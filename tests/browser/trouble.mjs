/** Tests broken files and unusual texts: a message must name the place, and the last good frame must stay. */
import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { chips, openSection, openFiles, root, settled, text } from './stage.mjs';

const findingText = (page) => text(page, '[data-finding]');
const openExplore = (stage, options) => stage.open('room=explore', options);

const folder = `${root}models/zoo/softmax/`;
const file = (name, buffer) => ({ name, mimeType: 'application/octet-stream', buffer });

async function readModel() {
  const [config, weights, tokenizer] = await Promise.all(
    ['config.json', 'model.safetensors', 'tokenizer.json'].map((name) => readFile(folder + name)),
  );
  return { config, weights, tokenizer };
}

function insertNan(weights) {
  const copy = Buffer.from(weights);
  copy.writeUInt16LE(0x7e00, copy.length - 2);
  return copy;
}

const BROKEN = {
  'a flipped bit in the header': (m) => {
    const weights = Buffer.from(m.weights);
    weights[weights.indexOf('data_offsets') + 15] ^= 0x40;
    return { ...m, weights };
  },
  'a weight that is NaN': (m) => ({ ...m, weights: insertNan(m.weights), says: /NaN or infinite/ }),
  'a tokenizer that is no JSON': (m) => ({
    ...m,
    tokenizer: Buffer.from('nope'),
    says: /tokenizer\.json/,
  }),
};

async function choose(page, { config, weights, tokenizer }) {
  const files = [file('config.json', config), file('my.safetensors', weights)];
  if (tokenizer) files.push(file('tokenizer.json', tokenizer));
  await openFiles(page, files);
}

async function waitForMessage(page, says = /./) {
  const selector = '.message:not([hidden]), #open[open] .open-error:not([hidden])';
  const message = page.locator(selector).filter({ hasText: says }).first();
  await message.waitFor().catch(() => {});
  const texts = await page.locator(selector).allTextContents();
  return texts.join(' ').replaceAll(/\s+/g, ' ').trim();
}

async function checkStillWorks(page, words) {
  if (await page.locator('#open[open]').count()) await page.keyboard.press('Escape');
  await page.fill('textarea', words);
  await page.waitForFunction((last) => {
    const tokens = [...document.querySelectorAll('.chip')].map((chip) => chip.textContent.trim());
    return tokens.join('').endsWith(last);
  }, words.split(' ').at(-1));
  await settled(page);
}

export const trouble = {
  async 'opening broken files says what is wrong and keeps the last frame'(stage) {
    const page = await openExplore(stage);
    const messages = [];
    for (const [name, damage] of Object.entries(BROKEN)) {
      const oldTexts = [await findingText(page), await chips(page)];
      const damagedModel = damage(await readModel());
      await choose(page, damagedModel);
      const messageText = await waitForMessage(page, damagedModel.says);
      assert.match(messageText, damagedModel.says ?? /byte|expected/i, name);
      assert.deepEqual([await findingText(page), await chips(page)], oldTexts, name);
      await checkStillWorks(page, `Still here: ${messages.length}.`);
      messages.push(messageText.split('\n')[0].slice(0, 140));
    }
    return messages.join(' | ');
  },

  async 'a long text is cut, a megabyte refused, and half a surrogate pair read'(stage) {
    const page = await openExplore(stage);
    await page.fill('textarea', 'word '.repeat(500));
    await settled(page);
    await openSection(page, 'tokens');
    await page.waitForSelector('.cut');
    assert.match(await text(page, '.cut'), /439 more tokens of this text not read/);
    const startTime = Date.now();
    await page.fill('textarea', 'x'.repeat(1_000_000));
    await page.waitForFunction(() =>
      /1,000,000 characters; expected at most/.test(
        document.querySelector('.trouble')?.textContent,
      ),
    );
    assert.ok(Date.now() - startTime < 60_000);
    // No link carries so long a text, but the reader's own remains in every room.
    await page.evaluate(() => (location.hash = '#room=compare'));
    await page.waitForSelector('[data-room="compare"] .trouble');
    assert.equal((await page.inputValue('textarea')).length, 1_000_000);
    await page.evaluate(() => (location.hash = '#room=explore'));
    await page.waitForSelector('[data-room="explore"] .trouble');
    await page.fill('textarea', 'half \ud800 a pair, 漢字 😀');
    await page.waitForFunction(() => !document.querySelector('.trouble'));
    await settled(page);
    assert.ok((await chips(page)).some((chip) => chip.includes('😀')));
    assert.deepEqual(page.troubles, []);
  },

  async 'a zoo file that cannot be fetched is reported at its model, the other model works, and it is tried again'(
    stage,
  ) {
    const page = await stage.open('room=explore&shown=softmax');
    await page.route('**/sigmoid/packed.gz', (route) => route.fulfill({ status: 404 }));
    await page.evaluate(() => (location.hash = '#room=compare&shown=softmax,sigmoid'));
    await page.waitForSelector('.trouble');
    assert.match(await text(page, '.trouble'), /Sigmoid model: .*404/);
    await settled(page);
    assert.equal(await page.locator('[data-view="attention"] .cell').count(), 1);
    await page.fill('textarea', 'The old man sat at the door.');
    await settled(page);
    assert.equal(await page.locator('[data-view="attention"] .cell').count(), 1);
    await page.unroute('**/sigmoid/packed.gz');
    await page.getByRole('button', { name: 'Try again' }).click();
    await page.waitForFunction(
      () => document.querySelectorAll('[data-view="attention"] .cell').length === 2,
    );
    assert.equal(await page.locator('.trouble').count(), 0);
  },
};
