/** Opening models: by name from the hub of tests/hub, by files, by a link; and what goes wrong. */
import assert from 'node:assert/strict';
import { mkdirSync } from 'node:fs';
import { openHub } from '../hub/server.mjs';
import { root, settled, text, violations } from './stage.mjs';

const WEIGHTS = /model\.safetensors$/;
const zoo = (name) =>
  ['config.json', 'model.safetensors', 'tokenizer.json'].map(
    (file) => `${root}models/zoo/${name}/${file}`,
  );
const pictures = `${root}.build/screenshots`;
mkdirSync(pictures, { recursive: true });

let making;

/** The page with the test's hub as its endpoint; asking that hub is no trouble. */
export async function openPage(stage, hash = '', options = {}) {
  making ??= openHub();
  const hub = await making;
  hub.reset();
  const script = `localStorage.setItem('sinkscope.endpoint', ${JSON.stringify(hub.endpoint)})`;
  const page = await stage.open(hash, { ...options, script });
  return { page, hub };
}

export async function openDialog(page) {
  await page.getByRole('button', { name: 'Open a model' }).click();
  await page.waitForSelector('#open[open]');
}

export async function lookUp(page, name) {
  await page.fill('#open-name', name);
  await page.keyboard.press('Enter');
}

/** Opens a model of the hub through the dialog. */
export async function load(page, name) {
  await openDialog(page);
  await lookUp(page, name);
  await page.click('#open .primary');
  await page.waitForSelector('#open', { state: 'hidden' });
  await settled(page);
}

const error = (page) => page.locator('.open-error:not([hidden])').textContent();
const plan = (page) => text(page, '.open-plan');
const stamp = (page, side) => text(page, `#attention .side-${side} .stamp`);
const troubles = (page, hub) =>
  page.troubles.filter((one) => !one.includes(hub.endpoint) && !one.includes(hub.cdn));

async function looks(stage, { width, scheme }) {
  const { page } = await openPage(stage, '', { width, scheme });
  const picture = (name) =>
    page.screenshot({ path: `${pictures}/open-${name}-${width}-${scheme}.png` });
  const check = async (name) => {
    const wide = await page.evaluate(() => document.documentElement.scrollWidth);
    assert.ok(wide <= width, `${name}: ${wide} px wide in ${width}`);
    assert.deepEqual(await violations(page), [], name);
    await picture(name);
  };
  await openDialog(page);
  await check('choose');
  await page.click('.open-more summary');
  await check('more');
  await lookUp(page, 'sinkscope/huge');
  await page.waitForSelector('.open-problem');
  await check('refusal');
  await page.getByRole('button', { name: 'Back' }).click();
  await lookUp(page, 'sinkscope/nothing');
  await page.waitForSelector('.open-error:not([hidden])');
  await check('error');
  await lookUp(page, 'sinkscope/softmax');
  await page.waitForSelector('.open-plan');
  await check('plan');
}

export const open = {
  async 'a model of the hub: its plan, then its run, then from the cache'(stage) {
    const { page, hub } = await openPage(stage);
    await openDialog(page);
    assert.equal(hub.log.length, 0, 'nobody is asked before the reader wants it');
    await lookUp(page, 'sinkscope/softmax');
    await page.waitForSelector('.open-plan');
    assert.match(await plan(page), /main \(commit [0-9a-f]{8}\).*model\.safetensors, safetensors/s);
    assert.match(await plan(page), /to download\s*2\.\d MB.*about [\d.]+ MB.*apache-2\.0/s);
    assert.equal(hub.seen(WEIGHTS).length, 0, 'nothing large is fetched before the reader agrees');
    await page.click('#open .primary');
    await page.waitForSelector('#open', { state: 'hidden' });
    await settled(page);
    assert.match(await stamp(page, 'a'), /MEASURED.*sinkscope\/softmax/);
    assert.match(await text(page, '#side-a'), /on published weights/);
    await page.waitForFunction(() => location.hash.includes('a=hub%3Asinkscope%2Fsoftmax'));
    const chosen = await page.locator('#side-a select').first().inputValue();
    assert.equal(chosen, 'hub:sinkscope/softmax');
    await openDialog(page);
    await page.waitForFunction(() =>
      /Kept.*\d MB/.test(document.querySelector('.open-kept')?.textContent),
    );
    await page.click('.open-kept button');
    await page.waitForFunction(() => !document.querySelector('.open-kept'));
    assert.deepEqual(troubles(page, hub), []);
  },
};

for (const width of [1280, 390])
  for (const scheme of ['light', 'dark'])
    open[`the dialog at ${width} px, ${scheme}: axe finds nothing, pictures of every stage`] = (
      stage,
    ) => looks(stage, { width, scheme });
export { error, stamp, troubles, zoo };
