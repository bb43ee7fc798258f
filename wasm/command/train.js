/** Implements `sinkscope train`. */
import { readFile, stat } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { check } from '../abi/arguments.js';
import { SinkscopeError, expect, unlike } from '../abi/errors.js';
import { checkLabRecipe, labFolder, labTokenizer } from '../lab/folder.js';
import { LAB_MODEL, labConfig } from '../lab/model.js';
import { heldLoss } from '../lab/held.js';
import { labOnward } from '../lab/onward.js';
import { sha256 } from '../loading/hash.js';
import { openTimeline } from '../loading/timeline.js';
import { cutText } from '../study/measure.js';
import { openTokenizer } from '../text/tokenizer.js';
import { openOut } from './out_folder.js';
import { refuse } from './options.js';
import { codeOf, listOf, readText } from './text_file.js';

/** @typedef {import('../sinkscope.js').Engine} Engine */
/** @typedef {import('../sinkscope.js').Setting} Setting */
/** @typedef {Record<string, string | undefined> & { 'text-file'?: string[] }} Values */

const option = (/** @type {string} */ name) => name.replaceAll('_', '-');

/**
 * @param {Engine} engine
 * @param {import('./options.js').Given} asked
 * @param {(text: string) => void} print
 */
export async function train(engine, asked, print) {
  const values = /** @type {Values} */ (asked);
  const settings = engine.describe.training?.settings ?? [];
  const pickSettings = (/** @type {readonly string[]} */ wanted) =>
    Object.fromEntries(
      wanted
        .filter((name) => values[option(name)] !== undefined)
        .map((name) => [name, typed(values[option(name)] ?? '')]),
    );
  const choices = {
    model: pickSettings(Object.keys(LAB_MODEL)),
    recipe: pickSettings(settings.map(({ name }) => name)),
  };
  for (const { name, words } of settings)
    if (!words && name in choices.recipe)
      check(choices.recipe[name], 'number', `--${option(name)}`);
  refuseUnread(asked, Object.keys(choices.model).map(option));
  const every = Number(values.every ?? 10);
  expect(Number.isInteger(every) && every > 0, '--every', 'a whole number above 0', values.every);
  const defaults = Object.fromEntries(settings.map((row) => [row.name, row.default]));
  const setting = values.recipe
    ? await repeatTraining(values.recipe, values, choices)
    : await settingOf(values, choices);
  const { config, recipe, begin, text } = setting;
  const allSettings = { ...defaults, ...recipe };
  const out =
    values.out === undefined ? undefined : await openOut(values.out, ['model.safetensors']);
  const saveFolder = out && (await makeSaver(out, setting, allSettings));
  const heldSequences = await heldOf(values, setting.reads, allSettings);
  const workers = Number(values.workers ?? 1);
  const training = await engine.train({ config, recipe, begin, text: text?.ids, workers });
  const show = values.json
    ? (/** @type {object} */ entry) => print(`${JSON.stringify(entry)}\n`)
    : (/** @type {import('../sinkscope.js').LogEntry} */ entry) => print(line(entry));
  /** @returns {Promise<{ readonly [column: string]: number }>} */
  const heldNow = async () =>
    heldSequences ? { loss_held: await heldLoss(training, heldSequences) } : {};
  const job = new AbortController();
  const stop = () => job.abort();
  process.once('SIGINT', stop);
  let done = 0;
  try {
    const { signal } = job;
    const steps = setting.steps ?? Number(allSettings.steps);
    // The held loss of a line belongs to weights that exist only between two runs.
    while (done < steps) {
      const heldEntry = await heldNow();
      for await (const entry of training.run(Math.min(every, steps - done), { signal }))
        if (done++ % every === 0) show({ ...entry, ...heldEntry });
    }
    show({ ...(await training.look()), ...(await heldNow()) });
  } catch (error) {
    if (!job.signal.aborted) throw error;
    process.stderr.write(`sinkscope: stopped after ${done} steps\n`);
    process.exitCode = 130;
  } finally {
    process.removeListener('SIGINT', stop);
    if (saveFolder) await saveFolder(await training.weights(), done);
    await training.close();
  }
}

/**
 * Refuses options that another option already decides.
 * @param {import('./options.js').Given} asked
 * @param {readonly string[]} model choices of the model that the caller made
 */
function refuseUnread(asked, model) {
  if (asked.recipe) refuse(asked, ['config', 'begin', 'tokenizer'], 'is part of --recipe');
  if (asked.from) refuse(asked, ['config', 'begin'], '--from has it already');
  if (asked.config) refuse(asked, model, '--config has it already');
  if (!asked['held-file']) refuse(asked, ['held'], 'needs --held-file');
}

/**
 * The config, recipe and text of a training, as its folder stores them.
 * @typedef {object} Made
 * @property {object} config
 * @property {Record<string, number | string>} recipe
 * @property {Uint8Array} [begin]
 * @property {number} [steps] number of steps, if it differs from the recipe's
 * @property {{ ids: Int32Array, words: string, name: string }} [text]
 * @property {{ tokenizer: string, tokenizerConfig?: string }} [reads] absent: the lab's own characters
 * @property {{ model: string, step: number | null } | null} from
 */

/**
 * Returns a function that writes the folder; what is known before the first step is written at
 * once.
 * @param {Awaited<ReturnType<typeof openOut>>} out
 * @param {Made} made
 * @param {Record<string, number | string>} settings every setting
 */
async function makeSaver(out, { config, begin, text, reads, from }, settings) {
  const { vocab_size: vocabulary } = /** @type {{ vocab_size?: number }} */ (config);
  const { triggers, first } = /** @type {Record<string, number>} */ (settings);
  const vocabularyFiles = reads ?? labTokenizer({ vocabulary, triggers, first });
  const source = begin && from && { ...from, sha256: await sha256(begin) };
  const words = text && {
    name: text.name,
    tokens: text.ids.length,
    sha256: await sha256(text.words),
  };
  const folder = (/** @type {Uint8Array} */ weights, /** @type {number} */ done) =>
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
  return (/** @type {Uint8Array} */ weights, /** @type {number} */ done) =>
    out.write(folder(weights, done));
}

/**
 * Cuts held-out sequences of the training's length, with the same first token.
 * @param {Values} values
 * @param {Made['reads']} reads
 * @param {Record<string, number | string>} planned every setting
 */
async function heldOf({ 'held-file': file, held = '16' }, reads, { length, first }) {
  if (file === undefined) return undefined;
  if (!reads) throw unlike('--tokenizer', 'a tokenizer.json', undefined);
  expect(/^[1-9]\d{0,5}$/.test(held), '--held', 'a whole number above 0', held);
  const tokenizer = openTokenizer(reads.tokenizer, reads.tokenizerConfig);
  const text = await readText(file, '--held-file');
  const front = Number(first) < 0 ? [] : [Number(first)];
  const cut = await cutText(tokenizer, listOf(file, text) ?? text, {
    tokens: Number(length) - front.length,
    sequences: Number(held),
    special: 'none',
  });
  return cut.map((ids) => [...front, ...ids]);
}

/** @param {string} text */
function typed(text) {
  return text.trim() !== '' && Number.isFinite(Number(text)) ? Number(text) : text;
}

/**
 * @param {Values} values
 * @param {{ model: Record<string, number | string>, recipe: Record<string, number | string> }} chosen
 * @returns {Promise<Made>}
 */
async function settingOf(values, { model, recipe }) {
  if (values.from !== undefined) {
    const source = await sourceOf(values.from);
    if (!values['text-file']) throw unlike('--text-file', 'a text to go on with', undefined);
    const reads = await tokenizerOf(values.tokenizer ?? join(source.folder, 'tokenizer.json'));
    return {
      ...labOnward(JSON.parse(source.config), model, recipe),
      begin: source.weights,
      text: await textOf(values['text-file'], reads),
      reads,
      from: { model: source.folder, step: source.step },
    };
  }
  const file = values['text-file'];
  if (file !== undefined && values.tokenizer === undefined)
    throw unlike('--tokenizer', 'a tokenizer.json', undefined);
  const reads = values.tokenizer === undefined ? undefined : await tokenizerOf(values.tokenizer);
  return {
    config: values.config
      ? parseJson(values.config, await bytesOf(values.config))
      : labConfig(model),
    recipe,
    begin: values.begin ? await bytesOf(values.begin) : undefined,
    text: file === undefined || !reads ? undefined : await textOf(file, reads),
    reads,
    from: values.begin ? { model: values.begin, step: null } : null,
  };
}

/**
 * Repeats the training of a folder; its initial weights and its text must be the same bytes.
 * @param {string} folder
 * @param {Values} values
 * @param {{ model: object, recipe: object }} chosen
 * @returns {Promise<Made>}
 */
async function repeatTraining(folder, values, { model, recipe: others }) {
  const settingNames = [...Object.keys(model), ...Object.keys(others)];
  expect(
    settingNames.length === 0,
    '--recipe',
    'no other setting',
    settingNames.map(option).join(', '),
  );
  const read = async (/** @type {string} */ name) => {
    const path = join(folder, name);
    return parseJson(path, await bytesOf(path));
  };
  const [recipe, config] = [checkLabRecipe(await read('recipe.json')), await read('config.json')];
  const { settings, steps_done: steps, from, text } = recipe;
  const step = from?.step;
  const source =
    from && (values.from ?? `${from.model}${Number.isInteger(step) ? `@${step}` : ''}`);
  const begin = source ? await beginOf(source) : undefined;
  if (begin) await checkSame(`--from ${source}`, begin, from?.sha256);
  const reads = text ? await tokenizerOf(join(folder, 'tokenizer.json')) : undefined;
  const files = values['text-file'] ?? [join(folder, 'text.txt')];
  const taskText = reads && (await textOf(files, reads));
  if (taskText)
    await checkSame(`--text-file ${files.join(' --text-file ')}`, taskText.words, text?.sha256);
  return {
    ...{ config, recipe: settings, steps, begin, reads },
    text: taskText && text ? { ...taskText, name: text.name } : undefined,
    from: from && { model: from.model, step: from.step ?? null },
  };
}

/**
 * @param {string} where
 * @param {Uint8Array | string} data
 * @param {string | undefined} expected
 */
async function checkSame(where, data, expected) {
  const digest = await sha256(data);
  if (expected !== undefined && digest !== expected)
    throw new SinkscopeError(
      'read',
      where,
      `expected the bytes that the recipe names, sha256 ${expected}, found ${digest}`,
    );
}

/**
 * Returns the weights of a folder, or of a file.
 * @param {string} name
 */
async function beginOf(name) {
  const stats = await stat(name).catch(() => undefined);
  return stats?.isFile() ? bytesOf(name) : (await sourceOf(name)).weights;
}

/**
 * Reads a model by its folder, with @STEP a checkpoint of its timeline.
 * @param {string} name
 * @param {string} [where] names it in errors
 */
export async function sourceOf(name, where = '--from') {
  const at = name.lastIndexOf('@');
  const isFolder = at < 0 || (await stat(name).catch(() => undefined));
  const folder = isFolder ? name : name.slice(0, at);
  const word = isFolder ? undefined : name.slice(at + 1);
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
    weights: /** @type {Uint8Array} */ (weights),
  };
}

/** @param {string} path */
async function bytesOf(path) {
  try {
    return new Uint8Array(await readFile(path));
  } catch (error) {
    throw new SinkscopeError('read', path, `expected a file, found none (${codeOf(error)})`);
  }
}

/**
 * @param {string} path
 * @param {Uint8Array} bytes
 */
function parseJson(path, bytes) {
  try {
    return JSON.parse(new TextDecoder().decode(bytes));
  } catch (error) {
    throw new SinkscopeError('read', path, `expected JSON, found none: ${String(error)}`);
  }
}

/**
 * Reads a tokenizer.json, with the tokenizer_config.json next to it if there is one.
 * @param {string} path
 */
async function tokenizerOf(path) {
  const tokenizer = new TextDecoder().decode(await bytesOf(path));
  const configPath = join(path, '..', 'tokenizer_config.json');
  const tokenizerConfig = await readFile(configPath, 'utf8').catch(() => undefined);
  return { tokenizer, ...(tokenizerConfig === undefined ? {} : { tokenizerConfig }) };
}

/**
 * @param {readonly string[]} files
 * @param {{ tokenizer: string }} reads
 */
async function textOf(files, { tokenizer }) {
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

/** @param {import('../sinkscope.js').LogEntry} entry */
function line({
  step,
  loss,
  loss_triggers,
  loss_elsewhere,
  first_elsewhere,
  first_triggers,
  value_ratio,
  loss_held = null,
}) {
  const fixed = (/** @type {number | null} */ x) => (x === null ? '-' : x.toFixed(3));
  return (
    `step ${String(step).padStart(5)}  loss ${fixed(loss)} (triggers ${fixed(loss_triggers)}, ` +
    `elsewhere ${fixed(loss_elsewhere)})  attention on the first token ${fixed(first_elsewhere)} ` +
    `(from triggers ${fixed(first_triggers)})  its value norm ${fixed(value_ratio)}` +
    `${loss_held === null ? '' : `  loss of the held text ${fixed(loss_held)}`}\n`
  );
}
