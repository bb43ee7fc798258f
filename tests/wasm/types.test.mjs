// Tests the types as an editor uses them: documentation of members, a program that uses all names, and errors.
import { test } from 'node:test';
import assert from 'node:assert/strict';
import { fileURLToPath } from 'node:url';
import ts from '../../wasm/node_modules/typescript/lib/typescript.js';
import { root } from './helper.mjs';

const PROGRAM = `import { load, type TextMeasures } from './wasm/index.ts';
const model = await load('owner/name', { onProgress: ({ done, total }) => console.log(done / total) });
const measures: TextMeasures = await model.measure('A text.', { edits: ['hide_key(key=0)'], eps: 0.2 });
const { map, tokens } = await model.map('A text.', { layer: measures.layer, head: 0 });
const row: Float32Array | Int32Array = map.data.subarray(0, tokens.length);
const text: string = await model.generate('A text.', { count: 4, onText: (written) => written.length });
const { change } = await model.ablate('A text.', { layer: 1 });
const nats: number = change ?? row.length + text.length;
await model.close();
model.;
load('a', { });
model.generate('a', { });
`;
const file = fileURLToPath(new URL('sample.mts', root));

/**
 * Returns a language service for a text that is in no file.
 * @param {string} text
 */
function editorOf(text) {
  const options = {
    ...{ strict: true, noEmit: true, types: [], lib: ['lib.es2022.d.ts', 'lib.dom.d.ts'] },
    ...{ target: ts.ScriptTarget.ES2022, module: ts.ModuleKind.NodeNext, skipLibCheck: true },
    allowImportingTsExtensions: true,
  };
  const read = (/** @type {string} */ path) => (path === file ? text : ts.sys.readFile(path));
  const host = {
    getCompilationSettings: () => options,
    getScriptFileNames: () => [file],
    getScriptVersion: () => '1',
    getScriptSnapshot: (path) => {
      const content = read(path);
      return content === undefined ? undefined : ts.ScriptSnapshot.fromString(content);
    },
    getCurrentDirectory: () => fileURLToPath(root),
    getDefaultLibFileName: ts.getDefaultLibFilePath,
    fileExists: (path) => path === file || ts.sys.fileExists(path),
    readFile: read,
    directoryExists: ts.sys.directoryExists,
    getDirectories: ts.sys.getDirectories,
  };
  const service = ts.createLanguageService(host);
  const after = (/** @type {string} */ words) => text.indexOf(words) + words.length;
  return {
    completions: (words) =>
      service.getCompletionsAtPosition(file, after(words), {}).entries.map(({ name }) => name),
    detailsOf: (words, name) =>
      service.getCompletionEntryDetails(file, after(words), name, {}, undefined, {}, undefined),
    errors: () =>
      service
        .getSemanticDiagnostics(file)
        .map(({ messageText }) => ts.flattenDiagnosticMessageText(messageText, ' ')),
  };
}

test('an editor completes all members and options, and each member has a comment', () => {
  const editor = editorOf(PROGRAM);
  const members = editor.completions('\nmodel.');
  assert.deepEqual(members.toSorted(), [
    ...['ablate', 'close', 'engine', 'generate', 'id', 'map', 'measure'],
    ...['model', 'plan', 'tokenizer'],
  ]);
  for (const name of ['measure', 'map', 'generate', 'ablate', 'close']) {
    const { documentation = [], tags = [] } = editor.detailsOf('\nmodel.', name);
    assert.ok(documentation.length + tags.length > 0, `${name} says what it does`);
  }
  const options = editor.completions("load('a', {");
  for (const name of ['cache', 'signal', 'onProgress', 'engine', 'token'])
    assert.ok(options.includes(name), name);
  const ofText = editor.completions("model.generate('a', {");
  for (const name of ['count', 'temperature', 'seed', 'onText', 'edits', 'special'])
    assert.ok(ofText.includes(name), name);
});

test('a program that uses every name compiles, and mistakes are type errors', () => {
  const programWithoutError = PROGRAM.replace(/\nmodel\.;[^]*$/, '\n');
  assert.deepEqual(editorOf(programWithoutError).errors(), []);
  const mistakes = [
    ["await model.map('A text.');", /Expected 2 arguments, but got 1/],
    ["await model.generate('A text.', { counts: 4 });", /'counts' does not exist/],
    ["const loss: number = (await model.measure('A text.')).loss;", /'null' is not assignable/],
    ["await load('a', { cache: 'yes' });", /'string' is not assignable/],
  ];
  const errors = editorOf(
    [programWithoutError, ...mistakes.map(([slip]) => slip)].join('\n'),
  ).errors();
  assert.equal(errors.length, mistakes.length);
  for (const [i, [slip, error]] of mistakes.entries()) assert.match(errors[i], error, slip);
});
