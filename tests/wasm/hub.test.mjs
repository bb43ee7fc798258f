import { after, before, beforeEach, test } from 'node:test';
import assert from 'node:assert/strict';
import { findPlan, resolveHub, modelFiles, openTokenizer } from '../../wasm/index.ts';
import { planText } from '../../wasm/internal.ts';
import { parseHubId } from '../../wasm/loading/hub.ts';
import { makePlan } from '../../wasm/loading/plan.ts';
import { TOKENS } from '../hub/repositories.mjs';
import { openHub } from '../hub/server.mjs';
import { files, softmax, withEngine } from './helper.mjs';

let hub;
before(async () => (hub = await openHub()));
beforeEach(() => hub.reset());
after(() => hub.close());

const resolve = (id, options) => resolveHub(id, { endpoint: hub.endpoint, wait: 1, ...options });

test('a plan of a hub model states files, sizes, memory and license', async () => {
  const plan = await resolve('sinkscope/softmax');
  const { weights } = files(softmax);
  assert.equal(plan.format, 'safetensors');
  assert.equal(plan.bytes, weights.length);
  assert.ok(plan.memory > plan.bytes && plan.memory < 2 * plan.bytes, `${plan.memory}`);
  assert.equal(plan.license, 'apache-2.0');
  assert.equal(plan.gated, false);
  assert.equal(plan.refusal, undefined);
  assert.match(plan.commit, /^[0-9a-f]{40}$/);
  assert.deepEqual(Object.keys(plan.files).sort(), [
    'config',
    'tokenizer',
    'tokenizer_config',
    'weights',
  ]);
  const { url } = plan.files.weights[0];
  assert.equal(url, `${hub.endpoint}/sinkscope/softmax/resolve/${plan.commit}/model.safetensors`);
  assert.equal(hub.seen(/safetensors/).length, 0, 'nothing large is fetched for a plan');
});

test('a plan opens in a worker and in this thread with progress and the same numbers', async () => {
  const plan = await resolve('sinkscope/softmax');
  const text = await planText(plan, plan.files.tokenizer);
  const ids = openTokenizer(text)
    .encode('Once upon a time')
    .map(({ id }) => id);
  for (const worker of [false, true]) {
    await withEngine({ worker }, async (engine) => {
      const progresses = [];
      const onProgress = (progress) => progress.stage === 'read' && progresses.push(progress);
      const model = await engine.open(modelFiles(plan), { onProgress });
      assert.equal(progresses.at(-1).done, plan.bytes);
      const local = await engine.open(files(softmax));
      const metric = async (model) => (await (await model.run(ids)).metric('alpha')).data;
      assert.deepEqual(await metric(model), await metric(local));
    });
  }
});

test('all forms of model names are accepted, and nothing else', () => {
  const page = 'https://huggingface.co/';
  const validNames = [
    ['owner/name', 'owner/name', 'main'],
    ['gpt2', 'gpt2', 'main'],
    [' owner/name ', 'owner/name', 'main'],
    ['owner/name@v1.0', 'owner/name', 'v1.0'],
    ['owner/name@refs/pr/1', 'owner/name', 'refs/pr/1'],
    ['owner/name:a/b.gguf', 'owner/name', 'main', 'a/b.gguf'],
    ['owner/name@dev:b.gguf', 'owner/name', 'dev', 'b.gguf'],
    ['owner/name/b.gguf', 'owner/name', 'main', 'b.gguf'],
    ['owner/name@dev/b.gguf', 'owner/name', 'dev', 'b.gguf'],
    [`${page}owner/name`, 'owner/name', 'main'],
    [`${page}owner/name/tree/dev`, 'owner/name', 'dev'],
    [`${page}owner/name/blob/main/b.gguf?x=1`, 'owner/name', 'main', 'b.gguf'],
  ];
  for (const [text, repository, revision, file] of validNames) {
    const name = { repository, revision, ...(file ? { file } : {}) };
    assert.deepEqual(parseHubId(text), name, text);
  }
  const words =
    '/ a/b/c ../name owner/.. owner/name@../x owner/name@ owner/name?x javascript:alert(1)';
  const addresses = ['owner/name:../../secret', 'https://elsewhere.example/owner/name'];
  for (const text of [
    '',
    ...words.split(' '),
    ...addresses,
    'owner/na me',
    'x'.repeat(200),
    null,
  ]) {
    const code = (error) => error.code === 'argument' || text === null;
    assert.throws(() => parseHubId(text === null ? '\u0000' : text), code, String(text));
  }
});

test('a revision, a pull request and an old name without an owner are found', async () => {
  const plans = await Promise.all(
    ['sinkscope/softmax@v0', 'sinkscope/softmax@refs/pr/1', 'legacy'].map((id) => resolve(id)),
  );
  const [v0, pr, legacy] = plans;
  assert.equal(new Set(plans.map(({ commit }) => commit)).size, 3);
  assert.equal(v0.revision, 'v0');
  assert.equal(legacy.license, undefined);
  const config = async (plan) => JSON.parse(await planText(plan, plan.files.config));
  assert.deepEqual(await config(pr), await config(v0));
  assert.notDeepEqual(await config(pr), await config(legacy));
});

test('each kind of missing file or model has an error of its own', async () => {
  const cases = [
    ['sinkscope/nothing', {}, 'access', /needs an access token.*none of this name.*401/],
    ['sinkscope/nothing', { token: TOKENS.member }, 'not_found', /model of this name.*404/],
    ['sinkscope/softmax@v9', {}, 'not_found', /branch, tag or commit.*404/],
    ['sinkscope/softmax:x.gguf', {}, 'read', /weights called x\.gguf, found .*config\.json/],
    ['sinkscope/adapter', {}, 'read', /expected model\.safetensors.*found adapter_config\.json/],
    ['sinkscope/bare', {}, 'read', /config\.json beside model\.safetensors, found model/],
    ['sinkscope/softmax', { token: 'hf_wrong' }, 'access', /valid access token.*401/],
    ['sinkscope/softmax', { endpoint: 'ftp://x' }, 'argument', /endpoint/],
  ];
  for (const [id, options, code, message] of cases) {
    await assert.rejects(resolve(id, options), { name: 'SinkscopeError', code, message }, id);
  }
});

test('a gated model is listed, and needs the token of a user with access', async () => {
  const accessError = { code: 'access', message: /needs an access token.*401/ };
  await assert.rejects(resolve('sinkscope/gated'), accessError);
  const strangerOptions = { token: TOKENS.stranger };
  const refusedError = { code: 'access', message: /account has access.*403/ };
  await assert.rejects(resolve('sinkscope/gated', strangerOptions), refusedError);
  const plan = await resolve('sinkscope/gated', { token: TOKENS.member });
  assert.equal(plan.gated, true);
  assert.ok(!JSON.stringify(plan).includes(TOKENS.member), 'a plan may be stored: no token in it');
  await withEngine({ worker: true }, async (engine) => {
    await assert.rejects(engine.open(modelFiles(plan)), { code: 'access' });
    await engine.open(modelFiles(plan, { token: TOKENS.member }));
  });
  const away = hub.log.filter(({ host, headers }) => host === 'cdn' && headers.authorization);
  assert.equal(away.length, 0);
});

test('the caller chooses among several GGUF files', async () => {
  const plan = await resolve('sinkscope/quantized');
  assert.equal(plan.files.weights.length, 0);
  assert.deepEqual(
    plan.choices.map(({ id }) => id),
    ['sinkscope/quantized:tiny-Q4_0.gguf', 'sinkscope/quantized:tiny-Q8_0.gguf'],
  );
  assert.throws(() => modelFiles(plan), { code: 'argument' });
  const chosenPlan = await resolve(plan.choices[1].id);
  assert.equal(chosenPlan.files.weights[0].name, 'tiny-Q8_0.gguf');
  assert.equal(chosenPlan.files.config, undefined);
  assert.equal(modelFiles(chosenPlan).config, undefined);
});

test('weights named by the caller are used instead of the default', async () => {
  const names = ['a.safetensors', 'model.safetensors', 'b.bin', 'config.json'];
  // A list may have the parts of a file in any order.
  const parts = ['c-00002-of-00002.gguf', 'c-00001-of-00002.gguf'];
  const allFiles = [...names, ...parts].map((name) => ({ name, bytes: 1 }));
  const plan = async (file) => {
    const { format, files } = await makePlan(allFiles, {
      id: 'x',
      file,
      readText: async () => '{}',
    });
    return [format, files.weights.map(({ name }) => name)];
  };
  assert.deepEqual(await plan('a.safetensors'), ['safetensors', ['a.safetensors']]);
  assert.deepEqual(await plan('b.bin'), ['pytorch', ['b.bin']]);
  assert.deepEqual(await plan(parts[1]), ['gguf', [...parts].sort()]);
  for (const file of ['config.json', 'd.bin'])
    await assert.rejects(plan(file), { code: 'read', message: RegExp(`weights called ${file}`) });
});

test('a busy list is requested again, and a hub without lists is probed for files', async () => {
  hub.fault({ path: /api\/models/, times: 2, status: 429, headers: { 'retry-after': '0' } });
  assert.equal((await resolve('sinkscope/softmax')).license, 'apache-2.0');
  hub.reset();
  hub.fault({ path: /api\/models/, status: 404 });
  const plan = await resolve('sinkscope/softmax');
  assert.equal(plan.bytes, files(softmax).weights.length);
  assert.match(plan.commit, /^[0-9a-f]{40}$/);
  assert.ok(hub.seen(/model\.safetensors$/, 'hub').every(({ method }) => method === 'HEAD'));
  await assert.rejects(resolve('no-owner/nothing'), { code: 'access' });
  // Each further request to a hub that does not answer would take as long.
  hub.reset();
  hub.fault({ path: /api\/models/, reset: true });
  await assert.rejects(resolve('sinkscope/softmax'), { code: 'read' });
  assert.ok(hub.seen(/sinkscope\/softmax/).every(({ method }) => method === 'GET'));
});

test('a probe that fails does not count as a file that is missing', async () => {
  const probe = { path: /\/tokenizer\.json$/, method: 'HEAD' };
  for (const [fault, message] of [
    [{ status: 503 }, /tokenizer\.json: the server answered 503/],
    [{ status: 405 }, /tokenizer\.json: the server answered 405/],
    [{ reset: true }, /tokenizer\.json: no answer came/],
  ]) {
    hub.reset();
    hub.fault({ path: /api\/models/, status: 404 });
    hub.fault({ ...probe, ...fault });
    await assert.rejects(resolve('sinkscope/softmax', { wait: 1 }), { code: 'read', message });
    const address = `${hub.endpoint}/sinkscope/softmax/resolve/main/`;
    await assert.rejects(findPlan(new URL(address), { wait: 1 }), { code: 'read', message });
  }
  for (const status of [404, 410]) {
    hub.reset();
    hub.fault({ path: /api\/models/, status: 404 });
    hub.fault({ ...probe, status });
    assert.equal((await resolve('sinkscope/softmax')).files.tokenizer, undefined);
  }
  hub.reset();
});

test('a probe that fails ends the others', async (t) => {
  const signals = [];
  t.mock.method(globalThis, 'fetch', async (address, { method, signal }) => {
    if (method !== 'HEAD') return new Response(null, { status: 404 });
    signals.push(signal);
    if (/tokenizer\.json$/.test(address)) return new Response(null, { status: 405 });
    return new Promise((_, reject) => {
      signal.addEventListener('abort', () => reject(signal.reason));
    });
  });
  await assert.rejects(resolve('own/model'), { message: /tokenizer\.json: .*answered 405/ });
  assert.ok(signals.length > 5 && signals.every(({ aborted }) => aborted));
});

test('impossible entries in a list are ignored, and a list without files is an error', async (t) => {
  const answers = { list: undefined, status: 200 };
  const requests = [];
  t.mock.method(globalThis, 'fetch', async (address, { method = 'GET' } = {}) => {
    requests.push(method);
    if (method !== 'GET' || !answers.list) return new Response(null, { status: answers.status });
    return Response.json(String(address).includes('/api/') ? { siblings: answers.list } : {});
  });
  const files = [
    { rfilename: 5, size: 1 },
    { rfilename: 'a/../config.json', size: 1 },
    { rfilename: 'config.json' },
    { rfilename: 'tokenizer.json', size: 0 },
    { rfilename: 'tokenizer_config.json', size: -1 },
    { rfilename: 'model.safetensors', size: 7 },
  ];
  answers.list = files;
  const plan = await resolve('own/model');
  assert.deepEqual(
    [plan.files.tokenizer, plan.files.tokenizer_config, plan.files.weights[0]].map(
      ({ bytes }) => bytes,
    ),
    [0, undefined, 7],
  );
  // Without a list the package tries the usual files, unless the hub refuses access.
  answers.list = undefined;
  for (const [status, isProbed] of [
    [404, true],
    [401, false],
  ]) {
    requests.length = 0;
    answers.status = status;
    await assert.rejects(resolve('own/model'), new RegExp(`answered ${status}`));
    assert.equal(requests.includes('HEAD'), isProbed, `${status}`);
  }
});

test('a path has at most 400 characters, and no folder named . or ..', () => {
  const longest = `${'a'.repeat(395)}.gguf`;
  assert.equal(parseHubId(`own/model:${longest}`).file, longest);
  for (const file of [`a${longest}`, 'a/./b.gguf', 'a/../b.gguf', 'a//b.gguf'])
    assert.throws(() => parseHubId(`own/model:${file}`), { where: 'file' }, file);
});

test('invalid lists are rejected', async () => {
  const evilFiles = { 'config.json': Buffer.from('[1]'), 'model.safetensors': Buffer.alloc(8) };
  const add = (files) => {
    const repository = { revisions: { main: { commit: 'e'.repeat(40), files } } };
    hub.repository('sinkscope/softmax').revisions.evil = repository.revisions.main;
  };
  add(evilFiles);
  const noObject = { code: 'read', message: /config\.json: expected a JSON object/ };
  await assert.rejects(resolve('sinkscope/softmax@evil'), noObject);
  add({
    ...evilFiles,
    'config.json': Buffer.from('{}'),
    '../outside.safetensors': Buffer.alloc(1),
  });
  const { files: parts, memory, bytes } = await resolve('sinkscope/softmax@evil');
  assert.equal(parts.weights.length, 1);
  assert.equal(memory, bytes, 'a config without sizes adds nothing');
  add({ '../outside.gguf': Buffer.alloc(1) });
  await assert.rejects(resolve('sinkscope/softmax@evil'), { code: 'read' });
  const index = Buffer.from(JSON.stringify({ weight_map: { a: 'gone.safetensors' } }));
  add({ 'config.json': Buffer.from('{}'), 'model.safetensors.index.json': index });
  const noShard = { code: 'read', message: /gone\.safetensors, which the index names/ };
  await assert.rejects(resolve('sinkscope/softmax@evil'), noShard);
});

test('a signal stops the look-up', async () => {
  await assert.rejects(resolve('sinkscope/softmax', { signal: AbortSignal.abort() }), {
    name: 'AbortError',
  });
});
