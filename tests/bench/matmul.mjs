/**
 * Compares the base and the SIMD binary in Chromium.
 *
 *     node tests/bench/matmul.mjs BASE.wasm SIMD.wasm
 *
 * Both run in turn on one page, and the best of several rounds counts, so that another program on
 * the machine disturbs both alike. Exits with 1 if SIMD is less than four times as fast at some
 * shape.
 */
import { readFileSync } from 'node:fs';
import { CHROMIUM, chromium } from '../browser/chromium.mjs';

const requiredSpeedup = 4;
const rounds = Number(process.env.ROUNDS ?? 12);

/** Runs in the page. Returns the seconds per call, the best of all rounds, of every benchmark in both binaries. */
async function measure({ binaries, rounds }) {
  const decode = (base64) => Uint8Array.from(atob(base64), (letter) => letter.charCodeAt(0));
  const openEngine = async (base64) => {
    const { instance } = await WebAssembly.instantiate(decode(base64), {
      env: { emscripten_notify_memory_growth() {} },
    });
    instance.exports._initialize?.();
    instance.exports.bench_fill();
    return instance.exports;
  };
  const engines = await Promise.all(binaries.map(openEngine));
  const seconds = (engine, i, times) => {
    const start = performance.now();
    engine.bench_run(i, times);
    return (performance.now() - start) / 1000;
  };
  // Doubles the number of calls until they take 30 ms, far above the clock's resolution; V8 optimizes them meanwhile.
  const calibrate = (engine, i) => {
    let times = 1;
    while (seconds(engine, i, times) < 0.03) times *= 2;
    return times;
  };
  const textAt = (engine, address) => {
    const bytes = new Uint8Array(engine.memory.buffer, address);
    return String.fromCharCode(...bytes.subarray(0, bytes.indexOf(0)));
  };
  const bench = (i) => {
    const times = engines.map((engine) => calibrate(engine, i));
    const best = engines.map(() => Infinity);
    for (let round = 0; round < rounds; round++)
      engines.forEach((engine, e) => {
        best[e] = Math.min(best[e], seconds(engine, i, times[e]) / times[e]);
      });
    const [{ bench_rows, bench_columns, bench_depth, bench_name }] = engines;
    const shape = { T: bench_rows(i), N: bench_columns(i), Kin: bench_depth(i) };
    return { name: textAt(engines[0], bench_name(i)), ...shape, best };
  };
  return Array.from({ length: engines[0].bench_count() }, (_, i) => bench(i));
}

/**
 * Prints the row of a shape.
 * @returns {boolean} whether SIMD is fast enough at this shape
 */
function print({ name, T, N, Kin, best: [base, simd] }) {
  const [work, unit] = T ? [2 * T * N * Kin, 'GFLOP/s'] : [N, 'numbers/ns'];
  const rate = (seconds) => ((work / seconds) * 1e-9).toFixed(2).padStart(7);
  const shape = T ? `${T} x ${Kin} x ${N}` : `${N}`;
  const ratio = base / simd;
  const verdict = ratio < requiredSpeedup ? `  below ${requiredSpeedup}` : '';
  const rates = `${rate(base)} ${rate(simd)} ${unit.padEnd(10)}`;
  console.log(`${name.padEnd(16)} ${shape.padEnd(17)} ${rates} ${ratio.toFixed(2)}x${verdict}`);
  return ratio >= requiredSpeedup;
}

const binaries = process.argv.slice(2).map((file) => readFileSync(file).toString('base64'));
const browser = await chromium.launch(CHROMIUM);
try {
  console.log(`Chromium ${browser.version()}; best of ${rounds} rounds`);
  console.log(`${'rows x depth x columns'.padStart(34)}    base    SIMD`);
  const page = await browser.newPage();
  const results = await page.evaluate(measure, { binaries, rounds });
  const slowResults = results.filter((result) => !print(result));
  console.log(
    `${results.length - slowResults.length} of ${results.length} reach ${requiredSpeedup}x`,
  );
  process.exitCode = slowResults.length ? 1 : 0;
} finally {
  await browser.close();
}
