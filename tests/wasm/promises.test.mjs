// Checks the promises of .github/PROMISES.md: every name of tests/frozen/names.json exists.
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import assert from 'node:assert/strict';
import { FILE, promisedNames } from '../frozen/names.mjs';
import { root } from './helper.mjs';

const promisedGroups = JSON.parse(readFileSync(FILE, 'utf8'));
const missingNames = (names, currentNames) => names.filter((name) => !currentNames?.includes(name));

test('every promised name exists', async () => {
  const currentNames = await promisedNames();
  for (const [group, names] of Object.entries(promisedGroups)) {
    assert.ok(names.length > 20, `${group} has names`);
    assert.deepEqual(
      missingNames(names, currentNames[group]),
      [],
      `${group}: promised names are gone; only a major version removes a name`,
    );
  }
});

test('the page of promises has a section for each group of names', () => {
  const page = readFileSync(new URL('.github/PROMISES.md', root), 'utf8');
  const headings = [...page.matchAll(/^## (.*)$/gm)].map(([, heading]) => heading.toLowerCase());
  const groups = Object.keys(promisedGroups).map((group) => group.toLowerCase());
  assert.deepEqual(missingNames(groups, headings), []);
});
