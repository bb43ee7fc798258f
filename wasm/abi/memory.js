/** The memory that a binary with threads imports. */
import { SinkscopeError } from './errors.js';

/** Pages that a shared memory begins with: what the binary was linked for. */
const INITIAL = 256;

/** As large as a system lets it become that counts what is only reserved. */
export function sharedMemory() {
  for (let maximum = 65536; ; maximum /= 2) {
    try {
      return new WebAssembly.Memory({ initial: INITIAL, maximum, shared: true });
    } catch (error) {
      if (maximum <= 2 * INITIAL) throw new SinkscopeError('no_memory', 'memory', String(error));
    }
  }
}
