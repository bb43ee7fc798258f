/**
 * Applies every edit of edits.jsonl, one at a time, and expects the test that its row names to fail. A row is
 *
 *     {"breaks": what breaks, "file": ..., "code": the code, "edited": the edited code, "test": path of the test}
 *
 * The code occurs exactly once in the file. Two kinds of edit do not belong here: those that change no number (a constant
 * above what any file reaches), and those that only a sanitizer sees. The edits are applied in a copy of the tree.
 *
 *     tests/node tests/mutate/run.mjs              all edits
 *     tests/node tests/mutate/run.mjs sink ReLU    edits whose sentence or file contains “sink” or “ReLU”
 *     tests/node tests/mutate/run.mjs --copy       only the copy, for tests/mutate/fresh
 */
import { execFileSync, spawnSync } from 'node:child_process';
import {
  cpSync,
  existsSync,
  mkdirSync,
  readFileSync,
  readdirSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { basename, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';

process.chdir(fileURLToPath(new URL('../..', import.meta.url)));
const copy = resolve('.build/mutate');
/** The first limit ends endless loops, the second waits. */
const [PROCESSOR_SECONDS, WALL_SECONDS] = [300, 1200];

/** Folders that git does not track and no edit touches. */
const LINKED = '.build/tools .build/cjson .build/wasm wasm/node_modules web/node_modules'.split(
  ' ',
);

/** @typedef {{ breaks: string, file: string, code: string, edited: string, test: string }} Edit */
/** @type {Edit[]} */
const edits = readFileSync('tests/mutate/edits.jsonl', 'utf8')
  .trim()
  .split('\n')
  .map((line) => JSON.parse(line));

/** Copies the tree anew, with its times, so that the compiler builds only what changed since the last run. */
function copyTree() {
  mkdirSync(copy, { recursive: true });
  for (const name of readdirSync(copy))
    if (name !== '.build') rmSync(join(copy, name), { recursive: true });
  const tracked = execFileSync('git', ['ls-files'], { encoding: 'utf8', maxBuffer: 2 ** 26 });
  for (const path of tracked.trim().split('\n').filter(existsSync))
    cpSync(path, join(copy, path), { preserveTimestamps: true });
  mkdirSync('.build/cjson', { recursive: true });
  mkdirSync(join(copy, '.build'), { recursive: true });
  for (const folder of LINKED)
    if (!existsSync(join(copy, folder))) symlinkSync(resolve(folder), join(copy, folder));
}

/**
 * Runs a program in the copy and returns whether it succeeded.
 * @param {string} folder @param {...string} command
 */
const succeeds = (folder, ...command) =>
  spawnSync('/bin/sh', ['-c', `ulimit -t ${PROCESSOR_SECONDS} && exec "$0" "$@"`, ...command], {
    cwd: join(copy, folder),
    env: { ...process.env, PYTHONPATH: join(copy, 'models/record/src') },
    stdio: 'ignore',
    timeout: 1000 * WALL_SECONDS,
    killSignal: 'SIGKILL',
  }).status === 0;

/**
 * How a test is run, by the folder it lies in: whether the file compiles (and is built), and whether the test passes.
 * @type {[RegExp, (file: string, test: string) => boolean, (test: string) => boolean][]}
 */
const RUNNERS = [
  [
    /^tests\/native\//,
    (_, test) =>
      succeeds('.', 'cmake', '--build', '.build/native', '--target', basename(test, '.c')),
    (test) => succeeds('.', `.build/native/${basename(test, '.c')}`),
  ],
  [
    /\.py$/,
    (file) => succeeds('.', '.build/tools/bin/python', '-m', 'py_compile', file),
    (test) => succeeds('.', '.build/tools/bin/python', '-m', 'pytest', '-q', '-x', test),
  ],
  [
    /^tests\/wasm\//,
    (file) => succeeds('.', process.execPath, '--check', file),
    (test) => succeeds('wasm', process.execPath, '--test', '--test-force-exit', `../${test}`),
  ],
  [
    /^web\/test\//,
    (file) => succeeds('.', process.execPath, '--check', file),
    (test) => succeeds('web', 'node_modules/.bin/vitest', 'run', test.replace('web/', '')),
  ],
];

/** Tests that passed without an edit: one that always fails notices nothing. @type {Set<string>} */
const sound = new Set();

/** Says why an edit is no good; undefined if its test noticed it. @param {Edit} edit */
function outcomeOf({ file, code, edited, test }) {
  const text = existsSync(file) ? readFileSync(file, 'utf8') : '';
  const times = text.split(code).length - 1;
  if (times !== 1) return `does not apply: its code occurs ${times} times in ${file}`;
  const runner = RUNNERS.find(([folder]) => folder.test(test));
  if (!runner || !existsSync(test)) return `there is no test ${test}`;
  const [, compiles, passes] = runner;
  if (!sound.has(test) && !(compiles(file, test) && passes(test)))
    return `${test} fails without an edit`;
  sound.add(test);
  writeFileSync(
    join(copy, file),
    text.replace(code, () => edited),
  );
  try {
    if (!compiles(file, test)) return 'does not compile';
    return passes(test) ? `not noticed by ${test}` : undefined;
  } finally {
    writeFileSync(join(copy, file), text);
  }
}

const words = process.argv.slice(2);
const chosen = edits.filter(
  ({ breaks, file }) => !words.length || words.some((word) => `${breaks} ${file}`.includes(word)),
);
if (!chosen.length && words[0] !== '--copy') throw new Error(`no edit has ${words.join(' or ')}`);
copyTree();
const options = ['-DCMAKE_BUILD_TYPE=Release', '-DSINKSCOPE_SANITIZE=OFF'];
if (
  chosen.some(({ file }) => file.endsWith('.c')) &&
  !succeeds('.', 'cmake', '-B.build/native', ...options)
)
  throw new Error('cmake fails');
let failed = 0;
for (const edit of chosen) {
  const failure = outcomeOf(edit);
  if (failure) failed++;
  console.log(`${edit.breaks}: ${failure ?? `noticed by ${edit.test}`}`);
}
console.log(`${chosen.length - failed} passed, ${failed} failed`);
process.exitCode = failed ? 1 : 0;
