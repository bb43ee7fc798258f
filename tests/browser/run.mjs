/**
 * Tests the page in a real browser: what a reader does, what a stranger's link or file does to it, and
 * pictures of it in .build/screenshots. Ends with `N passed, N failed`.
 */
import assert from 'node:assert/strict';
import { openResults } from '../results.mjs';
import { openStage } from './stage.mjs';
import { monkey } from './monkey.mjs';
import { rooms } from './rooms.mjs';
import { story } from './story.mjs';
import { experiments } from './experiments.mjs';
import { saving } from './saving.mjs';
import { printing } from './printing.mjs';
import { trouble } from './trouble.mjs';
import { hub } from './hub.mjs';
import { open } from './open.mjs';
import { delivery } from './delivery.mjs';
import { heard } from './heard.mjs';
import { few } from './few.mjs';
import { embed } from './embed.mjs';
import { offline } from './offline.mjs';
import { installed } from './installed.mjs';
import { lab } from './lab.mjs';
import { lessons } from './lessons.mjs';
import { losing } from './lost.mjs';
import { conditions } from './conditions.mjs';
import { long } from './long.mjs';
import { recording } from './recording.mjs';
import { packed } from './packed.mjs';
import { releases } from './releases.mjs';
import { visits } from './visits.mjs';

/** Ends a test that hangs. The limit is long, because a busy machine may be slow. */
const LIMIT_MS = 300_000;

const titlePart = process.argv[2] ?? '';
const results = openResults('chromium');

function timeout() {
  return new Promise((_, reject) => {
    setTimeout(() => reject(new Error(`took longer than ${LIMIT_MS} ms`)), LIMIT_MS).unref();
  });
}

/** Tests that share a hub, a build or a folder run one after another, in one list; the longest come first. */
const lists = [
  rooms,
  { ...hub, ...open, ...losing },
  { ...delivery, ...embed },
  { ...conditions, ...offline, ...long },
  lab,
  monkey,
  experiments,
  lessons,
  recording,
  { ...few, ...heard, ...saving, ...printing },
  story,
  { ...installed, ...trouble, ...releases, ...packed, ...visits },
];

async function work() {
  const stage = await openStage();
  for (let list = lists.shift(); list; list = lists.shift())
    for (const [name, test] of Object.entries(list))
      if (name.includes(titlePart)) await run(stage, name, test);
  await stage.close();
}

async function run(stage, name, test) {
  const startTime = performance.now();
  const elapsedText = () => `${Math.round(performance.now() - startTime)} ms`;
  try {
    const note = await Promise.race([test(stage), timeout()]);
    assert.deepEqual(stage.takeViolations(), [], 'the page keeps its own policy');
    results.pass(name, [elapsedText(), ...(note ? [note] : [])].join(', '));
  } catch (error) {
    results.fail(name, error);
  }
  await stage.clear();
}

// Two workers share two cores well, because a test mostly waits for files, frames and web workers.
await Promise.all([work(), work()]);
process.exit(results.close());
