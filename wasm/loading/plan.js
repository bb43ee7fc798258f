/**
 * Selects the files of a model and estimates the cost of opening it. The hub and the disk both pass
 * a list of files and get the same plan.
 */
import { checkOptions, checkPlan } from '../abi/arguments.js';
import { SinkscopeError, expect } from '../abi/errors.js';
import { readAll } from './files.js';

/** @typedef {import('../sinkscope.js').Plan} Plan */
/** @typedef {import('../sinkscope.js').PlanFile} PlanFile */
/** @typedef {(file: PlanFile) => Promise<string>} ReadText */

/** wasm32 addresses 4 GiB; the margin covers the stack and gaps of the heap. */
export const MEMORY_LIMIT = 2 ** 32 - 2 ** 28;
/** The estimate is for a run of this many tokens. */
const T = 64;

/** Options for fetching the files of a plan. */
export const ACCESS = { token: 'text', cache: 'flag' };

/** Small files of a model: their names in the plan and on the disk. */
const SMALL = {
  config: 'config.json',
  tokenizer: 'tokenizer.json',
  tokenizer_config: 'tokenizer_config.json',
  special_tokens_map: 'special_tokens_map.json',
  words: 'vocab.txt',
  vocab: 'vocab.json',
  merges: 'merges.txt',
};

/** Formats of weights by preference: the safe format first. */
const WEIGHTS = /** @type {const} */ ([
  ['safetensors', 'model.safetensors'],
  ['pytorch', 'pytorch_model.bin'],
]);

/** Models that fit into 4 GiB have fewer shards. */
const SHARDS_MAX = 1000;

/**
 * Plans one model.
 * @param {readonly PlanFile[]} files of one folder and, for GGUF, of its subfolders
 * @param {{ id: string, file?: string, readText: ReadText, below?: () => readonly PlanFile[] }} options
 * file: the weights to take among several GGUF files; below: returns the files of subfolders, among
 * which an index may find its shards
 * @returns {Promise<Plan>} has `choices` and no weights if the caller must choose
 * @throws {SinkscopeError} 'read' if a file is missing
 */
export async function makePlan(files, { id, file, readText, below = () => [] }) {
  const selection = await findWeights(files, { id, file, readText, below });
  const small = Object.entries(SMALL).flatMap(([role, name]) => {
    const file = files.find((one) => one.name === name);
    return file ? [[role, file]] : [];
  });
  /** @type {Plan['files']} */
  const parts = { ...Object.fromEntries(small), weights: selection.weights };
  if (selection.format !== 'gguf' && !parts.config) {
    throw missingFile(id, `config.json beside ${selection.weights[0].name}`, files);
  }
  const config = parts.config && (await readJson(parts.config, readText));
  const bytes = sum(selection.weights);
  const memory = bytes + (selection.format === 'gguf' ? 0 : runBytes(config));
  const refusal = refusalOf(memory);
  const { format, choices } = selection;
  return { id, format, files: parts, bytes, memory, choices, ...(refusal ? { refusal } : {}) };
}

/**
 * @param {readonly PlanFile[]} files
 * @param {{ id: string, file?: string, readText: ReadText, below: () => readonly PlanFile[] }} options
 */
async function findWeights(files, { id, file, readText, below }) {
  if (file !== undefined) return namedWeights(files, id, file);
  for (const [format, name] of WEIGHTS) {
    const single = files.find((one) => one.name === name);
    if (single) return { format, weights: [single], choices: [] };
    const index = files.find((one) => one.name === `${name}.index.json`);
    if (!index) continue;
    return { format, weights: await shards([...files, ...below()], index, readText), choices: [] };
  }
  const groups = ggufGroups(files);
  if (groups.length > 0) {
    const each = groups.map((group) => ({ file: group[0].name, bytes: sum(group) }));
    const [weights, choices] = groups.length === 1 ? [groups[0], []] : [[], each];
    return { format: /** @type {const} */ ('gguf'), weights, choices };
  }
  const topLevel = files.filter(({ name }) => /^[^/]+\.safetensors$/.test(name));
  const candidates = topLevel.filter(({ name }) => !/adapter|-\d+-of-\d+/.test(name));
  if (candidates.length === 1)
    return { format: /** @type {const} */ ('safetensors'), weights: candidates, choices: [] };
  throw missingFile(id, 'model.safetensors, its index, pytorch_model.bin or a .gguf file', files);
}

/**
 * @param {readonly PlanFile[]} files
 * @param {string} id
 * @param {string} file
 */
function namedWeights(files, id, file) {
  const group = ggufGroups(files).find((one) => one.some(({ name }) => name === file));
  if (group) return { format: /** @type {const} */ ('gguf'), weights: group, choices: [] };
  const weights = files.find(({ name }) => name === file);
  const kind = /\.(safetensors|bin)$/.exec(file)?.[1];
  if (!weights || !kind) throw missingFile(id, `weights called ${file}`, files);
  const format = /** @type {'safetensors' | 'pytorch'} */ (kind === 'bin' ? 'pytorch' : kind);
  return { format, weights: [weights], choices: [] };
}

/**
 * Lists the shards that an index names, in the order of their first mention.
 * @param {readonly PlanFile[]} files
 * @param {PlanFile} index
 * @param {ReadText} readText
 */
async function shards(files, index, readText) {
  const map = (await readJson(index, readText))?.weight_map;
  const names = new Set(typeof map === 'object' && map ? Object.values(map) : []);
  if (names.size === 0 || names.size > SHARDS_MAX) {
    const text = `expected a weight_map that names 1 to ${SHARDS_MAX} files, found ${names.size}`;
    throw new SinkscopeError('read', index.name, text);
  }
  return [...names].map((name) => {
    const shard = files.find((one) => one.name === name);
    if (shard) return shard;
    throw missingFile(index.name, `${String(name)}, which the index names`, files);
  });
}

/**
 * Groups GGUF files: the parts of a split model belong together.
 * @param {readonly PlanFile[]} files
 */
function ggufGroups(files) {
  /** @type {Map<string, PlanFile[]>} */
  const groups = new Map();
  for (const file of files.filter(({ name }) => /\.gguf$/i.test(name))) {
    // This is the image encoder of a vision-language model.
    if (/(^|\/)mmproj/i.test(file.name)) continue;
    const stem = file.name.replace(/-\d{5}-of-\d{5}\.gguf$/i, '.gguf');
    groups.set(stem, [...(groups.get(stem) ?? []), file]);
  }
  const byName = (/** @type {PlanFile} */ a, /** @type {PlanFile} */ b) =>
    a.name < b.name ? -1 : 1;
  return [...groups.values()].map((group) => group.sort(byName));
}

/**
 * @param {PlanFile} file
 * @param {ReadText} readText
 * @returns {Promise<Record<string, unknown>>}
 */
async function readJson(file, readText) {
  const text = await readText(file);
  try {
    const value = JSON.parse(text);
    if (typeof value === 'object' && value && !Array.isArray(value)) return value;
  } catch {
    // The error below covers this.
  }
  throw new SinkscopeError('read', file.name, 'expected a JSON object, found something else');
}

/** @param {readonly PlanFile[]} files */
function sum(files) {
  return files.reduce((bytes, file) => bytes + (file.bytes ?? 0), 0);
}

/**
 * Estimates the bytes of a run of T tokens with the default fields, at 4 bytes a number: hidden
 * (L+1)TD, queries LTHK, keys and values 2LTGK, attention LHTT, outputs of attention and
 * feed-forward 2LTD, and scratch T(3D + HK + 2F + V). 0 if the config lacks sizes.
 * @param {Record<string, unknown> | undefined} config
 */
export function runBytes(config) {
  const text = /** @type {Record<string, unknown>} */ (config?.text_config ?? config ?? {});
  const size = (/** @type {string[]} */ ...keys) =>
    Number(keys.map((key) => text[key]).find((value) => Number.isInteger(value)) ?? NaN);
  const L = size('num_hidden_layers', 'n_layer', 'num_layers');
  const D = size('hidden_size', 'n_embd');
  const H = size('num_attention_heads', 'n_head', 'num_heads');
  const G = size('num_key_value_heads') || H;
  const K = size('head_dim') || D / H;
  const F = size('intermediate_size', 'n_inner', 'ffn_dim') || 4 * D;
  const V = size('vocab_size');
  const trace = (L + 1) * D + L * (H + 2 * G) * K + L * H * T + 2 * L * D;
  const scratch = 3 * D + H * K + 2 * F + V;
  const bytes = 4 * T * (trace + scratch);
  // Absurd sizes give no estimate; the core names the key when it reads the config.
  return bytes <= MEMORY_LIMIT ? Math.max(Math.ceil(bytes), 0) : 0;
}

/**
 * Says why a model of this size cannot be opened; undefined if it can.
 * @param {number} memory
 */
function refusalOf(memory) {
  if (memory <= MEMORY_LIMIT) return undefined;
  const gib = (/** @type {number} */ bytes) => `${(bytes / 2 ** 30).toFixed(2)} GiB`;
  return (
    `needs about ${gib(memory)} of memory; WebAssembly with 32-bit addresses holds ` +
    `${gib(MEMORY_LIMIT)} of it. Expected a smaller or more strongly quantized model`
  );
}

/**
 * @param {string} id
 * @param {string} expected
 * @param {readonly PlanFile[]} files
 */
function missingFile(id, expected, files) {
  const names = files.map(({ name }) => name);
  const list = names.slice(0, 8).join(', ') || 'no files';
  const more = names.length > 8 ? ` and ${names.length - 8} more` : '';
  return new SinkscopeError('read', id, `expected ${expected}, found ${list}${more}`);
}

/** @type {typeof import('../sinkscope.js').modelFiles} */
export function modelFiles(plan, options = {}) {
  checkPlan(plan);
  checkOptions(options, ACCESS);
  const { config, weights } = plan.files;
  if (plan.refusal) throw new SinkscopeError('too_large', plan.id, plan.refusal);
  expect(weights.length > 0, plan.id, 'one of the choices', 'none');
  const source = (/** @type {PlanFile} */ file) => sourceOf(plan, file, options);
  return { config: config && source(config), weights: weights.map(source) };
}

/** @type {typeof import('../sinkscope.js').planText} */
export async function planText(plan, file, options = {}) {
  checkPlan(plan);
  checkOptions(file, { url: 'text', version: 'text', bytes: 'count', blob: 'blob' }, 'file');
  expect(file.blob !== undefined || URL.canParse(file.url ?? ''), 'file', 'a blob or a url', file);
  checkOptions(options, { ...ACCESS, signal: 'signal' });
  const { signal } = options;
  return new TextDecoder().decode(await readAll(sourceOf(plan, file, options), signal));
}

/**
 * @param {Plan} plan
 * @param {PlanFile} file
 * @param {{ token?: string, cache?: boolean }} options
 * @returns {import('../sinkscope.js').Source}
 */
function sourceOf({ id }, { blob, url = '', version, bytes, sha256 }, { token, cache }) {
  return blob ?? { url, version, bytes, sha256, id, token, cache };
}
