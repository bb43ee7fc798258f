/** One face for each engine: open a file, read tokens, add one, say what comes next. */

/** What an explorer keeps of a run: maps and all they are made of. */
const KEPT = ['att', 'seen', 'q', 'k', 'v', 'hidden', 'att_out', 'mlp_out', 'next'];

/** The ids of the most probable next tokens with their probabilities. */
function likeliest(logits, n) {
  const most = logits.reduce((a, b) => Math.max(a, b));
  const sum = logits.reduce((a, b) => a + Math.exp(b - most), 0);
  return Array.from(logits, (x, token) => ({ token, p: Math.exp(x - most) / sum }))
    .sort((a, b) => b.p - a.p)
    .slice(0, n);
}

/** Ours, on the bare border of a binary; in the page's thread, as the worker would call it. */
export async function ours(address) {
  const { instance } = await WebAssembly.instantiateStreaming(fetch(address), {
    env: { emscripten_notify_memory_growth() {} },
  });
  const { exports } = instance;
  exports._initialize();
  const call = (name, ...args) => exports[`ss_wasm_${name}`](...args);
  const bytes = (at, n) => new Uint8Array(exports.memory.buffer, at >>> 0, n);
  const words = (at, n) => new Uint32Array(exports.memory.buffer, at >>> 0, n);
  const view = call('reserve', 48);
  const fail = () => {
    throw new Error(new TextDecoder().decode(bytes(call('error') + 4, 416)).replace(/\0+/g, ' '));
  };
  const put = (content) => {
    const at = call('reserve', Math.max(1, content.byteLength));
    bytes(at, content.byteLength).set(new Uint8Array(content.buffer, 0, content.byteLength));
    return at;
  };
  call('describe', view);
  const [text, , , length] = words(view, 4);
  const describe = JSON.parse(new TextDecoder().decode(bytes(text, length)));
  const bit = (name) => 1 << describe.fields.findIndex((field) => field.name === name);
  let model, file, run;
  const extend = (tokens) => {
    const at = put(Int32Array.from(tokens));
    if (call('extend', run, at, tokens.length)) fail();
    call('release', at);
  };
  return {
    describe,
    async open(content, config) {
      file = put(content);
      const text = new TextEncoder().encode(config ?? '');
      const json = put(text);
      model = call('open', json, text.length, put(Uint32Array.of(file, content.length)), 1);
      if (!model) fail();
    },
    /** @param {{ capacity?: number, extra?: string[] }} options extra: recorded beside what is kept */
    async read(tokens, { capacity = tokens.length, extra = [] } = {}) {
      if (run) call('close_run', run);
      const fields = [...KEPT, ...extra].reduce((mask, name) => mask | bit(name), 0);
      run = call('start', model, capacity, fields, 0, 0, 0, 0);
      if (!run) fail();
      extend(tokens);
    },
    async step(token) {
      extend([token]);
    },
    async top(n) {
      call('field', run, Math.log2(bit('next')), -1, -1, view);
      const [at, , , V] = words(view, 4);
      const logits = new Float32Array(exports.memory.buffer, at, V).slice();
      return likeliest(logits, n);
    },
    /** Milliseconds of all metrics that are told where a model is summed up. */
    async measure() {
      const start = performance.now();
      describe.metrics.forEach(({ summary, fields, arguments: given }, i) => {
        if (!summary || given.includes('base') || fields.some((name) => !KEPT.includes(name)))
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

/** llama.cpp as wllama compiles it, one thread, its cache in floats. */
export async function wllama() {
  const { Wllama } = await import('/wllama/index.js');
  const engine = new Wllama(
    { 'single-thread/wllama.wasm': '/wllama/single-thread/wllama.wasm' },
    { suppressNativeLog: true },
  );
  return {
    async open(content) {
      await engine.loadModel([new Blob([content])], {
        ...{ n_ctx: 512, n_batch: 512, n_threads: 1 },
        ...{ cache_type_k: 'f32', cache_type_v: 'f32' },
      });
    },
    async read(tokens) {
      await engine.kvClear();
      await engine.decode(tokens, {});
    },
    async step(token) {
      await engine.decode([token], {});
    },
    top: (n) => engine.getLogits(n),
    close: () => engine.exit(),
  };
}

/**
 * onnxruntime-web, one thread: all maps beside the logits that are asked for, and the last row of logits
 * alone. The two share a session, which the first opens and closes.
 * @param {{ shape: string, type: string, eight?: boolean }} of the file, and whether it becomes one of 8 bits
 */
export async function onnxruntime({ shape, type, eight = false }) {
  const ort = await import('/ort/ort.wasm.min.mjs');
  const { onnxFile } = await import('/onnx.mjs');
  const { SHAPES } = await import('/gguf.mjs');
  Object.assign(ort.env.wasm, { numThreads: 1, wasmPaths: '/ort/' });
  const { L, G, D, H } = SHAPES[shape].sizes;
  const caches = Array.from({ length: L }, (_, l) => [`k${l}`, `v${l}`]).flat();
  const maps = Array.from({ length: L }, (_, l) => `att${l}`);
  const nothing = new ort.Tensor('float32', new Float32Array(0), [G, 0, D / H]);
  let session;
  const whole = (from, n) => {
    const numbers = BigInt64Array.from({ length: n }, (_, i) => BigInt(from + i));
    return new ort.Tensor('int64', numbers, [n]);
  };
  const asking = (outputs) => {
    let logits, past, P;
    const run = async (tokens, { all = false, goesOn = false } = {}) => {
      const T = tokens.length;
      const mask = Float32Array.from({ length: T * (P + T) }, (_, i) =>
        i % (P + T) > P + Math.floor(i / (P + T)) ? -1e9 : 0,
      );
      const found = await session.run(
        {
          ids: new ort.Tensor('int64', BigInt64Array.from(tokens, BigInt), [T]),
          positions: whole(P, T),
          rows: all ? whole(0, T) : whole(T - 1, 1),
          mask: new ort.Tensor('float32', mask, [T, P + T]),
          ...past,
        },
        ['logits', ...outputs, ...(goesOn ? caches.map((name) => `new_${name}`) : [])],
      );
      logits = found.logits;
      P += T;
      if (goesOn) past = Object.fromEntries(caches.map((name) => [name, found[`new_${name}`]]));
    };
    return {
      async read(tokens, { capacity = tokens.length, extra = [] } = {}) {
        P = 0;
        past = Object.fromEntries(caches.map((name) => [name, nothing]));
        const all = outputs.length > 0 && extra.includes('logits');
        await run(tokens, { all, goesOn: capacity > tokens.length });
      },
      step: (token) => run([token], { goesOn: true }),
      top: async (n) => likeliest(logits.data.slice(-logits.dims[1]), n),
    };
  };
  const name = eight ? 'ort 8 bit' : 'ort';
  return {
    [`${name}, maps`]: {
      ...asking(maps),
      /** The file in its own format; not part of loading. */
      prepare: async (content) => onnxFile(content, shape, type, { eight }),
      async open(content) {
        session = await ort.InferenceSession.create(content);
      },
      close: () => session.release(),
    },
    [`${name}, last row`]: asking([]),
  };
}
