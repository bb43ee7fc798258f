/**
 * Builds a page with Sinkscope's embed code by each host's own tool, and opens it in Chromium from another origin.
 * The code is what the page's dialog gives. README.md has the results.
 *
 *     tests/hosts/setup && npm --prefix web run build && tests/node tests/hosts/run.mjs [a part of a host's name]
 */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { mkdir, rm, stat, symlink, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { createRequire } from 'node:module';
import { promisify } from 'node:util';
import { pathToFileURL } from 'node:url';
import { openSite } from '../browser/site.mjs';
import { openStage, pictures, root } from '../browser/stage.mjs';

const run = promisify(execFile);
const require = createRequire(join(root, 'web/package.json'));
const { build } = await import(pathToFileURL(require.resolve('vite')).href);
const tools = join(root, '.build/hosts');
const work = join(tools, 'work');
/** Milliseconds after which the build of a tool is stopped. */
const PATIENCE = 1_200_000;
const bin = (path) => join(tools, path);

/**
 * The files of the project for MyST. MyST only parses the page, because its book theme is on no package registry. A
 * script draws the parsed page with the React components of that theme, which are on npm.
 */
const MYST = {
  files: (code) => ({
    'index.md': `# Course\n\n${code}\n`,
    'myst.yml': 'version: 1\nproject: {}\nsite: {}\n',
    'index.html':
      '<!doctype html><html><title>Course</title><button>dark</button><main></main><script type="module" src="./page.js"></script></html>',
    'page.js': `import { createElement } from 'react';
import { createRoot } from 'react-dom/client';
import { ThemeProvider, Theme, mergeRenderers } from '@myst-theme/providers';
import { DEFAULT_RENDERERS, MyST } from 'myst-to-react';
import { ANY_RENDERERS } from '@myst-theme/anywidget';
import content from './_build/site/content/index.json';

const ast = JSON.parse(JSON.stringify(content.mdast), (name, value) =>
  name === 'esm' ? new URL(value, location.href).href : value,
);
const renderers = mergeRenderers([DEFAULT_RENDERERS, ANY_RENDERERS]);
createRoot(document.querySelector('main')).render(
  createElement(ThemeProvider, { renderers, theme: Theme.light }, createElement(MyST, { ast })),
);
// The book theme marks the dark theme by a class of the document's root.
document.querySelector('button').onclick = () => {
  const isDark = document.documentElement.classList.toggle('dark');
  document.body.style.cssText = isDark ? 'color: #eee; background: #111' : '';
};
`,
  }),
  modules: 'theme/node_modules',
  build: [bin('npm/node_modules/.bin/myst'), 'build', '--site'],
  finish: async (folder) => {
    await build({
      root: folder,
      configFile: false,
      logLevel: 'error',
      publicDir: join(folder, '_build/site/public'),
    });
  },
  built: 'dist',
};

/**
 * The hosts, by name.
 * @property files the files of the project, for `code`, the dialog's code for the host
 * @property built the folder of the built page
 */
const HOSTS = {
  'MkDocs Material': {
    label: 'HTML element',
    files: (code) => ({
      'mkdocs.yml': `site_name: Course
theme:
  name: material
  font: false
  palette:
    - scheme: default
      toggle: { icon: material/brightness-7, name: dark }
    - scheme: slate
      toggle: { icon: material/brightness-4, name: light }
`,
      'docs/index.md': `# Course\n\n${code}\n`,
    }),
    build: [bin('py/bin/mkdocs'), 'build', '-q'],
    built: 'site',
    toggle: 'label[for^="__palette"]:visible',
  },
  'Jupyter Book 1': {
    label: 'Jupyter Book 1 (Sphinx)',
    files: (code) => ({
      '_config.yml': 'title: Course\n',
      '_toc.yml': 'format: jb-book\nroot: index\n',
      'index.md': `# Course\n\n${code}\n`,
    }),
    build: [bin('py/bin/jupyter-book'), 'build', '-q', '.'],
    built: '_build/html',
    toggle: '.theme-switch-button',
  },
  'Jupyter Book 2 (MyST), widget': {
    ...MYST,
    label: 'Jupyter Book 2 (MyST): widget',
    toggle: 'button',
  },
  'Jupyter Book 2 (MyST), iframe': { ...MYST, label: 'Jupyter Book 2 (MyST): iframe' },
  bookdown: {
    label: 'Quarto, bookdown',
    files: (code) => ({
      'index.Rmd': `---
title: Course
site: bookdown::bookdown_site
output: bookdown::gitbook
---

# Course

${code}
`,
    }),
    build: ['Rscript', '-e', 'bookdown::render_book("index.Rmd", quiet = TRUE)'],
    built: '_book',
  },
  'Observable Framework': {
    label: 'HTML element',
    files: (code) => ({
      'src/index.md': `# Course\n\n${code}\n`,
      'package.json': '{ "type": "module" }',
      'observablehq.config.js': 'export default { title: "Course", globalStylesheets: [] };\n',
    }),
    modules: 'npm/node_modules',
    build: [bin('npm/node_modules/.bin/observable'), 'build'],
    built: 'dist',
  },
  Docusaurus: {
    label: 'Docusaurus (MDX)',
    files: (code) => ({
      'package.json': '{ "name": "course" }',
      'docusaurus.config.js': `module.exports = {
  title: 'Course', url: 'http://localhost', baseUrl: '/',
  presets: [['classic', { docs: false, blog: false }]],
};
`,
      'src/pages/index.mdx': `# Course\n\n${code}\n`,
    }),
    modules: 'docu/node_modules',
    build: [bin('docu/node_modules/.bin/docusaurus'), 'build'],
    built: 'build',
  },
};

async function codeFor(stage, label) {
  const page = await stage.open('room=explore', { waits: false });
  await page.locator('[data-view="attention"] .code').click();
  const hosts = page.locator('.embed-dialog').getByLabel('for');
  await hosts.waitFor();
  const labels = await hosts.locator('option').allTextContents();
  const place = labels.findIndex((one) => one.startsWith(label));
  assert.ok(place >= 0, label);
  await hosts.selectOption(String(place));
  const code = await page.locator('.embed-dialog textarea').inputValue();
  await page.context().close();
  return code;
}

async function look(page, name, { toggle }) {
  const figure = page.locator('sink-scope, iframe').first();
  await figure.scrollIntoViewIfNeeded();
  const isElement = (await figure.evaluate((one) => one.localName)) === 'sink-scope';
  const inside = isElement ? page : await (await figure.elementHandle()).contentFrame();
  const within = isElement ? figure : inside;
  // A button may hide the conditions, but they must exist in the figure.
  const stamp = within.locator('.stamp', { hasText: /T = \d+/ });
  await stamp.first().waitFor({ state: 'attached' });
  const { width, height } = await figure.boundingBox();
  const picture = await within.locator('canvas').first().boundingBox();
  const share = Math.min(picture.width, picture.height) / Math.min(width, height);
  assert.ok(share >= 0.65, `the picture has ${(100 * share).toFixed()}% of the smaller side`);
  if (isElement && toggle) {
    const themed = () => figure.getAttribute('data-theme');
    const before = await themed();
    // One state of a toggle may be the system's theme, which looks like the state before.
    for (let tries = 0; tries < 3 && (await themed()) === before; tries++) {
      await page.locator(toggle).first().click();
      await page.waitForTimeout(300);
    }
    assert.notEqual(await themed(), before, 'the theme is followed');
  }
  await page.screenshot({ path: `${pictures}/host-${name.replace(/\W+/g, '-')}.png` });
  const sizes = `${Math.round(width)} × ${Math.round(height)} px, picture ${(100 * share).toFixed()}% of the smaller side`;
  return `${isElement ? 'element' : 'iframe'}, ${sizes}${isElement && toggle ? ', theme followed' : ''}`;
}

async function visit(stage, folder, see) {
  const site = await openSite(async (path) => {
    const isFolder = await stat(join(folder, path)).then(
      (found) => found.isDirectory(),
      () => false,
    );
    return isFolder ? join(folder, path, '/') : join(folder, path);
  });
  const context = await stage.browser.newContext({ viewport: { width: 1280, height: 900 } });
  try {
    const page = await context.newPage();
    await page.goto(site.address);
    return await see(page);
  } finally {
    await context.close();
    site.close();
  }
}

const stage = await openStage();
let failed = 0;
for (const [name, host] of Object.entries(HOSTS)) {
  if (!name.includes(process.argv[2] ?? '')) continue;
  const folder = join(work, name.replace(/\W+/g, '-'));
  try {
    await rm(folder, { recursive: true, force: true });
    const files = host.files(await codeFor(stage, host.label));
    for (const [path, text] of Object.entries(files)) {
      await mkdir(dirname(join(folder, path)), { recursive: true });
      await writeFile(join(folder, path), text);
    }
    if (host.modules) {
      await symlink(join(tools, host.modules), join(folder, 'node_modules'));
    }
    const [command, ...argv] = host.build;
    const env = { ...process.env, CI: '1', DOCUSAURUS_NO_PERSISTENT_CACHE: '1' };
    await run(command, argv, { cwd: folder, env, timeout: PATIENCE }).catch((error) => {
      // MyST fails when it requests its theme, but it has written the parsed page before.
      if (!host.finish) throw error;
    });
    await host.finish?.(folder);
    // A tool that was stopped may still end with status 0.
    await stat(join(folder, host.built, 'index.html'));
    const said = await visit(stage, join(folder, host.built), (page) => look(page, name, host));
    console.log(`ok   ${name}: ${said}`);
  } catch (error) {
    failed++;
    console.log(`FAIL ${name}: ${String(error.stderr || error.stack).slice(-1500)}`);
  }
}
await stage.close();
process.exitCode = failed ? 1 : 0;
