// Draws edits that nobody has chosen and says which of them no test notices.
//
//     node tests/mutate/fresh.mjs                     24 edits, drawn by today's date
//     node tests/mutate/fresh.mjs --count 200 --seed 20261123 core wasm web models
//
// The tests must pass without an edit; with --checked they have just done so.
//
// An edit meets the unit tests of its room: the native tests, the package's, the page's that reach the
// file (of the files that some unit test imports itself), the Python tests. The share that lives is
// printed; one that lives is no failure, for an edit may change nothing that anybody could notice.
import { execFileSync } from 'node:child_process';
import { mkdirSync, readFileSync, readdirSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { draw } from './draw.mjs';
import { openNative } from './native.mjs';
import { each, run } from './work.mjs';

process.chdir(fileURLToPath(new URL('../..', import.meta.url)));
const build = '.build/mutate';
mkdirSync(build, { recursive: true });

/** Tracked files of some folders whose name fits. @param {RegExp} name @param {string[]} folders */
const tracked = (name, ...folders) =>
  execFileSync('git', ['ls-files', ...folders], { encoding: 'utf8' })
    .split('\n')
    .filter((file) => name.test(file));

/** A room: its files, and the test that an edit fails; undefined: none; null: the edit is no program. */
/** @typedef {{ files: string[], killerOf: (file: string, text: string, name: string) => Promise<string | null | undefined> }} Room */

/** The edited text in a file of its own. @param {string} name @param {string} text */
function written(name, text) {
  const file = resolve(build, name);
  writeFileSync(file, text);
  return file;
}

/** @returns {Promise<Room>} */
async function wasm() {
  const tests = readdirSync('tests/wasm')
    .filter((name) => name.endsWith('.test.mjs'))
    // These go through files of a million pieces or shapes, and find what the others do not.
    .sort((a, b) => Number(/fuzz|smollm2/.test(a)) - Number(/fuzz|smollm2/.test(b)))
    .map((name) => join('tests/wasm', name));
  return {
    files: tracked(/\.js$/, 'wasm').filter((file) => !file.endsWith('eslint.config.js')),
    async killerOf(file, text, name) {
      const own = written(`${name}.mjs`, text);
      if (!(await run(process.execPath, ['--check', own], { isQuiet: true }))) return null;
      const env = {
        ...process.env,
        MUTANT: file,
        MUTANT_TEXT: own,
        NODE_OPTIONS: `--import ${resolve('tests/mutate/instead.mjs')}`,
      };
      // Those whose name is the file's know most of it.
      const word = file.split('/').at(-1)?.slice(0, 5) ?? '';
      const order = [...tests].sort((a, b) => Number(b.includes(word)) - Number(a.includes(word)));
      for (const test of order)
        if (!(await run(process.execPath, ['--test', test], { env, seconds: 120, isQuiet: true })))
          return test;
      return undefined;
    },
  };
}

/** @returns {Promise<Room>} */
async function web() {
  // What no unit test imports itself is left to the browser tests.
  const imported = tracked(/\.test\.ts$/, 'web/test').flatMap((file) =>
    [...readFileSync(file, 'utf8').matchAll(/from '\.\.\/(src\/[^']+)'/g)].map(
      ([, path]) => `web/${path}.ts`,
    ),
  );
  return {
    files: [...new Set(imported)],
    async killerOf(file, text, name) {
      const env = {
        ...process.env,
        MUTANT: file,
        MUTANT_TEXT: written(`${name}.ts`, text),
      };
      const args = ['related', resolve(file), '--run', '--bail', '1', '--root', resolve('web')];
      const config = ['--config', resolve('tests/mutate/vitest.config.ts')];
      const good = await run(resolve('web/node_modules/.bin/vitest'), [...args, ...config], {
        cwd: 'web',
        env,
        seconds: 120,
        isQuiet: true,
      });
      return good ? undefined : 'vitest';
    },
  };
}

/** @returns {Promise<Room>} */
async function models() {
  const candidates = [process.env.PYTHON ?? 'python3', '/usr/bin/python3'];
  const has = (/** @type {string} */ one) =>
    run(one, ['-c', 'import numpy, pytest'], { isQuiet: true });
  const python = (await has(candidates[0])) ? candidates[0] : candidates[1];
  return {
    files: tracked(
      /\.py$/,
      'models/train',
      'models/reference',
      'models/record/src/sinkscope/metrics.py',
    ).filter(
      (file) => !/\/(goldens\/|(time_|timing|follow_|fit_)\w*\.py$)/.test(file),
    ),
    async killerOf(file, text, name) {
      const own = written(`${name}.py`, text);
      if (!(await run(python, ['-m', 'py_compile', own], { isQuiet: true }))) return null;
      const env = { ...process.env, MUTANT: file, MUTANT_TEXT: own, PYTHONDONTWRITEBYTECODE: '1' };
      const args = [
        '-m',
        'pytest',
        '-q',
        '-x',
        '-p',
        'no:cacheprovider',
        '-p',
        'tests.mutate.instead',
      ];
      const good = await run(python, [...args, 'tests/python'], {
        env,
        seconds: 300,
        isQuiet: true,
      });
      return good ? undefined : 'pytest';
    },
  };
}

const rooms = { core: openNative, wasm, web, models };
const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    count: { type: 'string', default: '24' },
    checked: { type: 'boolean', default: false },
    seed: { type: 'string', default: new Date().toISOString().slice(0, 10).replaceAll('-', '') },
  },
});
const chosen = positionals.length ? positionals : Object.keys(rooms);
const share = Math.ceil(Number(values.count) / chosen.length);
let all = 0;
let alive = 0;
for (const name of chosen) {
  const open = rooms[/** @type {keyof typeof rooms} */ (name)];
  if (!open)
    throw new Error(`there is no room ${name} (there are: ${Object.keys(rooms).join(' ')})`);
  const { files, killerOf } = await open();
  const texts = new Map(files.map((file) => [file, readFileSync(file, 'utf8')]));
  if (!values.checked && (await killerOf(files[0], texts.get(files[0]) ?? '', `fresh-${name}`)))
    throw new Error(`the tests of ${name} fail without any edit`);
  // Some are no program; others are drawn in their place.
  const drawn = draw(texts, 3 * share, Number(values.seed));
  let met = 0;
  let lived = 0;
  await each(
    drawn.map((edit, i) => ({ ...edit, i })),
    async ({ file, line, before, after, text, i }) => {
      if (met >= share) return;
      met++;
      const killer = await killerOf(file, text, `fresh-${name}-${i}`);
      if (killer === null) {
        met--;
        return;
      }
      if (killer === undefined) lived++;
      const end = killer === undefined ? 'ALIVE' : `killed by ${killer}`;
      console.log(`${file}:${line}: ${before} -> ${after}: ${end}`);
    },
  );
  console.log(`${name}: ${lived} of ${met} edits live, seed ${values.seed}`);
  all += met;
  alive += lived;
}
console.log(`${alive} of ${all} drawn edits live (${((100 * alive) / all).toFixed(1)} %)`);
