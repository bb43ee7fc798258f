/** Makes one GGUF file of a model of the zoo, as converters write a llama: the same numbers under other names. */
import { readFile } from 'node:fs/promises';
import { F32, I32, STRING, U32, entry, ggufHeader, string, u32, u64 } from '../gguf.mjs';
import { root } from './stage.mjs';

const ALIGNMENT = 32;
const TENSOR_TYPES = { F32: 0, F16: 1 };
const NORMAL = 1;
const CONTROL = 3;

const NAMES = [
  [/^model\.embed_tokens\./, 'token_embd.'],
  [/^model\.norm\./, 'output_norm.'],
  [/^lm_head\./, 'output.'],
  [/^model\.layers\.(\d+)\./, 'blk.$1.'],
  [/self_attn\.([qkv])_proj/, 'attn_$1'],
  [/self_attn\.o_proj/, 'attn_output'],
  [/mlp\.(gate|up|down)_proj/, 'ffn_$1'],
  [/input_layernorm/, 'attn_norm'],
  [/post_attention_layernorm/, 'ffn_norm'],
];

/** Reorders the rows of a rotary matrix, so that the rows j and K/2 + j of a pair are adjacent. */
function pairRows(bytes, [rows], heads) {
  const width = bytes.length / rows;
  const K = rows / heads;
  const sourceRow = (row) => {
    const [head, place] = [Math.floor(row / K), row % K];
    return head * K + (place % 2) * (K / 2) + Math.floor(place / 2);
  };
  const offsets = Array.from({ length: rows }, (_, row) => sourceRow(row) * width);
  return Buffer.concat(offsets.map((offset) => bytes.subarray(offset, offset + width)));
}

function tensorsOf(file, heads) {
  const start = 8 + Number(file.readBigUInt64LE(0));
  const { __metadata__, ...header } = JSON.parse(file.subarray(8, start).toString());
  return Object.entries(header).map(([fullName, { dtype, shape, data_offsets: at }]) => {
    const bytes = file.subarray(start + at[0], start + at[1]);
    const name = NAMES.reduce(
      (text, [pattern, replacement]) => text.replace(pattern, replacement),
      fullName,
    );
    const isPaired = /attn_[qk]\./.test(name);
    return { name, dtype, shape, bytes: isPaired ? pairRows(bytes, shape, heads) : bytes };
  });
}

function metadata(config, { model, added_tokens }) {
  const tokens = Object.entries(model.vocab)
    .sort(([, a], [, b]) => a - b)
    .map(([token]) => token);
  const special = new Set(added_tokens.map(({ id }) => id));
  const merges = model.merges.map((merge) => (Array.isArray(merge) ? merge.join(' ') : merge));
  return [
    entry('general.architecture', STRING, 'llama'),
    entry('llama.block_count', U32, config.num_hidden_layers),
    entry('llama.context_length', U32, config.max_position_embeddings),
    entry('llama.embedding_length', U32, config.hidden_size),
    entry('llama.feed_forward_length', U32, config.intermediate_size),
    entry('llama.attention.head_count', U32, config.num_attention_heads),
    entry('llama.attention.head_count_kv', U32, config.num_key_value_heads),
    entry('llama.attention.layer_norm_rms_epsilon', F32, config.rms_norm_eps),
    entry('llama.rope.freq_base', F32, config.rope_theta),
    entry('tokenizer.ggml.model', STRING, 'gpt2'),
    entry('tokenizer.ggml.pre', STRING, 'gpt-2'),
    entry('tokenizer.ggml.tokens', STRING, tokens),
    entry(
      'tokenizer.ggml.token_type',
      I32,
      tokens.map((_, id) => (special.has(id) ? CONTROL : NORMAL)),
    ),
    entry('tokenizer.ggml.merges', STRING, merges),
    entry('tokenizer.ggml.bos_token_id', U32, config.bos_token_id),
    entry('tokenizer.ggml.eos_token_id', U32, config.eos_token_id),
  ];
}

function padToAlignment(bytes) {
  return Buffer.concat([bytes, Buffer.alloc((ALIGNMENT - (bytes.length % ALIGNMENT)) % ALIGNMENT)]);
}

/**
 * Returns the GGUF file of a model.
 * @param {string} name name of a softmax model of the zoo
 */
export async function ggufOfZoo(name) {
  const read = (file) => readFile(`${root}models/zoo/${name}/${file}`);
  const config = JSON.parse(await read('config.json'));
  const entries = metadata(config, JSON.parse(await read('tokenizer.json')));
  const tensors = tensorsOf(await read('model.safetensors'), config.num_attention_heads);
  let offset = 0;
  const infos = tensors.map(({ name: text, dtype, shape, bytes }) => {
    const dims = [...shape].reverse().map(u64);
    const start = u64(offset);
    offset += Math.ceil(bytes.length / ALIGNMENT) * ALIGNMENT;
    const head = [string(text), u32(shape.length), ...dims, u32(TENSOR_TYPES[dtype]), start];
    return Buffer.concat(head);
  });
  const header = Buffer.concat([ggufHeader(entries, tensors.length), ...infos]);
  return Buffer.concat([
    padToAlignment(header),
    ...tensors.map(({ bytes }) => padToAlignment(bytes)),
  ]);
}
