/**
 * Measures how far the numbers of tests/native and tests/wasm are from their tolerances, and writes the table of
 * tests/margins.md that has a row for each file:
 *
 *     tests/node tests/margins.mjs                       # or test_golden, effects.test.mjs ...
 *
 * The native tests of .build/native print both (check.h). In those of the package, `Math.abs(x) < tolerance` becomes a
 * call that notes both, when Node loads them.
 */
import { appendFileSync, mkdtempSync, readFileSync, readdirSync, writeFileSync } from 'node:fs';
import { registerHooks } from 'node:module';
import { spawnSync } from 'node:child_process';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const { SINKSCOPE_MARGINS: notes } = process.env;
const argument = String.raw`(?:[^()]|\((?:[^()]|\([^()]*\))*\))*`;
const bound = new RegExp(
  String.raw`Math\.abs\((${argument})\) <=? ([\w.-]+(?: \* (?:[\w.]|\(${argument}\))+)?)`,
  'g',
);

/** Makes Node note the comparisons of each test that it loads, and the worst of each file when it ends. */
function noteComparisons() {
  const worst = {};
  globalThis.margin = (file, difference, allowed) => {
    const [share] = worst[file] ?? [-1];
    if (difference / allowed > share) worst[file] = [difference / allowed, difference, allowed];
    return difference <= allowed;
  };
  registerHooks({
    load(url, context, next) {
      const loaded = next(url, context);
      if (!/tests\/wasm\/[\w.]+\.mjs$/.test(url)) return loaded;
      const call = `margin(${JSON.stringify(basename(url))}, Math.abs($1), $2)`;
      return { ...loaded, source: String(loaded.source).replace(bound, call) };
    },
  });
  process.on('exit', () => {
    for (const [file, [, difference, allowed]] of Object.entries(worst))
      appendFileSync(notes, `margin ${file} ${difference} ${allowed}\n`);
  });
}

/** Returns the worst comparison of each file. @param {string} output with lines `margin FILE DIFFERENCE ALLOWED` */
function worstOf(output) {
  const worst = new Map();
  for (const [, path, ...numbers] of output.matchAll(/^margin (\S+) (\S+) (\S+)$/gm)) {
    const [difference, allowed] = numbers.map(Number);
    const [before] = worst.get(basename(path)) ?? [-1];
    if (allowed > 0 && difference / allowed > before)
      worst.set(basename(path), [difference / allowed, difference, allowed]);
  }
  return [...worst].sort(([, [a]], [, [b]]) => b - a);
}

/** Measures files, all if none is named, and replaces their rows. @param {string[]} names */
function measure(names) {
  const root = fileURLToPath(new URL('..', import.meta.url));
  const file = join(mkdtempSync(join(tmpdir(), 'margins-')), 'notes');
  const env = { ...process.env, SINKSCOPE_MARGINS: file };
  const run = (program, ...args) =>
    spawnSync(program, args, { cwd: root, env, encoding: 'utf8', maxBuffer: 2 ** 30 }).stdout;
  const filesOf = (folder, pattern) =>
    readdirSync(join(root, folder))
      .filter((name) => pattern.test(name) && (!names.length || names.includes(name)))
      .map((name) => `${folder}/${name}`);
  let output = filesOf('.build/native', /^test_\w+$/)
    .map((path) => run(path))
    .join('');
  const options = ['--import', './tests/margins.mjs', '--test', '--test-isolation=none'];
  for (const path of filesOf('tests/wasm', /\.test\.mjs$/))
    if (/Math\.abs|near\(/.test(readFileSync(join(root, path), 'utf8'))) {
      writeFileSync(file, '');
      run(process.execPath, ...options, '--test-force-exit', path);
      output += readFileSync(file, 'utf8');
    }
  const table = join(root, 'tests/margins.md');
  const rows = /(\|---\|---\|---\|---\|\n)((?:\|.*\n)*)/;
  const text = readFileSync(table, 'utf8');
  const merged = new Map(
    [...text.match(rows)[2].matchAll(/^\| (\S+) \|.* (\S+) \|$/gm)].map(([row, name, share]) => [
      name,
      [Number(share), row],
    ]),
  );
  for (const [name, numbers] of worstOf(output)) {
    const [share, difference, allowed] = numbers.map((x) => Number(x.toPrecision(2)));
    merged.set(name, [share, `| ${name} | ${allowed} | ${difference} | ${share} |`]);
  }
  const sorted = [...merged.values()].sort(([a], [b]) => b - a).map(([, row]) => `${row}\n`);
  writeFileSync(
    table,
    text.replace(rows, (_, head) => head + sorted.join('')),
  );
}

if (notes) noteComparisons();
else measure(process.argv.slice(2));
