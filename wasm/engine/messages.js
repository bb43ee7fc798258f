/**
 * Calls between a page and its worker: one side calls by name, the other answers. Both download this, and
 * need little: plain values, errors with their place, and reports without an answer.
 */
import { packError } from '../abi/errors.js';

/** @typedef {{ id: number, name: string, args: unknown[], value?: unknown, thrown?: unknown, report?: never[] }} Message a call, its answer, or a report */
/** @typedef {{ post(message: unknown, moved: Transferable[]): void, listen(hear: (message: Message) => void): void }} Port */

/** @type {WeakMap<object, readonly Transferable[]>} */
const transferred = new WeakMap();

/**
 * The same value; when it is posted as an argument or an answer, what the list names moves and is not copied.
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
 * The other side as an object: whatever method is called is called there.
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
  // A promise that resolves to this asks it for `then`.
  return new Proxy({}, { get: (_, name) => (name === 'then' ? undefined : call(name)) });
}

/**
 * Answers the calls of the other side.
 * @param {Port} port
 * @param {() => object} target that has the methods
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
