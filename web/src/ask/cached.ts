/** Returns the promise that the cache has for a key, or makes it. After a failure the next call tries again. */
export function cachedPromise<T>(
  cache: Map<string, Promise<T>>,
  key: string,
  make: () => Promise<T>,
): Promise<T> {
  const cached = cache.get(key);
  if (cached) return cached;
  const promise = make();
  cache.set(key, promise);
  promise.catch(() => cache.delete(key));
  return promise;
}
