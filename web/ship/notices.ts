/** Writes the notices about others' code: of npm's packages, which Vite finds, and of the binaries, which C lists. */
import { copyFileSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

/** Joins the notices of several bundles in `out` and those in the file `binaries` into one file. */
export function writeNotices(out: string, bundles: readonly string[], binaries: string): void {
  // A file has "# Licenses", a sentence, then "## name, version - ..." for each package.
  const [head = '', ...firstPackages] = readSections(join(out, bundles[0]!));
  const otherSections = bundles.slice(1).flatMap((file) => readSections(join(out, file)).slice(1));
  const packages = [...new Set([...firstPackages, ...otherSections])].sort();
  const notices = [head.trim(), ...packages, readFileSync(binaries, 'utf8')];
  for (const file of bundles) rmSync(join(out, file));
  writeFileSync(join(out, 'NOTICES.md'), notices.map((notice) => `${notice.trim()}\n`).join('\n'));
  copyFileSync(join(import.meta.dirname, '../../LICENSE'), join(out, 'LICENSE'));
}

function readSections(file: string): string[] {
  return readFileSync(file, 'utf8')
    .split(/^(?=## )/m)
    .map((section) => `${section.trim()}\n`);
}
