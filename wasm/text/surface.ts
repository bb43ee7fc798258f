/** Converts between a vocabulary's tokens and the bytes or text that they encode. */
import type { TokenizerFile, Stage } from './shapes.ts';

/** The bytes of byte-level vocabularies' 256 letters; printable ones represent themselves. */
export const byteOfLetter = createByteTable();

function createByteTable(): Map<string, number> {
  const table = new Map();
  let nextCode = 256;
  for (let byte = 0; byte < 256; byte++) {
    const isPrintable = (byte > 32 && byte < 127) || (byte > 160 && byte !== 173);
    table.set(String.fromCharCode(isPrintable ? byte : nextCode++), byte);
  }
  return table;
}

const lettersOfBytes = [...byteOfLetter.keys()];
const BYTE_LETTERS = /^[!-~\xa1-\xac\xae-\u0143]*$/;
/** The letters of printable ASCII characters and, as \u0120, of a space: most tokens have no others. */
const ASCII_LETTERS = /^[!-~\u0120]*$/;
const encoder = new TextEncoder();

/** Returns a token in byte letters; some vocabularies hold a few tokens as plain text instead. */
export const spellToken = (token: string) => (BYTE_LETTERS.test(token) ? token : spellBytes(token));

export function spellBytes(text: string) {
  if (text.length === 1 && text < '\x80') return lettersOfBytes[text.charCodeAt(0)];
  return Array.from(encoder.encode(text), (byte) => lettersOfBytes[byte]).join('');
}

/**
 * Returns a function from tokens to surfaces: bytes where they may hold a part of a character,
 * else a string. Block signs of normalized added tokens mean spaces, unless letters mean bytes.
 */
export function createSurfaceReader(
  file: TokenizerFile,
  addedTokens: Iterable<{ content: string; normalized?: boolean }>,
): (token: string) => Uint8Array | string {
  const prefix = file.model.continuing_subword_prefix ?? '';
  const suffix = file.model.end_of_word_suffix ?? '';
  const stages = [...listStages(file.pre_tokenizer), ...listStages(file.decoder)];
  const hasByteLetters = stages.some((stage) => stage?.type === 'ByteLevel');
  // Others than WordPiece write a space as U+2581, as SentencePiece does.
  const usesBlocks = file.model.type !== 'WordPiece';
  const literalTokens = [...addedTokens].filter(({ normalized }) => hasByteLetters || !normalized);
  const names = new Set(literalTokens.map(({ content }) => content));
  const readToken = hasByteLetters
    ? readLetters
    : (token: string) => readText(token, prefix, suffix, usesBlocks);
  return (token) => (names.has(token) ? token : readToken(token));
}

function listStages(stage: Stage | null | undefined): (Stage | null | undefined)[] {
  const innerStages = stage?.pretokenizers ?? stage?.decoders;
  return Array.isArray(innerStages) ? innerStages.flatMap(listStages) : [stage];
}

function readLetters(token: string) {
  if (ASCII_LETTERS.test(token)) return token.replaceAll('\u0120', ' ');
  return Uint8Array.from(token, (letter) => Number(byteOfLetter.get(letter)));
}

function readText(token: string, prefix: string, suffix: string, usesBlocks: boolean) {
  const match = /^<0x([0-9A-F]{2})>$/.exec(token);
  if (match) return Uint8Array.of(parseInt(match[1], 16));
  let text = usesBlocks ? token.replaceAll('\u2581', ' ') : token;
  if (prefix && text.startsWith(prefix)) text = text.slice(prefix.length);
  if (suffix && text.endsWith(suffix)) text = text.slice(0, -suffix.length);
  return text;
}
