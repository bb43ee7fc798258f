/** Runs a thread of the core's pool, with the backend's binary and memory and its own stack. */
import { listen, reply } from '#inside';

/** What a thread needs to start; `stack` is the upper end of its stack. */
export type Task = {
  binary: WebAssembly.Module;
  memory: WebAssembly.Memory;
  stack: number;
  worker: number;
};

listen(async ({ binary, memory, stack, worker }: Task) => {
  const { exports } = await WebAssembly.instantiate(binary, { env: { memory } });
  const functions = exports as Record<string, (...args: number[]) => void>;
  (functions.stackRestore ?? functions._emscripten_stack_restore)(stack);
  reply('ready');
  try {
    functions.ss_wasm_pool_help(worker);
  } catch (error) {
    functions.ss_wasm_pool_break();
    throw error;
  }
});
