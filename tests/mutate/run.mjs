/**
 * Applies every edit of mutants.mjs, one at a time, and expects a unit test of its room to fail.
 *
 *     node tests/mutate/run.mjs              all edits
 *     node tests/mutate/run.mjs sink ReLU    edits whose name or file contains “sink” or “ReLU”
 *     node tests/mutate/run.mjs --drawn 8    all edits, then 8 random ones, as fresh.mjs draws them
 */
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { meetDrawn } from './fresh.mjs';
import mutants from './mutants.mjs';
import { roomNames, roomOf } from './rooms.mjs';
import { each } from './work.mjs';

process.chdir(fileURLToPath(new URL('../..', import.meta.url)));
const { values, positionals: words } = parseArgs({
  allowPositionals: true,
  options: { drawn: { type: 'string' } },
});

let passed = 0;
let failed = 0;
/** @param {boolean} isKilled @param {string} line */
function report(isKilled, line) {
  if (isKilled) passed++;
  else failed++;
  console.log(line);
}

/** @param {import('./mutants.mjs').default[number]} mutant */
async function applyMutant([name, path, code, edited, killers]) {
  const room = roomNames.find((room) => path.startsWith(`${room}/`));
  const file = room ? path : join('core', path);
  const text = existsSync(file) ? readFileSync(file, 'utf8') : '';
  const times = text.split(code).length - 1;
  if (times !== 1)
    return report(false, `${name}: does not apply, its code occurs ${times} times in ${file}`);
  const editedText = text.replace(code, () => edited);
  const place = String(mutants.findIndex((row) => row[0] === name));
  const { killerOf } = await roomOf(room ?? 'core');
  const killer = await killerOf(file, editedText, `kept-${place}`, killers.split(' '));
  if (killer === null) return report(false, `${name}: does not compile`);
  report(killer !== undefined, `${name}: ${killer ? `killed by ${killer}` : 'ALIVE'}`);
}

const chosenMutants = mutants.filter(
  ([name, file]) => !words.length || words.some((word) => `${name} ${file}`.includes(word)),
);
await each(chosenMutants, applyMutant);
console.log(`${passed} passed, ${failed} failed`);
if (values.drawn) await meetDrawn(Number(values.drawn), { isChecked: true });
process.exitCode = failed ? 1 : 0;
