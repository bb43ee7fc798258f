// Uses the example notebook in JupyterLab as a person does: runs all cells, selects a head in the figure, reads the
// selection in Python, reloads the page, and looks at the figure again.
//
//     tests/node tests/record/jupyterlab.mjs ADDRESS FOLDER
//
// The script prints its observations as JSON and writes pictures to FOLDER. It may contact only the server at ADDRESS.
import { CHROMIUM, chromium } from '../browser/chromium.mjs';

const [address, folder] = process.argv.slice(2);
const browser = await chromium.launch(CHROMIUM);
const SLOW = 1_800_000; // milliseconds that a step may take on a busy machine
const found = { asked: [] };
try {
  const context = await browser.newContext({ viewport: { width: 1280, height: 900 } });
  context.setDefaultTimeout(SLOW);
  const { host } = new URL(address);
  await context.route(
    (url) => /^https?:$/.test(url.protocol) && url.host !== host,
    (route) => {
      found.asked.push(route.request().url());
      return route.abort();
    },
  );
  const page = await context.newPage();
  const command = (name) =>
    page.evaluate((name) => globalThis.jupyterapp.commands.execute(name), name);
  const isThere = () =>
    page.waitForFunction(
      () => globalThis.jupyterapp && document.querySelector('.jp-Notebook-cell'),
    );
  const until = async (condition) => {
    for (const start = Date.now(); !(await condition()); await page.waitForTimeout(200))
      if (Date.now() - start > SLOW) throw new Error(`waited ${SLOW} ms: ${condition}`);
  };
  const figure = async () => {
    const element = await page.waitForSelector('iframe[sandbox]');
    await element.scrollIntoViewIfNeeded(); // a figure starts when it is visible
    const frame = await element.contentFrame();
    await frame.waitForSelector('sink-scope');
    await frame.waitForFunction(
      () =>
        document.querySelectorAll('sink-scope').length === 2 &&
        [...document.querySelectorAll('sink-scope')].every((one) =>
          one.shadowRoot.querySelector('canvas'),
        ),
    );
    return frame;
  };
  // Cells run only once the notebook's kernel is ready.
  const kernelIsReady = () =>
    page.waitForFunction(() => {
      const { sessionContext } = globalThis.jupyterapp.shell.currentWidget ?? {};
      return sessionContext?.session?.kernel?.status === 'idle';
    });
  await page.goto(`${address}&file-browser-path=/`);
  await isThere();
  await kernelIsReady();
  await page.locator('.jp-Notebook-cell').first().click();
  await command('notebook:run-all-cells');
  let frame = await figure();
  await page.screenshot({ path: `${folder}/run.png` });
  // Reads the output of the last cell. While the cell runs, its prompt has a star; then it has another number.
  const read = async () => {
    const cell = page.locator('.jp-CodeCell').last();
    const prompt = async () => (await cell.locator('.jp-InputPrompt').first().innerText()).trim();
    const before = await prompt();
    await cell.locator('.cm-content').click();
    await page.keyboard.press('Control+Enter');
    await until(async () => /\[\d+\]/.test(await prompt()) && (await prompt()) !== before);
    return (await cell.locator('.jp-OutputArea-output').first().innerText()).trim();
  };
  found.before = await read();
  const heads = frame.locator('sink-scope').first();
  const cell = heads.locator('canvas').first();
  await cell.scrollIntoViewIfNeeded();
  const box = await cell.boundingBox();
  found.canvas = box;
  await cell.click({ position: { x: 10, y: 10 } });
  await until(async () => (found.selected = await read()) !== found.before);
  await page.screenshot({ path: `${folder}/selected.png` });
  await command('docmanager:save');
  await page.reload();
  await isThere();
  await kernelIsReady();
  frame = await figure();
  found.layer = await frame.locator('sink-scope').last().getAttribute('layer');
  found.head = await frame.locator('sink-scope').last().getAttribute('head');
  found.reloaded = await read();
  await page.screenshot({ path: `${folder}/reloaded.png` });
} finally {
  await browser.close();
}
console.log(JSON.stringify(found));
