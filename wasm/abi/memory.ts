/** The size of a wasm memory, and the memory that a binary with threads imports. */
import { SinkscopeError } from './errors.ts';

/** 32-bit addresses reach this many bytes. */
export const MEMORY_BYTES = 2 ** 32;

/** Initial pages of a shared memory: the number that the binary was linked with. */
const INITIAL = 256;

/** Asks for 4 GB and halves it: some systems count reserved memory as used. */
export function sharedMemory() {
  for (let maximum = 65536; ; maximum /= 2) {
    try {
      return new WebAssembly.Memory({ initial: INITIAL, maximum, shared: true });
    } catch (error) {
      if (maximum <= 2 * INITIAL) throw new SinkscopeError('no_memory', 'memory', String(error));
    }
  }
}
