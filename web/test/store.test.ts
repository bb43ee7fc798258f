import { afterEach, describe, expect, it, vi } from 'vitest';
import { deleteTraining, saveTraining, saveText, readTraining, readText } from '../src/lab/store';

const training = { step: 1, seconds: 2, log: [{ step: 1 }] as never, state: new Uint8Array([1]) };

/** Returns the result of each call; none may reject. */
const callAll = () =>
  Promise.all([
    readTraining(0, 'a'),
    saveTraining(0, 'a', training),
    deleteTraining(0, 'a'),
    saveText({ name: 'a.txt', text: 'a' }),
    readText(),
  ]);

afterEach(() => vi.unstubAllGlobals());

describe('the storage of a lab', () => {
  it('reads nothing if the browser has no storage', async () => {
    vi.stubGlobal('indexedDB', undefined);
    expect(await callAll()).toEqual(Array(5).fill(undefined));
  });

  it('reads nothing if a sandbox forbids storage or opening it throws', async () => {
    const refuse = () => {
      throw new DOMException('The operation is insecure.', 'SecurityError');
    };
    Object.defineProperty(globalThis, 'indexedDB', { configurable: true, get: refuse });
    try {
      expect(await callAll()).toEqual(Array(5).fill(undefined));
      Object.defineProperty(globalThis, 'indexedDB', {
        configurable: true,
        value: { open: refuse },
      });
      expect(await callAll()).toEqual(Array(5).fill(undefined));
    } finally {
      Reflect.deleteProperty(globalThis, 'indexedDB');
    }
  });
});
