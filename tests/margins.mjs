/**
 * Makes Node note how far the comparisons of a test are from their tolerances (tests/margins.py): each that the pattern finds
 * becomes a call when the test is loaded, and the worst of each file is written when it ends.
 */
import { appendFileSync } from 'node:fs';
import { registerHooks } from 'node:module';
import { basename } from 'node:path';

const { SINKSCOPE_MARGINS: notes, SINKSCOPE_PATTERN: pattern } = process.env;
const worst = {};

globalThis.margin = (file, difference, allowed) => {
  const [share] = worst[file] ?? [-1];
  if (difference / allowed > share) worst[file] = [difference / allowed, difference, allowed];
  return difference <= allowed;
};
registerHooks({
  load(url, context, next) {
    const loaded = next(url, context);
    if (!/tests\/wasm\/[\w.]+\.mjs$/.test(url)) return loaded;
    const call = `margin(${JSON.stringify(basename(url))}, $1, $2)`;
    return { ...loaded, source: String(loaded.source).replace(new RegExp(pattern, 'g'), call) };
  },
});
process.on('exit', () => {
  for (const [file, [, difference, allowed]] of Object.entries(worst))
    appendFileSync(notes, `margin ${file} ${difference} ${allowed}\n`);
});
