/**
 * Draws random edits and prints which of them no test notices.
 *
 *     node tests/mutate/fresh.mjs                     24 edits, drawn by today's date
 *     node tests/mutate/fresh.mjs --count 200 --seed 20261123 core wasm web models
 *     node tests/mutate/fresh.mjs --kinds all --count 60 wasm web models
 *     node tests/mutate/fresh.mjs --kinds key,release --list wasm
 *
 *     --kinds KINDS   draws the edits of kinds.mjs, which numeric tests miss, alternating between the kinds
 *     --in PART       draws only in files whose path contains PART
 *     --list          prints the edits and runs no tests
 *     --checked       skips the run of all tests without an edit, which must pass
 *     --near          runs only the tests nearest to an edit; others may still notice a surviving edit
 *
 * Each edit runs the unit tests of its room (rooms.mjs), nearest first, until one fails. The script prints the share of
 * surviving edits, but does not fail, because an edit may have no observable effect.
 */
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { draw } from './draw.mjs';
import { KINDS, slipsOfKinds } from './kinds.mjs';
import { roomNames, roomOf } from './rooms.mjs';
import { each } from './work.mjs';

process.chdir(fileURLToPath(new URL('../..', import.meta.url)));

/**
 * Draws `count` edits and prints which of them no test notices.
 * @param {number} count
 * @param {{ seed?: number, names?: readonly string[], isChecked?: boolean, kinds?: readonly string[],
 *   isList?: boolean, isNear?: boolean, part?: string }} [options] `isChecked`: the tests have just passed without an edit
 */
export async function meetDrawn(
  count,
  {
    seed = today(),
    names = roomNames,
    isChecked = false,
    kinds,
    isList = false,
    isNear = false,
    part = '',
  } = {},
) {
  /** @type {Parameters<typeof draw>[3]} */
  const slipsOf = kinds && ((file, text) => slipsOfKinds(file, text, kinds));
  const share = Math.ceil(count / names.length);
  let editCount = 0;
  let aliveCount = 0;
  for (const name of names) {
    const { files: tracked, killerOf } = await roomOf(name);
    const files = tracked.filter((file) => file.includes(part));
    const texts = new Map(files.map((file) => [file, readFileSync(file, 'utf8')]));
    if (isList) {
      for (const { file, line, before, after, kind } of draw(texts, share, seed, slipsOf))
        console.log(`${file}:${line}: ${kind ?? ''} ${before} -> ${after}`);
      continue;
    }
    if (!isChecked && (await killerOf(files[0], texts.get(files[0]) ?? '', `fresh-${name}`)))
      throw new Error(`the tests of ${name} fail without any edit`);
    // Some edits do not compile; the next ones replace them.
    const edits = draw(texts, 3 * share, seed, slipsOf).map((edit, i) => ({ ...edit, i }));
    let metCount = 0;
    let livedCount = 0;
    while (metCount < share && edits.length)
      await each(
        edits.splice(0, share - metCount),
        async ({ file, line, before, after, text, kind, i }) => {
          const killer = await killerOf(file, text, `fresh-${name}-${i}`, [], isNear);
          if (killer === null) return;
          metCount++;
          if (killer === undefined) livedCount++;
          const outcome = killer === undefined ? 'ALIVE' : `killed by ${killer}`;
          console.log(
            `${file}:${line}: ${kind ? `${kind}: ` : ''}${before} -> ${after}: ${outcome}`,
          );
        },
      );
    if (!metCount) throw new Error(`no edit of ${name} is a program`);
    console.log(`${name}: ${livedCount} of ${metCount} edits live, seed ${seed}`);
    editCount += metCount;
    aliveCount += livedCount;
  }
  if (!isList)
    console.log(
      `${aliveCount} of ${editCount} drawn edits live (${((100 * aliveCount) / editCount).toFixed(1)} %)`,
    );
}

function today() {
  return Number(new Date().toISOString().slice(0, 10).replaceAll('-', ''));
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: {
      count: { type: 'string', default: '24' },
      checked: { type: 'boolean', default: false },
      kinds: { type: 'string' },
      in: { type: 'string', default: '' },
      list: { type: 'boolean', default: false },
      near: { type: 'boolean', default: false },
      seed: { type: 'string', default: String(today()) },
    },
  });
  await meetDrawn(Number(values.count), {
    seed: Number(values.seed),
    isChecked: values.checked,
    part: values.in,
    isList: values.list,
    isNear: values.near,
    ...(values.kinds && { kinds: values.kinds === 'all' ? KINDS : values.kinds.split(',') }),
    ...(positionals.length ? { names: positionals } : {}),
  });
}
