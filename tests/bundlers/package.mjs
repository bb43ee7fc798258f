/**
 * Checks the packed package with publint and attw, and with four versions of TypeScript, which also check its
 * declaration files.
 *
 *     tests/node tests/bundlers/package.mjs
 */
import { existsSync, mkdirSync, readFileSync, readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import assert from 'node:assert/strict';
import { installInto, runIn } from '../installed.mjs';

const tool = (path) => join(import.meta.dirname, 'node_modules', path);
const folder = await installInto('examined', {
  'package.json': '{ "private": true, "type": "module" }',
});
const [tarball] = readdirSync(folder).filter((name) => name.endsWith('.tgz'));
const inside = join(folder, 'node_modules/sinkscope');

function runTool(...args) {
  try {
    return { status: 0, text: runIn(folder, process.execPath, ...args) };
  } catch (error) {
    return { status: error.status, text: `${error.stdout}${error.stderr}` };
  }
}

test('publint finds nothing', () => {
  const { status, text } = runTool(tool('publint/src/cli.js'), tarball, '--strict');
  assert.equal(status, 0, text);
  assert.match(text, /All good!/);
});

test('the types are found by every way to resolve a module that has exports', () => {
  // The workers, the binaries and the tables need no types, since no program imports values from them.
  const { status, text } = runTool(
    ...[tool('@arethetypeswrong/cli/dist/index.js'), tarball, '--profile', 'esm-only'],
    ...['--entrypoints', '.', '--no-emoji', '--no-color'],
  );
  assert.equal(status, 0, text);
});

test('links of the README lead to files of the package, and its fields name an author and keywords', () => {
  const readme = readFileSync(join(inside, 'README.md'), 'utf8');
  const links = [...readme.matchAll(/\]\(([^)\s]+)\)/g)].map(([, to]) => to);
  assert.ok(links.length > 0);
  for (const to of links.filter((one) => !/^(https:|#)/.test(one)))
    assert.ok(existsSync(join(inside, to)) && !to.startsWith('..'), to);
  const { author, keywords, license } = JSON.parse(
    readFileSync(join(inside, 'package.json'), 'utf8'),
  );
  assert.ok(author && license && keywords.length > 3);
});

const TYPED = `import { createEngine, measure, recordMaps, type Engine, type Measurement, type Tensor } from 'sinkscope';
export const engine: Engine = await createEngine({ workers: 1 });
export async function look(ids: number[]): Promise<Tensor> {
  const model = await engine.open({ weights: new Uint8Array() });
  const found: Measurement = await measure(model, [ids]);
  export_(found.metrics.alpha.mean[0]);
  return (await model.run(ids)).metric('alpha');
}
declare function export_(value: number | null | undefined): void;
export const file = new Blob([recordMaps([{ att: { shape: [1, 1, 1, 1], data: new Float32Array(1) } }])]);
// @ts-expect-error a name is no model
await engine.open('softmax');
`;

const versions = Object.keys(
  JSON.parse(readFileSync(join(import.meta.dirname, 'package.json'), 'utf8')).devDependencies,
).filter((name) => name.startsWith('typescript-'));

for (const version of versions)
  test(`${version} reads the types`, () => {
    writeFileSync(join(folder, 'typed.ts'), TYPED);
    mkdirSync(join(folder, 'no-types'), { recursive: true });
    const { status, text } = runTool(
      ...[tool(`${version}/bin/tsc`), '--strict', '--noEmit', '--skipLibCheck', 'false'],
      ...['--module', 'nodenext', '--target', 'es2022', '--lib', 'es2022,dom'],
      ...['--typeRoots', 'no-types', 'typed.ts'],
    );
    assert.equal(status, 0, text);
  });
