/**
 * Converts byte-level vocabularies of vocab.json and merges.txt (GPT-2, GPT-Neo, OPT) to the form
 * of tokenizer.json, and checks vocabularies of all kinds.
 *
 *     vocab.json, merges.txt, tokenizer_config.json -> { json, config } -> openTokenizer
 */
import { SinkscopeError } from '../abi/errors.ts';
import { MergeRanks, TokenIds } from './merges.ts';
import type { Settings } from './shapes.ts';
import type { OnBuilt, TokenizerFiles } from './types.ts';

/** Limit on ids: real vocabularies are far smaller, and larger ids would make sparse tables. */
const TOKENS_MAX = 1 << 21;

/** The keys under which a tokenizer_config.json names tokens without text, as [key, kind]. */
export const ROLES = [
  ['bos_token', 'bos'],
  ['eos_token', 'eos'],
  ['unk_token', 'unk'],
  ['pad_token', 'pad'],
  ['sep_token', 'sep'],
  ['cls_token', 'cls'],
  ['mask_token', 'mask'],
] as const;

/** Merges that are ranked, or tokens whose merges are found, between two reports. */
export const ITEMS_PER_REPORT = 2 ** 12;

export function refuse(where: string, text: string): never {
  throw new SinkscopeError('bad_tokenizer', where, text);
}

export function unknownTypeError(stage: string, type: unknown) {
  const text = `${JSON.stringify(type)} is not a type this build knows`;
  return new SinkscopeError('unsupported', `${stage}.type`, text);
}

export function findRow<R>(
  table: Readonly<Record<string, R>>,
  kind: string,
  stage: { type?: unknown },
): R {
  const type = String(stage.type);
  if (!Object.hasOwn(table, type)) throw unknownTypeError(kind, stage.type);
  return table[type];
}

export function createStages<S, R>(
  stages: readonly S[] | null | undefined,
  where: string,
  create: (stage: S, where: string) => R,
): R[] {
  if (!Array.isArray(stages)) return refuse(where, 'expected an array');
  return stages.map((stage, i) => create(stage, `${where}.${i}`));
}

export function parseObject(json: string | object, name: string): Record<string, unknown> {
  let value = json;
  try {
    if (typeof json === 'string') value = JSON.parse(json);
  } catch (error) {
    refuse(name, `is not JSON: ${error instanceof Error ? error.message : String(error)}`);
  }
  if (value && typeof value === 'object' && !Array.isArray(value))
    return value as Record<string, unknown>;
  return refuse(name, 'expected an object');
}

/**
 * Converts the vocab.json and merges.txt of a byte-level vocabulary (GPT-2, GPT-Neo, OPT), with
 * tokenizer_config.json and special_tokens_map.json if they exist.
 * @example
 * const { json, config } = tokenizerOfVocabulary(vocab, merges, { add_bos_token: true, bos_token: '</s>' });
 * const tokenizer = openTokenizer(json, config);
 */
export function tokenizerOfVocabulary(
  vocabJson: string | object,
  mergesText: string,
  config: string | object = {},
  specialTokensMap: string | object = {},
): TokenizerFiles {
  const vocab = parseObject(vocabJson, 'vocab.json') as Record<string, number>;
  const names = parseObject(specialTokensMap, 'special_tokens_map.json');
  const settings = { ...names, ...parseObject(config, 'tokenizer_config.json') };
  const ids = idsOfTable(vocab, 'vocab.json');
  const merges = readMerges(mergesText);
  const ranks = rankMerges(merges, ids, 'merges.txt');
  // The files of GPT-2 name no token, but GPT-2 begins and ends texts with this one.
  const defaultName = Object.hasOwn(vocab, '<|endoftext|>') ? '<|endoftext|>' : undefined;
  const bos = tokenNameOf(settings, 'bos_token') ?? defaultName;
  const eos = tokenNameOf(settings, 'eos_token') ?? defaultName;
  const json = makeByteLevelFile({
    vocab,
    merges,
    ranks,
    addedTokens: listAddedTokens(vocab, settings, [bos, eos]),
    prefixSpace: settings.add_prefix_space === true,
    postProcessor: makeTemplate(
      settings.add_bos_token === true ? requireToken(bos, 'bos_token') : null,
      settings.add_eos_token === true ? requireToken(eos, 'eos_token') : null,
    ),
  });
  return { json, config: { ...settings, bos_token: bos ?? null, eos_token: eos ?? null } };
}

function requireToken(token: string | undefined, key: string) {
  return (
    token ?? refuse(`tokenizer_config.json ${key}`, `add_${key} is true, but no token is named`)
  );
}

/** Returns a token's name in a tokenizer_config.json: a string, or an object with its content. */
export function tokenNameOf(settings: Settings, key: string): string | undefined {
  const setting = settings[key] as string | { content?: unknown } | null | undefined;
  const name = typeof setting === 'object' ? setting?.content : setting;
  return typeof name === 'string' && name !== '' ? name : undefined;
}

/** Lists tokens that are found before splitting: of added_tokens_decoder, and those with a role. */
function listAddedTokens(
  vocab: Record<string, number>,
  settings: Settings,
  otherNames: readonly (string | undefined)[],
) {
  const addedTokens = new Map();
  for (const [id, token] of Object.entries(settings.added_tokens_decoder ?? {})) {
    const content = token?.content;
    const place = `tokenizer_config.json added_tokens_decoder ${id}`;
    if (typeof content !== 'string' || content === '') refuse(place, 'expected content');
    addedTokens.set(content, { ...token, id: Number(id) });
  }
  const names = [...ROLES.map(([key]) => tokenNameOf(settings, key)), ...otherNames];
  for (const name of names) {
    // A token outside the vocabulary has no id that the model knows.
    if (name === undefined || addedTokens.has(name) || !Object.hasOwn(vocab, name)) continue;
    addedTokens.set(name, { id: vocab[name], content: name, normalized: false, special: true });
  }
  return [...addedTokens.values()];
}

/**
 * Makes a byte-level tokenizer.json; `split` stages come before bytes become letters (default:
 * the pattern of GPT-2), `letterSplit` stages after it.
 */
export function makeByteLevelFile(parts: {
  vocab: object;
  merges: readonly (string | readonly string[])[];
  ranks?: MergeRanks;
  addedTokens: object[];
  postProcessor: object | null;
  prefixSpace?: boolean;
  normalizer?: object | null;
  split?: object[];
  letterSplit?: object[];
  ignoreMerges?: boolean;
}) {
  const { vocab, merges, split, letterSplit = [], prefixSpace = false } = parts;
  const byteLevelStage = {
    type: 'ByteLevel',
    add_prefix_space: prefixSpace,
    trim_offsets: false,
    use_regex: split === undefined,
  };
  return {
    version: '1.0',
    added_tokens: parts.addedTokens,
    normalizer: parts.normalizer ?? null,
    pre_tokenizer: split
      ? { type: 'Sequence', pretokenizers: [...split, byteLevelStage, ...letterSplit] }
      : byteLevelStage,
    post_processor: parts.postProcessor,
    decoder: byteLevelStage,
    model: {
      type: 'BPE',
      ignore_merges: parts.ignoreMerges ?? false,
      vocab,
      merges,
      ...(parts.ranks && { ranks: parts.ranks }),
    },
  };
}

export function makeTemplate(bos: string | null, eos: string | null) {
  if (bos === null && eos === null) return null;
  const toTemplateItem = (id: string) => ({ SpecialToken: { id, type_id: 0 } });
  const single = [
    ...(bos === null ? [] : [toTemplateItem(bos)]),
    { Sequence: { id: 'A', type_id: 0 } },
    ...(eos === null ? [] : [toTemplateItem(eos)]),
  ];
  return { type: 'TemplateProcessing', single, pair: single, special_tokens: {} };
}

/** Reads merges.txt, one pair a line in order, each once. Only the first line may be a comment. */
function readMerges(text: unknown) {
  if (typeof text !== 'string') return refuse('merges.txt', `expected text, got ${typeof text}`);
  const lines = indexLines(text.replace(/^#version[^\n]*/, ''), 'merges.txt');
  for (const [line, i] of lines) findSpace(line, 'merges.txt line', i + 1);
  return [...lines.keys()];
}

export function indexLines(text: string, file: string) {
  const lines: Map<string, number> = new Map();
  text.split(/\r?\n/).forEach((line, i) => {
    if (line === '') return;
    const firstIndex = lines.get(line);
    if (firstIndex !== undefined)
      refuse(`${file} line ${i + 1}`, `is that of line ${firstIndex + 1} again`);
    lines.set(line, i);
  });
  return lines;
}

/** Finds the space between a line's two tokens. Only a refusal names the place, to save time. */
export function findSpace(line: string, where: string, i: number) {
  const space = line.indexOf(' ');
  if (space > 0 && space < line.length - 1 && !line.includes(' ', space + 1)) return space;
  return refuse(`${where} ${i}`, `expected two tokens, got "${line.slice(0, 80)}"`);
}

export function checkVocab(
  vocab: Readonly<Record<string, unknown>>,
  where: string,
): [string, number][] {
  const counts = new Uint8Array(TOKENS_MAX);
  const tokens = Object.entries(vocab);
  if (tokens.length === 0) refuse(where, 'expected tokens, got an empty table');
  for (const [token, id] of tokens) {
    checkId(id, where, token);
    if (counts[id]++) {
      const firstToken = tokens.find(([, other]) => other === id)?.[0];
      refuse(where, `"${token}" and "${firstToken}" have the same id ${id}`);
    }
  }
  return tokens as [string, number][];
}

export function idsOfTable(vocab: Readonly<Record<string, unknown>>, where: string) {
  const texts: string[] = [];
  for (const [token, id] of checkVocab(vocab, where)) texts[id] = token;
  return new TokenIds(texts);
}

export function checkId(id: unknown, where: string, token?: string): asserts id is number {
  if (Number.isInteger(id) && Number(id) >= 0 && Number(id) < TOKENS_MAX) return;
  const place = token === undefined ? where : `${where} "${token.slice(0, 80)}"`;
  refuse(place, `expected an id below ${TOKENS_MAX}, got ${JSON.stringify(id)?.slice(0, 80)}`);
}

/**
 * Returns the table of merges by rank. The parts of each merge and their concatenation must be
 * tokens, because the model looks them up.
 * @param merges each "a b" or, since tokens may hold spaces, ["a", "b"]
 * @param prefixLength length of the prefix that marks a token as continuing a word and is dropped when
 * merged
 * @param onRanked receives the progress after each ITEMS_PER_REPORT merges
 */
export function rankMerges(
  merges: readonly unknown[],
  ids: TokenIds,
  where: string,
  prefixLength: number = 0,
  onRanked?: OnBuilt,
) {
  const { texts } = ids;
  const ranks = new MergeRanks(merges.length);
  let next = 0;
  const add = (i: number, left: string, leftEnd: number, right: string, rightStart: number) => {
    const a = ids.idOf(left, 0, leftEnd);
    const b = ids.idOf(right, rightStart);
    const start = a === undefined ? left.slice(0, leftEnd) : texts[a];
    const end = b === undefined ? right.slice(rightStart) : texts[b];
    const tail = end.slice(prefixLength);
    // Most merged tokens come one after another, and comparing takes less than half of the time of a search.
    const isNext =
      texts[next]?.length === start.length + tail.length &&
      texts[next].startsWith(start) &&
      texts[next].endsWith(tail);
    const mergedId = isNext ? next : ids.idOf(start + tail);
    if (a === undefined || b === undefined || mergedId === undefined) {
      const missingToken = [start, end, start + tail].find(
        (token) => ids.idOf(token) === undefined,
      );
      const text = `"${start} ${end}" needs "${missingToken}", which is not in the vocabulary`;
      return refuse(`${where} ${i}`, text);
    }
    next = mergedId + 1;
    return ranks.add(a, b, i, mergedId);
  };
  merges.forEach((merge, i) => {
    if (i && i % ITEMS_PER_REPORT === 0) onRanked?.(i, merges.length);
    if (typeof merge === 'string') {
      const space = findSpace(merge, where, i);
      return add(i, merge, space, merge, space + 1);
    }
    const [left, right] = readPair(merge, where, i);
    return add(i, left, left.length, right, 0);
  });
  return ranks;
}

function readPair(merge: unknown, where: string, i: number): readonly string[] {
  const isPair =
    Array.isArray(merge) && merge.length === 2 && merge.every((part) => typeof part === 'string');
  return isPair ? merge : refuse(`${where} ${i}`, 'expected two tokens');
}
