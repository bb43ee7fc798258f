/** Converts between a vocabulary's tokens and what they stand for: bytes or text. */

/**
 * The 256 letters that byte-level vocabularies use for bytes: printable ones stand for themselves.
 */
export const letters = byteLetters();

/** @returns {Map<string, number>} */
function byteLetters() {
  const table = new Map();
  let next = 256;
  for (let byte = 0; byte < 256; byte++) {
    const printable = (byte > 32 && byte < 127) || (byte > 160 && byte !== 173);
    table.set(String.fromCharCode(printable ? byte : next++), byte);
  }
  return table;
}

const lettersOfBytes = [...letters.keys()];
const encoder = new TextEncoder();

/**
 * Spells a token in byte letters; some vocabularies hold added text that is not yet spelled.
 * @param {string} token
 */
export function spell(token) {
  return [...token].every((letter) => letters.has(letter)) ? token : spellBytes(token);
}

/**
 * Returns the letters of a text's bytes.
 * @param {string} text
 */
export function spellBytes(text) {
  if (text.length === 1 && text < '\x80') return lettersOfBytes[text.charCodeAt(0)];
  return Array.from(encoder.encode(text), (byte) => lettersOfBytes[byte]).join('');
}

/**
 * Returns a function from tokens to their surfaces: a Uint8Array for tokens made of bytes, which
 * may hold a part of a character, else a string.
 * @param {import('./shapes.js').TokenizerFile} file
 * @param {Iterable<{ content: string, normalized?: boolean }>} added tokens, whose content is their
 * text; the tokenizer searches for a normalized one among block signs, so it may contain some
 * @returns {(token: string) => Uint8Array | string}
 */
export function createSurface(file, added) {
  const prefix = file.model.continuing_subword_prefix ?? '';
  const suffix = file.model.end_of_word_suffix ?? '';
  const isBytes = isByteLevel(file);
  const blocks = hasBlocks(file);
  const literal = [...added].filter(({ normalized }) => isBytes || !normalized);
  const names = new Set(literal.map(({ content }) => content));
  const read = isBytes
    ? readLetters
    : (/** @type {string} */ token) => readText(token, prefix, suffix, blocks);
  return (token) => (names.has(token) ? token : read(token));
}

/**
 * Tells whether tokens consist of bytes written as letters.
 * @param {Pick<import('./shapes.js').TokenizerFile, 'pre_tokenizer' | 'decoder'>} file
 */
export function isByteLevel(file) {
  const parts = [...stages(file.pre_tokenizer), ...stages(file.decoder)];
  return parts.some((part) => part?.type === 'ByteLevel');
}

/**
 * Tells whether tokens write a space as U+2581, as SentencePiece does.
 * @param {Pick<import('./shapes.js').TokenizerFile, 'model' | 'pre_tokenizer' | 'decoder'>} file
 */
export function hasBlocks(file) {
  return !isByteLevel(file) && file.model.type !== 'WordPiece';
}

/**
 * Lists a stage, or the stages of a sequence.
 * @param {import('./shapes.js').Stage | null | undefined} stage
 * @returns {(import('./shapes.js').Stage | null | undefined)[]}
 */
function stages(stage) {
  const inner = stage?.pretokenizers ?? stage?.decoders;
  return Array.isArray(inner) ? inner.flatMap(stages) : [stage];
}

/** @param {string} token */
function readLetters(token) {
  return Uint8Array.from(token, (letter) => Number(letters.get(letter)));
}

/**
 * @param {string} token
 * @param {string} prefix
 * @param {string} suffix
 * @param {boolean} blocks
 */
function readText(token, prefix, suffix, blocks) {
  const byte = /^<0x([0-9A-F]{2})>$/.exec(token);
  if (byte) return Uint8Array.of(parseInt(byte[1], 16));
  let text = blocks ? token.replaceAll('\u2581', ' ') : token;
  if (prefix && text.startsWith(prefix)) text = text.slice(prefix.length);
  if (suffix && text.endsWith(suffix)) text = text.slice(0, -suffix.length);
  return text;
}
