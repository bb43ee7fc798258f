/** The table of peers/run; the arguments are words that a row's name must hold. */
import { createServer } from 'node:http';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { extname, join, normalize, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';

const root = fileURLToPath(new URL('../../../', import.meta.url));
const { chromium } = createRequire(join(root, 'web/package.json'))('playwright-core');
const rounds = Number(process.env.ROUNDS ?? 5);
const words = process.argv.slice(2);
const folders = {
  '/new/': join(root, '.build/wasm'),
  '/old/': process.env.OLD && resolve(process.env.OLD),
  '/wllama/': join(root, '.build/bench/node_modules/@wllama/wllama/esm'),
  '/ort/': join(root, '.build/bench/node_modules/onnxruntime-web/dist'),
  '/zoo/': join(root, 'models/zoo'),
  '/': join(root, 'tests/bench/peers'),
};
const TYPES = { '.js': 'text/javascript', '.mjs': 'text/javascript', '.wasm': 'application/wasm' };

const server = createServer((request, response) => {
  const path = normalize(new URL(request.url, 'http://x').pathname);
  const under = Object.keys(folders).find((prefix) => path.startsWith(prefix));
  const file =
    path === '/' ? undefined : join(folders[under] ?? '/nowhere', path.slice(under.length));
  if (path === '/') response.writeHead(200, { 'content-type': 'text/html' }).end('<!doctype html>');
  else if (!existsSync(file)) response.writeHead(404).end();
  else {
    const type = TYPES[extname(file)] ?? 'application/octet-stream';
    response.writeHead(200, { 'content-type': type }).end(readFileSync(file));
  }
});
await new Promise((done) => server.listen(0, '127.0.0.1', done));

/** Runs in the page: medians of every row of one file, by turns. */
async function measure({ file, rows, rounds, hasOld }) {
  const { SHAPES, randomFile } = await import('/gguf.mjs');
  const { onnxruntime, ours, wllama } = await import('/engines.mjs');
  const [shape, type] = file.split('.');
  const isZoo = file === 'zoo.i8';
  const fetched = async (name) => (await fetch(`/zoo/softmax/${name}`)).arrayBuffer();
  const content = isZoo
    ? new Uint8Array(await fetched('model.safetensors'))
    : randomFile(shape, type);
  const config = isZoo ? await (await fetch('/zoo/softmax/config.json')).text() : undefined;
  const engines = { ours: await ours('/new/sinkscope.simd.wasm') };
  if (hasOld) engines.old = await ours('/old/sinkscope.simd.wasm');
  if (!isZoo) engines.wllama = await wllama();
  if (!isZoo && type !== 'q4_1')
    Object.assign(engines, await onnxruntime({ shape, type, eight: type === 'q8_0' }));
  const { V } = SHAPES[shape].sizes;
  const tokens = (n) => Array.from({ length: n }, (_, i) => (i * 7919 + i * i * 31 + 11) % V);
  const clock = async (work) => {
    const start = performance.now();
    await work();
    return performance.now() - start;
  };
  const load = {};
  for (const [name, engine] of Object.entries(engines)) {
    if (!engine.open) continue;
    const own = (await engine.prepare?.(content)) ?? content;
    load[name] = [await clock(() => engine.open(own, config))];
  }

  // The same answers before any time counts.
  const answers = {};
  for (const [name, engine] of Object.entries(engines)) {
    const [asked, next] = [tokens(16), 5];
    await engine.read(engine.step ? asked : [...asked, next], { capacity: 17 });
    await engine.step?.(next);
    answers[name] = await engine.top(100);
  }
  // llama.cpp rounds its activations to 8 bits where weights are quantised.
  const allowed = type === 'f32' ? 1e-3 : 0.1;
  for (const [name, answer] of Object.entries(answers))
    for (const { token, p } of answers.ours.slice(0, 5)) {
      const other = answer.find((one) => one.token === token);
      if (!(Math.abs(other?.p / p - 1) < allowed))
        throw new Error(`${file}: ${name} gives token ${token} ${other?.p}, ours ${p}`);
    }

  const works = {
    decode: async (engine) => {
      if (!engine.step) return undefined;
      await engine.read(tokens(64), { capacity: 128 });
      return (
        (await clock(async () => {
          for (let i = 0; i < 8; i++) await engine.step((i * 997) % V);
        })) / 8
      );
    },
    ...Object.fromEntries(
      [16, 64, 128, 256].flatMap((T) => [
        [`read ${T}`, (engine) => clock(() => engine.read(tokens(T)))],
        [
          `read ${T}, all logits`,
          (engine) => engine.describe && clock(() => engine.read(tokens(T), { extra: ['logits'] })),
        ],
        [
          `measure ${T}`,
          async (engine) => {
            if (!engine.measure) return undefined;
            await engine.read(tokens(T));
            return engine.measure();
          },
        ],
      ]),
    ),
  };
  await globalThis.tell({ row: 'load', times: load });
  for (const row of rows) {
    const times = {};
    for (let round = 0; round <= rounds; round++)
      for (const [name, engine] of Object.entries(engines)) {
        const time = await works[row](engine);
        // The first brings the optimised code.
        if (round && time !== undefined) (times[name] ??= []).push(time);
      }
    await globalThis.tell({ row, times });
  }
  for (const engine of Object.values(engines)) await engine.close?.();
}

const prefill = [
  'read 64',
  'read 64, all logits',
  'read 256',
  'read 256, all logits',
  'measure 256',
];
const TABLE = [
  ['gpt2.f32', ['decode', 'read 16', 'measure 64', ...prefill]],
  ['gpt2.q8_0', ['decode', 'read 64', 'read 256']],
  ['smollm2.f32', ['decode', 'read 256']],
  ['zoo.f32', ['decode', 'read 64', 'measure 64']],
  ['smollm2.q8_0', ['decode']],
  ['smollm2.q4_1', ['decode', 'read 64']],
  ['zoo.i8', ['read 64', 'measure 64', 'read 128', 'measure 128']],
];
const median = (values) => [...values].sort((a, b) => a - b)[values.length >> 1];
const browser = await chromium.launch({
  executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium',
  args: ['--no-sandbox', '--disable-gpu', '--disable-background-networking'],
});
const facts = { chromium: browser.version(), rounds, rows: [] };
function print(file, { row, times }) {
  const medians = Object.fromEntries(Object.entries(times).map(([e, v]) => [e, median(v)]));
  facts.rows.push({ file, row, ms: medians });
  const others = Object.entries(medians).filter(([engine]) => engine !== 'ours');
  const ratios = others.map(
    ([e, ms]) => `${e} ${(medians.ours / ms).toFixed(2)} (${ms.toFixed(1)})`,
  );
  const name = `${file} ${row}`.padEnd(34);
  console.log(`${name} ${medians.ours.toFixed(2).padStart(8)}   ${ratios.join('   ')}`);
}

console.log(`Chromium ${browser.version()}, one thread, medians of ${rounds} rounds by turns, ms`);
console.log(`${'work'.padEnd(34)} ${'ours'.padStart(8)}   ours / another`);
try {
  for (const [file, all] of TABLE) {
    const holds = (row) => words.every((word) => `${file} ${row}`.includes(word));
    const rows = all.filter(holds);
    if (!rows.length) continue;
    const page = await browser.newPage();
    await page.goto(`http://127.0.0.1:${server.address().port}/`);
    await page.exposeFunction('tell', (told) => print(file, told));
    await page.evaluate(measure, { file, rows, rounds, hasOld: !!folders['/old/'] });
    await page.close();
  }
} finally {
  await browser.close();
  server.close();
}
writeFileSync(join(root, '.build/bench/peers.json'), `${JSON.stringify(facts, null, 2)}\n`);
