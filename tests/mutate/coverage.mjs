// Which test files of the package run a place of its code: an edit that no test runs is noticed by none. V8
// counts in every process and worker that a test starts; what a signal ended has counted nothing.
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { basename, join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import { each } from './work.mjs';

/**
 * Where each file ran: from, and up to.
 * @typedef {{ key: string, seconds: number, ran: Record<string, [number, number][]> }} Coverage
 */
/** @typedef {{ url: string, functions: { ranges: { startOffset: number, endOffset: number, count: number }[] }[] }} Script */

/** What ran in any process of a test. @param {string} folder of V8's counts @param {readonly string[]} files */
export function ranOf(folder, files) {
  /** @type {Map<string, Uint8Array>} */
  const all = new Map();
  for (const name of readdirSync(folder)) {
    /** @type {{ result: Script[] }} */
    const { result } = JSON.parse(readFileSync(join(folder, name), 'utf8'));
    for (const { url, functions } of result) {
      const file = url.startsWith('file:') ? relative('.', fileURLToPath(url.split('?')[0])) : '';
      if (!files.includes(file)) continue;
      const own = new Uint8Array(functions[0].ranges[0].endOffset);
      // A range comes before those inside of it.
      for (const { ranges } of functions)
        for (const { startOffset, endOffset, count } of ranges)
          own.fill(Math.min(count, 1), startOffset, endOffset);
      all.set(file, all.get(file)?.map((is, i) => is | own[i]) ?? own);
    }
  }
  /** @type {Coverage['ran']} */
  const ran = {};
  for (const [file, places] of all)
    ran[file] = [...places.join('').matchAll(/1+/g)].map(({ index, 0: { length } }) => [
      index,
      index + length,
    ]);
  return ran;
}

/** Whether a place of a file ran. @param {[number, number][] | undefined} ran @param {number} at */
export const hasRun = (ran, at) => !!ran?.some(([from, to]) => from <= at && at < to);

/**
 * The coverage of each test, kept in a folder until one of the files or the test changes.
 * @param {string} kept @param {readonly string[]} tests @param {readonly string[]} files
 * @param {(test: string, env: NodeJS.ProcessEnv) => Promise<boolean>} passes
 * @returns {Promise<Map<string, Coverage>>}
 */
export async function coverageOf(kept, tests, files, passes) {
  mkdirSync(kept, { recursive: true });
  /** @type {Map<string, Coverage>} */
  const all = new Map();
  await each(tests, async (test) => {
    const hash = createHash('sha256');
    for (const file of [...files, test]) hash.update(readFileSync(file));
    const key = hash.digest('hex');
    const record = join(kept, `${basename(test)}.json`);
    /** @type {Coverage | undefined} */
    let coverage = existsSync(record) ? JSON.parse(readFileSync(record, 'utf8')) : undefined;
    if (coverage?.key !== key) {
      const folder = join(kept, basename(test));
      rmSync(folder, { recursive: true, force: true });
      mkdirSync(folder);
      const began = performance.now();
      if (!(await passes(test, { NODE_V8_COVERAGE: folder })))
        throw new Error(`${test} fails without any edit`);
      const seconds = (performance.now() - began) / 1000;
      coverage = { key, seconds, ran: ranOf(folder, files) };
      rmSync(folder, { recursive: true });
      writeFileSync(record, JSON.stringify(coverage));
    }
    all.set(test, coverage);
  });
  return all;
}
