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
  createEngine,
  fieldsFor,
  guardTokenizer,
  labConfig,
  load,
  openPlan,
  openTimeline,
  openTokenizer,
  planFiles,
  recordMaps,
  spread,
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

/** The objects whose methods are called. */
const OBJECTS = { model, recording, timeline, tokenizer, loaded: loadedModel };
/** Valid arguments of functions and methods. The test replaces every argument, and every entry of plain objects. */
const ARGUMENTS = {
  recordMaps: [[{ att: map }], { id: 'mine', operation: 'softmax', license: 'MIT' }],
  recordStudy: [
    model,
    [[1, 2]],
    { keep: 1, eps: [0.3], metrics: ['alpha'], edits: [], license: 'MIT', signal },
  ],
  compareRecordings: [recording, recording, { tolerance: 0 }],
  cutText: [
    tokenizer,
    'Once upon a time there was a king.',
    { tokens: 4, sequences: 2, special: 'auto', lines: false },
  ],
  fieldsFor: [describe, [{ metric: 'alpha' }]],
  measure: [
    model,
    [[1, 2]],
    {
      ...{ eps: 0.3, metrics: ['alpha'], edits: [], streaming: false },
      ...{ signal, onProgress, onSequence: () => {} },
    },
  ],
  sweep: [
    model,
    [[1, 2]],
    [[]],
    { eps: 0.3, metrics: ['alpha'], signal, onProgress, onSequence: () => {} },
  ],
  findPlan: [disk, { cache: false, token: 't', tries: 1, wait: 1 }],
  cutTokens: [tokenizer.encode('Once upon a time there was a king'), 4, 2],
  splitText: ['one\ntwo', 'lines'],
  tokenNotes: [tokenizer.encode('Once')],
  csvField: ['a, b'],
  csvOf: [[['head', 'L1H3']], ['key', 'weight'], [[0, 0.5]]],
  headEffects: [model, [[1, 2]], { edits: [], signal, onProgress }],
  labelHead: [{ eps: 0.3, share: 0.9, contribution: 0.1, effect: 0 }],
  labConfig: [{ width: 16 }],
  labOnward: [{ n_positions: 64, bos_token_id: 0 }, { operation: 'sigmoid' }, { batch: 1 }],
  labTokenizer: [{ vocabulary: 8, triggers: 2, first: 0 }],
  labFolder: [LAB_FOLDER],
  checkLabRecipe: [LAB_FOLDER.recipe],
  sha256: ['a'],
  heldLoss: [new Trained(), [[1, 2]]],
  unmask: [model, [1, 2], { steps: 1, never: [], edits: [], onStep: () => {} }],
  measureUnmasking: [
    model,
    [[1, 2]],
    { masked: 0.5, steps: 1, seed: 1, never: [], edits: [], signal, onProgress },
  ],
  textTask: [[[1, 2, 3]]],
  copyTask: [9, { first: [0], never: [1], length: 2, prompts: 1, seed: 1 }],
  recallTask: [tokenizer, { between: 1, prompts: 1, names: ['Tom', 'Mary'], special: 'auto' }],
  measureTask: [
    model,
    { name: 'x', prompts: [{ ids: [1, 2, 3, 4], from: 3 }], chance: 0 },
    { edits: [], seed: 1, signal, onProgress },
  ],
  searchSuffix: [
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
  modelFiles: [plan, { token: 'hf', cache: false }],
  planText: [plan, plan.files.config, { token: 'hf', cache: false }],
  planTokenizer: [plan, model, { cache: false }],
  planFiles: [disk],
  filesOfList: [[]],
  filesOfDrop: [{ items: [] }],
  resolveHub: [
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
  openTimeline: [index, { signal }],
  openTokenizer: [tokenizerJson, {}],
  tokenizerOfVocabulary: [{ a: 0 }, '', {}, {}],
  tokenizerOfGguf: [() => undefined],
  editLabel: [{ kind: 'silence' }, describe],
  readEdit: ['mask(first=1,recent=2)', describe],
  judge: [{ eps: 0.3, even: 0.1, normalizes: true, sink: 0.5, sinkRaw: 0.5 }],
  leastTokens: [0.3],
  uniformAlphas: [4],
  cacheClear: ['owner/name'],
  'model.runBytes': [2, { fields: ['loss'], edits: [], capacity: 4, streaming: false }],
  'model.metadata': ['general.name'],
  'run.read': [[{ metric: 'alpha' }]],
  'run.field': ['att', { layer: 0, head: 0 }],
  'run.metric': ['alpha', { eps: 0.3, tokens: 2 }],
  'run.record': [
    {
      ...{ fields: ['att'], half: true, eps: [0.3], strings: (ids) => ids.map(String) },
      ...{ model: {}, first: {}, source: 'a', sourceSha256: 'ab', license: 'MIT', command: 'none' },
    },
  ],
  'recording.metric': ['alpha', { eps: 0.3, prompt: 0 }],
  'recording.field': ['att', { layer: 0, head: 0, prompt: 0 }],
  'recording.read': [[{ metric: 'alpha' }], { prompt: 0 }],
  'recording.tensor': ['0.att', { layer: 0, head: 0 }],
  'recording.measure': [{ eps: [0.3], metrics: ['alpha'] }],
  'loaded.measure': [
    '1 2',
    { layer: 0, head: 0, eps: 0.3, special: 'auto', edits: [], onProgress },
  ],
  'loaded.map': ['1 2', { layer: 0, head: 0, edits: [] }],
  'loaded.generate': [
    '1 2',
    { count: 1, temperature: 0, topK: 0, seed: 1, edits: [], onText: () => {} },
  ],
  'loaded.ablate': ['1 2', { layer: 0, head: 0, eps: 0.3, edits: ['silence(layer=0)'] }],
  'timeline.open': [timeline.checkpoints[0].step, { onProgress }],
  'timeline.preload': [timeline.checkpoints[0].step, { signal }],
  'tokenizer.encode': ['a', { special: 'auto' }],
  'tokenizer.decode': [[1, 2]],
  'tokenizer.piece': [1],
};
/** What leaves something open or answers in parts: how it is called, and its valid arguments. */
const OWN_CALLS = {
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
  'run.read, one': [
    async (read) => (await model.run([1, 2])).read([read]),
    { metric: 'alpha', eps: 0.3, tokens: 2, layer: 0, head: 0 },
  ],
  'engine.openRecording': [
    async (...args) => (await engine.openRecording(...args)).close(),
    recordingBytes,
    { signal, onProgress },
  ],
  'recording.mean': [
    (...args) => recording.mean(...args).catch(notThere),
    'sink_ratio',
    { eps: 0.3 },
  ],
  'recording.pooled': [
    (...args) => recording.pooled(...args).catch(notThere),
    { prompt: 0, layer: 0, head: 0 },
  ],
  'recordMaps, one': [(maps) => recordMaps([maps]), { att: map, tokens: ['a', 'b'] }],
  'run.generate': [
    async (...args) => firstResult((await model.run([1, 2])).generate(...args)),
    { count: 1, temperature: 0, topK: 0, seed: 1, signal, onProgress },
  ],
  'fieldsFor, one': [(read) => fieldsFor(describe, [read]), { field: 'att' }],
  load: [
    async (...args) => (await load(...args)).close(),
    disk,
    { engine, cache: false, signal, onProgress },
  ],
  'engine.train': [
    async (options) => (await engine.train(options)).close(),
    { config: labConfig({ width: 8, inner: 8 }), recipe: { batch: 2 }, text: [1], begin: weights },
  ],
  spread: [(...args) => firstResult(spread(...args)), model, [1], async () => 1, { signal }],
  'planFiles, one': [(file) => planFiles([file]), disk[0]],
  guardTokenizer: [
    async (...args) => (await guardTokenizer(...args)).close(),
    { tokenizer: tokenizerJson, config: '{}' },
    { limit: 5000, signal },
  ],
};
/** @param {string} name */
const callOf = (name) => {
  const [object, method] = name.split('.');
  if (!method) return sinkscope[name];
  return async (...args) =>
    (object === 'run' ? await model.run([1, 2]) : OBJECTS[object])[method](...args);
};
const PUBLIC_CALLS = {
  ...OWN_CALLS,
  ...Object.fromEntries(
    Object.entries(ARGUMENTS).map(([name, args]) => [name, [callOf(name), ...args]]),
  ),
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
