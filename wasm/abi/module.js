/**
 * The binary in memory: this module instantiates and calls it, writes bytes into it and copies
 * views out. It knows the shape of the ABI but nothing of models or runs.
 */
import { request } from '#host';
import { readRenewing } from '../host/renew.js';
import { SinkscopeError } from './errors.js';
import { sharedMemory } from './memory.js';

/** Version of the ABI that these files call. */
const ABI_VERSION = 9;
const VIEW_WORDS = 12;
const VIEW_BYTES = 2;

/** U+FEFF is an ordinary character in strings of a file. */
const utf8 = new TextDecoder('utf-8', { ignoreBOM: true });

/** @typedef {Record<string, (...args: number[]) => number> & { memory: WebAssembly.Memory }} Exports */

/**
 * @param {URL} address of a .wasm file
 * @param {boolean} [isShared] whether threads must be able to share the memory
 */
export async function loadModule(address, isShared = false) {
  const memory = isShared ? sharedMemory() : undefined;
  const { module: binary, instance } = await instantiate(address, memory);
  const exports = /** @type {Exports} */ (instance.exports);
  if (typeof exports.ss_wasm_abi_version !== 'function') {
    throw new SinkscopeError('abi', address.href, 'this is not a Sinkscope binary');
  }
  exports._initialize();
  const version = exports.ss_wasm_abi_version();
  if (version !== ABI_VERSION) {
    throw new SinkscopeError(
      'abi',
      address.href,
      `expected ABI version ${ABI_VERSION}, got ${version}`,
    );
  }
  return new Module(exports, binary, memory);
}

/**
 * @param {URL} address
 * @param {WebAssembly.Memory} [memory]
 */
async function instantiate(address, memory) {
  /** @type {WebAssembly.Imports} */
  const imports = memory ? { env: { memory } } : {};
  try {
    return await readRenewing(
      address,
      async () => instantiateFrom(await request(address), imports),
      (error) => error instanceof WebAssembly.CompileError,
    );
  } catch (error) {
    // Browsers name a directive of their own, not the one that a server should send.
    const isForbidden = /content security policy|unsafe-eval/i.test(String(error));
    if (isForbidden)
      throw new SinkscopeError(
        'unsupported',
        address.href,
        "expected a page that may run WebAssembly, found a Content-Security-Policy without 'wasm-unsafe-eval' in script-src",
      );
    const where = '`base` of createEngine names the folder of the binaries';
    throw new SinkscopeError(
      'read',
      address.href,
      `could not be loaded (${String(error)}); ${where}`,
    );
  }
}

/**
 * @param {Response} response
 * @param {WebAssembly.Imports} imports
 */
async function instantiateFrom(response, imports) {
  if (!response.ok) throw new Error(`the server answered ${response.status}`);
  // Static hosts often send another type, which instantiateStreaming rejects.
  return response.headers.get('content-type') === 'application/wasm'
    ? WebAssembly.instantiateStreaming(response, imports)
    : WebAssembly.instantiate(await response.arrayBuffer(), imports);
}

export class Module {
  #exports;
  #view;

  /**
   * @param {Exports} exports
   * @param {WebAssembly.Module} binary
   * @param {WebAssembly.Memory} [shared] memory of a binary with threads
   */
  constructor(exports, binary, shared) {
    this.#exports = exports;
    this.binary = binary;
    this.shared = shared;
    this.memory = shared ?? exports.memory;
    this.#view = this.reserve(4 * VIEW_WORDS);
  }

  /** Bytes of linear memory. */
  get size() {
    return this.memory.buffer.byteLength;
  }

  /**
   * Calls ss_wasm_<name> and returns its result. A trap leaves the instance in an unknown state, so
   * every later call throws.
   * @param {string} name
   * @param {...number} args
   * @returns {number}
   */
  call(name, ...args) {
    if (this.trap) throw this.trap;
    try {
      return this.#exports[`ss_wasm_${name}`](...args);
    } catch (error) {
      this.trap = new SinkscopeError('lost', name, `the core stopped: ${String(error)}`);
      throw this.trap;
    }
  }

  /**
   * Calls a function that returns an address, 0 for failure.
   * @param {string} name
   * @param {...number} args
   */
  handle(name, ...args) {
    const address = this.call(name, ...args) >>> 0;
    if (!address) throw this.#error();
    return address;
  }

  /**
   * Calls a function that returns a status, 0 for success.
   * @param {string} name
   * @param {...number} args
   */
  check(name, ...args) {
    if (this.call(name, ...args) !== 0) throw this.#error();
  }

  /**
   * Calls a function that fills a view, passed as the last argument, and copies what the view
   * shows.
   * @param {string} name
   * @param {...number} args
   */
  tensor(name, ...args) {
    this.check(name, ...args, this.#view);
    return copyView(this.memory.buffer, this.#words());
  }

  /**
   * Calls a function that makes a view of a text, and parses the text.
   * @param {string} name
   * @param {...number} args
   */
  json(name, ...args) {
    this.check(name, ...args, this.#view);
    const [address, type, , bytes] = this.#words();
    if (type !== VIEW_BYTES) throw new SinkscopeError('abi', name, `expected text`);
    return JSON.parse(utf8.decode(this.bytes(address, bytes).slice()));
  }

  /**
   * Calls a function that makes a view of bytes, which are valid until the next call.
   * @param {string} name
   * @param {...number} args
   */
  bytesOf(name, ...args) {
    this.check(name, ...args, this.#view);
    const [address, , , bytes] = this.#words();
    return this.bytes(address, bytes);
  }

  /**
   * Calls a function that makes a view of bytes, and copies them.
   * @param {string} name
   * @param {...number} args
   */
  file(name, ...args) {
    return this.bytesOf(name, ...args).slice();
  }

  /**
   * Calls a function that makes a view of a metadata value: [address, bytes, type, count, isArray],
   * with address 0 for a missing key. Its bytes are copied.
   * @param {string} name
   * @param {...number} args
   * @returns {import('./metadata.js').Raw | undefined}
   */
  value(name, ...args) {
    this.check(name, ...args, this.#view);
    const [address, bytes, type, count, isArray] = this.#words();
    if (!address) return undefined;
    return { bytes: this.bytes(address, bytes).slice(), type, count, isArray: isArray !== 0 };
  }

  /**
   * Reserves a block of memory, which the caller releases.
   * @param {number} bytes
   */
  reserve(bytes) {
    const address = bytes < 2 ** 32 ? this.call('reserve', bytes) >>> 0 : 0;
    if (address) return address;
    const text = `expected room for ${bytes} more bytes; ${this.size} are in use`;
    throw new SinkscopeError('no_memory', 'memory', text);
  }

  /** @param {number} address */
  release(address) {
    if (!this.trap) this.call('release', address);
  }

  /**
   * Returns the bytes at an address, valid until the next call.
   * @param {number} address
   * @param {number} bytes
   */
  bytes(address, bytes) {
    return new Uint8Array(this.memory.buffer, address, bytes);
  }

  /**
   * Copies `content` into a block that exists during one use.
   * @template T
   * @param {ArrayBufferView} content
   * @param {(address: number) => T} use
   */
  lend(content, use) {
    const address = this.reserve(Math.max(content.byteLength, 1));
    try {
      const bytes = new Uint8Array(content.buffer, content.byteOffset, content.byteLength);
      this.bytes(address, content.byteLength).set(bytes);
      return use(address);
    } finally {
      this.release(address);
    }
  }

  #words() {
    return new Uint32Array(this.memory.buffer, this.#view, VIEW_WORDS).slice();
  }

  /** Returns the last error; describe names its code. */
  #error() {
    const address = this.call('error') >>> 0;
    const code = new DataView(this.memory.buffer).getUint32(address, true);
    const where = this.#text(address + 4, 96);
    const text = this.#text(address + 100, 512);
    return new SinkscopeError(this.codes?.[code] ?? `status ${code}`, where, text);
  }

  /**
   * @param {number} address
   * @param {number} bytesMax
   */
  #text(address, bytesMax) {
    const bytes = this.bytes(address, bytesMax);
    const end = bytes.indexOf(0);
    return utf8.decode(bytes.slice(0, end < 0 ? bytesMax : end));
  }

  /** @type {Record<number, string> | undefined} */
  codes;
  /** @type {SinkscopeError | undefined} */
  trap;
}

/**
 * Makes a dense copy of what a view shows: [address, type, rank, dims x 4, strides x 4, 0].
 * @param {ArrayBufferLike} memory
 * @param {Uint32Array} words
 */
export function copyView(memory, words) {
  const [address, type, rank] = words;
  const shape = [...words.subarray(3, 3 + rank)];
  const strides = words.subarray(7, 7 + rank);
  const Numbers = type === 1 ? Int32Array : Float32Array;
  const data = new Numbers(shape.reduce((a, b) => a * b, 1));
  if (data.length > 0) copyDimension(memory, address, shape, strides, 0, data, 0);
  return { shape, data };
}

/**
 * @param {ArrayBufferLike} memory
 * @param {number} address
 * @param {number[]} shape
 * @param {Uint32Array} strides
 * @param {number} axis
 * @param {Float32Array | Int32Array} out
 * @param {number} at
 * @returns {number} the next index in out
 */
function copyDimension(memory, address, shape, strides, axis, out, at) {
  const Numbers = /** @type {Float32ArrayConstructor} */ (out.constructor);
  const n = axis < shape.length ? shape[axis] : 1;
  const innermost = axis >= shape.length - 1;
  if (innermost && (n === 1 || strides[axis] === 1)) {
    out.set(new Numbers(memory, address, n), at);
    return at + n;
  }
  for (let i = 0; i < n; i++) {
    const there = address + 4 * i * strides[axis];
    if (innermost) out[at++] = new Numbers(memory, there, 1)[0];
    else at = copyDimension(memory, there, shape, strides, axis + 1, out, at);
  }
  return at;
}
