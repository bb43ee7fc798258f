/** The three inputs of the paper's table 1: natural text, random tokens, one token repeated. */
import type { AnyTokenizer, SpecialToken, Token } from 'sinkscope';
import type { State } from './state';

/** mulberry32: the same draws on every machine, from a seed that a link carries. */
export function draws(seed: number): () => number {
  let a = seed >>> 0;
  return () => {
    a = (a + 0x6d2b79f5) | 0;
    let t = Math.imul(a ^ (a >>> 15), 1 | a);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  };
}

/** An id that stands for text, uniform over the vocabulary. */
function drawId(tokenizer: AnyTokenizer, draw: () => number): number {
  const special = new Set(tokenizer.special);
  for (let tries = 0; tries < 1000; tries++) {
    const id = Math.floor(draw() * tokenizer.size);
    if (!special.has(id)) return id;
  }
  return 0;
}

async function drawn(tokenizer: AnyTokenizer, state: State, seed: number): Promise<Token[]> {
  const draw = draws(seed);
  const begin = await tokenizer.encode('', { special: await specialOf(tokenizer, state) });
  const one = drawId(tokenizer, draw);
  const rest = Array.from({ length: Math.max(0, state.T - begin.length) }, () => {
    const id = state.input === 'repeat' ? one : drawId(tokenizer, draw);
    return { id, text: tokenizer.piece(id), start: 0, end: 0, special: false };
  });
  return [...begin, ...rest];
}

/** How a tokenizer treats special tokens, in words that the page shows. */
export interface SpecialWords {
  /** What its own post-processor puts first. */
  readonly automatic: readonly string[];
  /** Its BOS token; null where it has none. */
  readonly bos: string | null;
  /** What else may stand first; those with a purpose come first. */
  readonly choices: readonly string[];
}

/** Some vocabularies hold hundreds of tokens that were never used. */
const MOST_CHOICES = 40;

export async function specialWords(tokenizer: AnyTokenizer): Promise<SpecialWords> {
  const { specials, bos } = tokenizer;
  const isNamed = ({ kind }: SpecialToken) => kind !== 'other';
  const sorted = [...specials.filter(isNamed), ...specials.filter((one) => !isNamed(one))];
  return {
    automatic: firstTokens(await tokenizer.encode('', { special: 'auto' })),
    bos:
      specials.find(({ id }) => id === bos)?.text ?? (bos === null ? null : tokenizer.piece(bos)),
    choices: sorted.slice(0, MOST_CHOICES).map(({ text }) => text),
  };
}

/** The special tokens that stand before the text. */
export function firstTokens(tokens: readonly Token[]): string[] {
  const end = tokens.findIndex(({ special }) => !special);
  return tokens.slice(0, end < 0 ? tokens.length : end).map(({ text }) => text);
}

/**
 * A tokenizer that lacks the token that the state names puts its BOS token first, if it has one, and
 * what else it puts behind that by itself.
 */
export async function specialOf(
  tokenizer: AnyTokenizer,
  state: State,
): Promise<'auto' | 'none' | string[]> {
  if (!state.bos) return 'none';
  if (state.first === 'auto') return 'auto';
  if (tokenizer.specials.some(({ text }) => text === state.first)) return [state.first];
  const { automatic, bos } = await specialWords(tokenizer);
  if (bos === null) return 'none';
  return automatic[0] === bos ? 'auto' : [bos];
}

/** The tokens that the state asks for, before they are cut to T. */
export async function inputTokens(tokenizer: AnyTokenizer, state: State): Promise<Token[]> {
  if (state.input !== 'text') return drawn(tokenizer, state, state.seed);
  return tokenizer.encode(state.prompt, { special: await specialOf(tokenizer, state) });
}

/** Further sequences of the same kind, each of exactly T tokens. */
export async function* otherSequences(
  tokenizer: AnyTokenizer,
  state: State,
  T: number,
  texts: readonly string[],
): AsyncGenerator<number[]> {
  if (state.input !== 'text') {
    for (let i = 1; ; i++) {
      const tokens = await drawn(tokenizer, { ...state, T }, (state.seed + i) >>> 0);
      yield tokens.map((token) => token.id);
    }
  }
  for (const text of texts) {
    const tokens = await tokenizer.encode(text, { special: await specialOf(tokenizer, state) });
    if (tokens.length >= T) yield tokens.slice(0, T).map((token) => token.id);
  }
}
