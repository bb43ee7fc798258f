// Ruff over models/ and its tests: `node tests/python/lint.mjs` prints what it finds.
import { readdirSync, readFileSync } from 'node:fs';
import { PositionEncoding, Workspace } from '@astral-sh/ruff-wasm-nodejs';

const rules = {
  'line-length': 105,
  'target-version': 'py311',
  lint: {
    select: ['E', 'F', 'W', 'I', 'B', 'UP', 'SIM'],
    ignore: ['B905'],
    isort: { 'known-first-party': ['models'] },
  },
};
const root = new URL('../../', import.meta.url);
const workspace = new Workspace(rules, PositionEncoding.Utf16);

let files = 0;
let findings = 0;
for (const folder of ['models/', 'tests/python/', 'tests/record/']) {
  const names = readdirSync(new URL(folder, root), { recursive: true });
  for (const name of names.filter((name) => name.endsWith('.py')).sort()) {
    const found = workspace.check(readFileSync(new URL(folder + name, root), 'utf8'));
    for (const { code, message, start_location: at } of found)
      console.log(`${folder}${name}:${at.row}:${at.column}: ${code} ${message}`);
    files++;
    findings += found.length;
  }
}
console.log(`ruff: ${files} files, ${findings} findings`);
process.exitCode = findings ? 1 : 0;
