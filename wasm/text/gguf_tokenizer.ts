/**
 * Converts the tokenizer inside a GGUF file to the form of tokenizer.json. The file holds a
 * vocabulary and names a way to split text; the table below defines those names.
 *
 *     "gpt2"     byte-level BPE: tokens and merges
 *     "llama"    SentencePiece BPE: tokens and scores, which give the merges
 */
import { check } from '../abi/arguments.ts';
import { SinkscopeError } from '../abi/errors.ts';
import { TokenIds } from './merges.ts';
import { GPT2_WORDS, isolate } from './pre_tokenizers.ts';
import { spellToken } from './surface.ts';
import {
  ITEMS_PER_REPORT,
  checkId,
  makeByteLevelFile,
  makeTemplate,
  rankMerges,
  refuse,
} from './vocabulary.ts';
import type { GgufReader, OnBuilt, TokenizerFiles } from './types.ts';

const NORMAL = 1;
const UNKNOWN = 2;
const CONTROL = 3;
const USER_DEFINED = 4;
const BYTE = 6;

/** The block sign that SentencePiece writes for a space. */
const SPACE_BLOCK = '\u2581';

/** Splitting costs a token's length squared; SentencePiece's own tokens end at 16 characters. */
const PIECE_LENGTH_MAX = 256;

/** English endings, also in capital letters. */
const ENDINGS = "(?i:'s|'t|'re|'ve|'m|'ll|'d)";
const LINE_ENDS = '|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+';

/**
 * Separates line ends and attaches a sign to the next word, as recent models do; `numbers` is a
 * pattern of digits in one piece, `lines` of line ends that a run of signs takes along.
 */
const createWordPattern = (numbers: string, letters = '\\p{L}', lines = '[\\r\\n]*') =>
  `${ENDINGS}|[^\\r\\n\\p{L}\\p{N}]?[${letters}]+|${numbers}` +
  `| ?[^\\s${letters}\\p{N}]+${lines}${LINE_ENDS}`;

/** Begins a new word at a capital letter; `ending` is one that belongs to the word, such as 's. */
function createCasePattern(numbers: string, ending: string) {
  const otherLetters = '\\p{Lm}\\p{Lo}\\p{M}';
  const [upper, lower] = [`[\\p{Lu}\\p{Lt}${otherLetters}]`, `[\\p{Ll}${otherLetters}]`];
  const sign = '[^\\r\\n\\p{L}\\p{N}]?';
  return (
    `${sign}${upper}*${lower}+${ending}|${sign}${upper}+${lower}*${ending}|${numbers}` +
    `| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*${LINE_ENDS}`
  );
}

/** The pattern of DeepSeek V3, which keeps a punctuation mark with the Latin letters after it. */
const SIGNED_WORDS =
  '[!"#$%&\'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+' +
  `| ?[\\p{P}\\p{S}]+[\\r\\n]*${LINE_ENDS}`;

/** `split` has the patterns of the words of a text, `letterSplit` those of words of its byte letters. */
type SplittingRule = {
  names: string[];
  split: string[];
  letterSplit?: string[];
  normalForm?: string;
  ignoreMerges?: boolean;
  bos?: boolean;
};
/** Rules of byte-level vocabularies by tokenizer.ggml.pre, with normal forms of tokenizer.json. */
const SPLITTING_RULES: readonly SplittingRule[] = [
  { names: ['gpt-2', 'default', 'phi-2', 'exaone4'], split: [GPT2_WORDS] },
  {
    names: ['smollm', 'starcoder', 'refact', 'codeshell', 'exaone'],
    split: ['\\p{N}', GPT2_WORDS],
  },
  { names: ['command-r'], split: ['\\p{N}', GPT2_WORDS], normalForm: 'NFC', bos: true },
  { names: ['gpt-neox', 'olmo', 'mpt'], split: [GPT2_WORDS], normalForm: 'NFC' },
  {
    names: ['qwen2', 'deepseek-r1-qwen'],
    split: [createWordPattern('\\p{N}')],
    normalForm: 'NFC',
  },
  {
    names: ['qwen35'],
    split: [createWordPattern('\\p{N}', '\\p{L}\\p{M}')],
    normalForm: 'NFC',
  },
  { names: ['stablelm2', 'hunyuan'], split: [createWordPattern('\\p{N}')] },
  { names: ['seed-coder'], split: [createWordPattern('\\p{N}', '\\p{L}', '')] },
  {
    names: ['llama-bpe', 'llama3', 'llama-v3', 'falcon3', 'falcon-h1', 'lfm2'],
    split: [createWordPattern('\\p{N}{1,3}')],
    ignoreMerges: true,
    bos: true,
  },
  {
    names: ['dbrx', 'smaug-bpe', 'glm4', 'chatglm-bpe'],
    split: [createWordPattern('\\p{N}{1,3}')],
  },
  { names: ['gpt-4o', 'llama4'], split: [createCasePattern('\\p{N}{1,3}', `${ENDINGS}?`)] },
  {
    names: ['tekken'],
    split: [createCasePattern('\\p{N}', '')],
    ignoreMerges: true,
    bos: true,
  },
  {
    names: ['deepseek-v3', 'hunyuan-dense'],
    split: ['\\p{N}{1,3}', '[一-龥぀-ゟ゠-ヿ]+', SIGNED_WORDS],
  },
  {
    names: ['falcon'],
    split: ['[\\p{P}$+<=>^~|`]+', GPT2_WORDS],
    letterSplit: ['\\p{N}+', '[0-9][0-9][0-9]'],
  },
  { names: ['bloom'], split: [' ?[^(\\s|.,!?…。，、।۔،)]+'] },
];

/**
 * Converts the tokenizer inside a GGUF file, of kind "gpt2" (byte-level BPE) or "llama"
 * (SentencePiece BPE). Throws for an unknown tokenizer.ggml.pre, with its name.
 * @param onRanked see `rankMerges`
 * @example const { json, config } = tokenizerOfGguf((key) => metadata.get(key));
 */
export function tokenizerOfGguf(read: GgufReader, onRanked?: OnBuilt): TokenizerFiles {
  check(read, 'call', 'read');
  const model = read('tokenizer.ggml.model');
  if (model === 'gpt2') return readByteLevel(read, onRanked);
  if (model === 'llama') return readSentencePiece(read, onRanked);
  const text = `expected "gpt2" or "llama", got ${JSON.stringify(model)?.slice(0, 80)}`;
  throw new SinkscopeError('unsupported', 'tokenizer.ggml.model', text);
}

function readByteLevel(read: GgufReader, onRanked?: OnBuilt): TokenizerFiles {
  const rule = findRule(read('tokenizer.ggml.pre') ?? 'default');
  const { split, letterSplit, normalForm, ignoreMerges, bos } = rule;
  const { tokens, types } = readTokens(read);
  const vocabTokens = tokens.map((token, i) => (isAddedType(types[i]) ? token : spellToken(token)));
  const vocab = createIds(vocabTokens);
  const { merges, ranks } = readMerges(read, vocab, onRanked);
  const roles = readRoles(read, tokens, bos ?? false);
  const json = makeByteLevelFile({
    vocab,
    merges,
    ranks,
    addedTokens: listAddedTokens(tokens, types),
    normalizer: normalForm ? { type: normalForm } : null,
    split: split.map(isolate),
    letterSplit: letterSplit?.map(isolate),
    ignoreMerges,
    postProcessor: roles.postProcessor,
  });
  return { json, config: roles.config };
}

function findRule(name: unknown) {
  const rule = SPLITTING_RULES.find(({ names }) => names.includes(String(name)));
  if (rule) return rule;
  const names = SPLITTING_RULES.flatMap(({ names }) => names).join(', ');
  throw new SinkscopeError(
    'unsupported',
    'tokenizer.ggml.pre',
    `expected one of ${names}, got ${JSON.stringify(name)?.slice(0, 80)}`,
  );
}

function readSentencePiece(read: GgufReader, onRanked?: OnBuilt): TokenizerFiles {
  const isGemma = String(read('general.architecture')).startsWith('gemma');
  const { tokens: storedTokens, types } = readTokens(read);
  // The converter of GGUF files writes runs of 2 to 31 block signs of Gemma as spaces.
  const isSpaceRun = (i: number) =>
    isGemma && types[i] === USER_DEFINED && storedTokens[i].includes(' ');
  const tokens = storedTokens.map((token, i) =>
    isSpaceRun(i) ? token.replaceAll(' ', SPACE_BLOCK) : token,
  );
  const vocab = createIds(tokens);
  const roles = readRoles(read, tokens, true);
  const storedMerges = read('tokenizer.ggml.merges');
  // Gemma's scores do not follow the order in which its merges were learned, but its ids do.
  const scores = isGemma
    ? tokens.map((_, i) => -i)
    : readNumbers(read, 'tokenizer.ggml.scores', tokens.length);
  const ranked =
    storedMerges === undefined
      ? { merges: listMerges(tokens, types, scores, vocab, onRanked) }
      : readMerges(read, vocab, onRanked);
  const unknownToken = roles.config.unk_token ?? tokens[types.indexOf(UNKNOWN)] ?? null;
  const addsPrefix = readFlag(read, 'tokenizer.ggml.add_space_prefix') ?? true;
  const json = {
    version: '1.0',
    // The tokenizer searches for runs of spaces after the normalizer has made them block signs.
    added_tokens: listAddedTokens(tokens, types).map((token) => ({
      ...token,
      normalized: isSpaceRun(token.id),
    })),
    ...sentencePieceStages(addsPrefix),
    post_processor: roles.postProcessor,
    model: {
      type: 'BPE',
      unk_token: unknownToken,
      fuse_unk: true,
      byte_fallback: types.includes(BYTE),
      vocab,
      ...ranked,
    },
  };
  return { json, config: { ...roles.config, unk_token: unknownToken } };
}

/** Returns SentencePiece's stages; `addsPrefix` adds a space, which decoding removes. */
function sentencePieceStages(addsPrefix: boolean) {
  const block = { type: 'Replace', pattern: { String: ' ' }, content: SPACE_BLOCK };
  const prefix = addsPrefix ? [{ type: 'Prepend', prepend: SPACE_BLOCK }] : [];
  const strip = addsPrefix ? [{ type: 'Strip', content: ' ', start: 1, stop: 0 }] : [];
  const space = { type: 'Replace', pattern: { String: SPACE_BLOCK }, content: ' ' };
  return {
    normalizer: { type: 'Sequence', normalizers: [...prefix, block] },
    pre_tokenizer: null,
    decoder: {
      type: 'Sequence',
      decoders: [space, { type: 'ByteFallback' }, { type: 'Fuse' }, ...strip],
    },
  };
}

/** Lists pairs that join to a token, the best token first, and then the longest left part. */
function listMerges(
  tokens: readonly string[],
  types: ArrayLike<number>,
  scores: ArrayLike<number>,
  vocab: TokenIds,
  onRanked?: OnBuilt,
) {
  const isPiece = (id: number | undefined) =>
    id !== undefined && (types[id] === NORMAL || types[id] === USER_DEFINED);
  const candidates: { pair: string[]; score: number; leftCount: number; characterCount: number }[] =
    [];
  tokens.forEach((token, id) => {
    if (id && id % ITEMS_PER_REPORT === 0) onRanked?.(id, tokens.length);
    if (!isPiece(id)) return;
    const characters = [...token];
    if (characters.length > PIECE_LENGTH_MAX) {
      const text = `expected at most ${PIECE_LENGTH_MAX} characters, got ${characters.length}`;
      refuse(`tokenizer.ggml.tokens ${id}`, text);
    }
    let offset = 0;
    characters.forEach((character, i) => {
      offset += character.length;
      if (!isPiece(vocab.idOf(token, 0, offset)) || !isPiece(vocab.idOf(token, offset))) return;
      candidates.push({
        pair: [token.slice(0, offset), token.slice(offset)],
        score: scores[id],
        leftCount: i,
        characterCount: characters.length,
      });
    });
  });
  candidates.sort(
    (a, b) => b.score - a.score || b.leftCount - a.leftCount || b.characterCount - a.characterCount,
  );
  return candidates.map(({ pair }) => pair);
}

function readTokens(read: GgufReader): { tokens: string[]; types: number[] } {
  const tokens = readStrings(read, 'tokenizer.ggml.tokens');
  const key = 'tokenizer.ggml.token_type';
  if (read(key) === undefined) return { tokens, types: tokens.map(() => NORMAL) };
  return { tokens, types: readNumbers(read, key, tokens.length) };
}

function readStrings(read: GgufReader, key: string): string[] {
  const value = read(key);
  if (!Array.isArray(value))
    return refuse(key, `expected an array of strings, got ${typeof value}`);
  const wrongIndex = value.findIndex((item) => typeof item !== 'string' || item === '');
  if (wrongIndex < 0) return value;
  return refuse(
    `${key} ${wrongIndex}`,
    `expected a string, got ${JSON.stringify(value[wrongIndex])}`,
  );
}

function readNumbers(read: GgufReader, key: string, n: number): number[] {
  const value = read(key);
  if (!Array.isArray(value) && !ArrayBuffer.isView(value))
    return refuse(key, `expected an array of numbers, got ${typeof value}`);
  const numbers = Array.from(value as ArrayLike<unknown>);
  if (numbers.length !== n)
    refuse(key, `expected ${n} numbers, one a token, got ${numbers.length}`);
  const wrongIndex = numbers.findIndex((item) => !Number.isFinite(item));
  if (wrongIndex >= 0)
    refuse(`${key} ${wrongIndex}`, `expected a number, got ${String(numbers[wrongIndex])}`);
  return numbers as number[];
}

function readMerges(read: GgufReader, vocab: TokenIds, onRanked?: OnBuilt) {
  const key = 'tokenizer.ggml.merges';
  const merges = readStrings(read, key);
  return { merges, ranks: rankMerges(merges, vocab, key, 0, onRanked) };
}

function readFlag(read: GgufReader, key: string): boolean | undefined {
  const value = read(key);
  if (value === undefined || typeof value === 'boolean') return value;
  return refuse(key, `expected true or false, got ${JSON.stringify(value)?.slice(0, 80)}`);
}

function createIds(tokens: readonly string[]) {
  checkId(tokens.length - 1, 'tokenizer.ggml.tokens');
  return new TokenIds(tokens, (id, firstId) => {
    const text = `"${tokens[id].slice(0, 80)}" is also token ${firstId}`;
    refuse(`tokenizer.ggml.tokens ${id}`, text);
  });
}

const isAddedType = (type: number) => type === UNKNOWN || type === CONTROL || type === USER_DEFINED;

function listAddedTokens(tokens: readonly string[], types: readonly number[]) {
  const ids = [...tokens.keys()].filter((id) => isAddedType(types[id]));
  return ids.map((id) => ({
    id,
    content: tokens[id],
    normalized: false,
    special: types[id] !== USER_DEFINED,
  }));
}

/** Finds the tokens before and after a text; `addsBos` decides about the start token if the file does not. */
function readRoles(read: GgufReader, tokens: readonly string[], addsBos: boolean) {
  const readName = (role: string) => {
    const key = `tokenizer.ggml.${role}_token_id`;
    const id = read(key);
    if (id === undefined) return null;
    if (Number.isInteger(id) && Number(id) >= 0 && Number(id) < tokens.length)
      return tokens[Number(id)];
    return refuse(key, `expected an id below ${tokens.length}, got ${JSON.stringify(id)}`);
  };
  const bos = readName('bos');
  const eos = readName('eos');
  const tokenIfAdded = (role: string, token: string | null, isDefault = false) => {
    const key = `tokenizer.ggml.add_${role}_token`;
    const flag = readFlag(read, key);
    if (flag === true && token === null) refuse(key, `is true, but no ${role}_token_id is given`);
    return (flag ?? isDefault) ? token : null;
  };
  const postProcessor = makeTemplate(tokenIfAdded('bos', bos, addsBos), tokenIfAdded('eos', eos));
  const config = {
    bos_token: bos,
    eos_token: eos,
    unk_token: readName('unknown'),
    pad_token: readName('padding'),
    clean_up_tokenization_spaces: false,
  };
  return { config, postProcessor };
}
