/**
 * Converts a file of random weights to an ONNX model in 32 bits.
 *
 * Inputs: ids [T], positions [T], mask [T, P + T] that is added to scores, rows [n] whose logits are computed, and
 * the keys k0.. and values v0.. [G, P, K] of the P earlier tokens. Outputs: logits [n, V], maps att0.. [G, H / G, T, P + T],
 * and keys and values of all P + T tokens, new_k0.., new_v0...
 */
import { concat } from '../../gguf.mjs';
import { EPSILON, ROPE_BASE, SHAPES, layOut, numbers } from './gguf.mjs';

const text = (string) => new TextEncoder().encode(string);

class Message {
  parts = [];
  length = 0;
  bytes(bytes) {
    this.parts.push(bytes);
    this.length += bytes.length;
    return this;
  }
  varint(n) {
    const out = [];
    for (let rest = BigInt.asUintN(64, BigInt(n)); ; rest >>= 7n) {
      if (rest < 128n) return this.bytes(Uint8Array.of(...out, Number(rest)));
      out.push(Number(rest & 127n) | 128);
    }
  }
  number(field, n) {
    return this.varint(field << 3).varint(n);
  }
  float(field, x) {
    return this.varint((field << 3) | 5).bytes(new Uint8Array(Float32Array.of(x).buffer));
  }
  /** @param {Message | Uint8Array | string} content */
  put(field, content) {
    const bytes = typeof content === 'string' ? text(content) : content;
    this.varint((field << 3) | 2).varint(bytes.length);
    for (const part of bytes.parts ?? [bytes]) this.bytes(part);
    return this;
  }
  whole() {
    return concat(this.parts);
  }
}

const FLOAT = 1;
const INT64 = 7;

function attribute(name, value) {
  const message = new Message().put(1, name);
  if (typeof value === 'string') return message.put(4, value).number(20, 3);
  if (Array.isArray(value)) {
    for (const item of value) message.number(8, item);
    return message.number(20, 7);
  }
  return Number.isInteger(value)
    ? message.number(3, value).number(20, 2)
    : message.float(2, value).number(20, 1);
}

function tensor(name, dims, type, bytes) {
  const message = new Message();
  for (const dim of dims) message.number(1, dim);
  return message.number(2, type).put(8, name).put(9, bytes);
}

/** Describes an input or output. A string in `dims` names a size that varies. */
function value(name, type, dims) {
  const shape = new Message();
  for (const dim of dims) {
    const dimMessage = new Message();
    shape.put(1, typeof dim === 'string' ? dimMessage.put(2, dim) : dimMessage.number(1, dim));
  }
  const typeMessage = new Message().number(1, type).put(2, shape);
  return new Message().put(1, name).put(2, new Message().put(1, typeMessage));
}

const bytesOf = (numbers) => new Uint8Array(numbers.buffer, numbers.byteOffset, numbers.byteLength);
const int64Bytes = (...numbers) => bytesOf(BigInt64Array.from(numbers, BigInt));

/**
 * Makes the ONNX file.
 * @param {Uint8Array} content result of randomFile(shape, type)
 */
export function onnxFile(content, shape, type) {
  const { architecture, sizes } = SHAPES[shape];
  const { D, L, V, H, G, context } = sizes;
  const K = D / H;
  const isLlama = architecture === 'llama';
  const places = Object.fromEntries(layOut(shape, type).list.map((entry) => [entry.tensor, entry]));
  const graph = new Message();
  const keptNames = new Set();
  const keep = (name, dims, type, bytes) => {
    if (!keptNames.has(name)) graph.put(5, tensor(name, dims, type, bytes));
    keptNames.add(name);
    return name;
  };
  const floats = (name) => {
    const { dims } = places[name];
    return keep(name, [...dims].reverse(), FLOAT, bytesOf(numbers(content, places[name])));
  };
  let nodeCount = 0;
  const node = (type, inputs, attributes = {}, { outputs = [`n${nodeCount++}`], domain } = {}) => {
    const message = new Message();
    for (const name of inputs) message.put(1, name);
    for (const name of outputs) message.put(2, name);
    message.put(4, type);
    for (const [name, x] of Object.entries(attributes)) message.put(5, attribute(name, x));
    if (domain) message.put(7, domain);
    graph.put(1, message);
    return outputs.length > 1 ? outputs : outputs[0];
  };
  const norm = (x, name) =>
    isLlama
      ? node('SimplifiedLayerNormalization', [x, floats(`${name}.weight`)], {
          ...{ axis: -1, epsilon: EPSILON },
        })
      : node('LayerNormalization', [x, floats(`${name}.weight`), floats(`${name}.bias`)], {
          ...{ axis: -1, epsilon: EPSILON },
        });

  const linear = (x, name) => {
    const bias = places[`${name}.bias`] && floats(`${name}.bias`);
    return node('Gemm', [x, floats(`${name}.weight`), ...(bias ? [bias] : [])], { transB: 1 });
  };

  if (isLlama) {
    const angle = (i) => Math.floor(i / (K / 2)) * ROPE_BASE ** ((-2 * (i % (K / 2))) / K);
    for (const name of ['cos', 'sin']) {
      const table = Float32Array.from({ length: (context * K) / 2 }, (_, i) =>
        Math[name](angle(i)),
      );
      keep(name, [context, K / 2], FLOAT, bytesOf(table));
    }
  }
  const shapes = {
    heads: [0, -1, K],
    'of a group': [G, H / G, -1, K],
    'of heads': [H, -1, K],
    joined: [0, D],
  };
  for (const [name, dims] of Object.entries(shapes))
    keep(name, [dims.length], INT64, int64Bytes(...dims));
  for (const axis of [0, 1]) keep(`axis ${axis}`, [1], INT64, int64Bytes(axis));
  keep('scale', [], FLOAT, bytesOf(Float32Array.of(1 / Math.sqrt(K))));

  const reshape = (x, as) => node('Reshape', [x, as]);
  const transpose = (x, ...perm) => node('Transpose', [x], { perm });
  const place = isLlama && node('Unsqueeze', ['positions', 'axis 0']);
  const rotate = (x) => {
    if (!isLlama) return x;
    const batch = node('Unsqueeze', [x, 'axis 0']);
    const transposed = node(
      'RotaryEmbedding',
      [batch, place, 'cos', 'sin'],
      { interleaved: 1 },
      {
        domain: 'com.microsoft',
      },
    );
    return node('Squeeze', [transposed, 'axis 0']);
  };
  const grown = (name, x) => node('Concat', [name, x], { axis: 1 }, { outputs: [`new_${name}`] });

  let x = node('Gather', [floats('token_embd.weight'), 'ids']);
  if (!isLlama) x = node('Add', [x, node('Gather', [floats('position_embd.weight'), 'positions'])]);
  for (let l = 0; l < L; l++) {
    const weightName = (name) => `blk.${l}.${name}`;
    const h = norm(x, weightName('attn_norm'));
    const three = isLlama
      ? ['q', 'k', 'v'].map((part) => linear(h, weightName(`attn_${part}`)))
      : node(
          'Split',
          [linear(h, weightName('attn_qkv'))],
          { axis: 1, num_outputs: 3 },
          {
            outputs: ['q', 'k', 'v'].map((part) => `${part}_${l}`),
          },
        );
    const [q, k, v] = three.map((part) => transpose(reshape(part, 'heads'), 1, 0, 2));
    const keys = transpose(node('Unsqueeze', [grown(`k${l}`, rotate(k)), 'axis 1']), 0, 1, 3, 2);
    const values = node('Unsqueeze', [grown(`v${l}`, v), 'axis 1']);
    const scores = node('MatMul', [reshape(rotate(q), 'of a group'), keys]);
    const masked = node('Add', [node('Mul', [scores, 'scale']), 'mask']);
    const att = node('Softmax', [masked], { axis: -1 }, { outputs: [`att${l}`] });
    const mixed = transpose(reshape(node('MatMul', [att, values]), 'of heads'), 1, 0, 2);
    x = node('Add', [x, linear(reshape(mixed, 'joined'), weightName('attn_output'))]);
    const ffnInput = norm(x, weightName('ffn_norm'));
    const up = linear(ffnInput, weightName('ffn_up'));
    let active;
    if (isLlama) {
      const gate = linear(ffnInput, weightName('ffn_gate'));
      active = node('Mul', [node('Mul', [gate, node('Sigmoid', [gate])]), up]);
    } else active = node('Gelu', [up], { approximate: 'tanh' });
    x = node('Add', [x, linear(active, weightName('ffn_down'))]);
  }
  const lastStates = node('Gather', [norm(x, 'output_norm'), 'rows']);
  const logits = linear(lastStates, places['output.weight'] ? 'output' : 'token_embd');
  node('Identity', [logits], {}, { outputs: ['logits'] });

  graph.put(2, shape);
  for (const name of ['ids', 'positions', 'rows'])
    graph.put(11, value(name, INT64, [name === 'rows' ? 'n' : 'T']));
  graph.put(11, value('mask', FLOAT, ['T', 'all']));
  graph.put(12, value('logits', FLOAT, ['n', V]));
  for (let l = 0; l < L; l++) {
    graph.put(12, value(`att${l}`, FLOAT, [G, H / G, 'T', 'all']));
    for (const name of [`k${l}`, `v${l}`]) {
      graph.put(11, value(name, FLOAT, [G, 'P', K]));
      graph.put(12, value(`new_${name}`, FLOAT, [G, 'all', K]));
    }
  }
  const model = new Message().number(1, 9).put(7, graph);
  model.put(8, new Message().put(1, '').number(2, 20));
  return model.put(8, new Message().put(1, 'com.microsoft').number(2, 1)).whole();
}
