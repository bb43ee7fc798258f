/**
 * Opens packed checkpoints of a training: each is stored as the difference from the previous one,
 * in int8 steps with a scale per matrix. index.json describes them; NNNN.gz hold the steps. A
 * checkpoint opens like any other model, from a safetensors file that is built in memory.
 */
import { pause } from '#host';
import { JOB, checkOptions } from '../abi/arguments.js';
import { SinkscopeError, expect, unlike } from '../abi/errors.js';
import { readRenewing } from '../host/renew.js';
import { readAll } from './files.js';
import { parseIndex } from './timeline_index.js';

/** @typedef {import('../sinkscope.js').Timeline} TimelineShape */
/** @typedef {import('./timeline_index.js').Index} Index */
/** @typedef {import('./timeline_index.js').Packed} Packed */
/**
 * A download, and how many callers wait for it. @typedef {{ bytes: Promise<Uint8Array>, job:
 * AbortController, waiting: number }} Coming
 */

const GRACE_MS = 300;

/** @type {typeof import('../sinkscope.js').openTimeline} */
export async function openTimeline(address, options = {}) {
  expect(address instanceof URL, 'address', 'a URL', address);
  checkOptions(options, JOB);
  const read = async () => {
    const bytes = await readAll(address, options.signal);
    return parseIndex(new TextDecoder().decode(bytes), placeOf(address));
  };
  const index = await readRenewing(address, read, isDamaged);
  return new Timeline(address, index);
}

/** @param {unknown} error */
const isDamaged = (error) =>
  error instanceof SinkscopeError && /^(bad_file|read)$/.test(error.code);

/** @implements {TimelineShape} */
class Timeline {
  #address;
  #index;
  /** Unpacked files by their index. @type {Map<number, Coming>} */
  #files = new Map();
  /**
   * The last decoded weights, from which the following checkpoints continue.
   * @type {{ at: number, weights?: Float32Array }}
   */
  #last = { at: -1 };
  /** @type {Promise<string> | undefined} */
  #config;

  /**
   * @param {URL} address of index.json
   * @param {Index} index
   */
  constructor(address, index) {
    this.#address = address;
    this.#index = index;
    this.recipe = index.recipe;
    this.seed = index.seed;
    this.parameters = index.parameters;
    this.checkpoints = index.checkpoints;
    this.log = index.log;
  }

  /** @type {TimelineShape['preload']} */
  async preload(step, options = {}) {
    checkOptions(options, JOB);
    const { signal } = options;
    const at = this.#place(step);
    await Promise.all(Array.from({ length: at + 1 }, (_, i) => this.#file(i, signal)));
  }

  /** @type {TimelineShape['open']} */
  async open(step, options = {}) {
    checkOptions(options, JOB);
    const { signal, onProgress } = options;
    const at = this.#place(step);
    const [config, weights] = await Promise.all([
      this.#readConfig(),
      this.#decode(at, signal, onProgress),
    ]);
    const { weights_sha256, file } = this.#index.checkpoints[at];
    await checkHash(bytesOf(weights), weights_sha256, `${this.#where(file)}: weights`);
    signal?.throwIfAborted();
    this.#last = { at, weights };
    return { config, weights: toSafetensors(this.#index.tensors, weights) };
  }

  /** @type {TimelineShape['forget']} */
  forget() {
    for (const { job } of this.#files.values()) job.abort(abortError());
    this.#last = { at: -1 };
  }

  /**
   * Reads the config, which all checkpoints share; a caller's signal does not cancel it for the
   * others.
   */
  #readConfig() {
    const text = (this.#config ??= readAll(new URL(this.#index.config, this.#address)).then(
      (bytes) => new TextDecoder().decode(bytes),
    ));
    text.catch(() => (this.#config = undefined));
    return text;
  }

  /** @param {number} step */
  #place(step) {
    const at = this.checkpoints.findIndex((one) => one.step === step);
    if (at >= 0) return at;
    const steps = this.checkpoints.map((one) => one.step).join(', ');
    throw unlike('step', `one of ${steps}`, step);
  }

  /** @param {string} file */
  #where(file) {
    return placeOf(new URL(file, this.#address));
  }

  /**
   * Decodes a checkpoint. All files are requested at once and added in order as they arrive.
   * @param {number} at
   * @param {AbortSignal} [signal]
   * @param {import('../sinkscope.js').Options['onProgress']} [onProgress]
   */
  async #decode(at, signal, onProgress) {
    const { tensors, parameters, checkpoints } = this.#index;
    const base = this.#last.at <= at ? this.#last : { at: -1 };
    const weights = roomFor(Float32Array, parameters, this.#where('index.json'));
    if (base.weights) weights.set(base.weights);
    const remaining = checkpoints.slice(base.at + 1, at + 1);
    const files = remaining.map((_, i) => this.#file(base.at + 1 + i, signal));
    // The loop below reports the first failure; the others must not count as unhandled.
    for (const file of files) file.catch(() => {});
    const total = remaining.reduce((sum, { bytes }) => sum + bytes, 0);
    let done = 0;
    for (const [i, packed] of remaining.entries()) {
      addSteps(weights, await files[i], packed, tensors);
      done += packed.bytes;
      onProgress?.({ stage: 'read', done, total });
      // Going far back takes a tenth of a second, so each step yields to keep the page smooth.
      await pause();
      signal?.throwIfAborted();
    }
    return weights;
  }

  /**
   * Returns an unpacked file. Callers share one download, which stops when the last caller has
   * given up and no other came within GRACE_MS: the next checkpoint needs most of the same files.
   * @param {number} at
   * @param {AbortSignal} [signal]
   * @returns {Promise<Uint8Array>}
   */
  #file(at, signal) {
    signal?.throwIfAborted();
    const coming = this.#files.get(at) ?? this.#fetch(at);
    coming.waiting++;
    return new Promise((resolve, reject) => {
      const leave = () => {
        coming.waiting--;
        setTimeout(() => coming.waiting === 0 && coming.job.abort(abortError()), GRACE_MS);
        reject(signal?.reason);
      };
      signal?.addEventListener('abort', leave);
      const stay = () => signal?.removeEventListener('abort', leave);
      coming.bytes.finally(stay).then(resolve, reject);
    });
  }

  /** @param {number} at */
  #fetch(at) {
    const job = new AbortController();
    const coming = { bytes: this.#read(at, job.signal), job, waiting: 0 };
    this.#files.set(at, coming);
    const isOurs = () => this.#files.get(at) === coming;
    coming.bytes.catch(() => isOurs() && this.#files.delete(at));
    // An aborted download must not serve the next caller.
    job.signal.addEventListener('abort', () => isOurs() && this.#files.delete(at));
    return coming;
  }

  /**
   * @param {number} at
   * @param {AbortSignal} signal
   */
  #read(at, signal) {
    const { file } = this.#index.checkpoints[at];
    const address = new URL(file, this.#address);
    return readRenewing(address, () => this.#unpack(at, address, signal), isDamaged);
  }

  /**
   * @param {number} at
   * @param {URL} address
   * @param {AbortSignal} signal
   */
  async #unpack(at, address, signal) {
    const packed = this.#index.checkpoints[at];
    const where = this.#where(packed.file);
    const bytes = await readAll(address, signal);
    // Some servers unpack .gz files themselves; then the weights' hash identifies the file.
    const isInflated = bytes.length === this.#index.bytes && bytes.length !== packed.bytes;
    if (isInflated) return bytes;
    if (bytes.length !== packed.bytes)
      throw damaged(where, `expected ${packed.bytes} bytes, found ${bytes.length}`);
    await checkHash(bytes, packed.sha256, where);
    return gunzip(bytes, this.#index.bytes, where);
  }
}

function abortError() {
  return new DOMException('', 'AbortError');
}

/** Shortens an address to folder and name for messages. @param {URL} address */
function placeOf({ pathname }) {
  return pathname.split('/').filter(Boolean).slice(-2).join('/');
}

/**
 * @param {string} where
 * @param {string} text
 */
function damaged(where, text) {
  return new SinkscopeError('bad_file', where, text);
}

/**
 * Makes an array of the size that an index claims, which may exceed this machine's memory.
 * @template {Float32Array | Uint8Array} Numbers
 * @param {{ new (length: number): Numbers, readonly BYTES_PER_ELEMENT: number }} Kind
 * @param {number} length
 * @param {string} where
 */
function roomFor(Kind, length, where) {
  try {
    return new Kind(length);
  } catch {
    const bytes = length * Kind.BYTES_PER_ELEMENT;
    throw new SinkscopeError('no_memory', where, `expected room for ${bytes} bytes, there is none`);
  }
}

/**
 * Adds one checkpoint's steps to the previous weights, all in F32:
 *
 *     w = (from_previous ? w : 0) + fround(step · scale)
 *
 * Tensors that are stored whole replace the previous checkpoint's.
 * @param {Float32Array} weights [parameters], updated in place
 * @param {Uint8Array} bytes int8 steps of each coded tensor, then F32 numbers of the others
 * @param {Packed} packed
 * @param {Index['tensors']} tensors
 */
function addSteps(weights, bytes, { scale, from_previous }, tensors) {
  const steps = new Int8Array(bytes.buffer, bytes.byteOffset, bytes.length);
  let raw = tensors.reduce((sum, one) => sum + (one.coded ? one.size : 0), 0);
  let [place, step, matrix] = [0, 0, 0];
  for (const one of tensors) {
    const part = weights.subarray(place, place + one.size);
    place += one.size;
    if (one.coded) {
      if (!from_previous[matrix]) part.fill(0);
      addScaled(part, steps.subarray(step, step + one.size), scale[matrix]);
      step += one.size;
      matrix++;
    } else {
      // Copies bytes, because the numbers may be unaligned in the file.
      bytesOf(part).set(bytes.subarray(raw, raw + part.byteLength));
      raw += part.byteLength;
    }
  }
}

/**
 * The hot loop: the product is rounded before the sum, as in two F32 operations.
 * @param {Float32Array} part
 * @param {Int8Array} steps
 * @param {number} scale
 */
function addScaled(part, steps, scale) {
  for (let i = 0; i < part.length; i++) part[i] += Math.fround(steps[i] * scale);
}

/**
 * @param {Uint8Array} bytes
 * @param {number} length bytes of the unpacked file; unpacking stops if there are more
 * @param {string} where
 */
async function gunzip(bytes, length, where) {
  const out = roomFor(Uint8Array, length, where);
  let done = 0;
  const source = new Blob([/** @type {BlobPart} */ (bytes)]).stream();
  const reader = source.pipeThrough(new DecompressionStream('gzip')).getReader();
  for (;;) {
    const { done: isEnd, value } = await reader.read().catch((error) => {
      throw damaged(where, `expected a gzip file: ${String(error)}`);
    });
    if (isEnd) break;
    if (done + value.length > length) {
      void reader.cancel().catch(() => {});
      throw damaged(where, `expected ${length} bytes in it, found more`);
    }
    out.set(value, done);
    done += value.length;
  }
  if (done < length) throw damaged(where, `expected ${length} bytes in it, found ${done}`);
  return out;
}

/**
 * Checks a hash. Pages of plain http from another machine lack crypto.subtle; there gzip's own
 * checksum must do.
 * @param {Uint8Array} bytes
 * @param {string} expected in hexadecimal digits
 * @param {string} where
 */
async function checkHash(bytes, expected, where) {
  if (!globalThis.crypto?.subtle) return;
  const hash = await crypto.subtle.digest('SHA-256', /** @type {BufferSource} */ (bytes));
  const digest = Array.from(new Uint8Array(hash), (b) => b.toString(16).padStart(2, '0')).join('');
  if (digest !== expected) throw damaged(where, `expected sha256 ${expected}, found ${digest}`);
}

/** @param {Float32Array} weights */
function bytesOf({ buffer, byteOffset, byteLength }) {
  return new Uint8Array(buffer, byteOffset, byteLength);
}

/**
 * Makes a safetensors file: eight bytes of length, a JSON header, the numbers.
 * @param {readonly { readonly name: string, readonly shape: readonly number[], readonly size: number }[]} tensors
 * @param {Float32Array} weights one tensor after the other
 */
export function toSafetensors(tensors, weights) {
  let end = 0;
  const entries = tensors.map(({ name, shape, size }) => {
    const begin = end;
    end += 4 * size;
    return [name, { dtype: 'F32', shape, data_offsets: [begin, end] }];
  });
  const json = new TextEncoder().encode(JSON.stringify(Object.fromEntries(entries)));
  // Spaces after the header align the numbers to eight bytes.
  const start = 8 + Math.ceil(json.length / 8) * 8;
  const file = roomFor(Uint8Array, start + weights.byteLength, 'weights').fill(32, 8, start);
  new DataView(file.buffer).setBigUint64(0, BigInt(start - 8), true);
  file.set(json, 8);
  file.set(bytesOf(weights), start);
  return file;
}
