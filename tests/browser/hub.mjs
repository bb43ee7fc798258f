/** Tests the package in Chromium with the hub of tests/hub: streams, the cache, which downloads the cache keeps, and what is refused. */
import assert from 'node:assert/strict';
import { readFile, stat } from 'node:fs/promises';
import { TOKENS } from '../hub/repositories.mjs';
import { openHubPage, visit } from './hub_stage.mjs';
import { root, until } from './stage.mjs';

const WEIGHTS = /model\.safetensors$/;
const zoo = `${root}models/zoo/softmax/`;
const load = (page, id, options) =>
  page.evaluate(([name, more]) => globalThis.tool.load(name, more), [id, options]);
const cachedBytes = (page) => page.evaluate(() => globalThis.sinkscope.cacheBytes());
const cachedFiles = (page) => page.evaluate(() => globalThis.sinkscope.cacheList());

/** Returns the sink scores of the fixed run on local files. */
async function expected(page) {
  const [config, weights] = await Promise.all(
    ['config.json', 'model.safetensors'].map((name) => readFile(zoo + name)),
  );
  return page.evaluate(
    ([text, base64]) => {
      const bytes = Uint8Array.from(atob(base64), (letter) => letter.charCodeAt(0));
      return globalThis.tool.alpha({ config: text, weights: bytes });
    },
    [config.toString(), weights.toString('base64')],
  );
}

export const hub = {
  async 'a hub model streams into the engine, and comes from the cache after a reload'(stage) {
    const { page, hub } = await openHubPage(stage);
    const { alpha, seen } = await page.evaluate(async () => {
      const reports = [];
      const onProgress = (progress) => progress.stage === 'read' && reports.push(progress);
      return {
        alpha: await globalThis.tool.load('sinkscope/softmax', { onProgress }),
        seen: reports,
      };
    });
    assert.deepEqual(alpha, await expected(page));
    const { size } = await stat(`${zoo}model.safetensors`);
    assert.deepEqual([seen.at(-1).done, seen.at(-1).total], [size, size]);
    assert.equal(
      hub.log.filter(({ host, method }) => host === 'cdn' && method === 'OPTIONS').length,
      0,
    );
    assert.ok((await cachedBytes(page)) > size);
    hub.reset();
    await visit(page);
    assert.deepEqual(await load(page, 'sinkscope/softmax'), alpha);
    assert.equal(hub.seen(/resolve|model/).filter(({ path }) => !/^\/api/.test(path)).length, 1);
    assert.equal(hub.seen(WEIGHTS).length, 0);
  },

  async 'a download that a reload interrupts resumes after the cached bytes'(stage) {
    const { page, hub } = await openHubPage(stage);
    hub.fault({ host: 'cdn', path: WEIGHTS, slow: 200_000 });
    // The test leaves the page during the download, so it does not await this call.
    await page.evaluate(() => void globalThis.tool.load('sinkscope/softmax').catch(() => {}));
    while ((await cachedBytes(page)) < 500_000) await page.waitForTimeout(100);
    await visit(page);
    const [{ bytes, total, complete }] = (await cachedFiles(page)).filter(({ url }) =>
      /model\.safetensors$/.test(url),
    );
    assert.ok(bytes > 500_000 && bytes < total && !complete, `${bytes}`);
    hub.reset();
    assert.deepEqual(await load(page, 'sinkscope/softmax'), await expected(page));
    assert.deepEqual(
      hub.seen(WEIGHTS, 'cdn').map(({ headers }) => headers.range),
      [`bytes=${bytes}-`],
    );
    return `${bytes} of ${total} bytes were kept`;
  },

  async 'a cut connection is resumed, without a preflight across origins'(stage) {
    const { page, hub } = await openHubPage(stage);
    hub.fault({ host: 'cdn', path: WEIGHTS, times: 1, cut: 1_000_000 });
    assert.deepEqual(await load(page, 'sinkscope/softmax', { cache: false }), await expected(page));
    const ranges = hub.seen(WEIGHTS, 'cdn').map(({ headers }) => headers.range);
    // A browser may request a range again after its connection ended, but never the whole file again.
    assert.ok(ranges.length >= 2, ranges.join());
    for (const range of ranges.slice(1)) assert.match(range, /^bytes=[1-9]\d*-/);
    assert.equal(await cachedBytes(page), 0);
  },

  async 'if a store refuses ranges to other sites, the whole file is sent again'(stage) {
    const { page, hub } = await openHubPage(stage);
    hub.fault({ host: 'cdn', path: WEIGHTS, times: 1, cut: 1_000_000 });
    // To the page, a failed preflight looks like a missing answer.
    await page.route('**/*model.safetensors*', (route) =>
      route.request().headers().range ? route.abort() : route.continue(),
    );
    assert.deepEqual(await load(page, 'sinkscope/softmax'), await expected(page));
    const requests = hub.seen(WEIGHTS, 'hub').filter(({ method }) => method === 'GET');
    assert.ok(requests.every(({ headers }) => headers.range === undefined));
    assert.equal(requests.length, 2);
  },

  async 'a small compressed file is cached'(stage) {
    const { page, hub } = await openHubPage(stage);
    hub.fault({ path: /tokenizer\.json$/, gzip: true });
    const read = () =>
      page.evaluate(async () => {
        const plan = await globalThis.tool.resolve('sinkscope/softmax');
        const options = { cache: true };
        return globalThis.sinkscope.planText(plan, plan.files.tokenizer, options);
      });
    const text = await read();
    assert.equal(text, await readFile(`${zoo}tokenizer.json`, 'utf8'));
    hub.reset();
    assert.equal(await read(), text);
    assert.equal(hub.seen(/tokenizer\.json$/).length, 0);
    // Without a listing the size is unknown, and the page cannot see that the answer is compressed.
    hub.fault({ path: /config\.json$/, gzip: true });
    const size = await page.evaluate(async (endpoint) => {
      const address = `${endpoint}/sinkscope/softmax/resolve/main/config.json`;
      const plan = await globalThis.tool.resolve('sinkscope/softmax');
      const files = { ...globalThis.sinkscope.modelFiles(plan), config: new URL(address) };
      return (await globalThis.tool.alpha(files)).length;
    }, hub.endpoint);
    assert.ok(size > 0);
  },

  async 'canceling a download ends its request at the server at once'(stage) {
    const { page, hub } = await openHubPage(stage);
    // The whole file would take two minutes.
    hub.fault({ host: 'cdn', path: WEIGHTS, slow: 20_000 });
    const { failed, took: abortMs } = await page.evaluate(async () => {
      const stop = new AbortController();
      let abortTime = 0;
      const onProgress = ({ stage, done }) => {
        if (stage !== 'read' || done < 20_000 || abortTime) return;
        abortTime = performance.now();
        stop.abort();
      };
      const loading = globalThis.tool.load('sinkscope/softmax', {
        signal: stop.signal,
        onProgress,
      });
      const failure = await globalThis.tool.failure(loading);
      return { failed: failure, took: performance.now() - abortTime };
    });
    assert.equal(failed.name, 'AbortError');
    assert.ok(abortMs < 60_000, `${abortMs} ms`);
    const requests = () => hub.seen(WEIGHTS, 'cdn');
    await until(() => requests().every(({ status }) => status !== undefined));
    assert.ok(requests().some(({ method }) => method === 'GET'));
    assert.ok(requests().every(({ isWhole, method }) => method === 'HEAD' || !isWhole));
    return `${Math.round(abortMs)} ms`;
  },

  async 'a token is sent only to its host and stored nowhere'(stage) {
    const { page, hub } = await openHubPage(stage);
    const token = TOKENS.member;
    await load(page, 'sinkscope/gated', { token });
    const request = hub.seen(WEIGHTS, 'hub').find(({ method }) => method === 'GET');
    assert.equal(request.headers.authorization, `Bearer ${token}`);
    assert.ok(hub.log.every(({ host, headers }) => host === 'hub' || !headers.authorization));
    const storedTexts = await page.evaluate(async () => {
      const texts = [location.href, document.cookie, JSON.stringify({ ...localStorage })];
      texts.push(
        JSON.stringify({ ...sessionStorage }),
        JSON.stringify(await indexedDB.databases()),
      );
      texts.push(JSON.stringify(await caches.keys()), JSON.stringify(history.state));
      const walk = async (folder) => {
        for await (const [name, handle] of folder.entries()) {
          texts.push(name);
          if (handle.kind === 'directory') await walk(handle);
          else texts.push(await (await handle.getFile()).text());
        }
      };
      await walk(await navigator.storage.getDirectory());
      return texts;
    });
    assert.ok(
      storedTexts.some((text) => /sinkscope\/gated/.test(text)),
      'the cache was looked into',
    );
    assert.ok(storedTexts.every((text) => !text.includes(token)));
  },

  async 'a worker without writable streams caches a model by file handles of its own'(stage) {
    const { page, hub } = await openHubPage(stage);
    await page.evaluate(async () => {
      globalThis.engine = await globalThis.sinkscope.createEngine({ base: '/wasm/', worker: true });
    });
    // Safari before version 26 lacks this function.
    await page.workers()[0].evaluate(() => delete FileSystemFileHandle.prototype.createWritable);
    const open = () =>
      page.evaluate(async () => {
        const plan = await globalThis.tool.resolve('sinkscope/softmax');
        const files = globalThis.sinkscope.modelFiles(plan, { cache: true });
        const model = await globalThis.engine.open(files);
        return [...(await (await model.run([0, 5, 17, 300, 42])).metric('alpha')).data];
      });
    const alpha = await open();
    assert.deepEqual(alpha, await expected(page));
    assert.ok((await cachedFiles(page)).every(({ complete }) => complete));
    hub.reset();
    assert.deepEqual(await open(), alpha);
    assert.equal(hub.seen(WEIGHTS).length, 0);
  },

  async 'with a used-up quota the model still loads, and the page says that it is not cached'(
    stage,
  ) {
    const { page } = await openHubPage(stage);
    const devtools = await page.context().newCDPSession(page);
    const quota = { origin: new URL(page.origin).origin, quotaSize: 1_000_000 };
    await devtools.send('Storage.overrideQuotaForOrigin', quota);
    assert.deepEqual(await load(page, 'sinkscope/softmax'), await expected(page));
    assert.ok((await cachedBytes(page)) < 1_000_000);
    const notes = await page.evaluate(async () => {
      const notes = [];
      const plan = await globalThis.tool.resolve('sinkscope/softmax');
      const [{ url, version }] = plan.files.weights;
      const options = { version, onNote: (note) => notes.push(note) };
      const { stream } = await globalThis.openCached(new URL(url), options);
      for (const reader = stream.getReader(); !(await reader.read()).done;);
      return notes;
    });
    assert.equal(notes.length, 1);
    assert.match(notes[0], /no room.*quota/i);
    return notes[0];
  },

  async 'a model loads in a browser without storage'(stage) {
    const script = 'StorageManager.prototype.getDirectory = () => Promise.reject(new Error("no"));';
    const { page } = await openHubPage(stage, script);
    assert.deepEqual(
      await load(page, 'sinkscope/softmax', { worker: false }),
      await expected(page),
    );
    assert.equal(await cachedBytes(page), 0);
  },
};
