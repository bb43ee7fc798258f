/**
 * A training that several backends share: each has the same weights. One leads; the others compute some
 * parts of each batch for it, receive the sum of all, and make the same update.
 */
import { packError, unpackError } from '../abi/errors.js';

/** @typedef {{ parts?: Uint8Array[], error?: object }} Answer */
/** @typedef {{ whole?: Uint8Array, goesOn: boolean }} Order */

/** Of a training at its backend. */
export class Parts {
  #module;
  #training;
  /** Where a part, and the sum, lie in memory; and how many bytes they have. */
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
   * Computes a part; nothing is added yet.
   * @param {number} part
   * @param {boolean} back
   */
  compute(part, back) {
    const bytes = this.#module.bytesOf('train_part', this.#training, part, Number(back));
    this.#part = bytes.byteOffset;
    this.#bytes = bytes.length;
  }

  /** A copy of the part that was computed. */
  copy() {
    return this.#module.bytes(this.#part, this.#bytes).slice();
  }

  /** A copy of the sum. */
  sum() {
    return this.#module.bytes(this.#whole, this.#bytes).slice();
  }

  /**
   * Adds a part, by default the one computed here; with `isFirst` the sum begins with it.
   * @param {boolean} isFirst
   * @param {Uint8Array} [part]
   */
  add(isFirst, part) {
    if (part) this.#module.bytes(this.#part, this.#bytes).set(part);
    this.#whole = this.#module.bytesOf('train_add', this.#training, Number(isFirst)).byteOffset;
  }

  /**
   * The log's columns of the step whose parts are all added; with `update` the weights follow.
   * @param {boolean} update
   */
  finish(update) {
    const { data } = this.#module.tensor('train_finish', this.#training, Number(update));
    return /** @type {Float32Array} */ (data);
  }
}

/** A backend that helps, as the one that leads sees it. */
export class Helper {
  #port;
  /** @type {Promise<Uint8Array[]> | undefined} of the step that it is at */
  #coming;
  /** @type {(answer: Answer) => void} */
  #onParts = () => {};

  /** @param {MessagePort} port */
  constructor(port) {
    this.#port = port;
    port.onmessage = ({ data }) => this.#onParts(data);
  }

  /** Its parts of the step, which it may have begun before it was asked. */
  parts() {
    this.#coming ??= this.#ask({ goesOn: true });
    return this.#coming;
  }

  /**
   * Lets it make the same update.
   * @param {Uint8Array} whole
   * @param {boolean} goesOn whether it begins with the next step
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
 * Computes parts for the backend behind the port, in the order in which it asks.
 * @param {Parts} parts
 * @param {readonly number[]} own
 * @param {MessagePort} port
 */
export function help(parts, own, port) {
  const compute = () =>
    own.map((part) => {
      parts.compute(part, true);
      return parts.copy();
    });
  port.onmessage = ({ data }) => {
    const { whole, goesOn } = /** @type {Order} */ (data);
    try {
      if (whole) parts.add(true, whole);
      if (whole) parts.finish(true);
      if (!goesOn) return;
      const made = compute();
      port.postMessage(
        { parts: made },
        made.map(({ buffer }) => buffer),
      );
    } catch (error) {
      // What explodes here explodes there.
      port.postMessage({ error: packError(error) });
    }
  };
}
