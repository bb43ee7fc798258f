import fc from 'fast-check';
import { afterEach, describe, expect, it, vi } from 'vitest';
import {
  deleteTrainings,
  readText,
  readTraining,
  saveText,
  saveTraining,
  SILENCE_MS,
} from '../src/lab/store';
import { andAll, fakeKeyval } from './fixture';

const trainingAt = (step: number) => ({
  ...{ step, seconds: 2, state: new Uint8Array([1]) },
  log: Array.from({ length: step }, (_, i) => ({ step: i + 1 })) as never,
});
const training = trainingAt(1);

/** Returns the result of each call; none may reject. */
const callAll = () =>
  Promise.all([
    readTraining(0, 'a'),
    saveTraining(0, 'a', training),
    deleteTrainings('a'),
    saveText({ name: 'a.txt', text: 'a' }),
    readText(),
  ]);

afterEach(() => {
  vi.unstubAllGlobals();
  vi.useRealTimers();
});

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

  it('that does not answer is waited for once, until it answers', async () => {
    vi.useFakeTimers();
    const requests: { onerror?: () => void }[] = [];
    const open = vi.fn(() => requests[requests.push({}) - 1]);
    vi.stubGlobal('indexedDB', { open });
    const results = callAll();
    await vi.advanceTimersByTimeAsync(SILENCE_MS);
    expect(await results).toEqual(Array(5).fill(undefined));
    const openings = open.mock.calls.length;
    expect(await callAll()).toEqual(Array(5).fill(undefined));
    expect(open).toHaveBeenCalledTimes(openings);
    for (const request of requests) request.onerror!();
    await vi.advanceTimersByTimeAsync(0);
    void readText();
    expect(open).toHaveBeenCalledTimes(openings + 1);
  });

  it('keeps the runs of the last four pairs of two tabs, each at its latest step, in whatever order they save', async () => {
    const stored = new Map<string, unknown>();
    let wait: () => Promise<unknown>;
    vi.doMock('idb-keyval', () => fakeKeyval(stored, async (run) => (await wait(), await run())));
    const openTab = () => (vi.resetModules(), import('../src/lab/store'));
    const stores = [await openTab(), await openTab()];
    vi.doUnmock('idb-keyval');
    const pairs = fc.array(fc.constantFrom(...'abcde'), { minLength: 1, maxLength: 3 });
    const property = fc.asyncProperty(fc.scheduler(), pairs, pairs, async (scheduler, ...tabs) => {
      stored.clear();
      wait = () => scheduler.schedule(Promise.resolve());
      const saves = tabs.map(async (saved, i) => {
        for (const [n, pair] of saved.entries())
          await stores[i]!.saveTraining(0, pair, trainingAt(2 * n + 1 + i));
      });
      while (scheduler.count()) await scheduler.waitOne(andAll);
      await Promise.all(saves);
      const listed = stored.get('lab-pairs') as string[];
      const runs = listed.map((pair) => `lab-0 ${pair}`);
      expect([...stored.keys()].sort()).toEqual([...runs, 'lab-pairs'].sort());
      expect(listed).toHaveLength(Math.min(4, new Set(tabs.flat()).size));
      // A pair that was never deleted has the latest step of both tabs.
      if (new Set(tabs.flat()).size > 4) return;
      for (const pair of listed) {
        const steps = tabs.flatMap((saved, i) =>
          saved.flatMap((other, n) => (other === pair ? [2 * n + 1 + i] : [])),
        );
        expect(stored.get(`lab-0 ${pair}`)).toMatchObject({ step: Math.max(...steps) });
      }
    });
    await fc.assert(property, { numRuns: 50 });
  });
});
