/** Tests visits that a browser or a reader interrupts: history, a frozen or discarded tab, two tabs, a full disk, many models. */
import assert from 'node:assert/strict';
import { smallLab, trainButton, waitUntilPaused } from './lab.mjs';
import { CHROMIUM, chromium, settled, text, until } from './stage.mjs';

const LAB = smallLab();

/** Trains until the end, and returns the lab's sentence. */
async function trainToEnd(page) {
  // Looks and presses at once: a short training may end between the two.
  await page.evaluate(() => {
    const button = document.querySelector('.lab-buttons .train');
    if (/^(Skip the guess|Train|Continue)$/.test(button.textContent.trim())) button.click();
  });
  await page.waitForFunction(() =>
    /Train more/.test(document.querySelector('.train')?.textContent),
  );
  await settled(page);
  return text(page, '.lab-numbers');
}

async function openLab(stage, hash = LAB) {
  const page = await stage.open(hash, { waits: false });
  await waitUntilPaused(page);
  return page;
}

export const visits = {
  async 'a page that the history brings back goes on, and its training with it'(stage) {
    // Playwright turns the cache of left pages off.
    const browser = await chromium.launch({
      ...CHROMIUM,
      ignoreDefaultArgs: ['--disable-back-forward-cache'],
    });
    try {
      const page = await browser.newPage();
      await page.goto(`${stage.origin}/index.html#${LAB}`);
      await waitUntilPaused(page);
      await trainButton(page).click();
      await page.waitForFunction(
        () => Number(document.querySelector('.lab-step strong').textContent) > 2,
      );
      await page.goto(`${stage.origin}/learn/index.html`);
      await page.goBack();
      await waitUntilPaused(page);
      assert.match(await trainToEnd(page), /\d/);
      assert.match(await text(page, '.lab-step'), /step 40 of 40/);
    } finally {
      await browser.close();
    }
  },

  async 'a tab that the browser freezes trains on when it wakes'(stage) {
    const page = await openLab(stage);
    const session = await page.context().newCDPSession(page);
    await trainButton(page).click();
    await trainButton(page).waitFor({ state: 'detached' });
    await session.send('Page.setWebLifecycleState', { state: 'frozen' });
    await session.send('Page.setWebLifecycleState', { state: 'active' });
    await trainToEnd(page);
    assert.match(await text(page, '.lab-step'), /step 40 of 40/);
    assert.deepEqual(page.troubles, []);
  },

  async 'a tab that the browser discards while it is hidden continues its training at the next visit'(
    stage,
  ) {
    const slow = 'width:32,length:32,batch:16,steps:20000';
    const page = await openLab(stage, `room=lab&leftRun=${slow}&rightRun=operation:relu,${slow}`);
    const stepOf = (tab) =>
      tab.evaluate(() => Number(document.querySelector('.lab-step strong').textContent));
    await trainButton(page).click();
    await until(async () => (await stepOf(page)) > 4);
    await page.evaluate(() => {
      Object.defineProperty(document, 'hidden', { value: true });
      document.dispatchEvent(new Event('visibilitychange'));
    });
    await trainButton(page).waitFor();
    const step = await stepOf(page);
    // A discarded tab gets no event, as one that crashes.
    const session = await page.context().newCDPSession(page);
    const gone = page.waitForEvent('crash');
    session.send('Page.crash').catch(() => {});
    await gone;
    const nextVisit = await page.context().newPage();
    await nextVisit.goto(page.url());
    await waitUntilPaused(nextVisit);
    assert.equal(await stepOf(nextVisit), step);
    await nextVisit.getByRole('button', { name: 'Continue', exact: true }).click();
    await until(async () => (await stepOf(nextVisit)) > step);
  },

  async 'two tabs that train the same models end with the same numbers, also after a reload'(
    stage,
  ) {
    const page = await openLab(stage);
    const other = await page.context().newPage();
    await other.goto(page.url());
    await waitUntilPaused(other);
    const sentences = await Promise.all([page, other].map(trainToEnd));
    assert.equal(sentences[0], sentences[1]);
    await page.reload();
    await waitUntilPaused(page);
    assert.equal(await trainToEnd(page), sentences[1]);
    assert.deepEqual(page.troubles, []);
  },

  async 'a lab whose storage is full trains to its end'(stage) {
    const page = await openLab(stage);
    const session = await page.context().newCDPSession(page);
    await session.send('Storage.overrideQuotaForOrigin', { origin: stage.origin, quotaSize: 1 });
    assert.match(await trainToEnd(page), /\d/);
    assert.match(await text(page, '.lab-step'), /step 40 of 40/);
    assert.deepEqual(page.troubles, []);
  },

  async 'sixty changes of the model leave the last one on the page, and few workers'(stage) {
    const page = await stage.open('room=explore&shown=softmax');
    const workers = page.workers().length;
    const names = ['sigmoid', 'relu', 'softmax1', 'small', 'softmax'];
    for (let i = 0; i < 60; i++) {
      const hash = `#room=explore&shown=${names[i % names.length]}`;
      await page.evaluate((next) => (location.hash = next), hash);
      if (i % 20 === 0) await settled(page);
    }
    await settled(page);
    assert.match(await text(page, '.subject-list'), /Softmax model/);
    assert.match(await text(page, '[data-finding]'), /\d/);
    assert.ok(page.workers().length <= workers + 1, `${page.workers().length} workers`);
    assert.deepEqual(page.troubles, []);
  },
};
