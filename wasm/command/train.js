/** `sinkscope train`: the lab, for a script. */
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { parseArgs } from 'node:util';
import { check } from '../border/arguments.js';
import { expect, unlike } from '../border/errors.js';
import { LAB_MODEL, labConfig } from '../lab/model.js';
import { labOnward } from '../lab/onward.js';
import { openTimeline } from '../supply/timeline.js';
import { openTokenizer } from '../text/tokenizer.js';

/** @typedef {import('../sinkscope.js').Engine} Engine */
/** @typedef {import('../sinkscope.js').Setting} Setting */
/** @typedef {Record<string, string | undefined>} Values */

const option = (/** @type {string} */ name) => name.replaceAll('_', '-');

/** @param {Setting} setting */
function usageOf({ name, meaning, words, default: standard }) {
  return `  --${option(name).padEnd(20)} ${meaning}${words ? `: ${words.join(', ')}` : ''} (${standard})`;
}

/** @param {readonly Setting[]} settings */
export const trainUsage = (settings) => `sinkscope train

Trains a small model, from random weights or from a trained one, and tells what its attention does.

${settings.map(usageOf).join('\n')}
  The model, each with its default:
    ${Object.entries(LAB_MODEL)
      .map(([name, standard]) => `--${option(name)} ${standard}`)
      .join(' ')}
  --config FILE          a config.json instead of these
  --begin FILE           weights to begin with, safetensors
  --text-file FILE       UTF-8 text for the task text, with
  --tokenizer FILE       its tokenizer.json
  --from FOLDER[@STEP]   goes on from this model, or from a checkpoint of its timeline, with its tokenizer,
                         on the text: gently, 100 steps where nothing else is said; --operation,
                         --bias-key and --gate make it another variant
  --every N              steps from one line to the next (10)
  --json                 each line everything that is measured, as JSON
  --out FOLDER           writes config.json, model.safetensors and recipe.json
  --kernels K            auto, simd or base (auto)
  --workers N            that share each batch; the digits do not depend on it (1)
`;

/**
 * @param {Engine} engine
 * @param {string[]} args
 * @param {(text: string) => void} print
 */
export async function train(engine, args, print) {
  const settings = engine.describe.training?.settings ?? [];
  const names = [
    ...settings.map(({ name }) => name),
    ...Object.keys(LAB_MODEL),
    ...['config', 'begin', 'from', 'text-file', 'tokenizer', 'every', 'out', 'kernels', 'workers'],
  ];
  const parsed = /** @type {{ values: object }} */ (
    parseArgs({
      args,
      options: {
        ...Object.fromEntries(names.map((name) => [option(name), { type: 'string' }])),
        json: { type: 'boolean' },
      },
    })
  );
  const values = /** @type {Values} */ (parsed.values);
  const given = (/** @type {readonly string[]} */ wanted) =>
    Object.fromEntries(
      wanted
        .filter((name) => values[option(name)] !== undefined)
        .map((name) => [name, typed(values[option(name)] ?? '')]),
    );
  const chosen = {
    model: given(Object.keys(LAB_MODEL)),
    recipe: given(settings.map(({ name }) => name)),
  };
  for (const { name, words } of settings)
    if (!words) check(chosen.recipe[name] ?? 0, 'number', `--${option(name)}`);
  const setting = await settingOf(values, chosen);
  const { config, recipe } = setting;
  const training = await engine.train({ ...setting, workers: Number(values.workers ?? 1) });
  const every = Number(values.every ?? 10);
  expect(Number.isInteger(every) && every > 0, '--every', 'a whole number above 0', values.every);
  const show = values.json
    ? (/** @type {object} */ entry) => print(`${JSON.stringify(entry)}\n`)
    : (/** @type {import('../sinkscope.js').LogEntry} */ entry) => print(line(entry));
  const { default: standard } = /** @type {Setting} */ (
    settings.find(({ name }) => name === 'steps')
  );
  try {
    for await (const entry of training.run(Number(recipe.steps ?? standard)))
      if (entry.step % every === 0) show(entry);
    show(await training.look());
  } finally {
    if (values.out) await write(values.out, { config, recipe, weights: await training.weights() });
    await training.close();
  }
}

/** @param {string} text */
function typed(text) {
  return text.trim() !== '' && Number.isFinite(Number(text)) ? Number(text) : text;
}

/**
 * @param {Values} values
 * @param {{ model: Record<string, number | string>, recipe: Record<string, number | string> }} chosen
 */
async function settingOf(values, { model, recipe }) {
  if (values.from !== undefined) {
    const [, folder = '', step] = /^(.*?)(?:@(\d+))?$/s.exec(values.from) ?? [];
    const tokenizer = values.tokenizer ?? join(folder, 'tokenizer.json');
    const trained = step === undefined ? files(folder) : checkpoint(folder, Number(step));
    const { config, weights } = await trained;
    return {
      ...labOnward(JSON.parse(config), model, recipe),
      begin: weights,
      text: await readText(values['text-file'] ?? '', tokenizer),
    };
  }
  const json = async (/** @type {string} */ file) => JSON.parse(await readFile(file, 'utf8'));
  const bytes = async (/** @type {string} */ file) => new Uint8Array(await readFile(file));
  const text = values['text-file'];
  return {
    config: values.config ? await json(values.config) : labConfig(model),
    recipe,
    begin: values.begin ? await bytes(values.begin) : undefined,
    text: text === undefined ? undefined : await readText(text, values.tokenizer),
  };
}

/** @param {string} folder */
async function files(folder) {
  const [config, weights] = await Promise.all([
    readFile(join(folder, 'config.json'), 'utf8'),
    readFile(join(folder, 'model.safetensors')),
  ]);
  return { config, weights: new Uint8Array(weights) };
}

/**
 * @param {string} folder
 * @param {number} step
 */
async function checkpoint(folder, step) {
  const timeline = await openTimeline(pathToFileURL(join(folder, 'timeline', 'index.json')));
  const { config, weights } = await timeline.open(step);
  return { config: String(config), weights: /** @type {Uint8Array} */ (weights) };
}

/**
 * @param {string} file
 * @param {string | undefined} tokenizerFile
 */
async function readText(file, tokenizerFile) {
  if (!file) throw unlike('--text-file', 'a text to go on with', undefined);
  if (tokenizerFile === undefined) throw unlike('--tokenizer', 'a tokenizer.json', undefined);
  const tokenizer = openTokenizer(await readFile(tokenizerFile, 'utf8'));
  const tokens = tokenizer.encode(await readFile(file, 'utf8'), { special: 'none' });
  return Int32Array.from(tokens, ({ id }) => id);
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
}) {
  const fixed = (/** @type {number | null} */ x) => (x === null ? '-' : x.toFixed(3));
  return (
    `step ${String(step).padStart(5)}  loss ${fixed(loss)} (triggers ${fixed(loss_triggers)}, ` +
    `elsewhere ${fixed(loss_elsewhere)})  attention on the first token ${fixed(first_elsewhere)} ` +
    `(from triggers ${fixed(first_triggers)})  its value norm ${fixed(value_ratio)}\n`
  );
}

/**
 * @param {string} folder
 * @param {{ config: object, recipe: object, weights: Uint8Array }} made
 */
async function write(folder, { config, recipe, weights }) {
  await mkdir(folder, { recursive: true });
  const json = (/** @type {object} */ value) => `${JSON.stringify(value, null, 2)}\n`;
  await writeFile(join(folder, 'config.json'), json(config));
  await writeFile(join(folder, 'recipe.json'), json(recipe));
  await writeFile(join(folder, 'model.safetensors'), weights);
}
