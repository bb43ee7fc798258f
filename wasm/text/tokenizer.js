/**
 * Text to token ids and back, with the characters that each token covers. The tokenizing is that of
 * @huggingface/tokenizers; the offsets, which it does not give, are found in offsets.js.
 */
import { Tokenizer as Library } from '@huggingface/tokenizers';
import { mendDecoder, mendModel, mendNormalizer, translate } from './dialect.js';
import { check } from '../abi/arguments.js';
import { SinkscopeError, expect } from '../abi/errors.js';
import { locate } from './offsets.js';
import { createSurface, hasBlocks } from './surface.js';
import {
  ROLES,
  checkId,
  checkVocab,
  lookup,
  nameOf,
  parseObject,
  rankMerges,
  refuse,
} from './vocabulary.js';

/** @typedef {import('../sinkscope.js').Token} Token */
/** @typedef {import('../sinkscope.js').SpecialToken} SpecialToken */
/** @typedef {import('../sinkscope.js').Tokenizer} TokenizerShape */

/** Names of the token that begins a sequence, for a tokenizer.json that comes alone. */
const BOS_NAMES = [
  '<s>',
  '<bos>',
  '<|begin_of_text|>',
  '<|startoftext|>',
  '[BOS]',
  '<|endoftext|>',
];
/** Names of the token that hides others, likewise. */
const MASK_NAMES = ['[MASK]', '<mask>'];

const utf8 = new TextDecoder('utf-8', { ignoreBOM: true });

/** @type {typeof import('../sinkscope.js').openTokenizer} */
export function openTokenizer(json, config = {}) {
  const parsed = parseObject(json, 'tokenizer.json');
  const file = /** @type {import('./shapes.js').TokenizerFile} */ (/** @type {unknown} */ (parsed));
  const settings = parseObject(config, 'tokenizer_config.json');
  return guard(() => {
    checkFile(file);
    return new Tokenizer(openLibrary(file, settings), file, settings);
  });
}

/**
 * Whatever the library trips over in an untrusted file is an error with a place.
 * @template T
 * @param {() => T} use
 * @returns {T}
 */
function guard(use) {
  try {
    return use();
  } catch (error) {
    throw error instanceof SinkscopeError ? error : libraryError(error);
  }
}

/** What `model.type` may be; older files have none, and their other keys decide. */
const MODEL_TYPES = ['BPE', 'WordPiece', 'Unigram', 'WordLevel'];

/** @param {import('./shapes.js').TokenizerFile} file */
function checkFile(file) {
  const { type, vocab, merges, continuing_subword_prefix: prefix } = file.model ?? {};
  // Of a type that it does not know the library reads the vocabulary as it likes.
  if (!MODEL_TYPES.includes(type ?? 'BPE')) throw unknownType('model', type);
  if (!vocab || typeof vocab !== 'object') refuse('model.vocab', 'expected a table of tokens');
  if (Array.isArray(vocab)) checkPieces(vocab);
  else checkVocab(/** @type {Record<string, unknown>} */ (vocab), 'model.vocab');
  checkAdded(file.added_tokens ?? []);
  if (typeof (prefix ?? '') !== 'string') {
    refuse('model.continuing_subword_prefix', `expected a string, got ${typeof prefix}`);
  }
  if (file.model.type === 'BPE' && !Array.isArray(merges)) {
    refuse('model.merges', `expected an array, got ${typeof merges}`);
  }
}

/** @param {readonly (readonly [string, number])[]} pieces with their scores */
function checkPieces(pieces) {
  const isPiece = (/** @type {readonly unknown[]} */ piece) =>
    typeof piece?.[0] === 'string' && Number.isFinite(piece[1]);
  const wrong = pieces.findIndex((piece) => !isPiece(piece));
  if (wrong >= 0) refuse(`model.vocab ${wrong}`, 'expected a token and its score');
}

/** @param {readonly import('./shapes.js').Added[]} added */
function checkAdded(added) {
  if (!Array.isArray(added)) refuse('added_tokens', `expected an array, got ${typeof added}`);
  added.forEach((token, i) => {
    const content = token?.content;
    if (typeof content !== 'string' || content === '') {
      refuse(`added_tokens ${i} content`, `expected text, got ${JSON.stringify(content)}`);
    }
    checkId(token.id, `added_tokens ${i} id`);
  });
}

/**
 * @param {import('./shapes.js').TokenizerFile} file
 * @param {import('./shapes.js').Settings} settings
 */
function openLibrary(file, settings) {
  const parts = { normalizer: null, pre_tokenizer: null, post_processor: null, decoder: null };
  const whole = { ...parts, ...translate(file), added_tokens: file.added_tokens ?? [] };
  const ranks = ranksOf(file.model);
  // The library would keep each merge as a string of JSON, which takes longer than the rest of the file.
  if (ranks) whole.model = { ...whole.model, merges: [] };
  const library = new Library(whole, settings);
  if (ranks) Object.assign(library.model, { bpe_ranks: ranks });
  mendDecoder(library.decoder);
  mendNormalizer(library.normalizer);
  mendModel(library.model);
  return library;
}

/** @param {import('./shapes.js').TokenizerFile['model']} model */
function ranksOf({ type, vocab, merges = [], continuing_subword_prefix: prefix }) {
  if (type !== 'BPE' || Array.isArray(vocab)) return null;
  const ids = /** @type {Readonly<Record<string, number>>} */ (vocab);
  return rankMerges(merges, lookup(ids), 'model.merges', prefix?.length);
}

/** What JavaScript itself trips over; the library's own errors are sentences. */
const TRIPS = /** @type {const} */ ([
  [SyntaxError, 'expected patterns that JavaScript reads, too'],
  [RangeError, 'expected stages that end and texts that fit the memory'],
  [TypeError, 'expected all parts of a tokenizer, found one missing or of another kind'],
]);

/** @param {unknown} error */
function libraryError(error) {
  const text = error instanceof Error ? error.message : String(error);
  const unknown = /^Unknown (\w+) type: (.*)$/.exec(text);
  if (!unknown) {
    const trip = TRIPS.find(([kind]) => error instanceof kind);
    const said = trip ? `${trip[1]} (${text.slice(0, 200)})` : text;
    return new SinkscopeError('bad_tokenizer', 'tokenizer.json', said);
  }
  const keys = /** @type {Record<string, string>} */ ({
    PreTokenizer: 'pre_tokenizer',
    PostProcessor: 'post_processor',
  });
  return unknownType(keys[unknown[1]] ?? unknown[1].toLowerCase(), unknown[2]);
}

/**
 * @param {string} stage
 * @param {unknown} type
 */
function unknownType(stage, type) {
  const text = `${JSON.stringify(type)} is not a type this build knows`;
  return new SinkscopeError('unsupported', `${stage}.type`, text);
}

/** @implements {TokenizerShape} */
class Tokenizer {
  #library;
  #surface;
  #hasBlocks;
  #added;
  /** @type {string | null | undefined} of WordPiece, the token of words that the vocabulary lacks */
  #unknown;
  /** @type {string[]} */
  #prefix = [];
  /** @type {string[]} */
  #suffix = [];

  /**
   * @param {Library} library
   * @param {import('./shapes.js').TokenizerFile} file
   * @param {import('./shapes.js').Settings} settings
   */
  constructor(library, file, settings) {
    this.#library = library;
    this.#added = library.get_added_tokens_decoder();
    this.#surface = createSurface(file, this.#added.values());
    this.#hasBlocks = hasBlocks(file);
    this.#unknown = file.model.type === 'WordPiece' ? file.model.unk_token : null;
    this.#readTemplate();
    this.size = library.model.vocab.length;
    this.bos = this.#findBos(settings);
    this.specials = this.#findSpecials(settings);
    this.special = this.specials.map(({ id }) => id);
  }

  /** What the post-processor adds to a text, seen on a text of one letter. */
  #readTemplate() {
    const plain = this.#tokenize('a', false);
    const whole = this.#tokenize('a', true);
    const start = whole.findIndex((_, i) => plain.every((token, j) => whole[i + j] === token));
    if (start < 0) return;
    this.#prefix = whole.slice(0, start);
    this.#suffix = whole.slice(start + plain.length);
  }

  /** @param {import('./shapes.js').Settings} settings */
  #findBos(settings) {
    // Said to be none: nothing is left to guess.
    if (settings.bos_token === null) return null;
    const named = nameOf(settings, 'bos_token');
    // An ordinary word that happens to read "<s>" does not begin sequences.
    const added = new Set([...this.#added.values()].map((token) => token.content));
    const guesses = [this.#prefix[0], ...BOS_NAMES].filter((name) => added.has(name));
    const ids = [named, ...guesses].map((name) => this.#id(name));
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
    const special = [...this.#added.values()].filter((token) => token.special);
    special.sort((a, b) => a.id - b.id);
    return special.map((token) => ({ id: token.id, text: token.content, kind: kindOf(token) }));
  }

  /** @param {unknown} token */
  #id(token) {
    return typeof token === 'string' ? this.#library.token_to_id(token) : undefined;
  }

  /**
   * @param {string} text
   * @param {boolean} template
   * @returns {string[]}
   */
  #tokenize(text, template) {
    return this.#library.tokenize(text, { add_special_tokens: template });
  }

  /**
   * @param {string} text
   * @param {{ bos?: 'auto' | boolean, special?: 'auto' | 'none' | readonly string[] }} [options]
   */
  encode(text, options = {}) {
    check(text, 'text', 'text');
    check(options, 'object', 'options');
    const { bos = 'auto', special = 'auto' } = options;
    const { before, after } = this.#around(bos, special);
    const token = (/** @type {string} */ piece, start = 0, end = start, isSpecial = true) =>
      this.#token(piece, start, end, isSpecial);
    return guard(() => {
      // Half a surrogate pair has no UTF-8; the sign that replaces it is one unit long, too.
      const sound = text.replace(/\p{Surrogate}/gu, '\ufffd');
      const pieces = this.#tokenize(sound, false);
      const spans = locate(sound, pieces, this.#surface, this.#library, this.#hasBlocks);
      return [
        ...before.map((piece) => token(piece)),
        ...pieces.map((piece, i) => token(piece, spans[2 * i], spans[2 * i + 1], false)),
        ...after.map((piece) => token(piece, text.length)),
      ];
    });
  }

  /**
   * The tokens before and after a text.
   * @param {'auto' | boolean} bos
   * @param {'auto' | 'none' | readonly string[]} special
   * @returns {{ before: readonly string[], after: readonly string[] }}
   */
  #around(bos, special) {
    expect(bos === 'auto' || typeof bos === 'boolean', 'bos', "'auto', true or false", bos);
    if (bos === 'auto') return this.#chosen(special);
    expect(special === 'auto', 'special', "'auto' where bos is given", special);
    if (!bos) return { before: [], after: [] };
    expect(this.bos !== null, 'bos', 'a tokenizer that has such a token', bos);
    return { before: [this.#library.id_to_token(Number(this.bos)) ?? ''], after: [] };
  }

  /**
   * @param {'auto' | 'none' | readonly string[]} special
   * @returns {{ before: readonly string[], after: readonly string[] }}
   */
  #chosen(special) {
    if (special === 'auto') return { before: this.#prefix, after: this.#suffix };
    if (special === 'none') return { before: [], after: [] };
    expect(Array.isArray(special), 'special', "'auto', 'none' or a list of tokens", special);
    for (const name of special) {
      expect(this.#id(name) !== undefined, 'special', 'tokens of the vocabulary', name);
    }
    return { before: special, after: [] };
  }

  /**
   * @param {string} piece
   * @param {number} start
   * @param {number} end
   * @param {boolean} special
   * @returns {Token}
   */
  #token(piece, start, end, special) {
    const id = this.#id(piece);
    if (id === undefined && this.#id(this.#unknown) !== undefined) {
      return this.#token(String(this.#unknown), start, end, special);
    }
    if (id === undefined) {
      const text = `"${piece.slice(0, 80)}" is not in the vocabulary, and there is no token for the unknown`;
      throw new SinkscopeError('bad_tokenizer', 'model.vocab', text);
    }
    return { id, text: this.#read(piece), start, end, special };
  }

  /** @param {string} piece */
  #read(piece) {
    const surface = this.#surface(piece);
    return typeof surface === 'string' ? surface : utf8.decode(surface);
  }

  /** @param {ArrayLike<number>} ids */
  decode(ids) {
    check(ids, 'list', 'ids');
    const known = Array.from(ids).filter((id) => this.#library.id_to_token(id) !== undefined);
    if (known.length === 0) return '';
    const options = { skip_special_tokens: true, clean_up_tokenization_spaces: false };
    return guard(() => this.#library.decode(known, options));
  }

  /** @param {number} id */
  piece(id) {
    check(id, 'number', 'id');
    const piece = this.#library.id_to_token(id);
    // A model's vocabulary is often padded beyond that of its tokenizer.
    return piece === undefined ? `[${id}]` : this.#read(piece);
  }
}
