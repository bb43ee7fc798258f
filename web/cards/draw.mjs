/**
 * Draws the pictures for previews of shared links, one for each room and lesson: its title, its sentence and a figure
 * of lessons/pictures. The page also shows the picture of Start where its program cannot run. Run this script after a
 * change of a title, a sentence or a figure: web/test/cards.test.ts fails until then.
 *
 *     tests/node web/cards/draw.mjs [NAME]
 */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { runnerImport } from 'vite';
import { CHROMIUM, chromium } from '../../tests/browser/chromium.mjs';

const nameFilter = process.argv[2] ?? '';
const here = import.meta.dirname;
const root = join(here, '..');
const alias = {
  'sinkscope/internal': join(root, '../wasm/internal.ts'),
  sinkscope: join(root, '../wasm/index.ts'),
};
const options = { configFile: false, root, resolve: { alias } };
const load = async (file) => (await runnerImport(join(root, file), options)).module;
const { cards, fingerprintOf, figureSvgs, SIZE } = await load('ship/cards.ts');

const STYLE = `
  body { display: grid; grid-template-columns: 430px 1fr; gap: 40px; align-items: center; box-sizing: border-box;
    width: ${SIZE.width}px; height: ${SIZE.height}px; margin: 0; padding: 44px 44px 44px 52px; background: #fbfaf7;
    color: #1d1b22; font: 25px/1.4 system-ui, 'DejaVu Sans', sans-serif; }
  h1 { margin: 0 0 20px; font-size: 42px; line-height: 1.16; letter-spacing: -0.02em; }
  p { margin: 0 0 24px; color: #55525e; }
  strong { color: #b0305a; font-size: 27px; }
  div { display: grid; grid-auto-flow: column; grid-auto-columns: minmax(0, 1fr); gap: 14px; place-items: center; height: 540px; padding: 0 14px; border: 1px solid #d9d7d0; border-radius: 10px;
    background: #ffffff; overflow: hidden; }
  img { width: 100%; height: 520px; object-fit: contain; }
`;

const browser = await chromium.launch(CHROMIUM);
const page = await browser.newPage({ viewport: SIZE });
for (const card of cards()) {
  if (!card.name.includes(nameFilter)) continue;
  await page.setContent(`<!doctype html><style>${STYLE}</style><section></section><div></div>`);
  await page.evaluate(
    async ([{ heading, description }, sources]) => {
      const [title, text, name] = ['h1', 'p', 'strong'].map((tag) => document.createElement(tag));
      title.textContent = heading;
      text.textContent = description;
      name.textContent = 'Sinkscope';
      document.querySelector('section').append(title, text, name);
      for (const source of sources) {
        const image = new Image();
        image.src = URL.createObjectURL(new Blob([source], { type: 'image/svg+xml' }));
        await image.decode();
        document.querySelector('div').append(image);
      }
    },
    [card, figureSvgs(card)],
  );
  const bytes = await page.screenshot({ type: 'png' });
  writeFileSync(join(here, `${card.name}.png`), bytes);
  console.log(card.name, bytes.length);
}
await browser.close();
if (!nameFilter) {
  const fingerprints = Object.fromEntries(cards().map((card) => [card.name, fingerprintOf(card)]));
  writeFileSync(join(here, 'drawn.json'), `${JSON.stringify(fingerprints, null, 2)}\n`);
}
