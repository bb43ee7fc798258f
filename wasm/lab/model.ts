/** Makes the config.json of the lab's models from a few choices. */
import { check } from '../abi/arguments.ts';
import { expect } from '../abi/errors.ts';

/** Settings of the lab's model by name, with their defaults. */
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

type LabModel = typeof LAB_MODEL;

/** A model with the defaults of these settings is a GPT-2, whatever its operation and sizes. */
const GPT2_KEYS = ['positions', 'norm', 'norm_place', 'feed_forward', 'bias_key', 'gate'] as const;

/** Makes a GPT-2's config.json, or a llama's with the differences from it under `sinkscope`. */
export function labConfig(choices: Partial<typeof LAB_MODEL> = {}): object {
  check(choices, 'object', 'choices');
  for (const name of Object.keys(choices))
    expect(name in LAB_MODEL, name, `one of ${Object.keys(LAB_MODEL).join(', ')}`, name);
  for (const [name, choice] of Object.entries(choices))
    check(choice, typeof LAB_MODEL[name as keyof LabModel] === 'number' ? 'number' : 'text', name);
  const settings = { ...LAB_MODEL, ...choices };
  const isGpt2 = GPT2_KEYS.every((name) => settings[name] === LAB_MODEL[name]);
  const config = isGpt2 ? gpt2Config(settings) : llamaConfig(settings);
  const attention =
    settings.operation === 'softmax' ? {} : { attention: { operation: settings.operation } };
  const variant = { ...attention, ...(isGpt2 ? {} : llamaVariant(settings)) };
  return { ...config, ...(Object.keys(variant).length ? { sinkscope: variant } : {}) };
}

function gpt2Config(settings: LabModel) {
  return {
    architectures: ['GPT2LMHeadModel'],
    model_type: 'gpt2',
    n_layer: settings.layers,
    n_head: settings.heads,
    n_embd: settings.width,
    n_inner: settings.inner,
    vocab_size: settings.vocabulary,
    n_positions: settings.context,
    layer_norm_epsilon: 1e-5,
    activation_function: settings.activation,
    tie_word_embeddings: false,
    bos_token_id: 0,
    eos_token_id: null,
    torch_dtype: 'float32',
  };
}

function llamaConfig(settings: LabModel) {
  const hasBiases = settings.feed_forward === 'plain';
  return {
    architectures: ['LlamaForCausalLM'],
    model_type: 'llama',
    num_hidden_layers: settings.layers,
    num_attention_heads: settings.heads,
    num_key_value_heads: settings.heads,
    hidden_size: settings.width,
    head_dim: Math.floor(settings.width / settings.heads),
    intermediate_size: settings.inner,
    vocab_size: settings.vocabulary,
    max_position_embeddings: settings.context,
    rms_norm_eps: 1e-5,
    rope_theta: 10000,
    hidden_act: settings.activation,
    attention_bias: hasBiases,
    mlp_bias: hasBiases,
    tie_word_embeddings: false,
    bos_token_id: 0,
    eos_token_id: null,
    torch_dtype: 'float32',
  };
}

function llamaVariant(settings: LabModel) {
  return {
    ...(settings.positions === 'rotary' ? {} : { positions: settings.positions }),
    ...(settings.norm === 'rms' ? {} : { norm_kind: settings.norm }),
    ...(settings.norm_place === 'pre' ? {} : { norm: settings.norm_place }),
    ...(settings.feed_forward === 'gated' ? {} : { feed_forward: settings.feed_forward }),
    ...(settings.bias_key === 'none' ? {} : { bias_key: settings.bias_key }),
    ...(settings.gate === 'none' ? {} : { gate: settings.gate }),
  };
}
