/**
 * Text to token ids and back, with the characters that each token covers. The tokenizing is that of
 * @huggingface/tokenizers; the offsets, which it does not give, are found in offsets.js.
 */
import { Tokenizer as Library } from '@huggingface/tokenizers';
import { SinkscopeError, expect } from './errors.js';
import { locate } from './offsets.js';
import { createSurface } from './surface.js';

/** @typedef {import('./sinkscope.js').Token} Token */
/** @typedef {import('./sinkscope.js').Tokenizer} TokenizerShape */

/** Names of the token that begins a sequence, for a tokenizer.json that comes alone. */
const BOS_NAMES = [
  '<s>',
  '<bos>',
  '<|begin_of_text|>',
  '<|startoftext|>',
  '[BOS]',
  '<|endoftext|>',
];

const utf8 = new TextDecoder();

/** @type {typeof import('./sinkscope.js').openTokenizer} */
export function openTokenizer(json, config = {}) {
  const file = parse(json, 'tokenizer.json');
  const settings = parse(config, 'tokenizer_config.json');
  return new Tokenizer(openLibrary(file, settings), file, settings);
}

/**
 * @param {string | object} json
 * @param {string} name of the file
 * @returns {any}
 */
function parse(json, name) {
  let value = json;
  try {
    if (typeof json === 'string') value = JSON.parse(json);
  } catch (error) {
    throw new SinkscopeError('bad_tokenizer', name, `is not JSON: ${String(error)}`);
  }
  if (value && typeof value === 'object' && !Array.isArray(value)) return value;
  throw new SinkscopeError('bad_tokenizer', name, 'expected an object');
}

/**
 * @param {any} file
 * @param {any} settings
 */
function openLibrary(file, settings) {
  const vocab = file.model?.vocab;
  if (!vocab || typeof vocab !== 'object') {
    throw new SinkscopeError('bad_tokenizer', 'model.vocab', 'expected a table of tokens');
  }
  const parts = { normalizer: null, pre_tokenizer: null, post_processor: null, decoder: null };
  const whole = { ...parts, ...file, added_tokens: file.added_tokens ?? [] };
  try {
    return new Library(whole, settings);
  } catch (error) {
    throw libraryError(error);
  }
}

/** @param {unknown} error */
function libraryError(error) {
  const text = error instanceof Error ? error.message : String(error);
  const unknown = /^Unknown (\w+) type: (.*)$/.exec(text);
  if (!unknown) return new SinkscopeError('bad_tokenizer', 'tokenizer.json', text);
  const keys = /** @type {Record<string, string>} */ ({
    PreTokenizer: 'pre_tokenizer',
    PostProcessor: 'post_processor',
    TokenizerModel: 'model',
    Model: 'model',
  });
  const key = `${keys[unknown[1]] ?? unknown[1].toLowerCase()}.type`;
  return new SinkscopeError('unsupported', key, `"${unknown[2]}" is not a type this build knows`);
}

/** @implements {TokenizerShape} */
class Tokenizer {
  #library;
  #surface;
  #added;
  /** @type {string[]} */
  #prefix = [];
  /** @type {string[]} */
  #suffix = [];

  /**
   * @param {Library} library
   * @param {any} file
   * @param {any} settings
   */
  constructor(library, file, settings) {
    this.#library = library;
    this.#added = library.get_added_tokens_decoder();
    this.#surface = createSurface(file, new Set([...this.#added.values()].map((t) => t.content)));
    this.#readTemplate();
    this.size = largestId(file) + 1;
    this.bos = this.#findBos(settings);
    this.special = [...this.#added.values()].filter((t) => t.special).map((t) => t.id);
  }

  /** What the post-processor puts around a text, seen on a text of one letter. */
  #readTemplate() {
    const plain = this.#tokenize('a', false);
    const whole = this.#tokenize('a', true);
    const start = whole.findIndex((_, i) => plain.every((token, j) => whole[i + j] === token));
    if (start < 0) return;
    this.#prefix = whole.slice(0, start);
    this.#suffix = whole.slice(start + plain.length);
  }

  /** @param {any} settings */
  #findBos(settings) {
    const named = settings.bos_token?.content ?? settings.bos_token;
    // An ordinary word that happens to read "<s>" does not begin sequences.
    const added = new Set([...this.#added.values()].map((token) => token.content));
    const guesses = [this.#prefix[0], ...BOS_NAMES].filter((name) => added.has(name));
    const ids = [named, ...guesses].map((name) => this.#id(name));
    return ids.find((id) => id !== undefined) ?? null;
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
    try {
      return this.#library.tokenize(text, { add_special_tokens: template });
    } catch (error) {
      throw libraryError(error);
    }
  }

  /**
   * @param {string} text
   * @param {{ bos?: 'auto' | boolean }} [options]
   */
  encode(text, { bos = 'auto' } = {}) {
    expect(typeof text === 'string', 'text', 'a string', text);
    expect(bos === 'auto' || typeof bos === 'boolean', 'bos', "'auto', true or false", bos);
    // Half a surrogate pair has no UTF-8; the sign that replaces it is one unit long, too.
    const sound = text.replace(/\p{Surrogate}/gu, '\ufffd');
    const pieces = this.#tokenize(sound, false);
    const spans = locate(sound, pieces, this.#surface, this.#library);
    const tokens = pieces.map((piece, i) =>
      this.#token(piece, spans[2 * i], spans[2 * i + 1], false),
    );
    return [...this.#before(bos), ...tokens, ...this.#after(bos, text.length)];
  }

  /**
   * @param {'auto' | boolean} bos
   * @returns {Token[]}
   */
  #before(bos) {
    if (bos === 'auto') return this.#prefix.map((piece) => this.#token(piece, 0, 0, true));
    if (!bos) return [];
    expect(this.bos !== null, 'bos', 'a tokenizer that has such a token', bos);
    return [this.#token(this.#library.id_to_token(Number(this.bos)) ?? '', 0, 0, true)];
  }

  /**
   * @param {'auto' | boolean} bos
   * @param {number} end
   */
  #after(bos, end) {
    const suffix = bos === 'auto' ? this.#suffix : [];
    return suffix.map((piece) => this.#token(piece, end, end, true));
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
    if (id === undefined) {
      const text = `"${piece}" is not in the vocabulary, and there is no token for the unknown`;
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
    const known = Array.from(ids).filter((id) => this.#library.id_to_token(id) !== undefined);
    if (known.length === 0) return '';
    try {
      return this.#library.decode(known, {
        skip_special_tokens: true,
        clean_up_tokenization_spaces: false,
      });
    } catch (error) {
      throw libraryError(error);
    }
  }

  /** @param {number} id */
  piece(id) {
    const piece = this.#library.id_to_token(id);
    // A model's vocabulary is often padded beyond that of its tokenizer.
    return piece === undefined ? `[${id}]` : this.#read(piece);
  }
}

/** @param {any} file */
function largestId(file) {
  const { vocab } = file.model;
  let largest = -1;
  if (Array.isArray(vocab)) largest = vocab.length - 1;
  else for (const id of Object.values(vocab)) largest = Math.max(largest, Number(id));
  for (const token of file.added_tokens ?? []) largest = Math.max(largest, token.id);
  return largest;
}
