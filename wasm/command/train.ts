/** Implements `sinkscope train`. */
import { readFile, stat } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { check } from '../abi/arguments.ts';
import { SinkscopeError, expect, argumentError, parseJson } from '../abi/errors.ts';
import { checkLabRecipe, labFolder, labTokenizer } from '../lab/folder.ts';
import { LAB_MODEL, labConfig } from '../lab/model.ts';
import { heldLoss } from '../lab/held.ts';
import { labOnward } from '../lab/onward.ts';
import { sha256 } from '../loading/hash.ts';
import { openTimeline } from '../loading/timeline.ts';
import { cutText } from '../study/cut.ts';
import { openTokenizer } from '../text/tokenizer.ts';
import { openOut } from './out_folder.ts';
import { optionName, refuse } from './options.ts';
import { codeOf, parseTextList, readText } from './text_file.ts';
import type { GivenOptions } from './options.ts';
import type { LogEntry } from '../lab/types.ts';
import type { Engine } from '../load/types.ts';

type Values = Record<string, string | undefined> & { 'text-file'?: string[] };

export async function train(engine: Engine, options: GivenOptions, print: (text: string) => void) {
  const values = options as Values;
  const settings = engine.describe.training?.settings ?? [];
  const pickSettings = (names: readonly string[]) =>
    Object.fromEntries(
      names
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
  refuseDecidedOptions(options, Object.keys(choices.model).map(optionName));
  const interval = Number(values.every ?? 10);
  expect(
    Number.isInteger(interval) && interval > 0,
    '--every',
    'a whole number above 0',
    values.every,
  );
  const defaults = Object.fromEntries(settings.map((row) => [row.name, row.default]));
  const plan = values.recipe
    ? await planRepeatedTraining(values.recipe, values, choices)
    : await planTraining(values, choices);
  const { config, recipe, begin, text } = plan;
  const allSettings = { ...defaults, ...recipe };
  const outFolder =
    values.out === undefined ? undefined : await openOut(values.out, ['model.safetensors']);
  const saveFolder = outFolder && (await makeSaver(outFolder, plan, allSettings));
  const heldSequences = await cutHeldSequences(values, plan.tokenizerFiles, allSettings);
  const workers = values.workers === undefined ? undefined : Number(values.workers);
  const training = await engine.train({ config, recipe, begin, text: text?.ids, workers });
  const printEntry = values.json
    ? (entry: object) => print(`${JSON.stringify(entry)}\n`)
    : (entry: LogEntry) => print(logLine(entry));
  const measureHeldLoss = async (): Promise<{ readonly [column: string]: number }> =>
    heldSequences ? { loss_held: await heldLoss(training, heldSequences) } : {};
  const controller = new AbortController();
  const stop = () => controller.abort();
  process.once('SIGINT', stop);
  let stepsDone = 0;
  try {
    const { signal } = controller;
    const steps = plan.steps ?? Number(allSettings.steps);
    // Measures the held-out loss before the steps: the next line of the log describes the weights as they are now.
    while (stepsDone < steps) {
      const heldEntry = await measureHeldLoss();
      for await (const entry of training.run(Math.min(interval, steps - stepsDone), { signal }))
        if (stepsDone++ % interval === 0) printEntry({ ...entry, ...heldEntry });
    }
    printEntry({ ...(await training.look()), ...(await measureHeldLoss()) });
  } catch (error) {
    if (!controller.signal.aborted) throw error;
    process.stderr.write(`sinkscope: stopped after ${stepsDone} steps\n`);
    process.exitCode = 130;
  } finally {
    process.removeListener('SIGINT', stop);
    if (saveFolder) await saveFolder(await training.weights(), stepsDone);
    await training.close();
  }
}

/**
 * Refuses options whose values another option already fixes.
 * @param modelOptions names of the given options that describe the model
 */
function refuseDecidedOptions(options: GivenOptions, modelOptions: readonly string[]) {
  if (options.recipe) refuse(options, ['config', 'begin', 'tokenizer'], 'is part of --recipe');
  if (options.from) refuse(options, ['config', 'begin'], '--from has it already');
  if (options.config) refuse(options, modelOptions, '--config has it already');
  if (!options['held-file']) refuse(options, ['held'], 'needs --held-file');
}

interface TrainingPlan {
  config: object;
  recipe: Record<string, number | string>;
  begin?: Uint8Array;
  /** Number of steps to take; absent: the `steps` of the recipe. */
  steps?: number;
  text?: { ids: Int32Array; content: string; name: string };
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
  outFolder: Awaited<ReturnType<typeof openOut>>,
  { config, begin, text, tokenizerFiles, from }: TrainingPlan,
  settings: Record<string, number | string>,
) {
  const { vocab_size: vocabulary } = config as { vocab_size?: number };
  const { triggers, first } = settings as Record<string, number>;
  const savedTokenizer = tokenizerFiles ?? labTokenizer({ vocabulary, triggers, first });
  const source = begin && from && { ...from, sha256: await sha256(begin) };
  const textRecord = text && {
    name: text.name,
    tokens: text.ids.length,
    sha256: await sha256(text.content),
  };
  const makeFolder = (weights: Uint8Array, stepsDone: number) =>
    labFolder({
      config,
      weights,
      ...savedTokenizer,
      recipe: { settings, steps_done: stepsDone, from: source ?? null, text: textRecord ?? null },
      text: text?.content,
    });
  await outFolder.write(
    makeFolder(new Uint8Array(), 0).filter(({ path }) => path !== 'model.safetensors'),
  );
  return (weights: Uint8Array, stepsDone: number) =>
    outFolder.write(makeFolder(weights, stepsDone));
}

/** Cuts held-out sequences of the training's length, with the same first token. */
async function cutHeldSequences(
  { 'held-file': file, held = '16' }: Values,
  tokenizerFiles: TrainingPlan['tokenizerFiles'],
  { length, first }: Record<string, number | string>,
) {
  if (file === undefined) return undefined;
  if (!tokenizerFiles) throw argumentError('--tokenizer', 'a tokenizer.json', undefined);
  expect(/^[1-9]\d{0,5}$/.test(held), '--held', 'a whole number above 0', held);
  const tokenizer = openTokenizer(tokenizerFiles.tokenizer, tokenizerFiles.tokenizerConfig);
  const text = await readText(file, '--held-file');
  const prefix = Number(first) < 0 ? [] : [Number(first)];
  const sequences = await cutText(tokenizer, parseTextList(file, text) ?? text, {
    tokens: Number(length) - prefix.length,
    sequences: Number(held),
    special: 'none',
  }).catch((error) => {
    if (!(error instanceof SinkscopeError) || error.where !== 'text') throw error;
    throw new SinkscopeError(
      error.code,
      '--held-file',
      `${error.text}; a smaller --length needs fewer`,
    );
  });
  return sequences.map((ids) => [...prefix, ...ids]);
}

function parseSetting(text: string) {
  return text.trim() !== '' && Number.isFinite(Number(text)) ? Number(text) : text;
}

async function planTraining(
  values: Values,
  { model, recipe }: Record<'model' | 'recipe', TrainingPlan['recipe']>,
): Promise<TrainingPlan> {
  if (values.from !== undefined) {
    const source = await readModelFolder(values.from);
    if (!values['text-file']) throw argumentError('--text-file', 'a text to go on with', undefined);
    const tokenizerFiles = await readTokenizer(
      values.tokenizer ?? join(source.folder, 'tokenizer.json'),
    );
    return {
      ...labOnward(JSON.parse(source.config), model, recipe),
      begin: source.weights,
      text: await readTrainingText(values['text-file'], tokenizerFiles),
      tokenizerFiles,
      from: { model: source.folder, step: source.step },
    };
  }
  const file = values['text-file'];
  if (file !== undefined && values.tokenizer === undefined)
    throw argumentError('--tokenizer', 'a tokenizer.json', undefined);
  const tokenizerFiles =
    values.tokenizer === undefined ? undefined : await readTokenizer(values.tokenizer);
  return {
    config: values.config ? await readJson(values.config) : labConfig(model),
    recipe,
    begin: values.begin ? await readBytes(values.begin) : undefined,
    text: file && tokenizerFiles && (await readTrainingText(file, tokenizerFiles)),
    tokenizerFiles,
    from: values.begin ? { model: values.begin, step: null } : null,
  };
}

/** Repeats the training of a folder; its initial weights and its text must be the same bytes. */
async function planRepeatedTraining(
  folder: string,
  values: Values,
  { model, recipe: givenRecipe }: { model: object; recipe: object },
): Promise<TrainingPlan> {
  const settingNames = [...Object.keys(model), ...Object.keys(givenRecipe)];
  expect(
    settingNames.length === 0,
    '--recipe',
    'no other setting',
    settingNames.map(optionName).join(', '),
  );
  const {
    settings,
    steps_done: steps,
    from,
    text,
  } = checkLabRecipe(await readJson(join(folder, 'recipe.json')));
  const config = await readJson(join(folder, 'config.json'));
  const step = from?.step;
  const source =
    from && (values.from ?? `${from.model}${Number.isInteger(step) ? `@${step}` : ''}`);
  const initialWeights = source ? await readInitialWeights(source) : undefined;
  if (initialWeights) await checkHash(`--from ${source}`, initialWeights, from?.sha256);
  const tokenizerFiles = text ? await readTokenizer(join(folder, 'tokenizer.json')) : undefined;
  const files = values['text-file'] ?? [join(folder, 'text.txt')];
  const taskText = tokenizerFiles && (await readTrainingText(files, tokenizerFiles));
  if (taskText)
    await checkHash(`--text-file ${files.join(' --text-file ')}`, taskText.content, text?.sha256);
  return {
    ...{ config, recipe: settings, steps, begin: initialWeights, tokenizerFiles },
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

async function readInitialWeights(name: string) {
  const stats = await stat(name).catch(() => undefined);
  return stats?.isFile() ? readBytes(name) : (await readModelFolder(name)).weights;
}

/**
 * Reads the model in FOLDER, or for FOLDER@STEP a checkpoint of the folder's timeline.
 * @param where name of the argument, for errors
 */
export async function readModelFolder(name: string, where: string = '--from') {
  const stats = await stat(name).catch(() => undefined);
  const [, folder = name, stepText] = (!stats && /^(.*)@(.*)$/s.exec(name)) || [];
  if (stepText === undefined) {
    const config = new TextDecoder().decode(await readBytes(join(folder, 'config.json')));
    const weights = await readBytes(join(folder, 'model.safetensors'));
    return { folder, step: null, config, weights };
  }
  expect(/^\d{1,9}$/.test(stepText), `${where}: step`, 'a whole number from 0 on', stepText);
  const path = join(folder, 'timeline', 'index.json');
  await readBytes(path);
  const timeline = await openTimeline(pathToFileURL(path));
  const { config, weights } = await timeline.open(Number(stepText));
  return {
    ...{ folder, step: Number(stepText), config: String(config) },
    weights: weights as Uint8Array,
  };
}

async function readBytes(path: string) {
  try {
    return new Uint8Array(await readFile(path));
  } catch (error) {
    throw new SinkscopeError('read', path, `expected a file, found none (${codeOf(error)})`);
  }
}

const readJson = async (path: string) =>
  parseJson(new TextDecoder().decode(await readBytes(path)), 'read', path);

async function readTokenizer(path: string) {
  const tokenizer = new TextDecoder().decode(await readBytes(path));
  const configPath = join(path, '..', 'tokenizer_config.json');
  const tokenizerConfig = await readFile(configPath, 'utf8').catch(() => undefined);
  return { tokenizer, tokenizerConfig };
}

async function readTrainingText(files: readonly string[], { tokenizer }: { tokenizer: string }) {
  const texts = await Promise.all(
    files.map(async (file) => {
      const text = await readText(file, '--text-file');
      return parseTextList(file, text)?.join('\n') ?? text;
    }),
  );
  const content = texts.join('\n');
  const tokens = openTokenizer(tokenizer).encode(content, { special: 'none' });
  return {
    ids: Int32Array.from(tokens, ({ id }) => id),
    content,
    name: files.map((file) => basename(file)).join(', '),
  };
}

function logLine(entry: LogEntry) {
  const format = (column: string) => entry[column]?.toFixed(3) ?? '-';
  const heldText = 'loss_held' in entry ? `  loss of the held text ${format('loss_held')}` : '';
  return (
    `step ${String(entry.step).padStart(5)}  loss ${format('loss')} (triggers ${format('loss_triggers')}, ` +
    `elsewhere ${format('loss_elsewhere')})  attention on the first token ${format('first_elsewhere')} ` +
    `(from triggers ${format('first_triggers')})  its value norm ${format('value_ratio')}${heldText}\n`
  );
}
