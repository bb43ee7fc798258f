/**
 * Implements the models of a tokenizer.json, which split a word into tokens. A token covers units
 * [start, end) of its word; each of the byte tokens of a character covers the whole character.
 */
import { SinkscopeError } from '../abi/errors.ts';
import { widthAt } from './aligned.ts';
import { MergeRanks, TokenIds, mergePairs } from './merges.ts';
import { idsOfTable, rankMerges, refuse, unknownTypeError } from './vocabulary.ts';
import type { Piece, TokenizerFile } from './shapes.ts';

type ModelFile = TokenizerFile['model'];
export interface Model {
  ids: TokenIds;
  idOf: (token: string) => number | undefined;
  tokenize: (word: string) => Piece[];
}

/** Limit on the number of words in the cache, which holds the words of ordinary text. */
const CACHED_WORDS_MAX = 10_000;
/** Limit on the length of a cached word: words that repeat are short. */
const CACHED_LENGTH_MAX = 256;

export function createModel(file: ModelFile | undefined): Model {
  const { vocab } = file ?? {};
  if (!file || !vocab || typeof vocab !== 'object')
    return refuse('model.vocab', 'expected a table of tokens');
  const type = modelTypeOf(file);
  const ids = type === 'Unigram' ? new TokenIds(readScoredPieces(vocab)) : readVocabTable(vocab);
  const idOf = (token: string) => ids.idOf(token);
  const tokenize = MODELS[type](file, idOf, ids);
  return { ids, idOf, tokenize: cacheWords(tokenize) };
}

/** Determines the type of a model; older files have none, but their keys identify it. */
function modelTypeOf(file: ModelFile) {
  const { type, vocab, merges, continuing_subword_prefix: prefix } = file;
  const inferredType = merges ? 'BPE' : typeof prefix === 'string' ? 'WordPiece' : 'WordLevel';
  const modelType = type ?? (Array.isArray(vocab) ? 'Unigram' : inferredType);
  if (Object.hasOwn(MODELS, modelType)) return modelType;
  throw unknownTypeError('model', type);
}

function readVocabTable(vocab: object): TokenIds {
  if (Array.isArray(vocab)) return refuse('model.vocab', 'expected a table of tokens, got a list');
  // A converted file has the ids that its merges were ranked by.
  if (vocab instanceof TokenIds) return vocab;
  return idsOfTable(vocab as Record<string, unknown>, 'model.vocab');
}

function readScoredPieces(vocab: object): string[] {
  if (!Array.isArray(vocab)) return refuse('model.vocab', 'expected a list of tokens and scores');
  return vocab.map((piece, id) => {
    const isPiece = typeof piece?.[0] === 'string' && Number.isFinite(piece[1]);
    return isPiece ? piece[0] : refuse(`model.vocab ${id}`, 'expected a token and its score');
  });
}

function cacheWords(tokenize: Model['tokenize']): Model['tokenize'] {
  const cache: Map<string, Piece[]> = new Map();
  return (word) => {
    if (word === '') return [];
    let pieces = cache.get(word);
    if (pieces) return pieces;
    pieces = tokenize(word);
    if (cache.size >= CACHED_WORDS_MAX) cache.clear();
    if (word.length <= CACHED_LENGTH_MAX) cache.set(word, pieces);
    return pieces;
  };
}

function unknownWordError(word: string) {
  const text = `"${word.slice(0, 80)}" is not in the vocabulary, and there is no token for the unknown`;
  return new SinkscopeError('bad_tokenizer', 'model.vocab', text);
}

/** Makes one token of a whole word; throws if its id is not in the vocabulary. */
function wholeWordPiece(word: string, id: number | undefined): Piece[] {
  if (id === undefined) throw unknownWordError(word);
  return [{ id, start: 0, end: word.length }];
}

function findByteIds(text: string, idOf: Model['idOf']): number[] | null {
  const ids = Array.from(encoder.encode(text), (byte) =>
    idOf(`<0x${byte.toString(16).toUpperCase().padStart(2, '0')}>`),
  );
  return ids.every((id) => id !== undefined) ? ids : null;
}

const encoder = new TextEncoder();

const MODELS: Record<
  string,
  (file: ModelFile, idOf: Model['idOf'], ids: TokenIds) => Model['tokenize']
> = {
  WordLevel({ unk_token = '<unk>' }, idOf) {
    return (word) => wholeWordPiece(word, idOf(word) ?? idOf(String(unk_token)));
  },

  WordPiece(file, idOf) {
    const { unk_token = '[UNK]', max_input_chars_per_word: charactersMax = 100 } = file;
    const prefix = prefixOf(file) ?? '##';
    return (word) => {
      const pieces = [...word].length > charactersMax ? null : splitWord(word, prefix, idOf);
      return pieces ?? wholeWordPiece(word, idOf(String(unk_token)));
    };
  },

  BPE(file, idOf, ids) {
    const { merges, unk_token, fuse_unk, byte_fallback, ignore_merges, dropout } = file;
    if (!Array.isArray(merges))
      return refuse('model.merges', `expected an array, got ${typeof merges}`);
    if (dropout) refuse('model.dropout', `expected none: tokens would be random; got ${dropout}`);
    const prefix = prefixOf(file) ?? '';
    const suffix = file.end_of_word_suffix ?? '';
    const ranks =
      file.ranks instanceof MergeRanks
        ? file.ranks
        : rankMerges(merges, ids, 'model.merges', prefix.length);
    return (word) => {
      const wordId = ignore_merges ? idOf(word) : undefined;
      if (wordId !== undefined) return wholeWordPiece(word, wordId);
      const pieces: Piece[] = [];
      /** The unknown token of the last characters, which the next unknown character may extend. */
      let unknownPiece: Piece | null = null;
      const endUnknownPiece = () => {
        if (unknownPiece) pieces.push(unknownPiece);
        unknownPiece = null;
      };
      for (let start = 0; start < word.length;) {
        const end = start + widthAt(word, start);
        const isLast = end === word.length;
        const token = (start > 0 ? prefix : '') + word.slice(start, end) + (isLast ? suffix : '');
        const id = idOf(token);
        const byteIds = id === undefined && byte_fallback ? findByteIds(token, idOf) : null;
        if (id !== undefined) {
          endUnknownPiece();
          pieces.push({ id, start, end });
        } else if (byteIds) {
          // As in the library, `unknownPiece` stays open across byte tokens and comes after them.
          pieces.push(...byteIds.map((byteId) => ({ id: byteId, start, end })));
        } else if (typeof unk_token === 'string') {
          if (unknownPiece && fuse_unk) unknownPiece.end = end;
          else {
            endUnknownPiece();
            const unknownId = idOf(unk_token);
            if (unknownId === undefined) throw unknownWordError(token);
            unknownPiece = { id: unknownId, start, end };
          }
        }
        start = end;
      }
      endUnknownPiece();
      return mergePairs(pieces, ranks);
    };
  },

  Unigram({ vocab, unk_id: unknownId, byte_fallback }, idOf, ids) {
    const scores = (vocab as readonly (readonly [string, number])[]).map(([, score]) => score);
    if (typeof unknownId === 'number' && !(unknownId in scores))
      refuse('model.unk_id', `expected the number of a token, got ${unknownId}`);
    // Math.min(...scores) would exceed the number of arguments that a call may have.
    const lowestScore = scores.reduce((lowest, score) => Math.min(lowest, score), Infinity);
    let maxLength = 0;
    for (const token of ids.texts) maxLength = Math.max(maxLength, token.length);
    const penalty = lowestScore - UNKNOWN_PENALTY;
    const scoredVocab = { idOf, scores, maxLength, penalty, unknownId };
    return (word) =>
      findBestPath(word, scoredVocab).flatMap(({ start, end }) => {
        const text = word.slice(start, end);
        const id = idOf(text);
        if (id !== undefined) return [{ id, start, end }];
        const byteIds = byte_fallback ? findByteIds(text, idOf) : null;
        if (byteIds) return byteIds.map((byteId) => ({ id: byteId, start, end }));
        if (typeof unknownId !== 'number') throw unknownWordError(text);
        return [{ id: unknownId, start, end }];
      });
  },
};

function prefixOf({ continuing_subword_prefix: prefix }: ModelFile) {
  if (typeof (prefix ?? '') !== 'string')
    refuse('model.continuing_subword_prefix', `expected a string, got ${typeof prefix}`);
  return prefix;
}

/** Splits a word into tokens, each the longest that fits, or null; `prefix` marks later ones. */
function splitWord(word: string, prefix: string, idOf: Model['idOf']): Piece[] | null {
  const pieces: Piece[] = [];
  for (let start = 0; start < word.length;) {
    let end = word.length;
    let id: number | undefined;
    for (; end > start; end--) {
      id = idOf((start > 0 ? prefix : '') + word.slice(start, end));
      if (id !== undefined) break;
    }
    if (id === undefined) return null;
    pieces.push({ id, start, end });
    start = end;
  }
  return pieces;
}

/** Score of an unknown character, relative to the lowest score of the vocabulary. */
const UNKNOWN_PENALTY = 10;

type ScoredVocabulary = {
  idOf: Model['idOf'];
  scores: readonly number[];
  /** Length of the longest token. */
  maxLength: number;
  penalty: number;
  unknownId: number | null | undefined;
};

/** Finds the pieces with the highest sum of scores; adjacent unknown characters form one piece. */
function findBestPath(
  word: string,
  { idOf, scores, maxLength, penalty, unknownId }: ScoredVocabulary,
) {
  const bestScores = new Float64Array(word.length + 1);
  const starts = new Int32Array(word.length + 1).fill(-1);
  const idsByEnd = new Int32Array(word.length + 1);
  for (let start = 0; start < word.length;) {
    const nextStart = start + widthAt(word, start);
    let hasToken = false;
    const updateBest = (end: number, id: number, score: number) => {
      if (starts[end] >= 0 && score + bestScores[start] <= bestScores[end]) return;
      bestScores[end] = score + bestScores[start];
      starts[end] = start;
      idsByEnd[end] = id;
    };
    const lastEnd = Math.min(word.length, start + maxLength);
    for (let end = nextStart; end <= lastEnd; end++) {
      const id = idOf(word.slice(start, end));
      if (id === undefined) continue;
      updateBest(end, id, scores[id]);
      if (end === nextStart) hasToken = true;
    }
    if (!hasToken) {
      if (
        typeof unknownId !== 'number' &&
        !(starts[nextStart] >= 0 && penalty + bestScores[start] <= bestScores[nextStart])
      ) {
        throw unknownWordError(word.slice(start, nextStart));
      }
      updateBest(nextStart, unknownId ?? -1, penalty);
    }
    start = nextStart;
  }
  const path: { start: number; end: number }[] = [];
  let isNextUnknown = false;
  for (let end = word.length; end > 0; end = starts[end]) {
    const isUnknown = idsByEnd[end] === unknownId;
    if (isUnknown && isNextUnknown) path[path.length - 1].start = starts[end];
    else path.push({ start: starts[end], end });
    isNextUnknown = isUnknown;
  }
  return path.reverse();
}
