/** The decoders of a tokenizer.json, which join tokens to a text. */
import { compile } from './patterns.js';
import { letters } from './surface.js';
import { eachOf, refuse, rowOf } from './vocabulary.js';

/** @typedef {import('./shapes.js').Stage} Stage */
/** @typedef {(tokens: string[]) => string[]} Decoder */

const encoder = new TextEncoder();
const lossy = new TextDecoder('utf-8', { ignoreBOM: true });
const strict = new TextDecoder('utf-8', { ignoreBOM: true, fatal: true });

/**
 * @param {Stage | null | undefined} stage
 * @param {string} [where]
 * @returns {Decoder}
 */
export function createDecoder(stage, where = 'decoder') {
  if (stage === null || stage === undefined) return (tokens) => [tokens.join(' ')];
  return rowOf(DECODERS, 'decoder', stage)(stage, where);
}

/** @type {Record<string, (stage: Stage, where: string) => Decoder>} */
const DECODERS = {
  Sequence({ decoders }, where) {
    const stages = eachOf(decoders, `${where}.decoders`, createDecoder);
    return (tokens) => stages.reduce((read, decode) => decode(read), tokens);
  },
  ByteLevel: () => (tokens) => [lossy.decode(Uint8Array.from(tokens.flatMap(bytesOf)))],
  ByteFallback: () => readBytes,
  Fuse: () => (tokens) => [tokens.join('')],
  Replace({ pattern, content }, where) {
    const match = compile(pattern, where);
    const replacement =
      typeof content === 'string' ? content : refuse(`${where}.content`, 'expected text');
    const replace = (/** @type {string} */ token) =>
      match(token)
        .map(([start, end, isMatch]) => (isMatch ? replacement : token.slice(start, end)))
        .join('');
    return (tokens) => tokens.map(replace);
  },
  Strip:
    ({ content, start, stop }) =>
    (tokens) =>
      tokens.map((token) => {
        const characters = [...token];
        const isOther = (/** @type {string} */ character) => character !== content;
        const first = lead(characters.slice(0, Number(start)), isOther);
        const last = lead([...characters].reverse().slice(0, Number(stop)), isOther);
        return characters.slice(first, characters.length - last).join('');
      }),
  Metaspace: ({ replacement = '\u2581', prepend_scheme, add_prefix_space }) => {
    const keepsFirst = prepend_scheme === 'never' || add_prefix_space === false;
    return (tokens) =>
      tokens.map((token, i) => token.replaceAll(replacement, i === 0 && !keepsFirst ? '' : ' '));
  },
  BPEDecoder:
    ({ suffix = '</w>' }) =>
    (tokens) =>
      tokens.map((token, i) => token.replaceAll(suffix, i === tokens.length - 1 ? '' : ' ')),
  WordPiece:
    ({ prefix = '##', cleanup }) =>
    (tokens) =>
      tokens.map((token, i) => {
        const isFollowing = i > 0 && token.startsWith(prefix);
        const text = isFollowing ? token.slice(prefix.length) : i > 0 ? ` ${token}` : token;
        return cleanup ? tidy(text) : text;
      }),
  CTC:
    ({ pad_token = '<pad>', word_delimiter_token = '|', cleanup }) =>
    (tokens) =>
      tokens
        .filter((token, i) => token !== tokens[i - 1])
        .map((token) => {
          const text = token.replaceAll(pad_token, '');
          return cleanup ? tidy(text).replaceAll(word_delimiter_token, ' ') : text;
        })
        .filter((token) => token !== ''),
};

/**
 * Counts leading characters for which `isSo` is false.
 * @param {readonly string[]} characters
 * @param {(character: string) => boolean} isSo
 */
function lead(characters, isSo) {
  const first = characters.findIndex(isSo);
  return first < 0 ? characters.length : first;
}

/** @param {string} token is read as byte letters if it consists of them, else as UTF-8 */
function bytesOf(token) {
  const bytes = Array.from(token, (letter) => letters.get(letter));
  return bytes.every((byte) => byte !== undefined) ? bytes : [...encoder.encode(token)];
}

/** Reads bytes as UTF-8; invalid bytes become U+FFFD each. @type {Decoder} */
function readBytes(tokens) {
  /** @type {string[]} */
  const texts = [];
  /** @type {number[]} */
  let bytes = [];
  const close = () => {
    if (bytes.length > 0) texts.push(...decodeBytes(Uint8Array.from(bytes)));
    bytes = [];
  };
  for (const token of tokens) {
    const byte = /^<0x([0-9A-Fa-f]{2})>$/.exec(token);
    if (byte) bytes.push(parseInt(byte[1], 16));
    else {
      close();
      texts.push(token);
    }
  }
  close();
  return texts;
}

/** @param {Uint8Array} bytes */
function decodeBytes(bytes) {
  try {
    return [strict.decode(bytes)];
  } catch {
    return Array.from(bytes, () => '\ufffd');
  }
}

/**
 * BERT's decoder removes spaces before punctuation like this. @type {readonly (readonly [string,
 * string])[]}
 */
const JOINED = [
  [' .', '.'],
  [' ?', '?'],
  [' !', '!'],
  [' ,', ','],
  [" ' ", "'"],
  [" n't", "n't"],
  [" 'm", "'m"],
  [' do not', " don't"],
  [" 's", "'s"],
  [" 've", "'ve"],
  [" 're", "'re"],
];

/** @param {string} text */
function tidy(text) {
  return JOINED.reduce((tidied, [spaced, joined]) => tidied.replaceAll(spaced, joined), text);
}
