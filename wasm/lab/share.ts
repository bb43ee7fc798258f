/**
 * Shares a training among backends with the same weights. One leads; the others compute some parts
 * of each batch for it, receive the sum of all parts, and make the same update.
 */
import { packError, unpackError } from '../abi/errors.ts';
import type { Module } from '../abi/module.ts';

type Answer = { parts?: Uint8Array[]; error?: object };
type Order = { whole?: Uint8Array; goesOn: boolean };

/** Computes and adds the parts of a training's batch at its backend. */
export class Parts {
  #module;
  #training;
  /** Addresses of the current part and of the sum, and their size in bytes. */
  #part = 0;
  #whole = 0;
  #bytes = 0;

  /** @param training its address */
  constructor(module: Module, training: number) {
    this.#module = module;
    this.#training = training;
  }

  /** Computes a part without adding it. */
  compute(part: number, back: boolean) {
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

  /** Adds a part, by default the one computed here; with `isFirst` it starts the sum. */
  add(isFirst: boolean, part?: Uint8Array) {
    if (part) this.#module.bytes(this.#part, this.#bytes).set(part);
    this.#whole = this.#module.bytesOf('train_add', this.#training, Number(isFirst)).byteOffset;
  }

  /**
   * Returns the log's columns of the step whose parts are all added; with `update` the weights
   * change.
   */
  finish(update: boolean) {
    const { data } = this.#module.tensor('train_finish', this.#training, Number(update));
    return data as Float32Array;
  }
}

/** Represents a helping backend to the leader. */
export class Helper {
  #port;
  /** The parts of its current step. */
  #coming: Promise<Uint8Array[]> | undefined;
  #onParts: (answer: Answer) => void = () => {};

  constructor(port: MessagePort) {
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
   * @param goesOn whether it begins the next step
   */
  finish(whole: Uint8Array, goesOn: boolean) {
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

  #ask(order: Order): Promise<Uint8Array[]> {
    const answer = new Promise((resolve, reject) => {
      this.#onParts = ({ parts, error }) => (parts ? resolve(parts) : reject(unpackError(error)));
    });
    answer.catch(() => {});
    this.#port.postMessage(order, order.whole ? [order.whole.buffer] : []);
    return answer as Promise<Uint8Array[]>;
  }
}

/** Computes parts for the leader at the other end of the port, in the order of its requests. */
export function help(parts: Parts, partNumbers: readonly number[], port: MessagePort) {
  const compute = () =>
    partNumbers.map((part) => {
      parts.compute(part, true);
      return parts.copy();
    });
  port.onmessage = ({ data }) => {
    const { whole, goesOn } = data as Order;
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
