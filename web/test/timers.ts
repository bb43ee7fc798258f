import { afterAll } from 'vitest';

/**
 * Ends a page's timers with the file that drew it. Vitest takes the document away and leaves them, and one that comes
 * late on a busy machine finds no `location`.
 */
const started = new Set<unknown>();
for (const name of ['setTimeout', 'setInterval'] as const) {
  const start = globalThis[name] as (...values: unknown[]) => unknown;
  const kept = (...values: unknown[]) => {
    const timer = start(...values);
    started.add(timer);
    return timer;
  };
  Object.assign(globalThis, {
    [name]: Object.defineProperties(kept, Object.getOwnPropertyDescriptors(start)),
  });
}
afterAll(() => started.forEach((timer) => clearTimeout(timer as number)));
