/** Links: any state is one, also a stranger's. */
import assert from 'node:assert/strict';
import { chips, figure, settled, text } from './stage.mjs';

const VIEWS = ['sinks', 'attention', 'scores', 'heads', 'geometry', 'norms', 'mass', 'next'];
const CONTROLS = [
  'prompt',
  'chips',
  'numbers',
  'models',
  'swap',
  'generate',
  'links',
  'how',
  'finding',
];
const hashOf = (page) => new URL(page.url()).hash.slice(1);

async function everything(page) {
  await settled(page);
  const read = async (s) => page.locator(s).allTextContents();
  return {
    chips: await chips(page),
    figures: [await figure(page, 'a'), await figure(page, 'b')],
    stamps: await read('.stamp'),
    subtitles: await read('#attention .subtitle'),
    next: await read('.next li'),
  };
}

export const links = {
  async 'a copied link restores the same view in another page'(stage) {
    const page = await stage.open();
    await page.fill('textarea', 'A small “house” — 漢字, 50 % & more #1.');
    await page.locator('#side-b select').nth(1).selectOption('softmax1');
    await page.click('#heads .side-a .thumb[data-layer="1"][data-head="3"]');
    await settled(page);
    await page.waitForFunction(
      () => /swapB=softmax1/.test(location.hash) && /head=3/.test(location.hash),
    );
    await page.click('text=Copy link');
    const link = await page.evaluate(() => navigator.clipboard.readText());
    const other = await stage.open(new URL(link).hash.slice(1));
    assert.deepEqual(await everything(other), await everything(page));
    assert.equal(hashOf(other), hashOf(page));
  },

  async 'a link pasted over the page is followed'(stage) {
    const page = await stage.open();
    await page.evaluate(() => (location.hash = '#prompt=Hello&T=8&swapA=relu'));
    await page.waitForFunction(
      () => document.querySelector('#side-a .badge')?.textContent === 'COUNTERFACTUAL',
    );
    await settled(page);
    assert.equal(await page.inputValue('textarea'), 'Hello');
  },

  async 'each view stands alone in an embed, without the controls that are hidden'(stage) {
    for (const view of VIEWS) {
      const page = await stage.open(`view=${view}&hide=${CONTROLS.join(',')}`, {
        file: 'embed.html',
        width: 720,
      });
      const shown = await page.locator('.view').evaluateAll((all) => all.map((one) => one.id));
      assert.deepEqual(shown, [view]);
      const left = await page
        .locator('textarea:visible, select:visible, input:visible, .chip:visible')
        .count();
      assert.equal(left, 0);
      assert.ok(await page.locator(`#${view} .side-a`).isVisible());
      assert.deepEqual(page.troubles, []);
      await page.context().close();
    }
  },

  async 'the embed code opens the same view'(stage) {
    const page = await stage.open('T=20&view=norms');
    await page.click('text=Copy embed');
    const code = await page.evaluate(() => navigator.clipboard.readText());
    const source = /src="[^"]*\/embed\.html#([^"]*)"/.exec(code)[1];
    const embed = await stage.open(source, { file: 'embed.html' });
    assert.match(await text(embed, '#norms .stamp'), /T = 20 /);
  },

  async 'hostile links leave a page that works, and say what they were'(stage) {
    const hostile = [
      'a=../../etc/passwd&T=1e99',
      'swapA=%3Cscript%3Ealert(1)%3C/script%3E',
      'a=nothing-here&b=neither&swapB=hardmax&view=wat',
      '__proto__=1&constructor=2&%ff=%',
      `layer=1023&head=1023&query=4095&key=4095`,
      `eps=NaN&n=-1&seed=1e400&prompt=${'%00'.repeat(2000)}`,
    ];
    for (const hash of hostile) {
      const page = await stage.open(hash);
      assert.match(await text(page, '#finding'), /heads of the/, hash);
      if (!hash.startsWith('layer')) assert.ok((await text(page, '#messages')).length > 20, hash);
      assert.deepEqual(page.troubles, [], hash);
      await page.context().close();
    }
  },
};
