// Tests the command line in this process: its inputs, its sentences about recordings, and its refusals.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import assert from 'node:assert/strict';
import { fileURLToPath } from 'node:url';
import { differencesText } from '../../wasm/command/recording.ts';
import { recordingAt } from '../../wasm/command/recording_at.ts';
import { measureAblation, ablationText } from '../../wasm/command/loaded.ts';
import { speedText } from '../../wasm/command/measure.ts';
import { specialOf, readInput } from '../../wasm/command/open.ts';
import { metricText, summaryText } from '../../wasm/command/summary.ts';
import {
  parseIds,
  parseCount,
  parseNumber,
  parsePositive,
  parseThresholds,
} from '../../wasm/command/values.ts';
import { searchOpenedModel } from '../../wasm/command/suffix.ts';
import { promptsText, toCsv } from '../../wasm/command/sheet.ts';
import { makeTasks } from '../../wasm/command/tasks.ts';
import { codeOf, parseTextList, readText } from '../../wasm/command/text_file.ts';
import { errorOf, failure, runCli, softmax } from './helper.mjs';

const folder = mkdtempSync(join(tmpdir(), 'sinkscope-command-'));
after(() => rmSync(folder, { recursive: true }));
const writeInput = (name, data) => {
  const path = join(folder, name);
  writeFileSync(path, data);
  return path;
};

test('a mean over key/value heads omits heads that a layer lacks', () => {
  const metric = { name: 'value_ratio', shape: ['L', 'G'], unit: 'ratio' };
  const metrics = {
    value_ratio: { shape: [2, 2], mean: [1, 0.5, 0.75, null], deviation: Array(4).fill(null) },
  };
  const result = { metrics, architecture: {}, first: 0 };
  assert.equal(
    metricText(metric, result, { defaults: { keys: 10 } }),
    'mean 0.750, largest 1.000 (L0G0)',
  );
});

test('a list of texts is accepted only from a .json file with nothing but texts', () => {
  for (const [path, text, list] of [
    ['a.json', '["x","y"]', ['x', 'y']],
    ['a.JSON', '[]', []],
    ['a.json', '{"0":"x","length":1}', undefined],
    ['a.json', '["x"', undefined],
    ['ajson', '["x"]', undefined],
    ['a.json.txt', '["x"]', undefined],
  ])
    assert.deepEqual(parseTextList(path, text), list, path);
  assert.throws(() => parseTextList('a.json', '["x",3]'), /a\.json\[1\]: expected a string, got 3/);
});

test('a text is decoded across chunks, and invalid bytes are rejected with the number of bytes read', async (t) => {
  // Chunks have 65536 bytes, so the two bytes of the umlaut are in different chunks.
  const longText = `${'a'.repeat(65535)}ä`;
  assert.equal(await readText(writeInput('long.txt', longText), '--text-file'), longText);
  const cutFile = writeInput('cut.txt', Buffer.from(longText).subarray(0, 65536));
  const bad = writeInput('bad.txt', Buffer.from([65, 255]));
  for (const path of [cutFile, bad, join(folder, 'no'), folder])
    t.assert.snapshot((await failure(readText(path, '--x'))).text);
  if (process.platform === 'linux')
    assert.match((await failure(readText('/dev/zero', '--x'))).text, /^expected at most \d+ bytes/);
  assert.equal(codeOf(Object.assign(new Error('x'), { code: 3 })), '3');
  assert.equal(codeOf(new Error('x')), 'Error: x');
  assert.equal(codeOf({ code: 3 }), '[object Object]');
});

test('a recording is recognized by its header within the file', async () => {
  const file = (length, header) => {
    const lengthBytes = Buffer.alloc(8);
    lengthBytes.writeBigUInt64LE(BigInt(length));
    return writeInput('some.safetensors', Buffer.concat([lengthBytes, Buffer.from(header)]));
  };
  const header = '{"__metadata__":{"sinkscope.recording":"1"}}';
  const { length } = header;
  for (const [path, is] of [
    [() => file(length, header), true],
    [() => file(length - 30, header), false],
    [() => file(length, header.replace('scope', 'hole')), false],
    [() => file(length + 1, header), false],
    [() => file(0, header), false],
    [() => writeInput('short', header.slice(0, 7)), false],
    [() => writeInput('short', ''), false],
    [() => folder, false],
    [() => join(folder, 'no'), false],
  ])
    assert.equal(Boolean(await recordingAt(path())), is);
});

test('each difference has a line, tensors in only one recording are noted, and the last line counts the differences', (t) => {
  const conditionDifference = { name: 'operation', a: 'softmax', b: { x: 1 } };
  const tensorDifference = {
    name: 'alpha',
    index: [1, 2],
    a: 0.5,
    b: 0.25,
    difference: 0.25,
    count: 3,
    of: 8,
  };
  const undefinedDifference = {
    ...tensorDifference,
    index: [0],
    a: 1,
    b: null,
    difference: Infinity,
  };
  const comparison = {
    differences: [conditionDifference, tensorDifference, undefinedDifference],
    compared: ['a', 'b'],
    onlyA: ['c', 'd'],
    onlyB: [],
  };
  t.assert.snapshot(differencesText(comparison, 0.5).split('\n'));
  const equalComparison = { differences: [], compared: ['a'], onlyA: [], onlyB: ['e'] };
  t.assert.snapshot(differencesText(equalComparison, 0));
});

test('a suffix goes into the middle of a sequence by default, before its last token', async (t) => {
  const runs = [];
  const run = async (ids) => {
    runs.push([...ids]);
    return {
      field: async () => ({ shape: [ids.length], data: new Float32Array(ids.length) }),
      close: async () => {},
    };
  };
  const model = { run, architecture: { V: 9, context: 20 } };
  const tokenizer = { special: [0, 1, 2, 3, 4, 5, 6, 7], piece: (id) => `<${id}>` };
  const openedModel = { id: 'mine', model, tokenizer, sequences: [[1, 2, 3, 4, 5]], edits: [] };
  const options = { goal: 'loss', length: 2, steps: 0, width: 1, seed: 0 };
  for (const [prompt, promptLength] of [
    [undefined, 2],
    [4, 4],
  ]) {
    runs.length = 0;
    const result = await searchOpenedModel(openedModel, { ...options, prompt });
    const { model: id, goal, prompt: promptTokens, tokens, pieces } = result;
    assert.deepEqual(
      [id, goal, promptTokens, tokens, pieces],
      ['mine', 'loss', promptLength, 5, ['<8>', '<8>']],
    );
    assert.deepEqual(runs[0], [1, 2, 3, 4, 5].toSpliced(promptLength, 0, 8, 8));
  }
  for (const change of [{ prompt: 5 }, { goal: 'toString' }]) {
    const error = await failure(searchOpenedModel(openedModel, { ...options, ...change }));
    t.assert.snapshot([error.where, error.text]);
  }
});

test('tasks of names are omitted if the tokenizer has no two names', async () => {
  const fakeTokenizer = {
    special: [0],
    encode: async (text) => [{ id: text ? 3 : 2, start: 0, end: text.length }],
  };
  const options = { copied: 3, between: [1, 2], prompts: 2, seed: 1 };
  const tasks = await makeTasks(options, { architecture: { V: 9 } }, fakeTokenizer, 'none');
  assert.deepEqual(
    tasks.map(({ name, chance, prompts }) => [name, chance, prompts.length]),
    [['copy', 1 / 3, 2]],
  );
  for (const { ids } of tasks[0].prompts) {
    assert.equal(ids[0], 2);
    assert.ok(ids.slice(1).every((id) => id !== 0 && id !== 2));
  }
});

const path = fileURLToPath(softmax);
const ids = ['--ids', '0,5,9,7,3,8,2,6,4,11', '--workers', '1'];

test('a measurement says whether its texts are long enough, and lists thresholds only if there are several', async () => {
  const json = async (...args) => JSON.parse((await runCli(...args, '--json')).stdout);
  const otherIds = ids.with(1, '0,5,9,7,3,8,2,6,4');
  const recording = join(folder, 'own.safetensors');
  await runCli('record', path, ...ids, '--out', recording);
  for (const [args, T, conclusive, thresholds] of [
    [[path, ...ids], 10, true, undefined],
    [[path, ...otherIds], 9, false, undefined],
    [[path, ...ids, '--eps', '.3,.5'], 10, true, [0.3, 0.5]],
    [[recording], 10, true, undefined],
  ]) {
    const result = await json('measure', ...args);
    const listed = result.byEps?.map(({ eps }) => eps);
    assert.deepEqual(
      [result.T, result.conclusive, result.least_tokens, listed],
      [T, conclusive, 10, thresholds],
    );
  }
});

test('a measurement begins with the model, its size and its text, and omits its speed', async (t) => {
  const { status, stdout, stderr } = await runCli('measure', path, ...ids);
  assert.equal(status, 0);
  assert.match(stderr, /^sinkscope: [\d.]+ sequences a second, 1 worker\n$/);
  const lines = stdout.split('\n');
  assert.equal(lines[0], `${path}: llama, 6 layers, 4 heads`);
  t.assert.snapshot(lines[1]);
  assert.ok(!lines[2].startsWith('too short') && !/deviation/.test(stdout), stdout);
  const other = await runCli('measure', path, ...ids, '--ids', '5,1,2,3,4,5,6,7,8,9');
  assert.match(other.stdout.split('\n')[1], /over 2 sequences .*, no common first token$/);
});

test('a wrong option is rejected in one line, and nothing is printed', async (t) => {
  for (const args of [
    ['measure', path, path, '--workers', '1'],
    ['train', '--workers'],
    ['train', '--workers', ''],
  ])
    t.assert.snapshot(await runCli(...args));
  const unknownOption = await runCli('measure', '--depth');
  assert.match(unknownOption.stderr, /^sinkscope: --depth: measure has no such option/);
});

test('training can be interrupted at any time', async () => {
  const before = process.listeners('SIGINT');
  const size = ['--width', '8', '--inner', '8', '--vocabulary', '16', '--context', '8'];
  const recipe = ['--length', '8', '--batch', '2', '--triggers', '2', '--steps', '2'];
  const { status, stdout, stderr } = await runCli('train', ...size, ...recipe);
  assert.deepEqual([status, stderr], [0, '']);
  assert.match(stdout, /^step +0 +loss \d/m);
  assert.deepEqual(process.listeners('SIGINT'), before);
  const longerTraining = await runCli('train', ...size, ...recipe.with(-1, '12'));
  assert.deepEqual(
    longerTraining.stdout
      .match(/^step +\d+/gm)
      .slice(0, 2)
      .map((line) => line.slice(4).trim()),
    ['0', '10'],
  );
  const noInterval = await runCli('train', '--every', '0');
  assert.match(
    noInterval.stderr,
    /^sinkscope: --every: expected a whole number above 0, got "0"\n$/,
  );
});

test('numbers of options are accepted up to their bounds', (t) => {
  for (const [read, text, value] of [
    [parsePositive, '1', 1],
    [parsePositive, '999999999', 999999999],
    [parseCount, '0', 0],
    [parseCount, '999999999', 999999999],
    [(text) => parseNumber(text, 0.5, 2, '--x'), '0.5', 0.5],
    [(text) => parseNumber(text, 0.5, 2, '--x'), '2', 2],
    [parseThresholds, '0,1,.3', [0, 1, 0.3]],
    [parseIds, '0, 5,999999999', [0, 5, 999999999]],
  ])
    assert.deepEqual(read(text, '--x'), value);
  for (const [read, text] of [
    [parsePositive, '0'],
    [parsePositive, '1234567890'],
    [parseCount, ''],
    [parseCount, '1234567890'],
    [(text) => parseNumber(text, 0.5, 2, '--x'), ' '],
    [(text) => parseNumber(text, 0.5, 2, '--x'), '2.01'],
    [(text) => parseNumber(text, 0.5, 2, '--x'), '0.49'],
    [parseThresholds, '0.3,1.01'],
    [parseThresholds, '-0.1'],
    [parseIds, ''],
    [parseIds, '1,,2'],
    [parseIds, 'x'.repeat(81)],
  ])
    t.assert.snapshot(errorOf(() => read(text, '--x')));
});

test('texts are joined up to the requested number of sequences', async (t) => {
  const inputOf = (values) => readInput({ lines: false, join: '1', ...values });
  const list = writeInput('lines.txt', 'a\n \nb\r\nc\n');
  const json = writeInput('list.json', '["a\\nb","","c"]');
  const file = { 'text-file': list };
  assert.deepEqual(await inputOf(file), { text: 'a\n \nb\r\nc\n' });
  const lines = { ...file, lines: true };
  const texts = (text, notes = []) => ({ text, notes });
  assert.deepEqual(await inputOf(lines), texts(['a', 'b', 'c']));
  const oneLeft = texts(['a\n\nb'], ['1 of 3 texts is left over']);
  assert.deepEqual(await inputOf({ ...lines, join: '2' }), oneLeft);
  assert.deepEqual(await inputOf({ ...lines, join: '3' }), texts(['a\n\nb\n\nc']));
  assert.deepEqual(await inputOf({ 'text-file': json, lines: true }), texts(['a\nb', '', 'c']));
  const empty = { 'text-file': writeInput('empty.txt', '\n'), lines: true };
  assert.deepEqual(await inputOf(empty), texts([]));
  const { text } = await failure(inputOf({ ...lines, join: '4' }));
  assert.equal(text, `expected at most the 3 texts of ${list}, got 4`);
  assert.deepEqual(await inputOf({ text: '' }), { text: '' });
  assert.deepEqual(await inputOf({ ids: ['1,2', '3'] }), { text: '', ids: [[1, 2], [3]] });
  const objectFile = writeInput('object.json', '{}');
  for (const values of [
    {},
    { text: 'a', ids: ['1'] },
    { ...lines, join: '0' },
    { 'text-file': objectFile, lines: true },
    { 'text-file': writeInput('number.json', '["one", 5]'), lines: true },
  ]) {
    const { where, text } = await failure(inputOf(values));
    t.assert.snapshot(`${where.replace(folder, '')}: ${text}`);
  }
});

test('a speed below ten has two digits, and --special bos needs a start token', () => {
  const words = (rate, length) => speedText(rate, { replicas: { length } });
  assert.equal(words(9.96, 1), 'sinkscope: 10 sequences a second, 1 worker\n');
  assert.equal(words(0.123, 2), 'sinkscope: 0.12 sequences a second, 2 workers\n');
  assert.equal(words(10, 2), 'sinkscope: 10 sequences a second, 2 workers\n');
  assert.equal(words(123.4, 1), 'sinkscope: 123 sequences a second, 1 worker\n');
  const tokenizer = { bos: 0, piece: (id) => `<${id}>` };
  for (const [special, expectedSpecial] of [
    ['auto', 'auto'],
    ['none', 'none'],
    ['bos', ['<0>']],
    ['<x>', ['<x>']],
  ])
    assert.deepEqual(specialOf(tokenizer, special), expectedSpecial);
  const message = /^--special: expected auto or none .*, got "bos"$/;
  assert.throws(() => specialOf({ ...tokenizer, bos: null }, 'bos'), { message });
});

test('a summary shows each metric as its shape allows', (t) => {
  const row = (name, shape, unit = 'nats') => ({ name, label: name, shape, unit });
  const describe = {
    defaults: { keys: 3 },
    operations: [
      { name: 'softmax', proxy: 'weights' },
      { name: 'sigmoid', proxy: 'share' },
    ],
    metrics: [
      { ...row('sink_ratio', ['1'], 'share of heads'), label: 'Sink_k' },
      row('sink_ratio_raw', ['1'], 'share of heads'),
      row('keys', ['T']),
      row('first', ['T']),
      row('one', ['1']),
      row('layers', ['L']),
      row('heads', ['L', 'H', 'T'], 'share of a row'),
      row('none', ['L', 'H']),
      row('absent', ['L']),
    ],
  };
  const metricMean = (shape, mean, deviation = mean.map(() => null)) => ({
    shape,
    mean,
    deviation,
  });
  const metrics = {
    sink_ratio: metricMean([1], [0.25], [0.125]),
    keys: metricMean([4], [1, 2, 3, 9], [0.5, 0, 0, 0]),
    first: metricMean([1], [1]),
    one: metricMean([1], [1.5], [0.25]),
    layers: metricMean([3], [1, null, 2]),
    heads: metricMean([2, 2, 2], [0.5, 9, 0.25, 9, null, 9, 0.75, 9]),
    none: metricMean([1, 1], [null]),
  };
  const result = {
    ...{ model: 'mine', class: 'measured', sequences: 2, T: 10, eps: 0.3, special: 'auto' },
    ...{ first: '<s>', edits: [{ label: 'changed' }], metrics },
    architecture: {
      ...{ L: 2, H: 3, family: 'llama', mask: { kind: 'causal' } },
      attention: { operation: 'softmax' },
    },
    cut: { asked: 2, sequences: 2, short: 1, read: 9, notes: [] },
  };
  const summaryLines = (changes) => summaryText({ ...result, ...changes }, describe).split('\n');
  t.assert.snapshot(summaryLines({}));
  // Where rows need not sum to 1 the weight has the metric's name, and the share of the row says what it is.
  const sigmoid = { ...result.architecture, attention: { operation: 'sigmoid' } };
  const weights = { ...metrics, sink_ratio_raw: metricMean([1], [0.0625]) };
  t.assert.snapshot(summaryLines({ architecture: sigmoid, metrics: weights }).slice(2, 4));
  t.assert.snapshot(summaryLines({ special: undefined, first: undefined })[1]);
  t.assert.snapshot(summaryLines({ special: null })[1]);
  const shortCut = { cut: { asked: 3, sequences: 2, short: 0, read: 9, notes: [] } };
  t.assert.snapshot(summaryLines(shortCut)[2]);
  // Each text gives one sequence at most, so that more tokens of text would not give more.
  for (const counts of [
    { short: 0, texts: 2 },
    { short: 0, texts: 1 },
    { short: 1, texts: 3 },
  ])
    t.assert.snapshot(summaryLines({ cut: { ...shortCut.cut, ...counts } })[2]);
  for (const [values, rangeText] of [
    [[1, 2], 'k = 2: 2.000 at k = 2'],
    [[1, 2, 5], 'k = 2-3: 5.000 at k = 3'],
    [[1, 2, 5, 9], 'k = 2-3: 5.000 at k = 3'],
  ])
    assert.ok(
      metricText(
        row('keys', ['T']),
        { metrics: { keys: metricMean([values.length], values) } },
        {
          defaults: { keys: 3 },
        },
      ).endsWith(`largest of ${rangeText}`),
    );
  const mask = { ...result.architecture, mask: { kind: 'bidirectional' } };
  t.assert.snapshot(summaryLines({ architecture: mask })[2]);
  t.assert.snapshot(summaryLines({ T: 9 })[2]);
  const later = { position: 1, metrics: { ...metrics, first: metricMean([2], [1, null]) } };
  const laterText = summaryLines(later);
  t.assert.snapshot(summaryLines({ ...later, T: 5 })[2]);
  t.assert.snapshot([...laterText.slice(1, 5), laterText[7]]);
  const byEps = [0.3, 0.5].map((eps) => ({ eps, metrics: { sink_ratio: metricMean([1], [eps]) } }));
  t.assert.snapshot(summaryLines({ byEps }).slice(1, 5));
});

/** A measurement of two layers, two heads and three keys, in the form that the sheets read. */
function sheetOf() {
  const row = (name, shape, unit = 'nats', needs = []) => ({
    ...{ name, label: `${name}_k`, shape, unit, arguments: needs },
  });
  const describe = {
    version: '9.8.7',
    defaults: { keys: 2 },
    metrics: [
      row('alpha', ['L', 'H', 'T'], 'share of a row', ['eps']),
      row('keys', ['T']),
      row('one', ['1'], 'share'),
      row('hidden', ['L+1']),
      row('groups', ['L', 'G']),
      row('kinds', ['L', '3']),
      row('absent', ['L']),
    ],
  };
  const shapes = {
    ...{ alpha: [2, 2, 3], keys: [3], one: [1], hidden: [3], groups: [2, 2], kinds: [2, 3] },
  };
  /** Returns the metrics: their numbers count up from `start`, and one of them is undefined. */
  const metrics = (start, makeEntry) =>
    Object.fromEntries(
      Object.entries(shapes).map(([name, shape]) => {
        const numbers = Array.from({ length: shape.reduce((a, b) => a * b) }, (_, i) => start + i);
        return [name, makeEntry(shape, name === 'groups' ? numbers.with(3, null) : numbers)];
      }),
    );
  const meansFrom = (start) =>
    metrics(start, (shape, mean) => ({ shape, mean, deviation: mean.map(() => 0.5) }));
  const result = {
    ...{ model: 'mine', class: 'measured', sequences: 2, T: 3, eps: 0.3, edits: [] },
    architecture: { layers: [1, 4] },
    metrics: meansFrom(0),
  };
  const ofPrompt = (start) => metrics(start, (shape, values) => ({ shape, values }));
  return { describe, result, meansFrom, ofPrompt };
}

test('CSV states the place of each number: the layer number of the model, the head or group, the key, the index', () => {
  const { describe, result, meansFrom } = sheetOf();
  const lines = (changes) =>
    toCsv({ ...result, ...changes }, describe)
      .trimEnd()
      .split('\n')
      .filter((line) => !line.startsWith('#'));
  const head = 'subject,class,metric,mean,deviation,layer,head,key,prompts,index,eps';
  const firstLines = (start, layers = [1, 4]) =>
    layers.flatMap((layer, l) =>
      [0, 1].flatMap((h) =>
        [0, 1].map((key) => `alpha,${start + (2 * l + h) * 3 + key},0.5,${layer},${h},${key}`),
      ),
    );
  const otherLines = [
    ...['keys,0,0.5,,,0', 'keys,1,0.5,,,1', 'one,0,0.5,,,'],
    ...['hidden,0,0.5,-1,,', 'hidden,1,0.5,0,,', 'hidden,2,0.5,1,,'],
    ...['groups,0,0.5,1,0,', 'groups,1,0.5,1,1,', 'groups,2,0.5,4,0,', 'groups,,0.5,4,1,'],
  ];
  const kinds = [1, 4].flatMap((layer, l) =>
    [0, 1, 2].map((index) => `kinds,${3 * l + index},0.5,${layer},,,2,${index},`),
  );
  const expectedLines = [
    ...firstLines(0).map((line) => `${line},2,,0.3`),
    ...otherLines.map((line) => `${line},2,,`),
    ...kinds,
  ].map((line) => `mine,MEASURED,${line}`);
  assert.deepEqual(lines({}), [head, ...expectedLines]);
  const { alpha } = meansFrom(100);
  const thresholdMetrics = {
    byEps: [
      { eps: 0.3, metrics: {} },
      { eps: 0.5, metrics: { alpha } },
    ],
  };
  assert.deepEqual(
    lines(thresholdMetrics).slice(1 + expectedLines.length),
    firstLines(100).map((line) => `mine,MEASURED,${line},2,,0.5`),
  );
});

test('each row of a prompt has one number per metric, the mean over layers and heads at the first key and index', (t) => {
  const { describe, result, ofPrompt } = sheetOf();
  const byPrompt = [{ metrics: ofPrompt(0) }, { metrics: ofPrompt(0.25) }];
  t.assert.snapshot(
    toCsv({ ...result, byPrompt }, describe)
      .split('\n')
      .slice(-4),
  );
  t.assert.snapshot(promptsText({ ...result, byPrompt }, describe).split('\n'));
  const [{ metrics }] = byPrompt;
  const nullMetrics = { metrics: { ...metrics, one: { shape: [1], values: [null] } } };
  t.assert.snapshot(promptsText({ ...result, byPrompt: [nullMetrics] }, describe).split('\n'));
  assert.equal(promptsText(result, describe), '');
});

test('ablate requires a layer or an edit', async () => {
  const ablate = async () => ({ before: {}, after: {}, change: 1 });
  const ablationOf = (options) => measureAblation({ id: 'mine', ablate }, 'a', options);
  for (const options of [{ layer: 0 }, { edits: [{ kind: 'park' }] }])
    assert.equal((await ablationOf(options)).change, 1);
  for (const options of [{}, { edits: [] }, { head: 1 }])
    assert.equal((await failure(ablationOf(options))).where, '--layer');
});

test('an effect on the loss is shown with its sign, and omitted where no token is predicted', (t) => {
  const before = { T: 9, loss: 2, sink: 0.25, uniform: 0.1, conclusive: true };
  const textOf = (change, fields) =>
    ablationText({ ...{ model: 'mine', layer: 1, head: undefined, change }, before, ...fields });
  for (const [loss, change] of [
    [2.5, 0.5],
    [2, 0],
    [1.5, -0.5],
  ])
    t.assert.snapshot(textOf(change, { after: { ...before, loss } }).split('\n'));
  const after = { ...before, loss: null };
  t.assert.snapshot(textOf(null, { head: 3, after }).split('\n'));
  const short = { layer: undefined, before: { ...before, conclusive: false }, after };
  t.assert.snapshot(textOf(null, short).split('\n'));
});
