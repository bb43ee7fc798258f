/**
 * Where @huggingface/tokenizers reads a tokenizer.json otherwise than the Rust library that wrote
 * it, the file is rewritten in words that both read alike.
 *
 * - ByteLevel splits by JavaScript's \s, which counts U+FEFF as a space and U+0085 not; a Split by
 *   the same pattern uses Unicode's White_Space.
 * - Digits knows 0 to 9 only, and not the numbers of other scripts.
 * - Split cuts on both sides of a match, whatever its behavior says; and with invert it drops what
 *   lies between.
 * - (?i:'s) is folded in ASCII, and does not match the long s.
 * - A byte without a token keeps those before and behind it from being merged.
 * - ByteFallback drops a byte order mark, and reads bytes that are no UTF-8 as fewer signs.
 * - BertNormalizer misses the Chinese characters that take two units of UTF-16.
 */
import { isByteLevel, letters } from './surface.js';
import { refuse } from './vocabulary.js';

/** The pattern of GPT-2, by which ByteLevel splits. */
export const WORDS =
  "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";

/** @param {string} pattern */
export function isolate(pattern) {
  return { type: 'Split', pattern: { Regex: pattern }, behavior: 'Isolated', invert: false };
}

/**
 * @param {import('./shapes.js').TokenizerFile} file
 * @returns {import('./shapes.js').TokenizerFile} one that means the same
 */
export function translate(file) {
  const { normalizer, pre_tokenizer, decoder } = file;
  for (const [key, part] of Object.entries({ normalizer, pre_tokenizer, decoder })) {
    checkPatterns(part, key);
  }
  if (!file.pre_tokenizer) return file;
  const stages = [file.pre_tokenizer].flatMap(translateStage);
  return { ...file, pre_tokenizer: sequence([...stages, ...dropUnknown(file)]) };
}

/**
 * A stage that takes away the letters of bytes for which a vocabulary has no token.
 * @param {import('./shapes.js').TokenizerFile} file
 */
function dropUnknown({ model, pre_tokenizer: stage }) {
  if (model?.type !== 'BPE' || (model.unk_token ?? null) !== null) return [];
  if (!isByteLevel({ pre_tokenizer: stage })) return [];
  const missing = [...letters.keys()].filter((letter) => !Object.hasOwn(model.vocab, letter));
  if (missing.length === 0) return [];
  const codes = missing.map((letter) => `\\u{${letter.charCodeAt(0).toString(16)}}`);
  return [{ type: 'Replace', pattern: { Regex: `[${codes.join('')}]` }, content: '' }];
}

/** @param {import('./shapes.js').Stage[]} pretokenizers */
function sequence(pretokenizers) {
  return pretokenizers.length === 1 ? pretokenizers[0] : { type: 'Sequence', pretokenizers };
}

/**
 * @param {import('./shapes.js').Stage} stage
 * @returns {import('./shapes.js').Stage[]}
 */
function translateStage(stage) {
  if (stage?.type === 'Sequence' && Array.isArray(stage.pretokenizers)) {
    return stage.pretokenizers.flatMap(translateStage);
  }
  if (stage?.type === 'ByteLevel') return translateByteLevel(stage);
  if (stage?.type === 'Digits') return [isolate(stage.individual_digits ? '\\p{N}' : '\\p{N}+')];
  if (stage?.type === 'Split') return [translateSplit(stage)];
  if (stage?.type === 'FixedLength') checkLength(stage.length);
  return [stage];
}

/** @param {unknown} length of the pieces; the library would cut empty pieces without end */
function checkLength(length) {
  if (Number.isInteger(length) && Number(length) > 0) return;
  refuse('pre_tokenizer.length', `expected a length above 0, got ${JSON.stringify(length)}`);
}

/** @param {import('./shapes.js').Stage} stage */
function translateByteLevel(stage) {
  // A space is put before a piece that does not begin with one, and that before the piece is split. A
  // character must follow: V8 finds the empty text of (?! ) between the halves of an emoji, too.
  const prefix = { type: 'Replace', pattern: { Regex: '\\A(?=[^ ])' }, content: ' ' };
  return [
    ...(stage.add_prefix_space === true ? [prefix] : []),
    ...(stage.use_regex === false ? [] : [isolate(WORDS)]),
    { ...stage, add_prefix_space: false, use_regex: false },
  ];
}

/** To join what lies between matches to the match before is to join a match to what comes next. */
const INVERTED = /** @type {Record<string, string>} */ ({
  MergedWithPrevious: 'MergedWithNext',
  MergedWithNext: 'MergedWithPrevious',
});

/**
 * Looks at every pattern of a stage and of those within: the library takes what it does not know for
 * none.
 * @param {unknown} stage
 * @param {string} where
 */
function checkPatterns(stage, where) {
  if (!stage || typeof stage !== 'object') return;
  const { type, pattern } = /** @type {import('./shapes.js').Stage} */ (stage);
  if (type === 'Split' || type === 'Replace') sourceOf(pattern, where);
  for (const [key, inner] of Object.entries(stage)) checkPatterns(inner, `${where}.${key}`);
}

/** @param {import('./shapes.js').Stage} stage */
function translateSplit(stage) {
  const source = sourceOf(stage.pattern, 'pre_tokenizer');
  switch ((stage.invert && INVERTED[stage.behavior ?? '']) || stage.behavior) {
    case 'Isolated':
      return isolate(source);
    case 'Contiguous':
      return isolate(`(?:${source})+`);
    case 'MergedWithPrevious':
      return isolate(`[\\s\\S]*?(?:${source})|[\\s\\S]+`);
    case 'MergedWithNext':
      return isolate(`(?:${source})(?:(?!${source})[\\s\\S])*|(?:(?!${source})[\\s\\S])+`);
    case 'Removed':
      return { ...stage, pattern: { Regex: source } };
    default:
      return refuse('pre_tokenizer.behavior', `expected a way to split, got "${stage.behavior}"`);
  }
}

/**
 * @param {import('./shapes.js').Stage['pattern']} pattern
 * @param {string} where
 * @returns {string}
 */
function sourceOf(pattern, where) {
  if (typeof pattern?.Regex === 'string') {
    return pattern.Regex.replaceAll("(?i:'s|", "(?i:'s|'\u017f|");
  }
  if (typeof pattern?.String !== 'string') {
    refuse(`${where}.pattern`, `expected a Regex or a String, got ${JSON.stringify(pattern)}`);
  }
  return pattern.String.replace(/[\\^$.*+?()[\]{}|]/g, '\\$&');
}

const strict = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

/** Each byte of what is no UTF-8 reads as U+FFFD. */
const byteReader = {
  /** @param {Uint8Array} bytes */
  decode(bytes) {
    try {
      return strict.decode(bytes);
    } catch {
      return '\ufffd'.repeat(bytes.length);
    }
  },
};

/** @typedef {{ config?: { type?: string }, text_decoder?: unknown, decoders?: Reader[] }} Reader */
/**
 * @typedef {{ tokenize_chinese_chars?: (text: string) => string, normalizers?: Normalizer[] }} Normalizer
 */
/**
 * @typedef {{ config?: { type?: string }, unk_token?: string, tokens_to_ids: Map<string, number>,
 *   encode: (words: string[]) => string[] }} Model
 */

/** The blocks of Chinese characters that BERT's own code lists. */
const CHINESE =
  /[\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\u{20000}-\u{2a6df}\u{2a700}-\u{2ceaf}\u{2f800}-\u{2fa1f}]/gu;

/**
 * Has BertNormalizer put spaces around every Chinese character.
 * @param {Normalizer | null | undefined} normalizer of the library
 */
export function mendNormalizer(normalizer) {
  if (normalizer?.tokenize_chinese_chars) {
    normalizer.tokenize_chinese_chars = (text) => text.replace(CHINESE, ' $& ');
  }
  for (const stage of normalizer?.normalizers ?? []) mendNormalizer(stage);
}

/**
 * Has WordPiece keep a word that its vocabulary lacks: the token for the unknown, which the library
 * returns instead, does not say which characters it covers.
 * @param {Model} model of the library
 */
export function mendModel(model) {
  if (model.config?.type !== 'WordPiece') return;
  const encode = model.encode.bind(model);
  model.encode = (words) =>
    words.flatMap((word) => {
      const pieces = encode([word]);
      // A word that is too long for the model may be a token nevertheless.
      const isLacking = pieces[0] === model.unk_token && !model.tokens_to_ids.has(word);
      return pieces.length === 1 && isLacking ? [word] : pieces;
    });
}

/**
 * Gives the stages that read single bytes a reader of their own: no words of tokenizer.json do.
 * @param {Reader | null | undefined} decoder of the library
 */
export function mendDecoder(decoder) {
  if (decoder?.config?.type === 'ByteFallback') decoder.text_decoder = byteReader;
  for (const stage of decoder?.decoders ?? []) mendDecoder(stage);
}
