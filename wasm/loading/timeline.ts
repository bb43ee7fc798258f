/**
 * Opens checkpoints of a training, each stored as int8 steps from the previous one with a scale per
 * matrix (index.json, NNNN.gz), from a safetensors file that is built in memory.
 */
import { pause } from '#host';
import { JOB_OPTIONS, checkOptions } from '../abi/arguments.ts';
import { SinkscopeError, expect, argumentError } from '../abi/errors.ts';
import { readRenewing } from './renew.ts';
import { readAll, readUtf8 } from './files.ts';
import { sha256 } from './hash.ts';
import { headerBytes } from './safetensors.ts';
import { parseIndex, type Index, type PackedCheckpoint } from './timeline_index.ts';
import type { Options } from '../abi/types.ts';
import type { ModelFiles, Timeline as TimelineShape } from './types.ts';

type FileDownload = { bytes: Promise<Uint8Array>; controller: AbortController; callers: number };

/** Milliseconds for which a download goes on after its last caller has given up. */
const GRACE_MS = 300;

/**
 * Reads the index of a timeline, but no weights.
 * @param address of index.json
 * @throws SinkscopeError 'bad_file' with the key that is malformed
 * @example const timeline = await openTimeline(new URL('softmax/timeline/index.json', zoo));
 */
export async function openTimeline(
  address: URL,
  options: Pick<Options, 'signal'> = {},
): Promise<TimelineShape> {
  expect(address instanceof URL, 'address', 'a URL', address);
  checkOptions(options, JOB_OPTIONS);
  const readIndex = async () =>
    parseIndex(await readUtf8(address, options.signal), placeOf(address));
  const index = await readRenewing(address, readIndex, isDamaged);
  return new Timeline(address, index);
}

const isDamaged = (error: unknown) =>
  error instanceof SinkscopeError && /^(bad_file|read)$/.test(error.code);

class Timeline implements TimelineShape {
  #address;
  #index;
  /** Unpacked files, or their downloads, by the index of the checkpoint. */
  #files: Map<number, FileDownload> = new Map();
  /** The last decoded weights, from which the following checkpoints continue. */
  #lastDecoding: { position: number; weights?: Float32Array } = { position: -1 };
  #config: Promise<string> | undefined;

  readonly recipe;
  readonly seed;
  readonly parameters;
  readonly checkpoints;
  readonly log;

  constructor(address: URL, index: Index) {
    this.#address = address;
    this.#index = index;
    this.recipe = index.recipe;
    this.seed = index.seed;
    this.parameters = index.parameters;
    this.checkpoints = index.checkpoints;
    this.log = index.log;
  }

  async preload(step: number, options: Pick<Options, 'signal'> = {}): Promise<void> {
    checkOptions(options, JOB_OPTIONS);
    const { signal } = options;
    const position = this.#indexOf(step);
    await Promise.all(Array.from({ length: position + 1 }, (_, i) => this.#getFile(i, signal)));
  }

  async open(step: number, options: Options = {}): Promise<ModelFiles> {
    checkOptions(options, JOB_OPTIONS);
    const { signal, onProgress } = options;
    const position = this.#indexOf(step);
    const [config, weights] = await Promise.all([
      this.#readConfig(),
      this.#decode(position, signal, onProgress),
    ]);
    const { weights_sha256, file } = this.#index.checkpoints[position];
    await checkHash(bytesOf(weights), weights_sha256, `${this.#placeOfFile(file)}: weights`);
    signal?.throwIfAborted();
    this.#lastDecoding = { position, weights };
    return { config, weights: toSafetensors(this.#index.tensors, weights) };
  }

  forget(): void {
    for (const { controller } of this.#files.values()) controller.abort(abortError());
    this.#lastDecoding = { position: -1 };
  }

  /** Reads the config of all checkpoints; one caller's signal does not cancel it for others. */
  #readConfig() {
    const text = (this.#config ??= readUtf8(new URL(this.#index.config, this.#address)));
    text.catch(() => (this.#config = undefined));
    return text;
  }

  #indexOf(step: number) {
    const position = this.checkpoints.findIndex((checkpoint) => checkpoint.step === step);
    if (position >= 0) return position;
    const steps = this.checkpoints.map((checkpoint) => checkpoint.step).join(', ');
    throw argumentError('step', `one of ${steps}`, step);
  }

  #placeOfFile(file: string) {
    return placeOf(new URL(file, this.#address));
  }

  /** Decodes a checkpoint. All files are requested at once and added in order as they arrive. */
  async #decode(position: number, signal?: AbortSignal, onProgress?: Options['onProgress']) {
    const { tensors, parameters, checkpoints } = this.#index;
    const start = this.#lastDecoding.position <= position ? this.#lastDecoding : { position: -1 };
    const weights = makeArray(Float32Array, parameters, this.#placeOfFile('index.json'));
    if (start.weights) weights.set(start.weights);
    const nextCheckpoints = checkpoints.slice(start.position + 1, position + 1);
    const files = nextCheckpoints.map((_, i) => this.#getFile(start.position + 1 + i, signal));
    // The loop below reports the first failure; the others must not count as unhandled.
    for (const file of files) file.catch(() => {});
    const total = nextCheckpoints.reduce((sum, { bytes }) => sum + bytes, 0);
    let count = 0;
    for (const [i, checkpoint] of nextCheckpoints.entries()) {
      addSteps(weights, await files[i], checkpoint, tensors);
      count += checkpoint.bytes;
      onProgress?.({ stage: 'read', done: count, total });
      // Decoding many checkpoints takes a tenth of a second, so each one yields to keep the page smooth.
      await pause();
      signal?.throwIfAborted();
    }
    return weights;
  }

  /**
   * Returns an unpacked file. Callers share one download. It stops when the last caller has given
   * up and no other came within GRACE_MS, because the next checkpoint needs most of the same files.
   */
  #getFile(position: number, signal?: AbortSignal): Promise<Uint8Array> {
    signal?.throwIfAborted();
    const download = this.#files.get(position) ?? this.#fetch(position);
    download.callers++;
    return new Promise((resolve, reject) => {
      const giveUp = () => {
        download.callers--;
        setTimeout(
          () => download.callers === 0 && download.controller.abort(abortError()),
          GRACE_MS,
        );
        reject(signal?.reason);
      };
      signal?.addEventListener('abort', giveUp);
      const stopListening = () => signal?.removeEventListener('abort', giveUp);
      download.bytes.finally(stopListening).then(resolve, reject);
    });
  }

  #fetch(position: number) {
    const controller = new AbortController();
    const download = { bytes: this.#read(position, controller.signal), controller, callers: 0 };
    this.#files.set(position, download);
    const isCurrent = () => this.#files.get(position) === download;
    download.bytes.catch(() => isCurrent() && this.#files.delete(position));
    // An aborted download must not serve the next caller.
    controller.signal.addEventListener('abort', () => isCurrent() && this.#files.delete(position));
    return download;
  }

  #read(position: number, signal: AbortSignal) {
    const { file } = this.#index.checkpoints[position];
    const address = new URL(file, this.#address);
    return readRenewing(address, () => this.#unpack(position, address, signal), isDamaged);
  }

  async #unpack(position: number, address: URL, signal: AbortSignal) {
    const checkpoint = this.#index.checkpoints[position];
    const where = this.#placeOfFile(checkpoint.file);
    const bytes = await readAll(address, signal);
    // Some servers unpack .gz files themselves; then only the hash of the weights is checked.
    const isInflated = bytes.length === this.#index.bytes && bytes.length !== checkpoint.bytes;
    if (isInflated) return bytes;
    if (bytes.length !== checkpoint.bytes)
      throw damageError(where, `expected ${checkpoint.bytes} bytes, found ${bytes.length}`);
    await checkHash(bytes, checkpoint.sha256, where);
    return gunzip(bytes, this.#index.bytes, where);
  }
}

const abortError = () => new DOMException('', 'AbortError');

const placeOf = ({ pathname }: URL) => pathname.split('/').filter(Boolean).slice(-2).join('/');

const damageError = (where: string, text: string) => new SinkscopeError('bad_file', where, text);

/** Makes an array of the size that an index claims, which may exceed this machine's memory. */
function makeArray<Numbers extends Float32Array | Uint8Array>(
  ArrayType: { new (length: number): Numbers; readonly BYTES_PER_ELEMENT: number },
  length: number,
  where: string,
) {
  try {
    return new ArrayType(length);
  } catch {
    const bytes = length * ArrayType.BYTES_PER_ELEMENT;
    throw new SinkscopeError('no_memory', where, `expected room for ${bytes} bytes, there is none`);
  }
}

/**
 * Turns the weights of the previous checkpoint into those of the next one, all in F32:
 *
 *     w = (from_previous ? w : 0) + fround(step · scale)
 *
 * Tensors that are stored whole replace those of the previous checkpoint.
 * @param weights [parameters], updated in place
 * @param bytes int8 steps of each coded tensor, then F32 numbers of the others
 */
function addSteps(
  weights: Float32Array,
  bytes: Uint8Array,
  { scale, from_previous }: PackedCheckpoint,
  tensors: Index['tensors'],
) {
  const steps = new Int8Array(bytes.buffer, bytes.byteOffset, bytes.length);
  let floatOffset = tensors.reduce((sum, tensor) => sum + (tensor.coded ? tensor.size : 0), 0);
  let [offset, stepOffset, matrix] = [0, 0, 0];
  for (const tensor of tensors) {
    const tensorWeights = weights.subarray(offset, offset + tensor.size);
    offset += tensor.size;
    if (tensor.coded) {
      if (!from_previous[matrix]) tensorWeights.fill(0);
      addScaled(tensorWeights, steps.subarray(stepOffset, stepOffset + tensor.size), scale[matrix]);
      stepOffset += tensor.size;
      matrix++;
    } else {
      // Copies bytes, because the numbers may be unaligned in the file.
      const end = floatOffset + tensorWeights.byteLength;
      bytesOf(tensorWeights).set(bytes.subarray(floatOffset, end));
      floatOffset = end;
    }
  }
}

/** Adds scaled steps, in the hot loop of decoding; products are rounded first, as in F32. */
function addScaled(weights: Float32Array, steps: Int8Array, scale: number) {
  for (let i = 0; i < weights.length; i++) weights[i] += Math.fround(steps[i] * scale);
}

/** Unpacks a gzip file of the expected length; more bytes are an error. */
async function gunzip(bytes: Uint8Array, length: number, where: string) {
  const out = makeArray(Uint8Array, length, where);
  let count = 0;
  const source = new Blob([bytes as BlobPart]).stream();
  const reader = source.pipeThrough(new DecompressionStream('gzip')).getReader();
  for (;;) {
    const { done: isEnd, value } = await reader.read().catch((error) => {
      throw damageError(where, `expected a gzip file: ${String(error)}`);
    });
    if (isEnd) break;
    if (count + value.length > length) {
      void reader.cancel().catch(() => {});
      throw damageError(where, `expected ${length} bytes in it, found more`);
    }
    out.set(value, count);
    count += value.length;
  }
  if (count < length) throw damageError(where, `expected ${length} bytes in it, found ${count}`);
  return out;
}

/** Checks a hash in hexadecimal. A page of plain http from elsewhere has only gzip's checksum. */
async function checkHash(bytes: Uint8Array, expected: string, where: string) {
  const digest = await sha256(bytes);
  if (digest !== undefined && digest !== expected)
    throw damageError(where, `expected sha256 ${expected}, found ${digest}`);
}

const bytesOf = ({ buffer, byteOffset, byteLength }: Float32Array) =>
  new Uint8Array(buffer, byteOffset, byteLength);

/** Makes a safetensors file: the header's length in eight bytes, its JSON, all tensors' numbers. */
export function toSafetensors(
  tensors: readonly Omit<Index['tensors'][number], 'coded'>[],
  weights: Float32Array,
) {
  let end = 0;
  const entries = tensors.map(({ name, shape, size }) => {
    const start = end;
    end += 4 * size;
    return [name, { dtype: 'F32', shape, data_offsets: [start, end] }];
  });
  const header = headerBytes(Object.fromEntries(entries));
  const file = makeArray(Uint8Array, header.length + weights.byteLength, 'weights');
  file.set(header);
  file.set(bytesOf(weights), header.length);
  return file;
}
