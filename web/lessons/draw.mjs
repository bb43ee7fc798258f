/**
 * Draws a picture of each figure of the course and records the numbers of the figure's run that the lesson states. A
 * lesson shows the picture in print, and on the screen until the figure is live. Run this script after a change of a
 * figure or of such a number:
 *
 *     SINKSCOPE_DRAWS=1 npm --prefix web run build && tests/node web/lessons/draw.mjs [NAME]
 */
import assert from 'node:assert/strict';
import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { runnerImport } from 'vite';
import { openStage, saveFrom } from '../../tests/browser/stage.mjs';

const nameFilter = process.argv[2] ?? '';
const here = import.meta.dirname;
const pictures = join(here, 'pictures');
const alias = {
  'sinkscope/internal': join(here, '../../wasm/internal.ts'),
  sinkscope: join(here, '../../wasm/index.ts'),
};
const options = { configFile: false, root: join(here, '..'), resolve: { alias } };
const load = async (file) => (await runnerImport(join(here, '..', file), options)).module;

const { isNarrow, lessonOf, ORDER, readPictures, readWritings } = await load('ship/markdown.ts');
const { valueFormatters } = await load('src/learn/values.ts');
const { removeRepeats } = await load('src/embed/label.ts');
const { intervalOfPairs } = await load('ship/facts.ts');
const lessons = ORDER.map((slug) => lessonOf(slug, readFileSync(join(here, `${slug}.md`), 'utf8')));

/** Returns the width of a figure in a lesson's column, as learn.css sets it. */
const widthOf = (state) => (isNarrow(state) ? 534 : 694);
/** The width of a figure on a phone of 390 pixels. */
const PHONE_WIDTH = 324;

const stage = await openStage();
const page = await stage.open('', { file: 'learn/glossary/index.html', waits: false });

/** Adds a figure to the page and returns the results of its `run` event. */
async function runFigure(attributes) {
  await page.evaluate(
    ([all, width]) => {
      document.querySelector('main').replaceChildren();
      const element = document.createElement('sink-scope');
      for (const [name, value] of Object.entries(all)) element.setAttribute(name, value);
      element.style.cssText = `width: ${width}px; padding: 0; border: 0; --sinkscope-height: 0px`;
      globalThis.heard = [];
      element.addEventListener('run', ({ detail }) => {
        const copyOf = (number) => ({ ...number, data: Array.from(number.data) });
        const results = detail.results.map((result, i) => ({
          // Only the first result has the lab's sentence, which is about both models.
          ...(detail.says && i === 0 ? { says: detail.says } : {}),
          ...{ ...result, numbers: result.numbers.map(copyOf) },
        }));
        globalThis.heard.push({ ...detail, results });
      });
      element.addEventListener('error', ({ detail }) => globalThis.heard.push({ error: detail }));
      document.querySelector('main').append(element);
    },
    [attributes, widthOf(attributes)],
  );
  if (attributes.view === 'lab') await page.getByRole('button', { name: 'Train' }).click();
  await page.waitForFunction(() => globalThis.heard.length > 0, undefined, { timeout: 120_000 });
  await page.waitForFunction(
    () => !document.querySelector('sink-scope').shadowRoot.textContent.includes('Loading'),
  );
  await page.waitForTimeout(700);
  const run = await page.evaluate(() => globalThis.heard.at(-1));
  assert.ok(run.results, `${attributes.view}: ${JSON.stringify(run)}`);
  return run.results;
}

/** Returns the values that a comparison such as `alpha > 2 uniform` names. */
const namesIn = (comparison) => comparison.match(/[a-z]\w*/g) ?? [];

async function draw({ id, state }, { liveNumbers, conditionalSentences }) {
  const results = await runFigure(state);
  const element = page.locator('sink-scope');
  const measureHeight = () => element.evaluate((figure) => figure.offsetHeight);
  const columnHeight = await measureHeight();
  await element.evaluate((figure, width) => (figure.style.width = `${width}px`), PHONE_WIDTH);
  await page.waitForTimeout(700);
  const phoneHeight = await measureHeight();
  await runFigure({ ...state, controls: 'save' });
  const menu = page.locator('sink-scope .save').first();
  const { bytes } = await saveFrom(page, menu, 'SVG');
  const svg = bytes.toString().replace(/<metadata>[^]*?<\/metadata>/, '');
  const attributeOf = (name) => Number(new RegExp(`<svg[^>]* ${name}="([\\d.]+)"`).exec(svg)?.[1]);
  writeFileSync(join(pictures, `${id}.svg`), svg);
  const isOfFigure = ({ figure }) => figure === id;
  const valueNames = new Set([
    ...liveNumbers.filter(isOfFigure).map(({ value }) => value),
    ...conditionalSentences
      .filter(isOfFigure)
      .flatMap(({ condition }) => condition.split(' and ').flatMap(namesIn)),
  ]);
  return {
    state,
    says: removeRepeats(results.map(({ says }) => says ?? '')).join(' '),
    values: Object.fromEntries(
      [...valueNames].map((name) => [name, valueFormatters[name](results)]),
    ),
    ...{
      width: attributeOf('width'),
      height: attributeOf('height'),
      live: columnHeight,
      phone: phoneHeight,
    },
  };
}

mkdirSync(pictures, { recursive: true });
const oldPictures = readPictures();
const drawings = {};
for (const lesson of lessons)
  for (const figure of lesson.figures) {
    const oldPicture = nameFilter && !figure.id.includes(nameFilter) && oldPictures[figure.id];
    drawings[figure.id] = oldPicture || (await draw(figure, lesson));
    console.log(figure.id, JSON.stringify(drawings[figure.id].values));
  }
const SEEDS = 20;
const mean = (all) => all.reduce((a, b) => a + b, 0) / all.length;
const formatSigned = (change) => change.toFixed(3).replace('-', '−');
const formatPercent = (share) => `${(100 * share).toFixed(0)}%`;
const oldWritings = readWritings();
const writings = {};
for (const { writes } of lessons)
  for (const { id, model, prompt } of writes) {
    if (nameFilter && !id.includes(nameFilter) && oldWritings[id]) {
      writings[id] = oldWritings[id];
      continue;
    }
    const texts = await page.evaluate(
      async ([attributes, seeds]) => {
        const element = document.createElement('sink-write');
        for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
        document.querySelector('main').replaceChildren(element);
        const seedTexts = [];
        for (let seed = 1; seed <= seeds; seed++) seedTexts.push(await element.write(seed));
        return seedTexts;
      },
      [{ model, prompt }, SEEDS],
    );
    const distinctShare = ({ tokens }) => new Set(tokens).size / tokens.length;
    const cacheTitles = ['All keys', 'The last 24 keys', 'The first key and the last 23'];
    const changes = ['last', 'first'].flatMap((name, i) => {
      const interval = intervalOfPairs(
        texts.map((seedTexts) => distinctShare(seedTexts[i + 1]) - distinctShare(seedTexts[0])),
      );
      return [
        [`${name}_change`, formatSigned(interval.mean)],
        [`${name}_low`, formatSigned(interval.low)],
        [`${name}_high`, formatSigned(interval.high)],
      ];
    });
    const values = ['full', 'last', 'first'].map((name, i) => [
      name,
      formatPercent(mean(texts.map((seedTexts) => distinctShare(seedTexts[i])))),
    ]);
    writings[id] = {
      ...{ id, model, prompt },
      // texts[2] is of seed 3, with which the element <sink-write> begins.
      rows: texts[2].map((row, i) => ({
        ...{ cache: cacheTitles[i], text: row.text, distinct: formatPercent(distinctShare(row)) },
      })),
      values: Object.fromEntries([...values, ...changes]),
    };
    console.log(id, JSON.stringify(writings[id].values));
  }
writeFileSync(join(pictures, 'writings.json'), `${JSON.stringify(writings, null, 2)}\n`);
for (const file of readdirSync(pictures))
  if (file.endsWith('.svg') && !drawings[file.replace('.svg', '')]) rmSync(join(pictures, file));
writeFileSync(join(pictures, 'pictures.json'), `${JSON.stringify(drawings, null, 2)}\n`);
await stage.close();
