/**
 * Converts text to token ids and back, with the characters that each token covers.
 *
 *     text -> added tokens and normalized sections -> words -> pieces, each with its span
 *
 * The stages follow the tokenizers library, whose ids and offsets are the reference.
 */
import { check } from '../abi/arguments.js';
import { SinkscopeError, expect } from '../abi/errors.js';
import { createFinder, readAdded, writeAdded } from './added_tokens.js';
import { Aligned } from './aligned.js';
import { createDecoder } from './decoders.js';
import { createModel } from './models.js';
import { createNormalizer } from './normalizers.js';
import { readTemplate } from './post_processor.js';
import { createPreTokenizer } from './pre_tokenizers.js';
import { createSurface } from './surface.js';
import { ROLES, nameOf, parseObject } from './vocabulary.js';

/** @typedef {import('../sinkscope.js').Token} Token */
/** @typedef {import('../sinkscope.js').SpecialToken} SpecialToken */
/** @typedef {import('../sinkscope.js').Tokenizer} TokenizerShape */

/** Usual names of the BOS token, for a tokenizer.json without a config. */
const BOS_NAMES = [
  '<s>',
  '<bos>',
  '<|begin_of_text|>',
  '<|startoftext|>',
  '[BOS]',
  '<|endoftext|>',
];
/** Usual names of the mask token, for a tokenizer.json without a config. */
const MASK_NAMES = ['[MASK]', '<mask>'];

const utf8 = new TextDecoder('utf-8', { ignoreBOM: true });

/** @type {typeof import('../sinkscope.js').openTokenizer} */
export function openTokenizer(json, config = {}) {
  const parsed = parseObject(json, 'tokenizer.json');
  const file = /** @type {import('./shapes.js').TokenizerFile} */ (/** @type {unknown} */ (parsed));
  const settings = parseObject(config, 'tokenizer_config.json');
  return guard(() => new Tokenizer(file, settings));
}

/**
 * Turns every error of the host in an untrusted file into one that names the place.
 * @template T
 * @param {() => T} use
 * @returns {T}
 */
function guard(use) {
  try {
    return use();
  } catch (error) {
    throw error instanceof SinkscopeError ? error : hostError(error);
  }
}

/** Explains errors that JavaScript itself throws; other errors are already sentences. */
const HOST_ERRORS = /** @type {const} */ ([
  [SyntaxError, 'expected patterns that JavaScript reads, too'],
  [RangeError, 'expected stages that end and texts that fit the memory'],
  [TypeError, 'expected all parts of a tokenizer, found one missing or of another kind'],
]);

/** @param {unknown} error */
function hostError(error) {
  const text = error instanceof Error ? error.message : String(error);
  const explanation = HOST_ERRORS.find(([kind]) => error instanceof kind);
  const sentence = explanation ? `${explanation[1]} (${text.slice(0, 200)})` : text;
  return new SinkscopeError('bad_tokenizer', 'tokenizer.json', sentence);
}

/** @implements {TokenizerShape} */
class Tokenizer {
  #model;
  #added;
  /** @type {Map<string, number>} */
  #addedIds;
  /** Names by id, with holes for unused ids. @type {string[]} */
  #names = [];
  /** Cache of `piece`, by id. @type {Record<number, string>} */
  #pieces = {};
  #specialNames;
  /** Added tokens by id, in the normalized form that the decoder reads. */
  #written;
  #find;
  #cut;
  #decode;
  #surface;
  #template;

  /**
   * @param {import('./shapes.js').TokenizerFile} file
   * @param {import('./shapes.js').Settings} settings
   */
  constructor(file, settings) {
    this.#model = createModel(file.model);
    this.#added = readAdded(file.added_tokens, this.#model);
    this.#addedIds = new Map(this.#added.map(({ content, id }) => [content, id]));
    for (const [token, id] of this.#model.tokens) this.#names[id] = token;
    for (const { content, id } of this.#added) this.#names[id] = content;
    const special = this.#added.filter((token) => token.special);
    this.#specialNames = new Set(special.map(({ content }) => content));
    const normalize = createNormalizer(file.normalizer);
    const searched = writeAdded(this.#added, normalize);
    this.#written = new Map(searched.map(({ token, text }) => [token.id, text]));
    this.#find = createFinder(searched, normalize);
    this.#cut = createPreTokenizer(file.pre_tokenizer);
    this.#decode = createDecoder(file.decoder);
    this.#surface = createSurface(file, this.#added);
    this.#template = readTemplate(file.post_processor, (token) => this.#id(token));
    this.size = this.#names.length;
    this.bos = this.#findBos(settings);
    this.specials = this.#findSpecials(settings);
    this.special = this.specials.map(({ id }) => id);
  }

  /** @param {import('./shapes.js').Settings} settings */
  #findBos(settings) {
    // The file states that there is none, so the code does not guess.
    if (settings.bos_token === null) return null;
    const named = nameOf(settings, 'bos_token');
    // Guesses must be added tokens: an ordinary word "<s>" does not begin sequences.
    const candidates = [this.#names[this.#template.before[0]], ...BOS_NAMES];
    const added = candidates.filter((name) => this.#addedIds.has(name));
    const ids = [named, ...added].map((name) => this.#id(name));
    return ids.find((id) => id !== undefined) ?? null;
  }

  /**
   * @param {import('./shapes.js').Settings} settings
   * @returns {SpecialToken[]}
   */
  #findSpecials(settings) {
    const kindOf = (/** @type {{ id: number, content: string }} */ { id, content }) => {
      const role = ROLES.find(([key]) => nameOf(settings, key) === content);
      if (role) return role[1];
      return id === this.bos ? 'bos' : MASK_NAMES.includes(content) ? 'mask' : 'other';
    };
    const special = this.#added.filter((token) => token.special);
    special.sort((a, b) => a.id - b.id);
    return special.map((token) => ({ id: token.id, text: token.content, kind: kindOf(token) }));
  }

  /** @param {unknown} token */
  #id(token) {
    if (typeof token !== 'string') return undefined;
    return this.#addedIds.get(token) ?? this.#model.idOf(token);
  }

  /**
   * @param {string} text
   * @param {{ bos?: 'auto' | boolean, special?: 'auto' | 'none' | readonly string[] }} [options]
   * @returns {Token[]}
   */
  encode(text, options = {}) {
    check(text, 'text', 'text');
    check(options, 'object', 'options');
    const { bos = 'auto', special = 'auto' } = options;
    const { before, after } = this.#templateOf(bos, special);
    const token = (/** @type {number} */ id, start = 0, end = start, isSpecial = true) => ({
      id,
      text: this.piece(id),
      start,
      end,
      special: isSpecial,
    });
    return guard(() => [
      ...before.map((id) => token(id)),
      ...this.#tokenize(text).map(({ id, start, end }) => token(id, start, end, false)),
      ...after.map((id) => token(id, text.length)),
    ]);
  }

  /**
   * @param {string} text
   * @returns {import('./shapes.js').Piece[]}
   */
  #tokenize(text) {
    // A lone surrogate has no UTF-8; the replacement character has the same length of one unit.
    const wellFormed = Aligned.of(text.replace(/\p{Surrogate}/gu, '\ufffd'));
    return this.#find(wellFormed).flatMap(({ text: section, token }) => {
      if (token) return [spanOf(section, { id: token.id, start: 0, end: section.text.length })];
      const words = this.#cut(section).filter((word) => word.text !== '');
      return words.flatMap((word) =>
        this.#model.tokenize(word.text).map((piece) => spanOf(word, piece)),
      );
    });
  }

  /**
   * Returns the tokens before and after a text.
   * @param {'auto' | boolean} bos
   * @param {'auto' | 'none' | readonly string[]} special
   */
  #templateOf(bos, special) {
    expect(bos === 'auto' || typeof bos === 'boolean', 'bos', "'auto', true or false", bos);
    if (bos === 'auto') return this.#chosen(special);
    expect(special === 'auto', 'special', "'auto' where bos is given", special);
    if (!bos) return { before: [], after: [] };
    expect(this.bos !== null, 'bos', 'a tokenizer that has such a token', bos);
    return { before: [Number(this.bos)], after: [] };
  }

  /** @param {'auto' | 'none' | readonly string[]} special */
  #chosen(special) {
    if (special === 'auto') return this.#template;
    if (special === 'none') return { before: [], after: [] };
    expect(Array.isArray(special), 'special', "'auto', 'none' or a list of tokens", special);
    const before = special.map((name) => {
      const id = this.#id(name);
      expect(id !== undefined, 'special', 'tokens of the vocabulary', name);
      return Number(id);
    });
    return { before, after: [] };
  }

  /** @param {ArrayLike<number>} ids */
  decode(ids) {
    check(ids, 'list', 'ids');
    const names = Array.from(ids, (id) => this.#written.get(id) ?? this.#names[id]);
    const visible = names.filter((name) => name !== undefined && !this.#specialNames.has(name));
    return guard(() => (visible.length === 0 ? '' : this.#decode(visible).join('')));
  }

  /** @param {number} id */
  piece(id) {
    check(id, 'number', 'id');
    return (this.#pieces[id] ??= this.#read(id));
  }

  /** @param {number} id */
  #read(id) {
    const name = this.#names[id];
    // A model's vocabulary is often padded beyond the tokenizer's.
    if (name === undefined) return `[${id}]`;
    const surface = this.#surface(name);
    return typeof surface === 'string' ? surface : utf8.decode(surface);
  }
}

/**
 * Returns the span of characters that a piece of a word covers.
 * @param {Aligned} word
 * @param {import('./shapes.js').Piece} piece
 */
function spanOf({ from, to }, { id, start, end }) {
  return { id, start: from[start], end: to[end - 1] };
}
