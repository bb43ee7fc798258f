/**
 * The page in a real browser: what a reader does, what a stranger's link or file does to it, and
 * pictures of it in .build/screenshots. Ends with `N passed, N failed`.
 */
import assert from 'node:assert/strict';
import { openStage } from './stage.mjs';
import { monkey } from './monkey.mjs';
import { rooms } from './rooms.mjs';
import { experiments } from './experiments.mjs';
import { saving } from './saving.mjs';
import { printing } from './printing.mjs';
import { trouble } from './trouble.mjs';
import { hub } from './hub.mjs';
import { open } from './open.mjs';
import { delivery } from './delivery.mjs';
import { embed } from './embed.mjs';
import { offline } from './offline.mjs';
import { installed } from './installed.mjs';
import { lab } from './lab.mjs';
import { lessons } from './lessons.mjs';
import { losing } from './lost.mjs';
import { conditions } from './conditions.mjs';
import { recording } from './recording.mjs';

const LIMIT_MS = 60_000;

const wanted = process.argv[2] ?? '';
const stage = await openStage();
let passed = 0;
let failed = 0;

/** A test may name seconds that it takes of its own will, beside the limit of all. */
function limit({ seconds = 0 }) {
  const most = LIMIT_MS + 1000 * seconds;
  return new Promise((_, reject) => {
    setTimeout(() => reject(new Error(`took longer than ${most} ms`)), most).unref();
  });
}

for (const [name, test] of Object.entries({
  ...rooms,
  ...experiments,
  ...saving,
  ...printing,
  ...trouble,
  ...monkey,
  ...hub,
  ...open,
  ...lab,
  ...lessons,
  ...losing,
  ...conditions,
  ...recording,
  ...installed,
  ...delivery,
  ...embed,
  ...offline,
})) {
  if (!name.includes(wanted)) continue;
  const began = performance.now();
  try {
    const note = await Promise.race([test(stage), limit(test)]);
    assert.deepEqual(stage.takeViolations(), [], 'the page keeps its own policy');
    passed++;
    console.log(
      `ok   ${name} (${Math.round(performance.now() - began)} ms)${note ? `: ${note}` : ''}`,
    );
  } catch (error) {
    failed++;
    console.log(`FAIL ${name}\n     ${String(error?.stack ?? error).replaceAll('\n', '\n     ')}`);
  }
  await stage.clear();
}
await stage.close();
console.log(`${passed} passed, ${failed} failed`);
process.exit(failed ? 1 : 0);
