/**
 * Measures the distance from a test to a file in imports: the nearest tests are the likeliest to
 * notice an edit.
 */
import { existsSync, readFileSync, readdirSync, statSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';

/** Matches the names that a file imports or re-exports. */
const NAMED_IMPORT = /(?:import|export)\s+(?!type\b)(?:\w+,\s*)?\{([^}]*)\}\s*from '([^']+)'/g;
/** Matches files that are imported as a whole, started as workers or programs, or matched by a pattern. */
const WHOLE_IMPORT =
  /(?:(?:import|export)\s+(?!type\b)(?:\* as )?\w+ from |\bimport\s*\(?\s*|\bURL\(\s*|\bglob\b[^(]*\(\s*)'([^']+)'/g;

/** @param {string} file @returns {string} */
const textOf = (file) => readFileSync(file, 'utf8');

/**
 * Returns the files that an import path names; none for an npm package.
 * @param {string} file the importing file
 * @param {string} to the import path
 */
function filesOf(file, to) {
  // The package's import map resolves '#store' to host/store_node.ts here.
  const host = /^#(\w+)$/.exec(to)?.[1];
  if (host) return [`wasm/host/${host === 'host' ? 'node' : `${host}_node`}.ts`];
  const localPath = to.startsWith('.') ? join(dirname(file), to.split('?')[0]) : to;
  const folder = dirname(localPath);
  if (basename(localPath).startsWith('*.') && existsSync(folder))
    return readdirSync(folder).map((name) => join(folder, name));
  const path = [localPath, `${localPath}.ts`, join(localPath, 'index.ts')].find(
    (candidate) => existsSync(candidate) && statSync(candidate).isFile(),
  );
  return path && /\.m?[jt]s$/.test(path) ? [path] : [];
}

const PYTHON_IMPORT = /^[ \t]*from (\.*)([\w.]*) import (\([^)]*\)|.*)/gm;

/**
 * Returns the modules of models/ that a Python file imports.
 * @param {string} file
 * @param {string} text
 */
function modulesOf(file, text) {
  return [...text.matchAll(PYTHON_IMPORT)].flatMap(([, dots, name, list]) => {
    const home = dots ? join(dirname(file), ...Array(dots.length - 1).fill('..')) : '';
    const path = name
      .split('.')
      .join('/')
      .replace(/^sinkscope/, 'models/record/src/sinkscope');
    const names = list.match(/\w+/g) ?? [];
    const base = join(home, path);
    return [
      `${base}.py`,
      join(base, '__init__.py'),
      ...names.map((name) => join(base, `${name}.py`)),
    ];
  });
}

/** @typedef {{ names: readonly string[], file: string }} Import */

/** @type {Map<string, readonly Import[]>} */
const importsByFile = new Map();

/** @param {string} file @returns {readonly Import[]} */
function importsOf(file) {
  const before = importsByFile.get(file);
  if (before) return before;
  const text = textOf(file);
  if (file.endsWith('.py')) {
    const modules = modulesOf(file, text).filter((module) => existsSync(module));
    const imports = modules.map((module) => ({ names: [], file: module }));
    importsByFile.set(file, imports);
    return imports;
  }
  const namedImports = [...text.matchAll(NAMED_IMPORT)].flatMap(([, list, to]) => {
    const names = list.split(',').map((item) => item.trim().split(/\s+as\s+/)[0]);
    const values = names.filter((name) => name && !name.startsWith('type '));
    return filesOf(file, to).map((from) => ({ names: values, file: from }));
  });
  const wholeImports = [...text.matchAll(WHOLE_IMPORT)].flatMap(([, to]) =>
    filesOf(file, to).map((from) => ({ names: [], file: from })),
  );
  const allImports = [...namedImports.filter(({ names }) => names.length), ...wholeImports];
  importsByFile.set(file, allImports);
  return allImports;
}

/**
 * Returns the file that defines a name, which `file` may only re-export.
 * @param {string} file
 * @param {string} name
 * @returns {string}
 */
function homeOf(file, name) {
  const from = importsOf(file).find(({ names }) => names.includes(name));
  const isPassedOn = from && RegExp(`export \\{[^}]*\\b${name}\\b[^}]*\\} from`).test(textOf(file));
  return isPassedOn ? homeOf(from.file, name) : file;
}

/**
 * Returns the number of imports from a test to a file; Infinity if none lead there.
 * @param {string} test path from the top of the tree
 * @param {string} file path from the top of the tree
 */
export function distance(test, file) {
  const visited = new Set([test]);
  let front = [test];
  for (let steps = 1; front.length; steps++) {
    const nextFiles = front.flatMap((importer) =>
      importsOf(importer).flatMap(({ names, file: from }) =>
        names.length ? names.map((name) => homeOf(from, name)) : [from],
      ),
    );
    front = [...new Set(nextFiles)].filter((path) => !visited.has(path));
    if (front.includes(file)) return steps;
    for (const path of front) visited.add(path);
  }
  return Infinity;
}

/**
 * Sorts tests, the nearest to the file first; equally near tests keep their order.
 * @param {readonly string[]} tests @param {string} file
 */
export function nearestFirst(tests, file) {
  return tests
    .map((test) => ({ test, far: distance(test, file) }))
    .sort((a, b) => (a.far === b.far ? 0 : a.far - b.far))
    .map(({ test }) => test);
}
