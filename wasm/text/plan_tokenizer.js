/** Opens the tokenizer of a plan from the files that hold it. */
import { check, checkOptions, checkPlan } from '../abi/arguments.js';
import { ACCESS, planText } from '../loading/plan.js';
import { guardTokenizer } from './guard.js';
import { idTokenizer } from './ids.js';

/** @typedef {import('../loading/loading.js').Plan} Plan */
/** @typedef {import('../loading/loading.js').PlanFile} PlanFile */

/** Metadata keys of a GGUF file that define its tokenizer. */
const GGUF_KEYS = [
  'general.architecture',
  ...[
    'model',
    'pre',
    'tokens',
    'scores',
    'token_type',
    'merges',
    'bos_token_id',
    'eos_token_id',
    'unknown_token_id',
    'padding_token_id',
    'add_bos_token',
    'add_eos_token',
    'add_space_prefix',
  ].map((name) => `tokenizer.ggml.${name}`),
];

/** @type {typeof import('../sinkscope.js').planTokenizer} */
export async function planTokenizer(plan, model, options = {}) {
  checkPlan(plan);
  if (plan.format === 'gguf') check(model, 'object', 'model');
  checkOptions(options, { ...ACCESS, signal: 'signal', limit: 'count' });
  const source = await sourceOf(plan, model, options);
  return source ? guardTokenizer(source, options) : idTokenizer();
}

/**
 * Reads the files of a tokenizer; undefined if the plan has none.
 * @param {Plan} plan
 * @param {Parameters<typeof planTokenizer>[1]} model
 * @param {NonNullable<Parameters<typeof planTokenizer>[2]>} options
 * @returns {Promise<import('./text.js').TokenizerSource | undefined>}
 */
async function sourceOf(plan, model, options) {
  if (plan.format === 'gguf') {
    const gguf = new Map();
    for (const key of GGUF_KEYS) gguf.set(key, await model.metadata(key));
    return { gguf };
  }
  const { tokenizer, words, vocab, merges } = plan.files;
  const read = (/** @type {PlanFile} */ file) => planText(plan, file, options);
  const readIf = async (/** @type {PlanFile | undefined} */ file) => file && read(file);
  const config = await readIf(plan.files.tokenizer_config);
  if (tokenizer) return { tokenizer: await read(tokenizer), config };
  if (words) return { words: await read(words), config };
  if (vocab && merges) {
    const special_tokens_map = await readIf(plan.files.special_tokens_map);
    return { vocab: await read(vocab), merges: await read(merges), config, special_tokens_map };
  }
  return undefined;
}
