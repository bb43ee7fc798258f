/** Writes recordings of runs: safetensors files with the conditions in their metadata. */
import { check, checkList, checkOptions } from '../abi/arguments.ts';
import { expect, rowNamed } from '../abi/errors.ts';
import { editLabel } from '../engine/edit_text.ts';
import { sha256 } from '../loading/hash.ts';
import { headerBytes } from '../loading/safetensors.ts';
import { FORMAT_VERSION } from '../engine/conditions.ts';
import type { Tensor, Describe, Bytes } from '../abi/types.ts';
import type { Run, Edit, Recordable, RecordOptions } from '../engine/types.ts';
import type { Maps, MapsOptions } from './types.ts';
import type { MetricMean } from '../study/types.ts';

type FileTensor = {
  dtype: 'F32' | 'F16' | 'I32' | 'U8';
  shape: readonly number[];
  data: Float32Array | Int32Array | Uint8Array | Uint16Array;
};
export type FileTensors = Map<string, FileTensor>;
type RecordedPrompts = {
  /** Token ids of the recorded prompts. */
  ids: readonly (readonly number[])[];
  /** First token of all prompts, null if they differ; default: that of `ids`. */
  firstId?: number | null;
  /** Hash of the token ids of all prompts, from `hashIds`. */
  idsSha256?: string;
  count: number;
  T: number;
  eps: readonly number[];
  edits?: readonly Edit[];
};

/** Metrics in F32 for each prompt: maps and vectors are in half precision, or left out. */
const EXACT_METRICS = ['alpha', 'row_mass', 'hidden_norm', 'key_norm', 'value_norm'];
/** One more metric of each prompt, for operations whose rows need not sum to 1. */
const RAW_METRIC = 'alpha_raw';
/** Small fields that are recorded for every prompt if the model has them. */
const SMALL_FIELDS = ['loss', 'att_bias', 'gate'];

const READ_KINDS = { fields: 'list', half: 'flag', eps: 'list', strings: 'call', model: 'object' };
const ABOUT_OPTIONS = {
  first: 'object',
  source: 'text',
  sourceSha256: 'text',
  license: 'text',
  command: 'text',
};
export const RECORD_OPTIONS = { ...READ_KINDS, ...ABOUT_OPTIONS };

/* ---- safetensors -------------------------------------------------------------------------- */

/** Encodes the file, with tensors aligned to 8 bytes so that readers need not copy them. */
export function encode(fileTensors: FileTensors, conditions: unknown) {
  const metadata = { 'sinkscope.recording': FORMAT_VERSION, sinkscope: JSON.stringify(conditions) };
  const header: Record<string, unknown> = { __metadata__: metadata };
  // Wide numbers come first, which aligns every tensor without gaps, as the format requires.
  const widthOf = ([, { data }]: [string, FileTensor]) => data.BYTES_PER_ELEMENT;
  const sortedTensors = [...fileTensors].sort((a, b) => widthOf(b) - widthOf(a));
  let dataEnd = 0;
  for (const [name, { dtype, shape, data }] of sortedTensors)
    header[name] = { dtype, shape, data_offsets: [dataEnd, (dataEnd += data.byteLength)] };
  const start = headerBytes(header);
  const file = new Uint8Array(start.length + dataEnd);
  file.set(start);
  let offset = start.length;
  for (const [, { data }] of sortedTensors) {
    file.set(new Uint8Array(data.buffer, data.byteOffset, data.byteLength), offset);
    offset += data.byteLength;
  }
  return file;
}

/** Rounds numbers to half precision and returns the bits; ties go to even. */
export function toHalfBits(numbers: ArrayLike<number>) {
  const float = new Float32Array(1);
  const bits = new Uint32Array(float.buffer);
  return Uint16Array.from(numbers, (number) => {
    float[0] = number;
    const signBit = (bits[0] >>> 16) & 0x8000;
    const magnitude = bits[0] & 0x7fffffff;
    if (magnitude > 0x7f800000) return signBit | 0x7e00;
    if (magnitude < 0x38800000) {
      // Subnormal: adding 0.5 makes the last bit of a single worth 2^-24, as in a half.
      float[0] = Math.abs(float[0]) + 0.5;
      return signBit | (bits[0] & 0xffff);
    }
    const roundedBits = magnitude + 0xfff + ((magnitude >>> 13) & 1);
    return signBit | Math.min((roundedBits - 0x38000000) >>> 13, 0x7c00);
  });
}

export function makeFileTensor(
  { shape, data }: Tensor | { shape: readonly number[]; data: ArrayLike<number> },
  isHalf: boolean = false,
): FileTensor {
  if (data instanceof Int32Array) return { dtype: 'I32', shape, data };
  if (isHalf) return { dtype: 'F16', shape, data: toHalfBits(data) };
  return {
    dtype: 'F32',
    shape,
    data: data instanceof Float32Array ? data : Float32Array.from(data),
  };
}

/* ---- recorded fields ---------------------------------------------------------------------- */

/** Selects what a recording reads: requested fields, the model's small ones, exact metrics. */
export function selectFields(
  { describe, architecture }: Recordable,
  { fields = ['att'] }: RecordOptions,
) {
  const names = fields.map((name) => rowNamed(describe.fields, name, 'field').name);
  const smallFields = describe.fields.filter(
    ({ name, needs }) => SMALL_FIELDS.includes(name) && (needs === null || architecture[needs]),
  );
  const { proxy } = rowNamed(describe.operations, architecture.attention.operation, 'operation');
  return {
    fields: [...new Set(names)].filter((name) => name !== 'tokens'),
    smallFields: smallFields.map(({ name }) => name).filter((name) => !names.includes(name)),
    exactMetrics: proxy === 'weights' ? EXACT_METRICS : [...EXACT_METRICS, RAW_METRIC],
  };
}

export async function addPrompt(
  fileTensors: FileTensors,
  prompt: number,
  run: Pick<Run, 'tokens' | 'read'>,
  { fields, smallFields, exactMetrics }: ReturnType<typeof selectFields>,
  isHalf: boolean,
) {
  const addTensor = (name: string, fileTensor: FileTensor) =>
    fileTensors.set(`${prompt}.${name}`, fileTensor);
  addTensor(
    'tokens',
    makeFileTensor({ shape: [run.tokens.length], data: Int32Array.from(run.tokens) }),
  );
  const tensors = await run.read(fields.map((field) => ({ field })));
  fields.forEach((name, i) =>
    addTensor(name, makeFileTensor(tensors[i], isHalf && !SMALL_FIELDS.includes(name))),
  );
  const otherReads = [
    ...smallFields.map((field) => ({ field })),
    ...exactMetrics.map((metric) => ({ metric })),
  ];
  for (const read of otherReads) {
    const [tensor] = await run.read([read]).catch((error) => {
      if (error.code !== 'bad_request') throw error;
      return []; // the run did not record this
    });
    if (!tensor) continue;
    const name = 'field' in read ? read.field : read.metric;
    // No logits predict the first token, so the format omits its loss.
    const { data } = tensor;
    addTensor(
      name,
      makeFileTensor(name === 'loss' ? { shape: [data.length - 1], data: data.slice(1) } : tensor),
    );
  }
}

/**
 * Adds the means and deviations over all prompts. For metrics with a threshold, the
 * thresholds are the first dimension.
 * @param byEps metrics by threshold; metrics without one are in the first entry
 */
export function putMeans(
  fileTensors: FileTensors,
  describe: Describe,
  byEps: readonly Readonly<Record<string, MetricMean>>[],
) {
  for (const [name, { shape }] of Object.entries(byEps[0])) {
    const row = rowNamed(describe.metrics, name, 'metric');
    const hasThreshold = row.arguments.includes('eps');
    const meansByEps = hasThreshold ? byEps.map((metrics) => metrics[name]) : [byEps[0][name]];
    const fullShape = hasThreshold ? [byEps.length, ...shape] : shape;
    const numbersOf = (kind: 'mean' | 'deviation') =>
      Float32Array.from(meansByEps.flatMap((metricMean) => metricMean[kind].map((x) => x ?? NaN)));
    fileTensors.set(`mean.${name}`, makeFileTensor({ shape: fullShape, data: numbersOf('mean') }));
    fileTensors.set(
      `deviation.${name}`,
      makeFileTensor({ shape: fullShape, data: numbersOf('deviation') }),
    );
  }
}

/* ---- conditions --------------------------------------------------------------------------- */

/** Returns the first element of all lists; null if they differ or there is none. */
export function commonFirst<T>(lists: readonly (readonly T[])[]): T | null {
  const first = lists[0]?.[0];
  return first !== undefined && lists.every((list) => list[0] === first) ? first : null;
}

/** Returns the SHA-256 of all prompts' ids as int32, as the Python package computes it. */
export function hashIds(prompts: readonly (readonly number[])[]) {
  const view = new DataView(new ArrayBuffer(4 * prompts.reduce((n, ids) => n + ids.length, 0)));
  prompts.flat().forEach((id, i) => view.setInt32(4 * i, id, true));
  return sha256(new Uint8Array(view.buffer));
}

/** Builds the conditions of a recording, as its metadata stores them. */
export function conditionsOf(
  { architecture, describe }: Recordable,
  options: RecordOptions,
  { ids, firstId = commonFirst(ids), idsSha256, count, T, eps, edits = [] }: RecordedPrompts,
) {
  const { strings = (list: readonly number[]) => list.map(String) } = options;
  const { family, L, blocks, layers, H, G, K, D, V, F, E, mask, windows, attention } = architecture;
  const tokens = ids.map((list, i) => {
    const texts = strings(list);
    checkList(texts, 'text', `strings of prompt ${i}`);
    expect(texts.length === list.length, 'strings', `${list.length} of them`, texts.length);
    return Array.from(texts);
  });
  const sizes = { L, ...(layers && { blocks, layers }), H, G, K, D, V, F, E };
  const implementation = { dtype: 'float32', attention: 'sinkscope' };
  const identity = { id: family, revision: null, sha256: null, ...options.model };
  // An edit that replaces the operation in every head also changes the meaning of the rows.
  const operation = edits.reduce(
    (name, edit) =>
      edit.kind === 'operation' && edit.layer === undefined && edit.head === undefined
        ? String(edit.operation)
        : name,
    attention.operation,
  );
  const first = firstId === null ? null : (strings([firstId])[0] ?? null);
  const firstToken = { token: first, id: firstId, position: 0 };
  return {
    model: { ...identity, family, ...sizes, ...implementation, operation, mask, windows },
    first: { ...firstToken, ...options.first },
    tokens,
    prompts: {
      source: options.source ?? null,
      sha256: idsSha256 ?? null,
      source_sha256: options.sourceSha256 ?? null,
      count,
      kept: ids.length,
      T,
    },
    eps,
    ...(edits.length && {
      edits: edits.map((edit) => ({ ...edit, label: editLabel(edit, describe) })),
    }),
    class: options.class ?? 'MEASURED',
    license: options.license ?? null,
    versions: { sinkscope: describe.version },
    command: options.command ?? null,
  };
}

/* ---- maps of other programs ------------------------------------------------------------------- */

/**
 * Makes a recording from the attention maps of another program, so that `measure` and every metric
 * of maps can read them.
 * @example
 * const { attentions } = await model(inputs); // transformers.js, output_attentions
 * const recording = await engine.openRecording(recordMaps([{ tokens, att: attentions }]));
 * const { metrics } = await measure(recording); // metrics.sink_ratio.mean[0]
 */
export function recordMaps(prompts: readonly Maps[], options: MapsOptions = {}): Bytes {
  checkList(prompts, 'object', 'prompts');
  checkOptions(options, ABOUT_OPTIONS);
  const {
    id = 'maps',
    family = 'unknown',
    operation = 'softmax',
    mask = { kind: 'causal' },
  } = options;
  expect(prompts.length > 0, 'prompts', 'one prompt or more', prompts.length);
  const fileTensors: FileTensors = new Map();
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
    fileTensors.set(`${i}.att`, makeFileTensor({ shape, data }));
  });
  const tokens = prompts.map(({ tokens: strings }, i) => {
    const [, , n] = maps[i].shape;
    const list = strings ?? Array.from({ length: n }, (_, t) => String(t));
    checkList(list, 'text', `prompts[${i}].tokens`);
    expect(list.length === n, `prompts[${i}].tokens`, `${n} of them, as in the maps`, list.length);
    return [...list];
  });
  const sizes = { L, H, G: options.G ?? H, K: 1, D: 1, V: 1 };
  return encode(fileTensors, {
    model: { id, revision: null, sha256: null, family, ...sizes, operation, mask },
    first: { token: commonFirst(tokens), id: null, position: 0 },
    tokens,
    prompts: {
      source: options.source ?? null,
      source_sha256: options.sourceSha256 ?? null,
      count: prompts.length,
      kept: prompts.length,
      T,
    },
    eps: [],
    class: 'MEASURED',
    license: options.license ?? null,
    versions: {},
    command: options.command ?? null,
  });
}

/**
 * Returns maps as one tensor [L, H, T, T]. The maps may be one tensor already, or one per layer; a
 * layer's may also be [1, H, T, T] with `dims`, as in transformers.js and onnxruntime.
 */
function mapsOf(att: unknown, where: string): { shape: number[]; data: Float32Array } {
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
  const layerSize = layers[0].data.length;
  const data = new Float32Array(layerSize * layers.length);
  layers.forEach((layer, l) => data.set(layer.data, l * layerSize));
  return { shape: isOneTensor ? shape : [layers.length, ...shape], data };
}
