import { test } from 'node:test';
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { filesOfDrop, modelFiles, planFiles } from '../../wasm/index.ts';
import { filesOfList, planText } from '../../wasm/internal.ts';
import { repositories } from '../hub/repositories.mjs';
import { files, softmax, withEngine, failure } from './helper.mjs';

const names = ['config.json', 'model.safetensors', 'tokenizer.json', 'tokenizer_config.json'];
const contents = Object.fromEntries(
  names.map((name) => [name, readFileSync(new URL(name, softmax))]),
);
const blob = (content) => new Blob([content]);
const list = (entries) =>
  Object.entries(entries).map(([path, content]) => ({ path, file: blob(content) }));

test('the files of a model make a plan that opens', async () => {
  const [plan, ...others] = await planFiles(list(contents));
  assert.equal(others.length, 0);
  assert.equal(plan.format, 'safetensors');
  assert.equal(plan.bytes, contents['model.safetensors'].length);
  assert.equal(await planText(plan, plan.files.config), contents['config.json'].toString());
  for (const worker of [false, true]) {
    await withEngine({ worker }, async (engine) => {
      const run = async (source) => (await (await engine.open(source)).run([1, 2])).metric('alpha');
      assert.deepEqual(await run(modelFiles(plan)), await run(files(softmax)));
    });
  }
});

test('an index finds its shards in the folders below it, and not above', async () => {
  const { main } = repositories().get('sinkscope/sharded').revisions;
  const { weight_map: map } = JSON.parse(main.files['model.safetensors.index.json']);
  const filesIn = (folder, path) => {
    const shardEntries = Object.entries(map).map(([key, name]) => [key, path + name]);
    const index = JSON.stringify({ weight_map: Object.fromEntries(shardEntries) });
    const entries = Object.entries(main.files).map(([name, content]) => {
      if (name.endsWith('.index.json')) return [`zoo/it/${name}`, index];
      return [name.endsWith('.safetensors') ? folder + name : `zoo/it/${name}`, content];
    });
    return list(Object.fromEntries(entries));
  };
  for (const path of ['w/', 'w/deep/']) {
    const [plan, ...others] = await planFiles(filesIn(`zoo/it/${path}`, path));
    assert.deepEqual([plan.id, others.length], ['zoo/it', 0]);
    assert.deepEqual(
      plan.files.weights.map(({ name }) => name),
      [3, 2, 1].map((i) => `${path}model-0000${i}-of-00003.safetensors`),
    );
    await withEngine({}, (engine) => engine.open(modelFiles(plan)));
  }
  const missingShard = { code: 'read', text: /which the index names/ };
  await assert.rejects(planFiles(filesIn('zoo/w/', '../w/')), missingShard);
});

test('a checkpoint that does not describe its model needs a config.json', async (t) => {
  t.assert.snapshot(await failure(planFiles(list({ 'out/ckpt.pt': 'x' }))));
  const [plan] = await planFiles(list({ 'out/model.pth': 'x', 'out/config.json': '{}' }));
  assert.equal(plan.format, 'pytorch');
  await assert.rejects(planFiles(list({ 'out/optimizer.pt': 'x' })), { code: 'read' });
});

test('several models are a choice: one per folder, one per GGUF file', async () => {
  const plans = await planFiles(
    list({
      'all/a/config.json': contents['config.json'],
      'all/a/model.safetensors': 'x',
      'all/a/README.md': '---\nlanguage: en\nlicense: mit\n---\n# A',
      'all/b/config.json': contents['config.json'],
      'all/b/pytorch_model.bin': 'xy',
      'all/c/one.gguf': 'GGUF',
      'all/c/two-00001-of-00002.gguf': 'GGUF',
      'all/c/two-00002-of-00002.gguf': 'GGUF!',
      'all/c/mmproj-x.gguf': 'GGUF',
      'all/d/notes.txt': 'nothing',
    }),
  );
  assert.deepEqual(
    plans.map(({ id, format, bytes, license }) => [id, format, bytes, license]),
    [
      ['all/a', 'safetensors', 1, 'mit'],
      ['all/b', 'pytorch', 2, undefined],
      ['all/c/one.gguf', 'gguf', 4, undefined],
      ['all/c/two-00001-of-00002.gguf', 'gguf', 9, undefined],
    ],
  );
});

test('an error names the missing file and the files that are present', async () => {
  const config = '{}';
  const index = (map) => JSON.stringify({ weight_map: map });
  const cases = [
    [{}, /expected model\.safetensors.*found no files/],
    [{ 'a.txt': '' }, /or a \.gguf file; found a\.txt/],
    [{ 'config.json': config }, /expected model\.safetensors.*found config\.json/],
    [{ 'm/model.safetensors': '' }, /^m: expected config\.json beside model\.safetensors/],
    [{ 'x/config.json': config, 'y/model.safetensors': '' }, /^y: expected config\.json beside/],
    [{ 'config.json': '[', 'model.safetensors': '' }, /config\.json: expected a JSON object/],
    [
      { 'config.json': config, 'model.safetensors.index.json': index({ a: 'b.safetensors' }) },
      /expected b\.safetensors, which the index names, found config\.json/,
    ],
    [{ 'config.json': config, 'model.safetensors.index.json': '{}' }, /a weight_map that names/],
    [
      { 'config.json': config, 'model.safetensors.index.json': index({ a: '../../etc/passwd' }) },
      /which the index names/,
    ],
    [
      { 'config.json': config, 'a.safetensors': '', 'b.safetensors': '' },
      /expected model\.safetensors, its index.*found config\.json, a\.safe/,
    ],
  ];
  for (const [entries, message] of cases) {
    await assert.rejects(planFiles(list(entries)), { code: 'read', message });
  }
});

test("a file picker's list keeps the folders of its files", () => {
  const pickedFiles = [
    { name: 'config.json', webkitRelativePath: 'm/config.json' },
    { name: 'model.gguf', webkitRelativePath: '' },
  ];
  assert.deepEqual(
    filesOfList(pickedFiles).map(({ path }) => path),
    ['m/config.json', 'model.gguf'],
  );
});

/** Imitates an entry of a dropped folder, which lists its files in parts, as a browser does: two at a time, then none. */
function entry(path, children) {
  const name = path.split('/').at(-1);
  if (children === undefined) {
    return { isFile: true, name, fullPath: path, file: (done) => done(new Blob(['x'])) };
  }
  const leftEntries = Object.entries(children).map(([key, value]) =>
    entry(`${path}/${key}`, value),
  );
  const createReader = () => ({ readEntries: (done) => done(leftEntries.splice(0, 2)) });
  return { isFile: false, name, fullPath: path, createReader };
}

test('a dropped folder is read with its subfolders', async () => {
  const tree = { a: undefined, b: undefined, c: { d: undefined }, '.git': { e: undefined } };
  const items = [
    { kind: 'string' },
    { kind: 'file', webkitGetAsEntry: () => entry('/m', tree) },
    { kind: 'file', getAsFile: () => new File(['x'], 'single.gguf') },
  ];
  const files = await filesOfDrop({ items });
  assert.deepEqual(
    files.map(({ path }) => path),
    ['m/a', 'm/b', 'm/c/d', 'single.gguf'],
  );
});

test('a dropped folder is read down to its eighth level', async () => {
  const makeNested = (depth) => ({
    f: undefined,
    ...(depth > 1 ? { d: makeNested(depth - 1) } : {}),
  });
  const files = await filesOfDrop({
    items: [{ kind: 'file', webkitGetAsEntry: () => entry('/m', makeNested(10)) }],
  });
  assert.deepEqual(
    files.map(({ path }) => path),
    Array.from({ length: 8 }, (_, i) => `m/${'d/'.repeat(i)}f`),
  );
});

test('a drop of too many files is rejected', async () => {
  const many = Object.fromEntries(Array.from({ length: 10_001 }, (_, i) => [`f${i}`, undefined]));
  const items = [{ kind: 'file', webkitGetAsEntry: () => entry('/m', many) }];
  await assert.rejects(filesOfDrop({ items }), { code: 'read', message: /at most 10000 files/ });
});

test('a file that disappears before it is read is named, with advice', async () => {
  const notFoundError = new DOMException(
    'A requested file or directory could not be found.',
    'NotFoundError',
  );
  const reject = (_, refuse) => refuse(notFoundError);
  for (const goneEntry of [
    { isFile: true, name: 'a', fullPath: '/m/a', file: reject },
    { name: 'm', fullPath: '/m/a', createReader: () => ({ readEntries: reject }) },
  ]) {
    const items = [{ kind: 'file', webkitGetAsEntry: () => goneEntry }];
    await assert.rejects(filesOfDrop({ items }), {
      code: 'read',
      message: /^\/m\/a: expected a file or folder that can be read, .*; drop it again$/,
    });
  }
});
