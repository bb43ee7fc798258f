/** The lab's models: a config.json out of a few choices. */
import { check } from '../abi/arguments.js';
import { expect } from '../abi/errors.js';

/** The choices of a lab's model by name, with their defaults. */
export const LAB_MODEL = {
  operation: 'softmax',
  layers: 1,
  heads: 1,
  width: 64,
  inner: 256,
  vocabulary: 64,
  context: 32,
  positions: 'learned',
  norm: 'layer',
  norm_place: 'pre',
  feed_forward: 'plain',
  activation: 'gelu_new',
  bias_key: 'none',
  gate: 'none',
};

/** @typedef {typeof LAB_MODEL} LabModel */

/** Choices with which it is a GPT-2, beside its operation and sizes. */
const GPT2 = {
  positions: 'learned',
  norm: 'layer',
  norm_place: 'pre',
  feed_forward: 'plain',
  bias_key: 'none',
  gate: 'none',
};

/**
 * A GPT-2 where the choices are one's, else a llama, with the keys of a variant where it is none.
 * @param {Partial<LabModel>} [choices]
 */
export function labConfig(choices = {}) {
  check(choices, 'object', 'choices');
  for (const name of Object.keys(choices))
    expect(name in LAB_MODEL, name, `one of ${Object.keys(LAB_MODEL).join(', ')}`, name);
  for (const [name, choice] of Object.entries(choices))
    check(
      choice,
      typeof LAB_MODEL[/** @type {keyof LabModel} */ (name)] === 'number' ? 'number' : 'text',
      name,
    );
  const own = { ...LAB_MODEL, ...choices };
  const isGpt2 = Object.entries(GPT2).every(
    ([name, is]) => own[/** @type {keyof LabModel} */ (name)] === is,
  );
  const config = isGpt2 ? gpt2(own) : llama(own);
  const attention = own.operation === 'softmax' ? {} : { attention: { operation: own.operation } };
  const variant = { ...attention, ...(isGpt2 ? {} : variantOf(own)) };
  return { ...config, ...(Object.keys(variant).length ? { sinkscope: variant } : {}) };
}

/** @param {LabModel} own */
function gpt2(own) {
  return {
    architectures: ['GPT2LMHeadModel'],
    model_type: 'gpt2',
    n_layer: own.layers,
    n_head: own.heads,
    n_embd: own.width,
    n_inner: own.inner,
    vocab_size: own.vocabulary,
    n_positions: own.context,
    layer_norm_epsilon: 1e-5,
    activation_function: own.activation,
    tie_word_embeddings: false,
    bos_token_id: 0,
    eos_token_id: null,
    torch_dtype: 'float32',
  };
}

/**
 * With biases where GPT-2 has them, as long as its feed-forward is like GPT-2's.
 * @param {LabModel} own
 */
function llama(own) {
  const biases = own.feed_forward === 'plain';
  return {
    architectures: ['LlamaForCausalLM'],
    model_type: 'llama',
    num_hidden_layers: own.layers,
    num_attention_heads: own.heads,
    num_key_value_heads: own.heads,
    hidden_size: own.width,
    head_dim: Math.floor(own.width / own.heads),
    intermediate_size: own.inner,
    vocab_size: own.vocabulary,
    max_position_embeddings: own.context,
    rms_norm_eps: 1e-5,
    rope_theta: 10000,
    hidden_act: own.activation,
    attention_bias: biases,
    mlp_bias: biases,
    tie_word_embeddings: false,
    bos_token_id: 0,
    eos_token_id: null,
    torch_dtype: 'float32',
  };
}

/**
 * What is not a llama's own.
 * @param {LabModel} own
 */
function variantOf(own) {
  return {
    ...(own.positions === 'rotary' ? {} : { positions: own.positions }),
    ...(own.norm === 'rms' ? {} : { norm_kind: own.norm }),
    ...(own.norm_place === 'pre' ? {} : { norm: own.norm_place }),
    ...(own.feed_forward === 'gated' ? {} : { feed_forward: own.feed_forward }),
    ...(own.bias_key === 'none' ? {} : { bias_key: own.bias_key }),
    ...(own.gate === 'none' ? {} : { gate: own.gate }),
  };
}
