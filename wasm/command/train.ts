/** Implements `sinkscope train`. */
import { readFile, stat } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { check } from '../abi/arguments.ts';
import { SinkscopeError, expect, unlike } from '../abi/errors.ts';
import { checkLabRecipe, labFolder, labTokenizer } from '../lab/folder.ts';
import { LAB_MODEL, labConfig } from '../lab/model.ts';
import { heldLoss } from '../lab/held.ts';
import { labOnward } from '../lab/onward.ts';
import { sha256 } from '../loading/hash.ts';
import { openTimeline } from '../loading/timeline.ts';
import { cutText } from '../study/measure.ts';
import { openTokenizer } from '../text/tokenizer.ts';
import { openOut } from './out_folder.ts';
import { refuse } from './options.ts';
import { codeOf, listOf, readText } from './text_file.ts';
import type { GivenOptions } from './options.ts';
import type { Engine } from '../engine/types.ts';
import type { LogEntry } from '../lab/types.ts';

type Values = Record<string, string | undefined> & { 'text-file'?: string[] };

const optionName = (name: string) => name.replaceAll('_', '-');

export async function train(engine: Engine, asked: GivenOptions, print: (text: string) => void) {
  const values = asked as Values;
  const settings = engine.describe.training?.settings ?? [];
  const pickSettings = (wanted: readonly string[]) =>
    Object.fromEntries(
      wanted
        .filter((name) => values[optionName(name)] !== undefined)
        .map((name) => [name, parseSetting(values[optionName(name)] ?? '')]),
    );
  const choices = {
    model: pickSettings(Object.keys(LAB_MODEL)),
    recipe: pickSettings(settings.map(({ name }) => name)),
  };
  for (const { name, words } of settings)
    if (!words && name in choices.recipe)
      check(choices.recipe[name], 'number', `--${optionName(name)}`);
  refuseDecidedOptions(asked, Object.keys(choices.model).map(optionName));
  const every = Number(values.every ?? 10);
  expect(Number.isInteger(every) && every > 0, '--every', 'a whole number above 0', values.every);
  const defaults = Object.fromEntries(settings.map((row) => [row.name, row.default]));
  const setting = values.recipe
    ? await repeatTraining(values.recipe, values, choices)
    : await planOf(values, choices);
  const { config, recipe, begin, text } = setting;
  const allSettings = { ...defaults, ...recipe };
  const out =
    values.out === undefined ? undefined : await openOut(values.out, ['model.safetensors']);
  const saveFolder = out && (await makeSaver(out, setting, allSettings));
  const heldSequences = await heldSequencesOf(values, setting.tokenizerFiles, allSettings);
  const workers = values.workers === undefined ? undefined : Number(values.workers);
  const training = await engine.train({ config, recipe, begin, text: text?.ids, workers });
  const show = values.json
    ? (entry: object) => print(`${JSON.stringify(entry)}\n`)
    : (entry: LogEntry) => print(logLine(entry));
  const heldColumns = async (): Promise<{ readonly [column: string]: number }> =>
    heldSequences ? { loss_held: await heldLoss(training, heldSequences) } : {};
  const job = new AbortController();
  const stop = () => job.abort();
  process.once('SIGINT', stop);
  let finished = 0;
  try {
    const { signal } = job;
    const steps = setting.steps ?? Number(allSettings.steps);
    // The held loss is measured between two runs, because only there the weights of a line exist.
    while (finished < steps) {
      const heldEntry = await heldColumns();
      for await (const entry of training.run(Math.min(every, steps - finished), { signal }))
        if (finished++ % every === 0) show({ ...entry, ...heldEntry });
    }
    show({ ...(await training.look()), ...(await heldColumns()) });
  } catch (error) {
    if (!job.signal.aborted) throw error;
    process.stderr.write(`sinkscope: stopped after ${finished} steps\n`);
    process.exitCode = 130;
  } finally {
    process.removeListener('SIGINT', stop);
    if (saveFolder) await saveFolder(await training.weights(), finished);
    await training.close();
  }
}

/**
 * Refuses options whose values another option already fixes.
 * @param model the given options of the model, by name
 */
function refuseDecidedOptions(asked: GivenOptions, model: readonly string[]) {
  if (asked.recipe) refuse(asked, ['config', 'begin', 'tokenizer'], 'is part of --recipe');
  if (asked.from) refuse(asked, ['config', 'begin'], '--from has it already');
  if (asked.config) refuse(asked, model, '--config has it already');
  if (!asked['held-file']) refuse(asked, ['held'], 'needs --held-file');
}

/** The config, recipe and text of a training, as its folder stores them. */
interface TrainingPlan {
  config: object;
  recipe: Record<string, number | string>;
  begin?: Uint8Array;
  /** Number of steps, if it differs from the recipe's. */
  steps?: number;
  text?: { ids: Int32Array; words: string; name: string };
  /** Texts of the tokenizer's files; absent when the training uses the lab's own characters. */
  tokenizerFiles?: { tokenizer: string; tokenizerConfig?: string };
  from: { model: string; step: number | null } | null;
}

/**
 * Writes the files that are known before the first step, and returns a function that writes the
 * whole folder.
 * @param settings the values of all settings, defaults included
 */
async function makeSaver(
  out: Awaited<ReturnType<typeof openOut>>,
  { config, begin, text, tokenizerFiles, from }: TrainingPlan,
  settings: Record<string, number | string>,
) {
  const { vocab_size: vocabulary } = config as { vocab_size?: number };
  const { triggers, first } = settings as Record<string, number>;
  const vocabularyFiles = tokenizerFiles ?? labTokenizer({ vocabulary, triggers, first });
  const source = begin && from && { ...from, sha256: await sha256(begin) };
  const words = text && {
    name: text.name,
    tokens: text.ids.length,
    sha256: await sha256(text.words),
  };
  const folder = (weights: Uint8Array, done: number) =>
    labFolder({
      ...{
        config,
        weights,
        tokenizer: vocabularyFiles.tokenizer,
        tokenizerConfig: vocabularyFiles.tokenizerConfig,
      },
      recipe: { settings: settings, steps_done: done, from: source ?? null, text: words ?? null },
      ...(text ? { text: text.words } : {}),
    });
  await out.write(folder(new Uint8Array(), 0).filter(({ path }) => path !== 'model.safetensors'));
  return (weights: Uint8Array, done: number) => out.write(folder(weights, done));
}

/** Cuts held-out sequences of the training's length, with the same first token. */
async function heldSequencesOf(
  { 'held-file': file, held = '16' }: Values,
  tokenizerFiles: TrainingPlan['tokenizerFiles'],
  { length, first }: Record<string, number | string>,
) {
  if (file === undefined) return undefined;
  if (!tokenizerFiles) throw unlike('--tokenizer', 'a tokenizer.json', undefined);
  expect(/^[1-9]\d{0,5}$/.test(held), '--held', 'a whole number above 0', held);
  const tokenizer = openTokenizer(tokenizerFiles.tokenizer, tokenizerFiles.tokenizerConfig);
  const text = await readText(file, '--held-file');
  const prefix = Number(first) < 0 ? [] : [Number(first)];
  const cut = await cutText(tokenizer, listOf(file, text) ?? text, {
    tokens: Number(length) - prefix.length,
    sequences: Number(held),
    special: 'none',
  });
  return cut.map((ids) => [...prefix, ...ids]);
}

function parseSetting(text: string) {
  return text.trim() !== '' && Number.isFinite(Number(text)) ? Number(text) : text;
}

async function planOf(
  values: Values,
  {
    model,
    recipe,
  }: { model: Record<string, number | string>; recipe: Record<string, number | string> },
): Promise<TrainingPlan> {
  if (values.from !== undefined) {
    const source = await sourceOf(values.from);
    if (!values['text-file']) throw unlike('--text-file', 'a text to go on with', undefined);
    const tokenizerFiles = await tokenizerOf(
      values.tokenizer ?? join(source.folder, 'tokenizer.json'),
    );
    return {
      ...labOnward(JSON.parse(source.config), model, recipe),
      begin: source.weights,
      text: await textOf(values['text-file'], tokenizerFiles),
      tokenizerFiles,
      from: { model: source.folder, step: source.step },
    };
  }
  const file = values['text-file'];
  if (file !== undefined && values.tokenizer === undefined)
    throw unlike('--tokenizer', 'a tokenizer.json', undefined);
  const tokenizerFiles =
    values.tokenizer === undefined ? undefined : await tokenizerOf(values.tokenizer);
  return {
    config: values.config
      ? parseJson(values.config, await bytesOf(values.config))
      : labConfig(model),
    recipe,
    begin: values.begin ? await bytesOf(values.begin) : undefined,
    text: file === undefined || !tokenizerFiles ? undefined : await textOf(file, tokenizerFiles),
    tokenizerFiles,
    from: values.begin ? { model: values.begin, step: null } : null,
  };
}

/** Repeats the training of a folder; its initial weights and its text must be the same bytes. */
async function repeatTraining(
  folder: string,
  values: Values,
  { model, recipe: others }: { model: object; recipe: object },
): Promise<TrainingPlan> {
  const settingNames = [...Object.keys(model), ...Object.keys(others)];
  expect(
    settingNames.length === 0,
    '--recipe',
    'no other setting',
    settingNames.map(optionName).join(', '),
  );
  const read = async (name: string) => {
    const path = join(folder, name);
    return parseJson(path, await bytesOf(path));
  };
  const [recipe, config] = [checkLabRecipe(await read('recipe.json')), await read('config.json')];
  const { settings, steps_done: steps, from, text } = recipe;
  const step = from?.step;
  const source =
    from && (values.from ?? `${from.model}${Number.isInteger(step) ? `@${step}` : ''}`);
  const start = source ? await initialWeightsOf(source) : undefined;
  if (start) await checkHash(`--from ${source}`, start, from?.sha256);
  const tokenizerFiles = text ? await tokenizerOf(join(folder, 'tokenizer.json')) : undefined;
  const files = values['text-file'] ?? [join(folder, 'text.txt')];
  const taskText = tokenizerFiles && (await textOf(files, tokenizerFiles));
  if (taskText)
    await checkHash(`--text-file ${files.join(' --text-file ')}`, taskText.words, text?.sha256);
  return {
    ...{ config, recipe: settings, steps, begin: start, tokenizerFiles },
    text: taskText && text ? { ...taskText, name: text.name } : undefined,
    from: from && { model: from.model, step: from.step ?? null },
  };
}

async function checkHash(where: string, data: Uint8Array | string, expected: string | undefined) {
  const digest = await sha256(data);
  if (expected !== undefined && digest !== expected)
    throw new SinkscopeError(
      'read',
      where,
      `expected the bytes that the recipe names, sha256 ${expected}, found ${digest}`,
    );
}

/** Returns the weights in a file or in the folder of a model. */
async function initialWeightsOf(name: string) {
  const stats = await stat(name).catch(() => undefined);
  return stats?.isFile() ? bytesOf(name) : (await sourceOf(name)).weights;
}

/**
 * Reads the model in FOLDER, or for FOLDER@STEP a checkpoint of the folder's timeline.
 * @param where name of the argument, for errors
 */
export async function sourceOf(name: string, where: string = '--from') {
  const isPath = await stat(name).catch(() => undefined);
  const [, folder = name, word] = (!isPath && /^(.*)@(.*)$/s.exec(name)) || [];
  if (word === undefined) {
    const config = new TextDecoder().decode(await bytesOf(join(folder, 'config.json')));
    const weights = await bytesOf(join(folder, 'model.safetensors'));
    return { folder, step: null, config, weights };
  }
  expect(/^\d{1,9}$/.test(word), `${where}: step`, 'a whole number from 0 on', word);
  const path = join(folder, 'timeline', 'index.json');
  await bytesOf(path);
  const timeline = await openTimeline(pathToFileURL(path));
  const { config, weights } = await timeline.open(Number(word));
  return {
    ...{ folder, step: Number(word), config: String(config) },
    weights: weights as Uint8Array,
  };
}

async function bytesOf(path: string) {
  try {
    return new Uint8Array(await readFile(path));
  } catch (error) {
    throw new SinkscopeError('read', path, `expected a file, found none (${codeOf(error)})`);
  }
}

function parseJson(path: string, bytes: Uint8Array) {
  try {
    return JSON.parse(new TextDecoder().decode(bytes));
  } catch (error) {
    throw new SinkscopeError('read', path, `expected JSON, found none: ${String(error)}`);
  }
}

/** Reads a tokenizer.json, with the tokenizer_config.json next to it if there is one. */
async function tokenizerOf(path: string) {
  const tokenizer = new TextDecoder().decode(await bytesOf(path));
  const configPath = join(path, '..', 'tokenizer_config.json');
  const tokenizerConfig = await readFile(configPath, 'utf8').catch(() => undefined);
  return { tokenizer, ...(tokenizerConfig === undefined ? {} : { tokenizerConfig }) };
}

async function textOf(files: readonly string[], { tokenizer }: { tokenizer: string }) {
  const texts = await Promise.all(
    files.map(async (file) => {
      const text = await readText(file, '--text-file');
      return listOf(file, text)?.join('\n') ?? text;
    }),
  );
  const words = texts.join('\n');
  const tokens = openTokenizer(tokenizer).encode(words, { special: 'none' });
  return {
    ids: Int32Array.from(tokens, ({ id }) => id),
    words,
    name: files.map((file) => basename(file)).join(', '),
  };
}

function logLine({
  step,
  loss,
  loss_triggers,
  loss_elsewhere,
  first_elsewhere,
  first_triggers,
  value_ratio,
  loss_held = null,
}: LogEntry) {
  const fixed = (x: number | null) => (x === null ? '-' : x.toFixed(3));
  return (
    `step ${String(step).padStart(5)}  loss ${fixed(loss)} (triggers ${fixed(loss_triggers)}, ` +
    `elsewhere ${fixed(loss_elsewhere)})  attention on the first token ${fixed(first_elsewhere)} ` +
    `(from triggers ${fixed(first_triggers)})  its value norm ${fixed(value_ratio)}` +
    `${loss_held === null ? '' : `  loss of the held text ${fixed(loss_held)}`}\n`
  );
}
