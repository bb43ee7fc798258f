/**
 * Writes the plates as PDF files for A4 and Letter paper, and the page that lists them. A release runs this script
 * after its build:
 *
 *     SINKSCOPE_HOME=https://example.org/1.0.0/ node web/plates/draw.mjs [FOLDER]     .build/page/plates
 */
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { runnerImport } from 'vite';
import { CHROMIUM, chromium, root } from '../../tests/browser/chromium.mjs';
import { home } from '../ship/home.ts';

const web = join(import.meta.dirname, '..');
const alias = { sinkscope: join(root, 'wasm/index.ts') };
const { fileOf, listHtml, PAPERS, plateHtml, plates } = (
  await runnerImport(join(web, 'ship/plates.ts'), {
    configFile: false,
    root: web,
    resolve: { alias },
  })
).module;

if (!home) throw new Error('SINKSCOPE_HOME: expected the address of the page, found none');
const out = process.argv[2] ?? join(root, '.build/page/plates');
mkdirSync(out, { recursive: true });
const browser = await chromium.launch(CHROMIUM);
const page = await browser.newPage();
for (const plate of plates()) {
  await page.setContent(plateHtml(plate, home));
  for (const paper of PAPERS) {
    const path = join(out, fileOf(plate, paper));
    const bytes = await page.pdf({ path, format: paper, printBackground: true });
    console.log(`${path}: ${bytes.length} bytes`);
  }
}
writeFileSync(join(out, 'index.html'), listHtml(plates()));
await browser.close();
