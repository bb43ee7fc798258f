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
    assert.match(await text(page, 'h1'), /^A model can forget old words, but not the first token/);
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
    assert.match(await findingOf(page), /predictions get worse .* Keep that one token/);
    assert.match(await text(page, '.chart-picture'), /first token leaves/);
    assert.equal(await page.locator('[data-view="loss"] .cell').count(), 1);
    assert.equal(await page.locator('[data-view="attention"] .cell').count(), 2);
    assert.match(
      await text(page, '[data-view="attention"]'),
      /last 24 \(no first\)\s*others 100%.*▼ <s> until token 24.*first 1 \+ last 23\s*<s> 9\d%, others \d%.*▼ <s>/s,
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
    assert.deepEqual(ownNames.sort(), ['all tokens', 'first 1 + last 40', 'last 41 (no first)']);
    await page.waitForFunction(() => location.hash.includes('recentKeys=40'));
    // Learned positions cannot be moved: the page says so and keeps the last figure.
    const movedPage = await enter(
      stage,
      'room=purpose&runs=2&length=40&recentKeys=9&shown=learned-positions',
    );
    assert.match(await findingOf(movedPage), /last 10 keys|Drop/);
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

  async 'streaming continues beyond the trained length with positions in the cache'(stage) {
    const page = await enter(stage, 'room=purpose&shown=softmax&runs=1&length=300&positions=cache');
    assert.match(await text(page, '[data-view="loss"]'), /first 1 \+ last 23, cache positions/);
    assert.match(await text(page, '.question .hint'), /Only 128 tokens ran without eviction/);
    const ticks = await page.locator('.chart-picture text').allTextContents();
    assert.ok(ticks.includes('250'), `the axis continues beyond the trained 128: ${ticks}`);
    // The file of a reader counts as one text, even if it has several lines.
    await page.getByLabel('prompts from').selectOption('file');
    const passages = JSON.parse(await readFile(`${root}models/zoo/heldout.json`, 'utf8'));
    const fileInput = page.locator('.prompt-file input');
    const broken = Buffer.from([0xff, 0xfe, 0xff]);
    await fileInput.setInputFiles({ name: 'bytes.txt', mimeType: 'text/plain', buffer: broken });
    await page.locator('.message').filter({ hasText: 'bytes.txt: expected UTF-8' }).waitFor();
    await fileInput.setInputFiles({
      name: 'book.txt',
      mimeType: 'text/plain',
      buffer: Buffer.from(passages.slice(0, 20).join('\n')),
    });
    await page.getByLabel('split', { exact: true }).selectOption('whole');
    await page.getByLabel('tokens ≤').fill('60000');
    await page.getByLabel('tokens ≤').press('Enter');
    await page.waitForFunction(() =>
      /^2,\d\d\d tokens/.test(document.querySelector('[data-finding]').textContent.trim()),
    );
    await page.getByLabel('tokens ≤').fill('300');
    await page.getByLabel('tokens ≤').press('Enter');
    await page.waitForFunction(() =>
      /^300 tokens/.test(document.querySelector('[data-finding]').textContent.trim()),
    );
    assert.match(await text(page, '.prompt-file'), /book\.txt:\s+1 text/);
    const message = page.locator('.message').filter({ hasText: 'bytes.txt' });
    assert.equal(await message.isVisible(), false, 'a good file ends the message about a bad one');
    assert.deepEqual(page.troubles, []);
  },

  async 'streaming runs a long text in little memory, and states the memory that it needs'(stage) {
    const page = await enter(stage, 'room=purpose&shown=softmax&runs=1');
    await page.getByLabel('a text of 4,000 tokens').click();
    await page.waitForFunction(() => /length=4000/.test(location.hash));
    await settled(page);
    const sentence = await findingOf(page);
    const [, window, kept] =
      /4,000 tokens, 31 times the context of the softmax model, with the last 24 keys.* Softmax model: ([\d.]+) nats per token; ([\d.]+) when the cache also keeps the first token\./.exec(
        sentence,
      );
    assert.ok(Number(window) - Number(kept) > 0.1, sentence);
    const [, held, all] =
      /the run needs ([\d.]+) MB of memory; keeping every key would need (\d+) MB/.exec(sentence);
    assert.ok(Number(held) < 3 && Number(all) > 25, sentence);
    assert.deepEqual(await column(page, 5), ['128', '4,000', '4,000']);
    // The embed code would run with all keys, so the figure offers none.
    assert.ok(await page.locator('[data-view="loss"] .code').isHidden());
    await page.getByLabel('a text of 4,000 tokens').click();
    await settled(page);
    assert.match(await text(page, 'h1'), /^A model can forget old words, but not the first token/);
    assert.deepEqual(page.troubles, []);
    return sentence;
  },

  async 'the cache experiment shows which heads keep the first token, and names an invalid budget'(
    stage,
  ) {
    const page = await enter(
      stage,
      'room=purpose&experiment=cache&shown=softmax&runs=2&length=64&budget=16&policy=window',
    );
    const mapTitles = () => page.locator('[data-view="attention"] .setting').allTextContents();
    assert.deepEqual(await mapTitles(), ['last 16 (no first)']);
    await page.getByLabel('rule', { exact: true }).selectOption('tova');
    await settled(page);
    assert.deepEqual(await mapTitles(), [
      ...['last 16 (no first)', 'the keys the last query attends to (TOVA), 16 keys'],
    ]);
    const names = await page.locator('[data-view="sweep"] .name').allTextContents();
    assert.deepEqual(names.sort(), [...['H2O', 'LRU', 'TOVA'], 'first + recent', 'most recent']);
    await page.getByRole('button', { name: 'KL', exact: true }).click();
    assert.match(await text(page, '.chart-picture .axis'), /KL to the baseline/);
    assert.match(
      await findingOf(page),
      /The KV cache of the softmax model has room for 16 tokens; 5 rules choose which\. /s,
    );
    const invalidPage = await stage.open(
      'room=purpose&experiment=cache&shown=softmax&runs=1&length=32&policy=nose',
    );
    assert.match(
      await text(invalidPage, '.message'),
      /policy the value “nose”, which it cannot have/,
    );
    const embed = await stage.open('view=cache&shown=softmax', {
      file: 'embed.html',
      waits: false,
    });
    await embed.waitForFunction(() => /does not apply to/.test(document.body.textContent));
    assert.deepEqual([...page.troubles, ...invalidPage.troubles, ...embed.troubles], []);
    return findingOf(page);
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

  async 'in quantization the first token stretches the scale of the softmax model only'(stage) {
    const page = await enter(stage, 'room=purpose&experiment=quantization&runs=2&length=64');
    const risesIn = (words) =>
      [...words.matchAll(/[+−](\d+\.\d+)/g)].map(([, rise]) => Number(rise));
    const [cost, keptCost] = risesIn(await findingOf(page));
    const [otherCost] = risesIn(await text(page, '.experiment-notes p'));
    assert.ok(cost > 0.3 && keptCost < cost / 5, `softmax ${cost} and ${keptCost}`);
    assert.ok(otherCost < cost / 5, `sigmoid ${otherCost}`);
    await page.getByRole('button', { name: 'Error', exact: true }).first().click();
    assert.match(await text(page, '.chart-picture .axis'), /rounding error/);
    // Weights belong to no token, so no token can be kept exact.
    await page.locator('.experiment-controls select').first().selectOption('weights');
    await settled(page);
    assert.match(
      await findingOf(page),
      /Weights in 6 bits, one scale per matrix: the loss of the softmax model changes by [+−]0\.\d+ nats.* \(rounding error [1-9]%\)\./,
    );
    assert.equal(await page.getByText('first tokens exact').count(), 0);
    assert.deepEqual(page.troubles, []);
    return findingOf(page);
  },

  async 'fragility compares repeated tokens, a channel and a weight with random ones'(stage) {
    // The page opens in Start, whose frames lack the numbers that this experiment needs.
    const page = await stage.open('experiment=fragility&runs=2&repeats=40&perturbation=channel');
    await page.getByRole('link', { name: 'Why it matters' }).click();
    await page.waitForSelector('[data-view="perturbations"] .chart-picture >> visible=true');
    await page.getByText('Settings', { exact: true }).click();
    await page.getByRole('button', { name: 'repeat a token' }).click();
    await page.waitForSelector('[data-view="likeness"] .chart-picture');
    await settled(page);
    // A repeated word becomes no second sink, a repeated start token does, and the sigmoid twin has no sink to copy.
    assert.match(
      await findingOf(page),
      /Half as long or more: of 40 copies of a random word none, of 40 copies of “<s>” all, of 119 ordinary tokens none/s,
    );
    assert.match(
      await text(page, '.experiment-notes'),
      /Softmax model, .* on “<s>”, repeated 0\.0%.*Sigmoid model, .* repeated 0\.0%/s,
    );
    await page.locator('[data-view="likeness"] .how summary').click();
    await page.locator('[data-view="likeness"] .code').click();
    const code = await page.locator('.embed-dialog textarea').inputValue();
    for (const part of ['shown="softmax"', 'view="likeness"', 'input="repeat"', 't="41"'])
      assert.ok(code.includes(` ${part}`), code);
    await page.locator('.embed-dialog').getByLabel('Close').click();
    for (const [name, view] of [
      [
        'zero a channel',
        /Zeroing the channel with the largest activation changes the loss of .* 5 random ones by at most/s,
      ],
      [
        'zero a weight',
        /Zeroing the weight that writes the largest activation changes the loss of .* 5 random ones by at most/s,
      ],
    ]) {
      await page.getByRole('button', { name }).click();
      await page.waitForSelector('[data-view="perturbations"] .chart-picture >> visible=true');
      await settled(page);
      assert.match(await findingOf(page), view);
    }
    assert.match(await text(page, '.badge'), /COUNTERFACTUAL/);
    assert.deepEqual(page.troubles, []);
    return findingOf(page);
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
