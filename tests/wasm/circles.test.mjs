// Checks that no two modules need each other, types included, and that each folder of the package is on one floor.
import { test } from 'node:test';
import assert from 'node:assert/strict';
import { existsSync, globSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import ts from '../../wasm/node_modules/typescript/lib/typescript.js';
import { root } from './helper.mjs';

const cwd = fileURLToPath(root);
const { imports } = JSON.parse(readFileSync(join(cwd, 'wasm/package.json'), 'utf8'));

/** The folders of the package from the lowest floor up; a folder may import from lower ones only. */
const FLOORS = [
  ...['abi', 'host', 'loading', 'engine', 'text', 'study', 'recording', 'lab', 'load', '.'],
  'command',
];

/** @param {string} name what a module imports */
function filesOf(name, from) {
  if (name.startsWith('#')) return Object.values(imports[name]).map((path) => join('wasm', path));
  const path = join(dirname(from), name);
  return ['', '.ts', '/index.ts'].map((end) => path + end).filter((file) => file.endsWith('.ts'));
}

/** Returns the modules that each module of a folder imports. */
function graphOf(folder) {
  const files = globSync(`${folder}/**/*.ts`, { cwd, exclude: ['**/node_modules'] });
  return new Map(
    files.map((file) => {
      const { importedFiles } = ts.preProcessFile(readFileSync(join(cwd, file), 'utf8'));
      const names = importedFiles
        .map(({ fileName }) => fileName)
        .filter((name) => /^[.#]/.test(name));
      const imported = names.flatMap((name) => filesOf(name, file));
      return [file, imported.filter((path) => existsSync(join(cwd, path)))];
    }),
  );
}

/** Returns the modules of one circle, or an empty list. */
function circleIn(graph) {
  const done = new Set();
  const visit = (file, path) => {
    if (path.includes(file)) return [...path.slice(path.indexOf(file)), file];
    if (done.has(file)) return [];
    for (const next of graph.get(file) ?? []) {
      const circle = visit(next, [...path, file]);
      if (circle.length) return circle;
    }
    done.add(file);
    return [];
  };
  for (const file of graph.keys()) {
    const circle = visit(file, []);
    if (circle.length) return circle;
  }
  return [];
}

for (const folder of ['wasm', 'web/src'])
  test(`the modules of ${folder} have no circle`, () => {
    const graph = graphOf(folder);
    assert.ok(graph.size > 50 && [...graph.values()].flat().length > graph.size);
    assert.deepEqual(circleIn(graph), []);
  });

test('each folder of the package imports from lower floors only', () => {
  const floorOf = (file) => FLOORS.indexOf(dirname(file).replace(/^wasm\/?/, '') || '.');
  const upward = [...graphOf('wasm')].flatMap(([file, imported]) => {
    assert.ok(floorOf(file) >= 0, `${file} is on no floor`);
    return imported
      .filter((path) => floorOf(path) > floorOf(file))
      .map((path) => `${file} ${path}`);
  });
  assert.deepEqual(upward, []);
});
