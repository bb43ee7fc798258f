/** The command line: what the page shows, for a script. */
import { openAsBlob } from 'node:fs';
import { readFile, readdir, stat } from 'node:fs/promises';
import { basename, dirname, isAbsolute, join, resolve, sep } from 'node:path';
import { parseArgs } from 'node:util';
import { createEngine } from '../engine/client.js';
import { editLabel, readEdit } from '../engine/edits.js';
import { planFiles } from '../loading/disk.js';
import { SinkscopeError, expect, unlike } from '../abi/errors.js';
import { leastTokens } from '../study/judge.js';
import { resolveHub } from '../loading/hub.js';
import { groupsOf } from '../study/labels.js';
import { cutText, measure } from '../study/measure.js';
import { modelFiles } from '../loading/plan.js';
import { compareRecordings } from '../recording/study.js';
import { planTokenizer } from '../text/plan_tokenizer.js';
import { openOut } from './out_folder.js';
import {
  differencesText,
  isRecording,
  openFile,
  readRecording,
  recordOpened,
} from './recording.js';
import { listOf, readText } from './text_file.js';
import { searchOpened, suffixText } from './suffix.js';
import { makeTasks, measureTasks, tasksText } from './tasks.js';
import { unmaskOpened, unmaskText } from './unmask.js';
import { sourceOf, train, trainUsage } from './train.js';

/** @param {import('../sinkscope.js').Describe} describe */
const usage = ({
  defaults,
  edits,
}) => `sinkscope measure MODEL --text-file FILE | --text TEXT | --ids 0,17,392
sinkscope measure RECORDING

Measures the attention sinks of a model over a text (Gu et al., ICLR 2025).
Layers, heads and positions count from 0; Sink_k and alpha_k keep the paper's k = position + 1.

MODEL        a folder with config.json and weights, a .gguf file, or owner/name[@revision] on the hub;
             FOLDER@STEP is a checkpoint of its timeline
RECORDING    a file that record, or the Python package, has made: its means are printed, no model is run
  --text-file FILE   UTF-8 text, cut into sequences one after the other
  --lines            each line, or in a .json file each text of its list, is a text of its own, and its
                     first tokens are one sequence
  --label            each line is a label, a tab and a text, as with --lines; the sequences are shared evenly among
                     the labels, and the measurements of each are reported too
  --join N           so many of these texts in a row are one, with a blank line between them (1)
  --text TEXT        the text itself
  --ids I,I,...      token ids of a sequence, special ones included; several sequences of one length combine
  --tokens T         tokens in a sequence, special tokens included (${defaults.tokens})
  --sequences N      number of sequences, at most (100)
  --eps E[,E...]     threshold of Sink_k, or several that one run serves (${defaults.eps})
  --special S        what a text starts with: auto (what the tokenizer adds, as in transformers), bos (its
                     start token, though it adds none), none, or a special token (auto)
  --edit NAME:key=value,key=value   an edit of the run; several combine:
${edits.map(usageOf).join('\n')}
  --streaming        hold only what an eviction keeps of a long text, and report its loss alone
  --json             everything measured, as JSON
  --arithmetic A     exact; relaxed: fused multiply-add where the host has it, a quarter faster, last digits
                     may differ; int8: products in 8 bits, approximate and several times faster (exact)
  --kernels K        auto, simd or base (auto)
  --workers N        number of workers that share the sequences (the cores less one, or both of two)
  --endpoint URL     address of the hub
  --cache            keep downloaded files
  --tokenizer-limit S   seconds that a step of the tokenizer may take on an idle machine; a busy one grants
                     more, large files too (5)

sinkscope record MODEL --text-file FILE --out FILE.safetensors   measure, and keep it in a recording
  --keep N           of so many of the first sequences keep maps (1)
  --fields F,F,...   fields to keep of these, beside norms, losses and exact alpha (att)
  --precision P      of these fields: half, or single for their own bits (half)
  --edit EDIT        measured and kept under it; the recording has its label
  --licence TEXT     under which the recording may be passed on
sinkscope compare A B       differences of two recordings, or of a recording and a model that is
                            measured over its text (--text-file and the options above); exit status 1
                            if there are any
  --tolerance X      numbers this close are equal, those above 1 by so much of their size (0.001)
sinkscope suffix MODEL --text-file FILE   search tokens that move the sink or raise the loss of what follows,
                            between the halves of the first sequence, and try them on the others
  --goal G           loss: raise the loss; away: take weight from the first key; steal: give weight to the
                     suffix (loss)
  --length N         tokens of the suffix (5)
  --steps N          steps of the search; in each the best of --width changes of one token stays (20)
  --width N          (64)
  --seed S           (0)
  --prompt N         tokens before the suffix (half of --tokens)
sinkscope tasks MODEL --text-file FILE   accuracy with every key, with the first key hidden, and with another key
                            hidden: of the next token in the second halves of the sequences, of the second copy of
                            random tokens, and of a name recalled over sentences
  --copied N         random tokens that are copied (25)
  --between N[,N...] sentences between a name and the question for it (1,4)
  --prompts N        prompts of the copies and of each recall (24)
  --seed S           (0)
sinkscope unmask MODEL --text-file FILE   loss of a masked model at hidden places, uncovered step by step, with every
                            key, without the strongest key of each step, and without a random one
  --masked SHARE     of the tokens after the first that is hidden (0.5)
  --causal MODEL     a causal model of the same vocabulary, for its losses at the same places
  --steps N          (20)
  --seed S           (0)
sinkscope train --help      train a small model
sinkscope describe [--json] every metric, field, edit and attention operation
sinkscope --version         the version of the package
The environment variable HF_TOKEN holds an access token for the hub.
`;

/** @param {import('../sinkscope.js').EditKind} row */
function usageOf({ name, meaning, parameters }) {
  const names = parameters.map((one) => (one.required ? one.name : `[${one.name}]`));
  return `      ${name}: ${names.join(' ')}\n          ${meaning}`;
}

const OPTIONS = /** @type {const} */ ({
  'text-file': { type: 'string' },
  text: { type: 'string' },
  ids: { type: 'string', multiple: true },
  lines: { type: 'boolean', default: false },
  label: { type: 'boolean', default: false },
  join: { type: 'string', default: '1' },
  tokens: { type: 'string' },
  sequences: { type: 'string', default: '100' },
  eps: { type: 'string' },
  edit: { type: 'string', multiple: true },
  special: { type: 'string', default: 'auto' },
  streaming: { type: 'boolean', default: false },
  json: { type: 'boolean', default: false },
  arithmetic: { type: 'string', default: 'exact' },
  kernels: { type: 'string', default: 'auto' },
  workers: { type: 'string' },
  endpoint: { type: 'string' },
  cache: { type: 'boolean', default: false },
  'tokenizer-limit': { type: 'string', default: '5' },
  out: { type: 'string' },
  keep: { type: 'string', default: '1' },
  fields: { type: 'string', default: 'att' },
  precision: { type: 'string', default: 'half' },
  licence: { type: 'string' },
  tolerance: { type: 'string', default: '0.001' },
  goal: { type: 'string', default: 'loss' },
  length: { type: 'string', default: '5' },
  steps: { type: 'string', default: '20' },
  width: { type: 'string', default: '64' },
  seed: { type: 'string', default: '0' },
  prompt: { type: 'string' },
  masked: { type: 'string', default: '0.5' },
  causal: { type: 'string' },
  copied: { type: 'string', default: '25' },
  between: { type: 'string', default: '1,4' },
  prompts: { type: 'string', default: '24' },
  help: { type: 'boolean', default: false },
  version: { type: 'boolean', default: false },
});

/** @typedef {ReturnType<typeof parseArgs<{ options: typeof OPTIONS, allowPositionals: true }>>['values']} Values */
/** @typedef {'auto' | 'none' | string[]} Special what a text starts with */
/** @typedef {Awaited<ReturnType<typeof openModel>>} OpenedModel */
/** @typedef {Awaited<ReturnType<typeof measureModel>> | Awaited<ReturnType<typeof readRecording>>} Found */

/**
 * @param {string[]} args
 * @param {(text: string) => void} print
 */
async function main(args, print) {
  if (args[0] === 'train') return mainTrain(args.slice(1), print);
  const { values, positionals } = parseArgs({ args, options: OPTIONS, allowPositionals: true });
  if (values.version) return print(`${await version()}\n`);
  // The core knows what there is, and the defaults.
  const { workers } = values;
  const kernels = /** @type {import('../sinkscope.js').EngineOptions['kernels']} */ (
    values.kernels
  );
  const engine = await createEngine({
    kernels,
    ...(workers === undefined ? {} : { workers: whole(workers, '--workers') }),
  });
  try {
    if (values.help || positionals.length === 0) return print(usage(engine.describe));
    const [command, ...names] = positionals;
    if (command === 'describe') {
      const describe = await engine.explain();
      return print(values.json ? `${JSON.stringify(describe)}\n` : tables(describe));
    }
    const known =
      '"measure", "record", "compare", "suffix", "tasks", "unmask", "train" or "describe"';
    const ours = ['measure', 'record', 'compare', 'suffix', 'tasks', 'unmask'];
    expect(ours.includes(command), 'command', known, command);
    if (command === 'compare') {
      const found = await compare(engine, names, values);
      if (found.differences.length > 0) process.exitCode = 1;
      return print(
        values.json ? `${JSON.stringify(found)}\n` : differencesText(found, found.tolerance),
      );
    }
    expect(names.length === 1, 'MODEL', 'one model', names.length);
    const [name] = names;
    if (command === 'suffix') {
      const found = await searchModel(engine, name, values);
      return print(values.json ? `${JSON.stringify(found)}\n` : suffixText(found));
    }
    if (command === 'tasks') {
      const found = await doTasks(engine, name, values);
      return print(values.json ? `${JSON.stringify(found)}\n` : tasksText(found));
    }
    if (command === 'unmask') {
      const options = {
        masked: number(values.masked, 0, 1, '--masked'),
        steps: whole(values.steps, '--steps'),
        seed: count(values.seed, '--seed'),
      };
      const { causal } = values;
      const opened = await openModel(engine, name, values);
      const other = causal === undefined ? undefined : await openModel(engine, causal, values);
      const found = await unmaskOpened(opened, options, other);
      return print(values.json ? `${JSON.stringify(found)}\n` : unmaskText(found));
    }
    const found =
      command === 'record'
        ? await recordModel(engine, name, values, args)
        : (await isRecording(name))
          ? await readRecording(engine, name, values.eps ? thresholdsOf(values.eps) : undefined)
          : await measureModel(engine, name, values);
    print(values.json ? `${JSON.stringify(found)}\n` : summary(found, engine.describe));
  } finally {
    await engine.close();
  }
}

/**
 * Measures, keeps what was measured in a file, and prints it.
 * @param {import('../sinkscope.js').Engine} engine
 * @param {string} name
 * @param {Values} values
 * @param {string[]} args
 */
async function recordModel(engine, name, values, args) {
  const { precision, licence, out = '' } = values;
  expect(out !== '', '--out', 'a file to write', values.out);
  expect(['half', 'single'].includes(precision), '--precision', 'half or single', precision);
  const folder = await openOut(dirname(out));
  const opened = await openModel(engine, name, values);
  const bytes = await recordOpened(opened, {
    keep: count(values.keep, '--keep'),
    fields: values.fields.split(','),
    half: precision === 'half',
    licence,
    source: values['text-file'] && basename(values['text-file']),
    command: ['sinkscope', ...args.map((one) => (isAbsolute(one) ? basename(one) : one))].join(' '),
  });
  await folder.write([{ path: basename(out), data: bytes }]);
  return readRecording(engine, out);
}

/**
 * @param {import('../sinkscope.js').Engine} engine
 * @param {string} name
 * @param {Values} values
 */
async function searchModel(engine, name, values) {
  const options = {
    goal: values.goal,
    length: whole(values.length, '--length'),
    steps: count(values.steps, '--steps'),
    width: whole(values.width, '--width'),
    seed: count(values.seed, '--seed'),
    prompt: values.prompt === undefined ? undefined : whole(values.prompt, '--prompt'),
  };
  return searchOpened(await openModel(engine, name, values), options);
}

/**
 * @param {import('../sinkscope.js').Engine} engine
 * @param {string} name
 * @param {Values} values
 */
async function doTasks(engine, name, values) {
  const options = {
    copied: whole(values.copied, '--copied'),
    between: values.between.split(',').map((one) => count(one, '--between')),
    prompts: whole(values.prompts, '--prompts'),
    seed: count(values.seed, '--seed'),
  };
  const opened = await openModel(engine, name, values, (...given) => makeTasks(options, ...given));
  return measureTasks(opened, options.seed);
}

/**
 * Two recordings, or one and a model that is measured as it was.
 * @param {import('../sinkscope.js').Engine} engine
 * @param {string[]} names
 * @param {Values} values
 */
async function compare(engine, names, values) {
  expect(names.length === 2, 'A B', 'two recordings, or a recording and a model', names.length);
  const tolerance = number(values.tolerance, 0, 1e9, '--tolerance');
  const kinds = await Promise.all(names.map(isRecording));
  expect(kinds.includes(true), 'A B', 'a recording among the two', 'two models');
  const [one] = await Promise.all(
    names.filter((_, i) => kinds[i]).map((path) => openFile(engine, path)),
  );
  const { prompts, eps, edits } = one.conditions;
  const like = { tokens: String(prompts.T), sequences: String(prompts.count), eps: eps.join(',') };
  const [a, b] = await Promise.all(
    names.map(async (name, i) => {
      if (kinds[i]) return openFile(engine, name);
      const opened = await openModel(engine, name, { ...values, ...like });
      if (!values.edit) opened.edits = edits.map(({ label: _, ...edit }) => edit);
      return engine.openRecording(await recordOpened(opened, { keep: prompts.kept, half: false }));
    }),
  );
  return { tolerance, ...(await compareRecordings(a, b, { tolerance })) };
}

/** The version that package.json states. */
async function version() {
  const file = new URL('../package.json', import.meta.url);
  return JSON.parse(await readFile(file, 'utf8')).version;
}

/**
 * What there is: a line for each row of each table, with its name and its meaning.
 * @param {import('../sinkscope.js').Describe} describe
 */
function tables({ metrics, fields, edits, operations }) {
  const shape = (/** @type {readonly string[]} */ letters) => `[${letters.join('][')}]`;
  /** @type {[string, (readonly [string, string | undefined])[]][]} */
  const all = [
    ['Metrics', metrics.map((row) => [row.name, `${shape(row.shape)} ${row.question}`])],
    ['Fields of a run', fields.map((row) => [row.name, `${shape(row.shape)} ${row.meaning}`])],
    ['Edits', edits.map((row) => [row.name, row.meaning])],
    ['Attention operations', operations.map((row) => [row.name, row.formula])],
  ];
  const width = Math.max(...all.flatMap(([, rows]) => rows.map(([name]) => name.length)));
  const lines = all.map(
    ([title, rows]) =>
      `${title}\n${rows.map(([name, text]) => `  ${name.padEnd(width)}  ${text}`).join('\n')}\n`,
  );
  return lines.join('\n');
}

/**
 * @param {string[]} args
 * @param {(text: string) => void} print
 */
async function mainTrain(args, print) {
  const at = args.indexOf('--kernels');
  const kernels = /** @type {'auto'} */ (at < 0 ? 'auto' : args[at + 1]); // or another name
  const more = args.indexOf('--workers');
  const workers = more < 0 ? 1 : whole(args[more + 1] ?? '', '--workers');
  const engine = await createEngine({ kernels, lab: true, workers });
  try {
    if (args.includes('--help')) return print(trainUsage(engine.describe.training?.settings ?? []));
    await train(engine, args, print);
  } finally {
    await engine.close();
  }
}

/**
 * @template [Made=undefined]
 * @param {import('../sinkscope.js').Engine} engine
 * @param {string} name
 * @param {Values} values
 * @param {(model: import('../sinkscope.js').Model, tokenizer: import('../sinkscope.js').GuardedTokenizer, special: Special) => Promise<Made>} [make]
 *   what else is made of texts, before the tokenizer is closed
 */
async function openModel(engine, name, values, make) {
  const { describe } = engine;
  const { defaults } = describe;
  const wanted = {
    tokens: whole(values.tokens ?? String(defaults.tokens), '--tokens'),
    sequences: whole(values.sequences, '--sequences'),
    lines: values.lines,
  };
  const thresholds = thresholdsOf(values.eps ?? String(defaults.eps));
  const edits = (values.edit ?? []).map((/** @type {string} */ text) => readEdit(text, describe));
  const token = process.env.HF_TOKEN || undefined;
  const hub = { token, endpoint: values.endpoint, cache: values.cache };
  const texts = await textsOf(values);
  const checkpoint = await checkpointOf(name);
  const plan = await findModel(checkpoint?.folder ?? name, hub);
  const arithmetic = /** @type {import('../sinkscope.js').Arithmetic} */ (values.arithmetic);
  const model = await engine.open(checkpoint ?? modelFiles(plan, hub), { arithmetic });
  const limit = 1000 * number(values['tokenizer-limit'], 0.001, 1e6, '--tokenizer-limit');
  const opening = planTokenizer(plan, model, { ...hub, limit });
  // Ids need no tokenizer.
  const tokenizer = await (texts.ids ? opening.catch(bareIds) : opening);
  /** @type {import('../sinkscope.js').Cut | undefined} */
  let cut;
  const onCut = (/** @type {import('../sinkscope.js').Cut} */ found) => (cut = found);
  const special = specialOf(tokenizer, values.special);
  const groups = texts.groups && (await cutGroups(tokenizer, texts.groups, { ...wanted, special }));
  const sequences =
    groups?.flatMap((one) => one.sequences) ??
    texts.ids ??
    (await cutText(tokenizer, texts.text, { ...wanted, special, onCut }));
  const made = /** @type {Made} */ (await make?.(model, tokenizer, special));
  tokenizer.close();
  return {
    made,
    id: (await stat(name).catch(() => undefined)) ? basename(resolve(name)) : plan.id,
    plan,
    model,
    tokenizer,
    sequences,
    groups,
    thresholds,
    edits,
    cut,
    arithmetic,
    text: texts.ids ? undefined : texts.text,
  };
}

/**
 * What stands for the tokenizer of a model that comes without one.
 * @param {unknown} reason
 * @returns {import('../sinkscope.js').GuardedTokenizer}
 */
function bareIds(reason) {
  if (!(reason instanceof SinkscopeError)) throw reason;
  const refuse = () => Promise.reject(reason);
  const none = { size: 0, bos: null, special: [], specials: [] };
  return { ...none, encode: refuse, decode: refuse, piece: (id) => `[${id}]`, close() {} };
}

/**
 * Sequences of each label, as many of each.
 * @param {import('../sinkscope.js').AnyTokenizer} tokenizer
 * @param {readonly import('../sinkscope.js').LabelledTexts[]} groups
 * @param {import('../sinkscope.js').CutOptions} options
 */
async function cutGroups(tokenizer, groups, { sequences, ...options }) {
  const each = Math.max(1, Math.floor(sequences / groups.length));
  const all = [];
  for (const { label, texts } of groups) {
    try {
      const own = { ...options, lines: false, sequences: each };
      all.push({ label, sequences: await cutText(tokenizer, texts, own) });
    } catch (error) {
      if (!(error instanceof SinkscopeError)) throw error;
      throw new SinkscopeError(error.code, `label “${label}”`, error.message);
    }
  }
  return all;
}

/** @param {string} list */
export function thresholdsOf(list) {
  return list.split(',').map((one) => number(one, 0, 1, '--eps'));
}

/**
 * @param {import('../sinkscope.js').Engine} engine
 * @param {string} name
 * @param {Values} values
 */
async function measureModel(engine, name, values) {
  const { describe } = engine;
  const opened = await openModel(engine, name, values);
  const { model, tokenizer, sequences, groups, thresholds, edits, cut, arithmetic } = opened;
  const eps = thresholds.length > 1 ? thresholds : thresholds[0];
  const { streaming } = values;
  const result = await measure(model, sequences, {
    ...{ eps, edits, streaming },
    onProgress: ({ done, total, rate = NaN }) => {
      if (done === total) process.stderr.write(speedWords(rate, model));
    },
  });
  const byLabel = [];
  for (const { label, sequences: own } of groups ?? []) {
    const {
      metrics,
      byEps,
      sequences: count,
    } = await measure(model, own, {
      ...{ eps, edits, streaming },
    });
    byLabel.push({ label, sequences: count, metrics, ...(byEps ? { byEps } : {}) });
  }
  const [first] = sequences[0].slice(0, 1).map((id) => tokenizer.piece(id));
  const { architecture } = model;
  const loss = result.metrics.loss_mean?.mean[0];
  const kind = classOf(edits, describe);
  const least_tokens = leastTokens(result.eps);
  const length = { conclusive: result.T >= least_tokens, least_tokens };
  return {
    model: name,
    class: kind,
    arithmetic,
    special: values.special,
    first,
    architecture,
    edits,
    cut,
    loss,
    ...length,
    ...result,
    ...(groups ? { byLabel } : {}),
  };
}

/**
 * How fast this machine measured. It is no result, so it goes where errors go.
 * @param {number} rate sequences a second
 * @param {import('../sinkscope.js').Model} model
 */
export function speedWords(rate, { replicas: { length } }) {
  const shown = rate >= 10 ? rate.toFixed(0) : rate.toPrecision(2);
  return `sinkscope: ${shown} sequences a second, ${length} worker${length > 1 ? 's' : ''}\n`;
}

/**
 * @param {Pick<import('../sinkscope.js').Tokenizer, 'bos' | 'piece'>} tokenizer
 * @param {string} special
 * @returns {Special}
 */
export function specialOf(tokenizer, special) {
  if (special === 'auto' || special === 'none') return special;
  if (special !== 'bos') return [special];
  const { bos } = tokenizer;
  if (bos === null)
    throw unlike('--special', 'auto or none of a tokenizer without start token', special);
  return [tokenizer.piece(bos)];
}

/**
 * @param {readonly import('../sinkscope.js').Edit[]} edits
 * @param {import('../sinkscope.js').Describe} describe
 */
function classOf(edits, describe) {
  const rows = edits.map(({ kind }) => describe.edits.find(({ name }) => name === kind));
  return rows.some((row) => row?.counterfactual) ? 'counterfactual' : 'measured';
}

/**
 * @param {string} text
 * @param {string} name
 */
export function whole(text, name) {
  expect(/^[1-9]\d{0,8}$/.test(text), name, 'a whole number above 0', text);
  return Number(text);
}

/**
 * @param {string} text
 * @param {string} name
 */
export function count(text, name) {
  expect(/^\d{1,9}$/.test(text), name, 'a whole number', text);
  return Number(text);
}

/**
 * @param {string} text
 * @param {number} low
 * @param {number} high
 * @param {string} name
 */
export function number(text, low, high, name) {
  const value = text.trim() === '' ? NaN : Number(text);
  expect(value >= low && value <= high, name, `a number from ${low} to ${high}`, text);
  return value;
}

/**
 * What is measured: a text, the texts of a list, or ids.
 * @param {Values} values
 * @returns {Promise<{ ids?: number[][], text: string | string[], groups?: import('../sinkscope.js').LabelledTexts[] }>}
 */
export async function textsOf({ 'text-file': path, text, ids, lines, label, join: together }) {
  const given = [path, text, ids].filter((one) => one !== undefined);
  expect(
    given.length === 1,
    'text',
    'one of --text-file, --text and --ids',
    given.length || undefined,
  );
  if (ids) return { text: '', ids: ids.map((/** @type {string} */ list) => idsOf(list)) };
  if (text !== undefined) return { text };
  const read = await readText(String(path), '--text-file');
  const isJson = /\.json$/i.test(String(path));
  const list = isJson
    ? listOf(String(path), read)
    : read.split(/\r?\n/).filter((one) => one.trim());
  const each = whole(together, '--join');
  if (label) {
    const groups = groupsOf(list ?? []);
    if (groups) return { text: read, groups };
    const wanted = 'expected a label, a tab and a text in each line, and two labels or more';
    throw new SinkscopeError('read', `--text-file: ${path}`, wanted);
  }
  if (!lines) return { text: read };
  if (list) {
    const count = Math.max(1, Math.floor(list.length / each));
    const starts = Array.from({ length: count }, (_, i) => i * each);
    return { text: starts.map((from) => list.slice(from, from + each).join('\n\n')) };
  }
  const where = `--text-file: ${path}`;
  throw new SinkscopeError('read', where, 'expected a JSON list of texts, found none');
}

/** @param {string} list */
export function idsOf(list) {
  const ids = list.split(',').map((one) => (/^\d{1,9}$/.test(one.trim()) ? Number(one) : NaN));
  expect(ids.every(Number.isInteger), '--ids', 'token ids separated by commas', list.slice(0, 80));
  return ids;
}

/**
 * A path that exists is read from the disk; all else is a name on the hub.
 * @param {string} name
 * @param {{ token?: string, endpoint?: string, cache: boolean }} hub
 */
async function findModel(name, hub) {
  const there = await stat(name).catch(() => undefined);
  if (!there) return resolveHub(name, hub);
  const paths = there.isDirectory() ? await pathsIn(name) : [''];
  const files = await Promise.all(
    paths.map(async (path) => ({
      path: path.replaceAll(sep, '/') || basename(name),
      file: await openAsBlob(join(name, path)),
    })),
  );
  const [plan, ...others] = await planFiles(files);
  if (others.length === 0) return plan;
  const ids = [plan, ...others].map(({ id }) => id).join(', ');
  throw new SinkscopeError('argument', name, `expected one model, found ${ids}; name a file`);
}

/**
 * The files of a folder; of the folders within it, too, where an index may name shards there.
 * @param {string} folder
 */
async function pathsIn(folder) {
  const top = await readdir(folder);
  const recursive = top.some((name) => name.endsWith('.index.json'));
  const paths = recursive ? await readdir(folder, { recursive }) : top;
  const areFiles = await Promise.all(
    paths.map(async (path) => (await stat(join(folder, path))).isFile()),
  );
  return paths.filter((_, i) => areFiles[i]);
}

/**
 * The files of FOLDER@STEP; undefined for all other names.
 * @param {string} name
 */
async function checkpointOf(name) {
  const at = name.lastIndexOf('@');
  const isFolder = await stat(name.slice(0, Math.max(0, at))).catch(() => undefined);
  if (at < 0 || (await stat(name).catch(() => undefined)) || !isFolder?.isDirectory())
    return undefined;
  return sourceOf(name, 'MODEL');
}

/** The note beside numbers that are not exact. */
const OTHERWISE = {
  exact: '',
  relaxed: 'relaxed: fused multiply-add, last digits may differ\n',
  int8: 'approximate: products in 8 bits\n',
};

/**
 * @param {Found} found
 * @param {import('../sinkscope.js').Describe} describe
 */
export function summary(found, describe) {
  const { L, H, family } = found.architecture;
  const { sequences, T, special, first, arithmetic } = found;
  const all = found.byEps ?? [{ eps: found.eps, metrics: found.metrics }];
  const notes = [
    cutWords(found),
    maskWords(found.architecture),
    ...all.map(({ eps }) => lengthWords({ T, eps })),
  ].filter(Boolean);
  const lines = describe.metrics
    .filter(({ name }) => name in found.metrics)
    .flatMap((row) => {
      const label = row.label.replace('_k', '_1');
      // What depends on the threshold has a line for each.
      const isCounted = found.byEps?.some(({ metrics }) => row.name in metrics);
      return (isCounted ? all : all.slice(0, 1)).map(({ eps, metrics }) => {
        const own = { ...found, metrics: { ...found.metrics, ...metrics } };
        const name = isCounted ? `${label}, eps ${eps}` : label;
        return `${name.padEnd(16)}  ${figure(row, own, describe)}`;
      });
    });
  const thresholds = all.map(({ eps }) => eps).join(', ');
  // A recording holds the label of an edit that this version may not know.
  const changes = found.edits.map((edit) =>
    'label' in edit ? edit.label : editLabel(edit, describe),
  );
  return `${[found.model, ...changes].join(', ')}: ${family}, ${L} layers, ${H} heads
${found.class} over ${sequences} sequences of ${T} tokens, eps ${thresholds}, ${special ? `special tokens ${special}` : 'recorded'}, ${(first ?? null) === null ? 'no common first token' : `first token ${JSON.stringify(first)}`}
${arithmetic ? OTHERWISE[arithmetic] : ''}${notes.map((note) => `${note}\n`).join('')}${lines.join('\n')}
${labelLines(found, describe)}`;
}

/**
 * The sink rate of each label, and its deviation between the label's sequences.
 * @param {Found} found
 * @param {import('../sinkscope.js').Describe} describe
 */
function labelLines(found, describe) {
  const row = describe.metrics.find(({ name }) => name === 'sink_ratio');
  if (!row || !('byLabel' in found) || !found.byLabel) return '';
  const all = found.byLabel.map(({ label, sequences, metrics }) => {
    const { mean, deviation } = metrics[row.name];
    const spread = typeof deviation[0] === 'number' ? ` ± ${percent(deviation[0])}` : '';
    return `  ${label}: ${percent(mean[0])}${spread}, ${sequences} sequences\n`;
  });
  return `${row.label.replace('_k', '_1')} by label\n${all.join('')}`;
}

/** @param {number | null} share */
function percent(share) {
  return share === null ? '-' : `${(100 * share).toFixed(1)}%`;
}

/**
 * What the text could not give; empty where it gave everything.
 * @param {Pick<Found, 'cut' | 'T'>} found
 */
function cutWords({ cut, T }) {
  if (!cut || cut.sequences >= cut.asked) return '';
  const { asked, sequences, short, read } = cut;
  const texts = short > 0 ? `, ${short} of its texts too short for one` : '';
  return (
    `note: ${sequences} of the ${asked} sequences asked for: the text has ${read} tokens${texts}; ` +
    `fewer --tokens than ${T} or more text give more`
  );
}

/**
 * Why there is no loss; empty where there is one.
 * @param {Pick<import('../sinkscope.js').Architecture, 'mask'>} architecture
 */
function maskWords({ mask }) {
  if (mask.kind !== 'bidirectional') return '';
  return 'note: every query sees every token, so that none is predicted: no loss, no accuracy';
}

/**
 * A warning where the text is too short to interpret Sink_1, by the rule of the page; else empty.
 * @param {{ T: number, eps: number }} found
 */
function lengthWords({ T, eps }) {
  const least = leastTokens(eps);
  return T >= least
    ? ''
    : `too short: uniform attention alone exceeds eps ${eps}; Sink_1 needs at least ${least} tokens`;
}

/**
 * One metric in a line: of keys the first, and the largest of those that a table shows; of heads the
 * mean and the largest; of layers each. A further dimension shows its first number.
 * @param {import('../sinkscope.js').Metric} row
 * @param {Found} found
 * @param {import('../sinkscope.js').Describe} describe
 */
function figure({ name, shape: letters, unit }, { metrics }, { defaults: { keys } }) {
  const { shape } = metrics[name];
  const [mean, deviation] = [metrics[name].mean, metrics[name].deviation].map(single);
  const isShare = unit.startsWith('share of');
  const digits = (/** @type {number | null} */ x) =>
    x === null ? '-' : isShare ? `${(100 * x).toFixed(2)}%` : x.toFixed(3);
  const spread = deviation[0] === null ? '' : ` (deviation ${digits(deviation[0])})`;
  if (letters[0] === 'T') {
    const k = largest(mean.slice(1, keys)) + 1;
    const others = k > 0 ? `; largest of k = 2-${keys}: ${digits(mean[k])} at k = ${k + 1}` : '';
    return `${digits(mean[0])}${spread}${others}`;
  }
  if (letters.length === 1)
    return mean.length === 1 ? digits(mean[0]) + spread : mean.map(digits).join(' ');
  const [layers, heads, ...rest] = shape;
  const each = rest.reduce((/** @type {number} */ a, /** @type {number} */ b) => a * b, 1);
  const firsts = Array.from({ length: layers * heads }, (_, i) => mean[i * each]);
  const at = largest(firsts);
  if (at < 0) return '-';
  const sum = firsts.reduce((/** @type {number} */ a, b) => a + Number(b), 0);
  const where = `L${Math.floor(at / heads)}H${at % heads}`;
  return `mean ${digits(sum / firsts.length)}, largest ${digits(firsts[at])} (${where})`;
}

/**
 * Numbers as a recording keeps them, so that it prints the digits of the model it was made of.
 * @param {readonly (number | null)[]} numbers
 */
function single(numbers) {
  return numbers.map((x) => (x === null ? null : Math.fround(x)));
}

/**
 * The place of the largest number, -1 where there is none.
 * @param {readonly (number | null)[]} values
 */
function largest(values) {
  let best = -1;
  values.forEach((value, i) => {
    if (value !== null && (best < 0 || value > /** @type {number} */ (values[best]))) best = i;
  });
  return best;
}

/**
 * Runs the command line; what goes wrong is printed, and shows in the exit code. A reader that closes the
 * pipe has read enough: nothing more is computed or said.
 * @param {string[]} args
 */
export async function runCommand(args) {
  for (const stream of [process.stdout, process.stderr])
    stream.on('error', (/** @type {NodeJS.ErrnoException} */ error) => {
      if (error.code !== 'EPIPE') throw error;
      process.exit();
    });
  try {
    await main(args, (text) => process.stdout.write(text));
  } catch (error) {
    const known =
      error instanceof SinkscopeError ||
      (error instanceof Error && 'code' in error && /^ERR_PARSE/.test(String(error.code)));
    process.stderr.write(
      `sinkscope: ${known ? /** @type {Error} */ (error).message : String(error)}\n`,
    );
    process.exitCode = 1;
    // A write that hangs would keep the process.
    if (error instanceof SinkscopeError && error.code === 'write') process.exit();
  }
}
