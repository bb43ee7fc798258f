/** Opens the tokenizer of a plan from the files that hold it. */
import { check, checkOptions } from '../abi/arguments.ts';
import { ACCESS_OPTIONS, checkPlan, planBytes, planText } from '../loading/plan.ts';
import { characterTokenizer, readCharacters } from './characters.ts';
import { guardTokenizer } from './guard.ts';
import { idTokenizer } from './ids.ts';
import type { Model } from '../engine/types.ts';
import type { Plan, PlanFile } from '../loading/types.ts';
import type { GuardedTokenizer, OnBuilt, TokenizerSource } from './types.ts';

/**
 * Opens the tokenizer of a plan in its own worker, from the plan's files or the opened GGUF model.
 * A plan of nanoGPT may have its characters instead (meta.pkl).
 * For a plan without a tokenizer, texts are lists of ids: `1, 2, 3`, `1 2 3` or `#1#2#3`; each
 * token reads `#1`, and `size` is Infinity.
 * @example const tokenizer = await planTokenizer(plan, model, { cache: true });
 */
export async function planTokenizer(
  plan: Plan,
  model: { readonly header?: Model['header'] | Promise<Model['header']> },
  options: {
    readonly token?: string;
    readonly cache?: boolean;
    readonly signal?: AbortSignal;
    /** See `guardTokenizer`. */
    readonly limit?: number;
    readonly onBuilt?: OnBuilt;
  } = {},
): Promise<GuardedTokenizer> {
  checkPlan(plan);
  if (plan.format === 'gguf') check(model, 'object', 'model');
  checkOptions(options, { ...ACCESS_OPTIONS, signal: 'signal', limit: 'count', onBuilt: 'call' });
  const reading = readSource(plan, model, options);
  reading.catch(() => {});
  // The tokenizer's worker loads while the header is read.
  if (plan.format === 'gguf') return guardTokenizer(reading as Promise<TokenizerSource>, options);
  const source = await reading;
  if (source) return guardTokenizer(source, options);
  const { characters } = plan.files;
  if (characters)
    return characterTokenizer(readCharacters(await planBytes(plan, characters, options)));
  return idTokenizer(hintOf(plan));
}

/** Says what makes the texts of a model without a tokenizer readable. */
function hintOf({ id, format, files: { config, sentencepiece } }: Plan) {
  if (sentencepiece)
    return `${sentencepiece.name} is SentencePiece's; this writes tokenizer.json beside it: python -c "from transformers import AutoTokenizer as A; A.from_pretrained('${id}').save_pretrained('${id}')"`;
  return format === 'pytorch' && !config
    ? "put nanoGPT's meta.pkl beside the file, or the tokenizer of GPT-2: hf download openai-community/gpt2 tokenizer.json --local-dir ."
    : undefined;
}

async function readSource(
  plan: Plan,
  model: Parameters<typeof planTokenizer>[1],
  options: NonNullable<Parameters<typeof planTokenizer>[2]>,
): Promise<TokenizerSource | undefined> {
  if (plan.format === 'gguf') {
    const header = await model.header;
    check(header, 'list', 'model.header');
    return { gguf: header as Uint8Array };
  }
  const { tokenizer, words, vocab, merges } = plan.files;
  const read = (file: PlanFile) => planText(plan, file, options);
  const readOptional = async (file: PlanFile | undefined) => file && read(file);
  const config = await readOptional(plan.files.tokenizer_config);
  if (tokenizer) return { tokenizer: await read(tokenizer), config };
  if (words) return { words: await read(words), config };
  if (vocab && merges) {
    const special_tokens_map = await readOptional(plan.files.special_tokens_map);
    return { vocab: await read(vocab), merges: await read(merges), config, special_tokens_map };
  }
  return undefined;
}
