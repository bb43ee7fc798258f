// What several tests need: the repository, its models, the two binaries.
import { readFileSync, readdirSync, existsSync } from 'node:fs';
import { createEngine } from '../../wasm/index.js';

export const root = new URL('../../', import.meta.url);
export const binaries = new URL('.build/wasm/', root);
export const golden = new URL('tests/golden/', root);
export const softmax = new URL('models/zoo/softmax/', root);

/** A model small enough to be opened by every test. */
export const tiny = new URL('hf-llama-gqa/', golden);

/** @param {URL} folder */
export function files(folder) {
  return {
    config: readFileSync(new URL('config.json', folder)),
    weights: readFileSync(new URL('model.safetensors', folder)),
  };
}

/** Folders of tests/golden that hold a model of their own. */
export function goldenModels() {
  const folders = readdirSync(golden).map((name) => new URL(`${name}/`, golden));
  return folders.filter((folder) => existsSync(new URL('model.safetensors', folder)));
}

/**
 * The F32 and I32 tensors of a safetensors file.
 * @param {URL} file
 */
export function readSafetensors(file) {
  const bytes = readFileSync(file);
  const start = 8 + Number(bytes.readBigUInt64LE(0));
  const header = JSON.parse(bytes.subarray(8, start).toString());
  delete header.__metadata__;
  const tensor = ({ dtype, shape, data_offsets: [from, to] }) => {
    const data = Uint8Array.from(bytes.subarray(start + from, start + to)).buffer;
    return { shape, data: dtype === 'I32' ? new Int32Array(data) : new Float32Array(data) };
  };
  return Object.fromEntries(Object.entries(header).map(([name, entry]) => [name, tensor(entry)]));
}

/**
 * Opens an engine for the time of one use.
 * @param {import('../../wasm/sinkscope.js').EngineOptions} options
 * @param {(engine: import('../../wasm/sinkscope.js').Engine) => Promise<void>} use
 */
export async function withEngine(options, use) {
  const engine = await createEngine({ base: binaries, worker: false, ...options });
  try {
    await use(engine);
  } finally {
    await engine.close();
  }
}

/**
 * The code and where of the error that a promise ends with.
 * @param {Promise<unknown>} promise
 */
export async function failure(promise) {
  const error = await promise.then(
    () => ({ code: 'none', where: '', text: 'it succeeded' }),
    (error) => error,
  );
  return { name: error.name, code: error.code, where: error.where, text: error.text };
}
