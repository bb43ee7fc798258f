/** Tests the opening of models: by name from the hub of tests/hub, by files, by a link; and what goes wrong. */
import assert from 'node:assert/strict';
import { cp, mkdir, mkdtemp, readFile, rm, symlink } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { basename } from 'node:path';
import { openHub } from '../hub/server.mjs';
import { ggufOfZoo } from './gguf.mjs';
import {
  ask,
  everyTab,
  inAllSizes,
  openSection,
  openFiles,
  pauseAtStep,
  pictures,
  root,
  settled,
  staysWithin,
  text,
  untilFromDisk,
  violations,
} from './stage.mjs';

const WEIGHTS = /model\.safetensors$/;
const zoo = (name) =>
  ['config.json', 'model.safetensors', 'tokenizer.json'].map(
    (file) => `${root}models/zoo/${name}/${file}`,
  );
let opening;

/** Opens the page with the hub of the tests as its endpoint. Requests to this hub are allowed. */
export async function openPage(stage, hash = 'room=explore', options = {}) {
  opening ??= openHub();
  const hub = await opening;
  hub.reset();
  stage.allowed.add(hub.endpoint).add(hub.cdn);
  const script = `localStorage.setItem('sinkscope.endpoint', ${JSON.stringify(hub.endpoint)})`;
  const page = await stage.open(hash, { ...options, script });
  return { page, hub };
}

async function openDialog(page) {
  await page.getByRole('button', { name: 'Open a model' }).click();
  await page.waitForSelector('#open[open]');
}

export async function lookUp(page, name) {
  await page.fill('#open-name', name);
  await page.keyboard.press('Enter');
}

export async function load(page, name) {
  await openDialog(page);
  await lookUp(page, name);
  await page.click('#open .primary');
  await page.waitForSelector('#open', { state: 'hidden' });
  await settled(page);
}

const errorText = (page) => page.locator('.open-error:not([hidden])').textContent();
const planText = (page) => text(page, '.open-plan');
const stampText = (page) => text(page, '[data-view="attention"] .stamp');
const findingText = (page) => text(page, '[data-finding]');
const STAMP = '[data-view="attention"] .stamp';

/** Waits until a map is that of a step: the only one of Explore, or the one of Training that the slider moves. */
const waitForStep = (page, step) =>
  page.waitForFunction((name) => {
    const cells = document.querySelectorAll('[data-view="attention"].main .cell:not(.stale)');
    return cells.length === 1 && cells[0].dataset.subject.endsWith(name);
  }, `pythia-14m@step${step}`);
const troublesOf = (page, hub) =>
  page.troubles.filter((trouble) => !trouble.includes(hub.endpoint) && !trouble.includes(hub.cdn));

async function checkLooks(page, { width, scheme }) {
  const check = async (name) => {
    await staysWithin(page, width, name);
    assert.deepEqual(await violations(page), [], name);
    await page.screenshot({ path: `${pictures}/open-${name}-${width}-${scheme}.png` });
  };
  await openDialog(page);
  await check('choose');
  await page.locator('.open-more').evaluate((details) => (details.open = true));
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
  await page.getByRole('button', { name: 'Back' }).click();
  await page.keyboard.press('Escape');
  page.troubles = page.troubles.filter((trouble) => !/127\.0\.0\.1/.test(trouble));
}

async function folderOf(name) {
  const files = zoo(name).map(async (path) => [basename(path), await readFile(path)]);
  return Object.fromEntries(await Promise.all(files));
}

function drop(page, files) {
  const entries = Object.entries(files).map(([name, bytes]) => [name, bytes.toString('base64')]);
  return page.evaluate((all) => {
    const transfer = new DataTransfer();
    for (const [name, base64] of all) {
      const bytes = Uint8Array.from(atob(base64), (letter) => letter.charCodeAt(0));
      transfer.items.add(new File([bytes], name));
    }
    document.dispatchEvent(new DragEvent('drop', { dataTransfer: transfer }));
  }, entries);
}

export const open = {
  async 'a model of the hub shows its plan, then runs, and later comes from the cache'(stage) {
    const { page, hub } = await openPage(stage);
    await openDialog(page);
    assert.equal(hub.log.length, 0, 'no request is sent before the reader asks for it');
    await lookUp(page, 'sinkscope/softmax');
    await page.waitForSelector('.open-plan');
    assert.match(await planText(page), /main \(commit [0-9a-f]{8}\).*model\.safetensors/s);
    assert.match(await planText(page), /to download\s*2\.\d MB.*about [\d.]+ MB.*apache-2\.0/s);
    assert.equal(hub.seen(WEIGHTS).length, 0, 'nothing large is fetched before the reader agrees');
    await page.click('#open .primary');
    await page.waitForSelector('#open', { state: 'hidden' });
    await settled(page);
    assert.match(await stampText(page), /MEASURED.*sinkscope\/softmax/);
    assert.match(await text(page, '.about'), /on published weights/);
    await page.waitForFunction(() => location.hash.includes('shown=hub:sinkscope/softmax'));
    assert.equal(
      (await text(page, '.subject-list [aria-pressed="true"]')).trim(),
      'sinkscope/softmax',
    );
    await openDialog(page);
    await page.waitForFunction(() =>
      /Cached models: .*\d MB/.test(document.querySelector('.open-kept')?.textContent),
    );
    await page.click('.open-kept button');
    await page.waitForFunction(() => !document.querySelector('.open-kept'));
    assert.deepEqual(troublesOf(page, hub), []);
  },

  async 'a link to a hub model makes no request before the reader agrees, and opens a cached model without asking'(
    stage,
  ) {
    const hash = 'room=explore&shown=hub:sinkscope/sigmoid';
    const { page, hub } = await openPage(stage, hash, { waits: false });
    await page.waitForSelector('#open[open] .primary');
    assert.match(
      await text(page, '#open'),
      /This link shows sinkscope\/sigmoid.*contacts .* only if you agree/s,
    );
    assert.equal(hub.log.length, 0, 'nothing left the origin');
    assert.match(await text(page, '.trouble'), /sinkscope\/sigmoid is not loaded yet/);
    await page.keyboard.press('Escape');
    await page.fill('textarea', 'Another text.');
    await settled(page);
    assert.equal(await page.locator('#open[open]').count(), 0, 'the question is not put twice');
    assert.equal(hub.log.length, 0);
    await page.getByRole('button', { name: 'Open sinkscope/sigmoid' }).click();
    await page.waitForSelector('#open .open-plan');
    assert.equal(hub.seen(WEIGHTS).length, 0);
    await page.click('#open .primary');
    await page.waitForSelector(STAMP);
    await settled(page);
    assert.match(await stampText(page), /sinkscope\/sigmoid/);
    hub.reset();
    await page.reload();
    await page.waitForSelector(STAMP);
    assert.equal(await page.locator('#open[open]').count(), 0);
    assert.equal(hub.seen(WEIGHTS).length, 0, 'the weights came from the cache');
  },

  async 'an embed with a hub model sends no request before a click'(stage) {
    const { page, hub } = await openPage(stage, 'view=attention&shown=hub:sinkscope/softmax', {
      waits: false,
      file: 'embed.html',
    });
    await page.waitForSelector('.trouble');
    assert.equal(hub.log.length, 0);
  },

  async 'a link with a model on the disk omits it, or identifies it for readers with the same files'(
    stage,
  ) {
    const { page, hub } = await openPage(stage);
    await drop(page, await folderOf('sigmoid'));
    await untilFromDisk(page);
    const link = () => page.evaluate(() => navigator.clipboard.readText());
    await page.getByRole('button', { name: 'Share' }).click();
    const notice = page.locator('.unshared');
    await notice.locator('button').first().waitFor();
    assert.match(
      await text(page, '.unshared'),
      /The link does not contain .*, because those files are on your disk: it opens the softmax and sigmoid models instead\./,
    );
    assert.doesNotMatch(await link(), /disk/);
    await notice.getByRole('button', { name: 'Include name and fingerprint' }).click();
    await page.getByText(/is asked for the files of .*fingerprint [0-9a-f]{16}/).waitFor();
    const namedLink = await link();
    assert.match(namedLink, /shown=disk:[0-9a-f]{16}\/[\w.-]+/);
    const oldFinding = await findingText(page);
    // The page asks a reader of the link for the same files, and requests nothing from the hub.
    const otherPage = await stage.open(new URL(namedLink).hash.slice(1), { waits: false });
    await otherPage.waitForSelector('#open[open]');
    assert.match(
      await text(otherPage, '#open'),
      /on that of whoever shared the link.*Choose the same files/s,
    );
    await drop(otherPage, await folderOf('softmax'));
    await otherPage.waitForSelector('.open-error:not([hidden])');
    assert.match(
      await errorText(otherPage),
      /expected the files that the link names, fingerprint [0-9a-f]{16}, found [0-9a-f]{16}/,
    );
    await drop(otherPage, await folderOf('sigmoid'));
    await untilFromDisk(otherPage);
    assert.equal(await findingText(otherPage), oldFinding);
    // After the reader has declined, the page does not ask again, but the reader may still open the model.
    const thirdPage = await stage.open(new URL(namedLink).hash.slice(1), { waits: false });
    await thirdPage.waitForSelector('#open[open]');
    await thirdPage.getByRole('button', { name: 'Not now' }).click();
    const openButtons = thirdPage.getByRole('button', { name: /^Open / });
    await openButtons.last().click();
    await thirdPage.waitForSelector('#open[open]');
    assert.match(await text(thirdPage, '#open'), /on that of whoever shared the link/);
    assert.equal(hub.log.length, 0);
    assert.deepEqual(troublesOf(page, hub), []);
  },

  async 'a dropped folder with links, and with names from right to left, opens its model'(stage) {
    // Arabic letters, and a sign that turns the order of what follows around.
    const name = 'نموذج \u202Erosnetefas';
    const outer = await mkdtemp(`${tmpdir()}/sinkscope-drop-`);
    try {
      const folder = `${outer}/${name}`;
      await mkdir(folder);
      for (const path of zoo('sigmoid')) await cp(path, `${folder}/${basename(path)}`);
      await symlink('.', `${folder}/loop`);
      await symlink('/nowhere/at/all', `${folder}/broken.safetensors`);
      await symlink(`${root}models/zoo/softmax`, `${folder}/other`);
      const { page, hub } = await openPage(stage);
      const session = await page.context().newCDPSession(page);
      const data = { items: [], files: [folder], dragOperationsMask: 1 };
      for (const type of ['dragEnter', 'dragOver', 'drop'])
        await session.send('Input.dispatchDragEvent', { type, x: 300, y: 300, data });
      await untilFromDisk(page);
      assert.match(await text(page, '.subject-list'), new RegExp(`\u2068${name.slice(0, 5)}`));
      assert.doesNotMatch(await text(page, '.subject-list'), /\u202E/);
      assert.deepEqual(troublesOf(page, hub), []);
    } finally {
      await rm(outer, { recursive: true });
    }
  },

  async 'a base model without an output head has no view of its predictions, and the page says so'(
    stage,
  ) {
    const { page, hub } = await openPage(stage);
    const folder = `${root}tests/golden/hf-llama-base`;
    const names = ['config.json', 'model.safetensors'];
    const bytes = await Promise.all(names.map((name) => readFile(`${folder}/${name}`)));
    await drop(page, Object.fromEntries(names.map((name, i) => [name, bytes[i]])));
    await page.waitForFunction(() =>
      /expected token ids such as 1, 2, 3/.test(document.querySelector('.trouble')?.textContent),
    );
    await page.fill('textarea', '1, 17, 39, 5, 8, 60, 2, 33, 21, 4');
    await page.waitForFunction(() => document.querySelectorAll('.chip').length === 10);
    await settled(page);
    assert.match(await text(page, '[data-headless]'), /no output head \(lm_head\)/);
    assert.equal(await page.getByText('Generate text').count(), 0);
    const titles = [];
    await everyTab(page, async (title) => {
      titles.push(title.trim());
      assert.deepEqual(troublesOf(page, hub), [], title);
      assert.equal(await page.locator('.trouble').count(), 0, title);
      assert.doesNotMatch(await page.locator('main').innerText(), /NaN|undefined/, title);
    });
    for (const absent of ['Next token', 'Each head', 'Each token', 'Tasks'])
      assert.ok(!titles.includes(absent), absent);
    assert.ok(titles.includes('All heads') && titles.includes('Norms'), String(titles));
  },

  async 'a tokenizer that never ends is stopped without freezing the page'(stage) {
    const { page } = await openPage(stage);
    const files = await folderOf('sigmoid');
    const tokenizer = JSON.parse(files['tokenizer.json']);
    const pattern = { Regex: '(?:[a-z ,.]|[a-z ,.]){40}#' };
    const split = { type: 'Split', pattern, behavior: 'Isolated', invert: false };
    const pretokenizers = [split, { ...tokenizer.pre_tokenizer, use_regex: false }];
    tokenizer.pre_tokenizer = { type: 'Sequence', pretokenizers };
    files['tokenizer.json'] = Buffer.from(JSON.stringify(tokenizer));
    await drop(page, files);
    await page.evaluate(() => {
      globalThis.longest = 0;
      let lastTime = performance.now();
      setInterval(() => {
        const now = performance.now();
        globalThis.longest = Math.max(globalThis.longest, now - lastTime);
        lastTime = now;
      }, 20);
    });
    const message = page.getByText(
      /expected an answer within [\d.]+ s, none came.*machine may be busy/,
    );
    await message.first().waitFor({ timeout: 240_000 });
    await page.getByRole('button', { name: 'Wait longer' }).waitFor();
    const longest = await page.evaluate(() => globalThis.longest);
    // The tokenizer is stopped after five seconds; in the page's own thread, that wait would freeze the page.
    assert.ok(longest < 5000, `the page froze for ${longest} ms`);
    await page.evaluate(() => (location.hash = '#room=explore&shown=softmax'));
    await page.waitForFunction(() =>
      /on weights trained for this page/.test(document.querySelector('.about')?.textContent),
    );
    await settled(page);
    assert.match(await stampText(page), /MEASURED/);
    return `the longest pause of the page was ${Math.round(longest)} ms`;
  },

  async 'a GGUF file opens directly, and gives the numbers of the model it was made from'(stage) {
    const { page, hub } = await openPage(stage);
    const oldFinding = await findingText(page);
    await ask(page, 'What does the head write?', 'Next token');
    await page.waitForSelector('.next li');
    await settled(page);
    const words = await page.locator('.chip').allTextContents();
    const next = await text(page, '.next');
    await page.evaluate(() => {
      const { postMessage } = Worker.prototype;
      globalThis.opened = 0;
      Worker.prototype.postMessage = function (message, ...rest) {
        if (message?.name === 'open') globalThis.opened++;
        return postMessage.call(this, message, ...rest);
      };
    });
    const buffer = await ggufOfZoo('softmax');
    const file = { name: 'twin.F16.gguf', mimeType: 'application/octet-stream', buffer };
    await openFiles(page, file);
    await untilFromDisk(page);
    assert.match(await text(page, '[data-view="next"] .stamp'), /twin\.F16\.gguf/);
    // This file does not state that its tokenizer adds the start token, so the page adds none.
    assert.match(await text(page, '.starts'), /no start token: add /);
    await openSection(page, 'settings');
    await page.locator('.starts').click();
    await settled(page);
    assert.deepEqual(await page.locator('.chip').allTextContents(), words);
    assert.equal(await text(page, '.next'), next);
    await ask(page, 'Where does attention go?');
    await page.waitForSelector(STAMP);
    await settled(page);
    assert.match(await stampText(page), /twin\.F16\.gguf/);
    assert.equal(await findingText(page), oldFinding);
    assert.equal(await page.evaluate(() => globalThis.opened), 1, 'a model is read once');
    // After a reload the page asks for the file, and shows no other model in its place.
    await page.waitForFunction(() => !location.hash.includes('view=next'));
    await page.reload();
    await page.locator('#open').getByText('twin.F16.gguf').first().waitFor();
    await openFiles(page, file);
    await untilFromDisk(page);
    assert.match(await stampText(page), /twin\.F16\.gguf/);
    assert.deepEqual(troublesOf(page, hub), []);
  },

  async 'the slider of the training room loads the checkpoints of a Pythia in turn'(stage) {
    const { page, hub } = await openPage(stage);
    await load(page, 'EleutherAI/pythia-14m@step0');
    await page.getByRole('link', { name: 'Training', exact: true }).click();
    await page.waitForSelector('.walk input');
    const slider = page.locator('.walk input');
    const waitForShownStep = (step) => waitForStep(page, step);
    await waitForShownStep(0);
    await slider.focus();
    await page.keyboard.press('ArrowRight');
    await waitForShownStep(1);
    await page.keyboard.press('End');
    await waitForShownStep(143000);
    await settled(page);
    assert.match(
      await text(page, '[data-view="training"] .chart-key'),
      /pythia-14m, visited steps/,
    );
    await page.waitForFunction(() =>
      /shown=hub:EleutherAI\/pythia-14m@step143000/.test(decodeURIComponent(location.hash)),
    );
    await page.keyboard.press('ArrowLeft');
    await page.waitForFunction(() =>
      /step142000/.test(document.querySelector('.trouble')?.textContent),
    );
    await page.keyboard.press('Home');
    await waitForShownStep(0);
    await pauseAtStep(page, 1);
    await page.getByRole('button', { name: 'Play' }).click();
    await waitForShownStep(1);
    assert.deepEqual(await violations(page), []);
    assert.equal(hub.seen(WEIGHTS, 'cdn').length, 3, 'each checkpoint was fetched once');
  },
};

Object.assign(
  open,
  inAllSizes(
    'the dialog',
    async (stage) => (await openPage(stage, 'room=explore', { scheme: 'dark' })).page,
    checkLooks,
  ),
);
