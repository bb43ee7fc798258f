/** Tests printed pages: they are light whatever the theme of the reader, without controls, and with the conditions. */
import assert from 'node:assert/strict';
import { settled } from './stage.mjs';

const ROOMS = {
  start: ['', '.facts .lines'],
  explore: ['room=explore', '.stamp'],
  compare: ['room=compare&panel=numbers', '.metrics caption'],
  training: ['room=training', '.cell-head .hint'],
  purpose: ['room=purpose&runs=1', '.lead'],
  lab: ['room=lab', '.lab-task svg'],
  embed: ['view=sinks&controls=text,question,step,save', '.stamp', 'embed.html'],
};

const KEPT_SELECTOR =
  '.term, .chip, .output, .model *, [aria-pressed="true"], th button, .room-lab *, .heatmap *';

async function printsWholeStory(stage) {
  const page = await stage.open();
  await page.evaluate(() => (globalThis.print = () => (globalThis.isPrinted = true)));
  await page.keyboard.press('Control+p');
  await page.waitForFunction(() => globalThis.isPrinted);
  const pdf = await page.pdf({ format: 'A4' });
  const pages = pdf.toString('latin1').match(/\/Type\s*\/Page\b/g).length;
  assert.ok(pages >= 3, `${pages} pages`);
  await page.emulateMedia({ media: 'print' });
  const steps = await page.$$eval('.step', (all) =>
    all.map((step) => ({
      answer: step.querySelector('.answer')?.checkVisibility(),
      drawn: [...step.querySelectorAll('canvas, svg, table, .outputs')].filter((one) =>
        one.checkVisibility(),
      ).length,
    })),
  );
  for (const [i, { answer, drawn }] of steps.entries())
    assert.ok(answer && (drawn || i === 5), `step ${i + 1}: ${answer}, ${drawn} drawn`);
  assert.ok(await page.locator('.start-deeper dl').isVisible());
  assert.equal(await page.locator('.step-4 .output:visible').count(), 24);
  // What colors tell apart is told apart on gray paper, too: bars by a pattern, curves by their names.
  const pattern = await page.$eval(
    '.step-4 .output.sink > span',
    (bar) => getComputedStyle(bar).backgroundImage,
  );
  assert.match(pattern, /repeating-linear-gradient/);
  const names = await page.$$eval('.step-5 .chart text.name', (all) =>
    all.map(({ textContent }) => textContent),
  );
  assert.equal(new Set(names).size, 2, names.join(', '));
  assert.deepEqual(page.troubles, []);
  return `${pages} pages`;
}

/** What a browser prints from its menu is what is there after its `beforeprint`: no key tells the page before. */
async function printsFromMenu(stage) {
  const page = await stage.open();
  await page.locator('.step-5 .figure').first().waitFor({ state: 'attached' });
  await settled(page);
  await page.evaluate(() =>
    addEventListener('beforeprint', () => {
      globalThis.printed = [...document.querySelectorAll('.step')].map((step) => ({
        answer: step.querySelector('.answer')?.textContent ?? '',
        drawn: step.querySelectorAll('canvas, .cell svg, table, .output').length,
      }));
    }),
  );
  await page.pdf({ format: 'A4' });
  const printed = await page.evaluate(() => globalThis.printed);
  for (const [i, { answer, drawn }] of printed.slice(0, 5).entries())
    assert.ok(answer && drawn, `step ${i + 1}: “${answer}”, ${drawn} drawn`);
  assert.equal(printed[3].drawn, 24);
  assert.deepEqual(page.troubles, []);
  return printed.map(({ drawn }) => drawn).join(', ');
}

export const printing = {
  'on paper, a print from the browser’s menu has the story, too': printsFromMenu,
  'on paper, the keys for printing print Start’s whole story, also in gray': printsWholeStory,
  ...Object.fromEntries(
    Object.entries(ROOMS).map(([name, [hash, conditions, file = 'index.html']]) => [
      `on paper, ${name}: light colors, no controls, the conditions`,
      async (stage) => {
        const page = await stage.open([hash, 'theme=dark'].filter(Boolean).join('&'), {
          file,
          waits: false,
        });
        await page.waitForSelector(conditions, { state: 'attached' });
        // Figures without a result have nothing to print.
        await settled(page);
        await page.evaluate(() =>
          addEventListener('beforeprint', () => {
            globalThis.printed = {
              theme: document.documentElement.dataset.theme,
              missing: [...document.querySelectorAll('.figure')].filter(
                (figure) =>
                  figure.checkVisibility() && !figure.querySelector('.cell, .hint, [data-lacks]'),
              ).length,
            };
          }),
        );
        const pdf = await page.pdf({ format: 'A4' });
        assert.equal(pdf.subarray(0, 5).toString(), '%PDF-');
        const { theme, missing } = await page.evaluate(() => globalThis.printed);
        assert.equal(theme, 'light');
        assert.equal(missing, 0, 'figures outside the window are drawn too');
        assert.equal(await page.evaluate(() => document.documentElement.dataset.theme), 'dark');
        await page.emulateMedia({ media: 'print' });
        const controls = await page.evaluate(
          (kept) =>
            [...document.querySelectorAll('button, input, select, textarea, header.top')]
              .filter((control) => control.checkVisibility() && !control.matches(kept))
              .map((control) => `${control.tagName} ${control.textContent.trim()}`),
          KEPT_SELECTOR,
        );
        assert.deepEqual(controls, []);
        await page.locator(`${conditions}:visible`).first().waitFor();
        if (['start', 'explore', 'compare'].includes(name)) {
          const promptText = await page.locator('.on-paper:visible').first().textContent();
          assert.match(promptText, /^The old man sat/);
        }
        await page.setViewportSize({ width: 688, height: 900 });
        const overflowing = await page.evaluate(() =>
          [...document.querySelectorAll('table, h1, h2, .cell')]
            .filter(
              (element) => element.checkVisibility() && element.getBoundingClientRect().right > 690,
            )
            .map(
              (element) =>
                `${element.tagName} ${element.className} ${element.textContent.slice(0, 40)}`,
            ),
        );
        assert.deepEqual(overflowing, []);
        assert.deepEqual(page.troubles, []);
      },
    ]),
  ),
};
