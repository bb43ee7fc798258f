/** Installs the packed package into an empty project, without a registry. */
import { execFileSync } from 'node:child_process';
import { mkdirSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const root = fileURLToPath(new URL('../', import.meta.url));
const source = join(root, 'wasm');

export function runIn(folder, command, ...args) {
  const stdio = ['ignore', 'pipe', 'pipe'];
  return execFileSync(command, args, { cwd: folder, encoding: 'utf8', stdio });
}

/**
 * Makes a folder in which only the package is installed. The dependencies of the package come from the installation of
 * the tests; npm refuses other versions than those in package.json.
 * @param {string} name
 * @param {Record<string, string>} files files of the project, by name
 */
export function installInto(name, files) {
  const folder = join(root, '.build', name);
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder, { recursive: true });
  for (const [path, text] of Object.entries(files)) writeFileSync(join(folder, path), text);
  // Stages run in parallel, so each packs into a folder of its own.
  const packed = join(root, '.build', `${name}-package`);
  runIn(source, process.execPath, 'pack.js', packed);
  runIn(folder, 'npm', 'pack', '--silent', packed);
  const [tarball] = readdirSync(folder).filter((path) => path.endsWith('.tgz'));
  const { dependencies } = JSON.parse(readFileSync(join(source, 'package.json'), 'utf8'));
  const at = (/** @type {string} */ one) => `${one}@file:${join(source, 'node_modules', one)}`;
  const wanted = [`./${tarball}`, ...Object.keys(dependencies).map(at)];
  const quiet = ['--offline', '--no-audit', '--no-fund', '--silent', '--install-links'];
  runIn(folder, 'npm', 'install', ...quiet, ...wanted);
  return folder;
}
