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

/** onnxruntime-web, one thread: all maps beside the last row of logits, and that row alone. */
export async function onnxruntime() {
  const ort = await import('/ort/ort.wasm.min.mjs');
  Object.assign(ort.env.wasm, { numThreads: 1, wasmPaths: '/ort/' });
  let session;
  const asking = (names) => {
    let logits;
    return {
      async read(tokens) {
        const T = tokens.length;
        const whole = (numbers) =>
          new ort.Tensor('int64', BigInt64Array.from(numbers, BigInt), [numbers.length]);
        const mask = Float32Array.from({ length: T * T }, (_, i) =>
          i % T > Math.floor(i / T) ? -1e9 : 0,
        );
        const found = await session.run(
          {
            ids: whole(tokens),
            positions: whole(Array.from(tokens, (_, t) => t)),
            rows: whole([T - 1]),
            mask: new ort.Tensor('float32', mask, [T, T]),
          },
          names(),
        );
        logits = found.logits.data;
      },
      top: async (n) => likeliest(logits, n),
      close: async () => {},
    };
  };
  return {
    'ort maps': {
      ...asking(() => session.outputNames),
      /** The file in its own format; not part of loading. */
      async prepare(content) {
        const { onnxFile } = await import('/onnx.mjs');
        return onnxFile(content);
      },
      async open(content) {
        session = await ort.InferenceSession.create(content);
      },
    },
    'ort last row': asking(() => ['logits']),
  };
}
