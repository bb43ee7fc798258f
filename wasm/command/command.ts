/** Runs the command line, which gives scripts what the page shows. */
import { readFile, stat } from 'node:fs/promises';
import { basename, dirname, isAbsolute, resolve } from 'node:path';
import { createEngine } from '../engine/client.ts';
import { editLabel, readEdit } from '../engine/edits.ts';
import { findPlan } from '../loading/find.ts';
import { SinkscopeError, expect, unlike } from '../abi/errors.ts';
import { leastTokens } from '../study/judge.ts';
import { parseHubId } from '../loading/hub.ts';
import { groupsOf } from '../study/labels.ts';
import { cutText, finite, measure } from '../study/measure.ts';
import { modelFiles } from '../loading/plan.ts';
import { LoadedModel } from '../load/loaded_model.ts';
import { compareRecordings } from '../recording/study.ts';
import { idTokenizer, readIds } from '../text/ids.ts';
import { planTokenizer } from '../text/plan_tokenizer.ts';
import { openOut } from './out_folder.ts';
import {
  differencesText,
  isRecording,
  openFile,
  readRecording,
  recordOpened,
} from './recording.ts';
import { ablation, ablationText, mapCsv, mapOf, mapText, written } from './loaded.ts';
import { missing, readArguments, refuse, usage, withDefaults } from './options.ts';
import { oneLine, visible } from './output.ts';
import { promptsText, toCsv } from './sheet.ts';
import { listOf, readText } from './text_file.ts';
import { searchOpened, suffixText } from './suffix.ts';
import { makeTasks, measureTasks, tasksText } from './tasks.ts';
import { unmaskOpened, unmaskText } from './unmask.ts';
import { sourceOf, train } from './train.ts';
import type { Describe, Tensor, Architecture, Metric } from '../abi/types.ts';
import type { OneText } from './loaded.ts';
import type { Given } from './options.ts';
import type { Engine, EngineOptions, Model, Arithmetic, Edit } from '../engine/types.ts';
import type { Cut, LabelledTexts, CutOptions } from '../study/types.ts';
import type { GuardedTokenizer, AnyTokenizer, Tokenizer } from '../text/types.ts';

/** Options by name, with their defaults. */
type Values = {
  'text-file'?: string;
  text?: string;
  ids?: string[];
  lines?: boolean;
  label?: boolean;
  join: string;
  tokens?: string;
  sequences: string;
  special: string;
  eps?: string;
  edit?: string[];
  streaming?: boolean;
  'per-prompt'?: boolean;
  json?: boolean;
  csv?: boolean;
  arithmetic: string;
  kernels: string;
  workers?: string;
  endpoint?: string;
  cache?: boolean;
  'tokenizer-limit': string;
  out?: string;
  keep: string;
  fields: string;
  precision: string;
  licence?: string;
  tolerance: string;
  goal: string;
  length: string;
  steps: string;
  width: string;
  layer?: string;
  head?: string;
  count?: string;
  temperature: string;
  'top-k': string;
  seed: string;
  prompt?: string;
  masked: string;
  causal?: string;
  copied: string;
  between: string;
  prompts: string;
};
/** special tokens that a text starts with */
export type Special = 'auto' | 'none' | string[];
export type OpenedModel = Awaited<ReturnType<typeof openModel>>;
export type Found =
  Awaited<ReturnType<typeof measureModel>> | Awaited<ReturnType<typeof readRecording>>;
type Asked = { values: Values; given: Given; names: string[]; args: readonly string[] };

/** Computes the result of each command, and how the command prints it. */
const RUN: Record<
  string,
  (
    engine: Engine,
    asked: Asked,
  ) => Promise<{ result: object; text: () => string; csv?: () => string }>
> = {
  measure: async (engine, asked) => printed(await measureNamed(engine, asked), engine),
  map: async (engine, asked) => {
    const result = await withText(engine, asked, mapOf);
    return { result, text: () => mapText(result), csv: () => mapCsv(result, engine.describe) };
  },
  ablate: async (engine, asked) => {
    const result = await withText(engine, asked, ablation);
    return { result, text: () => ablationText(result) };
  },
  generate: async (engine, asked) => {
    const result = await withText(engine, asked, written);
    return { result, text: () => `${visible(result.text + result.written)}\n` };
  },
  record: async (engine, asked) => printed(await recordModel(engine, asked), engine),
  compare: async (engine, asked) => {
    const result = await compare(engine, asked);
    if (result.differences.length > 0) process.exitCode = 1;
    return { result, text: () => differencesText(result, result.tolerance) };
  },
  suffix: async (engine, { names: [name], values }) => {
    const result = await searchModel(engine, name, values);
    return { result, text: () => suffixText(result) };
  },
  tasks: async (engine, { names: [name], values }) => {
    const result = await doTasks(engine, name, values);
    return { result, text: () => tasksText(result) };
  },
  unmask: async (engine, { names: [name], values }) => {
    const result = await unmaskModel(engine, name, values);
    return { result, text: () => unmaskText(result) };
  },
  describe: async (engine) => {
    const result = await engine.explain();
    return { result, text: () => tables(result) };
  },
};

function printed(result: Found, { describe }: Engine) {
  return {
    result,
    text: () => summary(result, describe) + promptsText(result, describe),
    csv: () => toCsv(result, describe),
  };
}

async function main(args: string[], print: (text: string) => void) {
  if (args[0] === '--version') return print(`${await version()}\n`);
  const describe = await tablesBeside();
  if (args.length === 0 || args[0] === '--help') return print(usage(describe));
  const { command, given, names } = readArguments(args, describe);
  if (given.help) return print(usage(describe, command));
  refuse(given, given.json ? ['csv'] : [], 'one of --json and --csv');
  if (command !== 'train') refuseUnread(command, given);
  const values = withDefaults(command, given, describe) as unknown as Values;
  // The core checks the name of the kernels.
  const kernels = values.kernels as EngineOptions['kernels'];
  const { workers } = values;
  const engine = await createEngine({
    kernels,
    ...(command === 'train' ? { lab: true } : {}),
    ...(workers === undefined ? {} : { workers: whole(workers, '--workers') }),
  });
  let form: () => string;
  try {
    if (command === 'train') return await train(engine, given, print);
    const { result, text, csv } = await RUN[command](engine, { values, given, names, args });
    const measured_by = `Sinkscope ${engine.describe.version}`;
    // The tables have the version as a field of their own.
    const document = command === 'describe' ? result : { measured_by, ...result };
    form = values.json ? () => `${JSON.stringify(document)}\n` : (values.csv && csv) || text;
  } finally {
    await engine.close();
  }
  // The numbers of a long text make megabytes of JSON; the engine's memory is free by now.
  print(form());
}

/** Refuses options about a text when another option replaces the text or makes them meaningless. */
function refuseUnread(command: string, given: Given) {
  if (given['text-file'] === undefined)
    refuse(given, ['lines', 'label', 'join'], 'needs --text-file');
  if (!given.lines) refuse(given, ['join'], 'needs --lines');
  // The tasks use the special tokens whatever text is measured.
  const cut = ['tokens', 'sequences', ...(command === 'tasks' ? [] : ['special'])];
  if (given.ids) refuse(given, cut, 'needs a text: --ids has the tokens of each sequence');
}

/** Prints a recording's own measurements, and refuses the options that a run would need. */
async function measureNamed(engine: Engine, { names: [name], values, given }: Asked) {
  if (!(await isRecording(name))) return measureModel(engine, name, values);
  const readOptions = ['eps', 'json', 'csv', 'kernels', 'workers'];
  const others = Object.keys(given).filter((one) => !readOptions.includes(one));
  refuse(given, others, `needs a model, and ${name} is a recording, which prints what it holds`);
  return readRecording(
    engine,
    name,
    values.eps && given.eps ? thresholdsOf(values.eps) : undefined,
  );
}

/** Opens a model, uses it on one text, and closes it. */
async function withText<Result>(
  engine: Engine,
  { names: [name], values, given }: Asked,
  use: (model: LoadedModel, text: string, options: OneText) => Promise<Result>,
) {
  const texts = [given.text, given['text-file']].filter((one) => one !== undefined);
  const one = 'one of --text and --text-file';
  if (texts.length === 0) throw missing('text', one);
  expect(texts.length === 1, 'text', one, texts.length);
  const text = values.text ?? (await readText(String(values['text-file']), '--text-file'));
  const optional = (key: 'layer' | 'head') =>
    values[key] === undefined ? undefined : count(values[key], `--${key}`);
  const { edits, ...parts } = await openNamed(engine, name, values);
  const model = new LoadedModel({ ...parts, engine, isOwner: false });
  try {
    return await use(model, text, {
      edits,
      special: specialOf(model.tokenizer, values.special),
      layer: optional('layer'),
      head: optional('head'),
      ...(values.eps === undefined ? {} : { eps: number(values.eps, 0, 1, '--eps') }),
      ...(values.count === undefined
        ? {}
        : {
            count: count(values.count, '--count'),
            temperature: number(values.temperature, 0, 1e6, '--temperature'),
            topK: count(values['top-k'], '--top-k'),
            seed: count(values.seed, '--seed'),
          }),
    });
  } finally {
    await model.close();
  }
}

/** Measures a model, writes a recording, and prints it. */
async function recordModel(engine: Engine, { names: [name], values, args }: Asked) {
  const { precision, licence, out = '' } = values;
  if (!out) throw missing('--out', 'a file to write');
  expect(['half', 'single'].includes(precision), '--precision', 'half or single', precision);
  const folder = await openOut(dirname(out), [basename(out)]);
  const study = await openModel(engine, name, values);
  const bytes = await recordOpened(study, {
    keep: count(values.keep, '--keep'),
    fields: values.fields.split(','),
    half: precision === 'half',
    licence,
    source: values['text-file'] && basename(values['text-file']),
    command: commandWords(args),
  });
  await folder.write([{ path: basename(out), data: bytes }]);
  return readRecording(engine, out);
}

/**
 * Returns the command in shell syntax, with absolute paths, which depend on the machine, cut to
 * their last part.
 */
export function commandWords(args: readonly string[]) {
  const words = args.map((one) => {
    const [, prefix, path] = /^(--[\w-]+=)?(.*)$/s.exec(one) ?? [];
    return `${prefix ?? ''}${isAbsolute(path) ? basename(path) : path}`;
  });
  const quoted = (word: string) =>
    /^[\w@%+:,./-][\w@%+=:,./-]*$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`;
  return ['sinkscope', ...words].map(quoted).join(' ');
}

async function searchModel(engine: Engine, name: string, values: Values) {
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

async function doTasks(engine: Engine, name: string, values: Values) {
  const options = {
    copied: whole(values.copied, '--copied'),
    between: values.between.split(',').map((one) => count(one, '--between')),
    prompts: whole(values.prompts, '--prompts'),
    seed: count(values.seed, '--seed'),
  };
  const study = await openModel(engine, name, values, (...given) => makeTasks(options, ...given));
  return measureTasks(study, options.seed);
}

async function unmaskModel(engine: Engine, name: string, values: Values) {
  const options = {
    masked: number(values.masked, 0, 1, '--masked'),
    steps: whole(values.steps, '--steps'),
    seed: count(values.seed, '--seed'),
  };
  const { causal } = values;
  const study = await openModel(engine, name, values);
  const other = causal === undefined ? undefined : await openModel(engine, causal, values);
  return unmaskOpened(study, options, other);
}

/** Compares two recordings, or one recording and a model that is measured under the same conditions. */
async function compare(engine: Engine, { names, values, given }: Asked) {
  const tolerance = number(values.tolerance, 0, 1e9, '--tolerance');
  const kinds = await Promise.all(names.map(isRecording));
  for (const name of names) await expectThere(name);
  expect(kinds.includes(true), 'A B', 'a recording among the two', 'two models');
  if (!kinds.includes(false)) {
    const others = Object.keys(given).filter(
      (one) => !['tolerance', 'json', 'kernels', 'workers'].includes(one),
    );
    refuse(given, others, 'needs a model, and both are recordings');
  }
  const [recording] = await Promise.all(
    names.filter((_, i) => kinds[i]).map((path) => openFile(engine, path)),
  );
  const { prompts, eps, edits } = recording.conditions;
  const sameConditions = {
    tokens: String(prompts.T),
    sequences: String(prompts.count),
    eps: eps.join(','),
  };
  const [a, b] = await Promise.all(
    names.map(async (name, i) => {
      if (kinds[i]) return openFile(engine, name);
      const opened = await openModel(engine, name, { ...values, ...sameConditions });
      if (!values.edit) opened.edits = edits.map(({ label: _, ...edit }) => edit);
      return engine.openRecording(await recordOpened(opened, { keep: prompts.kept, half: false }));
    }),
  );
  return { tolerance, ...(await compareRecordings(a, b, { tolerance })) };
}

/** Reads the version from package.json. */
async function version() {
  const file = new URL('../package.json', import.meta.url);
  return JSON.parse(await readFile(file, 'utf8')).version;
}

/** Lists each row of each table in one line, with its name and meaning. */
function tables({ metrics, fields, edits, operations }: Describe) {
  const shape = (letters: readonly string[]) => `[${letters.join('][')}]`;
  const sections: [string, (readonly [string, string | undefined])[]][] = [
    ['Metrics', metrics.map((row) => [row.name, `${shape(row.shape)} ${row.question}`])],
    ['Fields of a run', fields.map((row) => [row.name, `${shape(row.shape)} ${row.meaning}`])],
    ['Edits', edits.map((row) => [row.name, row.meaning])],
    ['Attention operations', operations.map((row) => [row.name, row.formula])],
  ];
  const width = Math.max(...sections.flatMap(([, rows]) => rows.map(([name]) => name.length)));
  const lines = sections.map(
    ([title, rows]) =>
      `${title}\n${rows.map(([name, text]) => `  ${name.padEnd(width)}  ${text}`).join('\n')}\n`,
  );
  return lines.join('\n');
}

/** Reads the tables of this build with their texts, from the file next to the binaries. */
async function tablesBeside() {
  const file = new URL('../sinkscope.describe.json', import.meta.url);
  return JSON.parse(await readFile(file, 'utf8')) as Describe;
}

/** @param make creates objects from the texts before the tokenizer is closed */
async function openModel<Made = undefined>(
  engine: Engine,
  name: string,
  values: Values,
  make?: (model: Model, tokenizer: GuardedTokenizer, special: Special) => Promise<Made>,
) {
  const { defaults } = engine.describe;
  const cutOptions = {
    tokens: whole(values.tokens ?? String(defaults.tokens), '--tokens'),
    sequences: whole(values.sequences, '--sequences'),
    lines: values.lines === true,
  };
  const thresholds = thresholdsOf(values.eps ?? String(defaults.eps));
  await expectThere(name);
  const texts = await textsOf(values);
  const { plan, model, tokenizer, edits } = await openNamed(engine, name, values, texts.ids);
  let cut: Cut | undefined;
  const onCut = (found: Cut) => (cut = found);
  const special = specialOf(tokenizer, values.special);
  const groups =
    texts.groups && (await cutGroups(tokenizer, texts.groups, { ...cutOptions, special }));
  const sequences =
    groups?.flatMap((one) => one.sequences) ??
    texts.ids ??
    (await cutText(tokenizer, texts.text, { ...cutOptions, special, onCut }));
  const created = (await make?.(model, tokenizer, special)) as Made;
  tokenizer.close();
  return {
    made: created,
    id: plan.id,
    plan,
    model,
    tokenizer,
    sequences,
    groups,
    thresholds,
    edits,
    cut,
    arithmetic: model.arithmetic,
    text: texts.ids ? undefined : texts.text,
  };
}

/**
 * Opens a model from the disk or the hub, with its tokenizer.
 * @param ids make a tokenizer optional
 */
async function openNamed(engine: Engine, name: string, values: Values, ids?: number[][]) {
  const edits = (values.edit ?? []).map((text: string) => readEdit(text, engine.describe));
  const token = process.env.HF_TOKEN || undefined;
  const hub = { token, endpoint: values.endpoint, cache: values.cache === true };
  await expectThere(name);
  const checkpoint = await checkpointOf(name);
  const located = await findPlan(checkpoint?.folder ?? name, hub);
  const isOnDisk = checkpoint || (await stat(name).catch(() => undefined));
  const plan = isOnDisk ? { ...located, id: basename(resolve(name)) } : located;
  const arithmetic = values.arithmetic as Arithmetic;
  const model = await engine.open(checkpoint ?? modelFiles(plan, hub), { arithmetic });
  const limit = 1000 * number(values['tokenizer-limit'], 0.001, 1e6, '--tokenizer-limit');
  const opening = planTokenizer(plan, model, { ...hub, limit });
  return { plan, model, tokenizer: await (ids ? opening.catch(idsAlone) : opening), edits };
}

/** Replaces a tokenizer that does not open by one of ids. */
function idsAlone(reason: unknown) {
  if (reason instanceof SinkscopeError) return idTokenizer();
  throw reason;
}

/** Cuts the same number of sequences for each label. */
async function cutGroups(
  tokenizer: AnyTokenizer,
  groups: readonly LabelledTexts[],
  { sequences, ...options }: CutOptions,
) {
  const each = Math.max(1, Math.floor(sequences / groups.length));
  const labelled = [];
  for (const { label, texts } of groups) {
    try {
      const cutOptions = { ...options, lines: false, sequences: each };
      labelled.push({ label, sequences: await cutText(tokenizer, texts, cutOptions) });
    } catch (error) {
      if (!(error instanceof SinkscopeError)) throw error;
      throw new SinkscopeError(error.code, `label “${label}”`, error.message);
    }
  }
  return labelled;
}

export function thresholdsOf(list: string) {
  return list.split(',').map((one) => number(one, 0, 1, '--eps'));
}

async function measureModel(engine: Engine, name: string, values: Values) {
  const { describe } = engine;
  const opened = await openModel(engine, name, values);
  const { model, tokenizer, sequences, groups, thresholds, edits, cut, arithmetic } = opened;
  const eps = thresholds.length > 1 ? thresholds : thresholds[0];
  const streaming = values.streaming === true;
  const isEach = values['per-prompt'] === true;
  expect(!isEach || thresholds.length === 1, '--per-prompt', 'one --eps', thresholds.length);
  const byPrompt: ByPrompt[] = [];
  const labels = (groups ?? []).flatMap((group) => group.sequences.map(() => group.label));
  const result = await measure(model, sequences, {
    ...{ eps, edits, streaming },
    onSequence(metrics, i) {
      if (!isEach) return;
      const label = groups ? { label: labels[i] } : {};
      byPrompt.push({ ids: sequences[i], ...label, metrics: mapValues(metrics, plain) });
    },
    onProgress: ({ done, total, rate = NaN }) => {
      if (done === total) process.stderr.write(speedWords(rate, model));
    },
  });
  const byLabel = [];
  for (const { label, sequences: labelSequences } of groups ?? []) {
    const {
      metrics,
      byEps,
      sequences: count,
    } = await measure(model, labelSequences, {
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
    ...(isEach ? { byPrompt } : {}),
  };
}

type ByPrompt = {
  ids: readonly number[];
  label?: string;
  metrics: Record<string, { shape: readonly number[]; values: (number | null)[] }>;
};

/** Replaces undefined numbers by null for JSON. */
function plain({ shape, data }: Tensor) {
  return { shape, values: Array.from(data, finite) };
}

function mapValues<In, Out>(object: Readonly<Record<string, In>>, change: (value: In) => Out) {
  return Object.fromEntries(Object.entries(object).map(([name, one]) => [name, change(one)]));
}

/**
 * Reports this machine's speed on stderr, because it is not a result.
 * @param rate sequences per second
 */
export function speedWords(rate: number, { replicas: { length } }: Model) {
  const figure = rate >= 10 ? rate.toFixed(0) : rate.toPrecision(2);
  return `sinkscope: ${figure} sequences a second, ${length} worker${length > 1 ? 's' : ''}\n`;
}

export function specialOf(tokenizer: Pick<Tokenizer, 'bos' | 'piece'>, special: string): Special {
  if (special === 'auto' || special === 'none') return special;
  if (special !== 'bos') return [special];
  const { bos } = tokenizer;
  if (bos === null)
    throw unlike('--special', 'auto or none of a tokenizer without start token', special);
  return [tokenizer.piece(bos)];
}

function classOf(edits: readonly Edit[], describe: Describe) {
  const rows = edits.map(({ kind }) => describe.edits.find(({ name }) => name === kind));
  return rows.some((row) => row?.counterfactual) ? 'counterfactual' : 'measured';
}

export function whole(text: string, name: string) {
  expect(/^[1-9]\d{0,8}$/.test(text), name, 'a whole number above 0', text);
  return Number(text);
}

export function count(text: string, name: string) {
  expect(/^\d{1,9}$/.test(text), name, 'a whole number', text);
  return Number(text);
}

export function number(text: string, low: number, high: number, name: string) {
  const value = text.trim() === '' ? NaN : Number(text);
  expect(value >= low && value <= high, name, `a number from ${low} to ${high}`, text);
  return value;
}

/** Reads the input: a text, the texts of a list, or ids. */
export async function textsOf({
  'text-file': path,
  text,
  ids,
  lines,
  label,
  join: together,
}: Values): Promise<{ ids?: number[][]; text: string | string[]; groups?: LabelledTexts[] }> {
  const sources = [path, text, ids].filter((one) => one !== undefined);
  const one = 'one of --text-file, --text and --ids';
  if (sources.length === 0) throw missing('text', one);
  expect(sources.length === 1, 'text', one, sources.length);
  if (ids) return { text: '', ids: ids.map((list: string) => idsOf(list)) };
  if (text !== undefined) return { text };
  const content = await readText(String(path), '--text-file');
  const isJson = /\.json$/i.test(String(path));
  const list = isJson
    ? listOf(String(path), content)
    : content.split(/\r?\n/).filter((one) => one.trim());
  const each = whole(together, '--join');
  if (label) {
    const groups = groupsOf(list ?? []);
    if (groups) return { text: content, groups };
    const expected = 'expected a label, a tab and a text in each line, and two labels or more';
    throw new SinkscopeError('read', `--text-file: ${path}`, expected);
  }
  if (!lines) return { text: content };
  if (list) {
    const count = Math.max(1, Math.floor(list.length / each));
    const starts = Array.from({ length: count }, (_, i) => i * each);
    return { text: starts.map((from) => list.slice(from, from + each).join('\n\n')) };
  }
  const where = `--text-file: ${path}`;
  throw new SinkscopeError('read', where, 'expected a JSON list of texts, found none');
}

export function idsOf(list: string) {
  const tokens = readIds(list, '--ids');
  expect(tokens.length > 0, '--ids', 'token ids such as 1, 2, 3', list);
  return tokens.map(({ id }) => id);
}

/**
 * Reports a missing file here, before any text is read: the name is neither an existing path nor
 * that of a model on a hub.
 */
async function expectThere(name: string) {
  const isFile = /^[^@:]+\.(safetensors|json|bin|pt)$|^[^/@:]*\/?[^/@:]+\.gguf$/i.test(name);
  if ((isHubId(name) && !isFile) || (await stat(name).catch(() => undefined))) return;
  if (await checkpointFolder(name)) return;
  throw new SinkscopeError('read', name, 'expected a file or a folder, found none');
}

function isHubId(name: string) {
  try {
    // resolveHub parses addresses, because it knows the endpoint.
    return /^https?:/.test(name) || Boolean(parseHubId(name));
  } catch {
    return false;
  }
}

/** Returns the files of FOLDER@STEP; undefined for all other names. */
async function checkpointOf(name: string) {
  return (await checkpointFolder(name)) ? sourceOf(name, 'MODEL') : undefined;
}

/** Tells whether a name is FOLDER@STEP of an existing folder and not itself a path. */
async function checkpointFolder(name: string) {
  const at = name.lastIndexOf('@');
  const isFolder = await stat(name.slice(0, Math.max(0, at))).catch(() => undefined);
  return at >= 0 && isFolder?.isDirectory() && !(await stat(name).catch(() => undefined));
}

/** The note that accompanies inexact numbers. */
const ARITHMETIC_NOTES = {
  exact: '',
  relaxed: 'relaxed: fused multiply-add, last digits may differ\n',
  int8: 'approximate: products in 8 bits\n',
};

export function summary(found: Found, describe: Describe) {
  const { family } = found.architecture;
  const { sequences, T, special, first, arithmetic } = found;
  const position = positionOf(found);
  const all = found.byEps ?? [{ eps: found.eps, metrics: found.metrics }];
  const notes = [
    cutWords(found),
    maskWords(found.architecture),
    ...all.map(({ eps }) => lengthWords({ T, eps })),
  ].filter(Boolean);
  const lines = describe.metrics
    .filter(({ name }) => name in found.metrics)
    .flatMap((row) => {
      // A recording may number its first token otherwise, so the labels of Sink_k and |h_1| / |h|
      // change.
      const label = row.label.replace(/_(k|1)\b/g, `_${position + 1}`);
      // A metric with a threshold has a line for each threshold.
      const hasThreshold = found.byEps?.some(({ metrics }) => row.name in metrics);
      return (hasThreshold ? all : all.slice(0, 1)).map(({ eps, metrics }) => {
        const measured = { ...found, metrics: { ...found.metrics, ...metrics } };
        const name = hasThreshold ? `${label}, eps ${eps}` : label;
        return `${name.padEnd(16)}  ${figure(row, measured, describe)}`;
      });
    });
  const thresholds = all.map(({ eps }) => eps).join(', ');
  // A recording stores the label of an edit, because later versions may have other edits.
  const changes = found.edits.map((edit) =>
    'label' in edit ? edit.label : editLabel(edit, describe),
  );
  return `${oneLine([found.model, ...changes].join(', '))}: ${oneLine(family)}, ${sizeWords(found.architecture)}
${found.class} over ${sequences} sequences of ${T} tokens, eps ${thresholds}, ${special ? `special tokens ${special}` : 'recorded'}, ${(first ?? null) === null ? 'no common first token' : `first token ${JSON.stringify(first)}`}${position > 0 ? ` at position ${position}` : ''}
${arithmetic ? ARITHMETIC_NOTES[arithmetic] : ''}${notes.map((note) => `${note}\n`).join('')}${lines.join('\n')}
${labelLines(found, describe)}`;
}

/** Returns the position of the token that counts as the first; recordings may have another than 0. */
function positionOf(found: Found) {
  return 'position' in found ? found.position : 0;
}

/** Describes layers and heads; for a recorded hybrid also which layers have attention. */
function sizeWords({
  L,
  H,
  blocks = L,
  layers = [],
}: Pick<Architecture, 'L' | 'H' | 'blocks' | 'layers'>) {
  const attentionLayers = blocks > L ? `, attention in ${L} (${layers.join(', ')})` : '';
  return `${blocks} layer${blocks === 1 ? '' : 's'}${attentionLayers}, ${H} heads`;
}

/** Lists the sink rate of each label, with its deviation across the label's sequences. */
function labelLines(found: Found, describe: Describe) {
  const row = describe.metrics.find(({ name }) => name === 'sink_ratio');
  if (!row || !('byLabel' in found) || !found.byLabel) return '';
  const lines = found.byLabel.map(({ label, sequences, metrics }) => {
    const { mean, deviation } = metrics[row.name];
    const spread = typeof deviation[0] === 'number' ? ` ± ${percent(deviation[0])}` : '';
    return `  ${oneLine(label)}: ${percent(mean[0])}${spread}, ${sequences} sequences\n`;
  });
  return `${row.label.replace('_k', '_1')} by label\n${lines.join('')}`;
}

function percent(share: number | null) {
  return share === null ? '-' : `${(100 * share).toFixed(1)}%`;
}

/** Warns when the text gave fewer sequences than requested; else empty. */
function cutWords({ cut, T }: Pick<Found, 'cut' | 'T'>) {
  if (!cut || cut.sequences >= cut.asked) return '';
  const { asked, sequences, short, read } = cut;
  const texts = short > 0 ? `, ${short} of its texts too short for one` : '';
  return (
    `note: ${sequences} of the ${asked} sequences asked for: the text has ${read} tokens${texts}; ` +
    `fewer --tokens than ${T} or more text give more`
  );
}

/** Says why the loss is missing; empty if it is not. */
function maskWords({ mask }: Pick<Architecture, 'mask'>) {
  if (mask.kind !== 'bidirectional') return '';
  return 'note: every query sees every token, so that none is predicted: no loss, no accuracy';
}

/** Warns when the text is too short to interpret Sink_1, by the page's rule; else empty. */
function lengthWords({ T, eps }: { T: number; eps: number }) {
  const tokensMin = leastTokens(eps);
  return T >= tokensMin
    ? ''
    : `too short: uniform attention alone exceeds eps ${eps}; Sink_1 needs at least ${tokensMin} tokens`;
}

/**
 * Writes one metric on a line: for keys the first token and the largest later value, for heads the
 * mean and the largest, for layers each value. Further dimensions show their first number.
 */
function figure(
  { name, shape: letters, unit }: Metric,
  found: Found,
  { defaults: { keys } }: Describe,
) {
  const { metrics, architecture } = found;
  const position = positionOf(found);
  const layers = 'layers' in architecture ? architecture.layers : undefined;
  const { shape } = metrics[name];
  const [mean, deviation] = [metrics[name].mean, metrics[name].deviation].map(single);
  const isShare = unit.startsWith('share of');
  const digits = (x: number | null) =>
    x === null ? '-' : isShare ? `${(100 * x).toFixed(2)}%` : x.toFixed(3);
  const token = letters[0] === 'T' ? position : 0;
  const spread = deviation[token] === null ? '' : ` (deviation ${digits(deviation[token])})`;
  if (letters[0] === 'T') {
    const otherKeys = mean.slice(0, keys).map((x, k) => (k === position ? null : x));
    const k = largest(otherKeys);
    const span = position === 0 ? `k = 2-${keys}` : `the other k up to ${keys}`;
    const largestOther = k >= 0 ? `; largest of ${span}: ${digits(mean[k])} at k = ${k + 1}` : '';
    return `${digits(mean[position])}${spread}${largestOther}`;
  }
  if (letters.length === 1)
    return mean.length === 1 ? digits(mean[0]) + spread : mean.map(digits).join(' ');
  const [rows, heads, ...rest] = shape;
  const each = rest.reduce((a: number, b: number) => a * b, 1);
  const offset = letters[2] === 'T' ? position : 0;
  const values = Array.from({ length: rows * heads }, (_, i) => mean[i * each + offset]);
  const at = largest(values);
  if (at < 0) return '-';
  const sum = values.reduce((a: number, b) => a + Number(b), 0);
  const layer = Math.floor(at / heads);
  const where = `L${layers?.[layer] ?? layer}H${at % heads}`;
  return `mean ${digits(sum / values.length)}, largest ${digits(values[at])} (${where})`;
}

/** Rounds numbers as a recording stores them, so that model and recording print the same digits. */
function single(numbers: readonly (number | null)[]) {
  return numbers.map((x) => (x === null ? null : Math.fround(x)));
}

/** Returns the index of the largest number, or -1 if all are null. */
function largest(values: readonly (number | null)[]) {
  let best = -1;
  values.forEach((value, i) => {
    if (value !== null && (best < 0 || value > (values[best] as number))) best = i;
  });
  return best;
}

/**
 * Runs the command line; errors are printed and set the exit code. When the reader closes the pipe,
 * the command stops without a message.
 */
export async function runCommand(args: string[]) {
  for (const stream of [process.stdout, process.stderr])
    stream.on('error', (error: NodeJS.ErrnoException) => {
      if (error.code !== 'EPIPE') throw error;
      process.exit();
    });
  try {
    await main(args, (text) => process.stdout.write(visible(text)));
  } catch (error) {
    const text = error instanceof SinkscopeError ? error.message : String(error);
    process.stderr.write(`sinkscope: ${oneLine(text)}\n`);
    process.exitCode = 1;
    // A hanging write would keep the process alive.
    if (error instanceof SinkscopeError && error.code === 'write') process.exit();
  }
}
