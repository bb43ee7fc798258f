/** Tests the experiments of “Why it matters”: the numbers of each, its refusals, and that it can be stopped. */
import assert from 'node:assert/strict';
import { goTo, pictures, saveFrom, settled, staysWithin, text, violations } from './stage.mjs';

/** Opens the room with its folded sections open. */
async function enter(stage, hash, options) {
  const page = await stage.open(hash, options);
  await page.waitForSelector('.room-purpose .experiments', { state: 'attached' });
  await page.$$eval('.room-purpose details.more', (all) => all.forEach((one) => (one.open = true)));
  return page;
}

const findingOf = (page) => text(page, '[data-finding]');

const column = (page, n) => page.locator(`.settings tbody tr > :nth-child(${n})`).allTextContents();

export const experiments = {
  async 'streaming shows losses, a sentence about them, and models that it refuses'(stage) {
    const page = await enter(stage, 'room=purpose&runs=3');
    assert.match(
      await text(page, '.room-head h2'),
      /^Forget old words, but keep <s>: [\d.]+% worse, not \d+%/,
    );
    const [, window, first] = (await column(page, 3)).map(parseFloat);
    assert.ok(first < window, await findingOf(page));
    assert.match(
      await findingOf(page),
      /^The softmax model shows the same; its first token is <s>.* It keeps 24 tokens\..* a blind guess is [\d,]+% worse than unchanged/,
    );
    assert.match(await text(page, '.chart-picture'), /first token leaves/);
    assert.equal(await page.locator('[data-view="loss"] .cell').count(), 1);
    assert.equal(await page.locator('[data-view="attention"] .cell').count(), 2);
    assert.match(
      await text(page, '[data-view="attention"]'),
      /last 24 tokens\s*Softmax model, head L\dH\d.*▼ <s> until 24, then others 100%.*first 1 \+ last 23\s*Softmax model, head L\dH\d.*▼ <s> gets 9\d%, others \d%/s,
    );
    const menu = page.locator('[data-view="loss"] .save');
    const savedJson = JSON.parse((await saveFrom(page, menu, 'JSON')).bytes);
    assert.equal(savedJson.corpus.file, 'zoo/heldout-long.json');
    assert.deepEqual(savedJson.subjects[1].edits, [
      { kind: 'evict', policy: 'window', budget: 24 },
    ]);
    await page.getByLabel('keep last').fill('40');
    await settled(page);
    const names = await page.locator('[data-view="loss"] .name').allTextContents();
    const ownNames = names.map((name) => name.replace(/: [+−].*/, ''));
    assert.deepEqual(ownNames.sort(), ['all tokens', 'first 1 + last 40', 'last 41 tokens']);
    await page.waitForFunction(() => location.hash.includes('recentKeys=40'));
    // Learned positions cannot be moved: the page says so and keeps the last figure.
    const movedPage = await enter(
      stage,
      'room=purpose&runs=2&length=40&recentKeys=9&shown=learned-positions',
    );
    assert.match(await findingOf(movedPage), /It keeps 10 tokens\./);
    await movedPage.locator('.experiment-controls select').selectOption('cache');
    await movedPage.waitForSelector('.trouble');
    await settled(movedPage);
    assert.match(
      await text(movedPage, '.trouble'),
      /have no positions in them.*The last good result is shown/s,
    );
    assert.equal(await movedPage.locator('[data-view="loss"] .cell').count(), 1);
    const invalidPage = await stage.open('room=purpose&runs=2&length=40&firstKeys=99', {
      waits: false,
    });
    await invalidPage.waitForSelector('.settings', { state: 'attached' });
    assert.match(
      await text(invalidPage, '.message'),
      /firstKeys the value “99”, which it cannot have/,
    );
    assert.deepEqual([...page.troubles, ...movedPage.troubles, ...invalidPage.troubles], []);
    return findingOf(page);
  },

  async 'streaming runs a long text in little memory, and states the memory that it needs'(stage) {
    const page = await enter(stage, 'room=purpose&shown=softmax&runs=1');
    await page.getByLabel('a text of 4,000 tokens').click();
    await page.waitForFunction(() => /length=4000/.test(location.hash));
    await settled(page);
    const sentence = await findingOf(page);
    const [, window, kept] =
      /4,000 tokens, 31 times the context of the softmax model, with the last 24 tokens.* Softmax model: ([\d.]+) nats per token; ([\d.]+) when the cache also keeps the first token\./.exec(
        sentence,
      );
    assert.ok(Number(window) - Number(kept) > 0.1, sentence);
    const [, held, all] =
      /the run needs ([\d.]+) MB of memory; keeping every token would need (\d+) MB/.exec(sentence);
    assert.ok(Number(held) < 3 && Number(all) > 25, sentence);
    assert.deepEqual(await column(page, 5), ['128', '4,000', '4,000']);
    // The embed code would run with all keys, so the figure offers none.
    assert.ok(await page.locator('[data-view="loss"] .code').isHidden());
    await page.getByLabel('a text of 4,000 tokens').click();
    await settled(page);
    assert.match(
      await text(page, '.room-head h2'),
      /^Forget old words, but keep <s>: [\d.]+% worse, not \d+%/,
    );
    assert.deepEqual(page.troubles, []);
    return sentence;
  },

  async 'a sweep reports its progress, stops on request, and continues on request'(stage) {
    const page = await stage.open(
      'room=purpose&experiment=cache&shown=softmax&runs=20&length=100&sweep=all',
      { waits: false },
    );
    const waitForProgress = () =>
      page.waitForFunction(() =>
        /Softmax model, \d+ of \d\d settings/.test(document.querySelector('.progress').textContent),
      );
    await waitForProgress();
    // The progress covers no recorded text: it shows beside the small models.
    assert.ok(await page.locator('.progress').isHidden());
    await page.locator('.live').evaluate((live) => live.scrollIntoView());
    await page.locator('.progress button').click();
    await settled(page);
    assert.match(await text(page, '.trouble'), /^\s*Softmax model: Stopped\.[^:]*$/);
    await page.locator('.trouble button').click();
    await waitForProgress();
    assert.deepEqual(page.troubles, []);
  },

  async 'every experiment and its table fit a phone, and pass axe'(stage) {
    const page = await stage.open('room=purpose&runs=1&length=40', { width: 390 });
    for (const experiment of ['streaming', 'cache', 'quantization', 'fragility']) {
      await page.setViewportSize({ width: 390, height: 900 });
      await goTo(page, `room=purpose&experiment=${experiment}&shown=softmax&runs=2&length=48`);
      await page.locator('.settings tbody tr').first().waitFor({ state: 'attached' });
      await settled(page);
      await staysWithin(page, 390, experiment);
      await page.screenshot({ path: `${pictures}/${experiment}-390.png`, fullPage: true });
      assert.deepEqual(await violations(page), [], experiment);
      await page.locator('details:has(.settings)').evaluate((details) => (details.open = true));
      const [inside, place] = await page
        .locator('.table-place:has(.settings)')
        .evaluate((region) => [region.scrollWidth, region.clientWidth]);
      assert.ok(
        experiment === 'fragility' || inside <= place,
        `${experiment}: ${inside} px in ${place}`,
      );
      await page.setViewportSize({ width: 320, height: 700 });
      await staysWithin(page, 320, experiment);
    }
  },
};
