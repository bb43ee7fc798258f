/** Selects a model's files from the list of a hub or of the disk, and estimates their cost. */
import { check, checkList, checkOptions } from '../abi/arguments.ts';
import { SinkscopeError, expect, readError } from '../abi/errors.ts';
import { MEMORY_BYTES } from '../abi/memory.ts';
import { readAll, readUtf8 } from './files.ts';
import {
  NANOGPT_SIGNS,
  hasSigns,
  refuseForeignConfig,
  refuseForeignFiles,
  refusePointers,
  refuseSettings,
} from './foreign.ts';
import type { Plan, PlanFile, ModelFiles, Source } from './types.ts';

type ReadText = (file: PlanFile) => Promise<string>;
type PlanOptions = {
  id: string;
  /** The name of the weights to take, if there are several files. */
  file?: string;
  readText: ReadText;
  /** Returns the files of subfolders, among which an index may find its shards. */
  listNestedFiles?: () => readonly PlanFile[];
};

/** Bytes that a model may take; the rest of the memory is for the stack and gaps of the heap. */
export const MEMORY_LIMIT = MEMORY_BYTES - 2 ** 28;
/** Number of tokens of the run whose memory is estimated. */
const T = 64;

export const ACCESS_OPTIONS = { token: 'text', cache: 'flag' };

const SMALL_FILES = {
  config: 'config.json',
  tokenizer: 'tokenizer.json',
  tokenizer_config: 'tokenizer_config.json',
  special_tokens_map: 'special_tokens_map.json',
  words: 'vocab.txt',
  vocab: 'vocab.json',
  merges: 'merges.txt',
  sentencepiece: 'tokenizer.model',
  characters: 'meta.pkl',
};

/** Formats of weights by preference: the safe format first. */
const WEIGHT_FORMATS = [
  ['safetensors', 'model.safetensors'],
  ['pytorch', 'pytorch_model.bin'],
] as const;

/** Checkpoints of training scripts, except for the states of optimizers, schedulers and random numbers. */
const TORCH_FILE =
  /^(?![^]*(optim|scheduler|rng_state|scaler|training_args))[^/]+\.(pt|pth|ckpt)$/i;

/** Models of up to 4 GiB have fewer shards. */
const SHARDS_MAX = 1000;

/**
 * Plans one model.
 * @param files the files of one folder and, for GGUF, of its subfolders
 * @returns a plan, with `choices` and no weights if the caller must choose among them
 * @throws {SinkscopeError} 'read' if a file is missing
 */
export async function makePlan(files: readonly PlanFile[], options: PlanOptions): Promise<Plan> {
  const { id, readText } = options;
  const { format, weights, choices } = await findWeights(files, options);
  await refusePointers(id, weights);
  const smallFiles = Object.entries(SMALL_FILES).flatMap(([role, name]) => {
    const file = files.find((file) => file.name === name);
    return file ? [[role, file]] : [];
  });
  const byRole: Plan['files'] = { ...Object.fromEntries(smallFiles), weights };
  if (format !== 'gguf' && !byRole.config && !(await mayBeNanoGpt(weights[0])))
    throw missingError(id, `config.json beside ${weights[0].name}`, files);
  const config = byRole.config && (await readJson(byRole.config, readText));
  if (config) refuseForeignConfig(id, config);
  if (config && !config.quantization_config && format !== 'gguf')
    await refuseSettings(id, files, weights);
  const bytes = totalBytes(weights);
  const memory = bytes + (format === 'gguf' ? 0 : runBytes(config));
  const refusal = refusalText(memory);
  return { id, format, files: byRole, bytes, memory, choices, ...(refusal ? { refusal } : {}) };
}

/** A checkpoint of nanoGPT has the sizes of its model; of a remote one only the name is known. */
const mayBeNanoGpt = async (file: PlanFile) =>
  TORCH_FILE.test(file.name) && (!file.blob || (await hasSigns(file, NANOGPT_SIGNS)));

async function findWeights(
  files: readonly PlanFile[],
  { id, file, readText, listNestedFiles = () => [] }: PlanOptions,
) {
  const listShards = (index: PlanFile) =>
    shardsOf([...files, ...listNestedFiles()], index, readText);
  if (file !== undefined) return findNamedWeights(files, id, file, listShards);
  for (const [format, name] of WEIGHT_FORMATS) {
    const weightsFile = files.find((file) => file.name === name);
    if (weightsFile) return { format, weights: [weightsFile], choices: [] };
    const index = files.find((file) => file.name === `${name}.index.json`);
    if (!index) continue;
    return { format, weights: await listShards(index), choices: [] };
  }
  const groups = groupGgufFiles(files);
  if (groups.length > 0) {
    const ggufChoices = groups.map((group) => ({ file: group[0].name, bytes: totalBytes(group) }));
    const [weights, choices] = groups.length === 1 ? [groups[0], []] : [[], ggufChoices];
    return { format: 'gguf' as const, weights, choices };
  }
  const topLevelFiles = files.filter(({ name }) => /^[^/]+\.safetensors$/.test(name));
  const candidates = topLevelFiles.filter(
    ({ name }) => !/adapter|consolidated|-\d+-of-\d+/.test(name),
  );
  if (candidates.length === 1)
    return { format: 'safetensors' as const, weights: candidates, choices: [] };
  await refuseForeignFiles(id, files);
  const checkpoints = files.filter(({ name }) => TORCH_FILE.test(name));
  if (checkpoints.length === 1)
    return { format: 'pytorch' as const, weights: checkpoints, choices: [] };
  throw missingError(id, 'model.safetensors, its index, pytorch_model.bin or a .gguf file', files);
}

/** Finds the weights that a file belongs to: an index or a shard stands for all shards. */
async function findNamedWeights(
  files: readonly PlanFile[],
  id: string,
  file: string,
  listShards: (index: PlanFile) => Promise<PlanFile[]>,
) {
  const group = groupGgufFiles(files).find((group) => group.some(({ name }) => name === file));
  if (group) return { format: 'gguf' as const, weights: group, choices: [] };
  const indexName = file.replace(/(-\d{5}-of-\d{5})?(\.\w+)(\.index\.json)?$/, '$2.index.json');
  const isShard = /-\d{5}-of-\d{5}\.\w+$/.test(file);
  const index =
    isShard || file === indexName ? files.find(({ name }) => name === indexName) : undefined;
  const weights = index ?? files.find(({ name }) => name === file);
  const extension = /\.(safetensors|bin|pt|pth|ckpt)(\.index\.json)?$/.exec(file)?.[1];
  if (!weights || !extension) throw missingError(id, `weights called ${file}`, files);
  if (!index) await refuseForeignFiles(id, [weights]);
  const format = extension === 'safetensors' ? ('safetensors' as const) : ('pytorch' as const);
  return { format, weights: index ? await listShards(index) : [weights], choices: [] };
}

async function shardsOf(files: readonly PlanFile[], index: PlanFile, readText: ReadText) {
  const weightMap = (await readJson(index, readText))?.weight_map;
  const names = new Set(typeof weightMap === 'object' && weightMap ? Object.values(weightMap) : []);
  if (names.size === 0 || names.size > SHARDS_MAX) {
    const text = `expected a weight_map that names 1 to ${SHARDS_MAX} files, found ${names.size}`;
    throw readError(index.name, text);
  }
  return [...names].map((name) => {
    const shard = files.find((file) => file.name === name);
    if (shard) return shard;
    throw missingError(index.name, `${String(name)}, which the index names`, files);
  });
}

/** Groups GGUF files: the parts of a split model belong together. */
function groupGgufFiles(files: readonly PlanFile[]) {
  const groups: Map<string, PlanFile[]> = new Map();
  for (const file of files.filter(({ name }) => /\.gguf$/i.test(name))) {
    // A file named mmproj is the image encoder of a vision-language model.
    if (/(^|\/)mmproj/i.test(file.name)) continue;
    const stem = file.name.replace(/-\d{5}-of-\d{5}\.gguf$/i, '.gguf');
    groups.set(stem, [...(groups.get(stem) ?? []), file]);
  }
  const byName = (a: PlanFile, b: PlanFile) => (a.name < b.name ? -1 : 1);
  return [...groups.values()].map((group) => group.sort(byName));
}

async function readJson(file: PlanFile, readText: ReadText): Promise<Record<string, unknown>> {
  const text = await readText(file);
  let actual = 'something else';
  try {
    const value = JSON.parse(text);
    if (typeof value === 'object' && value && !Array.isArray(value)) return value;
  } catch (error) {
    // Python writes NaN and Infinity, which are no JSON, and a file may be cut off.
    actual = (error as Error).message;
  }
  throw readError(file.name, `expected a JSON object, found ${actual}`);
}

const totalBytes = (files: readonly PlanFile[]) =>
  files.reduce((bytes, file) => bytes + (file.bytes ?? 0), 0);

/**
 * Estimates the bytes of a run of T tokens with the default fields, at 4 bytes a number: hidden
 * (L+1)TD, queries LTHK, keys and values 2LTGK, attention LHTT, outputs of attention and
 * feed-forward 2LTD, and scratch T(3D + HK + 2F + V). 0 if the config lacks sizes.
 */
export function runBytes(config: Record<string, unknown> | undefined) {
  const textConfig = (config?.text_config ?? config ?? {}) as Record<string, unknown>;
  const readSize = (...keys: string[]) =>
    Number(keys.map((key) => textConfig[key]).find((value) => Number.isInteger(value)) ?? NaN);
  const L = readSize('num_hidden_layers', 'n_layer', 'num_layers', 'n_layers');
  const D = readSize('hidden_size', 'n_embd', 'd_model');
  const H = readSize('num_attention_heads', 'n_head', 'num_heads', 'n_heads');
  const G = readSize('num_key_value_heads') || H;
  const K = readSize('head_dim') || D / H;
  const F = readSize('intermediate_size', 'n_inner', 'ffn_dim') || 4 * D;
  const V = readSize('vocab_size');
  const trace = (L + 1) * D + L * (H + 2 * G) * K + L * H * T + 2 * L * D;
  const scratch = 3 * D + H * K + 2 * F + V;
  const bytes = 4 * T * (trace + scratch);
  // Absurd sizes give no estimate: when the core reads the config, its error names the key.
  return bytes <= MEMORY_LIMIT ? Math.max(Math.ceil(bytes), 0) : 0;
}

function refusalText(memory: number) {
  if (memory <= MEMORY_LIMIT) return undefined;
  const gibText = (bytes: number) => `${(bytes / 2 ** 30).toFixed(2)} GiB`;
  return (
    `needs about ${gibText(memory)} of memory; WebAssembly with 32-bit addresses holds ` +
    `${gibText(MEMORY_LIMIT)} of it. Expected a smaller or more strongly quantized model`
  );
}

function missingError(id: string, expected: string, files: readonly PlanFile[]) {
  const names = files.map(({ name }) => name);
  const list = names.slice(0, 8).join(', ') || 'no files';
  const ellipsis = names.length > 8 ? ` and ${names.length - 8} more` : '';
  return readError(id, `expected ${expected}, found ${list}${ellipsis}`);
}

/**
 * Returns the files of a plan for `engine.open`.
 * @throws SinkscopeError 'too_large' if the plan has a refusal, 'argument' if it has choices
 * @example await engine.open(modelFiles(plan, { token, cache: true }));
 */
export function modelFiles(
  plan: Plan,
  options: { readonly token?: string; readonly cache?: boolean } = {},
): ModelFiles {
  checkPlan(plan);
  checkOptions(options, ACCESS_OPTIONS);
  const { config, weights } = plan.files;
  if (plan.refusal) throw new SinkscopeError('too_large', plan.id, plan.refusal);
  expect(weights.length > 0, plan.id, 'one of the choices', 'none');
  const toSource = (file: PlanFile) => sourceOf(plan, file, options);
  return { config: config && toSource(config), weights: weights.map(toSource) };
}

export async function planText(
  plan: Plan,
  file: PlanFile,
  options: {
    readonly token?: string;
    readonly cache?: boolean;
    readonly signal?: AbortSignal;
  } = {},
): Promise<string> {
  checkPlan(plan);
  checkOptions(file, { url: 'text', version: 'text', bytes: 'count', blob: 'blob' }, 'file');
  expect(file.blob !== undefined || URL.canParse(file.url ?? ''), 'file', 'a blob or a url', file);
  checkOptions(options, { ...ACCESS_OPTIONS, signal: 'signal' });
  return readUtf8(sourceOf(plan, file, options), options.signal);
}

export const planBytes = (
  plan: Plan,
  file: PlanFile,
  options: { readonly token?: string; readonly cache?: boolean; readonly signal?: AbortSignal },
) => readAll(sourceOf(plan, file, options), options.signal);

function sourceOf(
  { id }: Plan,
  { blob, url = '', version, bytes, sha256 }: PlanFile,
  { token, cache }: { token?: string; cache?: boolean },
): Source {
  return blob ?? { url, version, bytes, sha256, id, token, cache };
}

export function checkPlan(plan: unknown): asserts plan is Plan {
  check(plan, 'object', 'plan');
  const { id, files } = plan as { id?: unknown; files?: { weights?: unknown } };
  check(id, 'text', 'plan.id');
  check(files, 'object', 'plan.files');
  checkList(files?.weights, 'object', 'plan.files.weights');
}
