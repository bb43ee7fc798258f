/**
 * Runs the native tests on edits of the core. All objects are built once; an edit recompiles one file. The tests
 * are linked and run until one fails, the named killers first and then the quickest. If all pass, they run once more under the
 * sanitizers, as in the native stage. The compiler reads the edited text from its standard input, so the tree is not
 * touched.
 */
import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, readdirSync, readFileSync } from 'node:fs';
import { basename, dirname, join, resolve } from 'node:path';
import { each, run } from './work.mjs';

const build = '.build/mutate';
const cc = process.env.CC ?? 'cc';
/** Tests that are left out, because they are slow and could notice few edits. */
const SLOW_TESTS = ['test_strtod', 'test_snprintf', 'test_small', 'test_sink100'];
const TEST_SECONDS = 60;
const SANITIZERS = [
  ...['-fsanitize=address,undefined,float-cast-overflow', '-fno-sanitize-recover=all'],
  '-DSS_ARENA_GAP=64', // makes overruns within an arena visible to the sanitizer
];

/**
 * Returns the folder of cJSON that a build uses.
 * @param {string} folder folder of the build
 * @returns {string}
 */
function cjsonOf(folder) {
  execFileSync('cmake', ['-B', folder], { stdio: 'ignore' });
  /** @type {{ file: string }[]} */
  const commands = JSON.parse(readFileSync(join(folder, 'compile_commands.json'), 'utf8'));
  const source = commands.find(({ file }) => basename(file) === 'cJSON.c');
  if (!source) throw new Error(`${folder} does not compile cJSON.c`);
  return dirname(source.file);
}

/**
 * Returns every C file under a folder.
 * @param {string} folder
 * @returns {string[]}
 */
const sources = (folder) =>
  readdirSync(folder, { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith('.c'))
    .map((name) => join(folder, name));

/** @param {string} file @param {string[]} sanitizers */
const objectOf = (file, sanitizers) =>
  join(build, `${file.replaceAll('/', '-')}${sanitizers.length ? '.sanitized' : ''}.o`);

/** Builds the core and its tests, and returns its room. */
export async function openNative() {
  const cjson = cjsonOf('.build/native');
  const flags = ['-std=c11', '-O1', '-w', '-ffp-contract=off', '-fno-math-errno'].concat(
    ['core', 'tests', cjson].map((folder) => `-I${resolve(folder)}`),
  );
  const core = sources('core');
  const tests = sources('tests/native')
    .filter((file) => basename(file).startsWith('test_'))
    .filter((file) => !SLOW_TESTS.includes(basename(file, '.c')));
  const library = join(cjson, 'cJSON.c');

  /**
   * Compiles the text of a file in the file's folder, so that its includes resolve.
   * @param {string} file @param {string} object @param {string[]} sanitizers @param {string} [text]
   */
  const compile = (file, object, sanitizers, text = readFileSync(file, 'utf8')) =>
    run(cc, [...flags, ...sanitizers, '-x', 'c', '-', '-c', '-o', resolve(object)], {
      cwd: dirname(file),
      input: text,
      isQuiet: true,
    });

  /**
   * Links a test with the core, in which `instead` may replace an object, and runs the test.
   * @param {string} test source of the test @param {string} program @param {string[]} sanitizers
   * @param {Map<string, string>} [instead]
   * @returns {Promise<boolean>} whether it passed
   */
  async function passes(test, program, sanitizers, instead = new Map()) {
    const objects = [...core, test, library].map(
      (file) => instead.get(file) ?? objectOf(file, sanitizers),
    );
    if (!(await run(cc, [...sanitizers, '-o', program, ...objects, '-lm'])))
      throw new Error(`${test} does not link`);
    return run(program, [], { seconds: TEST_SECONDS, isQuiet: true });
  }

  /** Compiles all objects without an edit. @param {string[]} sanitizers */
  const compileAll = (sanitizers) =>
    each([...core, ...tests, library], async (file) => {
      if (!(await compile(file, objectOf(file, sanitizers), sanitizers)))
        throw new Error(`${file} does not compile`);
    });

  mkdirSync(build, { recursive: true });
  await compileAll([]);
  /** Milliseconds per test, because the quickest tests run first. @type {Map<string, number>} */
  const took = new Map();
  await each(tests, async (test) => {
    const startTime = performance.now();
    if (!(await passes(test, join(build, basename(test, '.c')), [])))
      throw new Error(`${test} fails without any edit`);
    took.set(test, performance.now() - startTime);
  });
  tests.sort((a, b) => Number(took.get(a)) - Number(took.get(b)));
  /**
   * Objects with sanitizers, compiled when the first edit needs them.
   * @type {Promise<void> | undefined}
   */
  let sanitized;

  return {
    /** Files whose edits a native test can notice: all but SIMD kernels, which are compiled for wasm only. */
    files: core.filter((file) => !/_simd\.c$/.test(file)),
    /**
     * Returns the test that fails under an edit; undefined if none fails; null if the edit does not
     * compile.
     * @param {string} file
     * @param {string} text the edited text
     * @param {string} name name of the object file
     * @param {readonly string[]} [killers] names of tests, most likely first
     * @returns {Promise<string | undefined | null>}
     */
    async killerOf(file, text, name, killers = []) {
      const firstTests = killers.map((killer) => `tests/native/test_${killer}.c`);
      for (const test of firstTests)
        if (!tests.includes(test)) throw new Error(`there is no test ${test}`);
      const otherTests = tests.filter((test) => !firstTests.includes(test));
      /**
       * Named tests run under the sanitizers before all other tests run without them.
       * @type {[string[], string[]][]}
       */
      const rounds = [
        [[], firstTests],
        [SANITIZERS, firstTests],
        [[], otherTests],
        [SANITIZERS, otherTests],
      ];
      for (const [sanitizers, order] of rounds) {
        if (!order.length) continue;
        const object = join(build, `mutant-${name}.o`);
        if (!existsSync(file) || !(await compile(file, object, sanitizers, text))) return null;
        if (sanitizers.length) await (sanitized ??= compileAll(sanitizers));
        for (const test of order) {
          if (!(await passes(test, `${object}.program`, sanitizers, new Map([[file, object]]))))
            return basename(test, '.c');
        }
      }
      return undefined;
    },
  };
}
