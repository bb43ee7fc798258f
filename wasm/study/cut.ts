/** Cuts files into texts, and texts into sequences of equal length. */
import { SinkscopeError, expect, expectInteger, argumentError } from '../abi/errors.ts';
import { tokenNotes } from '../text/notes.ts';
import { check, checkList, checkOptions } from '../abi/arguments.ts';
import type { AnyTokenizer, Token } from '../text/types.ts';
import type { CutOptions, Splitting } from './types.ts';

const SEPARATORS: Readonly<Record<Splitting, RegExp>> = {
  lines: /\n/,
  blocks: /\n(?:[ \t]*\n)+/,
  whole: /$/,
};

/**
 * Splits the text of a file: into its lines, into its blocks, between which lines are blank, or not at all.
 * Blank texts and the line breaks around a text are left out; its spaces stay. `sinkscope.texts` in Python
 * splits by the same rule.
 * @example const texts = splitText(await file.text(), 'blocks');
 */
export function splitText(text: string, splitting: Splitting): string[] {
  check(text, 'text', 'text');
  check(splitting, 'text', 'splitting');
  const content = text.replace(/^\ufeff/, '').replace(/\r\n?/g, '\n');
  if (!Object.hasOwn(SEPARATORS, splitting))
    throw argumentError('splitting', "'lines', 'blocks' or 'whole'", splitting);
  return content
    .split(SEPARATORS[splitting])
    .map((part) => part.replace(/^\n+|(?<!\n)\n+$/g, ''))
    .filter((part) => /[^ \t\n]/.test(part));
}

/**
 * Cuts the tokens of one text into consecutive sequences of `length` tokens and drops the rest. Each
 * sequence has the special tokens that the text begins and ends with.
 * @example const [first] = cutTokens(await tokenizer.encode(text), 64);
 */
export function cutTokens(
  tokens: readonly Token[],
  length: number,
  countMax = Infinity,
): Token[][] {
  checkList(tokens, 'object', 'tokens');
  expectInteger(length, 1, 2 ** 31, 'length');
  if (countMax !== Infinity) expectInteger(countMax, 1, 2 ** 31, 'countMax');
  const start = tokens.findIndex(({ special }) => !special);
  if (start < 0) return [];
  const end = tokens.findLastIndex(({ special }) => !special) + 1;
  const room = length - start - (tokens.length - end);
  expect(room > 0, 'length', `more than the ${length - room} special tokens`, length);
  const count = Math.min(countMax, Math.floor((end - start) / room));
  return Array.from({ length: count }, (_, i) => [
    ...tokens.slice(0, start),
    ...tokens.slice(start + i * room, start + (i + 1) * room),
    ...tokens.slice(end),
  ]);
}

/**
 * Cuts a text into sequences of equal length and drops the rest. Each text of an array yields one
 * sequence, which is the beginning of the text. Each sequence includes the special tokens that the
 * tokenizer adds to a text.
 * @throws SinkscopeError 'argument' if no text is long enough
 * @example const sequences = await cutText(tokenizer, text, { tokens: 64, sequences: 100 });
 */
export async function cutText(
  tokenizer: AnyTokenizer,
  text: string | readonly string[],
  options: CutOptions,
): Promise<number[][]> {
  check(tokenizer, 'tokenizer', 'tokenizer');
  if (typeof text !== 'string') checkList(text, 'text', 'text');
  checkOptions(options, { lines: 'flag', onCut: 'call' });
  const { tokens, sequences, special = 'auto', lines = false, onCut } = options;
  expectInteger(tokens, 1, 2 ** 31, 'tokens');
  expectInteger(sequences, 1, 2 ** 31, 'sequences');
  const isOneText = typeof text === 'string' && !lines;
  const pieces = isOneText ? [text] : typeof text === 'string' ? splitText(text, 'lines') : text;
  const results: number[][] = [];
  const { length: specialTokens } = await tokenizer.encode('', { special });
  const room = tokens - specialTokens;
  expect(room > 0, 'tokens', `more than the ${specialTokens} special ones`, tokens);
  let texts = 0;
  let read = 0;
  let short = 0;
  let longest = 0;
  let notes: string[] | undefined;
  for (const piece of pieces) {
    const encodedTokens = await tokenizer.encode(piece, { special });
    for (const sequence of cutTokens(encodedTokens, tokens, isOneText ? sequences : 1))
      results.push(sequence.map(({ id }) => id));
    notes ??= tokenNotes(encodedTokens);
    const { length } = encodedTokens.filter((token) => !token.special);
    texts++;
    read += length;
    longest = Math.max(longest, length);
    if (length < room) short++;
    if (results.length === sequences) break;
  }
  const counts = { asked: sequences, sequences: results.length, room, read, short, longest };
  onCut?.({ ...counts, notes: notes ?? [], ...(!isOneText && { texts }) });
  if (results.length > 0) return results;
  const expected = `expected a ${lines ? 'line' : 'text'} of at least ${room} tokens, found ${longest}`;
  throw new SinkscopeError('argument', 'text', `${expected}${texts > 1 ? ' in the longest' : ''}`);
}
