/**
 * Converts text to token ids and back, with the characters that each token covers.
 *
 *     text -> added tokens and normalized sections -> words -> pieces, each with its span
 *
 * The stages follow the tokenizers library, whose ids and offsets are the reference.
 */
import { check } from '../abi/arguments.ts';
import { SinkscopeError, expect } from '../abi/errors.ts';
import { createAddedTokenSplitter, readAddedTokens, searchedTokensOf } from './added_tokens.ts';
import { AlignedText } from './aligned.ts';
import { createDecoder } from './decoders.ts';
import { createModel } from './models.ts';
import { createNormalizer } from './normalizers.ts';
import { readTemplate } from './post_processor.ts';
import { createPreTokenizer } from './pre_tokenizers.ts';
import { createSurfaceReader } from './surface.ts';
import { ROLES, tokenNameOf, parseObject } from './vocabulary.ts';
import type { AddedToken, TokenizerFile, Settings, Piece } from './shapes.ts';
import type { EncodeOptions, Token, SpecialToken, Tokenizer as TokenizerShape } from './types.ts';

/** Common names of the BOS token, for a tokenizer.json without a config. */
const STARTS = ['<s>', '<bos>', '<|begin_of_text|>', '<|startoftext|>', '[BOS]', '<|endoftext|>'];
const MASK_NAMES = ['[MASK]', '<mask>'];

const utf8 = new TextDecoder('utf-8', { ignoreBOM: true });

/**
 * Opens a Hugging Face tokenizer.json (text or parsed), with its tokenizer_config.json if there is
 * one. The tokenizer runs in this thread without a time limit: use `guardTokenizer` for files of unknown
 * origin.
 */
export function openTokenizer(json: string | object, config: string | object = {}): TokenizerShape {
  const tokenizerFile = parseObject(json, 'tokenizer.json');
  const file = tokenizerFile as unknown as TokenizerFile;
  const settings = parseObject(config, 'tokenizer_config.json');
  return nameErrors(() => new Tokenizer(file, settings));
}

/** Runs a step on an untrusted file; errors of the host become errors that name the place. */
function nameErrors<T>(step: () => T): T {
  try {
    return step();
  } catch (error) {
    throw error instanceof SinkscopeError ? error : hostError(error);
  }
}

/** Sentences for errors that JavaScript throws; others are already sentences. */
const HOST_ERRORS = [
  [SyntaxError, 'expected patterns that JavaScript reads, too'],
  [RangeError, 'expected stages that end and texts that fit the memory'],
  [TypeError, 'expected all parts of a tokenizer, found one missing or of another kind'],
] as const;

function hostError(error: unknown) {
  const text = error instanceof Error ? error.message : String(error);
  const explanation = HOST_ERRORS.find(([kind]) => error instanceof kind);
  const sentence = explanation ? `${explanation[1]} (${text.slice(0, 200)})` : text;
  return new SinkscopeError('bad_tokenizer', 'tokenizer.json', sentence);
}

class Tokenizer implements TokenizerShape {
  #model;
  #addedIds: Map<string, number>;
  #names;
  /** Cache of `piece`, by id. */
  #pieces: Record<number, string> = {};
  #specialNames;
  /** Added tokens by id, in the normalized form that the decoder reads. */
  #normalizedNames;
  #splitAdded;
  #splitWords;
  #decode;
  #readSurface;
  #template;

  readonly size;
  readonly bos;
  readonly specials;
  readonly special;
  constructor(file: TokenizerFile, settings: Settings) {
    this.#model = createModel(file.model);
    const addedTokens = readAddedTokens(file.added_tokens, this.#model);
    this.#addedIds = new Map(addedTokens.map(({ content, id }) => [content, id]));
    this.#names = this.#model.ids.texts.slice();
    for (const { content, id } of addedTokens) this.#names[id] = content;
    const specialTokens = addedTokens.filter((token) => token.special);
    this.#specialNames = new Set(specialTokens.map(({ content }) => content));
    const normalize = createNormalizer(file.normalizer);
    const searchedTokens = searchedTokensOf(addedTokens, normalize);
    this.#normalizedNames = new Map(searchedTokens.map(({ token, text }) => [token.id, text]));
    this.#splitAdded = createAddedTokenSplitter(searchedTokens, normalize);
    this.#splitWords = createPreTokenizer(file.pre_tokenizer);
    this.#decode = createDecoder(file.decoder);
    this.#readSurface = createSurfaceReader(file, addedTokens);
    this.#template = readTemplate(file.post_processor, (token) => this.#idOf(token));
    this.size = this.#names.length;
    this.bos = this.#findBos(settings);
    this.specials = this.#findSpecials(specialTokens, settings);
    this.special = this.specials.map(({ id }) => id);
  }

  #findBos(settings: Settings) {
    // The file states that there is no BOS token, so none is guessed.
    if (settings.bos_token === null) return null;
    const bosName = tokenNameOf(settings, 'bos_token');
    // Only added tokens are candidates: an ordinary word "<s>" does not begin sequences.
    const candidates = [this.#names[this.#template.prefix[0]], ...STARTS];
    const addedNames = candidates.filter((name) => this.#addedIds.has(name));
    const ids = [bosName, ...addedNames].map((name) => this.#idOf(name));
    return ids.find((id) => id !== undefined) ?? null;
  }

  #findSpecials(specialTokens: readonly AddedToken[], settings: Settings): SpecialToken[] {
    const kindOf = ({ id, content }: AddedToken) => {
      const role = ROLES.find(([key]) => tokenNameOf(settings, key) === content);
      if (role) return role[1];
      return id === this.bos ? 'bos' : MASK_NAMES.includes(content) ? 'mask' : 'other';
    };
    return [...specialTokens]
      .sort((a, b) => a.id - b.id)
      .map((token) => ({ id: token.id, text: token.content, kind: kindOf(token) }));
  }

  #idOf(token: unknown) {
    if (typeof token !== 'string') return undefined;
    return this.#addedIds.get(token) ?? this.#model.idOf(token);
  }

  encode(text: string, options: EncodeOptions = {}): Token[] {
    check(text, 'text', 'text');
    check(options, 'object', 'options');
    const { prefix, suffix } = this.#selectSpecials(options);
    const makeToken = (id: number, start = 0, end = start, isSpecial = true) => ({
      id,
      text: this.piece(id),
      start,
      end,
      special: isSpecial,
    });
    return nameErrors(() => [
      ...prefix.map((id) => makeToken(id)),
      ...this.#tokenize(text).map(({ id, start, end }) => makeToken(id, start, end, false)),
      ...suffix.map((id) => makeToken(id, text.length)),
    ]);
  }

  #tokenize(text: string): Piece[] {
    // A lone surrogate has no UTF-8; the replacement character has the same length of one unit.
    const alignedText = AlignedText.of(text.replace(/\p{Surrogate}/gu, '\ufffd'));
    return this.#splitAdded(alignedText).flatMap(({ text: section, token }) => {
      if (token) return [spanOf(section, { id: token.id, start: 0, end: section.text.length })];
      const words = this.#splitWords(section).filter((word) => word.text !== '');
      return words.flatMap((word) =>
        this.#model.tokenize(word.text).map((piece) => spanOf(word, piece)),
      );
    });
  }

  #selectSpecials({ special = 'auto' }: EncodeOptions) {
    if (special === 'auto') return this.#template;
    if (special === 'none') return { prefix: [], suffix: [] };
    expect(Array.isArray(special), 'special', "'auto', 'none' or a list of tokens", special);
    const prefix = special.map((name) => {
      const id = this.#idOf(name);
      expect(id !== undefined, 'special', 'tokens of the vocabulary', name);
      return Number(id);
    });
    return { prefix, suffix: [] };
  }

  decode(ids: ArrayLike<number>) {
    check(ids, 'list', 'ids');
    const names = Array.from(ids, (id) => this.#normalizedNames.get(id) ?? this.#names[id]);
    const visibleNames = names.filter(
      (name) => name !== undefined && !this.#specialNames.has(name),
    );
    return nameErrors(() => (visibleNames.length === 0 ? '' : this.#decode(visibleNames).join('')));
  }

  piece(id: number) {
    check(id, 'number', 'id');
    return (this.#pieces[id] ??= this.#readPiece(id));
  }

  #readPiece(id: number) {
    const name = this.#names[id];
    // The vocabulary of a model is often padded beyond the tokens of its tokenizer.
    if (name === undefined) return `[${id}]`;
    const surface = this.#readSurface(name);
    return typeof surface === 'string' ? surface : utf8.decode(surface);
  }
}

function spanOf({ starts, ends }: AlignedText, { id, start, end }: Piece) {
  return { id, start: starts[start], end: ends[end - 1] };
}
