/** The tokenizer of a plan: whichever of its files hold it. */
import { SinkscopeError } from '../border/errors.js';
import { tokenizerOfGguf } from './gguf_tokenizer.js';
import { planText } from '../supply/plan.js';
import { openTokenizer } from './tokenizer.js';
import { tokenizerOfVocabulary } from './vocabulary.js';

/** What a tokenizer is made of inside a GGUF file. */
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
  const { tokenizer, tokenizer_config, vocab, merges, special_tokens_map } = plan.files;
  const text = async (/** @type {import('../sinkscope.js').PlanFile | undefined} */ file) =>
    file && planText(plan, file, options);
  if (plan.format === 'gguf') {
    const values = new Map();
    for (const key of GGUF_KEYS) values.set(key, await model.metadata(key));
    const { json, config } = tokenizerOfGguf((key) => values.get(key));
    return openTokenizer(json, config);
  }
  const config = (await text(tokenizer_config)) ?? '{}';
  if (tokenizer) return openTokenizer(await planText(plan, tokenizer, options), config);
  if (vocab && merges) {
    const files = [await planText(plan, vocab, options), await planText(plan, merges, options)];
    const made = tokenizerOfVocabulary(files[0], files[1], config, await text(special_tokens_map));
    return openTokenizer(made.json, made.config);
  }
  const wanted = 'expected tokenizer.json, or vocab.json with merges.txt, beside the weights';
  throw new SinkscopeError('bad_tokenizer', plan.id, wanted);
}
