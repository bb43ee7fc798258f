/**
 * Opens the recordings of a folder with the npm package, as the page does: `node openings.mjs FOLDER` prints for each file
 * the error that refuses it, or null.
 */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { createEngine } from '../../wasm/index.ts';

const [folder] = process.argv.slice(2);
const engine = await createEngine({ base: new URL('../../.build/wasm/', import.meta.url) });
const verdicts = {};
for (const name of readdirSync(folder)) {
  try {
    await (await engine.openRecording(new Uint8Array(readFileSync(join(folder, name))))).close();
    verdicts[name] = null;
  } catch (error) {
    verdicts[name] = error.message;
  }
}
await engine.close();
console.log(JSON.stringify(verdicts));
