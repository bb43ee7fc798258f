/**
 * Converts byte-level vocabularies of vocab.json and merges.txt (GPT-2, GPT-Neo, OPT) to the form
 * of tokenizer.json, and checks vocabularies of all kinds.
 *
 *     vocab.json, merges.txt, tokenizer_config.json -> { json, config } -> openTokenizer
 */
import { SinkscopeError } from '../abi/errors.js';
import { Ranks } from './merges.js';

/** Real vocabularies are far smaller; larger ids would make sparse tables. */
const TOKENS_MAX = 1 << 21;

/** The names a tokenizer_config.json gives to tokens without text, as [key, kind]. */
export const ROLES = /** @type {const} */ ([
  ['bos_token', 'bos'],
  ['eos_token', 'eos'],
  ['unk_token', 'unk'],
  ['pad_token', 'pad'],
  ['sep_token', 'sep'],
  ['cls_token', 'cls'],
  ['mask_token', 'mask'],
]);

/**
 * @param {string} where
 * @param {string} text
 * @returns {never}
 */
export function refuse(where, text) {
  throw new SinkscopeError('bad_tokenizer', where, text);
}

/**
 * @param {string} stage
 * @param {unknown} type
 */
export function unknownType(stage, type) {
  const text = `${JSON.stringify(type)} is not a type this build knows`;
  return new SinkscopeError('unsupported', `${stage}.type`, text);
}

/**
 * Finds the row of a table for the type of a stage.
 * @template R
 * @param {Readonly<Record<string, R>>} table
 * @param {string} kind
 * @param {{ type?: unknown }} stage
 * @returns {R}
 */
export function rowOf(table, kind, stage) {
  const type = String(stage.type);
  if (!Object.hasOwn(table, type)) throw unknownType(kind, stage.type);
  return table[type];
}

/**
 * Applies `create` to each stage of a sequence.
 * @template S, R
 * @param {readonly S[] | null | undefined} stages
 * @param {string} where
 * @param {(stage: S, where: string) => R} create
 * @returns {R[]}
 */
export function eachOf(stages, where, create) {
  if (!Array.isArray(stages)) return refuse(where, 'expected an array');
  return stages.map((stage, i) => create(stage, `${where}.${i}`));
}

/**
 * @param {string | object} json
 * @param {string} name of the file, for errors
 * @returns {Record<string, unknown>}
 */
export function parseObject(json, name) {
  let value = json;
  try {
    if (typeof json === 'string') value = JSON.parse(json);
  } catch (error) {
    refuse(name, `is not JSON: ${error instanceof Error ? error.message : String(error)}`);
  }
  if (value && typeof value === 'object' && !Array.isArray(value)) {
    return /** @type {Record<string, unknown>} */ (value);
  }
  return refuse(name, 'expected an object');
}

/** @type {typeof import('../sinkscope.js').tokenizerOfVocabulary} */
export function tokenizerOfVocabulary(vocabJson, mergesText, config = {}, specialTokensMap = {}) {
  const vocab = parseObject(vocabJson, 'vocab.json');
  const names = parseObject(specialTokensMap, 'special_tokens_map.json');
  const settings = { ...names, ...parseObject(config, 'tokenizer_config.json') };
  checkVocab(vocab, 'vocab.json');
  const merges = readMerges(mergesText);
  rankMerges(merges, lookup(vocab), 'merges.txt');
  // GPT-2's own files name no token, but use this one for both the start and the end of a text.
  const only = Object.hasOwn(vocab, '<|endoftext|>') ? '<|endoftext|>' : undefined;
  const bos = nameOf(settings, 'bos_token') ?? only;
  const eos = nameOf(settings, 'eos_token') ?? only;
  const json = byteLevelFile({
    vocab,
    merges,
    added: addedTokens(vocab, settings, [bos, eos]),
    prefixSpace: settings.add_prefix_space === true,
    post: template(
      settings.add_bos_token === true ? required(bos, 'bos_token') : null,
      settings.add_eos_token === true ? required(eos, 'eos_token') : null,
    ),
  });
  return { json, config: { ...settings, bos_token: bos ?? null, eos_token: eos ?? null } };
}

/**
 * @param {string | undefined} token
 * @param {string} key
 */
function required(token, key) {
  return (
    token ?? refuse(`tokenizer_config.json ${key}`, `add_${key} is true, but no token is named`)
  );
}

/**
 * Returns a token's name in a tokenizer_config.json: a string, or an object with its content.
 * @param {import('./shapes.js').Settings} settings
 * @param {string} key
 * @returns {string | undefined}
 */
export function nameOf(settings, key) {
  const setting = /** @type {string | { content?: unknown } | null | undefined} */ (settings[key]);
  const name = typeof setting === 'object' ? setting?.content : setting;
  return typeof name === 'string' && name !== '' ? name : undefined;
}

/**
 * Lists the tokens that are searched for before the text is split: those of added_tokens_decoder,
 * and those with a role.
 * @param {Record<string, number>} vocab
 * @param {import('./shapes.js').Settings} settings
 * @param {readonly (string | undefined)[]} more
 */
function addedTokens(vocab, settings, more) {
  const added = new Map();
  for (const [id, token] of Object.entries(settings.added_tokens_decoder ?? {})) {
    const content = token?.content;
    const where = `tokenizer_config.json added_tokens_decoder ${id}`;
    if (typeof content !== 'string' || content === '') refuse(where, 'expected content');
    added.set(content, { ...token, id: Number(id) });
  }
  const names = [...ROLES.map(([key]) => nameOf(settings, key)), ...more];
  for (const name of names) {
    // A token outside the vocabulary has no id that a model could take.
    if (name === undefined || added.has(name) || !Object.hasOwn(vocab, name)) continue;
    added.set(name, { id: vocab[name], content: name, normalized: false, special: true });
  }
  return [...added.values()];
}

/**
 * Makes a byte-level tokenizer.json.
 * @param {{ vocab: object, merges: string[][], added: object[], post: object | null,
 *   prefixSpace?: boolean, normalizer?: object | null, split?: object[], later?: object[],
 *   ignoreMerges?: boolean }} parts
 * split: stages that split the text before its bytes become letters; default: the pattern of GPT-2
 * later: stages that split the letters
 */
export function byteLevelFile(parts) {
  const { vocab, merges, added, post, split, later = [], prefixSpace = false } = parts;
  const bytes = {
    type: 'ByteLevel',
    add_prefix_space: prefixSpace,
    trim_offsets: false,
    use_regex: split === undefined,
  };
  return {
    version: '1.0',
    added_tokens: added,
    normalizer: parts.normalizer ?? null,
    pre_tokenizer: split ? { type: 'Sequence', pretokenizers: [...split, bytes, ...later] } : bytes,
    post_processor: post,
    decoder: bytes,
    model: { type: 'BPE', ignore_merges: parts.ignoreMerges ?? false, vocab, merges },
  };
}

/**
 * Makes a post-processor that adds tokens around a text; null if it would add none.
 * @param {string | null} bos
 * @param {string | null} eos
 */
export function template(bos, eos) {
  if (bos === null && eos === null) return null;
  const special = (/** @type {string} */ id) => ({ SpecialToken: { id, type_id: 0 } });
  const single = [
    ...(bos === null ? [] : [special(bos)]),
    { Sequence: { id: 'A', type_id: 0 } },
    ...(eos === null ? [] : [special(eos)]),
  ];
  return { type: 'TemplateProcessing', single, pair: single, special_tokens: {} };
}

/**
 * Reads the pairs of merges.txt, one per line in the order of merging; a repeated line would make
 * that order ambiguous. A token may begin with '#', so only the first line may be a comment.
 * @param {unknown} text
 */
function readMerges(text) {
  if (typeof text !== 'string') return refuse('merges.txt', `expected text, got ${typeof text}`);
  /** @type {Map<string, number>} */
  const lines = new Map();
  text.split(/\r?\n/).forEach((line, i) => {
    if (line === '' || (i === 0 && line.startsWith('#version'))) return;
    const first = lines.get(line);
    if (first !== undefined)
      refuse(`merges.txt line ${i + 1}`, `is that of line ${first + 1} again`);
    lines.set(line, i);
  });
  return [...lines].map(([line, i]) => splitPair(line, `merges.txt line ${i + 1}`));
}

/**
 * @param {string} line
 * @param {string} where
 */
export function splitPair(line, where) {
  const pair = line.split(' ');
  if (pair.length === 2 && !pair.includes('')) return pair;
  return refuse(where, `expected two tokens, got "${line.slice(0, 80)}"`);
}

/**
 * Checks that ids are integers and distinct.
 * @param {Readonly<Record<string, unknown>>} vocab
 * @param {string} where
 * @returns {asserts vocab is Record<string, number>}
 */
export function checkVocab(vocab, where) {
  const counts = new Uint8Array(TOKENS_MAX);
  const tokens = Object.keys(vocab);
  if (tokens.length === 0) refuse(where, 'expected tokens, got an empty table');
  for (const token of tokens) {
    const id = vocab[token];
    checkId(id, where, token);
    if (counts[id]++) {
      const first = tokens.find((other) => vocab[other] === id);
      refuse(where, `"${token}" and "${first}" have the same id ${id}`);
    }
  }
}

/**
 * @param {unknown} id
 * @param {string} where
 * @param {string} [token]
 * @returns {asserts id is number}
 */
export function checkId(id, where, token) {
  if (Number.isInteger(id) && Number(id) >= 0 && Number(id) < TOKENS_MAX) return;
  const place = token === undefined ? where : `${where} "${token.slice(0, 80)}"`;
  refuse(place, `expected an id below ${TOKENS_MAX}, got ${JSON.stringify(id)?.slice(0, 80)}`);
}

/**
 * Ranks merges. The parts of each merge and their concatenation must be tokens: the model could not
 * look up the result otherwise.
 * @param {readonly unknown[]} merges "a b" each or, since tokens may hold spaces, ["a", "b"]
 * @param {(token: string) => number | undefined} idOf
 * @param {string} where
 * @param {number} [skipped] length of the prefix that marks a token as continuing a word and is dropped when merged
 */
export function rankMerges(merges, idOf, where, skipped = 0) {
  const ranks = new Ranks(merges.length);
  merges.forEach((merge, i) => {
    const [left, right] = pairOf(merge, where, i);
    const merged = left + right.slice(skipped);
    const [a, b, joined] = [left, right, merged].map(idOf);
    if (a === undefined || b === undefined || joined === undefined) {
      const missing = [left, right, merged].find((token) => idOf(token) === undefined);
      const text = `"${left} ${right}" needs "${missing}", which is not in the vocabulary`;
      return refuse(`${where} ${i}`, text);
    }
    return ranks.add(a, b, i, joined);
  });
  return ranks;
}

/**
 * @param {unknown} merge
 * @param {string} where
 * @param {number} i
 * @returns {readonly string[]}
 */
function pairOf(merge, where, i) {
  const pair = typeof merge === 'string' ? merge.split(' ') : merge;
  const isPair =
    Array.isArray(pair) && pair.length === 2 && pair.every((part) => typeof part === 'string');
  return isPair ? pair : refuse(`${where} ${i}`, 'expected two tokens');
}

/**
 * Looks tokens up in a table that may come from untrusted JSON.
 * @param {Readonly<Record<string, number>>} vocab
 */
export function lookup(vocab) {
  return (/** @type {string} */ token) => (Object.hasOwn(vocab, token) ? vocab[token] : undefined);
}
