import { afterEach, describe, expect, it, vi } from 'vitest';
import { forget, keep, keepText, keptOf, keptText } from '../src/lab/store';

const kept = { step: 1, seconds: 2, log: [{ step: 1 }] as never, state: new Uint8Array([1]) };

/** Returns the result of each call; none may reject. */
const all = () =>
  Promise.all([
    keptOf(0, 'a'),
    keep(0, 'a', kept),
    forget(0),
    keepText({ name: 'a.txt', text: 'a' }),
    keptText(),
  ]);

afterEach(() => vi.unstubAllGlobals());

describe('the storage of a lab', () => {
  it('is empty where the browser has none', async () => {
    vi.stubGlobal('indexedDB', undefined);
    expect(await all()).toEqual(Array(5).fill(undefined));
  });

  it('is empty where a sandbox forbids its name, and where opening it throws', async () => {
    const refuse = () => {
      throw new DOMException('The operation is insecure.', 'SecurityError');
    };
    Object.defineProperty(globalThis, 'indexedDB', { configurable: true, get: refuse });
    try {
      expect(await all()).toEqual(Array(5).fill(undefined));
      Object.defineProperty(globalThis, 'indexedDB', {
        configurable: true,
        value: { open: refuse },
      });
      expect(await all()).toEqual(Array(5).fill(undefined));
    } finally {
      Reflect.deleteProperty(globalThis, 'indexedDB');
    }
  });
});
