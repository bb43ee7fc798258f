/**
 * Reads the characters of a nanoGPT model from its meta.pkl, a pickled table with `itos`, and makes a
 * tokenizer of them. Of Python's pickles only tables of texts and numbers are read; nothing is executed.
 */
import { SinkscopeError, expect } from '../abi/errors.ts';
import type { GuardedTokenizer, Token } from './types.ts';

const PLACE = 'meta.pkl';

class Unpickler {
  readonly #bytes;
  #offset = 0;
  #stack: unknown[] = [];
  readonly #marks: number[] = [];
  readonly #memo: unknown[] = [];

  constructor(bytes: Uint8Array) {
    this.#bytes = bytes;
  }

  read() {
    for (let steps = 0; steps < this.#bytes.length; steps++) {
      const opcode = this.#number(1);
      if (opcode === 0x2e) return this.#stack.pop();
      this.#step(opcode);
    }
    throw badPickle('its end', 'none');
  }

  #step(opcode: number) {
    const letter = String.fromCharCode(opcode);
    if (opcode === 0x80) this.#number(1);
    else if (opcode === 0x95) this.#number(8);
    else if (letter === '}') this.#stack.push(new Map());
    else if (letter === '(') this.#marks.push(this.#stack.length);
    else if (letter === 'K') this.#stack.push(this.#number(1));
    else if (letter === 'M') this.#stack.push(this.#number(2));
    else if (letter === 'J') this.#stack.push(this.#number(4));
    else if (letter === 'X') this.#stack.push(this.#text(4));
    else if (opcode === 0x8c) this.#stack.push(this.#text(1));
    else if (opcode === 0x94) this.#memo.push(this.#stack.at(-1));
    else if (letter === 'q') this.#memo[this.#number(1)] = this.#stack.at(-1);
    else if (letter === 'r') this.#memo[this.#number(4)] = this.#stack.at(-1);
    else if (letter === 'h') this.#stack.push(this.#memo[this.#number(1)]);
    else if (letter === 'j') this.#stack.push(this.#memo[this.#number(4)]);
    else if (letter === 's') this.#setItems(this.#stack.length - 2);
    else if (letter === 'u') this.#setItems(this.#marks.pop() ?? -1);
    else throw badPickle('a table of texts and numbers', `opcode 0x${opcode.toString(16)}`);
  }

  #setItems(first: number) {
    const items = first < 1 ? [] : this.#stack.splice(first);
    const table = this.#stack.at(-1);
    if (!(table instanceof Map) || items.length % 2) throw badPickle('pairs in a table', 'others');
    for (let i = 0; i < items.length; i += 2) table.set(items[i], items[i + 1]);
  }

  #number(width: number) {
    if (this.#offset + width > this.#bytes.length) throw badPickle('more bytes', 'the end');
    let value = 0;
    for (let i = width; i-- > 0;) value = value * 256 + this.#bytes[this.#offset + i];
    this.#offset += width;
    return value;
  }

  #text(width: number) {
    const length = this.#number(width);
    const end = this.#offset + length;
    if (end > this.#bytes.length) throw badPickle('a text inside the file', 'a longer one');
    const text = new TextDecoder().decode(this.#bytes.subarray(this.#offset, end));
    this.#offset = end;
    return text;
  }
}

const badPickle = (expected: string, actual: string) =>
  new SinkscopeError('bad_tokenizer', PLACE, `expected ${expected}, found ${actual}`);

export function readCharacters(bytes: Uint8Array): readonly string[] {
  const meta = new Unpickler(bytes).read();
  const itos = meta instanceof Map ? meta.get('itos') : undefined;
  const size = itos instanceof Map ? itos.size : 0;
  const characters = Array.from({ length: size }, (_, id) => itos.get(id));
  const areTexts = characters.every((text) => typeof text === 'string' && [...text].length === 1);
  if (!size || !areTexts)
    throw badPickle('itos, a character for each id from 0 on', 'something else');
  return characters;
}

/** Makes a tokenizer with a token for each character; as in nanoGPT, other characters are an error. */
export function characterTokenizer(characters: readonly string[]): GuardedTokenizer {
  const ids = new Map(characters.map((text, id) => [text, id]));
  const textOf = (id: number) => characters[id] ?? '';
  return {
    size: characters.length,
    bos: null,
    special: [],
    specials: [],
    async encode(text, { special = 'auto' } = {}) {
      expect(typeof text === 'string', 'text', 'a string', text);
      expect(typeof special === 'string', 'special', 'none, for these are characters', special);
      const tokens: Token[] = [];
      let start = 0;
      for (const character of text) {
        const id = ids.get(character);
        const expected = `one of the ${characters.length} characters of ${PLACE}`;
        if (id === undefined) expect(false, 'text', expected, character);
        const end = start + character.length;
        tokens.push({ id: Number(id), text: character, start, end, special: false });
        start = end;
      }
      return tokens;
    },
    decode: async (list) => Array.from(list, textOf).join(''),
    piece: textOf,
    close() {},
  };
}
