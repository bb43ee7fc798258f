/** The size of a wasm memory, and the memory that a binary with threads imports. */
import { SinkscopeError } from './errors.ts';

export const MEMORY_BYTES = 2 ** 32;

/** Initial pages of a shared memory: the number that the binary was linked with. */
const INITIAL_PAGES = 256;

/** Creates a shared memory of at most 4 GB; where a system refuses so much, of half, and so on. */
export function createSharedMemory() {
  for (let maximum = 65536; ; maximum /= 2) {
    try {
      return new WebAssembly.Memory({ initial: INITIAL_PAGES, maximum, shared: true });
    } catch (error) {
      if (maximum <= 2 * INITIAL_PAGES)
        throw new SinkscopeError('no_memory', 'memory', String(error));
    }
  }
}
