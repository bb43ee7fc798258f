/**
 * Counts how the tests of a stage ended. All runners write JUnit's XML, our own ones by `openResults`, and tests/run
 * counts tests by this program. A skipped test counts as failed unless the table of tests/README.md has its reason, for its stage.
 *
 *     tests/node tests/results.mjs STAGE FOLDER STATUS      prints how many passed and failed, then each failure
 */
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';

const ATTRIBUTES = String.raw`((?:\s+[\w:-]+="[^"]*")*)`;
const TEST = RegExp(String.raw`<testcase${ATTRIBUTES}\s*(?:/>|>(.*?)</testcase>)`, 'gs');
const FAILURE = RegExp(`<(?:failure|error)${ATTRIBUTES}`);
const SKIPPED = RegExp(`<skipped${ATTRIBUTES}`);
const NAMES = { quot: '"', apos: "'", lt: '<', gt: '>', amp: '&' };

/** @param {string} text */
const unescapeXml = (text) =>
  text.replaceAll(/&(?:(\w+)|#(\d+)|#x(\w+));/g, (entity, name, decimal, hex) =>
    name ? (NAMES[name] ?? entity) : String.fromCodePoint(hex ? parseInt(hex, 16) : +decimal),
  );
/** XML has no reference to a control character or to half of a pair. @param {string} text */
const escapeXml = (text) =>
  text
    .toWellFormed()
    .replaceAll(/[\0-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]/g, '\ufffd')
    .replaceAll(/[^\t\n\x20-\x7e]|[&<>"]/gu, (letter) => `&#${letter.codePointAt(0)};`);

/**
 * Returns the value of an attribute of a tag, an empty string if it has none.
 * @param {string} tag
 * @param {string} name
 * @returns {string}
 */
const attribute = (tag, name) => unescapeXml(tag.match(RegExp(`\\s${name}="([^"]*)"`))?.[1] ?? '');

/**
 * Returns the tests of a report. `failure` is the message of a failed test, and `skip` the reason of a test that gave no
 * verdict.
 * @param {string} xml
 * @returns {{ name: string, failure?: string, skip?: string }[]}
 */
export function testsOf(xml) {
  if (!/(?:<\/testsuites?>|<testsuites?\b[^>]*\/>)\s*$/.test(xml)) throw new Error('cut off');
  return [...xml.matchAll(TEST)].map(([, tag, body = '']) => {
    const failure = body.match(FAILURE);
    const skip = body.match(SKIPPED);
    return {
      name: attribute(tag, 'name'),
      ...(failure && { failure: attribute(failure[1], 'message') }),
      ...(skip && { skip: attribute(skip[1], 'message') }),
    };
  });
}

/**
 * Returns the reasons to skip that the table of a README lists for a stage.
 * @param {string} readme
 * @param {string} stage
 */
export function listedFor(readme, stage) {
  const section = readme.split(/^## /m).find((part) => part.startsWith('Skips\n')) ?? '';
  const rows = [...section.matchAll(/^\| `(\w+)` \| `([^`|]+)` \|/gm)];
  return rows.filter(([, name]) => name === stage).map(([, , reason]) => reason);
}

/**
 * Counts the passed and failed tests of a stage. A stage without a report counts as one test; a report without a test
 * fails, since nothing ran. If the exit status reports a failure that no report has, this failure counts as one more test.
 * @param {string[]} reports
 * @param {number} status
 * @param {string[]} listed
 */
export function countsOf(reports, status, listed) {
  const tests = reports.flatMap(testsOf);
  const failures = tests.filter(({ failure }) => failure !== undefined);
  // ctest reports the name of a test that skipped itself, without a reason.
  const unlisted = tests.filter(
    ({ name, skip }) => skip !== undefined && !listed.includes(skip) && !listed.includes(name),
  );
  const passed = tests.filter(
    ({ failure, skip }) => failure === undefined && skip === undefined,
  ).length;
  const failed = failures.length + unlisted.length;
  const isEmpty = reports.some((report) => !testsOf(report).length);
  return {
    passed: passed || Number(status === 0 && !reports.length),
    failed: failed || Number(status !== 0 || isEmpty),
    failures,
    unlisted,
  };
}

/**
 * Prints the result of each test of our own runners, and writes a report if tests/run asks for one.
 * @param {string} name
 */
export function openResults(name) {
  /** @type {{ test: string, error?: string }[]} */
  const results = [];
  return {
    /** @param {string} test @param {string} note */
    pass(test, note) {
      results.push({ test });
      console.log(`ok   ${test}: ${note}`);
    },
    /** @param {string} test @param {unknown} reason */
    fail(test, reason) {
      const error = String(reason instanceof Error ? reason.stack : reason).slice(0, 3000);
      results.push({ test, error });
      console.log(`FAIL ${test}\n     ${error.replaceAll('\n', '\n     ')}`);
    },
    /** @returns {number} the exit status */
    close() {
      const failed = results.filter(({ error }) => error !== undefined).length;
      console.log(`${results.length - failed} passed, ${failed} failed`);
      const folder = process.env.SINKSCOPE_REPORTS;
      if (folder) writeFileSync(join(folder, `${name}.xml`), reportOf(results));
      return failed ? 1 : 0;
    },
  };
}

/**
 * Writes results as JUnit's XML.
 * @param {{ test: string, error?: string }[]} results
 */
function reportOf(results) {
  const cases = results.map(({ test, error }) => {
    const failure = error === undefined ? '' : `<failure message="${escapeXml(error)}"/>`;
    return `<testcase name="${escapeXml(test)}">${failure}</testcase>\n`;
  });
  return `<testsuites>\n${cases.join('')}</testsuites>\n`;
}

if (import.meta.url === pathToFileURL(process.argv[1]).href) {
  const [stage, folder, status] = process.argv.slice(2);
  const listed = listedFor(readFileSync(new URL('README.md', import.meta.url), 'utf8'), stage);
  const files = readdirSync(folder).map((file) => join(folder, file));
  const reports = files.map((file) => readFileSync(file, 'utf8'));
  const { passed, failed, failures, unlisted } = countsOf(reports, Number(status), listed);
  console.log(passed, failed);
  for (const { name, failure } of failures)
    console.log(
      `failed, ${stage}: ${[name, failure].join('\n').trimEnd().replaceAll('\n', '\n    ')}`,
    );
  for (const { name, skip } of unlisted)
    console.log(
      `skipped, and tests/README.md does not list it for ${stage}: ${name}: ${skip || 'no reason given'}`,
    );
}
