/**
 * Runs an untrusted tokenizer in a worker that guard.ts can end, by one question at a time.
 * Between the steps of opening, the worker reports that it is alive.
 */
import { listen, reply } from '#inside';
import { packError } from '../abi/errors.ts';
import { readMetadata } from '../abi/metadata.ts';
import { tokenizerOfGguf } from './gguf_tokenizer.ts';
import { openTokenizer } from './tokenizer.ts';
import { tokenizerOfVocabulary } from './vocabulary.ts';
import { tokenizerOfWords } from './words.ts';
import type { Tokenizer, TokenizerSource as Source, EncodeOptions as Options } from './types.ts';

type OpenQuestion = { method: 'open'; source: Source };
export type EncodeQuestion = { method: 'encode'; text: string; options?: Options };
export type DecodeQuestion = { method: 'decode'; ids: readonly number[] };
export type Question = OpenQuestion | EncodeQuestion | DecodeQuestion;
export type Answer = {
  isAlive?: boolean;
  benchmarkMs?: number;
  /** How many merges are ranked, and of how many. */
  built?: readonly [number, number];
  error?: object;
  value?: unknown;
};
export type OpenedTokenizer = ReturnType<typeof open>;
export type EncodedText = ReturnType<typeof encode>;

let tokenizer: Tokenizer;

const reportRanked = (done: number, total: number) => reply({ built: [done, total] });

function convertFiles(source: Source) {
  if ('gguf' in source) return tokenizerOfGguf(readMetadata(source.gguf), reportRanked);
  if ('tokenizer' in source) return { json: source.tokenizer, config: source.config };
  if ('words' in source) return tokenizerOfWords(source.words, source.config);
  const { vocab, merges, config, special_tokens_map } = source;
  return tokenizerOfVocabulary(vocab, merges, config, special_tokens_map);
}

function open(source: Source) {
  const { json, config } = convertFiles(source);
  reply({ isAlive: true });
  tokenizer = openTokenizer(json, config);
  reply({ isAlive: true });
  const { size, bos, specials } = tokenizer;
  return { size, bos, specials, ...joinPieces() };
}

/** Joins all tokens' texts, since postMessage copies one string many times faster than a list. */
function joinPieces() {
  const texts = Array.from({ length: tokenizer.size }, (_, id) => tokenizer.piece(id));
  let end = 0;
  return { text: texts.join(''), ends: Uint32Array.from(texts, (piece) => (end += piece.length)) };
}

function encode({ text, options }: EncodeQuestion) {
  const tokens = tokenizer.encode(text, options);
  return {
    ids: Int32Array.from(tokens, ({ id }) => id),
    spans: Uint32Array.from(tokens.flatMap(({ start, end }) => [start, end])),
    special: Uint8Array.from(tokens, ({ special }) => Number(special)),
  };
}

function answerQuestion(question: Question) {
  if (question.method === 'open') return open(question.source);
  return question.method === 'encode' ? encode(question) : tokenizer.decode(question.ids);
}

listen((question: Question) => {
  try {
    reply({ value: answerQuestion(question) });
  } catch (error) {
    reply({ error: packError(error) });
  }
});

/**
 * Returns the milliseconds of a benchmark, which builds a table of strings, like a vocabulary. The
 * page infers from this how slow the machine is. The vocabulary of a file on the disk waits for it, so it is short.
 */
function timeBenchmark() {
  const startTime = performance.now();
  const ids = Array.from({ length: 2500 }, (_, i) => [`piece ${(i * 7919) % 10_007}`, i]);
  const table = new Map(Object.entries(JSON.parse(JSON.stringify(Object.fromEntries(ids)))));
  return table.size > 0 ? performance.now() - startTime : 0;
}

reply({ isAlive: true, benchmarkMs: timeBenchmark() });
