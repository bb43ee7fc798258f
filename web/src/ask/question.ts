/**
 * The question that every subject answers: the source of the prompts (the reader's text, held-out passages, a file,
 * random tokens: the inputs of the paper's table 1), their start token, their length and their number.
 */
import {
  sha256,
  type AnyTokenizer as Tokenizer,
  type SpecialToken,
  type Splitting,
  type Token,
} from 'sinkscope';
import { cutText, cutTokens, splitText } from 'sinkscope/internal';
import { namePart } from '../parts';
import { InputError } from './errors';
import { PROMPT_MAX, QUESTION, type State } from './state';
import type { Zoo } from './zoo';

export type Question = Pick<State, (typeof QUESTION)[number]> & {
  /** Changes with each new file of prompts and each new way of splitting the file. */
  readonly file: number;
  /** Predicts each token from this many tokens before it, in a run of its own; absent: all tokens in one run. */
  readonly window?: number | undefined;
  /** `first`: the start token is repeated; absent: a random token. */
  readonly repeatedToken?: 'first';
  /** The token ids of the only prompt, if it is no text that the reader typed, such as one with generated tokens. */
  readonly ids?: readonly number[];
};

export function questionOf(state: State, file = 0): Question {
  const settings = Object.fromEntries(QUESTION.map((name) => [name, state[name]]));
  return { ...settings, file: state.input === 'file' ? file : 0 } as unknown as Question;
}

/** Returns a key that questions with equal answers share: settings that the input does not use are left out. */
export function questionKey({ prompt, seed, ...rest }: Question): string {
  const isRandom = rest.input === 'random' || rest.input === 'repeat';
  return JSON.stringify([rest, rest.input === 'text' && prompt, isRandom && seed]);
}

export const INPUTS: Readonly<Record<State['input'], string>> = {
  text: 'your text',
  heldout: 'held-out passages',
  random: 'random tokens',
  repeat: 'one token repeated',
  file: 'your file of prompts',
};

const NO_TEXT = 'Type a sentence: there is no text yet.';
const NO_FILE = 'Choose a file of prompts: links do not contain files.';

/** Whether the reader has given no input yet, so that trying again does not help. */
export const isInputMissing = (error: string): boolean => error === NO_TEXT || error === NO_FILE;

/** Returns a generator of random numbers from 0 to 1 (mulberry32), whose seed gives the same draws on every machine. */
export function randomGenerator(seed: number): () => number {
  let a = seed >>> 0;
  return () => {
    a = (a + 0x6d2b79f5) | 0;
    let t = Math.imul(a ^ (a >>> 15), 1 | a);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  };
}

function drawId(size: number, special: ReadonlySet<number>, draw: () => number): number {
  for (let tries = 0; tries < 1000; tries++) {
    const id = Math.floor(draw() * size);
    if (!special.has(id)) return id;
  }
  return 0;
}

function drawSequence(
  tokenizer: Tokenizer,
  { input, T, repeatedToken }: Question,
  { before, after }: Affixes,
  seed: number,
  vocabulary: number,
): Token[] {
  const draw = randomGenerator(seed);
  // A tokenizer may have tokens beyond the model's embedding.
  const size = Math.min(tokenizer.size, vocabulary);
  const special = new Set(tokenizer.special);
  const repeatedId = (repeatedToken && before.at(-1)?.id) ?? drawId(size, special, draw);
  const drawnTokens = Array.from({ length: T - before.length - after.length }, () =>
    tokenOf(tokenizer, input === 'repeat' ? repeatedId : drawId(size, special, draw)),
  );
  return [...before, ...drawnTokens, ...after].slice(0, T);
}

type Affixes = ReturnType<typeof affixesOf>;

/** Returns the special tokens before and after the others. */
function affixesOf(tokens: readonly Token[]) {
  const prefix = tokens.slice(0, startTokens(tokens).length);
  const end = tokens.findLastIndex(({ special }) => !special) + 1;
  return { before: prefix, after: tokens.slice(Math.max(end, prefix.length)) };
}

async function affixesOfText(tokenizer: Tokenizer, special: Special): Promise<Affixes> {
  const emptyTokens = await tokenizer.encode('', { special });
  return affixesOf(emptyTokens.length ? await tokenizer.encode('a', { special }) : []);
}

function tokensOf(
  tokenizer: Tokenizer,
  ids: readonly number[],
  { before, after }: Affixes,
): Token[] {
  const end = ids.length - after.length;
  return ids.map((id, t) => tokenOf(tokenizer, id, t < before.length || t >= end));
}

function tokenOf(tokenizer: Tokenizer, id: number, isSpecial = false): Token {
  return { id, text: tokenizer.piece(id), start: 0, end: 0, special: isSpecial };
}

export interface SpecialWords {
  /** The special tokens that the tokenizer's own post-processor prepends. */
  readonly automatic: readonly string[];
  readonly bos: string | null;
  /** Special tokens that a text may start with; those with a role come first. */
  readonly choices: readonly string[];
}

/** The most special tokens to choose from, since some vocabularies have hundreds of unused ones. */
const MAX_CHOICES = 40;

const specialWordsCache = new WeakMap<Tokenizer, SpecialWords>();

export async function specialWords(tokenizer: Tokenizer): Promise<SpecialWords> {
  const words = specialWordsCache.get(tokenizer) ?? (await readSpecials(tokenizer));
  specialWordsCache.set(tokenizer, words);
  return words;
}

async function readSpecials(tokenizer: Tokenizer): Promise<SpecialWords> {
  const { specials, bos } = tokenizer;
  const hasRole = ({ kind }: SpecialToken) => kind !== 'other';
  const sortedSpecials = [
    ...specials.filter(hasRole),
    ...specials.filter((token) => !hasRole(token)),
  ];
  return {
    automatic: (await affixesOfText(tokenizer, 'auto')).before.map(({ text }) => text),
    bos:
      specials.find(({ id }) => id === bos)?.text ?? (bos === null ? null : tokenizer.piece(bos)),
    choices: sortedSpecials.slice(0, MAX_CHOICES).map(({ text }) => text),
  };
}

export function startTokens(tokens: readonly Token[]): string[] {
  const end = tokens.findIndex(({ special }) => !special);
  return tokens.slice(0, end < 0 ? tokens.length : end).map(({ text }) => text);
}

/** Returns the tokenizer's option for the key `first` of a link; 'auto' where the requested token is missing. */
export async function specialOption(
  tokenizer: Tokenizer,
  first: string,
): Promise<'auto' | 'none' | string[]> {
  if (first === 'none') return first;
  if (first && tokenizer.specials.some(({ text }) => text === first)) return [first];
  const { automatic, bos } = await specialWords(tokenizer);
  return first === 'bos' && bos !== null && automatic[0] !== bos ? [bos] : 'auto';
}

type Special = Awaited<ReturnType<typeof specialOption>>;

export interface Prompts {
  readonly tokens: readonly Token[];
  /** How many tokens of the text are in no prompt, and so are not run. */
  readonly dropped: number;
  /** The token ids of all prompts, the first one included, which all have the same length. */
  readonly ids: readonly (readonly number[])[];
  /** How many of the last tokens are generated; absent: none. */
  readonly generated?: number;
}

async function promptsOfText(
  tokenizer: Tokenizer,
  question: Question,
  special: Special,
): Promise<Prompts> {
  const { prompt } = question;
  if (prompt.length > PROMPT_MAX)
    throw new InputError(
      `The text has ${prompt.length.toLocaleString('en')} characters; expected at most ` +
        `${PROMPT_MAX.toLocaleString('en')}.`,
    );
  if (!prompt.trim()) throw new InputError(NO_TEXT);
  return cutPrompts(tokenizer, prompt, question, special);
}

/** Names each of several tokens that are bytes of one character by this character and its part: “注 2/3”. */
function nameParts(tokens: readonly Token[], text: string): Token[] {
  const isByte = ({ text: piece, start, end }: Token) => piece.includes('\ufffd') && start < end;
  /** The bytes of each character. */
  const groups: Token[][] = [];
  for (const token of tokens) {
    const last = groups.at(-1)?.at(-1);
    const continues = last && isByte(last) && isByte(token) && token.start < last.end;
    if (continues) groups.at(-1)!.push(token);
    else groups.push([token]);
  }
  return groups.flatMap((group) =>
    group.map((token, i) => {
      if (!isByte(token)) return token;
      const character = text.slice(token.start, token.end);
      const { length } = group;
      return { ...token, text: length > 1 ? namePart(character, i + 1, length) : character };
    }),
  );
}

/** Cuts a text into prompts of T tokens; a shorter text is one prompt. */
async function cutPrompts(
  tokenizer: Tokenizer,
  text: string,
  { T, n }: Question,
  special: Special,
): Promise<Prompts> {
  const encoded = await tokenizer.encode(text, { special });
  const { before, after } = affixesOf(encoded);
  const length = Math.max(Math.min(T, encoded.length), before.length + after.length + 1);
  const allTokens = nameParts(encoded, text);
  const [firstPrompt = allTokens, ...others] = cutTokens(allTokens, length, n);
  const tokens = firstPrompt.slice(0, T);
  const ids = [tokens, ...others].map((prompt) => prompt.map(({ id }) => id));
  const ownLength = length - before.length - after.length;
  const dropped = allTokens.length - tokens.length - others.length * ownLength;
  return { tokens, dropped, ids };
}

/**
 * @param context the largest number of tokens that the model can read
 * @param texts the texts from which prompts are cut, for inputs that consist of texts
 * @param vocabulary the number of tokens of the model, among which tokens are drawn
 * @throws InputError, SinkscopeError where there is nothing to run
 */
export async function promptsOf(
  tokenizer: Tokenizer,
  question: Question,
  context: number,
  texts: readonly string[],
  vocabulary = Infinity,
): Promise<Prompts> {
  const T = Math.min(question.T, context);
  const boundedQuestion = { ...question, T };
  const special = await specialOption(tokenizer, question.first);
  if (question.ids) {
    const tokens = tokensOf(tokenizer, question.ids, await affixesOfText(tokenizer, special));
    return { tokens, dropped: 0, ids: [question.ids] };
  }
  if (question.input === 'text') return promptsOfText(tokenizer, boundedQuestion, special);
  const affixes = await affixesOfText(tokenizer, special);
  if (question.input === 'random' || question.input === 'repeat') {
    const prompts = Array.from({ length: question.n }, (_, i) =>
      drawSequence(tokenizer, boundedQuestion, affixes, question.seed + i, vocabulary),
    );
    return {
      tokens: prompts[0]!,
      dropped: 0,
      ids: prompts.map((prompt) => prompt.map(({ id }) => id)),
    };
  }
  if (!texts.length) throw new InputError(NO_FILE);
  if (texts.length === 1)
    return { ...(await cutPrompts(tokenizer, texts[0]!, boundedQuestion, special)), dropped: 0 };
  const ids = await cutText(tokenizer, texts, { tokens: T, sequences: question.n, special });
  return { tokens: tokensOf(tokenizer, ids[0]!, affixes), dropped: 0, ids };
}

/** A file of prompts, which never leaves this machine. */
export interface PromptFile {
  readonly name: string;
  readonly text: string;
  readonly splitting: Splitting;
  /** The SHA-256 of the file's bytes in hex; undefined if the browser cannot compute it. */
  readonly sha256?: string;
}

/** In bytes. A file of this size has more prompts than any study runs. */
const FILE_MAX = 20_000_000;

/** Returns the texts that prompts are cut from; none if prompts are the reader's text or random tokens. */
export async function textsOf(
  { input, T }: Question,
  zoo: Pick<Zoo, 'heldOut'>,
  file: PromptFile | undefined,
): Promise<readonly string[]> {
  if (input === 'heldout') return zoo.heldOut(T);
  return input === 'file' && file ? splitText(file.text, file.splitting) : [];
}

/** Returns `blocks` if blank lines separate blocks of several lines, else `lines`. */
export function guessSplitting(text: string): Splitting {
  const blocks = splitText(text, 'blocks');
  return blocks.length > 1 && blocks.some((block) => block.includes('\n')) ? 'blocks' : 'lines';
}

/** @throws InputError if the file is not text or is too long */
export async function readPrompts(file: File): Promise<PromptFile> {
  if (file.size > FILE_MAX)
    throw new InputError(
      `${file.name}: expected at most ${FILE_MAX.toLocaleString('en')} bytes of text, found ` +
        `${file.size.toLocaleString('en')}.`,
    );
  const bytes = new Uint8Array(await file.arrayBuffer());
  let text: string;
  try {
    text = new TextDecoder('utf-8', { fatal: true }).decode(bytes);
  } catch {
    throw new InputError(`${file.name}: expected UTF-8 text, found other bytes.`);
  }
  if (!text.trim()) throw new InputError(`${file.name}: expected prompts, found an empty file.`);
  return { name: file.name, text, splitting: guessSplitting(text), sha256: await sha256(bytes) };
}
