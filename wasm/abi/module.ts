/** Calls the binary, writes into its memory and copies views out; knows no models or runs. */
import { SinkscopeError } from './errors.ts';
import { MEMORY_BYTES } from './memory.ts';

const VIEW_WORDS = 12;
const VIEW_BYTES = 2;

/** Keeps a U+FEFF, an ordinary character in strings of a file. */
export const utf8 = new TextDecoder('utf-8', { ignoreBOM: true });

export type Exports = Record<string, (...args: number[]) => number> & {
  memory: WebAssembly.Memory;
};

export class Module {
  #exports;
  #view;

  readonly binary;
  readonly sharedMemory;
  readonly memory;
  constructor(exports: Exports, binary: WebAssembly.Module, sharedMemory?: WebAssembly.Memory) {
    this.#exports = exports;
    this.binary = binary;
    this.sharedMemory = sharedMemory;
    this.memory = sharedMemory ?? exports.memory;
    this.#view = this.reserve(4 * VIEW_WORDS);
  }

  /** Bytes of linear memory. */
  get size() {
    return this.memory.buffer.byteLength;
  }

  /** Calls ss_wasm_<name>. A trap leaves an unknown state, so every later call throws. */
  call(name: string, ...args: number[]): number {
    if (this.trap) throw this.trap;
    try {
      return this.#exports[`ss_wasm_${name}`](...args);
    } catch (error) {
      this.trap = new SinkscopeError('lost', name, `the core stopped: ${String(error)}`);
      throw this.trap;
    }
  }

  /** Calls a function that returns an address, 0 for failure. */
  handle(name: string, ...args: number[]) {
    const address = this.call(name, ...args) >>> 0;
    if (!address) throw this.#error();
    return address;
  }

  /** Calls a function that returns a status, 0 for success. */
  check(name: string, ...args: number[]) {
    if (this.call(name, ...args) !== 0) throw this.#error();
  }

  /** Calls a function that fills a view, its last argument, and copies what the view shows. */
  tensor(name: string, ...args: number[]) {
    this.check(name, ...args, this.#view);
    return copyView(this.memory.buffer, this.#viewWords());
  }

  json(name: string, ...args: number[]) {
    this.check(name, ...args, this.#view);
    const [address, type, , bytes] = this.#viewWords();
    if (type !== VIEW_BYTES) throw new SinkscopeError('abi', name, `expected text`);
    return JSON.parse(utf8.decode(this.bytes(address, bytes).slice()));
  }

  /** Calls a function that makes a view of bytes, which are valid until the next call. */
  bytesOf(name: string, ...args: number[]) {
    this.check(name, ...args, this.#view);
    const [address, , , bytes] = this.#viewWords();
    return this.bytes(address, bytes);
  }

  file(name: string, ...args: number[]) {
    return this.bytesOf(name, ...args).slice();
  }

  /** Reserves a block of memory, which the caller releases. */
  reserve(bytes: number) {
    const address = bytes < MEMORY_BYTES ? this.call('reserve', bytes) >>> 0 : 0;
    if (address) return address;
    const text = `expected room for ${bytes} more bytes; ${this.size} are in use`;
    throw new SinkscopeError('no_memory', 'memory', text);
  }

  release(address: number) {
    if (!this.trap) this.call('release', address);
  }

  /** Returns the bytes at an address, valid until the next call. */
  bytes(address: number, bytes: number) {
    return new Uint8Array(this.memory.buffer, address, bytes);
  }

  lend<T>(content: ArrayBufferView, use: (address: number) => T) {
    const address = this.reserve(Math.max(content.byteLength, 1));
    try {
      const bytes = new Uint8Array(content.buffer, content.byteOffset, content.byteLength);
      this.bytes(address, content.byteLength).set(bytes);
      return use(address);
    } finally {
      this.release(address);
    }
  }

  #viewWords() {
    return new Uint32Array(this.memory.buffer, this.#view, VIEW_WORDS).slice();
  }

  #error() {
    const address = this.call('error') >>> 0;
    const code = new DataView(this.memory.buffer).getUint32(address, true);
    const place = this.#text(address + 4, 96);
    const text = this.#text(address + 100, 768);
    return new SinkscopeError(this.codes?.[code] ?? `status ${code}`, place, text);
  }

  #text(address: number, bytesMax: number) {
    // Shared memory is copied first, because it cannot be decoded.
    return utf8.decode(this.bytes(address, bytesMax).slice()).split('\0')[0];
  }

  codes: Record<number, string> | undefined;
  trap: SinkscopeError | undefined;
}

/** Makes a dense copy of what a view shows: [address, type, rank, dims x 4, strides x 4, 0]. */
export function copyView(memory: ArrayBufferLike, words: Uint32Array) {
  const [address, type, rank] = words;
  const shape = [...words.subarray(3, 3 + rank)];
  const strides = words.subarray(7, 7 + rank);
  const Numbers = (type === 1 ? Int32Array : Float32Array) as Float32ArrayConstructor;
  const data: Float32Array | Int32Array = new Numbers(shape.reduce((a, b) => a * b, 1));
  let count = 0;
  const copy = (axis: number, from: number) => {
    // A row without gaps is copied at once, and so is the number of a view without dimensions.
    if (axis === rank || (axis === rank - 1 && strides[axis] === 1)) {
      const row = new Numbers(memory, from, shape[axis] ?? 1);
      data.set(row, count);
      count += row.length;
    } else for (let i = 0; i < shape[axis]; i++) copy(axis + 1, from + 4 * i * strides[axis]);
  };
  copy(0, address);
  return { shape, data };
}
