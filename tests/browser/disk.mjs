/** A model of the zoo, opened as files of the reader's disk. */
import { readFile } from 'node:fs/promises';
import { createEngine, openTokenizer } from '../../wasm/index.js';
import { root, settled } from './stage.mjs';

const NAMES = ['config.json', 'model.safetensors', 'tokenizer.json'];

/** @returns its files in the order of NAMES */
export function filesOfZoo(id) {
  return Promise.all(NAMES.map((name) => readFile(`${root}models/zoo/${id}/${name}`)));
}

/** What the package, outside the browser, reads from a run of a model of the zoo. */
export async function readInNode(id, text, reads) {
  const [config, weights, json] = await filesOfZoo(id);
  const ids = openTokenizer(String(json)).encode(text, { bos: true });
  const engine = await createEngine({ worker: false });
  const model = await engine.open({ config, weights });
  const run = await model.run(ids.map((token) => token.id));
  const tensors = await run.read(reads);
  await engine.close();
  return tensors;
}

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
