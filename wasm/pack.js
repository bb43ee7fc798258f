/**
 * Makes the npm package in a folder, .build/package by default: the sources compiled to JavaScript with their
 * declarations, the binaries, and a package.json that names the compiled files.
 *
 *     npm --prefix wasm run build && npm pack ./.build/package
 *     tests/node wasm/pack.js FOLDER
 */
import { execFileSync } from 'node:child_process';
import { cpSync, globSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';

const source = import.meta.dirname;
const target = resolve(process.argv[2] ?? join(source, '../.build/package'));
const compiler = join(source, 'node_modules/typescript-7/bin/tsc');

rmSync(target, { recursive: true, force: true });
const options = [
  '--composite',
  'false',
  '--incremental',
  'false',
  '--declaration',
  '--outDir',
  target,
];
execFileSync(process.execPath, [compiler, '-p', source, ...options], { stdio: 'inherit' });
for (const name of globSync(
  '{cli.js,package.json,README.md,LICENSE,NOTICES.md,*.describe.json,*.wasm}',
  { cwd: source },
))
  cpSync(join(source, name), join(target, name));

// package.json, the declarations and the addresses of workers still name .ts sources, which
// SOURCE_PATH matches; README_LINK matches the links of the README. ARRAY_PARAMETER matches the parameter of
// typed arrays, which TypeScript before 5.7 does not know.
const README_LINK = /\bindex\.ts(?=[\])])/g;
const SOURCE_PATH = /(['"]\.\.?\/[\w/]+)\.ts(?=['"])/g;
const ARRAY_PARAMETER = /(?<=\b\w+Array)<ArrayBuffer(Like)?>/g;
for (const name of globSync('{package.json,README.md,**/*.{js,d.ts}}', { cwd: target })) {
  const file = join(target, name);
  const text = readFileSync(file, 'utf8')
    .replace(SOURCE_PATH, '$1.js')
    .replace(README_LINK, 'index.d.ts');
  writeFileSync(file, name.endsWith('.d.ts') ? text.replace(ARRAY_PARAMETER, '') : text);
}
