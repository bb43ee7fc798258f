/**
 * Carries calls between a page and its worker: one side calls by name, the other answers. Both
 * download this module, so it holds little: plain values, errors with their place, and reports
 * without an answer.
 */
import { packError } from '../abi/errors.js';

/** @typedef {{ id: number, name: string, args: unknown[], value?: unknown, thrown?: unknown, report?: never[] }} Message a call, its answer, or a report */
/** @typedef {{ post(message: unknown, moved: Transferable[]): void, listen(hear: (message: Message) => void): void }} Port */

/** @type {WeakMap<object, readonly Transferable[]>} */
const transferred = new WeakMap();

/**
 * Returns the same value; posting it as an argument or an answer moves what `list` names instead of
 * copying.
 * @template T
 * @param {T} value
 * @param {readonly Transferable[]} list
 */
export function transfer(value, list) {
  transferred.set(/** @type {object} */ (value), list);
  return value;
}

/** @param {unknown[]} values */
const movedOf = (values) =>
  values.flatMap((value) => transferred.get(/** @type {object} */ (value)) ?? []);

/**
 * Represents the other side as an object: each method call is posted there.
 * @param {Port} port
 * @param {(...args: never[]) => void} onReport
 * @returns {Record<string, (...args: unknown[]) => Promise<unknown>>}
 */
export function callThrough(port, onReport) {
  let last = 0;
  /** @type {Map<number, { resolve(value: unknown): void, reject(why: unknown): void }>} */
  const waiting = new Map();
  port.listen(({ id, value, thrown, report }) => {
    if (report) return onReport(...report);
    const call = waiting.get(id);
    waiting.delete(id);
    if (thrown) call?.reject(thrown);
    else call?.resolve(value);
  });
  const call =
    (/** @type {string | symbol} */ name) =>
    (/** @type {unknown[]} */ ...args) =>
      new Promise((resolve, reject) => {
        port.post({ id: ++last, name, args }, movedOf(args));
        waiting.set(last, { resolve, reject });
      });
  // `await` asks this proxy for `then`; it is not a promise.
  return new Proxy({}, { get: (_, name) => (name === 'then' ? undefined : call(name)) });
}

/**
 * Answers the other side's calls.
 * @param {Port} port
 * @param {() => object} target returns the object with the methods
 */
export function answer(port, target) {
  port.listen(async ({ id, name, args }) => {
    try {
      const methods = /** @type {Record<string, (...args: unknown[]) => unknown>} */ (target());
      const value = await methods[name](...args);
      port.post({ id, value }, movedOf([value]));
    } catch (error) {
      port.post({ id, thrown: packError(error) }, []);
    }
  });
}
