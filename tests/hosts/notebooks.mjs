/**
 * Tests notebooks: the widget of `sinkscope.show` in marimo and under VS Code's policy for notebooks, and the element in
 * a cell of Observable's runtime. tests/record/test_notebook.py tests JupyterLab. README.md has the results.
 *
 *     tests/hosts/setup && npm --prefix web run build && tests/node tests/hosts/notebooks.mjs [a part of a name]
 *
 * SINKSCOPE_MARIMO and SINKSCOPE_OBSERVABLE name a marimo and a folder of node_modules other than those of `setup`.
 */
import assert from 'node:assert/strict';
import { execFileSync, spawn } from 'node:child_process';
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { openSite } from '../browser/site.mjs';
import { openStage, pictures, root, until } from '../browser/stage.mjs';

const tools = join(root, '.build/hosts');
const marimo = process.env.SINKSCOPE_MARIMO ?? join(tools, 'py/bin/marimo');
const modules = process.env.SINKSCOPE_OBSERVABLE ?? join(tools, 'npm/node_modules');
const record = join(root, 'models/record');
const recording = join(root, 'models/recordings/smollm2-135m-instruct.safetensors');

function writeElement() {
  const program = `import json, runpy; from pathlib import Path
made = runpy.run_path("hatch_build.py")["element"](Path(${JSON.stringify(join(root, '.build/page'))}))
folder = Path("src/sinkscope/static"); folder.mkdir(exist_ok=True)
(folder / "element.json").write_text(json.dumps(made))`;
  execFileSync(join(root, '.build/tools/bin/python'), ['-c', program], { cwd: record });
}

const serve = (pages, headers, folder = root) =>
  openSite((path) => (pages[path] ? { body: pages[path] } : join(folder, path)), headers);

async function visit(stage, address) {
  const context = await stage.browser.newContext({ viewport: { width: 1280, height: 900 } });
  const page = await context.newPage();
  page.troubles = [];
  page.on('console', (said) => said.type() === 'error' && page.troubles.push(said.text()));
  await page.goto(address);
  return page;
}

async function loadFrame(page) {
  const element = await page.waitForSelector('iframe[sandbox]');
  await element.scrollIntoViewIfNeeded();
  const frame = await element.contentFrame();
  await frame.waitForFunction(() => {
    const all = [...document.querySelectorAll('sink-scope')];
    return all.length === 2 && all.every((one) => one.shadowRoot.querySelector('canvas'));
  });
}

/** Runs the widget under a content security policy, with a fake front end that sends it bytes as anywidget does. */
async function underPolicy(stage, policy, name) {
  const host = await serve(
    {
      '/': `<!doctype html><title>Notebook</title><main></main><script type="module">
        import widget from './models/record/src/sinkscope/widget.js';
        const traits = { title: 'A figure', height: 480, view: 'heads,attention', layer: 0, head: 0, query: 0, key: 0 };
        let receive;
        const bytes = async (name) => {
          const text = atob(await globalThis.bytesOf(name));
          return new DataView(Uint8Array.from(text, (letter) => letter.charCodeAt(0)).buffer);
        };
        const model = {
          get: (key) => traits[key],
          set: (key, value) => (traits[key] = value),
          save_changes: () => (document.title = traits.state ?? 'Notebook'),
          on: (kind, hear) => kind === 'msg:custom' && (receive = hear),
          off: () => {},
          send: async ({ request, why }) =>
            request === 'element'
              ? receive({ kind: 'element' }, [await bytes('element'), await bytes('recording')])
              : receive({ kind: 'still', why }, [await bytes('picture')]),
        };
        await widget.render({ model, el: document.querySelector('main'), signal: new AbortController().signal });
      </script>`,
    },
    { 'content-security-policy': policy },
  );
  const files = {
    element: join(record, 'src/sinkscope/static/element.json'),
    recording,
    picture: join(root, 'web/picture.png'),
  };
  const context = await stage.browser.newContext({ viewport: { width: 1280, height: 900 } });
  const page = await context.newPage();
  const refused = [];
  page.on('console', (said) => /Content Security/.test(said.text()) && refused.push(said.text()));
  await page.exposeFunction('bytesOf', (file) => readFile(files[file], 'base64'));
  await page.goto(`${host.address}/`);
  await page.waitForFunction(() => document.title !== 'Notebook');
  await page.screenshot({ path: `${pictures}/notebook-${name}.png` });
  const said = await page.title();
  const isStill = await page.locator('main img').isVisible();
  assert.ok(said === 'drawn' || isStill, said);
  host.close();
  return said === 'drawn' ? 'drawn' : `still picture: ${said} (${refused[0] ?? 'no refusal'})`;
}

/**
 * VS Code's content security policy, from
 * src/vs/workbench/contrib/notebook/browser/view/renderers/backLayerWebView.ts, with the hosts of this page.
 */
const VS_CODE =
  "default-src 'none'; script-src 'self' 'unsafe-inline' 'unsafe-eval'; style-src 'self' 'unsafe-inline'; " +
  "img-src 'self' https: http: data:; font-src 'self' https:; connect-src https:; child-src https: data:";

const NOTEBOOKS = {
  async 'marimo, widget'(stage) {
    const folder = join(tools, 'work/marimo');
    await mkdir(folder, { recursive: true });
    const cell = `import sinkscope\n    figure = sinkscope.show(${JSON.stringify(recording)}, height=480)\n    figure`;
    await writeFile(
      join(folder, 'app.py'),
      `import marimo\n\napp = marimo.App()\n\n\n@app.cell\ndef _():\n    ${cell}\n    return\n`,
    );
    const probe = await serve({});
    const port = new URL(probe.address).port;
    probe.close();
    const argv = [
      'run',
      'app.py',
      '--headless',
      '--no-token',
      '--host',
      '127.0.0.1',
      '--port',
      port,
    ];
    const env = { ...process.env, PYTHONPATH: join(record, 'src') };
    const server = spawn(marimo, argv, { cwd: folder, env, stdio: 'ignore' });
    try {
      const address = `http://127.0.0.1:${port}/`;
      await until(() =>
        fetch(address).then(
          ({ ok }) => ok,
          () => false,
        ),
      );
      const page = await visit(stage, address);
      await loadFrame(page);
      await page.screenshot({ path: `${pictures}/notebook-marimo.png` });
      return 'drawn';
    } finally {
      server.kill();
    }
  },

  'VS Code’s policy for notebooks, widget': (stage) => underPolicy(stage, VS_CODE, 'vscode'),

  'no policy, widget': (stage) =>
    underPolicy(stage, "default-src * data: blob: 'unsafe-inline' 'unsafe-eval'", 'open'),

  async 'Observable’s runtime, element'(stage) {
    const host = await serve(
      {
        '/': `<!doctype html><title>Notebook</title><main></main>
        <script type="importmap">{ "imports": { "isoformat": "./isoformat/src/index.js" } }</script>
        <script type="module">
          import { Runtime } from './@observablehq/runtime/src/index.js';
          import { Inspector } from './@observablehq/inspector/src/index.js';
          const module = new Runtime().module();
          const place = () => document.querySelector('main').appendChild(document.createElement('div'));
          const cell = () => module.variable(new Inspector(place()));
          cell().define('head', [], () => 3);
          cell().define('figure', ['head'], async (head) => {
            await import('${stage.origin}/sink-scope.js');
            const figure = document.createElement('sink-scope');
            for (const [name, value] of Object.entries({ view: 'attention', shown: 'softmax', layer: 1, head, height: 480 }))
              figure.setAttribute(name, value);
            return figure;
          });
        </script>`,
      },
      {},
      modules,
    );
    const page = await visit(stage, `${host.address}/`);
    await page.locator('sink-scope[data-live]').waitFor();
    await page.screenshot({ path: `${pictures}/notebook-observable.png` });
    const height = await page.locator('sink-scope').evaluate((one) => one.offsetHeight);
    host.close();
    assert.equal(height, 480);
    return `drawn, ${height} px high`;
  },
};

writeElement();
const stage = await openStage();
let failed = 0;
for (const [name, look] of Object.entries(NOTEBOOKS)) {
  if (!name.includes(process.argv[2] ?? '')) continue;
  try {
    console.log(`ok   ${name}: ${await look(stage)}`);
  } catch (error) {
    failed++;
    console.log(`FAIL ${name}: ${String(error.stack).slice(-1500)}`);
  }
}
await stage.close();
process.exitCode = failed ? 1 : 0;
