/** The comparison and its study: the numbers of the zoo's cards, and what a reader does with them. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { lookUp, openPage } from './open.mjs';
import {
  inAllSizes,
  pictures,
  root,
  saveFrom,
  settled,
  staysWithin,
  violations,
} from './stage.mjs';

const cards = JSON.parse(readFileSync(`${root}models/zoo/index.json`, 'utf8'));
const THREE = ['softmax', 'sigmoid', 'sigmoid-norm'];

/** A comparison of which every model has been looked at. */
async function open(stage, hash, options = {}) {
  const page = await stage.open(hash, { ...options, waits: false });
  await page.waitForSelector('#compare .metrics');
  await idle(page);
  return page;
}

const rows = (page) => page.locator('.metrics tbody:not(.reported-rows) tr');

/** Nothing is measured, and all that is picked has been. */
async function idle(page) {
  await page.waitForFunction(() => {
    const compare = document.querySelector('#compare');
    const named = new URLSearchParams(location.hash.slice(1)).get('compare').split(',').length;
    // Where there are checkboxes they are ahead of the link.
    const picked = compare.querySelectorAll('.pick.picked').length || named;
    const failed = compare.querySelector('.compare-messages').textContent.trim();
    const made = compare.querySelectorAll('.metrics tr[data-pick]:not(.stale)').length;
    return !('busy' in compare.dataset) && (made === picked || failed);
  });
  await page.evaluate(
    () => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))),
  );
}

async function study(page, n) {
  const field = page.getByLabel('prompts n');
  await field.fill(String(n));
  await field.press('Enter');
  await page.getByRole('button', { name: 'Run the study' }).click();
  const isDone = (wanted) =>
    [...document.querySelectorAll('.metrics tr[data-pick] .row-class')].every((one) =>
      new RegExp(`\\b${wanted} prompts?`).test(one.textContent),
    );
  await page.waitForFunction(isDone, n);
  await idle(page);
}

async function save(page, name) {
  const coming = page.waitForEvent('download');
  await page.locator('.study-saves').getByRole('button', { name, exact: true }).click();
  const download = await coming;
  const text = (await readFile(await download.path())).toString();
  return { name: download.suggestedFilename(), text };
}

const order = (page) => rows(page).evaluateAll((all) => all.map((one) => one.dataset.pick));
const sorting = (page) =>
  page.locator('.metrics thead th').evaluateAll((all) => all.map((one) => one.ariaSort));

export const comparing = {
  async 'a study of the held-out passages finds what the cards say'(stage) {
    const page = await open(stage, `compare=${THREE.join()}`);
    await study(page, 100);
    const made = JSON.parse((await save(page, 'JSON')).text);
    assert.deepEqual(
      made.models.map((one) => one.pick),
      THREE,
    );
    for (const { pick, table, ...facts } of made.models) {
      const { measured, sha256 } = cards.find(({ id }) => id === pick);
      const { T, eps, sequences, first_tokens, class: kind } = facts;
      assert.deepEqual(
        { T, eps, sequences, first_tokens, kind, sha256: facts.sha256 },
        { T: 64, eps: 0.3, sequences: 100, first_tokens: ['<s>'], kind: 'MEASURED', sha256 },
      );
      // A head that lies on eps may fall on either side: one of a hundred passages' 24.
      const near = (name, by, scale = 1) =>
        assert.ok(
          Math.abs(scale * table[name].mean - measured[name]) <= by,
          `${pick}: ${name} is ${scale * table[name].mean}, the card says ${measured[name]}`,
        );
      near('sink_1', 0.05, 100);
      near('sink_1_raw', 0.05, 100);
      near('sink_elsewhere', 0.05, 100);
      assert.ok(Math.abs(100 * table.sink_1.deviation - measured.sink_1_deviation) <= 0.1);
      for (const name of ['loss', 'alpha_max', 'value_ratio', 'value_ratio_min']) near(name, 0.001);
      near('hidden_ratio', 0.002);
      assert.ok(Math.abs(table.row_mass.mean - measured.row_mass_mean) <= 0.001);
      assert.ok(table.loss.deviation > 0.05);
      const cell = page.locator(`tr[data-pick="${pick}"] [data-metric="sink_1"] .value`);
      const [shown] = (await cell.textContent()).match(/[\d.]+/);
      assert.ok(Math.abs(Number(shown) - measured.sink_1) <= 0.1, `${pick} shows ${shown} %`);
    }
    const caption = await page.textContent('.metrics caption');
    assert.match(caption, /ε = 0\.3 · T = 64 · BOS first/);
    assert.deepEqual(page.troubles, []);
    return made.models.map((one) => `${one.pick} ${(100 * one.table.sink_1.mean).toFixed(2)} %`);
  },

  async 'the files of a study agree with each other and with the page'(stage) {
    const page = await open(stage, 'compare=softmax,softmax~sigmoid&T=16');
    await study(page, 4);
    const { text: csv, name } = await save(page, 'CSV');
    assert.equal(name, 'sinkscope-study.csv');
    const { text: each } = await save(page, 'CSV by prompt');
    const made = JSON.parse((await save(page, 'JSON')).text);
    const cells = (text) =>
      text
        .trimEnd()
        .split('\n')
        .filter((line) => !line.startsWith('#'))
        .map((line) => line.split(','));
    for (const { pick, class: kind, table } of made.models) {
      const line = cells(csv).find(([model, , metric]) => model === pick && metric === 'loss');
      assert.deepEqual(line.slice(1, 4), [kind, 'loss', String(table.loss.mean)]);
      const losses = cells(each)
        .filter(([model]) => model === pick)
        .map((one) => Number(one[6]));
      assert.equal(losses.length, 4);
      assert.ok(Math.abs(losses.reduce((a, b) => a + b) / 4 - table.loss.mean) < 1e-9);
    }
    assert.deepEqual(
      made.models.map((one) => one.class),
      ['MEASURED', 'COUNTERFACTUAL'],
    );
    // The same study gives the same file.
    await study(page, 3);
    await study(page, 4);
    assert.equal((await save(page, 'CSV')).text, csv);
    assert.deepEqual(page.troubles, []);
  },

  async 'a study can be cancelled; what was measured stays, and it can be run again'(stage) {
    const page = await open(stage, 'compare=softmax,sigmoid,elu1');
    await page.getByRole('button', { name: 'Run the study' }).click();
    // Pressed from inside the page, as soon as a few prompts are done.
    await page.evaluate(
      () =>
        new Promise((done) => {
          const look = () => {
            const work = document.querySelector('.study .work')?.textContent ?? '';
            if (!/ ([3-9]|\d\d) of 100/.test(work)) return void requestAnimationFrame(look);
            document.querySelector('.study progress ~ button').click();
            done();
          };
          look();
        }),
    );
    await page.waitForFunction(() => !('busy' in document.querySelector('#compare').dataset));
    await page.waitForTimeout(400);
    const said = (await rows(page).locator('.row-class').allTextContents()).join();
    assert.equal((said.match(/1 prompt\b/g) ?? []).length, 3, said);
    assert.equal(await page.locator('.study progress').count(), 0);
    await study(page, 2);
    assert.deepEqual(page.troubles, []);
  },

  async 'the table is sorted by its headings, by keyboard too'(stage) {
    const page = await open(stage, `compare=${THREE.join()}`);
    assert.deepEqual(await order(page), THREE);
    const loss = page.locator('.metrics thead button', { hasText: 'loss' });
    await loss.focus();
    await page.keyboard.press('Enter');
    await page.waitForSelector('.metrics th[aria-sort="descending"]');
    const value = async (name) => {
      const all = await rows(page).locator(`[data-metric="${name}"] .value`).allTextContents();
      return all.map(parseFloat);
    };
    const falling = await value('loss');
    assert.deepEqual(
      falling,
      [...falling].sort((a, b) => b - a),
    );
    await page.keyboard.press('Enter');
    await page.waitForSelector('.metrics th[aria-sort="ascending"]');
    assert.deepEqual(await value('loss'), [...falling].reverse());
    assert.equal((await sorting(page)).filter((one) => one !== 'none').length, 1);
    await page.locator('.metrics thead button', { hasText: 'model' }).click();
    await page.waitForFunction(
      () => document.querySelector('.metrics th').ariaSort === 'ascending',
    );
    assert.deepEqual(await order(page), ['sigmoid', 'sigmoid-norm', 'softmax']);
  },

  async 'models are picked by keyboard, six at most, and stand in the link'(stage) {
    const page = await open(stage, 'compare=softmax,sigmoid');
    for (const card of cards.slice(2, 6)) {
      await page.getByRole('checkbox', { name: card.title, exact: true }).focus();
      await page.keyboard.press('Space');
      await idle(page);
    }
    const six = cards.slice(0, 6).map(({ id }) => id);
    await page.waitForFunction(
      (ids) => new URLSearchParams(location.hash.slice(1)).get('compare') === ids,
      six.join(),
    );
    await page.waitForFunction(
      () => document.querySelectorAll('#compare-sinks .multiple').length === 6,
    );
    assert.ok(await page.locator('.pick input:not(:checked)').first().isDisabled());
    await page.getByRole('checkbox', { name: cards[0].title, exact: true }).press('Space');
    await idle(page);
    assert.deepEqual(await order(page), six.slice(1));
    // A map is read with the arrow keys; the same head is marked in the others.
    await page.locator('#compare-sinks .heatmap').first().focus();
    await page.keyboard.press('ArrowDown');
    const said = await page.locator('#compare-sinks .readout').allTextContents();
    assert.equal(said.length, 5);
    for (const one of said) assert.match(one, /^layer 2, head 1: α₁ = 0\.\d+/);
    assert.deepEqual(page.troubles, []);
  },

  async 'a what-if is marked, and what differs is named'(stage) {
    const page = await open(stage, 'compare=softmax');
    await page.locator('.pick-edit [name=model]').selectOption('softmax');
    await page.locator('.pick-edit [name=operation]').selectOption('sigmoid');
    await page.getByRole('button', { name: 'Add what-if' }).click();
    await page.waitForSelector('tr[data-pick="softmax~sigmoid"]');
    await idle(page);
    const badges = await page.locator('#compare-norms .badge').allTextContents();
    assert.deepEqual(badges, ['MEASURED', 'COUNTERFACTUAL']);
    assert.match(await page.textContent('.differs'), /put in at inference: – \| sigmoid/);
    await page.getByRole('checkbox', { name: 'Sigmoid twin', exact: true }).check();
    await page.waitForSelector('tr[data-pick="sigmoid"]');
    await idle(page);
    const differs = await page.locator('.differs tbody tr').allTextContents();
    assert.match(differs.join(), /attention operation\s*softmax\s*softmax\s*sigmoid/);
  },

  async 'a what-if has its parameter, which the link carries'(stage) {
    const page = await open(stage, 'compare=softmax&T=16');
    const value = page.locator('.pick-edit [name=parameter]');
    assert.equal(await page.inputValue('.pick-edit [name=operation]'), 'sigmoid');
    await value.fill('-4.5');
    await value.press('Enter');
    await page.waitForSelector('tr[data-pick="softmax~sigmoid=-4.5"]');
    await page.locator('.pick-edit [name=operation]').selectOption('softmax1');
    await value.waitFor({ state: 'detached' });
    await idle(page);
    await page.waitForFunction(() =>
      /compare=softmax%2Csoftmax%7Esigmoid%3D-4\.5/.test(location.hash),
    );
    const { hash } = new URL(page.url());
    const other = await open(stage, hash.slice(1));
    const numbers = (one) => rows(one).locator('.value').allTextContents();
    assert.deepEqual(await numbers(other), await numbers(page));
  },

  async 'a step of a training has the numbers of its timeline, and says how it is kept'(stage) {
    const page = await open(stage, 'compare=softmax');
    await page.locator('.pick-step [name=model]').selectOption('softmax');
    await page.locator('.pick-step [name=step]').selectOption('400');
    await page.getByRole('button', { name: 'Add step' }).click();
    await page.waitForSelector('tr[data-pick="softmax@400"]');
    await study(page, 100);
    const [trained, step] = JSON.parse((await save(page, 'JSON')).text).models;
    const { checkpoints } = JSON.parse(
      readFileSync(`${root}models/zoo/softmax/timeline/index.json`, 'utf8'),
    );
    const { stored } = checkpoints.find((one) => one.step === 400);
    assert.equal(step.checkpoint.step, 400);
    assert.ok(Math.abs(100 * step.table.sink_1.mean - stored.sink_1) <= 0.05);
    assert.ok(Math.abs(step.table.loss.mean - stored.loss) <= 0.002);
    assert.ok(trained.table.sink_1.mean - step.table.sink_1.mean > 0.4);
    assert.match(await page.textContent('tr[data-pick="softmax@400"]'), /kept in \d\.\d bits/);
    assert.match(await page.textContent('.differs'), /training steps: 4,000 \| 400\./);
    assert.deepEqual(page.troubles, []);
  },

  async 'a model of the hub that a link names is opened on the spot, and closed when unpicked'(
    stage,
  ) {
    const hash = 'compare=softmax,hub%3Asinkscope%2Fsoftmax&T=16';
    const { page, hub } = await openPage(stage, hash, { waits: false });
    const button = page.locator('.compare-messages button', { hasText: 'sinkscope/softmax' });
    await button.click();
    await page.click('#open .primary');
    await page.waitForSelector('tr[data-pick="hub:sinkscope/softmax"]');
    await idle(page);
    const values = await rows(page).evaluateAll((all) =>
      all.map((row) => [...row.querySelectorAll('.value')].map((one) => one.textContent)),
    );
    assert.deepEqual(values[0], values[1], 'the same weights');
    assert.match(await page.textContent('.differs'), /Nothing differs/);
    // Any other can be added the same way.
    await page.getByRole('button', { name: 'Open another' }).click();
    await lookUp(page, 'sinkscope/sigmoid');
    await page.click('#open .primary');
    await page.waitForSelector('tr[data-pick="hub:sinkscope/sigmoid"]');
    await idle(page);
    await page.getByRole('checkbox', { name: 'sinkscope/softmax', exact: true }).uncheck();
    await idle(page);
    assert.deepEqual(await order(page), ['softmax', 'hub:sinkscope/sigmoid']);
    const made = JSON.parse((await save(page, 'JSON')).text);
    assert.match(made.models[1].commit, /^[0-9a-f]{40}$/);
    const troubles = page.troubles.filter(
      (one) => !one.includes(hub.endpoint) && !one.includes(hub.cdn),
    );
    assert.deepEqual(troubles, []);
  },

  async 'an embedded comparison has the controls that its link leaves it'(stage) {
    const hidden = 'models,numbers,study,save,how,finding,links';
    const page = await open(stage, `compare=softmax,sigmoid&hide=${hidden}`, {
      file: 'embed.html',
      width: 720,
    });
    const left = page.locator('#compare :is(input, select, .study, .how, .save):visible');
    assert.equal(await left.count(), 0);
    assert.equal(await page.locator('.compare-finding').isVisible(), false);
    assert.equal(await page.locator('#compare-sinks .multiple').count(), 2);
    assert.deepEqual(page.troubles, []);
  },

  async 'prompts come from a file, split by lines or blank lines'(stage) {
    const page = await open(stage, 'compare=softmax,sigmoid&T=8');
    await page.getByLabel('prompts from').selectOption('file');
    const file = page.locator('.prompt-file input[type=file]');
    const give = (name, text) =>
      file.setInputFiles({ name, mimeType: 'text/plain', buffer: Buffer.from(text) });
    const line = (name) => `Once upon a time there was a ${name} who lived in a house.`;
    await give('two.txt', `${line('king')}\nand was old.\n\n${line('girl')}\n`);
    await page.waitForFunction(() => /two\.txt: 2 prompts/.test(document.body.textContent));
    await page.locator('.prompt-file select').selectOption('lines');
    await page.waitForFunction(() => /two\.txt: 3 prompts/.test(document.body.textContent));
    await page.locator('.prompt-file select').selectOption('blocks');
    await idle(page);
    await study(page, 2);
    const { corpus } = JSON.parse((await save(page, 'JSON')).text);
    assert.equal(corpus.name, 'two.txt');
    assert.equal(corpus.splitting, 'blocks');
    assert.match(corpus.sha256, /^[0-9a-f]{64}$/);
    await file.setInputFiles({
      name: 'picture.bin',
      mimeType: 'text/plain',
      buffer: Buffer.from([255, 254, 253]),
    });
    await page.waitForFunction(() =>
      /picture\.bin: expected UTF-8/.test(document.querySelector('.compare-messages').textContent),
    );
    assert.equal(await rows(page).count(), 2);
    assert.deepEqual(page.troubles, []);
  },

  async 'what fails is said of its model, and the others stand'(stage) {
    const page = await open(stage, 'compare=softmax,hub:owner/name,nothing@3,nothing,sigmoid');
    await page.waitForSelector('tr[data-pick="sigmoid"]');
    await idle(page);
    const said = await page.textContent('.compare-messages');
    assert.match(said, /owner\/name is not loaded yet/);
    assert.match(said, /nothing at step 3: .*no model “nothing/);
    assert.match(said, /no model “nothing” here/);
    assert.deepEqual(await order(page), ['softmax', 'sigmoid']);
    const field = page.locator('#compare').getByLabel('tokens T');
    await field.fill('4000');
    await field.press('Enter');
    await page.waitForFunction(() =>
      /T of at most 128, its context, found 4000\. The last good result is shown/.test(
        document.querySelector('.compare-messages').textContent,
      ),
    );
    assert.deepEqual(await order(page), ['softmax', 'sigmoid']);
    assert.equal(await page.locator('.metrics tr.stale').count(), 2);
    assert.deepEqual(page.troubles, []);
  },

  async 'what the paper reports stands apart, and is in no file as measured'(stage) {
    const page = await stage.open('compare=softmax,sigmoid&T=16', {
      waits: false,
      script: `const get = fetch;
        globalThis.fetch = async (address, ...more) => {
          const answer = await get(address, ...more);
          if (!/zoo.[0-9a-f]+.index.json$/.test(address)) return answer;
          const cards = await answer.json();
          cards[0].paper = { sink_1: 18.18, loss: 3.73, where: 'table 15' };
          cards[1].paper = null;
          return Response.json(cards);
        };`,
    });
    await page.waitForSelector('.reported');
    await idle(page);
    const said = await page.locator('tr.reported').allTextContents();
    assert.equal(said.length, 1);
    assert.match(said[0], /Softmax twin\s+REPORTED table 15\s+18\.18 %\s*–\s*–\s*3\.73/);
    assert.doesNotMatch((await save(page, 'CSV')).text, /18\.18/);
    const made = JSON.parse((await save(page, 'JSON')).text);
    assert.equal(made.reported[0].sink_1, 18.18);
  },

  async 'a row of pictures is saved with the numbers of all its models'(stage) {
    const page = await open(stage, 'compare=softmax,sigmoid');
    for (const view of ['sinks', 'scores', 'geometry', 'norms']) {
      const menu = page.locator(`#compare-${view} .save`);
      const take = async (kind) => (await saveFrom(page, menu, kind)).bytes.toString();
      const svg = await take('SVG');
      assert.match(svg, /Softmax twin/);
      assert.match(svg, /Sigmoid twin/);
      const lines = (await take('CSV')).split('\n').filter((line) => /^[a-z]/.test(line));
      assert.match(lines[0], /^model,quantity,/);
      const models = new Set(lines.slice(1).map((line) => line.split(',')[0]));
      assert.deepEqual([...models], ['softmax', 'sigmoid']);
    }
    assert.deepEqual(page.troubles, []);
  },

  async 'the comparison begins with the two sides, and gives way to them again'(stage) {
    const page = await stage.open('T=20');
    const before = await page.textContent('#sinks .side-a .figure');
    await page.getByRole('button', { name: 'Compare models' }).click();
    await page.waitForSelector('#compare .metrics');
    await idle(page);
    assert.deepEqual(await order(page), ['softmax', 'sigmoid']);
    assert.equal(await page.locator('#views').isVisible(), false);
    await page.getByRole('button', { name: 'Compare models' }).click();
    await settled(page);
    assert.equal(await page.locator('#compare').isVisible(), false);
    assert.equal(await page.textContent('#sinks .side-a .figure'), before);
    assert.deepEqual(page.troubles, []);
  },

  async 'hostile comparisons leave a page that works'(stage) {
    const hostile = [
      'compare=..%2Fetc,%3Cb%3E,softmax~relu~relu',
      `compare=${Array.from({ length: 40 }, (_, i) => `m${i}`)}`,
      'compare=softmax~hardmax,softmax~sigmoid=9999,softmax@999999999',
      'compare=softmax&T=1&eps=0&prompts=0&corpus=wat',
    ];
    for (const hash of hostile) {
      const page = await stage.open(hash, { waits: false });
      await page.waitForSelector('#compare .pick-list');
      await page.getByRole('checkbox', { name: 'Learned sink logit', exact: true }).waitFor();
      await page.waitForFunction(() => !('busy' in document.querySelector('#compare').dataset));
      assert.deepEqual(page.troubles, [], hash);
      await page.context().close();
    }
  },
};

async function look(stage, { width, scheme }) {
  const page = await open(stage, 'compare=softmax,sigmoid,softmax~sigmoid', { width, scheme });
  await study(page, 3);
  await page.waitForSelector('#compare-norms svg');
  await staysWithin(page, width);
  const path = `${pictures}/compare-${width}-${scheme}.png`;
  await page.screenshot({ path, fullPage: true });
  assert.deepEqual(await violations(page), []);
  assert.deepEqual(page.troubles, []);
  return path.slice(root.length);
}

Object.assign(comparing, inAllSizes('a comparison', look));
