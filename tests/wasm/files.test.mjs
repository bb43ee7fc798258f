// Checks that the package's README names every file, and that each C file describes its content.
import { existsSync, readFileSync } from 'node:fs';
import { spawnSync } from 'node:child_process';
import { basename } from 'node:path';
import { test } from 'node:test';
import assert from 'node:assert/strict';
import { root } from './helper.mjs';

const read = (path) => readFileSync(new URL(path, root), 'utf8');
const listed = (...folders) =>
  spawnSync('git', ['ls-files', '-co', '--exclude-standard', ...folders], { cwd: root })
    .stdout.toString()
    .split('\n')
    .filter((path) => path && existsSync(new URL(path, root)));

/** Returns the paths of the files that a table of files names: a row in bold begins a folder. */
function namedFiles(text) {
  const [, table] = /## The files\n([^]*?)\n## /.exec(text);
  let folder = '';
  return table.split('\n').flatMap((line) => {
    const [, cell = ''] = line.split('|');
    const names = [...cell.matchAll(/`([^`]+)`/g)].map(([, name]) => name);
    if (!cell.includes('**')) return names.map((name) => folder + name);
    [folder] = names;
    return [];
  });
}

test('the README names every file of the package, and no other', () => {
  const listedFiles = namedFiles(read('wasm/README.md'));
  const source = listed('wasm')
    .map((path) => path.slice('wasm/'.length))
    .filter((path) => /\.(js|ts|c|h|txt)$/.test(path) && path !== 'eslint.config.js')
    // The README names neither the header of a C file nor the `types.ts` of a folder.
    .filter(
      (path) => !(path.endsWith('.h') && existsSync(new URL(`wasm/${path.slice(0, -1)}c`, root))),
    )
    .filter((path) => basename(path) !== 'types.ts');
  assert.deepEqual(listedFiles.toSorted(), source.toSorted());
});

test('every C file, or its header, begins with a comment', () => {
  const begins = (path) => existsSync(new URL(path, root)) && read(path).startsWith('/*');
  const filesWithoutComment = listed('core', 'wasm', 'tests')
    .filter((path) => /\.[ch]$/.test(path))
    .filter((path) => !begins(path) && !begins(path.replace(/c$/, 'h')));
  assert.deepEqual(filesWithoutComment, []);
});

test('the files that the pages for contributors name exist', () => {
  for (const page of ['.github/CONTRIBUTING.md', 'tests/README.md', 'core/README.md']) {
    const text = read(page);
    const base = new URL(page, root);
    const links = [...text.matchAll(/\]\(([^)#:]+)\)/g)].map(([, path]) => new URL(path, base));
    const names = [...text.matchAll(/`((?:core|goldens|models|tests|wasm|web)\/[^`\s]+)`/g)]
      .map(([, path]) => path.replace(/^goldens\//, 'models/reference/goldens/'))
      .map((path) => new URL(path, root));
    assert.ok(links.length + names.length > 2, page);
    const missingTargets = [...links, ...names].filter((url) => !existsSync(url));
    assert.deepEqual(missingTargets.map(String), [], page);
  }
});
