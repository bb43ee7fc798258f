/**
 * Measures the time and memory of long texts in one thread: of `measure` over T tokens, each T in its own process, and of
 * reading the map of one head that a run of 2,048 tokens, or fewer if no T is that large, computes on demand.
 *
 *     node tests/bench/long.mjs [MODEL.gguf] [T ...]        SmolLM2 of models/fetch/smollm2, T = 1,024 to 8,192
 *
 * Prints the processor time of all threads and the wall time in seconds, and the peak memory of the process (VmHWM) in MB.
 */
import { spawn } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { createEngine } from '../../wasm/index.ts';
import { bytesOf, usedSince } from './process.mjs';

const root = fileURLToPath(new URL('../../', import.meta.url));
const [file = join(root, 'models/.fetched/SmolLM2-135M-Instruct.Q4_1.gguf'), ...lengths] =
  process.argv.slice(2);
if (!existsSync(file)) throw new Error(`${file}: expected a model; models/fetch/smollm2 gets one`);
const allLengths = lengths.length ? lengths.map(Number) : [1024, 2048, 4096, 8192];
const V = 40_000;
const idsOf = (T) => Array.from({ length: T }, (_, i) => (i * 7919 + i * i * 31 + 11) % V);
const CLICKED_HEAD = { T: Math.min(2048, Math.max(...allLengths)), layer: 12, head: 3, block: 8 };

function processorSeconds(pid) {
  try {
    const [user, system] = readFileSync(`/proc/${pid}/stat`, 'utf8')
      .split(') ')[1]
      .split(' ')
      .slice(11, 13);
    return (Number(user) + Number(system)) / 100;
  } catch {
    return undefined;
  }
}

async function measureLength(T) {
  const words = ['measure', file, '--ids', idsOf(T).join(), '--workers', '1', '--json'];
  const startTime = performance.now();
  const child = spawn(process.execPath, [join(root, 'wasm/cli.js'), ...words], {
    stdio: ['ignore', 'ignore', 'inherit'],
  });
  const usage = { cpu: 0, memory: 0 };
  const timer = setInterval(async () => {
    usage.cpu = processorSeconds(child.pid) ?? usage.cpu;
    usage.memory = Math.max(usage.memory, await bytesOf(child.pid, 'VmHWM').catch(() => 0));
  }, 100);
  const code = await new Promise((done) => child.on('exit', done));
  clearInterval(timer);
  if (code) throw new Error(`measure of ${T} tokens: expected an end, found ${code}`);
  return { ...usage, wall: (performance.now() - startTime) / 1000 };
}

const printRow = (...cells) => console.log(cells.map((cell) => `${cell}`.padStart(12)).join(''));
console.log(`${basename(file)}, measure`);
printRow('T', 'CPU s', 'wall s', 'MB', 'kB a token');
let last;
for (const T of allLengths) {
  const { cpu, wall, memory } = await measureLength(T);
  const growth = last ? Math.round((memory - last.memory) / 1e3 / (T - last.T)) : '';
  printRow(T, cpu.toFixed(1), wall.toFixed(1), Math.round(memory / 1e6), growth);
  last = { T, memory };
}

const engine = await createEngine({ worker: false });
const model = await engine.open({ weights: readFileSync(file) });
const run = await model.run(idsOf(CLICKED_HEAD.T), {
  fields: ['att'],
  capacity: CLICKED_HEAD.T,
  maps: 0,
});
const { layer, head, block } = CLICKED_HEAD;
for (const read of [{ block }, { rows: [CLICKED_HEAD.T - 40, CLICKED_HEAD.T] }]) {
  const before = process.cpuUsage();
  await run.field('att', { layer, head, ...read });
  const ms = usedSince(before).toFixed(0);
  console.log(
    `T = ${CLICKED_HEAD.T}, a head's map, ${'block' in read ? 'in blocks' : '40 rows'}: ${ms} ms of CPU`,
  );
}
await engine.close();
