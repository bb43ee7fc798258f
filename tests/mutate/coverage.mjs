/**
 * Finds the test files of the package that run a given place in its code, since only these can
 * notice an edit there. V8 counts the executed ranges in every process and worker
 * that a test starts; a process killed by a signal writes no counts.
 */
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { basename, join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import { each } from './work.mjs';

/**
 * What a test ran: the ranges [from, to) of each file, and the hashes of the files and of the test at that time.
 * @typedef {{ hashes: Record<string, string>, seconds: number, ran: Record<string, [number, number][]> }} Coverage
 */
/** @typedef {{ url: string, functions: { ranges: { startOffset: number, endOffset: number, count: number }[] }[] }} Script */

/**
 * Returns the ranges that ran in any process of a test.
 * @param {string} folder folder with V8's counts
 * @param {readonly string[]} files
 */
export function ranOf(folder, files) {
  /** @type {Map<string, Uint8Array>} */
  const countsByFile = new Map();
  for (const name of readdirSync(folder)) {
    /** @type {{ result: Script[] }} */
    const { result } = JSON.parse(readFileSync(join(folder, name), 'utf8'));
    for (const { url, functions } of result) {
      const file = url.startsWith('file:') ? relative('.', fileURLToPath(url.split('?')[0])) : '';
      if (!files.includes(file)) continue;
      const counts = new Uint8Array(functions[0].ranges[0].endOffset);
      // V8 lists a range before the ranges inside it.
      for (const { ranges } of functions)
        for (const { startOffset, endOffset, count } of ranges)
          counts.fill(Math.min(count, 1), startOffset, endOffset);
      countsByFile.set(file, countsByFile.get(file)?.map((is, i) => is | counts[i]) ?? counts);
    }
  }
  /** @type {Coverage['ran']} */
  const ran = {};
  for (const [file, countsOfFile] of countsByFile)
    ran[file] = [...countsOfFile.join('').matchAll(/1+/g)].map(({ index, 0: { length } }) => [
      index,
      index + length,
    ]);
  return ran;
}

/**
 * Returns whether a place in a file ran.
 * @param {[number, number][] | undefined} ran
 * @param {number} at
 */
export const hasRun = (ran, at) => !!ran?.some(([from, to]) => from <= at && at < to);

/** @param {string} file */
const hashOf = (file) => createHash('sha256').update(readFileSync(file)).digest('hex');

/**
 * Returns the coverage of each test, cached in a folder until the test changes. If a file has changed
 * since, a test that ran any part of the file counts as running all of it.
 * @param {string} cacheFolder path of the cache
 * @param {readonly string[]} tests @param {readonly string[]} files
 * @param {(test: string, env: NodeJS.ProcessEnv) => Promise<boolean>} passes
 * @returns {Promise<Map<string, Coverage>>}
 */
export async function coverageOf(cacheFolder, tests, files, passes) {
  mkdirSync(cacheFolder, { recursive: true });
  /** @type {Map<string, Coverage>} */
  const coverageByTest = new Map();
  await each(tests, async (test) => {
    const record = join(cacheFolder, `${basename(test)}.json`);
    /** @type {Coverage | undefined} */
    let coverage = existsSync(record) ? JSON.parse(readFileSync(record, 'utf8')) : undefined;
    if (coverage?.hashes[test] !== hashOf(test)) {
      const folder = join(cacheFolder, basename(test));
      rmSync(folder, { recursive: true, force: true });
      mkdirSync(folder);
      const startTime = performance.now();
      if (!(await passes(test, { NODE_V8_COVERAGE: folder, NODE_DISABLE_COMPILE_CACHE: '1' })))
        throw new Error(`${test} fails without any edit`);
      const seconds = (performance.now() - startTime) / 1000;
      const ran = ranOf(folder, files);
      const hashes = [...Object.keys(ran), test].map((file) => [file, hashOf(file)]);
      coverage = { hashes: Object.fromEntries(hashes), seconds, ran };
      rmSync(folder, { recursive: true });
      writeFileSync(record, JSON.stringify(coverage));
    }
    const { hashes, ran } = coverage;
    for (const file of Object.keys(ran))
      if (hashes[file] !== hashOf(file)) ran[file] = [[0, Infinity]];
    coverageByTest.set(test, coverage);
  });
  return coverageByTest;
}
