/**
 * Times ss_matmul in Chromium, base wasm against SIMD wasm, in turns in one page, so that other
 * work on the machine slows both alike:
 *
 *     node tests/bench/matmul.mjs [rounds]
 *
 * A vector has four lanes, and the textbook's eight sums keep a processor's adders as busy as the
 * SIMD kernel's: four times is about the most there is to gain. Exits with 1 if a product of many
 * rows gains less than three, or if the builds differ in a bit.
 */
import { execFileSync } from 'node:child_process';
import { mkdirSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const NEEDED = 3;
const MANY_ROWS = 64;
const rounds = Number(process.argv[2] ?? 30);

const root = fileURLToPath(new URL('../../', import.meta.url));
const folder = join(root, '.build/bench');
const { chromium } = createRequire(join(root, 'web/package.json'))('playwright-core');

const sources = ['tests/bench/matmul.c', 'core/math/kernels_ref.c', 'core/math/kernels_simd.c'];
const names = ['shapes', 'size', 'fill', 'textbook', 'matmul', 'hash'];
// Both builds get the flags of the product.
const flags = [
  ...['-std=c11', '-O3', '-DNDEBUG', '-ffp-contract=off', '-fno-math-errno', '-Icore'],
  ...['--no-entry', '-sSTANDALONE_WASM', '-sINITIAL_MEMORY=33554432'],
  `-sEXPORTED_FUNCTIONS=${names.map((name) => `_bench_${name}`).join(',')}`,
];

/** Compiles one build; its bytes as text that can be handed to a page. */
function build(name, ...options) {
  const file = join(folder, `${name}.wasm`);
  // Debian's emcc looks for its JavaScript libraries in /usr/share/nodejs only when told so.
  const env = { ...process.env, NODE_PATH: process.env.NODE_PATH ?? '/usr/share/nodejs' };
  const command = [...flags, ...options, ...sources, '-o', file];
  execFileSync('emcc', command, { cwd: root, env, stdio: 'inherit' });
  return readFileSync(file).toString('base64');
}

/** Runs in the page. GFLOP/s of each shape in each build, the best of all rounds. */
async function measure({ base, simd, rounds }) {
  const open = async (text) => {
    const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
    const { exports } = (await WebAssembly.instantiate(bytes)).instance;
    exports._initialize?.();
    exports.bench_fill();
    return exports;
  };
  const plain = await open(base);
  const fast = await open(simd);
  // A run takes some 5 ms: fifty ticks of the browser's clock, and short enough to find, in many
  // rounds, one that nothing interrupted.
  const rate = (run, shape, flop, aim) => {
    const times = Math.ceil(aim / flop);
    const start = performance.now();
    run(shape, times);
    return (flop * times) / (performance.now() - start) / 1e6;
  };
  const rows = [];
  for (let shape = 0; shape < plain.bench_shapes(); shape++) {
    const [T, N, Kin] = [0, 1, 2].map((letter) => plain.bench_size(shape, letter));
    const flop = 2 * T * N * Kin;
    const best = { base: 0, textbook: 0, simd: 0 };
    for (let round = 0; round < rounds; round++) {
      best.base = Math.max(best.base, rate(plain.bench_matmul, shape, flop, 5e7));
      best.textbook = Math.max(best.textbook, rate(fast.bench_textbook, shape, flop, 1e8));
      best.simd = Math.max(best.simd, rate(fast.bench_matmul, shape, flop, 2e8));
    }
    plain.bench_matmul(shape, 1);
    fast.bench_matmul(shape, 1);
    const same = plain.bench_hash(shape) === fast.bench_hash(shape);
    rows.push({ T, N, Kin, ...best, ratio: best.simd / best.base, same });
  }
  return rows;
}

mkdirSync(folder, { recursive: true });
const wasm = { base: build('base'), simd: build('simd', '-msimd128') };

const executablePath = process.env.CHROMIUM ?? '/usr/bin/chromium';
const browser = await chromium.launch({ executablePath, args: ['--no-sandbox', '--disable-gpu'] });
try {
  const page = await browser.newPage();
  const rows = await page.evaluate(measure, { ...wasm, rounds });
  const column = (value) => String(value).padStart(10);
  const number = (value) => column(value.toFixed(1));
  console.log(`Chromium ${browser.version()}, GFLOP/s, best of ${rounds} rounds`);
  console.log(['T', 'N', 'Kin', 'base', 'textbook*', 'SIMD', 'ratio'].map(column).join(''));
  for (const { T, N, Kin, base, textbook, simd, ratio, same } of rows) {
    const line =
      [T, N, Kin].map(column).join('') + [base, textbook, simd, ratio].map(number).join('');
    console.log(same ? line : `${line}   other bits!`);
  }
  console.log('* the textbook loop as the compiler vectorizes it in the SIMD build');
  const slow = rows.filter(({ T, ratio }) => T >= MANY_ROWS && ratio < NEEDED);
  if (slow.length || rows.some(({ same }) => !same)) process.exitCode = 1;
  console.log(`${slow.length} shapes of ${MANY_ROWS} rows or more below ${NEEDED} times`);
} finally {
  await browser.close();
}
