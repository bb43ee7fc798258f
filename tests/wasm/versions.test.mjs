// Checks that the core, the packages, the page, the command line and the change log have the same version.
import { readFileSync } from 'node:fs';
import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { test } from 'node:test';
import assert from 'node:assert/strict';
import { root, withEngine } from './helper.mjs';

const read = (path) => readFileSync(new URL(path, root), 'utf8');
const versionIn = (path, pattern) => pattern.exec(read(path))?.[1];
const { version } = JSON.parse(read('wasm/package.json'));

test('all files state the same version', async () => {
  const cli = fileURLToPath(new URL('wasm/cli.js', root));
  const statedVersions = {
    page: JSON.parse(read('web/package.json')).version,
    cmake: versionIn('CMakeLists.txt', /^project\(sinkscope VERSION (\S+)/m),
    python: versionIn('models/record/pyproject.toml', /^version = "(.+)"$/m),
    python_module: versionIn('models/record/src/sinkscope/__init__.py', /^__version__ = "(.+)"$/m),
    citation: versionIn('CITATION.cff', /^version: (.+)$/m),
    zoo: versionIn('wasm/loading/zoo.ts', /^const VERSION = '(.+)';$/m),
    change_log: versionIn('.github/CHANGELOG.md', /^## (\S+)/m),
    command_line: spawnSync(process.execPath, [cli, '--version']).stdout.toString().trim(),
  };
  await withEngine({}, async (engine) => {
    statedVersions.core = engine.describe.version;
  });
  for (const folder of ['wasm', 'web']) {
    const lock = JSON.parse(read(`${folder}/package-lock.json`));
    statedVersions[`${folder}_lock`] = lock.version;
    statedVersions[`${folder}_lock_root`] = lock.packages[''].version;
  }
  assert.match(version, /^\d+\.\d+\.\d+$/);
  assert.deepEqual(
    statedVersions,
    Object.fromEntries(Object.keys(statedVersions).map((key) => [key, version])),
  );
});
