/** Tests a worker that ends silently, as it does when the browser runs out of memory. */
import assert from 'node:assert/strict';
import { openHubPage, visit } from './hub_stage.mjs';
import { chips, settled } from './stage.mjs';

const IDS = [0, 5, 17, 300, 42];

async function openModel(page) {
  await page.evaluate(async (ids) => {
    const { createEngine, resolveHub, modelFiles } = globalThis.sinkscope;
    const lossReports = [];
    const onLost = ({ code, text }) => lossReports.push(`${code}: ${text}`);
    const engine = await createEngine({ base: '/wasm/', worker: true, workers: 1, onLost });
    const plan = await resolveHub('sinkscope/softmax', { endpoint: globalThis.tool.endpoint });
    const model = await engine.open(modelFiles(plan));
    const run = await model.run(ids);
    const readAlphas = async () => [...(await run.metric('alpha')).data];
    Object.assign(globalThis, {
      reported: lossReports,
      model,
      look: readAlphas,
      before: await readAlphas(),
    });
  }, IDS);
}

/** Ends the worker just before it answers the call. Returns the error of this call and the result of the next one. */
async function endWorker(page, meanwhile = () => {}) {
  await page.workers()[0].evaluate(() => {
    globalThis.postMessage = () => globalThis.close();
  });
  await page.evaluate((ids) => {
    globalThis.failed = globalThis.tool.failure(globalThis.model.run(ids));
  }, IDS);
  await meanwhile();
  return page.evaluate(async () => ({
    failed: await globalThis.failed,
    same: String(await globalThis.look()) === String(globalThis.before),
    reported: globalThis.reported,
  }));
}

function check({ failed, same, reported }, why) {
  assert.deepEqual([failed.name, failed.code], ['SinkscopeError', 'lost']);
  assert.match(failed.message, why);
  assert.equal(reported.length, 1);
  assert.match(reported[0], why);
  assert.ok(same, 'the run that was repeated gives the same bits');
}

export const losing = {
  async 'Stop ends a worker that does not answer, and another one takes over'(stage) {
    const page = await stage.open('room=explore&shown=softmax');
    const oldWorkers = page.workers();
    assert.ok(oldWorkers.length);
    // The workers loop forever from their next task on, so no message that is sent after this reaches them.
    const loop = `const { port1, port2 } = new MessageChannel();
      port1.onmessage = () => { for (;;); };
      port2.postMessage(0);`;
    for (const worker of oldWorkers) await worker.evaluate(loop);
    await page.fill('textarea', 'One two three four five six seven eight nine ten eleven twelve.');
    await page.locator('.progress button').click();
    await page.getByText(/it did not stop within 5 s/).waitFor();
    const retryButton = page.getByRole('button', { name: 'Try again' });
    await retryButton.click();
    await page.waitForFunction(() =>
      [...document.querySelectorAll('.chip')]
        .map((chip) => chip.textContent.trim())
        .join('')
        .includes('twelve.'),
    );
    await settled(page);
    assert.ok((await chips(page)).length > 12);
    assert.ok(page.workers().some((worker) => !oldWorkers.includes(worker)));
  },

  async 'a worker that ends silently is noticed at once, and replaced'(stage) {
    const { page } = await openHubPage(stage);
    await openModel(page);
    check(await endWorker(page), /without a word/);
  },

  async 'where there are no locks, a worker that no longer answers counts as ended'(stage) {
    const { page } = await openHubPage(stage);
    // Browsers treat plain http on a host name, such as that of a server in a classroom, as insecure.
    page.origin = page.origin.replace('127.0.0.1', 'insecure.test');
    await page.clock.install();
    await visit(page);
    assert.equal(await page.evaluate(() => navigator.locks), undefined);
    await openModel(page);
    check(await endWorker(page, () => page.clock.runFor(70_000)), /not answered for 60 s/);
  },
};
