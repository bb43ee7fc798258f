/** What a binary imports. */
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

/** @param {WebAssembly.Memory} [memory] where the binary has none of its own */
export function importsOn(memory) {
  // Views are taken anew after every call, so a notice of growth needs no answer.
  return { env: { emscripten_notify_memory_growth() {}, ...(memory && { memory }) } };
}
