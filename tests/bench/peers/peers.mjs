/**
 * Times this engine and its peers in headless Chromium: each engine gets the same files of random weights, in turns, on one
 * page. An engine's time counts only if its logits match PyTorch's (tests/golden/peers.json); a row names a refused
 * engine and the reason. `--only gpt2.f32 --only decode` takes the rows that have these words.
 */
import { execFileSync } from 'node:child_process';
import { copyFileSync, existsSync, mkdirSync, readFileSync, rmSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { CHROMIUM, chromium } from '../../browser/chromium.mjs';
import { openSite } from '../../browser/site.mjs';
import { refusal, TOLERANCE } from './refusal.mjs';
import { SHIPPED, TABLE, textName } from './works.mjs';

const out = resolve('.build/bench');

/** Only this measurement needs the peers' packages, so they are not among the project's; package.json pins them. */
function installPeers() {
  const [wanted, installed] = [
    resolve('tests/bench/peers/package.json'),
    join(out, 'package.json'),
  ];
  if (existsSync(installed) && readFileSync(installed).equals(readFileSync(wanted))) return;
  mkdirSync(out, { recursive: true });
  copyFileSync(wanted, installed);
  try {
    execFileSync('npm', ['install', '--prefix', out, '--no-audit', '--no-fund', '--silent']);
  } catch (error) {
    rmSync(installed);
    throw error;
  }
}

/** Runs in the page: opens the engines of a file, and returns their names and why others could not be opened. */
async function openEngines({ file, builds, isShipped }) {
  const { randomFile } = await import('/bench/peers/gguf.mjs');
  const { makersFor } = await import('/bench/peers/engines.mjs');
  const { parsed, textOf } = await import('/bench/peers/works.mjs');
  const [shape, type] = file.split('.');
  const fetchBytes = async (name) => new Uint8Array(await (await fetch(name)).arrayBuffer());
  const content = isShipped
    ? await fetchBytes('/shipped/model.safetensors')
    : randomFile(shape, type);
  const config = isShipped
    ? new TextDecoder().decode(await fetchBytes('/shipped/config.json'))
    : undefined;
  const timeOf = async (work) => {
    const start = performance.now();
    const result = await work();
    return typeof result === 'number' ? result : performance.now() - start;
  };
  const [engines, refused, rows] = [{}, {}, {}];
  for (const [maker, make] of Object.entries(makersFor(file, builds)))
    try {
      for (const [name, engine] of Object.entries(await make())) {
        const prepared = (await engine.prepare?.(content)) ?? content;
        if (engine.open) rows[name] = await timeOf(() => engine.open(prepared, config));
        engines[name] = engine;
      }
    } catch (error) {
      refused[maker] = error.message;
    }
  globalThis.time = async (name, row) => {
    const engine = engines[name];
    const { kind, T, all } = parsed(row);
    const { tokens, steps } = textOf(file, row);
    const read = () => engine.read(tokens, { capacity: T + steps.length, all });
    if (kind === 'read') return timeOf(read);
    if (kind === 'key') {
      await engine.read([...tokens.slice(0, -1), tokens[0]]);
      return timeOf(() => engine.update(tokens));
    }
    await read();
    if (kind === 'measure') return engine.measure();
    let ms = 0;
    for (const token of steps) ms += await timeOf(() => engine.step(token));
    return ms / steps.length;
  };
  globalThis.answer = async (name, { L, H }) => ({
    tokens: await engines[name].top(100),
    att: [...((await engines[name].att?.(L - 1, H - 1, 8)) ?? [])],
    tolerance: engines[name].tolerance,
  });
  globalThis.can = (name, row) => engines[name].can?.(parsed(row)) ?? true;
  return { names: Object.keys(engines), refused, opening: rows };
}

/** Returns the engines that answer a row rightly, and prints why others do not. */
async function rightEngines(page, names, row, sizes, expected) {
  const right = [];
  for (const name of names) {
    if (!(await page.evaluate(([n, r]) => globalThis.can(n, r), [name, row]))) continue;
    try {
      await page.evaluate(([n, r]) => globalThis.time(n, r), [name, row]);
      const { tolerance, ...answer } = await page.evaluate(
        ([n, s]) => globalThis.answer(n, s),
        [name, sizes],
      );
      const reason = refusal(answer, expected, TOLERANCE[tolerance]);
      if (!reason) right.push(name);
      else console.log(`refused: ${name}, ${row}: ${reason}`);
    } catch (error) {
      console.log(`refused: ${name}, ${row}: ${error.message}`);
    }
  }
  return right;
}

export async function* peers({ only, binaries }) {
  installPeers();
  const { SHAPES } = await import('./gguf.mjs');
  const builds = binaries.map((_, i) => `/build${i}/`);
  const folders = {
    ...Object.fromEntries(builds.map((path, i) => [path, resolve(binaries[i])])),
    '/wllama/': join(out, 'node_modules/@wllama/wllama/esm'),
    '/ort/': join(out, 'node_modules/onnxruntime-web/dist'),
    '/shipped/': resolve(SHIPPED.folder),
    '/': resolve('tests'),
  };
  const server = await openSite((path) => {
    const front = Object.keys(folders).find((name) => path.startsWith(name));
    return path === '/'
      ? { body: '<!doctype html>' }
      : join(folders[front], path.slice(front.length));
  });
  const { files: answers } = JSON.parse(readFileSync('tests/golden/peers.json', 'utf8'));
  const browser = await chromium.launch(CHROMIUM);
  for (const [file, allRows] of Object.entries(TABLE)) {
    const rows = allRows.filter((row) => only.every((word) => `${file} ${row}`.includes(word)));
    if (!rows.length) continue;
    const page = await browser.newPage();
    await page.goto(server.address);
    const isShipped = file === SHIPPED.file;
    const opened = await page.evaluate(openEngines, { file, builds, isShipped });
    for (const [name, reason] of Object.entries(opened.refused))
      console.log(`refused: ${name}: ${reason}`);
    for (const [name, ms] of Object.entries(opened.opening))
      console.log(`${file}, opening, ${name}: ${ms.toFixed(0)} ms`);
    const { sizes } = SHAPES[file.split('.')[0]];
    for (const row of rows) {
      const expected = answers[file]?.[textName(row)];
      const right = await rightEngines(page, opened.names, row, sizes, expected);
      const work = (name) => () => page.evaluate(([n, r]) => globalThis.time(n, r), [name, row]);
      const subjects = right.map((name) => ({ name, work: work(name) }));
      if (subjects.length) yield { title: `${file} ${row}`, subjects };
    }
    await page.close();
  }
  await browser.close();
  server.close();
}
