/** Prints the table of peers/run. Arguments are parts of the names of rows to print. */
import { createServer } from 'node:http';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { extname, join, normalize, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { CHROMIUM, chromium } from '../../browser/chromium.mjs';
import { isOurs, summary } from './table.mjs';
import { SHIPPED, TABLE } from './works.mjs';

const root = fileURLToPath(new URL('../../../', import.meta.url));
const rounds = Number(process.env.ROUNDS ?? 5);
const words = process.argv.slice(2);
const folders = {
  '/new/': join(root, '.build/wasm'),
  '/old/': process.env.OLD && resolve(process.env.OLD),
  '/bench/': join(root, '.build/bench'),
  '/wllama/': join(root, '.build/bench/node_modules/@wllama/wllama/esm'),
  '/ort/': join(root, '.build/bench/node_modules/onnxruntime-web/dist'),
  '/shipped/': join(root, SHIPPED.folder),
  '/': join(root, 'tests/bench/peers'),
};
const TYPES = { '.js': 'text/javascript', '.mjs': 'text/javascript', '.wasm': 'application/wasm' };

const server = createServer((request, response) => {
  const path = normalize(new URL(request.url, 'http://x').pathname);
  const folderPath = Object.keys(folders).find((prefix) => path.startsWith(prefix));
  const file =
    path === '/'
      ? undefined
      : join(folders[folderPath] ?? '/nowhere', path.slice(folderPath.length));
  if (path === '/') response.writeHead(200, { 'content-type': 'text/html' }).end('<!doctype html>');
  else if (!existsSync(file)) response.writeHead(404).end();
  else {
    const type = TYPES[extname(file)] ?? 'application/octet-stream';
    response.writeHead(200, { 'content-type': type }).end(readFileSync(file));
  }
});
await new Promise((done) => server.listen(0, '127.0.0.1', done));

/** Runs in the page. Times every row of one file, with the engines in turn, and reports each row when it ends. */
async function measure({ file, rows, rounds, hasOld, isShipped, answers }) {
  const { SHAPES, randomFile } = await import('/gguf.mjs');
  const { bare, makersFor } = await import('/engines.mjs');
  const { TOLERANCE, least, refusal } = await import('/table.mjs');
  const { parsed, textName, textOf } = await import('/works.mjs');
  const [shape, type] = file.split('.');
  const { L, H } = SHAPES[shape].sizes;
  const fetchShipped = async (name) => (await fetch(`/shipped/${name}`)).arrayBuffer();
  const content = isShipped
    ? new Uint8Array(await fetchShipped('model.safetensors'))
    : randomFile(shape, type);
  const config = isShipped
    ? new TextDecoder().decode(await fetchShipped('config.json'))
    : undefined;
  const timeOf = async (work) => {
    const start = performance.now();
    const result = await work();
    return typeof result === 'number' ? result : performance.now() - start;
  };
  const limit = await bare();
  const engines = {};
  const opening = { row: 'load', times: {}, refused: {} };
  for (const [maker, make] of Object.entries(makersFor(file, { hasOld })))
    try {
      for (const [name, engine] of Object.entries(await make())) {
        if (engine.open) {
          const preparedFile = (await engine.prepare?.(content)) ?? content;
          opening.times[name] = [await timeOf(() => engine.open(preparedFile, config))];
        }
        engines[name] = engine;
      }
    } catch (error) {
      opening.refused[maker] = error.message;
    }
  await globalThis.report(opening);

  const time = async (engine, row) => {
    const { kind, T, all } = parsed(row);
    const { tokens, steps } = textOf(file, row);
    const runRead = () => engine.read(tokens, { capacity: T + steps.length, all });
    if (kind === 'read') return timeOf(runRead);
    if (kind === 'key') {
      await engine.read([...tokens.slice(0, -1), tokens[0]]);
      return timeOf(() => engine.update(tokens));
    }
    await runRead();
    if (kind === 'measure') return engine.measure();
    let stepping = 0;
    for (const token of steps) stepping += await timeOf(() => engine.step(token));
    return stepping / steps.length;
  };
  for (const row of rows.filter((name) => name !== 'load')) {
    const reported = { row, times: {}, refused: {}, limits: [] };
    const engineEntries = Object.entries(engines).filter(([, e]) => e.can?.(parsed(row)) ?? true);
    const slowEngines = new Set();
    // The first round is not timed: V8 still compiles and optimizes the functions. Its answers are checked.
    for (let round = 0; round <= rounds; round++) {
      const shortest = least(file, row);
      const bare = Object.keys(shortest).length && limit.ms(shortest, shape);
      if (round && bare) reported.limits.push(bare);
      for (const [name, engine] of engineEntries) {
        if (reported.refused[name] || (slowEngines.has(name) && round > 1)) continue;
        try {
          const start = performance.now();
          const ms = await time(engine, row);
          if (round) {
            (reported.times[name] ??= []).push(ms);
            continue;
          }
          if (performance.now() - start > 5000) slowEngines.add(name);
          const answer = {
            tokens: await engine.top(100),
            att: await engine.att?.(L - 1, H - 1, 8),
          };
          const reason = refusal(answer, answers[textName(row)], TOLERANCE[engine.tolerance]);
          if (reason) reported.refused[name] = reason;
        } catch (error) {
          reported.refused[name] = error.message;
          delete reported.times[name];
        }
      }
    }
    await globalThis.report(reported);
  }
  for (const engine of Object.values(engines)) await engine.close?.();
}

const { files: answers, ...judged } = JSON.parse(
  readFileSync(new URL('../../golden/peers.json', import.meta.url), 'utf8'),
);
const browser = await chromium.launch(CHROMIUM);
const facts = { chromium: browser.version(), rounds, judged, rows: [] };
const out = join(root, '.build/bench/peers.json');

function print(file, { row, times, refused, limits = [] }) {
  const { ms, ratios } = summary(times);
  const bare = limits.length ? summary({ ours: limits }).ms.ours : undefined;
  facts.rows.push({ file, row, ms, ratios, bare, refused });
  writeFileSync(out, `${JSON.stringify(facts, null, 2)}\n`);
  const show = (x) => (x === undefined ? '-' : x.toFixed(x < 100 ? 2 : 0)).padStart(8);
  const names = Object.keys(ms);
  for (const engine of ['ours', ...names.filter((name) => isOurs(name) && name !== 'ours')]) {
    const isFirst = engine === 'ours';
    // The row of `ours` lists the times of all other engines; the row of a variant lists only its ratios.
    const otherNames = names.filter((name) => !isOurs(name) && (isFirst || ratios[engine][name]));
    const ratioCells = otherNames.map((name) => {
      const ratio = ratios[engine]?.[name]?.toFixed(2) ?? '-';
      return isFirst ? `${name} ${ratio} (${show(ms[name]).trim()})` : `${name} ${ratio}`;
    });
    const title = isFirst ? `${file} ${row}` : `    ${engine.slice('ours, '.length)}`;
    const cells = [title.padEnd(30), show(ms[engine]), show(isFirst ? bare : undefined), '  '];
    console.log([...cells, ratioCells.join('   ')].join(' ').trimEnd());
  }
  for (const [name, reason] of Object.entries(refused))
    console.log(`    refused: ${name}: ${reason}`);
}

console.log(
  `Chromium ${browser.version()}, one thread, medians of ${rounds} interleaved rounds, ms`,
);
console.log(`judged by ${judged.computed_by}`);
console.log(`${'work'.padEnd(30)} ${'ours'.padStart(8)} ${'bare'.padStart(8)}    ours / another`);
try {
  for (const [file, fileRows] of Object.entries(TABLE)) {
    const rows = fileRows.filter((row) => words.every((word) => `${file} ${row}`.includes(word)));
    if (!rows.length) continue;
    const page = await browser.newPage();
    await page.goto(`http://127.0.0.1:${server.address().port}/`);
    await page.exposeFunction('report', (reported) => print(file, reported));
    const pageArguments = { file, rows, rounds, hasOld: !!folders['/old/'] };
    const isShipped = file === SHIPPED.file;
    await page
      .evaluate(measure, { ...pageArguments, isShipped, answers: answers[file] ?? {} })
      .catch((error) => print(file, { row: 'all', times: {}, refused: { page: error.message } }));
    await page.close();
  }
} finally {
  await browser.close();
  server.close();
}
