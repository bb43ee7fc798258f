/**
 * Carries calls by name between a page and its worker: plain values, errors with their place, and
 * reports without an answer. Both sides download this module, so it is small.
 */
import { packError } from '../abi/errors.ts';
import type { Port } from '../host/types.ts';
import type { FieldWhere, MetricArguments } from './types.ts';

export type MetricRead = Omit<MetricArguments, 'base'> & { metric: string; base?: number };
/** A read whose `base` is the number of a run. */
export type ReadMessage = ({ field: string } & FieldWhere) | MetricRead;

const transferLists: WeakMap<object, readonly Transferable[]> = new WeakMap();

/** Marks objects that are moved instead of copied when `value` is posted. */
export function transfer<T>(value: T, list: readonly Transferable[]) {
  transferLists.set(value as object, list);
  return value;
}

const transferListOf = (values: unknown[]) =>
  values.flatMap((value) => transferLists.get(value as object) ?? []);

/** Represents the other side as an object: each method call is posted there. */
export function callThrough(
  port: Port,
  onReport: (...args: never[]) => void,
): Record<string, (...args: unknown[]) => Promise<unknown>> {
  let lastId = 0;
  const pendingCalls: Map<
    number,
    { resolve(value: unknown): void; reject(reason: unknown): void }
  > = new Map();
  port.listen(({ id, value, thrown, report }) => {
    if (report) return onReport(...report);
    const pendingCall = pendingCalls.get(id);
    pendingCalls.delete(id);
    if (thrown) pendingCall?.reject(thrown);
    else pendingCall?.resolve(value);
  });
  const call =
    (name: string | symbol) =>
    (...args: unknown[]) =>
      new Promise((resolve, reject) => {
        port.post({ id: ++lastId, name, args }, transferListOf(args));
        pendingCalls.set(lastId, { resolve, reject });
      });
  // `await` asks any object for `then`; undefined says that this proxy is no promise.
  return new Proxy({}, { get: (_, name) => (name === 'then' ? undefined : call(name)) });
}

export function answerCalls(port: Port, target: () => object) {
  port.listen(async ({ id, name, args }) => {
    try {
      const methods = target() as Record<string, (...args: unknown[]) => unknown>;
      const value = await methods[name](...args);
      port.post({ id, value }, transferListOf([value]));
    } catch (error) {
      port.post({ id, thrown: packError(error) }, []);
    }
  });
}
