// Exports folders of the repository, models, and functions that several test files use.
import assert from 'node:assert/strict';
import { readFileSync, readdirSync, existsSync } from 'node:fs';
import { createEngine } from '../../wasm/index.ts';
import { fileOf, tensorsOf } from '../safetensors.mjs';

export const root = new URL('../../', import.meta.url);
export const binaries = new URL('.build/wasm/', root);
export const golden = new URL('tests/golden/', root);
export const softmax = new URL('models/zoo/softmax/', root);

export const tiny = new URL('hf-llama-gqa/', golden);

/** Returns the name of the weights in a folder, if there are any. @param {URL} folder */
function weightsName(folder) {
  const names = ['model.safetensors', 'model.gguf', 'pytorch_model.bin'];
  return names.find((name) => existsSync(new URL(name, folder)));
}

/**
 * Returns the config and the weights in a folder.
 * @param {URL} folder
 */
export function files(folder) {
  const name = weightsName(folder);
  const weights = readFileSync(new URL(name, folder));
  if (name === 'model.gguf') return { weights };
  return { config: readFileSync(new URL('config.json', folder)), weights };
}

export function goldenModels() {
  const folders = readdirSync(golden).map((name) => new URL(`${name}/`, golden));
  return folders.filter(weightsName);
}

/**
 * Reads the F32 and I32 tensors of a safetensors file.
 * @param {URL} file
 */
export function readSafetensors(file) {
  const tensors = tensorsOf(readFileSync(file)).map(([name, { dtype, shape }, bytes]) => {
    const data = Uint8Array.from(bytes).buffer;
    return [name, { shape, data: dtype === 'I32' ? new Int32Array(data) : new Float32Array(data) }];
  });
  return Object.fromEntries(tensors);
}

/**
 * Makes a llama of random weights, whose runs can be long enough to be stopped.
 * @param {{ L: number, D: number, F: number, V: number, context: number, K?: number }} sizes sizes of the model, which has 4 heads
 * @param {object} otherSettings further or changed keys of the configuration
 */
export function randomModel(sizes, otherSettings = {}) {
  const key = JSON.stringify([sizes, otherSettings]);
  randomModels[key] ??= makeRandomModel(sizes, otherSettings);
  return randomModels[key];
}

/** The models that were made already. @type {Record<string, { config: string, weights: Uint8Array }>} */
const randomModels = {};

function makeRandomModel({ L, D, F, V, context, K }, otherSettings) {
  const width = K ? 4 * K : D;
  const shapes = { 'model.embed_tokens.weight': [V, D], 'model.norm.weight': [D] };
  for (let l = 0; l < L; l++) {
    const layerPrefix = `model.layers.${l}.`;
    for (const name of ['input_layernorm', 'post_attention_layernorm'])
      shapes[`${layerPrefix}${name}.weight`] = [D];
    for (const name of ['q', 'k', 'v'])
      shapes[`${layerPrefix}self_attn.${name}_proj.weight`] = [width, D];
    shapes[`${layerPrefix}self_attn.o_proj.weight`] = [D, width];
    shapes[`${layerPrefix}mlp.gate_proj.weight`] = [F, D];
    shapes[`${layerPrefix}mlp.up_proj.weight`] = [F, D];
    shapes[`${layerPrefix}mlp.down_proj.weight`] = [D, F];
  }
  let count = 0;
  const tensors = Object.entries(shapes).map(([name, shape]) => {
    const length = shape.reduce((a, b) => a * b);
    const numbers = Float32Array.from({ length }, () => ((count++ * 7919) % 201) / 4000 - 0.025);
    return [name, { dtype: 'F32', shape }, Buffer.from(numbers.buffer)];
  });
  const config = JSON.stringify({
    model_type: 'llama',
    num_hidden_layers: L,
    num_attention_heads: 4,
    ...(K ? { head_dim: K } : {}),
    hidden_size: D,
    intermediate_size: F,
    vocab_size: V,
    max_position_embeddings: context,
    tie_word_embeddings: true,
    ...otherSettings,
  });
  return { config, weights: new Uint8Array(fileOf(tensors)) };
}

/**
 * Opens an engine, passes it to `use`, and closes it afterwards.
 * @param {import('../../wasm/index.ts').EngineOptions} options
 * @param {(engine: import('../../wasm/index.ts').Engine) => Promise<void>} use
 */
export async function withEngine(options, use) {
  const engine = await createEngine({ base: binaries, worker: false, ...options });
  try {
    await use(engine);
  } finally {
    await engine.close();
  }
}

/** Returns name, code, place and sentence of a promise's error. @param {Promise<unknown>} promise */
export async function failure(promise) {
  const error = await promise.then(
    () => ({ code: 'none', where: '', text: 'it succeeded' }),
    (error) => error,
  );
  return { name: error.name, code: error.code, where: error.where, text: error.text };
}

/** Returns code, place and sentence of the error that a call throws. @param {() => unknown} call */
export function errorOf(call) {
  try {
    call();
  } catch (error) {
    return [error.code, error.where, error.text];
  }
  return 'nothing';
}

/** Returns the piece of a template of tokenizer.json that is a token, by its name. @param {string} id */
export const special = (id) => ({ SpecialToken: { id, type_id: 0 } });
export const sequence = { Sequence: { id: 'A', type_id: 0 } };
/**
 * Makes a post-processor of these pieces.
 * @param {object[]} single
 */
export const templateOf = (...single) => ({
  type: 'TemplateProcessing',
  single,
  pair: single,
  special_tokens: {},
});

/**
 * Compares the places and sentences with which calls fail because of an argument with the file's snapshot.
 * @param {import('node:test').TestContext} t
 * @param {(() => unknown)[]} calls
 */
export async function refuses(t, calls) {
  const sentences = [];
  for (const call of calls) {
    const { code, where, text } = await failure((async () => call())());
    assert.equal(code, 'argument');
    sentences.push(`${where}: ${text}`);
  }
  t.assert.snapshot(sentences);
}

/**
 * Opens the model of a folder, passes it to `use`, and closes its engine afterwards.
 * @param {URL} folder
 * @param {(model: import('../../wasm/index.ts').Model) => Promise<void>} use
 * @param {import('../../wasm/index.ts').EngineOptions} [options]
 */
export const withModelOf = (folder, use, options = {}) =>
  withEngine(options, async (engine) => use(await engine.open(files(folder))));

/** Commands of this process run one at a time, since their output is read from its streams. */
let lastCommand = Promise.resolve();

/**
 * Runs the command line in this process, which starts no Node.js for it; cli.test.mjs starts the program itself.
 * @param {string[]} args
 * @returns {Promise<{ status: number, stdout: string, stderr: string }>}
 */
export const runCli = (...args) => (lastCommand = lastCommand.then(() => outputOf(args)));

/** As runCli, but rejects with the messages of a command that fails. @param {...(string | number)} args */
export async function runOk(...args) {
  const result = await runCli(...args.map(String));
  if (result.status) throw Object.assign(new Error(result.stderr), result);
  return result;
}

/**
 * Returns a command's output and messages; restores the streams and the exit code. A command that ends its process would end the
 * file's tests without a failure, so it only returns here.
 * @param {string[]} args
 */
async function outputOf(args) {
  const { runCommand } = await import('../../wasm/command/command.ts');
  const streams = [process.stdout, process.stderr];
  const outputs = ['', ''];
  const saved = streams.map((stream) => [stream.write, stream.listeners('error')]);
  const { exit } = process;
  process.exit = () => {};
  streams.forEach((stream, i) => {
    stream.write = (data, ...rest) => {
      if (typeof data !== 'string') return saved[i][0].call(stream, data, ...rest);
      outputs[i] += data;
      rest.at(-1)?.();
      return true;
    };
  });
  try {
    await runCommand(args);
    return { status: process.exitCode ?? 0, stdout: outputs[0], stderr: outputs[1] };
  } finally {
    process.exit = exit;
    process.exitCode = 0;
    streams.forEach((stream, i) => {
      stream.write = saved[i][0];
      for (const listener of stream.listeners('error'))
        if (!saved[i][1].includes(listener)) stream.off('error', listener);
    });
  }
}

export const withoutSpecial = (tokens) => tokens.filter((token) => !token.special);

/** Lists the starts and ends of the tokens of a text, without those that the tokenizer adds. */
export const spansOf = (tokens) => withoutSpecial(tokens).flatMap(({ start, end }) => [start, end]);

/** Asserts that two values are equal: numbers within 2e-5, all else exactly. */
export function near(found, expected, where) {
  if (typeof expected === 'number')
    return assert.ok(Math.abs(found - expected) < 2e-5, `${where}: ${found}, not ${expected}`);
  if (typeof expected !== 'object' || expected === null)
    return assert.equal(found, expected, where);
  assert.deepEqual(Object.keys(found).sort(), Object.keys(expected).sort(), where);
  for (const key of Object.keys(expected)) near(found[key], expected[key], `${where}.${key}`);
}

/** Returns the FNV-1a hash of integers, as 8 hexadecimal digits. @param {Iterable<number>} numbers */
export function hashOf(numbers) {
  let h = 0x811c9dc5;
  for (const n of numbers) h = Math.imul(h ^ n, 0x01000193) >>> 0;
  return h.toString(16).padStart(8, '0');
}

/** Values that a file or a server may have in place of those that are expected. */
export const JUNK = JSON.parse(
  '[null, true, -1, 0, 0.5, 1e9, 1e308, "", "x", "../x", "\\u0000", "__proto__", "x.gguf", "index.json", [], {}, [[]], [1e9], {"a": 1}]',
);

/** Returns a function that draws an integer from 0 to n - 1. @param {number} seed */
export function randomBelow(seed) {
  let state = seed;
  return (/** @type {number} */ n) => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return Math.floor((state / 2 ** 32) * n);
  };
}

/**
 * Returns a copy of a value of JSON in which one place is missing, is there twice, or has one of the other values.
 * @param {any} value
 * @param {(n: number) => number} random
 * @param {unknown[]} junk
 */
export function spoil(value, random, junk) {
  const keys = typeof value === 'object' ? Object.keys(value ?? {}) : [];
  if (!keys.length || random(6) === 0) return junk[random(junk.length)];
  const key = keys[random(keys.length)];
  const copy = Array.isArray(value) ? [...value] : { ...value };
  const change = random(8);
  if (change === 0) delete copy[key];
  else if (change === 1 && Array.isArray(copy)) copy.push(copy[key]);
  else copy[key] = spoil(value[key], random, junk);
  return copy;
}
