/**
 * Tests `load`, one call from a name to a model that takes text: every kind of name gives the same model, and
 * its methods give what the functions below them give.
 */
import { after, before, test } from 'node:test';
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdtempSync, openAsBlob, readFileSync, readdirSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { createEngine, findPlan, load, openTokenizer } from '../../wasm/index.ts';
import { folderInZoo } from '../../wasm/loading/zoo.ts';
import { openHub } from '../hub/server.mjs';
import { binaries, failure, files, root, softmax } from './helper.mjs';

const TEXT = 'The old man sat at the door and looked at the sea.';
const folder = fileURLToPath(softmax);
process.env.SINKSCOPE_CACHE = mkdtempSync(join(tmpdir(), 'sinkscope-load-'));
const inPage = { base: binaries, worker: false };

let hub;
let site;
let address;
let engine;
before(async () => {
  hub = await openHub();
  site = createServer((request, response) => {
    try {
      response.end(readFileSync(new URL(`.${request.url}`, new URL('models/zoo/', root))));
    } catch {
      response.writeHead(404).end();
    }
  });
  await new Promise((resolve) => site.listen(0, '127.0.0.1', resolve));
  address = `http://127.0.0.1:${site.address().port}/`;
  engine = await createEngine(inPage);
});
after(async () => {
  await engine.close();
  await hub.close();
  site.closeAllConnections();
  site.close();
});

const pickFiles = () =>
  Promise.all(
    readdirSync(folder)
      .filter((name) => /\.json$|\.safetensors$/.test(name))
      .map(async (name) => new File([await openAsBlob(folder + name)], name)),
  );

const SOURCES = {
  'a path': () => folder,
  'a file: address': () => softmax,
  'a name on the hub': () => 'sinkscope/softmax',
  'a name of the zoo': () => 'softmax',
  'the page of a model': () => `${hub.endpoint}/sinkscope/softmax/tree/main`,
  'a folder of a web server, as a URL': () => new URL('softmax/', address),
  'a folder of a web server, as text': () => `${address}softmax`,
  'files that were picked': pickFiles,
  'files with their paths': async () =>
    (await pickFiles()).map((file) => ({ path: `m/${file.name}`, file })),
  'a plan': () => findPlan(folder),
  'a path with a dot at its end': () => join(folder, 'x').replace(/x$/, '.'),
};

for (const [kind, source] of Object.entries(SOURCES)) {
  test(`${kind} gives the model and its tokenizer`, async () => {
    const model = await load(await source(), {
      engine,
      cache: false,
      endpoint: hub.endpoint,
      zoo: address,
    });
    const { sink, tokens, map, T } = await model.measure(TEXT);
    assert.equal(tokens[0], '<s>');
    assert.equal(tokens.slice(1).join(''), TEXT);
    assert.deepEqual([T, ...map.shape], Array(3).fill(tokens.length));
    assert.ok(sink > 0.5, `${sink}`);
    await model.close();
    if (kind.startsWith('a path')) assert.equal(model.id, 'softmax');
  });
}

test('measuring a text gives the numbers of the lower-level calls', async () => {
  const openModel = await engine.open(files(softmax));
  const tokenizer = openTokenizer(readFileSync(new URL('tokenizer.json', softmax), 'utf8'));
  const ids = tokenizer.encode(TEXT).map(({ id }) => id);
  const run = await openModel.run(ids, { fields: ['att', 'loss'] });
  const model = await load(folder, { engine });
  const measures = await model.measure(TEXT, { eps: 0.25 });
  const alpha = await run.metric('alpha');
  const [L, H, T] = alpha.shape;
  assert.deepEqual(measures.alpha.shape, [L, H]);
  measures.alpha.data.forEach((x, i) => assert.equal(x, alpha.data[i * T]));
  const { layer, head } = measures;
  assert.equal(Math.max(...measures.alpha.data), measures.alpha.data[layer * H + head]);
  assert.equal(measures.sink, (await run.metric('sink_ratio', { eps: 0.25 })).data[0]);
  assert.equal(measures.loss, (await run.metric('loss_mean')).data[0]);
  assert.equal(measures.uniform, (await run.metric('alpha_uniform')).data[0]);
  assert.deepEqual(measures.map, await run.field('att', { layer, head }));
  const namedMap = await model.map(TEXT, { layer: 2, head: 1 });
  assert.deepEqual(namedMap.map, await run.field('att', { layer: 2, head: 1 }));
  assert.deepEqual((await model.measure(TEXT, { layer: 2, head: 1 })).map, namedMap.map);
  await model.close();
});

test('an operation that an edit sets decides whether rows sum to 1', async () => {
  const model = await load(new URL('../softmax/', softmax), { engine });
  const { alpha, sink, sinkByShares } = await model.measure(TEXT, {
    edits: ['operation(operation=relu)'],
  });
  const openModel = await engine.open(files(softmax));
  const ids = (await model.tokenizer.encode(TEXT)).map(({ id }) => id);
  const run = await openModel.run(ids, { edits: [{ kind: 'operation', operation: 'relu' }] });
  const rawAlpha = await run.metric('alpha_raw');
  alpha.data.forEach((x, i) => assert.equal(x, rawAlpha.data[i * rawAlpha.shape[2]]));
  assert.equal(sink, (await run.metric('sink_ratio_raw')).data[0]);
  assert.equal(sinkByShares, (await run.metric('sink_ratio')).data[0]);
  assert.notEqual(sink, sinkByShares);
  await model.close();
});

test('edits can be objects or lines in the syntax of the command line', async () => {
  const model = await load(folder, { engine });
  const word = await model.measure(TEXT, { edits: ['hide_key(key=0)'] });
  const objectResult = await model.measure(TEXT, { edits: [{ kind: 'hide_key', key: 0 }] });
  assert.deepEqual(word, objectResult);
  assert.equal(Math.max(...word.alpha.data), 0);
  assert.deepEqual([word.layer, word.head], [0, 0], 'the first of equal heads');
  await model.close();
});

test('ablating a head gives the loss before and after, and its difference', async () => {
  const model = await load(folder, { engine });
  const { before: before, after: after, change } = await model.ablate(TEXT, { layer: 0, head: 1 });
  const silenced = await model.measure(TEXT, { edits: ['silence(layer=0,head=1)'] });
  assert.deepEqual(after, silenced);
  assert.equal(change, after.loss - before.loss);
  assert.notEqual(change, 0);
  const layer = await model.ablate(TEXT, { layer: 0 });
  assert.notEqual(layer.change, change);
  const error = await failure(model.ablate(TEXT, {}));
  assert.deepEqual([error.code, error.where], ['argument', 'layer']);
  assert.equal((await failure(model.measure(TEXT, { head: 1 }))).where, 'layer');
  await model.close();
});

test('measuring a text leaves no memory behind, and neither does a closed model', async () => {
  const model = await load(folder, { engine });
  const sizes = [];
  for (let i = 0; i < 4; i++) {
    await model.measure(TEXT.repeat(3));
    await failure(model.generate(TEXT, { count: 9, onText: () => assert.fail('stop') }));
    sizes.push(await engine.memory());
  }
  assert.equal(new Set(sizes).size, 1, `${sizes}`);
  await model.close();
  for (const closed of [model.tokenizer.encode(TEXT), model.model.run([0, 5])])
    assert.equal((await failure(closed)).code, 'closed');
});

test('a model from the hub is cached unless the caller says otherwise', async () => {
  const countCached = () => readdirSync(process.env.SINKSCOPE_CACHE).length;
  for (const [options, isKept] of [
    [{ cache: false }, false],
    [{}, true],
  ]) {
    const model = await load('sinkscope/softmax', { engine, endpoint: hub.endpoint, ...options });
    await model.close();
    assert.equal(countCached() > 0, isKept);
  }
});

test('generate() returns the continuation and reports each token', async () => {
  const model = await load(folder, { engine });
  const texts = [];
  const options = { count: 6, temperature: 0.9, seed: 3 };
  const written = await model.generate(TEXT, { ...options, onText: (text) => texts.push(text) });
  assert.equal(texts.length, 6);
  assert.equal(texts.at(-1), written);
  const defaultTexts = [];
  await model.generate(TEXT, { onText: (text) => defaultTexts.push(text) });
  assert.equal(defaultTexts.length, 16);
  assert.equal(await model.generate(TEXT, options), written);
  const run = await model.model.run((await model.tokenizer.encode(TEXT)).map(({ id }) => id));
  for await (const _ of run.generate(options));
  assert.equal(TEXT + written, await model.tokenizer.decode(run.tokens));
  await model.close();
});

test('a threshold outside 0 to 1 is refused, as on the command line', async () => {
  const model = await load(folder, inPage);
  for (const eps of [7, -0.1])
    assert.equal((await failure(model.measure(TEXT, { eps }))).where, 'eps');
  await model.close();
});

test('a single token has no loss and is reported as too short', async () => {
  const model = await load(folder, { engine });
  const { loss, T, conclusive } = await model.measure('');
  assert.deepEqual([loss, T, conclusive], [null, 1, false]);
  await model.close();
});

test('a name of the zoo is a folder of the package sinkscope-page of the same version', async () => {
  const { version } = JSON.parse(readFileSync(new URL('wasm/package.json', root), 'utf8'));
  const place = `https://cdn.jsdelivr.net/npm/sinkscope-page@${version}/zoo/`;
  assert.equal(String(folderInZoo('key-bias')), `${place}key-bias/`);
  assert.equal(folderInZoo('gpt2'), undefined);
  const { id, files } = await findPlan('sigmoid', { zoo: new URL(address), cache: false });
  assert.equal(id, 'sigmoid');
  assert.equal(files.weights[0].url, `${address}sigmoid/model.safetensors`);
  const zooError = await failure(findPlan('sigmoid', { zoo: `${address}nothing/`, cache: false }));
  assert.deepEqual([zooError.code, zooError.where], ['read', `${address}nothing/sigmoid/`]);
  const addressError = await failure(findPlan('sigmoid', { zoo: 'nowhere' }));
  assert.deepEqual([addressError.code, addressError.where], ['argument', 'zoo']);
});

test('load() opens the URL of a GGUF file, and rejects an unknown name', async () => {
  const plan = await findPlan(`${address}some/model.gguf`);
  assert.equal(plan.format, 'gguf');
  assert.equal(plan.files.weights[0].url, `${address}some/model.gguf`);
  const folderError = await failure(findPlan(`${address}nothing/`));
  assert.deepEqual([folderError.code, folderError.where], ['read', `${address}nothing/`]);
  assert.match(folderError.text, /expected model.safetensors/);
  const file = await failure(findPlan(new URL('nothing/', softmax)));
  assert.match(file.text, /expected a file or a folder, found none/);
  // A name may mean a path that is missing, so that is said before what the hub answers.
  for (const name of ['ck/missing', './ck/missing', 'missing', 'ck/is/missing']) {
    const { where, text } = await failure(findPlan(name, { endpoint: `${address}nothing/` }));
    assert.equal(where, name);
    assert.match(text, /^no such path exists here, and as a model of the hub: /);
  }
  for (const bytes of [
    Buffer.from('GGUF'),
    new Uint8Array(4),
    new ArrayBuffer(4),
    [Buffer.of(1)],
  ]) {
    const { text } = await failure(findPlan(bytes));
    assert.match(text, /^expected a name, a path, .*, got bytes: new Blob\(\[bytes\]\) is a file$/);
  }
  assert.match((await failure(findPlan(3))).text, /^expected a name, a path, .*, got 3$/);
  for (const other of [{}, { model_type: 'llama' }, Promise.resolve('softmax'), new Response('x')])
    assert.match(
      (await failure(findPlan(other))).text,
      /^expected a name, a path, .*, got an object/,
    );
  const twoModelsError = await failure(
    findPlan([...(await pickFiles()), { path: 'b.gguf', file: new Blob() }]),
  );
  assert.match(twoModelsError.text, /expected one model, or the name of its file, got .*b.gguf/);
});

test('the process exits after its model is closed, or if the model does not open', () => {
  const program = `
    import { load } from ${JSON.stringify(new URL('wasm/index.ts', root).href)};
    await load(${JSON.stringify(fileURLToPath(root))} + 'models/zoo/nothing').catch(() => {});
    await load(${JSON.stringify(fileURLToPath(new URL('tests/golden/', root)))} + 'bad').catch(() => {});
    const broken = [new File(['{}'], 'config.json'), new File(['no weights'], 'model.safetensors')];
    console.log((await load(broken).catch((error) => error)).name);
    const model = await load(${JSON.stringify(folder)});
    console.log((await model.measure('Once upon a time')).tokens.length);
    await model.close();`;
  const { status, stdout, stderr } = runFile(program);
  assert.equal(status, 0, stderr);
  assert.equal(stdout, 'SinkscopeError\n7\n');
});

test("the README's first two programs run verbatim, on a model of this tree", () => {
  const page = readFileSync(new URL('wasm/README.md', root), 'utf8');
  const programs = [...page.matchAll(/```js\n(import [^]*?)```/g)].map(([, code]) => code);
  const runs = programs.slice(0, 2).map((code) => {
    const localCode = code
      .replace("'sinkscope'", JSON.stringify(new URL('wasm/index.ts', root).href))
      .replace(/'(HuggingFaceTB\/SmolLM2-135M|owner\/name)'/, JSON.stringify(folder));
    assert.ok(localCode.includes(folder), 'it names a model');
    return runFile(localCode);
  });
  assert.deepEqual(
    runs.map(({ status, stderr }) => [status, stderr]),
    [
      [0, ''],
      [0, ''],
    ],
  );
  assert.match(runs[0].stdout, /^79% of the heads have a sink; L1H3 looks most at “<s>”\n/);
  assert.match(runs[0].stdout, /-?0\.\d+ nats without that head\n$/);
});

/**
 * Runs a program in a process of its own. Workers would inherit --input-type, so the program is a file.
 * @param {string} program
 */
function runFile(program) {
  const file = join(mkdtempSync(join(tmpdir(), 'load-')), 'program.mjs');
  writeFileSync(file, program);
  return spawnSync(process.execPath, [file], { encoding: 'utf8', timeout: 120_000 });
}
