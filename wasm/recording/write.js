/**
 * Writes recordings: safetensors files with the conditions in their metadata, from the numbers of
 * runs.
 */
import { check, checkList, checkOptions } from '../abi/arguments.js';
import { expect, find } from '../abi/errors.js';
import { editLabel } from '../engine/edits.js';
import { VERSION } from './conditions.js';

/** @typedef {import('../sinkscope.js').Tensor} Tensor */
/** @typedef {import('../sinkscope.js').Describe} Describe */
/** @typedef {import('../sinkscope.js').Recordable} Recordable */
/** @typedef {import('../sinkscope.js').RecordOptions} RecordOptions */
/** @typedef {import('../sinkscope.js').Measured} Measured */
/** @typedef {{ dtype: 'F32' | 'F16' | 'I32' | 'U8', shape: readonly number[], data: Float32Array | Int32Array | Uint8Array | Uint16Array }} Part one tensor of the file */
/** @typedef {Map<string, Part>} Parts tensors by name */

/**
 * Metrics of one prompt that accompany maps and vectors, or replace those that are not recorded.
 */
const EXACT = ['alpha', 'row_mass', 'hidden_norm', 'key_norm', 'value_norm'];
/** An additional one for operations whose rows need not sum to 1. */
const RAW = 'alpha_raw';
/** Small fields that are recorded for every prompt if the model has them. */
const SMALL = ['loss', 'att_bias', 'gate'];

const STUDY = { fields: 'list', half: 'flag', eps: 'list', strings: 'call', model: 'object' };
const ABOUT = {
  first: 'object',
  source: 'text',
  sourceSha256: 'text',
  licence: 'text',
  command: 'text',
};
/** Options of all functions that record. */
export const RECORD = { ...STUDY, ...ABOUT };

/* ---- safetensors -------------------------------------------------------------------------- */

/**
 * Encodes the file. Tensors are aligned to 8 bytes, so that readers can use them in place.
 * @param {Parts} parts
 * @param {unknown} conditions
 */
export function encode(parts, conditions) {
  const metadata = { 'sinkscope.recording': VERSION, sinkscope: JSON.stringify(conditions) };
  /** @type {Record<string, unknown>} */
  const header = { __metadata__: metadata };
  // Wide numbers come first, which aligns every tensor without gaps, as the format requires.
  const widthOf = (/** @type {[string, Part]} */ [, { data }]) => data.BYTES_PER_ELEMENT;
  const sorted = [...parts].sort((a, b) => widthOf(b) - widthOf(a));
  let at = 0;
  for (const [name, { dtype, shape, data }] of sorted)
    header[name] = { dtype, shape, data_offsets: [at, (at += data.byteLength)] };
  const json = new TextEncoder().encode(JSON.stringify(header));
  const padded = Math.ceil(json.length / 8) * 8;
  const file = new Uint8Array(8 + padded + at);
  new DataView(file.buffer).setBigUint64(0, BigInt(padded), true);
  file.set(json, 8);
  file.fill(0x20, 8 + json.length, 8 + padded);
  let next = 8 + padded;
  for (const [, { data }] of sorted) {
    file.set(new Uint8Array(data.buffer, data.byteOffset, data.byteLength), next);
    next += data.byteLength;
  }
  return file;
}

/**
 * Rounds numbers to half precision and returns the bits; ties go to even.
 * @param {ArrayLike<number>} numbers
 */
export function halves(numbers) {
  const wide = new Float32Array(1);
  const bits = new Uint32Array(wide.buffer);
  return Uint16Array.from(numbers, (number) => {
    wide[0] = number;
    const signBit = (bits[0] >>> 16) & 0x8000;
    const rest = bits[0] & 0x7fffffff;
    if (rest > 0x7f800000) return signBit | 0x7e00;
    if (rest < 0x38800000) {
      // Subnormal: adding 0.5 makes the last bit of a single worth 2^-24, as in a half.
      wide[0] = Math.abs(wide[0]) + 0.5;
      return signBit | (bits[0] & 0xffff);
    }
    const rounded = rest + 0xfff + ((rest >>> 13) & 1);
    return signBit | Math.min((rounded - 0x38000000) >>> 13, 0x7c00);
  });
}

/**
 * @param {Tensor | { shape: readonly number[], data: ArrayLike<number> }} tensor
 * @param {boolean} [isHalf]
 * @returns {Part}
 */
export function part({ shape, data }, isHalf = false) {
  if (data instanceof Int32Array) return { dtype: 'I32', shape, data };
  if (isHalf) return { dtype: 'F16', shape, data: halves(data) };
  return {
    dtype: 'F32',
    shape,
    data: data instanceof Float32Array ? data : Float32Array.from(data),
  };
}

/* ---- what is kept ------------------------------------------------------------------------- */

/**
 * Lists the metrics that replace fields which are too large to record.
 * @param {Describe} describe
 * @param {Pick<import('../sinkscope.js').Architecture, 'attention'>} architecture
 */
function exactOf({ operations }, { attention }) {
  const { proxy } = operations[find(operations, attention.operation, 'operation')];
  return proxy === 'weights' ? EXACT : [...EXACT, RAW];
}

/**
 * Lists what is read from a run that is recorded: fields, and those that a run may lack.
 * @param {Recordable} model
 * @param {RecordOptions} options
 */
export function keptOf({ describe, architecture }, { fields = ['att'] }) {
  const names = fields.map((name) => describe.fields[find(describe.fields, name, 'field')].name);
  const small = describe.fields.filter(
    ({ name, needs }) => SMALL.includes(name) && hasPart(architecture, needs),
  );
  return {
    fields: [...new Set(names)].filter((name) => name !== 'tokens'),
    small: small.map(({ name }) => name).filter((name) => !names.includes(name)),
    exact: exactOf(describe, architecture),
  };
}

/**
 * @param {object} architecture
 * @param {string | null} needs
 */
function hasPart(architecture, needs) {
  return needs === null || Boolean(/** @type {Record<string, unknown>} */ (architecture)[needs]);
}

/**
 * Adds the recorded tensors of one prompt to the parts.
 * @param {Parts} parts
 * @param {number} prompt
 * @param {Pick<import('../sinkscope.js').Run, 'tokens' | 'read'>} run
 * @param {ReturnType<typeof keptOf>} kept
 * @param {boolean} isHalf
 */
export async function keep(parts, prompt, run, { fields, small, exact }, isHalf) {
  const addPart = (/** @type {string} */ name, /** @type {Part} */ one) =>
    parts.set(`${prompt}.${name}`, one);
  addPart('tokens', part({ shape: [run.tokens.length], data: Int32Array.from(run.tokens) }));
  const tensors = await run.read(fields.map((field) => ({ field })));
  fields.forEach((name, i) => addPart(name, part(tensors[i], isHalf && !SMALL.includes(name))));
  const others = [...small.map((field) => ({ field })), ...exact.map((metric) => ({ metric }))];
  for (const read of others) {
    const [tensor] = await run.read([read]).catch((error) => {
      if (error.code !== 'bad_request') throw error;
      return []; // the run did not record it
    });
    if (!tensor) continue;
    const name = 'field' in read ? read.field : read.metric;
    // No logits predict the first token, so the format omits its loss.
    const { data } = tensor;
    addPart(
      name,
      part(name === 'loss' ? { shape: [data.length - 1], data: data.slice(1) } : tensor),
    );
  }
}

/**
 * Adds means and deviations over all prompts to the parts; thresholds are the first dimension.
 * @param {Parts} parts
 * @param {Describe} describe
 * @param {readonly Readonly<Record<string, Measured>>[]} byEps by threshold; metrics without one are in the first
 */
export function putMeans(parts, describe, byEps) {
  for (const [name, { shape }] of Object.entries(byEps[0])) {
    const row = describe.metrics[find(describe.metrics, name, 'metric')];
    const hasThreshold = row.arguments.includes('eps');
    const all = hasThreshold ? byEps.map((metrics) => metrics[name]) : [byEps[0][name]];
    const fullShape = hasThreshold ? [byEps.length, ...shape] : shape;
    const numbers = (/** @type {'mean' | 'deviation'} */ kind) =>
      Float32Array.from(all.flatMap((one) => one[kind].map((x) => x ?? NaN)));
    parts.set(`mean.${name}`, part({ shape: fullShape, data: numbers('mean') }));
    parts.set(`deviation.${name}`, part({ shape: fullShape, data: numbers('deviation') }));
  }
}

/* ---- conditions --------------------------------------------------------------------------- */

/**
 * @param {Recordable} model
 * @param {RecordOptions} options
 * @param {{ ids: readonly (readonly number[])[], count: number, T: number, eps: readonly number[], edits?: readonly import('../sinkscope.js').Edit[] }} measured ids: those of recorded prompts
 */
export function conditionsOf(
  { architecture, describe, arithmetic },
  options,
  { ids, count, T, eps, edits = [] },
) {
  const { strings = (/** @type {readonly number[]} */ list) => list.map(String) } = options;
  const { family, L, H, G, K, D, V, F, E, mask, windows, attention } = architecture;
  const tokens = ids.map((list, i) => {
    const texts = strings(list);
    checkList(texts, 'text', `strings of prompt ${i}`);
    expect(texts.length === list.length, 'strings', `${list.length} of them`, texts.length);
    return Array.from(texts);
  });
  const sizes = { L, H, G, K, D, V, F, E };
  const implementation = {
    dtype: arithmetic === 'int8' ? 'int8' : 'float32',
    attention: 'sinkscope',
  };
  const about = { id: family, revision: null, sha256: null, ...options.model };
  // An edit that replaces the operation in every head also changes the meaning of the rows.
  const operation = edits.reduce(
    (name, edit) =>
      edit.kind === 'operation' && edit.layer === undefined && edit.head === undefined
        ? String(edit.operation)
        : name,
    attention.operation,
  );
  const first = { token: tokens[0]?.[0] ?? null, id: ids[0]?.[0] ?? null, position: 0 };
  return {
    model: { ...about, family, ...sizes, ...implementation, operation, mask, windows },
    first: { ...first, ...options.first },
    tokens,
    prompts: {
      source: options.source ?? null,
      sha256: options.sourceSha256 ?? null,
      count,
      kept: ids.length,
      T,
    },
    eps,
    ...(edits.length && {
      edits: edits.map((edit) => ({ ...edit, label: editLabel(edit, describe) })),
    }),
    class: options.class ?? 'MEASURED',
    licence: options.licence ?? null,
    versions: { sinkscope: describe.version },
    command: options.command ?? null,
  };
}

/* ---- maps of other programs ------------------------------------------------------------------- */

/** @type {typeof import('../sinkscope.js').recordMaps} */
export function recordMaps(prompts, options = {}) {
  checkList(prompts, 'object', 'prompts');
  checkOptions(options, ABOUT);
  const {
    id = 'maps',
    family = 'unknown',
    operation = 'softmax',
    mask = { kind: 'causal' },
  } = options;
  expect(prompts.length > 0, 'prompts', 'one prompt or more', prompts.length);
  /** @type {Parts} */
  const parts = new Map();
  const maps = prompts.map(({ att }, i) => mapsOf(att, `prompts[${i}].att`));
  const [[L, H, T]] = maps.map(({ shape }) => shape);
  maps.forEach(({ shape, data }, i) => {
    const expected = [L, H, shape[2], shape[2]];
    expect(
      `${shape}` === `${expected}`,
      `prompts[${i}].att`,
      `shape ${expected.join(' x ')}`,
      shape.join(' x '),
    );
    parts.set(`${i}.att`, part({ shape, data }));
  });
  const tokens = prompts.map(({ tokens: strings }, i) => {
    const [, , n] = maps[i].shape;
    const list = strings ?? Array.from({ length: n }, (_, t) => String(t));
    checkList(list, 'text', `prompts[${i}].tokens`);
    expect(list.length === n, `prompts[${i}].tokens`, `${n} of them, as in the maps`, list.length);
    return [...list];
  });
  const sizes = { L, H, G: options.G ?? H, K: 1, D: 1, V: 1 };
  return encode(parts, {
    model: { id, revision: null, sha256: null, family, ...sizes, operation, mask },
    first: { token: tokens[0][0], id: null, position: 0 },
    tokens,
    prompts: { source: options.source ?? null, count: prompts.length, kept: prompts.length, T },
    eps: [],
    class: 'MEASURED',
    licence: options.licence ?? null,
    versions: {},
    command: options.command ?? null,
  });
}

/**
 * Joins maps to one tensor [L, H, T, T] from such a tensor, or from one per layer, which may be [1,
 * H, T, T] with `dims`, as in transformers.js and onnxruntime.
 * @param {unknown} att
 * @param {string} where
 * @returns {{ shape: number[], data: Float32Array }}
 */
function mapsOf(att, where) {
  check(att, 'object', where);
  const layers = (Array.isArray(att) ? att : [att]).map((layer, l) => {
    check(layer, 'object', `${where}[${l}]`);
    const dims = layer.shape ?? layer.dims;
    checkList(dims, 'count', `${where}[${l}].shape`);
    check(layer.data, 'list', `${where}[${l}].data`);
    const shape = [...dims];
    if (Array.isArray(att) && shape.length === 4) {
      expect(shape[0] === 1, `${where}[${l}].shape`, 'a batch of 1', shape.join(' x '));
      shape.shift();
    }
    const n = shape.reduce((a, b) => a * b, 1);
    expect(layer.data.length === n, `${where}[${l}].data`, `${n} numbers`, layer.data.length);
    return { shape, data: layer.data };
  });
  expect(layers.length > 0, where, 'one layer or more', 'none');
  const [{ shape }] = layers;
  const isOneTensor = !Array.isArray(att);
  expect(
    shape.length === (isOneTensor ? 4 : 3),
    where,
    'maps [L, H, T, T], or [H, T, T] of each layer',
    shape.join(' x '),
  );
  for (const layer of layers)
    expect(
      `${layer.shape}` === `${shape}`,
      where,
      `the same shape in each layer, ${shape.join(' x ')}`,
      layer.shape.join(' x '),
    );
  const each = layers[0].data.length;
  const data = new Float32Array(each * layers.length);
  layers.forEach((layer, l) => data.set(layer.data, l * each));
  return { shape: isOneTensor ? shape : [layers.length, ...shape], data };
}
