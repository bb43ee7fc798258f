/**
 * A test that is skipped is not passed: each reason must be in the table of tests/README.md, for its stage.
 *
 *     node tests/skips.mjs STAGE LOG      prints a line for each skip of the log that the table does not have
 */
import { readFileSync } from 'node:fs';
import { pathToFileURL } from 'node:url';

/** A line of a runner that names one skipped test, or several of one reason; [, how many,] reason. */
const REASONS = [
  /^\s*﹣ .* \([\d.]+ms\) # (?:SKIP\s*)?(.*)$/, // node:test
  /^\s*(?:ok|not ok) \d+ - .* # SKIP\s*(.*)$/, // TAP
  /^SKIPPED \[(\d+)\] [^:]+(?::\d+)?: (.*)$/, // pytest -rs
  /^XFAIL [^ ]+(?: - (.*))?$/, // pytest -rx
  /^\s+\d+ - (\w+) \((?:Skipped|Disabled|Not Run)\)$/, // ctest names the test alone
  /^skip .*?: (.*)$/, // ours
];

/** A line that ends a list of tests, and the counts in it of tests that gave no verdict. */
const TOTALS = [
  /^(?:ℹ|#) (?:skipped|todo) \d+$/, // node:test
  /^ *Tests {2}.*\(\d+\)$/, // vitest
  /^(?:=+ )?\d+ \w+.* in [\d.]+s\b/, // pytest
  /^\d+ passed, \d+ failed, \d+ skipped$/, // ours
  /^ {2}\d+ (?:skipped|did not run)$/, // Playwright
];
const COUNT = /(\d+) (?:skipped|todo|xfailed|did not run)\b|\b(?:skipped|todo) (\d+)/g;

/** The reasons of all skipped tests of a log, one for each test; '' where the runner counts a test and says no more. @param {string} log */
export function skipsOf(log) {
  const reasons = [];
  let total = 0;
  for (const line of log.replaceAll(/\x1b\[[\d;]*m/g, '').split('\n')) {
    const match = REASONS.map((form) => line.match(form)).find((found) => found);
    if (match) {
      const reason = match.at(-1) ?? '';
      const times = match.length > 2 ? Number(match[1]) : 1;
      reasons.push(...Array(times).fill(reason.trim()));
    } else if (TOTALS.some((form) => form.test(line)))
      for (const [, before, after] of line.matchAll(COUNT)) total += Number(before ?? after);
  }
  while (reasons.length < total) reasons.push('');
  return reasons;
}

/** The reasons that the table of a README lists for a stage. @param {string} readme @param {string} stage */
export function listedFor(readme, stage) {
  const section = readme.split(/^## /m).find((part) => part.startsWith('Skips\n')) ?? '';
  const rows = [...section.matchAll(/^\| `(\w+)` \| `([^`|]+)` \|/gm)];
  return rows.filter(([, name]) => name === stage).map(([, , reason]) => reason);
}

/** @param {string} readme @param {string} stage @param {string} log */
export function unlisted(readme, stage, log) {
  const listed = listedFor(readme, stage);
  return skipsOf(log).filter((reason) => !listed.includes(reason));
}

if (import.meta.url === pathToFileURL(process.argv[1]).href) {
  const [stage, file] = process.argv.slice(2);
  const readme = readFileSync(new URL('README.md', import.meta.url), 'utf8');
  for (const reason of unlisted(readme, stage, readFileSync(file, 'utf8')))
    console.log(
      `skipped, and tests/README.md does not list it for ${stage}: ${reason || 'no reason given'}`,
    );
}
