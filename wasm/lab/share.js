/**
 * Shares a training among backends with the same weights. One leads; the others compute some parts
 * of each batch for it, receive the sum of all parts, and make the same update.
 */
import { packError, unpackError } from '../abi/errors.js';

/** @typedef {{ parts?: Uint8Array[], error?: object }} Answer */
/** @typedef {{ whole?: Uint8Array, goesOn: boolean }} Order */

/** Computes and adds the parts of a training's batch at its backend. */
export class Parts {
  #module;
  #training;
  /** Addresses of the current part and of the sum, and their size in bytes. */
  #part = 0;
  #whole = 0;
  #bytes = 0;

  /**
   * @param {import('../abi/module.js').Module} module
   * @param {number} training its address
   */
  constructor(module, training) {
    this.#module = module;
    this.#training = training;
  }

  /**
   * Computes a part without adding it.
   * @param {number} part
   * @param {boolean} back
   */
  compute(part, back) {
    const bytes = this.#module.bytesOf('train_part', this.#training, part, Number(back));
    this.#part = bytes.byteOffset;
    this.#bytes = bytes.length;
  }

  /** Copies the computed part. */
  copy() {
    return this.#module.bytes(this.#part, this.#bytes).slice();
  }

  /** Copies the sum. */
  sum() {
    return this.#module.bytes(this.#whole, this.#bytes).slice();
  }

  /**
   * Adds a part, by default the one computed here; with `isFirst` it starts the sum.
   * @param {boolean} isFirst
   * @param {Uint8Array} [part]
   */
  add(isFirst, part) {
    if (part) this.#module.bytes(this.#part, this.#bytes).set(part);
    this.#whole = this.#module.bytesOf('train_add', this.#training, Number(isFirst)).byteOffset;
  }

  /**
   * Returns the log's columns of the step whose parts are all added; with `update` the weights
   * change.
   * @param {boolean} update
   */
  finish(update) {
    const { data } = this.#module.tensor('train_finish', this.#training, Number(update));
    return /** @type {Float32Array} */ (data);
  }
}

/** Represents a helping backend to the leader. */
export class Helper {
  #port;
  /** The parts of its current step. @type {Promise<Uint8Array[]> | undefined} */
  #coming;
  /** @type {(answer: Answer) => void} */
  #onParts = () => {};

  /** @param {MessagePort} port */
  constructor(port) {
    this.#port = port;
    port.onmessage = ({ data }) => this.#onParts(data);
  }

  /** Returns its parts of the step, which it may have begun before the request. */
  parts() {
    this.#coming ??= this.#ask({ goesOn: true });
    return this.#coming;
  }

  /**
   * Makes it perform the same update.
   * @param {Uint8Array} whole
   * @param {boolean} goesOn whether it begins the next step
   */
  finish(whole, goesOn) {
    if (goesOn) this.#coming = this.#ask({ whole, goesOn });
    else {
      this.#coming = undefined;
      this.#port.postMessage({ whole, goesOn }, [whole.buffer]);
    }
  }

  end() {
    this.#onParts({
      error: { code: 'closed', where: 'training', text: 'this training has ended' },
    });
    this.#port.close();
  }

  /**
   * @param {Order} order
   * @returns {Promise<Uint8Array[]>}
   */
  #ask(order) {
    const answer = new Promise((resolve, reject) => {
      this.#onParts = ({ parts, error }) => (parts ? resolve(parts) : reject(unpackError(error)));
    });
    answer.catch(() => {});
    this.#port.postMessage(order, order.whole ? [order.whole.buffer] : []);
    return /** @type {Promise<Uint8Array[]>} */ (answer);
  }
}

/**
 * Computes parts for the leader at the other end of the port, in the order of its requests.
 * @param {Parts} parts
 * @param {readonly number[]} partNumbers
 * @param {MessagePort} port
 */
export function help(parts, partNumbers, port) {
  const compute = () =>
    partNumbers.map((part) => {
      parts.compute(part, true);
      return parts.copy();
    });
  port.onmessage = ({ data }) => {
    const { whole, goesOn } = /** @type {Order} */ (data);
    try {
      if (whole) parts.add(true, whole);
      if (whole) parts.finish(true);
      if (!goesOn) return;
      const results = compute();
      port.postMessage(
        { parts: results },
        results.map(({ buffer }) => buffer),
      );
    } catch (error) {
      // The leader rethrows this error.
      port.postMessage({ error: packError(error) });
    }
  };
}
