/** Installs the packed package into an empty project, without a registry. */
import { execFile, execFileSync } from 'node:child_process';
import { mkdirSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

const root = fileURLToPath(new URL('../', import.meta.url));
const source = join(root, 'wasm');

export function runIn(folder, command, ...args) {
  const stdio = ['ignore', 'pipe', 'pipe'];
  return execFileSync(command, args, { cwd: folder, encoding: 'utf8', stdio });
}

/** Runs a command while this process serves others, such as the pages of a test beside this one. */
const runMeanwhile = (folder, command, ...args) =>
  promisify(execFile)(command, args, { cwd: folder, maxBuffer: 2 ** 26 });

/**
 * Makes a folder in which only the package is installed. The dependencies of the package come from the installation of
 * the tests; npm refuses other versions than those in package.json.
 * @param {string} name
 * @param {Record<string, string>} files files of the project, by name
 */
export async function installInto(name, files) {
  const folder = join(root, '.build', name);
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder, { recursive: true });
  for (const [path, text] of Object.entries(files)) writeFileSync(join(folder, path), text);
  // Stages run in parallel, so each packs into a folder of its own.
  const packageFolder = join(root, '.build', `${name}-package`);
  await runMeanwhile(source, process.execPath, 'pack.js', packageFolder);
  await runMeanwhile(folder, 'npm', 'pack', '--silent', packageFolder);
  const [tarball] = readdirSync(folder).filter((path) => path.endsWith('.tgz'));
  const { dependencies } = JSON.parse(readFileSync(join(source, 'package.json'), 'utf8'));
  const specifierOf = (/** @type {string} */ dependency) =>
    `${dependency}@file:${join(source, 'node_modules', dependency)}`;
  const specifiers = [`./${tarball}`, ...Object.keys(dependencies).map(specifierOf)];
  const npmOptions = ['--offline', '--no-audit', '--no-fund', '--silent', '--install-links'];
  await runMeanwhile(folder, 'npm', 'install', ...npmOptions, ...specifiers);
  return folder;
}
