/** The three inputs of the paper's table 1: natural text, random tokens, one token repeated. */
import type { Token, Tokenizer } from 'sinkscope';
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
function drawId(tokenizer: Tokenizer, draw: () => number): number {
  const special = new Set(tokenizer.special);
  for (let tries = 0; tries < 1000; tries++) {
    const id = Math.floor(draw() * tokenizer.size);
    if (!special.has(id)) return id;
  }
  return 0;
}

function drawn(tokenizer: Tokenizer, state: State, seed: number): Token[] {
  const draw = draws(seed);
  const begin: Token[] =
    state.bos && tokenizer.bos !== null
      ? [
          {
            id: tokenizer.bos,
            text: tokenizer.piece(tokenizer.bos),
            start: 0,
            end: 0,
            special: true,
          },
        ]
      : [];
  const one = drawId(tokenizer, draw);
  const rest = Array.from({ length: Math.max(0, state.T - begin.length) }, () => {
    const id = state.input === 'repeat' ? one : drawId(tokenizer, draw);
    return { id, text: tokenizer.piece(id), start: 0, end: 0, special: false };
  });
  return [...begin, ...rest];
}

/** A tokenizer without such a token cannot put one first. */
export function hasBos(tokenizer: Tokenizer, state: State): boolean {
  return state.bos && tokenizer.bos !== null;
}

/** The tokens that the state asks for, before they are cut to T. */
export function inputTokens(tokenizer: Tokenizer, state: State): Token[] {
  if (state.input !== 'text') return drawn(tokenizer, state, state.seed);
  return tokenizer.encode(state.prompt, { bos: hasBos(tokenizer, state) });
}

/** Further sequences of the same kind, each of exactly T tokens. */
export function* otherSequences(
  tokenizer: Tokenizer,
  state: State,
  T: number,
  texts: readonly string[],
): Generator<number[]> {
  if (state.input !== 'text') {
    for (let i = 1; ; i++)
      yield drawn(tokenizer, { ...state, T }, (state.seed + i) >>> 0).map((token) => token.id);
  }
  for (const text of texts) {
    const tokens = tokenizer.encode(text, { bos: hasBos(tokenizer, state) });
    if (tokens.length >= T) yield tokens.slice(0, T).map((token) => token.id);
  }
}
