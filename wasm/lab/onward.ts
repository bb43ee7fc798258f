/** Prepares fine-tuning on a text, with another attention operation, a bias key or a gate. */
import { check } from '../abi/arguments.ts';
import { expect, argumentError } from '../abi/errors.ts';
import type { TrainOptions } from './types.ts';

type Config = {
  quantization_config?: unknown;
  sinkscope?: object;
  bos_token_id?: number | null;
  n_positions?: number;
  max_position_embeddings?: number;
};

const CHANGEABLE_SETTINGS = ['operation', 'bias_key', 'gate'];

const DEFAULT_RECIPE = {
  task: 'text',
  steps: 100,
  batch: 8,
  length: 64,
  learning_rate: 0.001,
  weight_decay: 1,
  embedding_decay: 0.1,
};

/**
 * Makes the config and recipe for fine-tuning a trained model: its config.json with another
 * operation, bias key or gate, and a recipe, by default 100 steps of 8 sequences of 64 tokens after
 * the model's own first token. Pass the model's weights as TrainOptions.begin; `train` draws the
 * weights that the model lacks, such as those of a gate, from the seed.
 */
export function labOnward(
  trainedConfig: object,
  changes: { readonly operation?: string; readonly bias_key?: string; readonly gate?: string } = {},
  recipe: Readonly<Record<string, number | string>> = {},
): Required<Pick<TrainOptions, 'config' | 'recipe'>> {
  check(trainedConfig, 'object', 'config');
  check(changes, 'object', 'changes');
  for (const [name, choice] of Object.entries(changes)) {
    if (!CHANGEABLE_SETTINGS.includes(name))
      throw argumentError(
        name,
        `one of ${CHANGEABLE_SETTINGS.join(', ')} of a trained model`,
        name,
      );
    check(choice, 'text', name);
  }
  // The fine-tuned weights are floats, not 8-bit integers.
  const { quantization_config: _, ...config } = trainedConfig as Config;
  const { operation, ...others } = changes;
  const extension = config.sinkscope ?? {};
  const {
    bos_token_id: bos = null,
    n_positions,
    max_position_embeddings: context = n_positions,
  } = config;
  expect(bos === null || Number.isInteger(bos), 'bos_token_id', 'an id', bos);
  expect(context === undefined || Number.isInteger(context), 'n_positions', 'a length', context);
  return {
    config: {
      ...config,
      torch_dtype: 'float32',
      sinkscope: { ...extension, ...(operation ? { attention: { operation } } : {}), ...others },
    },
    recipe: {
      ...DEFAULT_RECIPE,
      length: Math.min(DEFAULT_RECIPE.length, context ?? Infinity),
      first: bos ?? -1,
      ...recipe,
    },
  };
}
