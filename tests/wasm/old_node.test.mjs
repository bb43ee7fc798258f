// A Node.js that cannot run TypeScript, or none, is reported in one sentence; wasm/cli finds the one that was installed.
import { spawnSync } from 'node:child_process';
import {
  chmodSync,
  cpSync,
  mkdirSync,
  mkdtempSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { after, test } from 'node:test';
import assert from 'node:assert/strict';
import { root } from './helper.mjs';

const folder = mkdtempSync(join(tmpdir(), 'old-node-'));
after(() => rmSync(folder, { recursive: true }));

// A tree with nothing installed, and a node that prints the version of Debian 12 and runs nothing.
for (const name of ['tests', 'wasm', 'path']) mkdirSync(join(folder, name));
for (const name of ['tests/node', 'wasm/cli', 'wasm/cli.js'])
  cpSync(fileURLToPath(new URL(name, root)), join(folder, name));
writeFileSync(
  join(folder, 'path/node'),
  '#!/bin/sh\ncase "$*" in *version*) echo v18.20.4 ;; *-p*) echo false ;; *) exit 90 ;; esac\n',
);
chmodSync(join(folder, 'path/node'), 0o755);

const run = (program, args, path) => {
  const env = { ...process.env, PATH: `${path}:/usr/bin:/bin` };
  const { status, stdout, stderr } = spawnSync(program, args, { env, encoding: 'utf8' });
  return { status, stdout: stdout.trim(), stderr: stderr.trim() };
};
const oneSentence = (found) =>
  new RegExp(`^sinkscope: expected Node\\.js 22\\.18 or newer, found ${found}; [^\\n]+$`);

test('without TypeScript, cli.js says which version it needs', () => {
  const cli = fileURLToPath(new URL('wasm/cli.js', root));
  const result = run(process.execPath, ['--no-strip-types', cli, '--version'], '/none');
  assert.equal(result.status, 1);
  assert.match(result.stderr, oneSentence(process.version));
});

test('without its packages, cli.js says what installs them', () => {
  mkdirSync(join(folder, 'wasm/command'));
  writeFileSync(join(folder, 'wasm/command/command.ts'), "import '@huggingface/tokenizers';");
  writeFileSync(join(folder, 'wasm/package.json'), '{ "type": "module" }');
  const result = run(process.execPath, [join(folder, 'wasm/cli.js'), '--version'], '/none');
  assert.equal(result.status, 1);
  assert.match(
    result.stderr,
    /^sinkscope: Cannot find package '@huggingface\/tokenizers' imported from [^\n]+; in a checkout, web\/serve --build-only installs and builds what is missing$/,
  );
});

test('without what a build makes, the command line says what builds it', () => {
  const copy = join(folder, 'unbuilt');
  const filter = (name) => !/node_modules|\.wasm$|describe\.json$/.test(name);
  cpSync(fileURLToPath(new URL('wasm', root)), copy, { recursive: true, filter });
  symlinkSync(fileURLToPath(new URL('wasm/node_modules', root)), join(copy, 'node_modules'));
  const result = run(process.execPath, [join(copy, 'cli.js'), 'describe'], '/none');
  assert.equal(result.status, 1);
  assert.match(
    result.stderr,
    /^sinkscope: \S+describe\.json: could not be read \(ENOENT\); in a checkout, web\/serve --build-only builds it$/,
  );
});

test('before the setup, wasm/cli says which version it needs', () => {
  const result = run(join(folder, 'wasm/cli'), ['--version'], join(folder, 'path'));
  assert.equal(result.status, 1);
  assert.match(result.stderr, oneSentence('v18.20.4'));
});

test('after the setup, wasm/cli and the programs that it starts run its Node.js, whatever the path has', () => {
  mkdirSync(join(folder, '.build/tools/bin'), { recursive: true });
  symlinkSync(process.execPath, join(folder, '.build/tools/bin/node'));
  writeFileSync(
    join(folder, 'wasm/cli.js'),
    'import child_process from "node:child_process"; console.log(process.version, child_process.execSync("node --version") + "", process.argv[2]);',
  );
  const result = run(join(folder, 'wasm/cli'), ['a b'], join(folder, 'path'));
  assert.equal(result.status, 0, result.stderr);
  assert.equal(result.stdout.replace('\n', ''), `${process.version} ${process.version} a b`);
});
