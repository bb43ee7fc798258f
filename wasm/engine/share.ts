/**
 * Shares a training among backends with the same weights. One backend leads; the others compute
 * some parts of each batch for it, receive the sum of all parts, and make the same update.
 */
import { packError, unpackError } from '../abi/errors.ts';
import type { Module } from '../abi/module.ts';

type Answer = { parts?: Uint8Array[]; error?: object };
type Order = { sum?: Uint8Array; beginNext: boolean };

export class BatchParts {
  #module;
  #training;
  #partAddress = 0;
  #sumAddress = 0;
  #bytes = 0;

  constructor(module: Module, training: number) {
    this.#module = module;
    this.#training = training;
  }

  compute(part: number, withBackward: boolean) {
    const bytes = this.#module.bytesOf('train_part', this.#training, part, Number(withBackward));
    this.#partAddress = bytes.byteOffset;
    this.#bytes = bytes.length;
  }

  copyPart() {
    return this.#module.bytes(this.#partAddress, this.#bytes).slice();
  }

  copySum() {
    return this.#module.bytes(this.#sumAddress, this.#bytes).slice();
  }

  /** Adds a part, by default the one computed here; with `isFirst` the sum begins with it. */
  add(isFirst: boolean, part?: Uint8Array) {
    if (part) this.#module.bytes(this.#partAddress, this.#bytes).set(part);
    this.#sumAddress = this.#module.bytesOf(
      'train_add',
      this.#training,
      Number(isFirst),
    ).byteOffset;
  }

  /** Ends a step of added parts and returns its log columns; with `update` the weights change. */
  finish(update: boolean) {
    const { data } = this.#module.tensor('train_finish', this.#training, Number(update));
    return data as Float32Array;
  }
}

export class Helper {
  #port;
  #pendingParts: Promise<Uint8Array[]> | undefined;
  #onParts: (answer: Answer) => void = () => {};

  constructor(port: MessagePort) {
    this.#port = port;
    port.onmessage = ({ data }) => this.#onParts(data);
  }

  /** Returns the parts of the current step, which the helper may have begun before this call. */
  requestParts() {
    this.#pendingParts ??= this.#ask({ beginNext: true });
    return this.#pendingParts;
  }

  /** Makes the helper perform the leader's update, with the sum of all parts. */
  finish(sum: Uint8Array, beginNext: boolean) {
    if (beginNext) this.#pendingParts = this.#ask({ sum, beginNext });
    else {
      this.#pendingParts = undefined;
      this.#port.postMessage({ sum, beginNext }, [sum.buffer]);
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
    this.#port.postMessage(order, order.sum ? [order.sum.buffer] : []);
    return answer as Promise<Uint8Array[]>;
  }
}

/** Computes parts for the leader at the other end of the port, in the order of its requests. */
export function help(parts: BatchParts, partNumbers: readonly number[], port: MessagePort) {
  port.onmessage = ({ data }) => {
    const { sum, beginNext } = data as Order;
    try {
      if (sum) {
        parts.add(true, sum);
        parts.finish(true);
      }
      if (!beginNext) return;
      const results = partNumbers.map((part) => {
        parts.compute(part, true);
        return parts.copyPart();
      });
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
