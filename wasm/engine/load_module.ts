/** Fetches and instantiates a binary. */
import { request } from '#host';
import { simd } from 'wasm-feature-detect';
import { SinkscopeError, readError } from '../abi/errors.ts';
import { createSharedMemory } from '../abi/memory.ts';
import { Module, type Exports } from '../abi/module.ts';
import { readRenewing } from '../loading/renew.ts';

const ABI_VERSION = 10;

/** Loads a .wasm file; if `isShared`, threads must be able to share its memory. */
export async function loadModule(address: URL, isShared: boolean = false) {
  const memory = isShared ? createSharedMemory() : undefined;
  const { module: binary, instance } = await instantiate(address, memory);
  const exports = instance.exports as Exports;
  if (typeof exports.ss_wasm_abi_version !== 'function')
    throw new SinkscopeError('abi', address.href, 'this is not a Sinkscope binary');
  exports._initialize();
  const version = exports.ss_wasm_abi_version();
  if (version !== ABI_VERSION) {
    const text = `expected ABI version ${ABI_VERSION}, got ${version}`;
    throw new SinkscopeError('abi', address.href, text);
  }
  return new Module(exports, binary, memory);
}

async function instantiate(address: URL, memory?: WebAssembly.Memory) {
  const imports: WebAssembly.Imports = memory ? { env: { memory } } : {};
  try {
    return await readRenewing(
      address,
      async () => instantiateFrom(await request(address), imports),
      (error) => error instanceof WebAssembly.CompileError,
    );
  } catch (error) {
    // Browsers word this error differently, and none says that the server should send 'wasm-unsafe-eval'.
    const isForbidden = /content security policy|unsafe-eval/i.test(String(error));
    if (isForbidden)
      throw new SinkscopeError(
        'unsupported',
        address.href,
        "expected a page that may run WebAssembly, found a Content-Security-Policy without 'wasm-unsafe-eval' in script-src",
      );
    if (!(await simd()))
      throw new SinkscopeError('unsupported', 'host', 'expected WebAssembly SIMD, found none');
    const hint = '`base` of createEngine names the folder of the binaries';
    throw readError(address.href, `could not be loaded (${String(error)}); ${hint}`);
  }
}

async function instantiateFrom(response: Response, imports: WebAssembly.Imports) {
  if (!response.ok) throw new Error(`the server answered ${response.status}`);
  // Static hosts often send another content type, which instantiateStreaming rejects.
  return response.headers.get('content-type') === 'application/wasm'
    ? WebAssembly.instantiateStreaming(response, imports)
    : WebAssembly.instantiate(await response.arrayBuffer(), imports);
}
