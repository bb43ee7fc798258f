/**
 * The texts of a study, and the sequences that a tokenizer makes of them: passages that no model of
 * the zoo was trained on, the reader's own text or file, or drawn tokens (the paper's table 1).
 */
import { cutText, type AnyTokenizer } from 'sinkscope';
import { inputTokens, specialOf } from '../input';
import { InputError } from '../models';
import type { State } from '../state';

/** Where the texts come from, in words. */
export const CORPORA: Readonly<Record<State['corpus'], string>> = {
  heldout: 'held-out passages',
  text: 'your text, piece after piece',
  random: 'random tokens',
  repeat: 'one token repeated',
  file: 'your file of prompts',
};

/** How a file is split into prompts. */
export type Splitting = 'lines' | 'blocks';

/** Prompts out of a file, which stays on this machine. */
export interface PromptFile {
  readonly name: string;
  readonly text: string;
  readonly splitting: Splitting;
  /** Of the file's bytes, in hex; undefined where the browser cannot tell. */
  readonly sha256?: string;
}

/** Characters of a file that are looked at; more than any study runs. */
export const FILE_MAX = 20_000_000;

/** The prompts of a file: its lines, or its blocks with their inner line breaks. */
export function promptsOf(text: string, splitting: Splitting): string[] {
  const plain = text.replace(/^\ufeff/, '').replace(/\r\n?/g, '\n');
  const parts = plain.split(splitting === 'lines' ? '\n' : /\n[^\S\n]*(?:\n[^\S\n]*)+/);
  return parts.map((part) => part.trim()).filter((part) => part !== '');
}

/** Where blank lines separate blocks of several lines, the blocks are the prompts. */
export function splittingOf(text: string): Splitting {
  const blocks = promptsOf(text, 'blocks');
  return blocks.length > 1 && blocks.some((block) => block.includes('\n')) ? 'blocks' : 'lines';
}

/** @throws InputError for what is no text or too long */
export async function readPrompts(file: File): Promise<PromptFile> {
  if (file.size > FILE_MAX)
    throw new InputError(
      `${file.name}: expected at most ${FILE_MAX.toLocaleString('en')} bytes of text, found ` +
        `${file.size.toLocaleString('en')}.`,
    );
  const bytes = await file.arrayBuffer();
  let text: string;
  try {
    text = new TextDecoder('utf-8', { fatal: true }).decode(bytes);
  } catch {
    throw new InputError(`${file.name}: expected UTF-8 text, found other bytes.`);
  }
  if (!text.trim()) throw new InputError(`${file.name}: expected prompts, found nothing.`);
  return { name: file.name, text, splitting: splittingOf(text), sha256: await digest(bytes) };
}

/** Pages that are not served over https have no digests. */
async function digest(bytes: ArrayBuffer): Promise<string | undefined> {
  const hash = await globalThis.crypto?.subtle?.digest('SHA-256', bytes);
  return hash && Array.from(new Uint8Array(hash), (b) => b.toString(16).padStart(2, '0')).join('');
}

/**
 * Sequences of T tokens each, special ones included.
 * @param texts of the corpora that are made of texts of their own
 * @param n at most so many
 * @throws SinkscopeError, InputError where there is none
 */
export async function sequencesOf(
  tokenizer: AnyTokenizer,
  state: State,
  texts: readonly string[],
  n: number,
): Promise<number[][]> {
  const { corpus, T } = state;
  if (corpus === 'random' || corpus === 'repeat')
    return Promise.all(
      Array.from({ length: n }, async (_, i) => {
        const asked = { ...state, input: corpus, seed: (state.seed + i) >>> 0 };
        return (await inputTokens(tokenizer, asked)).map(({ id }) => id);
      }),
    );
  const cut = { tokens: T, sequences: n, special: await specialOf(tokenizer, state) };
  return cutText(tokenizer, corpus === 'text' ? state.prompt : texts, cut);
}
