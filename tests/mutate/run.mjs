// Applies every edit of mutants.mjs to the core, one at a time, and expects a native test to fail.
//
//     node tests/mutate/run.mjs              all of them
//     node tests/mutate/run.mjs sink ReLU    those whose name or file holds one of these words
//
// All objects are built once; an edit recompiles one file and links the tests, most likely killer
// first, until one fails. Nothing in the tree is touched: the edited file goes to the compiler by
// its standard input.
import { execFile, execFileSync } from 'node:child_process';
import { mkdirSync, readdirSync, readFileSync, existsSync } from 'node:fs';
import { cpus } from 'node:os';
import { basename, dirname, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import mutants from './mutants.mjs';

process.chdir(fileURLToPath(new URL('../..', import.meta.url)));
const build = '.build/mutate';
const cc = process.env.CC ?? 'cc';
const cjson = process.env.SINKSCOPE_CJSON_DIR ?? cjsonOf('.build/native');
const flags = ['-std=c11', '-O1', '-w', '-ffp-contract=off', '-fno-math-errno'].concat(
  ['core', 'tests', cjson].map((folder) => `-I${resolve(folder)}`),
);
/** Too long for what they could find: a table of numbers, a hundred sequences. */
const LEFT_OUT = ['test_strtod', 'test_snprintf', 'test_sink100'];
const TEST_MS = 60_000;

/** The folder of cJSON that the build uses. @param {string} folder @returns {string} */
function cjsonOf(folder) {
  execFileSync('cmake', ['-B', folder], { stdio: 'ignore' });
  /** @type {{ file: string }[]} */
  const commands = JSON.parse(readFileSync(join(folder, 'compile_commands.json'), 'utf8'));
  const source = commands.find(({ file }) => basename(file) === 'cJSON.c');
  if (!source) throw new Error(`${folder} does not compile cJSON.c`);
  return dirname(source.file);
}

/** Every C file under a folder. @param {string} folder @returns {string[]} */
const sources = (folder) =>
  readdirSync(folder, { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith('.c'))
    .map((name) => join(folder, name));

/** @param {string} file */
const objectOf = (file) => join(build, `${file.replaceAll('/', '-')}.o`);

/**
 * Runs a program; the promise is of whether it ended well.
 * @param {string} program @param {string[]} args @param {{ cwd?: string, input?: string, ms?: number }} [options]
 * @returns {Promise<boolean>}
 */
const run = (program, args, { cwd, input, ms } = {}) =>
  new Promise((done) => {
    const options = { cwd, timeout: ms, killSignal: 'SIGKILL', maxBuffer: 1 << 28 };
    const child = execFile(program, args, /** @type {any} */ (options), (error, _, said) => {
      if (error && ms === undefined) console.error(said);
      done(!error);
    });
    if (input === undefined) return;
    child.stdin?.on('error', () => {}); // of a program that read no further; it fails
    child.stdin?.end(input);
  });

/**
 * Compiles the text of a file, where it lies, so that its includes are found.
 * @param {string} file @param {string} object @param {string} [text]
 */
const compile = (file, object, text = readFileSync(file, 'utf8')) =>
  run(cc, [...flags, '-x', 'c', '-', '-c', '-o', resolve(object)], {
    cwd: dirname(file),
    input: text,
  });

/** Works through a list, two at a time. @template T @param {T[]} list @param {(item: T) => Promise<void>} work */
async function each(list, work) {
  const rest = [...list];
  const worker = async () => {
    for (let item = rest.shift(); item !== undefined; item = rest.shift()) await work(item);
  };
  await Promise.all(cpus().slice(0, 2).map(worker));
}

const core = sources('core');
const tests = sources('tests/native')
  .filter((file) => basename(file).startsWith('test_'))
  .filter((file) => !LEFT_OUT.includes(basename(file, '.c')));
const library = join(cjson, 'cJSON.c');

/**
 * Links a test with the core, one object of which may stand for another, and runs it.
 * @param {string} test its source @param {string} program @param {Map<string, string>} [instead]
 * @returns {Promise<boolean>} whether it passed
 */
async function passes(test, program, instead = new Map()) {
  const objects = [...core, test, library].map((file) => instead.get(file) ?? objectOf(file));
  if (!(await run(cc, ['-o', program, ...objects, '-lm'])))
    throw new Error(`${test} does not link`);
  return run(program, [], { ms: TEST_MS });
}

let passed = 0;
let failed = 0;
/** @param {boolean} good @param {string} line */
function tell(good, line) {
  if (good) passed++;
  else failed++;
  console.log(line);
}

/** The test that a mutant fails, or undefined. @param {string} file @param {string} killers @param {string} object */
async function killerOf(file, killers, object) {
  const first = killers.split(' ').map((name) => `tests/native/test_${name}.c`);
  for (const test of [...first, ...tests.filter((other) => !first.includes(other))]) {
    if (!tests.includes(test)) throw new Error(`there is no test ${test}`);
    if (!(await passes(test, `${object}.program`, new Map([[file, object]])))) return test;
  }
  return undefined;
}

/** @param {import('./mutants.mjs').default[number]} mutant */
async function meet([name, path, code, edited, killers]) {
  const file = join('core', path);
  const text = existsSync(file) ? readFileSync(file, 'utf8') : '';
  const times = text.split(code).length - 1;
  if (times !== 1)
    return tell(false, `${name}: does not apply, its code stands ${times} times in ${file}`);
  const object = join(build, `mutant-${mutants.findIndex((row) => row[0] === name)}.o`);
  if (
    !(await compile(
      file,
      object,
      text.replace(code, () => edited),
    ))
  )
    return tell(false, `${name}: does not compile`);
  const killer = await killerOf(file, killers, object);
  tell(
    killer !== undefined,
    killer ? `${name}: killed by ${basename(killer, '.c')}` : `${name}: ALIVE`,
  );
}

mkdirSync(build, { recursive: true });
await each([...core, ...tests, library], async (file) => {
  if (!(await compile(file, objectOf(file)))) throw new Error(`${file} does not compile`);
});
await each(tests, async (test) => {
  if (!(await passes(test, join(build, basename(test, '.c')))))
    throw new Error(`${test} fails without any edit`);
});
const words = process.argv.slice(2);
const chosen = mutants.filter(
  ([name, file]) => !words.length || words.some((word) => `${name} ${file}`.includes(word)),
);
await each(chosen, meet);
console.log(`${passed} passed, ${failed} failed`);
process.exitCode = failed ? 1 : 0;
