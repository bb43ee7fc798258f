/** The decoders of a tokenizer.json, which join tokens to a text. */
import { compile } from './patterns.ts';
import { byteOfLetter } from './surface.ts';
import { createStages, refuse, findRow } from './vocabulary.ts';
import type { Stage } from './shapes.ts';

type Decoder = (tokens: string[]) => string[];

const encoder = new TextEncoder();
const lossyDecoder = new TextDecoder('utf-8', { ignoreBOM: true });
const strictDecoder = new TextDecoder('utf-8', { ignoreBOM: true, fatal: true });

export function createDecoder(stage: Stage | null | undefined, where: string = 'decoder'): Decoder {
  if (stage === null || stage === undefined) return (tokens) => [tokens.join(' ')];
  return findRow(DECODERS, 'decoder', stage)(stage, where);
}

const DECODERS: Record<string, (stage: Stage, where: string) => Decoder> = {
  Sequence({ decoders }, where) {
    const stages = createStages(decoders, `${where}.decoders`, createDecoder);
    return (tokens) => stages.reduce((texts, decode) => decode(texts), tokens);
  },
  ByteLevel: () => (tokens) => [lossyDecoder.decode(Uint8Array.from(tokens.flatMap(bytesOf)))],
  ByteFallback: () => decodeByteTokens,
  Fuse: () => (tokens) => [tokens.join('')],
  Replace({ pattern, content }, where) {
    const match = compile(pattern, where);
    const replacement =
      typeof content === 'string' ? content : refuse(`${where}.content`, 'expected text');
    const replace = (token: string) =>
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
        const isOther = (character: string) => character !== content;
        const startCount = countUntil(characters.slice(0, Number(start)), isOther);
        const endCount = countUntil([...characters].reverse().slice(0, Number(stop)), isOther);
        return characters.slice(startCount, characters.length - endCount).join('');
      }),
  Metaspace: ({ replacement = '\u2581', prepend_scheme, add_prefix_space }) => {
    const keepsFirstSpace = prepend_scheme === 'never' || add_prefix_space === false;
    return (tokens) =>
      tokens.map((token, i) =>
        token.replaceAll(replacement, i === 0 && !keepsFirstSpace ? '' : ' '),
      );
  },
  BPEDecoder:
    ({ suffix = '</w>' }) =>
    (tokens) =>
      tokens.map((token, i) => token.replaceAll(suffix, i === tokens.length - 1 ? '' : ' ')),
  WordPiece:
    ({ prefix = '##', cleanup }) =>
    (tokens) =>
      tokens.map((token, i) => {
        const isContinuation = i > 0 && token.startsWith(prefix);
        const text = isContinuation ? token.slice(prefix.length) : i > 0 ? ` ${token}` : token;
        return cleanup ? cleanText(text) : text;
      }),
  CTC:
    ({ pad_token = '<pad>', word_delimiter_token = '|', cleanup }) =>
    (tokens) =>
      tokens
        .filter((token, i) => token !== tokens[i - 1])
        .map((token) => {
          const text = token.replaceAll(pad_token, '');
          return cleanup ? cleanText(text).replaceAll(word_delimiter_token, ' ') : text;
        })
        .filter((token) => token !== ''),
};

function countUntil(characters: readonly string[], matches: (character: string) => boolean) {
  const index = characters.findIndex(matches);
  return index < 0 ? characters.length : index;
}

function bytesOf(token: string) {
  const bytes = Array.from(token, (letter) => byteOfLetter.get(letter));
  return bytes.every((byte) => byte !== undefined) ? bytes : [...encoder.encode(token)];
}

/** Replaces runs of byte tokens by their text; if that is not UTF-8, each byte by U+FFFD. */
function decodeByteTokens(tokens: readonly string[]) {
  const texts: string[] = [];
  let bytes: number[] = [];
  const addRun = () => {
    if (bytes.length > 0) texts.push(...decodeBytes(Uint8Array.from(bytes)));
    bytes = [];
  };
  for (const token of tokens) {
    const match = /^<0x([0-9A-Fa-f]{2})>$/.exec(token);
    if (match) bytes.push(parseInt(match[1], 16));
    else {
      addRun();
      texts.push(token);
    }
  }
  addRun();
  return texts;
}

function decodeBytes(bytes: Uint8Array) {
  try {
    return [strictDecoder.decode(bytes)];
  } catch {
    return Array.from(bytes, () => '\ufffd');
  }
}

/** Removes spaces before punctuation and endings, as the decoder of BERT does. */
const CLEANUP_REPLACEMENTS: readonly (readonly [string, string])[] = [
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

function cleanText(text: string) {
  return CLEANUP_REPLACEMENTS.reduce(
    (cleanedText, [spaced, joined]) => cleanedText.replaceAll(spaced, joined),
    text,
  );
}
