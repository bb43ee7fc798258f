/** Tests the experiments of “Why it matters”: the numbers of each, its refusals, and that it can be stopped. */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { pictures, root, saveFrom, settled, staysWithin, text, violations } from './stage.mjs';

/** Opens the room with its folded sections open. */
async function enter(stage, hash, options) {
  const page = await stage.open(hash, options);
  await page.waitForSelector('.room-purpose .experiments', { state: 'attached' });
  await page.$$eval('.room-purpose details.more', (all) => all.forEach((one) => (one.open = true)));
  return page;
}

const findingOf = (page) => text(page, '[data-finding]');

const column = (page, n) => page.locator(`.settings tbody tr > :nth-child(${n})`).allTextContents();

async function measureByCommand(folder, edit, sequences) {
  const passages = JSON.parse(await readFile(`${root}models/zoo/heldout-long.json`, 'utf8'));
  const file = join(folder, 'passages.txt');
  await writeFile(file, passages.join('\n'));
  const textOptions = ['--text-file', file, '--lines', '--tokens', '120', '--sequences', sequences];
  const { stdout } = await promisify(execFile)(process.execPath, [
    `${root}wasm/cli.js`,
    'measure',
    `${root}models/zoo/softmax`,
    ...[...textOptions, '--special', '<s>', '--json'].map(String),
    ...(edit ? ['--edit', edit] : []),
  ]);
  return JSON.parse(stdout).metrics.loss_mean.mean[0];
}

export const experiments = {
  async 'streaming shows the numbers of the command line, a sentence about them, and models that it refuses'(
    stage,
  ) {
    const page = await enter(stage, 'room=purpose&runs=3');
    assert.match(
      await text(page, '.room-head h2'),
      /^Forget old words, but keep <s>: [\d.]+% worse, not \d+%/,
    );
    const folder = await mkdtemp(join(tmpdir(), 'sinkscope-'));
    const [whole, window, first] = await Promise.all([
      measureByCommand(folder, '', 3),
      measureByCommand(folder, 'evict(policy=window,budget=24)', 3),
      measureByCommand(folder, 'evict(policy=first,first=1,budget=24)', 3),
    ]).finally(() => rm(folder, { recursive: true }));
    const losses = (await column(page, 3)).map((cell) => cell.trim());
    assert.deepEqual(
      losses.slice(0, 3),
      [whole, window, first].map((loss) => `${loss.toFixed(3)} (3)`),
    );
    assert.ok(first < window, await findingOf(page));
    assert.match(
      await findingOf(page),
      /with only the last 24 tokens the softmax model predicts \d+% worse, as if it guessed among \d+ tokens/,
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
    assert.match(await findingOf(movedPage), /last 10 tokens/);
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
      {
        waits: false,
      },
    );
    const waitForProgress = () =>
      page.waitForFunction(() =>
        /Softmax model, \d+ of \d\d settings/.test(document.querySelector('.progress').textContent),
      );
    await waitForProgress();
    await page.locator('.progress button').click();
    await settled(page);
    assert.match(await text(page, '.trouble'), /^\s*Softmax model: Stopped\.[^:]*$/);
    await page.locator('.trouble button').click();
    await waitForProgress();
    assert.deepEqual(page.troubles, []);
  },

  async 'every experiment fits a phone and passes axe'(stage) {
    for (const experiment of ['cache', 'quantization', 'fragility']) {
      const page = await stage.open(
        `room=purpose&experiment=${experiment}&shown=softmax&runs=1&length=40`,
        {
          width: 390,
        },
      );
      await staysWithin(page, 390, experiment);
      await page.screenshot({ path: `${pictures}/${experiment}-390.png`, fullPage: true });
      assert.deepEqual(await violations(page), [], experiment);
      await page.setViewportSize({ width: 320, height: 700 });
      await staysWithin(page, 320, experiment);
      await page.context().close();
    }
  },

  async 'the table of Why it matters fits a phone'(stage) {
    for (const experiment of ['streaming', 'cache', 'quantization']) {
      const page = await stage.open(`room=purpose&experiment=${experiment}&runs=2&length=48`, {
        width: 390,
        waits: false,
      });
      await page.locator('.settings tbody tr').first().waitFor({ state: 'attached' });
      await settled(page);
      await page.locator('details:has(.settings)').evaluate((details) => (details.open = true));
      const [inside, place] = await page
        .locator('.table-place:has(.settings)')
        .evaluate((region) => [region.scrollWidth, region.clientWidth]);
      assert.ok(inside <= place, `${experiment}: ${inside} px in ${place}`);
      await page.close();
    }
  },
};
