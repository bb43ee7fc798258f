/**
 * Opens the rooms of the tree, each with the unit tests for its edits, the nearest first. core: the native tests. wasm:
 * the type check, then the tests of the package that run the edited place. web, for files that some unit test imports:
 * the type check, then the tests of the page that reach the file. models: the Python tests. No file of the tree is
 * touched.
 */
import { execFileSync, spawn } from 'node:child_process';
import {
  copyFileSync,
  existsSync,
  mkdirSync,
  readFileSync,
  readdirSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { basename, dirname, join, resolve } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { coverageOf, hasRun } from './coverage.mjs';
import { distance, nearestFirst } from './imports.mjs';
import { openNative } from './native.mjs';
import { run } from './work.mjs';

process.chdir(fileURLToPath(new URL('../..', import.meta.url)));
const build = '.build/mutate';
/** Number of nearest tests that run before the others of a room. */
const NEAR = 4;
/** Option -k of pytest for the tests in tests/record that start a Ray cluster, JupyterLab or a build. */
const SLOW = 'ray_with or no_row_is_lost or jupyterlab or wheel';
mkdirSync(build, { recursive: true });

/**
 * Returns the tracked files of some folders whose name matches.
 * @param {RegExp} name @param {string[]} folders
 */
const tracked = (name, ...folders) =>
  execFileSync('git', ['ls-files', ...folders], { encoding: 'utf8' })
    .split('\n')
    .filter((file) => name.test(file));

/**
 * A room has files, and a function `killerOf` that returns the test that fails under an edit:
 * undefined if none fails, null if the edit does not compile. `killers` are tests to try first; with
 * `isNear` only the nearest tests run.
 * @typedef {{
 *   files: string[],
 *   killerOf: (file: string, text: string, name: string, killers?: string[], isNear?: boolean) =>
 *     Promise<string | null | undefined>,
 * }} Room
 */

/**
 * Writes an edited text to a new file and returns the path.
 * @param {string} name
 * @param {string} text
 */
function writeEdited(name, text) {
  const file = resolve(build, name);
  writeFileSync(file, text);
  return file;
}

/** @param {string} file */
const stemOf = (file) => basename(file).replace(/\.\w+$/, '');

/**
 * Sorts tests: those whose name contains one of the words come first.
 * @param {string[]} tests @param {string[]} words
 */
const likelyFirst = (tests, words) => {
  const isLikely = (/** @type {string} */ test) =>
    words.some((word) => basename(test).includes(word));
  return [...tests.filter(isLikely), ...tests.filter((test) => !isLikely(test))];
};

/**
 * Returns whether TypeScript accepts an edit, in a copy of wasm/ and web/, whose types refer to each
 * other.
 * @param {string} name @param {string} file @param {string} text
 */
async function hasTypes(name, file, text) {
  const copy = resolve(build, `${name}.types`);
  for (const path of tracked(/\.(m?[jt]s|json|html|svg|css)$/, 'wasm', 'web', 'tests/wasm')) {
    mkdirSync(join(copy, dirname(path)), { recursive: true });
    copyFileSync(path, join(copy, path));
  }
  for (const folderPath of ['wasm/node_modules', 'web/node_modules', 'models'])
    symlinkSync(resolve(folderPath), join(copy, folderPath));
  writeFileSync(join(copy, file), text);
  const compiler = resolve('wasm/node_modules/typescript-7/bin/tsc');
  const room = file.split('/')[0];
  const options = { cwd: copy, seconds: 120, isQuiet: true };
  const unchangedPasses = await run(process.execPath, [compiler, '-b', room], options);
  rmSync(copy, { recursive: true });
  return unchangedPasses;
}

/** @returns {Promise<Room>} */
async function wasm() {
  const tests = readdirSync('tests/wasm')
    .filter((name) => name.endsWith('.test.mjs'))
    .map((name) => join('tests/wasm', name));
  const files = tracked(/\.ts$/, 'wasm').filter((file) => !file.endsWith('types.ts'));
  // A worker or server that a failed test leaves open would keep its process alive.
  const options = ['--test', '--test-force-exit'];
  /** @param {string} test @param {NodeJS.ProcessEnv} env @param {string[]} extraOptions */
  const passes = (test, env, ...extraOptions) =>
    run(process.execPath, [...options, ...extraOptions, test], {
      env: { ...process.env, ...env },
      seconds: 120,
      isQuiet: true,
      failure: /^\s*✖/m,
    });
  /**
   * Runs a test on an edit, which may make it wait forever.
   * @param {string} test @param {NodeJS.ProcessEnv} env
   */
  const passesEdited = (test, env) => passes(test, env, '--test-timeout=120000');
  /**
   * Coverage of the tests. It is measured at the first edit that passes the nearest tests; all tests
   * must pass then.
   * @type {ReturnType<typeof coverageOf> | undefined}
   */
  let coveragePromise;
  const checked = checker((test) => passes(test, {}));
  return {
    files,
    async killerOf(file, text, name, killers = [], isNear = false) {
      const editedFile = writeEdited(`${name}.mts`, text);
      if (!(await run(process.execPath, ['--check', editedFile], { isQuiet: true }))) return null;
      if (!(await hasTypes(name, file, text))) return 'types';
      const unedited = readFileSync(file, 'utf8');
      if (text === unedited) return undefined;
      let firstDifference = 0;
      while (firstDifference < text.length && text[firstDifference] === unedited[firstDifference])
        firstDifference++;
      const env = {
        MUTANT: file,
        MUTANT_TEXT: editedFile,
        NODE_OPTIONS: `--import ${resolve('tests/mutate/instead.mjs')}`,
      };
      /** Returns the first of some tests that fails. @param {readonly string[]} testList */
      const firstFailure = async (testList) => {
        for (const test of testList) {
          if (!(await passesEdited(test, env))) return checked(test);
        }
        return undefined;
      };
      const words = [...killers, stemOf(file).slice(0, 5)];
      const nearTests = likelyFirst(nearestFirst(tests, file), words).slice(0, NEAR);
      const killer = await firstFailure(nearTests);
      if (killer || isNear) return killer;
      const helpers = tracked(/(?<!\.test)\.mjs$/, 'tests/wasm', 'tests/hub');
      coveragePromise ??= coverageOf(
        join(build, 'coverage'),
        tests,
        [...files, ...helpers],
        passes,
      );
      const coverage = await coveragePromise;
      // V8 counts an operator as run if its right side ran, and the character before it if the operator ran.
      const reaching = tests.filter((test) =>
        hasRun(coverage.get(test)?.ran[file], firstDifference - 1),
      );
      const seconds = (/** @type {string} */ test) => coverage.get(test)?.seconds ?? 0;
      const otherTests = reaching.filter((test) => !nearTests.includes(test));
      return firstFailure(otherTests.sort((a, b) => seconds(a) - seconds(b)));
    },
  };
}

/** @returns {Promise<Room>} */
async function web() {
  // The browser tests cover files that no unit test imports. A type-only import runs nothing of a file.
  const imports = /^import (?!type)[^;]*? from '\.\.\/(src\/[^']+)'/gm;
  const tests = tracked(/\.test\.ts$/, 'web/test');
  const importedFiles = tests.flatMap((file) =>
    [...readFileSync(file, 'utf8').matchAll(imports)].map(([, path]) => `web/${path}.ts`),
  );
  /**
   * Runs tests on a file whose text is that of another file. Returns the first test that fails; '' if a limit or an
   * error outside the tests ends them; undefined if all pass.
   * @param {readonly string[]} words names of tests @param {number} seconds the limit that ends an endless loop
   * @param {string} file @param {string} text path of the file with the text
   */
  const firstFailure = async (words, seconds, file, text) => {
    const report = resolve(build, `${basename(text)}.json`);
    rmSync(report, { force: true });
    const options = ['--run', '--bail', '1', '--root', resolve('web')];
    const config = ['--config', resolve('tests/mutate/vitest.config.mts')];
    const namedFiles = words.map((word) => `test/${word}.test.ts`);
    const passes = await run(
      resolve('web/node_modules/.bin/vitest'),
      [...namedFiles, ...options, ...config, '--reporter', 'json', '--outputFile', report],
      {
        ...{ cwd: 'web', seconds, isQuiet: true },
        env: { ...process.env, MUTANT: file, MUTANT_TEXT: text },
      },
    );
    if (passes) return undefined;
    if (!existsSync(report)) return '';
    /** @type {{ testResults: { name: string, status: string }[] }} */
    const { testResults } = JSON.parse(readFileSync(report, 'utf8'));
    const failed = testResults.find(({ status }) => status === 'failed');
    return failed ? basename(failed.name, '.test.ts') : '';
  };
  // For a run without an edit, the file is replaced with its own text.
  const checked = checker(async (word) => {
    const file = 'web/src/words.ts';
    return (await firstFailure([word], 120, file, resolve(file))) === undefined;
  });
  return {
    // A folder import means its index.ts.
    files: [...new Set(importedFiles)].map((file) =>
      existsSync(file) ? file : file.replace(/\.ts$/, '/index.ts'),
    ),
    async killerOf(file, text, name, killers = [], isNear = false) {
      const editedFile = writeEdited(`${name}.ts`, text);
      if (!(await hasTypes(name, file, text))) return 'types';
      const names = [...text.matchAll(/^export (?:async )?(?:function|const|class) (\w+)/gm)];
      const nameAlternatives = [stemOf(file), ...names.map(([, exportName]) => exportName)].join(
        '|',
      );
      /** @param {string} test */
      const usesOf = (test) =>
        readFileSync(test, 'utf8').split(RegExp(`\\b(?:${nameAlternatives})\\b`)).length;
      // Among equally near tests, the one that uses most of the file's names comes first.
      const reaching = tests
        .filter((test) => distance(test, file) < Infinity)
        .map((test) => ({ test, uses: usesOf(test) }))
        .sort((a, b) => b.uses - a.uses)
        .map(({ test }) => test);
      const words = nearestFirst(reaching, file).map((test) => basename(test, '.test.ts'));
      const firstWords = killers.length ? killers : words.slice(0, NEAR);
      const otherWords = isNear ? [] : words.filter((word) => !firstWords.includes(word));
      for (const [wordList, seconds] of /** @type {const} */ ([
        [firstWords, 40],
        [otherWords, 120],
      ])) {
        const failed = wordList.length
          ? await firstFailure(wordList, seconds, file, editedFile)
          : undefined;
        if (failed) return checked(failed);
        if (failed === '') {
          for (const word of firstWords) await checked(word);
          return 'a limit, or an error outside the tests';
        }
      }
      return undefined;
    },
  };
}

/**
 * Returns a function that checks that a test which failed on an edit passes without the edit, because a test that
 * always fails notices nothing. Each test runs once.
 * @param {(test: string) => Promise<boolean>} passes runs a test without an edit
 */
function checker(passes) {
  /** @type {Map<string, Promise<boolean>>} */
  const results = new Map();
  return async (/** @type {string} */ test) => {
    const result = results.get(test) ?? passes(test);
    results.set(test, result);
    if (!(await result)) throw new Error(`${test} fails without any edit`);
    return test;
  };
}

const throwMissing = () => {
  throw new Error('.build/tools lacks what the Python tests import: tests/setup python record');
};

/**
 * Starts a process that runs pytest in its forks, one order after another.
 * @param {string} python
 */
function openForks(python) {
  const child = spawn(python, ['tests/mutate/forks.py'], {
    stdio: ['pipe', 'pipe', 'inherit'],
    env: { ...process.env, OMP_NUM_THREADS: '1', PYTHONNOUSERSITE: '1' },
  });
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  /** @type {Promise<unknown>} */
  let last = Promise.resolve();
  // Between orders the process must not keep Node.js alive.
  child.unref();
  for (const pipe of [child.stdin, child.stdout])
    /** @type {import('node:net').Socket} */ (pipe).unref();
  return {
    /**
     * Returns the first test that fails; undefined if none fails.
     * @param {{ environment: Record<string, string>, arguments: string[], seconds: number }} order
     * @returns {Promise<string | undefined>}
     */
    failing(order) {
      const answer = last.then(async () => {
        child.stdin.write(`${JSON.stringify(order)}\n`);
        child.ref();
        const { value, done } = await lines.next();
        child.unref();
        if (done) throwMissing();
        const { status, failed } = JSON.parse(value);
        // A negative status is a signal: a limit ended pytest, so no test need have failed.
        if (status > 0 && !failed)
          throw new Error(`pytest ends with status ${status} and no failed test`);
        return status === 0 ? undefined : failed;
      });
      last = answer.catch(() => {});
      return answer;
    },
  };
}

/** @returns {Promise<Room>} */
async function models() {
  const python = resolve('.build/tools/bin/python');
  if (!existsSync(python)) throwMissing();
  /** The process that runs pytest, started at the first edit. @type {ReturnType<typeof openForks> | undefined} */
  let forks;
  /**
   * Runs tests on a file whose text is that of another file.
   * @param {string} file @param {string} text path of the file with the text @param {string[]} testList arguments of pytest
   */
  const firstFailure = (file, text, testList) => {
    forks ??= openForks(python);
    const environment = {
      MUTANT: file,
      MUTANT_TEXT: text,
      PYTHONPATH: [resolve('tests/mutate/site'), resolve('models/record/src')].join(':'),
      PYTHONDONTWRITEBYTECODE: '1',
    };
    const options = ['-q', '-x', '-p', 'no:cacheprovider'];
    return forks.failing({ environment, arguments: [...options, ...testList], seconds: 300 });
  };
  // For a run without an edit, the file is replaced with its own text.
  const checked = checker(async (test) => {
    const file = 'models/train/__init__.py';
    return (await firstFailure(file, resolve(file), [test])) === undefined;
  });
  const folders = ['models/train', 'models/reference', 'models/record/src/sinkscope'];
  const tests = tracked(/\/test_\w+\.py$/, 'tests/python');
  /** The tests of the Python package, without those that record something large. */
  const ofRecordings = [
    'recording',
    'traps',
    'layers',
    'files',
    'maps',
    'command',
    'metrics',
    'study',
    'notebook',
    'wrapped',
    'padding',
    'doors',
    'defaults',
    'silent',
  ].map((name) => `tests/record/test_${name}.py`);
  return {
    // Excludes writers of goldens, which have their own comparison, and timing scripts, which need a quiet machine.
    files: tracked(/\.py$/, ...folders).filter(
      (file) => !/\/(goldens\/|(time_|timing|follow_|fit_)\w*\.py$)/.test(file),
    ),
    async killerOf(file, text, name, killers = [], isNear = false) {
      const editedFile = writeEdited(`${name}.py`, text);
      if (!(await run(python, ['-m', 'py_compile', editedFile], { isQuiet: true }))) return null;
      const isRecorder = file.startsWith('models/record/') && stemOf(file) !== 'metrics';
      const ownTests = isRecorder ? ofRecordings : tests;
      // Writers of goldens run as programs, so no import leads to their code.
      const reaching = ownTests.filter(
        (test) => distance(test, file) < Infinity || /_writers/.test(test) || isRecorder,
      );
      // If a package's index re-exports its names, the nearest tests are those that use a name of the file.
      const names = [...text.matchAll(/^(?:def|class) ([a-zA-Z]\w*)/gm)].map(([, name]) => name);
      const uses = RegExp(`\\b(${names.join('|') || '$^'})\\b`);
      const usingTests = reaching.filter((test) => uses.test(readFileSync(test, 'utf8')));
      const orderedTests = [
        ...new Set([...nearestFirst(usingTests, file), ...nearestFirst(reaching, file)]),
      ];
      const likelyTests = likelyFirst(orderedTests, [...killers, stemOf(file)]);
      // A cluster takes longer to start than all other tests.
      const slowTests = isRecorder ? ['tests/record/test_study.py', '-k', SLOW] : [];
      const [nearTests, farTests] = [likelyTests.slice(0, NEAR), likelyTests.slice(NEAR)];
      for (const testList of isNear ? [nearTests] : [nearTests, farTests, slowTests]) {
        const skipSlow = testList === slowTests ? [] : ['-k', `not (${SLOW})`];
        const failed = testList.length
          ? await firstFailure(file, editedFile, [...testList, ...skipSlow])
          : undefined;
        if (failed) return checked(failed);
        if (failed === '') return 'the limit of its time';
      }
      return undefined;
    },
  };
}

/** @type {Record<string, () => Promise<Room>>} */
const openers = { core: openNative, wasm, web, models };
export const roomNames = Object.keys(openers);

/** @type {Map<string, Promise<Room>>} */
const openedRooms = new Map();
/**
 * Opens a room once for all of its edits, because compiling the core and timing its tests takes a
 * minute.
 * @param {string} name
 */
export function roomOf(name) {
  if (!openers[name])
    throw new Error(`there is no room ${name} (there are: ${roomNames.join(' ')})`);
  const room = openedRooms.get(name) ?? openers[name]();
  openedRooms.set(name, room);
  return room;
}
