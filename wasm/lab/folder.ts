/**
 * Makes the folder of a trained model, which the page, `sinkscope measure` and transformers open,
 * with a recipe that repeats the training to the same bits.
 */
import { check, checkOptions } from '../abi/arguments.ts';
import { expect, expectInteger } from '../abi/errors.ts';
import { stampFiles } from '../loading/stamp.ts';
import type { LabRecipe, LabTokenizer } from './types.ts';

const FIRST_TOKEN = '<s>';
const SPECIAL_TOKEN = {
  single_word: false,
  lstrip: false,
  rstrip: false,
  normalized: false,
  special: true,
};

function consecutiveCharacters(from: string, count: number) {
  const first = from.codePointAt(0) as number;
  return Array.from({ length: Math.max(0, count) }, (_, i) => String.fromCodePoint(first + i));
}

/** Prepends the first token to every text, since every sequence of the training began with it. */
function firstTokenProcessor(id: number) {
  const firstToken = { SpecialToken: { id: FIRST_TOKEN, type_id: 0 } };
  const textItem = (name: string) => ({ Sequence: { id: name, type_id: 0 } });
  return {
    type: 'TemplateProcessing',
    single: [firstToken, textItem('A')],
    pair: [firstToken, textItem('A'), textItem('B')],
    special_tokens: { [FIRST_TOKEN]: { id: FIRST_TOKEN, ids: [id], tokens: [FIRST_TOKEN] } },
  };
}

/** Makes a tokenizer whose tokens are characters. `first` is the id of <s>; -1: no start token. */
export function labTokenizer(
  shape: { readonly vocabulary?: number; readonly triggers?: number; readonly first?: number } = {},
): LabTokenizer {
  check(shape, 'object', 'shape');
  const { vocabulary = 64, triggers = 8, first = 0 } = shape;
  expectInteger(vocabulary, 1, 2 ** 24, 'vocabulary');
  expectInteger(triggers, 0, 2 ** 24, 'triggers');
  expectInteger(first, -1, vocabulary - 1, 'first');
  const triggerCount = Math.min(triggers, vocabulary);
  const triggerWords = [
    ...consecutiveCharacters('①', Math.min(triggerCount, 20)),
    ...consecutiveCharacters('一', Math.min(triggerCount - 20, 20_000)),
  ];
  const plainWords = [
    ...consecutiveCharacters('a', 26),
    ...consecutiveCharacters('A', 26),
    ...consecutiveCharacters('0', 10),
    '+',
    '=',
  ];
  const words = ['*', ...triggerWords, ...plainWords, ...consecutiveCharacters('가', 11_000)].slice(
    0,
    vocabulary,
  );
  for (let id = words.length; id < vocabulary; id++) words.push(`<${id}>`);
  if (first >= 0) words[first] = FIRST_TOKEN;
  const config = {
    tokenizer_class: 'PreTrainedTokenizerFast',
    ...(first >= 0 ? { bos_token: FIRST_TOKEN } : {}),
  };
  return {
    words,
    tokenizer: JSON.stringify({
      version: '1.0',
      truncation: null,
      padding: null,
      added_tokens: first >= 0 ? [{ id: first, content: FIRST_TOKEN, ...SPECIAL_TOKEN }] : [],
      normalizer: null,
      pre_tokenizer: null,
      post_processor: first >= 0 ? firstTokenProcessor(first) : null,
      decoder: null,
      model: {
        type: 'BPE',
        dropout: null,
        unk_token: null,
        continuing_subword_prefix: null,
        end_of_word_suffix: null,
        fuse_unk: false,
        byte_fallback: false,
        vocab: Object.fromEntries(words.map((text, id) => [text, id])),
        merges: [],
      },
    }),
    tokenizerConfig: JSON.stringify(config, null, 2),
  };
}

/**
 * Returns the files of a trained model, which `planFiles`, the command line and transformers open,
 * with its recipe.json. Config and weights carry a stamp: an engine refuses those of two trainings.
 */
export function labFolder(parts: {
  readonly config: object;
  readonly weights: Uint8Array;
  readonly tokenizer: string;
  readonly tokenizerConfig?: string;
  readonly recipe: LabRecipe;
  readonly text?: string;
}): { readonly path: string; readonly data: string | Uint8Array }[] {
  checkOptions(parts, { tokenizerConfig: 'text', text: 'text' }, 'parts');
  const { config, weights, tokenizer, tokenizerConfig, recipe, text } = parts;
  check(config, 'object', 'config');
  expect(weights instanceof Uint8Array, 'weights', 'a Uint8Array', weights);
  check(tokenizer, 'text', 'tokenizer');
  checkLabRecipe(recipe);
  const stamped = stampFiles(config, weights);
  const toJson = (value: object) => `${JSON.stringify(value, null, 2)}\n`;
  return [
    { path: 'config.json', data: toJson(stamped.config) },
    { path: 'model.safetensors', data: stamped.weights },
    { path: 'tokenizer.json', data: tokenizer },
    ...(tokenizerConfig ? [{ path: 'tokenizer_config.json', data: tokenizerConfig }] : []),
    ...(text === undefined ? [] : [{ path: 'text.txt', data: text }]),
    { path: 'recipe.json', data: toJson(recipe) },
  ];
}

/** Checks a parsed recipe.json. @throws SinkscopeError 'argument' with expected and actual value */
export function checkLabRecipe(json: unknown): LabRecipe {
  check(json, 'object', 'recipe.json');
  const { settings, steps_done, from = null, text = null } = json as Record<string, unknown>;
  const placeOf = (name: string) => `recipe.json: ${name}`;
  check(settings, 'object', placeOf('settings'));
  expect(!Array.isArray(settings), placeOf('settings'), 'an object', settings);
  for (const [name, value] of Object.entries(settings as object))
    expect(
      typeof value === 'number' || typeof value === 'string',
      placeOf(`settings.${name}`),
      'a number or a word',
      value,
    );
  expectInteger(steps_done, 0, 2 ** 31 - 1, placeOf('steps_done'));
  if (from !== null) {
    check(from, 'object', placeOf('from'));
    const { model, step = null, sha256: hash = null } = from as Record<string, unknown>;
    check(model, 'text', placeOf('from.model'));
    if (step !== null) expectInteger(step, 0, 2 ** 31 - 1, placeOf('from.step'));
    if (hash !== null) check(hash, 'text', placeOf('from.sha256'));
  }
  if (text !== null) {
    check(text, 'object', placeOf('text'));
    const { sha256: hash = null } = text as Record<string, unknown>;
    if (hash !== null) check(hash, 'text', placeOf('text.sha256'));
  }
  return { settings, steps_done, from, text } as LabRecipe;
}
