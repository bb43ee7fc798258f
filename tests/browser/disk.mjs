/** A model of the zoo, opened as files of the reader's disk. */
import { readFile } from 'node:fs/promises';
import { root, settled } from './stage.mjs';

const NAMES = ['config.json', 'model.safetensors', 'tokenizer.json'];

/** @returns its files in the order of NAMES */
export function filesOfZoo(id) {
  return Promise.all(NAMES.map((name) => readFile(`${root}models/zoo/${id}/${name}`)));
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
