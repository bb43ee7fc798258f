/**
 * The same weights as an ONNX model: GPT-2 as its paper draws it, with all attention maps as outputs.
 * Inputs: ids [T], positions [T], mask [T, T] that is added to scores, rows [n] whose logits are asked for.
 */
import { Bytes, SHAPES, layOut } from './gguf.mjs';

const text = (string) => new TextEncoder().encode(string);

/** A protobuf message while it is put together: pieces and their length. */
class Message extends Bytes {
  varint(n) {
    const out = [];
    for (let left = BigInt.asUintN(64, BigInt(n)); ; left >>= 7n) {
      if (left < 128n) return this.bytes(Uint8Array.of(...out, Number(left)));
      out.push(Number(left & 127n) | 128);
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
    const whole = typeof content === 'string' ? text(content) : content;
    this.varint((field << 3) | 2).varint(whole.length);
    for (const part of whole.parts ?? [whole]) this.bytes(part);
    return this;
  }
  whole() {
    return this.into(new Uint8Array(this.length));
  }
}

const FLOAT = 1;
const INT64 = 7;

function attribute(name, value) {
  const made = new Message().put(1, name);
  if (typeof value === 'string') return made.put(4, value).number(20, 3);
  if (Array.isArray(value)) {
    for (const one of value) made.number(8, one);
    return made.number(20, 7);
  }
  return Number.isInteger(value)
    ? made.number(3, value).number(20, 2)
    : made.float(2, value).number(20, 1);
}

function tensor(name, dims, type, bytes) {
  const made = new Message();
  for (const dim of dims) made.number(1, dim);
  return made.number(2, type).put(8, name).put(9, bytes);
}

/** An input or output; sizes that are words are free. */
function value(name, type, dims) {
  const shape = new Message();
  for (const dim of dims) {
    const one = new Message();
    shape.put(1, typeof dim === 'string' ? one.put(2, dim) : one.number(1, dim));
  }
  const of = new Message().number(1, type).put(2, shape);
  return new Message().put(1, name).put(2, new Message().put(1, of));
}

/** @param {Uint8Array} content what randomFile('gpt2', 'f32') gave */
export function onnxFile(content) {
  const { D, L, V, H } = SHAPES.gpt2.sizes;
  const eps = SHAPES.gpt2.keys['attention.layer_norm_epsilon'];
  const graph = new Message();
  let made = 0;
  const node = (type, inputs, attributes = {}, outputs = [`n${made++}`]) => {
    const one = new Message();
    for (const name of inputs) one.put(1, name);
    for (const name of outputs) one.put(2, name);
    one.put(4, type);
    for (const [name, x] of Object.entries(attributes)) one.put(5, attribute(name, x));
    graph.put(1, one);
    return outputs[0];
  };
  const norm = (x, name) =>
    node('LayerNormalization', [x, `${name}.weight`, `${name}.bias`], { axis: -1, epsilon: eps });
  const linear = (x, name) => node('Gemm', [x, `${name}.weight`, `${name}.bias`], { transB: 1 });

  let x = node('Add', [
    node('Gather', ['token_embd.weight', 'ids']),
    node('Gather', ['position_embd.weight', 'positions']),
  ]);
  for (let l = 0; l < L; l++) {
    const at = (name) => `blk.${l}.${name}`;
    const three = [`q${l}`, `k${l}`, `v${l}`];
    node(
      'Split',
      [linear(norm(x, at('attn_norm')), at('attn_qkv'))],
      { axis: 1, num_outputs: 3 },
      three,
    );
    const [q, k, v] = three.map((name, i) =>
      node('Transpose', [node('Reshape', [name, 'heads'])], {
        perm: i === 1 ? [1, 2, 0] : [1, 0, 2],
      }),
    );
    const scores = node('Mul', [node('MatMul', [q, k]), 'scale']);
    const att = node('Softmax', [node('Add', [scores, 'mask'])], { axis: -1 }, [`att${l}`]);
    const mixed = node('Transpose', [node('MatMul', [att, v])], { perm: [1, 0, 2] });
    x = node('Add', [x, linear(node('Reshape', [mixed, 'joined']), at('attn_output'))]);
    const up = linear(norm(x, at('ffn_norm')), at('ffn_up'));
    x = node('Add', [x, linear(node('Gelu', [up], { approximate: 'tanh' }), at('ffn_down'))]);
  }
  const asked = node('Gather', [norm(x, 'output_norm'), 'rows']);
  node('Gemm', [asked, 'token_embd.weight'], { transB: 1 }, ['logits']);

  graph.put(2, 'gpt2');
  const { start, list } = layOut('gpt2', 'f32');
  for (const { tensor: name, dims, bytes, offset } of list) {
    const numbers = content.subarray(start + offset, start + offset + bytes);
    graph.put(5, tensor(name, [...dims].reverse(), FLOAT, numbers));
  }
  const whole = (...numbers) => new Uint8Array(BigInt64Array.from(numbers.map(BigInt)).buffer);
  graph.put(5, tensor('heads', [3], INT64, whole(0, H, D / H)));
  graph.put(5, tensor('joined', [2], INT64, whole(0, D)));
  const scale = new Uint8Array(Float32Array.of(1 / Math.sqrt(D / H)).buffer);
  graph.put(5, tensor('scale', [], FLOAT, scale));
  for (const name of ['ids', 'positions', 'rows'])
    graph.put(11, value(name, INT64, [name === 'rows' ? 'n' : 'T']));
  graph.put(11, value('mask', FLOAT, ['T', 'T']));
  graph.put(12, value('logits', FLOAT, ['n', V]));
  for (let l = 0; l < L; l++) graph.put(12, value(`att${l}`, FLOAT, [H, 'T', 'T']));
  const model = new Message().number(1, 9).put(7, graph);
  return model.put(8, new Message().put(1, '').number(2, 20)).whole();
}
