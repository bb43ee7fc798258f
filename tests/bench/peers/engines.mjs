/**
 * Wraps all engines in one interface: open a file, read tokens, add a token, return the next tokens and a part of a
 * map. An engine that does not support a row of the table lacks the method, or its `can` returns false.
 */
import { SHAPES, wordOf } from './gguf.mjs';

/** Fields that an explorer records: maps and all their inputs. */
const KEPT_FIELDS = ['att', 'seen', 'q', 'k', 'v', 'hidden', 'att_out', 'mlp_out', 'next'];

function mostLikelyTokens(logits, n) {
  const largest = logits.reduce((a, b) => Math.max(a, b));
  const sum = logits.reduce((a, b) => a + Math.exp(b - largest), 0);
  return Array.from(logits, (x, token) => ({ token, p: Math.exp(x - largest) / sum }))
    .sort((a, b) => b.p - a.p)
    .slice(0, n);
}

/** Makes our engine from a binary. The page calls the binary's ABI in its own thread, as a worker would. */
export async function ours(address) {
  const { instance } = await WebAssembly.instantiateStreaming(fetch(address));
  const { exports } = instance;
  exports._initialize();
  const call = (name, ...args) => exports[`ss_wasm_${name}`](...args);
  const bytes = (address, n) => new Uint8Array(exports.memory.buffer, address >>> 0, n);
  const words = (address, n) => new Uint32Array(exports.memory.buffer, address >>> 0, n);
  const view = call('reserve', 48);
  const fail = () => {
    throw new Error(new TextDecoder().decode(bytes(call('error') + 4, 416)).replace(/\0+/g, ' '));
  };
  const put = (content) => {
    const address = call('reserve', Math.max(1, content.byteLength));
    bytes(address, content.byteLength).set(new Uint8Array(content.buffer, 0, content.byteLength));
    return address;
  };
  call('describe', view);
  const [text, , , length] = words(view, 4);
  const describe = JSON.parse(new TextDecoder().decode(bytes(text, length)));
  const index = (name) => describe.fields.findIndex((field) => field.name === name);
  const bit = (name) => 1 << index(name);
  let model, file, run;
  const give = (name, tokens) => {
    const address = put(Int32Array.from(tokens));
    if (call(name, run, address, tokens.length)) fail();
    call('release', address);
  };
  return {
    async open(content, config) {
      file = put(content);
      const text = new TextEncoder().encode(config ?? '');
      const json = put(text);
      model = call('open', json, text.length, put(Uint32Array.of(file, content.length)), 1);
      if (!model) fail();
    },
    /**
     * Reads tokens.
     * @param {{ capacity?: number, all?: boolean }} options `all`: whether the logits of all rows are computed, or only
     * those of the last row
     */
    async read(tokens, { capacity = tokens.length, all = false } = {}) {
      if (run) call('close_run', run);
      const fieldNames = all ? [...KEPT_FIELDS, 'logits'] : KEPT_FIELDS;
      const fields = fieldNames.reduce((mask, name) => mask | bit(name), 0);
      run = call('start', model, capacity, fields, 0, 0, 0, 0, 0);
      if (!run) fail();
      give('extend', tokens);
    },
    async step(token) {
      give('extend', [token]);
    },
    /** Continues from the longest prefix that the run and these tokens share. */
    async update(tokens) {
      give('update', tokens);
      let piecesLeft;
      do piecesLeft = call('step', run);
      while (piecesLeft > 0);
      if (piecesLeft) fail();
    },
    async top(n) {
      call('field', run, index('next'), -1, -1, 0, -1, view);
      const [address, , , V] = words(view, 4);
      const logits = new Float32Array(exports.memory.buffer, address, V).slice();
      return mostLikelyTokens(logits, n);
    },
    async att(layer, head, n) {
      call('field', run, index('att'), layer, head, 0, -1, view);
      const [address, , , T, , , , row] = words(view, 8);
      return new Float32Array(exports.memory.buffer, address + 4 * (T - 1) * row, n).slice();
    },
    async measure() {
      const start = performance.now();
      describe.metrics.forEach(({ summary, fields, arguments: argumentNames }, i) => {
        if (
          !summary ||
          argumentNames.includes('base') ||
          fields.some((name) => !KEPT_FIELDS.includes(name))
        )
          return;
        if (call('metric', run, i, 0.3, 0, -1, -1, 0, view)) fail();
      });
      return performance.now() - start;
    },
    async close() {
      if (run) call('close_run', run);
      if (model) call('close_model', model);
      run = model = undefined;
    },
  };
}

/**
 * Makes the engine llama.cpp as wllama compiles it, with one thread and a cache of floats. It is a server: a text goes
 * in, and one token comes out. For a prompt only its own clock counts, which starts after tokenization.
 */
export async function wllama({ type }) {
  const { Wllama } = await import('/wllama/index.js');
  const engine = new Wllama(
    { default: '/wllama/wasm/wllama.wasm' },
    { suppressNativeLog: true, skipVersionCheck: true },
  );
  let text;
  /**
   * Asks the server for the tokens that follow a text.
   * @param {string} prompt the text
   * @param {{ keeps: boolean, n_probs?: number }} options `keeps`: whether the server keeps the prefix that it has read
   */
  const complete = async (prompt, { keeps, n_probs = 0 }) => {
    text = prompt;
    const options = { prompt: text, max_tokens: 1, temperature: 0, cache_prompt: keeps, n_probs };
    const { choices, timings } = await engine.createCompletion(options);
    return { choices, timings };
  };
  const milliseconds = ({ timings }, n) => {
    if (timings.prompt_n !== n) throw new Error(`it read ${timings.prompt_n} tokens of ${n}`);
    return timings.prompt_ms;
  };
  const words = (tokens) => tokens.map(wordOf).join('');
  return {
    tolerance: type === 'f32' ? 'tabled' : 'rounded',
    can: ({ all, kind }) => !all && kind !== 'measure',
    async open(content) {
      await engine.loadModel([content instanceof Blob ? content : new Blob([content])], {
        ...{
          n_ctx: 512,
          n_batch: 512,
          n_ubatch: 512,
          n_threads: 1,
          n_parallel: 1,
          n_gpu_layers: 0,
        },
        ...{ cache_type_k: 'f32', cache_type_v: 'f32' },
      });
    },
    read: async (tokens) =>
      milliseconds(await complete(words(tokens), { keeps: false }), tokens.length),
    step: async (token) => milliseconds(await complete(text + wordOf(token), { keeps: true }), 1),
    update: async (tokens) => milliseconds(await complete(words(tokens), { keeps: true }), 1),
    async top(n) {
      const { choices } = await complete(text, { keeps: true, n_probs: n });
      const [{ top_logprobs }] = choices[0].logprobs.content;
      return top_logprobs.map(({ id, logprob }) => ({ token: id, p: Math.exp(logprob) }));
    },
    close: () => engine.exit(),
  };
}

/**
 * Makes two engines of onnxruntime-web with one thread: one returns all maps with the requested logits, the other
 * only the last row of logits. They share a session, which the first engine opens and closes.
 * @param {{ shape: string, type: string }} file
 */
export async function onnxruntime({ shape, type }) {
  const ort = await import('/ort/ort.wasm.min.mjs');
  const { onnxFile } = await import('./onnx.mjs');
  Object.assign(ort.env.wasm, { numThreads: 1, wasmPaths: '/ort/' });
  const { L, G, D, H } = SHAPES[shape].sizes;
  const caches = Array.from({ length: L }, (_, l) => [`k${l}`, `v${l}`]).flat();
  const maps = Array.from({ length: L }, (_, l) => `att${l}`);
  const emptyTensor = new ort.Tensor('float32', new Float32Array(0), [G, 0, D / H]);
  let session;
  const int64Tensor = (from, n) => {
    const numbers = BigInt64Array.from({ length: n }, (_, i) => BigInt(from + i));
    return new ort.Tensor('int64', numbers, [n]);
  };
  const asking = (outputs) => {
    const shows = outputs.length > 0;
    let logits, last, cache, P;
    const run = async (tokens, { all = false, goesOn = false } = {}) => {
      const T = tokens.length;
      const mask = Float32Array.from({ length: T * (P + T) }, (_, i) =>
        i % (P + T) > P + Math.floor(i / (P + T)) ? -1e9 : 0,
      );
      const results = await session.run(
        {
          ids: new ort.Tensor('int64', BigInt64Array.from(tokens, BigInt), [T]),
          positions: int64Tensor(P, T),
          rows: all ? int64Tensor(0, T) : int64Tensor(T - 1, 1),
          mask: new ort.Tensor('float32', mask, [T, P + T]),
          ...cache,
        },
        ['logits', ...outputs, ...(goesOn ? caches.map((name) => `new_${name}`) : [])],
      );
      logits = results.logits;
      last = results[outputs.at(-1)];
      P += T;
      if (goesOn) cache = Object.fromEntries(caches.map((name) => [name, results[`new_${name}`]]));
    };
    return {
      tolerance: 'exact',
      can: ({ kind }) => !['measure', 'key'].includes(kind),
      async read(tokens, { capacity = tokens.length, all = false } = {}) {
        P = 0;
        cache = Object.fromEntries(caches.map((name) => [name, emptyTensor]));
        all &&= shows;
        await run(tokens, { all, goesOn: capacity > tokens.length });
      },
      step: (token) => run([token], { goesOn: true }),
      top: async (n) => mostLikelyTokens(logits.data.slice(-logits.dims[1]), n),
      /** The map of the last layer's last head; no other is requested. */
      att: shows
        ? async (_layer, _head, n) =>
            last.data.slice(-last.dims[3], last.data.length - last.dims[3] + n)
        : undefined,
    };
  };
  return {
    'ort, maps': {
      ...asking(maps),
      prepare: async (content) => onnxFile(content, shape, type),
      async open(content) {
        session = await ort.InferenceSession.create(content);
      },
      close: () => session.release(),
    },
    'ort, last row': asking([]),
  };
}

/**
 * Lists the engines of a file: a name, and the function that makes one engine or two that share a session.
 * @param {string} file @param {string[]} builds addresses of folders with our binaries
 */
export function makersFor(file, builds) {
  const [shape, type] = file.split('.');
  const makers = {};
  for (const build of builds) {
    const name = build === builds[0] ? 'ours' : `ours, ${build.slice(1, -1)}`;
    makers[name] = async () => ({
      [name]: { ...(await ours(`${build}sinkscope.wasm`)), tolerance: 'exact' },
    });
  }
  if (type !== 'i8') makers.wllama = async () => ({ wllama: await wllama({ type }) });
  if (type === 'f32') makers.ort = () => onnxruntime({ shape, type });
  return makers;
}
