// Calls every public function with wrong arguments: the snapshot has the sentences that refuse them, and what is accepted.
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { after, test } from 'node:test';
import assert from 'node:assert/strict';
import * as promised from '../../wasm/index.ts';
import * as internal from '../../wasm/internal.ts';
import { binaries, files, root, softmax, tiny } from './helper.mjs';

const sinkscope = { ...promised, ...internal };
const {
  checkLabRecipe,
  compareRecordings,
  createEngine,
  csvField,
  csvOf,
  cutText,
  cutTokens,
  editLabel,
  fieldsFor,
  filesOfDrop,
  filesOfList,
  findPlan,
  guardTokenizer,
  headEffects,
  heldLoss,
  labConfig,
  labFolder,
  labTokenizer,
  labelHead,
  labOnward,
  load,
  measure,
  modelFiles,
  openPlan,
  openTimeline,
  openTokenizer,
  planFiles,
  planText,
  planTokenizer,
  readEdit,
  recordMaps,
  recordStudy,
  resolveHub,
  sha256,
  splitText,
  tokenNotes,
  spread,
  sweep,
  tokenizerOfGguf,
  copyTask,
  measureTask,
  measureUnmasking,
  recallTask,
  searchSuffix,
  textTask,
  tokenizerOfVocabulary,
  unmask,
} = sinkscope;

const LAB_FOLDER = {
  config: {},
  weights: new Uint8Array(1),
  tokenizer: '{}',
  recipe: { settings: {}, steps_done: 0, from: null, text: null },
};

/** Invalid values; undefined is a forgotten argument. */
const JUNK_VALUES = {
  null: null,
  undefined: undefined,
  NaN: NaN,
  'a negative number': -1.5,
  'a text': 'x',
  'a boolean': true,
  'a list': [null],
  'an object': { x: 1 },
  'a function': () => {},
  'a symbol': Symbol('s'),
  'an object without a prototype': Object.create(null),
};

const { config, weights } = files(tiny);
const tokenizerJson = readFileSync(new URL('tokenizer.json', softmax), 'utf8');
const tokenizer = openTokenizer(tokenizerJson);

class Trained {
  async read() {
    return [{ data: [1] }];
  }
}
const disk = [
  { path: 'm/config.json', file: new Blob([config]) },
  { path: 'm/model.safetensors', file: new Blob([weights]) },
];
const [plan] = await planFiles(disk);
const engine = await createEngine({ base: binaries, worker: false });
const model = await engine.open({ config, weights });
const loadedModel = await load(disk, { engine });
const describe = engine.describe;
const map = { shape: [1, 1, 2, 2], data: [1, 0, 0.5, 0.5] };
const recordingBytes = recordMaps([{ att: map }]);
const recording = await engine.openRecording(recordingBytes);
const firstResult = async (results) => (await results.next()).value;
/** Every requested file is missing, and no request leaves this machine. */
globalThis.fetch = async () => new Response('', { status: 404 });
const emptyHub = 'http://127.0.0.1/';
const index = new URL('models/zoo/softmax/timeline/index.json', root);
const timeline = await openTimeline(index);

const { signal } = new AbortController();
const onProgress = () => {};

/**
 * Each public function with valid arguments. The test replaces every argument, and every entry of plain
 * objects.
 */
const PUBLIC_CALLS = {
  createEngine: [
    async (...args) => (await createEngine(...args)).close(),
    { worker: false, base: binaries, workers: 1, onLost: () => {} },
  ],
  'engine.open': [
    async (...args) => (await engine.open(...args)).close(),
    { config, weights },
    { signal, onProgress, onHeader: () => {} },
  ],
  openPlan: [
    async (...args) => {
      const parts = await openPlan(...args);
      await parts.model.close();
      parts.tokenizer.close();
    },
    engine,
    plan,
    { cache: false, limit: 5000, signal, onProgress },
  ],
  'model.run': [
    async (...args) => (await model.run(...args)).close(),
    [1, 2],
    { fields: ['att'], edits: [], capacity: 4, signal },
  ],
  'model.runBytes': [
    (...args) => model.runBytes(...args),
    2,
    { fields: ['loss'], edits: [], capacity: 4, streaming: false },
  ],
  'model.metadata': [(...args) => model.metadata(...args), 'general.name'],
  'run.read': [async (...args) => (await model.run([1, 2])).read(...args), [{ metric: 'alpha' }]],
  'run.read, one': [
    async (read) => (await model.run([1, 2])).read([read]),
    { metric: 'alpha', eps: 0.3, tokens: 2, layer: 0, head: 0 },
  ],
  'run.field': [
    async (...args) => (await model.run([1, 2])).field(...args),
    'att',
    { layer: 0, head: 0 },
  ],
  'run.metric': [
    async (...args) => (await model.run([1, 2])).metric(...args),
    'alpha',
    { eps: 0.3, tokens: 2 },
  ],
  'run.record': [
    async (...args) => (await model.run([1, 2])).record(...args),
    {
      ...{ fields: ['att'], half: true, eps: [0.3], strings: (ids) => ids.map(String) },
      ...{ model: {}, first: {}, source: 'a', sourceSha256: 'ab', license: 'MIT', command: 'none' },
    },
  ],
  'engine.openRecording': [
    async (...args) => (await engine.openRecording(...args)).close(),
    recordingBytes,
    { signal, onProgress },
  ],
  'recording.metric': [(...args) => recording.metric(...args), 'alpha', { eps: 0.3, prompt: 0 }],
  'recording.field': [
    (...args) => recording.field(...args),
    'att',
    { layer: 0, head: 0, prompt: 0 },
  ],
  'recording.read': [(...args) => recording.read(...args), [{ metric: 'alpha' }], { prompt: 0 }],
  'recording.tensor': [(...args) => recording.tensor(...args), '0.att', { layer: 0, head: 0 }],
  'recording.mean': [
    (...args) => recording.mean(...args).catch(notThere),
    'sink_ratio',
    { eps: 0.3 },
  ],
  'recording.pooled': [
    (...args) => recording.pooled(...args).catch(notThere),
    { prompt: 0, layer: 0, head: 0 },
  ],
  'recording.measure': [
    (...args) => recording.measure(...args),
    { eps: [0.3], metrics: ['alpha'] },
  ],
  recordMaps: [recordMaps, [{ att: map }], { id: 'mine', operation: 'softmax', license: 'MIT' }],
  'recordMaps, one': [(maps) => recordMaps([maps]), { att: map, tokens: ['a', 'b'] }],
  recordStudy: [
    recordStudy,
    model,
    [[1, 2]],
    { keep: 1, eps: [0.3], metrics: ['alpha'], edits: [], license: 'MIT', signal },
  ],
  compareRecordings: [compareRecordings, recording, recording, { tolerance: 0 }],
  'run.generate': [
    async (...args) => firstResult((await model.run([1, 2])).generate(...args)),
    { count: 1, temperature: 0, topK: 0, seed: 1, signal, onProgress },
  ],
  cutText: [
    cutText,
    tokenizer,
    'Once upon a time there was a king.',
    { tokens: 4, sequences: 2, special: 'auto', lines: false },
  ],
  fieldsFor: [fieldsFor, describe, [{ metric: 'alpha' }]],
  'fieldsFor, one': [(read) => fieldsFor(describe, [read]), { field: 'att' }],
  measure: [
    measure,
    model,
    [[1, 2]],
    {
      ...{ eps: 0.3, metrics: ['alpha'], edits: [], streaming: false },
      ...{ signal, onProgress, onSequence: () => {} },
    },
  ],
  sweep: [
    sweep,
    model,
    [[1, 2]],
    [[]],
    { eps: 0.3, metrics: ['alpha'], signal, onProgress, onSequence: () => {} },
  ],
  findPlan: [findPlan, disk, { cache: false, token: 't', tries: 1, wait: 1 }],
  load: [
    async (...args) => (await load(...args)).close(),
    disk,
    { engine, cache: false, signal, onProgress },
  ],
  'loaded.measure': [
    (...args) => loadedModel.measure(...args),
    '1 2',
    { layer: 0, head: 0, eps: 0.3, special: 'auto', edits: [], onProgress },
  ],
  'loaded.map': [(...args) => loadedModel.map(...args), '1 2', { layer: 0, head: 0, edits: [] }],
  'loaded.generate': [
    (...args) => loadedModel.generate(...args),
    '1 2',
    { count: 1, temperature: 0, topK: 0, seed: 1, edits: [], onText: () => {} },
  ],
  'loaded.ablate': [
    (...args) => loadedModel.ablate(...args),
    '1 2',
    { layer: 0, head: 0, eps: 0.3, edits: ['silence(layer=0)'] },
  ],
  cutTokens: [cutTokens, tokenizer.encode('Once upon a time there was a king'), 4, 2],
  splitText: [splitText, 'one\ntwo', 'lines'],
  tokenNotes: [tokenNotes, tokenizer.encode('Once')],
  csvField: [csvField, 'a, b'],
  csvOf: [csvOf, [['head', 'L1H3']], ['key', 'weight'], [[0, 0.5]]],
  headEffects: [headEffects, model, [[1, 2]], { edits: [], signal, onProgress }],
  labelHead: [labelHead, { eps: 0.3, share: 0.9, contribution: 0.1, effect: 0 }],
  labConfig: [labConfig, { width: 16 }],
  labOnward: [
    labOnward,
    { n_positions: 64, bos_token_id: 0 },
    { operation: 'sigmoid' },
    { batch: 1 },
  ],
  labTokenizer: [labTokenizer, { vocabulary: 8, triggers: 2, first: 0 }],
  labFolder: [labFolder, LAB_FOLDER],
  checkLabRecipe: [checkLabRecipe, LAB_FOLDER.recipe],
  sha256: [sha256, 'a'],
  'engine.train': [
    async (options) => (await engine.train(options)).close(),
    { config: labConfig({ width: 8, inner: 8 }), recipe: { batch: 2 }, text: [1], begin: weights },
  ],
  heldLoss: [heldLoss, new Trained(), [[1, 2]]],
  spread: [(...args) => firstResult(spread(...args)), model, [1], async () => 1, { signal }],
  unmask: [unmask, model, [1, 2], { steps: 1, never: [], edits: [], onStep: () => {} }],
  measureUnmasking: [
    measureUnmasking,
    model,
    [[1, 2]],
    { masked: 0.5, steps: 1, seed: 1, never: [], edits: [], signal, onProgress },
  ],
  textTask: [textTask, [[1, 2, 3]]],
  copyTask: [copyTask, 9, { first: [0], never: [1], length: 2, prompts: 1, seed: 1 }],
  recallTask: [
    recallTask,
    tokenizer,
    { between: 1, prompts: 1, names: ['Tom', 'Mary'], special: 'auto' },
  ],
  measureTask: [
    measureTask,
    model,
    { name: 'x', prompts: [{ ids: [1, 2, 3, 4], from: 3 }], chance: 0 },
    { edits: [], seed: 1, signal, onProgress },
  ],
  searchSuffix: [
    searchSuffix,
    model,
    { prompt: [1], continuation: [2] },
    {
      goal: 'loss',
      length: 1,
      steps: 1,
      width: 1,
      seed: 1,
      never: [],
      edits: [],
      others: [{ prompt: [1], continuation: [2] }],
      signal,
      onStep: () => {},
    },
  ],
  modelFiles: [modelFiles, plan, { token: 'hf', cache: false }],
  planText: [planText, plan, plan.files.config, { token: 'hf', cache: false }],
  planTokenizer: [planTokenizer, plan, model, { cache: false }],
  planFiles: [planFiles, disk],
  'planFiles, one': [(file) => planFiles([file]), disk[0]],
  filesOfList: [filesOfList, []],
  filesOfDrop: [filesOfDrop, { items: [] }],
  resolveHub: [
    resolveHub,
    'owner/name',
    {
      endpoint: emptyHub,
      tries: 1,
      wait: 1,
      stall: 100,
      token: 'hf',
      cache: false,
      onRetry: () => {},
    },
  ],
  openTimeline: [openTimeline, index, { signal }],
  'timeline.open': [
    (...args) => timeline.open(...args),
    timeline.checkpoints[0].step,
    { onProgress },
  ],
  'timeline.preload': [
    (...args) => timeline.preload(...args),
    timeline.checkpoints[0].step,
    { signal },
  ],
  openTokenizer: [openTokenizer, tokenizerJson, {}],
  'tokenizer.encode': [(...args) => tokenizer.encode(...args), 'a', { special: 'auto' }],
  'tokenizer.decode': [(...args) => tokenizer.decode(...args), [1, 2]],
  'tokenizer.piece': [(...args) => tokenizer.piece(...args), 1],
  tokenizerOfVocabulary: [tokenizerOfVocabulary, { a: 0 }, '', {}, {}],
  tokenizerOfGguf: [tokenizerOfGguf, () => undefined],
  guardTokenizer: [
    async (...args) => (await guardTokenizer(...args)).close(),
    { tokenizer: tokenizerJson, config: '{}' },
    { limit: 5000, signal },
  ],
  editLabel: [editLabel, { kind: 'silence' }, describe],
  readEdit: [readEdit, 'mask(first=1,recent=2)', describe],
  judge: [sinkscope.judge, { eps: 0.3, even: 0.1, normalizes: true, sink: 0.5, sinkRaw: 0.5 }],
  leastTokens: [sinkscope.leastTokens, 0.3],
  uniformAlphas: [sinkscope.uniformAlphas, 4],
  cacheClear: [sinkscope.cacheClear, 'owner/name'],
};

function notThere(error) {
  if (error.code !== 'bad_request') throw error;
}

function* spoilArguments(args) {
  for (const [i, arg] of args.entries()) {
    for (const [junkName, junk] of Object.entries(JUNK_VALUES)) {
      yield [`argument ${i + 1} is ${junkName}`, args.with(i, junk)];
      if (Object.getPrototypeOf(Object(arg)) !== Object.prototype) continue;
      for (const key of Object.keys(arg)) {
        yield [`${key} of argument ${i + 1} is ${junkName}`, args.with(i, { ...arg, [key]: junk })];
      }
    }
  }
}

test('the table has every function that the package exports', () => {
  const functions = Object.entries(sinkscope).filter(([name]) => /^[a-z]/.test(name));
  // They take nothing, or a file that the browser has given.
  const uncheckedNames = ['cacheBytes', 'cacheList', 'markOf', 'openSeries'];
  const untestedNames = functions
    .map(([name]) => name)
    .filter((name) => !(name in PUBLIC_CALLS || uncheckedNames.includes(name)));
  assert.deepEqual(untestedNames, []);
});

/** The sentence without the value that was found, and without paths of this machine. */
const sentenceOf = ({ where, text }) =>
  `${where}: ${text}`.replace(/, (got|found) .*/s, '').replaceAll(fileURLToPath(root), '');

for (const [name, [call, ...args]] of Object.entries(PUBLIC_CALLS)) {
  test(`${name} rejects invalid arguments in a sentence`, { timeout: 120_000 }, async (t) => {
    const failures = [];
    const refused = new Set();
    const accepted = [];
    for (const [junkName, spoilt] of spoilArguments(args)) {
      try {
        await call(...spoilt);
        accepted.push(junkName);
      } catch (error) {
        const { code, where, text } = error ?? {};
        const isTold = error?.name === 'SinkscopeError' && code !== 'internal' && where && text;
        if (!isTold) failures.push(`${junkName}: ${String(error)} (${code})`);
        else refused.add(sentenceOf(error));
      }
    }
    assert.deepEqual(failures, []);
    t.assert.snapshot({ refused: [...refused].sort(), accepted });
  });
}
after(() => engine.close());
