/** Stores recordings, numbered, in the module's memory. */
import { SinkscopeError } from '../abi/errors.js';
import { readConditions } from './conditions.js';

/** @typedef {import('../abi/module.js').Module} Module */
/** @typedef {{ address: number, prompts: Map<number, number>, lengths: number[], sizes: { L: number, H: number } }} Open prompts: runs by their index */
/** @typedef {{ dtype: string, shape: readonly number[] }} Entry of a tensor in the header */

export class Shelf {
  #module;
  /** @type {Map<number, Open>} */
  #open = new Map();

  /** @param {Module} module */
  constructor(module) {
    this.#module = module;
  }

  /**
   * @param {number} id
   * @param {{ address: number, bytes: number }} block belongs to the recording from here on
   */
  add(id, block) {
    const module = this.#module;
    let address;
    try {
      address = module.handle('recording_open', block.address, block.bytes);
    } catch (error) {
      module.release(block.address);
      throw error;
    }
    try {
      const { conditions, tensors } = readHeader(module, block);
      const { L, H } = conditions.model;
      const lengths = conditions.tokens.map((strings) => strings.length);
      this.#open.set(id, { address, prompts: new Map(), lengths, sizes: { L, H } });
      const names = new Set(tensors.map(([name]) => name));
      const ids = lengths.map((_, i) =>
        names.has(`${i}.tokens`) ? [...this.tensor(id, `${i}.tokens`).data] : [],
      );
      return { recording: id, conditions, tensors, ids, bytes: block.bytes };
    } catch (error) {
      this.#open.delete(id);
      module.call('recording_close', address);
      throw error;
    }
  }

  /** @param {number} id */
  at(id) {
    const open = this.#open.get(id);
    if (open) return open;
    throw new SinkscopeError('closed', 'recording', 'this recording has been closed');
  }

  /**
   * @param {number} id
   * @param {string} name
   * @param {number} [first] index along the first dimension, which is dropped
   * @param {number} [second]
   */
  tensor(id, name, first = -1, second = -1) {
    const { address } = this.at(id);
    const text = new TextEncoder().encode(`${name}\0`);
    return this.#module.lend(text, (at) =>
      this.#module.tensor('recording_tensor', address, at, first, second),
    );
  }

  /**
   * Returns the address of a recorded prompt's trace.
   * @param {number} id
   * @param {number} prompt
   */
  trace(id, prompt) {
    return this.#module.handle('recording_prompt', this.at(id).address, prompt);
  }

  /** @param {number} id */
  remove(id) {
    const { address } = this.at(id);
    this.#open.delete(id);
    this.#module.call('recording_close', address);
  }
}

/**
 * Reads names and shapes of tensors and the conditions from a file that the core has validated.
 * @param {Module} module
 * @param {{ address: number, bytes: number }} block
 */
function readHeader(module, { address, bytes }) {
  const file = module.bytes(address, bytes);
  const length = Number(new DataView(file.buffer, address, 8).getBigUint64(0, true));
  const text = new TextDecoder('utf-8', { ignoreBOM: true }).decode(file.slice(8, 8 + length));
  /** @type {Record<string, Entry & Record<string, string>>} */
  let header;
  try {
    header = JSON.parse(text);
  } catch (error) {
    throw new SinkscopeError('bad_file', 'safetensors header', `expected JSON: ${String(error)}`);
  }
  const { __metadata__: metadata, ...entries } = header;
  const conditions = readConditions(String(metadata?.sinkscope));
  const tensors = Object.entries(entries).map(
    ([name, { dtype, shape }]) => /** @type {[string, Entry]} */ ([name, { dtype, shape }]),
  );
  return { conditions, tensors };
}
