/** A thread of the core's pool runs the same binary on the same memory, with its own stack. */
import { listen, reply } from '#inside';

/** @typedef {{ binary: WebAssembly.Module, memory: WebAssembly.Memory, stack: number, worker: number }} Task stack: its upper end */

listen(async (/** @type {Task} */ { binary, memory, stack, worker }) => {
  const { exports } = await WebAssembly.instantiate(binary, { env: { memory } });
  const call = /** @type {Record<string, (...args: number[]) => void>} */ (exports);
  (call.stackRestore ?? call._emscripten_stack_restore)(stack);
  reply('ready');
  try {
    call.ss_wasm_pool_help(worker);
  } catch (error) {
    call.ss_wasm_pool_break();
    throw error;
  }
});
