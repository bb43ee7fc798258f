/**
 * Makes GGUF files of random weights, in the shapes of published models; our engine and llama.cpp read them. The numbers
 * have the spread of a fresh model's, so that activations stay finite; speed does not depend on them.
 */

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
  keys: ({ D, V, H, G }) => ({
    'attention.layer_norm_rms_epsilon': EPSILON,
    'rope.freq_base': ROPE_BASE,
    'attention.head_count_kv': { u32: G },
    'rope.dimension_count': { u32: D / H },
    vocab_size: { u32: V },
  }),
};

export const SHAPES = {
  gpt2: {
    architecture: 'gpt2',
    sizes: { D: 768, L: 12, V: 50257, H: 12, G: 12, F: 3072, context: 1024 },
    tensors: gpt2,
    keys: () => ({ 'attention.layer_norm_epsilon': EPSILON }),
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

export class Bytes {
  parts = [];
  length = 0;
  bytes(bytes) {
    this.parts.push(bytes);
    this.length += bytes.length;
    return this;
  }
  into(file) {
    let position = 0;
    for (const part of this.parts) {
      file.set(part, position);
      position += part.length;
    }
    return file;
  }
}

class Writer extends Bytes {
  number(setter, size, value) {
    const view = new DataView(new ArrayBuffer(size));
    view[setter](0, value, true);
    this.bytes(new Uint8Array(view.buffer));
  }
  u32(value) {
    this.number('setUint32', 4, value);
  }
  u64(value) {
    this.number('setBigUint64', 8, BigInt(value));
  }
  text(text) {
    const bytes = new TextEncoder().encode(text);
    this.u64(bytes.length);
    this.bytes(bytes);
  }
  key(key, value) {
    this.text(key);
    if (typeof value === 'string') {
      this.u32(8);
      this.text(value);
    } else if (typeof value === 'number') {
      this.u32(6);
      this.number('setFloat32', 4, value);
    } else if (typeof value === 'boolean') {
      this.u32(7);
      this.bytes(Uint8Array.of(value ? 1 : 0));
    } else if (value instanceof Float32Array) {
      this.u32(9);
      this.u32(6);
      this.u64(value.length);
      this.bytes(new Uint8Array(value.buffer));
    } else if (Array.isArray(value)) {
      this.u32(9);
      this.u32(typeof value[0] === 'string' ? 8 : 5);
      this.u64(value.length);
      for (const item of value) typeof item === 'string' ? this.text(item) : this.u32(item);
    } else {
      this.u32(4);
      this.u32(value.u32);
    }
  }
}

/**
 * Returns the text of token i, one character: llama.cpp reads only texts, and its tokenizer maps the characters back to
 * ids.
 */
export const wordOf = (i) => String.fromCodePoint(0x20000 + i);

function vocabulary(V) {
  return {
    'tokenizer.ggml.model': 'llama',
    'tokenizer.ggml.tokens': Array.from({ length: V }, (_, i) => wordOf(i)),
    'tokenizer.ggml.token_type': Array.from({ length: V }, () => 1),
    'tokenizer.ggml.scores': new Float32Array(V),
    'tokenizer.ggml.bos_token_id': { u32: 0 },
    'tokenizer.ggml.eos_token_id': { u32: 0 },
    'tokenizer.ggml.unknown_token_id': { u32: 0 },
    'tokenizer.ggml.add_bos_token': false,
    'tokenizer.ggml.add_space_prefix': false,
  };
}

function metadata(name) {
  const { sizes, keys, architecture } = SHAPES[name];
  const modelMetadata = {
    ...{ context_length: { u32: sizes.context }, embedding_length: { u32: sizes.D } },
    ...{ feed_forward_length: { u32: sizes.F }, block_count: { u32: sizes.L } },
    ...{ 'attention.head_count': { u32: sizes.H }, ...keys(sizes) },
  };
  return {
    'general.architecture': architecture,
    ...Object.fromEntries(
      Object.entries(modelMetadata).map(([key, v]) => [`${architecture}.${key}`, v]),
    ),
    ...vocabulary(sizes.V),
  };
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
  const pairs = Object.entries(metadata(name));
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
  const head = new Writer();
  head.bytes(new TextEncoder().encode('GGUF'));
  head.u32(3);
  head.u64(list.length);
  head.u64(pairs.length);
  for (const [key, value] of pairs) head.key(key, value);
  let offset = 0;
  for (const entry of list) {
    head.text(entry.tensor);
    head.u32(entry.dims.length);
    for (const dim of entry.dims) head.u64(dim);
    head.u32(TYPES[entry.tensorType][0]);
    head.u64(offset);
    entry.offset = offset;
    offset += Math.ceil(entry.bytes / 32) * 32;
  }
  const start = Math.ceil(head.length / 32) * 32;
  for (const entry of list) entry.at = start + entry.offset;
  return { head, list, bytes: start + offset };
}

export function randomFile(name, type) {
  const { head, list, bytes } = layOut(name, type);
  const file = head.into(new Uint8Array(bytes));
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
