/** A model of the zoo, opened as files of the reader's disk. */
import { readFile } from 'node:fs/promises';
import { createEngine, openTokenizer } from '../../wasm/index.js';
import { root, settled } from './stage.mjs';

const NAMES = ['config.json', 'model.safetensors', 'tokenizer.json'];

/** @returns its files in the order of NAMES */
function filesOfZoo(id) {
  return Promise.all(NAMES.map((name) => readFile(`${root}models/zoo/${id}/${name}`)));
}

/** A text's ids, and what `use` makes of them with the package, outside the browser. */
export async function inNode(id, text, use) {
  const [config, weights, json] = await filesOfZoo(id);
  const tokenizer = openTokenizer(String(json));
  const ids = tokenizer.encode(text, { bos: true }).map((token) => token.id);
  const engine = await createEngine({ worker: false });
  const model = await engine.open({ config, weights });
  const made = await use({ ids, model, tokenizer });
  await engine.close();
  return made;
}

/** What the package reads from a run of a model of the zoo. */
export const readInNode = (id, text, reads) =>
  inNode(id, text, async ({ ids, model }) => (await model.run(ids)).read(reads));

/** On side A. */
export async function openFromDisk(page, id) {
  const buffers = await filesOfZoo(id);
  await page.setInputFiles(
    '#open .file:not(.folder) input',
    NAMES.map((name, i) => ({ name, buffer: buffers[i], mimeType: 'application/octet-stream' })),
  );
  await page.waitForFunction(() =>
    /model\.safetensors/.test(document.querySelector('#sinks .side-a .conditions').textContent),
  );
  await settled(page);
}
