/** Implements `sinkscope train`. */
import { stat } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { SinkscopeError, expect, argumentError, parseJson, readError } from '../abi/errors.ts';
import { MEMORY_BYTES } from '../abi/memory.ts';
import { currentPath } from '../host/node_folder.ts';
import { checkLabRecipe } from '../lab/folder.ts';
import { LAB_MODEL, labConfig } from '../lab/model.ts';
import { heldLoss } from '../lab/held.ts';
import { labOnward } from '../lab/onward.ts';
import { createReportTimer } from '../loading/files.ts';
import { sha256 } from '../loading/hash.ts';
import { expectSameStamp } from '../loading/stamp.ts';
import { openTimeline } from '../loading/timeline.ts';
import { cutText } from '../study/cut.ts';
import { openTokenizer } from '../text/tokenizer.ts';
import { optionName, refuse, type GivenOptions } from './options.ts';
import { Stop, listenForStop } from './stop.ts';
import { JSON_BYTES_MAX, parseTextList, readBytes, readText } from './text_file.ts';
import { STATE_FILE, checkpointFolderOf, openTrainedFolder, stepOf } from './trained_folder.ts';
import { parseNumber } from './values.ts';
import type { LogEntry, Training } from '../lab/types.ts';
import type { Engine } from '../load/types.ts';
import type { TrainedFolder, TrainingPlan } from './trained_folder.ts';

type Values = Record<string, string | undefined> & { 'text-file'?: string[] };

/** @param print resolves once a text is written */
export async function train(
  engine: Engine,
  options: GivenOptions,
  print: (text: string) => Promise<void>,
) {
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
  refuseDecidedOptions(options, Object.keys(choices.model).map(optionName));
  const checkpointSeconds = parseNumber(values.checkpoint ?? '60', 0, 1e9, '--checkpoint');
  const every = Number(values.every ?? 10);
  const isWhole = Number.isInteger(every) && every > 0;
  expect(isWhole, '--every', 'a whole number above 0', values.every);
  const defaults = Object.fromEntries(settings.map((row) => [row.name, row.default]));
  const plan = await planTraining(values, choices);
  const { config, recipe, begin, text } = plan;
  const allSettings = { ...defaults, ...recipe };
  const savedFolder = values.resume ?? values.out;
  const folder =
    savedFolder === undefined ? undefined : await openTrainedFolder(savedFolder, plan, allSettings);
  const heldSequences = await cutHeldSequences(values, plan.tokenizerFiles, allSettings);
  const workers = values.workers === undefined ? undefined : Number(values.workers);
  const { state } = plan;
  const training = await engine
    .train({ config, recipe, begin, state, text: text?.ids, workers })
    .catch((error) => {
      if (values.config || !(error instanceof SinkscopeError)) throw error;
      // No file has this config, so its model cannot be recorded either.
      const reason = error.text.replaceAll(/^config\.json: |; record such a model .*$/g, '');
      throw new SinkscopeError(error.code, error.where, reason);
    });
  const toLine = values.json ? (entry: object) => `${JSON.stringify(entry)}\n` : logLine;
  const measureHeldLoss = async (): Promise<{ readonly [column: string]: number }> =>
    heldSequences ? { loss_held: await heldLoss(training, heldSequences) } : {};
  const stop = listenForStop(print);
  const { signal } = stop;
  const steps = plan.steps ?? Number(allSettings.steps);
  let step = state ? stepOf(state) : 0;
  const isCheckpointDue = createReportTimer(1000 * checkpointSeconds);
  try {
    if (!state) await folder?.saveCheckpoint(training);
    // Measures the held-out loss before the steps: the next line of the log describes the weights as they are now.
    while (step < steps) {
      const heldEntry = await measureHeldLoss();
      const count = Math.min(every - (step % every), steps - step);
      for await (const entry of training.run(count, { signal })) {
        if (step++ % every === 0) await stop.print(toLine({ ...entry, ...heldEntry }));
        if (folder && isCheckpointDue()) await folder.saveCheckpoint(training);
      }
    }
    await stop.print(toLine({ ...(await training.look()), ...(await measureHeldLoss()) }));
    await folder?.saveModel(training);
    await folder?.removeCheckpoint();
  } catch (error) {
    await saveStopped(error, training, folder, step);
  } finally {
    stop.end();
    await training.close();
  }
  // The last line could not be printed: the model is saved, and the caller learns of the line.
  if (signal.reason instanceof SinkscopeError) throw signal.reason;
}

/**
 * Keeps what a training has computed after `step` steps. A signal or a closed pipe sets the exit
 * status; other errors are rethrown, with the step from which --resume continues.
 */
async function saveStopped(
  error: unknown,
  training: Training,
  folder: TrainedFolder | undefined,
  step: number,
) {
  const isDiverged = error instanceof SinkscopeError && error.code === 'diverged';
  let saveError: unknown;
  // A full disk may have no room for a checkpoint, which is three times as large as the weights.
  if (!isDiverged) await folder?.saveCheckpoint(training).catch((thrown) => (saveError = thrown));
  // Weights of no steps do not replace an older model.
  if (step > 0) await folder?.saveModel(training).catch((thrown) => (saveError = thrown));
  if (isDiverged && !saveError) await folder?.removeCheckpoint();
  if (error instanceof Stop) {
    process.stderr.write(`sinkscope: stopped after ${step} steps\n`);
    process.exitCode = error.status;
    if (!saveError) return;
  }
  const cause = error instanceof SinkscopeError ? error : saveError;
  if (!(cause instanceof SinkscopeError)) throw error;
  const resumeHint =
    folder?.lastStep === undefined || isDiverged
      ? ''
      : `; "sinkscope train --resume" continues after step ${folder.lastStep}`;
  throw new SinkscopeError(cause.code, cause.where, `${cause.text}${resumeHint}`);
}

/** Refuses options that another one decides; `modelOptions` are the given ones about the model. */
function refuseDecidedOptions(options: GivenOptions, modelOptions: readonly string[]) {
  if (options.resume)
    refuse(options, ['out', 'recipe', 'from', 'text-file'], '--resume has it already');
  for (const name of ['recipe', 'resume'])
    if (options[name]) refuse(options, ['config', 'begin', 'tokenizer'], `is part of --${name}`);
  if (options.from) refuse(options, ['config', 'begin'], '--from has it already');
  if (options.config) refuse(options, modelOptions, '--config has it already');
  if (!options['held-file']) refuse(options, ['held'], 'needs --held-file');
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
  const content = parseTextList(file, text) ?? text;
  const options = { tokens: Number(length) - prefix.length, sequences: Number(held) };
  const names = ['--held-file', `--length than ${length}`] as const;
  const sequences = await cutOrAdvise(names, tokenizer, content, { ...options, special: 'none' });
  return sequences.map((ids) => [...prefix, ...ids]);
}

/** Cuts a text; an error names its option, and the option that asks for a sequence's length. */
export function cutOrAdvise(
  [where, length]: readonly [string, string],
  ...args: Parameters<typeof cutText>
) {
  return cutText(...args).catch((error) => {
    if (!(error instanceof SinkscopeError) || error.where !== 'text') throw error;
    throw new SinkscopeError(error.code, where, `${error.text}; a smaller ${length} needs fewer`);
  });
}

const parseSetting = (text: string) =>
  text.trim() !== '' && Number.isFinite(Number(text)) ? Number(text) : text;

type Choices = Record<'model' | 'recipe', TrainingPlan['recipe']>;

async function planTraining(values: Values, choices: Choices): Promise<TrainingPlan> {
  const { model, recipe } = choices;
  for (const name of ['recipe', 'resume']) {
    const settingNames = values[name] ? [...Object.keys(model), ...Object.keys(recipe)] : [];
    const found = settingNames.map(optionName).join(', ');
    expect(settingNames.length === 0, `--${name}`, 'no other setting', found);
  }
  if (values.resume) return planResumedTraining(values.resume, values);
  if (values.recipe) return planRepeatedTraining(values.recipe, values);
  if (values.from !== undefined) {
    const source = await readModelFolder(values.from);
    if (!values['text-file']) throw argumentError('--text-file', 'a text to go on with', undefined);
    const tokenizerFiles = await readTokenizer(
      values.tokenizer ?? (await currentPath(source.folder, 'tokenizer.json')),
    );
    return {
      ...labOnward(JSON.parse(source.config), model, recipe),
      begin: source.weights,
      text: await readTrainingText(values['text-file'], tokenizerFiles),
      tokenizerFiles,
      from: { model: source.folder, step: source.step },
    };
  }
  const { width, heads } = { ...LAB_MODEL, ...model };
  const divides = values.config || Number(width) % Number(heads) === 0;
  expect(Boolean(divides), '--heads', `a divisor of --width ${width}`, heads);
  const file = values['text-file'];
  if (file !== undefined && values.tokenizer === undefined)
    throw argumentError('--tokenizer', 'a tokenizer.json', undefined);
  const tokenizerFiles =
    values.tokenizer === undefined ? undefined : await readTokenizer(values.tokenizer);
  return {
    config: values.config ? await readJson(values.config) : labConfig(model),
    recipe,
    begin: values.begin ? await readWeights(values.begin) : undefined,
    text: file && tokenizerFiles && (await readTrainingText(file, tokenizerFiles)),
    tokenizerFiles,
    from: values.begin ? { model: values.begin, step: null } : null,
  };
}

/** Continues the training of a folder from its last checkpoint. */
async function planResumedTraining(folder: string, values: Values): Promise<TrainingPlan> {
  const checkpointFolder = checkpointFolderOf(folder);
  const statePath = await currentPath(checkpointFolder, STATE_FILE);
  if (!(await stat(statePath).catch(() => undefined)))
    throw readError(`--resume: ${folder}`, 'expected an unfinished training, found none');
  const plan = await planSavedTraining(checkpointFolder, values);
  return { ...plan, state: await readWeights(statePath) };
}

/** Repeats the training of a folder; its initial weights and its text must be the same bytes. */
async function planRepeatedTraining(folder: string, values: Values): Promise<TrainingPlan> {
  const plan = await planSavedTraining(folder, values);
  const { from } = plan;
  if (!from) return plan;
  const source =
    values.from ?? `${from.model}${Number.isInteger(from.step) ? `@${from.step}` : ''}`;
  const begin = await readInitialWeights(source);
  await checkHash(`--from ${source}`, begin, from.sha256);
  return { ...plan, begin };
}

/** Reads the training of a folder, all but its initial weights. */
async function planSavedTraining(folder: string, values: Values): Promise<TrainingPlan> {
  const pathOf = (name: string) => currentPath(folder, name);
  const recipe = checkLabRecipe(await readJson(await pathOf('recipe.json')));
  const { settings, steps_done: steps, from, text } = recipe;
  expect(steps > 0, `${folder}: steps_done`, 'a training of one step or more', steps);
  const config = await readJson(await pathOf('config.json'));
  const tokenizerFiles = text ? await readTokenizer(await pathOf('tokenizer.json')) : undefined;
  const files = values['text-file'] ?? [await pathOf('text.txt')];
  const taskText = tokenizerFiles && (await readTrainingText(files, tokenizerFiles));
  if (taskText)
    await checkHash(`--text-file ${files.join(' --text-file ')}`, taskText.content, text?.sha256);
  return {
    ...{ config, recipe: settings, steps, tokenizerFiles, from },
    text: taskText && text ? { ...taskText, name: text.name } : undefined,
  };
}

async function checkHash(where: string, data: Uint8Array | string, expected: string | undefined) {
  const digest = await sha256(data);
  if (expected !== undefined && digest !== expected)
    throw readError(
      where,
      `expected the bytes that the recipe names, sha256 ${expected}, found ${digest}`,
    );
}

async function readInitialWeights(name: string) {
  const stats = await stat(name).catch(() => undefined);
  return stats?.isFile() ? readWeights(name) : (await readModelFolder(name)).weights;
}

export async function readModelFolder(name: string, where: string = '--from') {
  const stats = await stat(name).catch(() => undefined);
  const [, folder = name, stepText] = (!stats && /^(.*)@(.*)$/s.exec(name)) || [];
  if (stepText === undefined) {
    const configPath = await currentPath(folder, 'config.json');
    const config = await readJsonText(configPath);
    const weights = await readWeights(await currentPath(folder, 'model.safetensors'));
    expectSameStamp(new TextEncoder().encode(config), weights);
    return { folder, step: null, config, weights };
  }
  expect(/^\d{1,9}$/.test(stepText), `${where}: step`, 'a whole number from 0 on', stepText);
  const path = join(folder, 'timeline', 'index.json');
  await readJsonText(path);
  const timeline = await openTimeline(pathToFileURL(path));
  const { config, weights } = await timeline.open(Number(stepText));
  return {
    ...{ folder, step: Number(stepText), config: String(config) },
    weights: weights as Uint8Array,
  };
}

/** Reads weights from a regular file: a device or a pipe may never end. */
async function readWeights(path: string) {
  const stats = await stat(path).catch(() => undefined);
  if (stats && !stats.isFile()) throw readError(path, 'expected a regular file, found another');
  return readBytes(path, MEMORY_BYTES);
}

const readJsonText = async (path: string) =>
  new TextDecoder().decode(await readBytes(path, JSON_BYTES_MAX));

const readJson = async (path: string) => parseJson(await readJsonText(path), 'read', path);

async function readTokenizer(path: string) {
  const tokenizer = await readJsonText(path);
  const configPath = join(path, '..', 'tokenizer_config.json');
  const isThere = await stat(configPath).catch(() => undefined);
  const tokenizerConfig = isThere ? await readJsonText(configPath) : undefined;
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
