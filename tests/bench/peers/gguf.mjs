/**
 * Makes GGUF files of random weights, in the shapes of published models; our engine and llama.cpp read them. The numbers
 * have the spread of a fresh model's, so that activations stay finite; speed does not depend on them.
 */
import {
  BOOL,
  F32,
  I32,
  STRING,
  U32,
  concat,
  entry,
  ggufHeader,
  string,
  u32,
  u64,
} from '../../gguf.mjs';

/**
 * For each type: its number in GGUF, the numbers in a block, the bytes of a block, and the places of its F16 numbers.
 */
const TYPES = {
  f32: [0, 1, 4, []],
  q8_0: [8, 32, 34, [0]],
  q4_1: [3, 32, 20, [0, 2]],
};

/**
 * Lists the tensors of a GPT-2.
 * @returns [name, sizes from the innermost dimension, whether the tensor is always f32]
 */
function gpt2({ D, L, V, context }) {
  const plain = (name, n) => [name, [n], true];
  const layer = (_, l) => [
    ...['attn_norm.weight', 'attn_norm.bias', 'ffn_norm.weight', 'ffn_norm.bias'].map((name) =>
      plain(`blk.${l}.${name}`, D),
    ),
    [`blk.${l}.attn_qkv.weight`, [D, 3 * D]],
    plain(`blk.${l}.attn_qkv.bias`, 3 * D),
    [`blk.${l}.attn_output.weight`, [D, D]],
    plain(`blk.${l}.attn_output.bias`, D),
    [`blk.${l}.ffn_up.weight`, [D, 4 * D]],
    plain(`blk.${l}.ffn_up.bias`, 4 * D),
    [`blk.${l}.ffn_down.weight`, [4 * D, D]],
    plain(`blk.${l}.ffn_down.bias`, D),
  ];
  return [
    ['token_embd.weight', [D, V]],
    ['position_embd.weight', [D, context], true],
    plain('output_norm.weight', D),
    plain('output_norm.bias', D),
    ...Array.from({ length: L }, layer).flat(),
  ];
}

function llama({ D, L, V, F, width, tied }) {
  const layer = (_, l) => [
    [`blk.${l}.attn_norm.weight`, [D], true],
    [`blk.${l}.ffn_norm.weight`, [D], true],
    [`blk.${l}.attn_q.weight`, [D, D]],
    [`blk.${l}.attn_k.weight`, [D, width]],
    [`blk.${l}.attn_v.weight`, [D, width]],
    [`blk.${l}.attn_output.weight`, [D, D]],
    [`blk.${l}.ffn_gate.weight`, [D, F]],
    [`blk.${l}.ffn_up.weight`, [D, F]],
    [`blk.${l}.ffn_down.weight`, [F, D]],
  ];
  return [
    ['token_embd.weight', [D, V]],
    ['output_norm.weight', [D], true],
    ...(tied ? [] : [['output.weight', [D, V]]]),
    ...Array.from({ length: L }, layer).flat(),
  ];
}

export const EPSILON = 1e-5;
export const ROPE_BASE = 10000;

const LLAMA = {
  architecture: 'llama',
  tensors: llama,
  keys: ({ D, V, H, G }) => [
    ['attention.layer_norm_rms_epsilon', F32, EPSILON],
    ['rope.freq_base', F32, ROPE_BASE],
    ['attention.head_count_kv', U32, G],
    ['rope.dimension_count', U32, D / H],
    ['vocab_size', U32, V],
  ],
};

export const SHAPES = {
  gpt2: {
    architecture: 'gpt2',
    sizes: { D: 768, L: 12, V: 50257, H: 12, G: 12, F: 3072, context: 1024 },
    tensors: gpt2,
    keys: () => [['attention.layer_norm_epsilon', F32, EPSILON]],
  },
  smollm2: {
    sizes: { D: 576, L: 30, V: 49152, H: 9, G: 3, F: 1536, width: 192, context: 2048, tied: true },
    ...LLAMA,
  },
  zoo: {
    sizes: { D: 128, L: 6, V: 1024, H: 4, G: 4, F: 344, width: 128, context: 128 },
    ...LLAMA,
  },
};

/**
 * Returns the text of token i, one character: llama.cpp reads only texts, and its tokenizer maps the characters back to
 * ids.
 */
export const wordOf = (i) => String.fromCodePoint(0x20000 + i);

const vocabulary = (V) => [
  ['tokenizer.ggml.model', STRING, 'llama'],
  ['tokenizer.ggml.tokens', STRING, Array.from({ length: V }, (_, i) => wordOf(i))],
  ['tokenizer.ggml.token_type', I32, new Array(V).fill(1)],
  ['tokenizer.ggml.scores', F32, new Array(V).fill(0)],
  ['tokenizer.ggml.bos_token_id', U32, 0],
  ['tokenizer.ggml.eos_token_id', U32, 0],
  ['tokenizer.ggml.unknown_token_id', U32, 0],
  ['tokenizer.ggml.add_bos_token', BOOL, false],
  ['tokenizer.ggml.add_space_prefix', BOOL, false],
];

function metadata(name) {
  const { sizes, keys, architecture } = SHAPES[name];
  const ofModel = [
    ['context_length', U32, sizes.context],
    ['embedding_length', U32, sizes.D],
    ['feed_forward_length', U32, sizes.F],
    ['block_count', U32, sizes.L],
    ['attention.head_count', U32, sizes.H],
    ...keys(sizes),
  ];
  return [
    ['general.architecture', STRING, architecture],
    ...ofModel.map(([key, ...typed]) => [`${architecture}.${key}`, ...typed]),
    ...vocabulary(sizes.V),
  ].map((pair) => entry(...pair));
}

/** Fills n numbers of a type from `at` on: gains are 1, and weights are uniform in [-0.035, 0.035). */
function fill(file, at, n, type, isGain, random) {
  const [, block, size, halves] = TYPES[type];
  if (type === 'f32') {
    const floats = new Float32Array(file.buffer, at, n);
    for (let i = 0; i < n; i++) floats[i] = isGain ? 1 : ((random() / 2 ** 32) * 2 - 1) * 0.035;
    return;
  }
  const end = at + (n / block) * size;
  for (let i = at; i < end; i++) file[i] = random() >>> 24;
  // The scales are F16 numbers of about 2^-12 for 8 bits and 2^-8 for 4 bits; the minimum of a block makes its mean 0.
  const highBytes = type === 'q8_0' ? [0x0c] : [0x1c, 0xa8];
  for (let i = at; i < end; i += size) {
    halves.forEach((place, j) => {
      file[i + place] = 0x80;
      file[i + place + 1] = highBytes[j];
    });
  }
}

/**
 * Returns the header of a file, the length of the file, and the place of each tensor (`at`).
 * @param {keyof typeof SHAPES} name
 * @param {keyof typeof TYPES} type type of the matrices
 */
export function layOut(name, type) {
  const { sizes, tensors } = SHAPES[name];
  const list = tensors(sizes).map(([tensor, dims, plain]) => {
    const n = dims.reduce((a, b) => a * b, 1);
    const tensorType = plain ? 'f32' : type;
    return {
      tensor,
      dims,
      n,
      tensorType,
      bytes: (n / TYPES[tensorType][1]) * TYPES[tensorType][2],
    };
  });
  let offset = 0;
  const infos = list.map((info) => {
    info.offset = offset;
    offset += Math.ceil(info.bytes / 32) * 32;
    const type = u32(TYPES[info.tensorType][0]);
    return concat([
      ...[string(info.tensor), u32(info.dims.length), ...info.dims.map(u64)],
      ...[type, u64(info.offset)],
    ]);
  });
  const head = concat([ggufHeader(metadata(name), list.length), ...infos]);
  const start = Math.ceil(head.length / 32) * 32;
  for (const info of list) info.at = start + info.offset;
  return { head, list, bytes: start + offset };
}

export function randomFile(name, type) {
  const { head, list, bytes } = layOut(name, type);
  const file = new Uint8Array(bytes);
  file.set(head);
  let seed = 1;
  const random = () => (seed = (Math.imul(seed, 1664525) + 1013904223) >>> 0);
  for (const { tensor, n, tensorType, at } of list)
    fill(file, at, n, tensorType, tensor.endsWith('norm.weight'), random);
  return file;
}

export function numbers(file, { at, n, tensorType }) {
  if (tensorType === 'f32') return new Float32Array(file.buffer, at, n);
  const [, block, size, halves] = TYPES[tensorType];
  const values = new Float32Array(n);
  const bytes = new DataView(file.buffer);
  for (let b = 0; b < n / block; b++) {
    const [d, m = 0] = halves.map((place) => half(bytes.getUint16(at + b * size + place, true)));
    const q = at + b * size + 2 * halves.length;
    for (let i = 0; i < block; i++) {
      const four =
        i < block / 2 ? bytes.getUint8(q + i) & 15 : bytes.getUint8(q + i - block / 2) >> 4;
      values[b * block + i] = tensorType === 'q4_1' ? d * four + m : d * bytes.getInt8(q + i);
    }
  }
  return values;
}

/** Returns the value of a normal F16 number. */
const half = (bits) =>
  (bits & 0x8000 ? -1 : 1) * 2 ** (((bits >> 10) & 31) - 15) * (1 + (bits & 1023) / 1024);
