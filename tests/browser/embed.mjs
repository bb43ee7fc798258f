/** Tests figures in other people's pages: the element, iframes, and the examples of web/examples. */
import assert from 'node:assert/strict';
import { createRequire } from 'node:module';
import { execFile } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import { copyFile, mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { pathToFileURL } from 'node:url';
import { promisify } from 'node:util';
import { extname, join } from 'node:path';
import { TYPES, openSite } from './site.mjs';
import {
  createHost,
  pictures,
  root,
  settled,
  staysWithin,
  twoFrames,
  until,
  violations,
} from './stage.mjs';

const require = createRequire(join(root, 'web/package.json'));
const { mystParse } = await import(pathToFileURL(require.resolve('myst-parser')).href);
const { evaluate } = await import(pathToFileURL(require.resolve('@mdx-js/mdx')).href);

const WRITTEN_ORIGIN = 'http://localhost:8080';
/** Serves another site with the examples, which refer to the Sinkscope at `origin`, and with `pages`. */
async function serveOtherSite(origin, pages = {}) {
  const site = await openSite(async (path) => {
    const isReveal = path.startsWith('/reveal.js/');
    const file = join(root, isReveal ? 'web/node_modules' : 'web/examples', path);
    const text = pages[path] ?? (await readFile(file, 'utf8').catch(() => undefined));
    return text && { type: TYPES[extname(file)], body: text.replaceAll(WRITTEN_ORIGIN, origin) };
  });
  // Another port is another origin.
  return { ...site, address: site.origin };
}

async function visit(stage, address, options = {}) {
  const context = await stage.browser.newContext({
    viewport: { width: 1280, height: 900 },
    serviceWorkers: 'block',
    ...options,
  });
  const page = await context.newPage();
  page.troubles = [];
  page.on('console', (message) => message.type() === 'error' && page.troubles.push(message.text()));
  page.on('pageerror', (error) => page.troubles.push(error.message));
  await page.addInitScript(() => {
    globalThis.runs = [];
    addEventListener('run', ({ target, detail }) => {
      globalThis.runs.push({ view: target.getAttribute('view'), at: performance.now(), detail });
    });
  });
  await page.goto(address);
  return page;
}

const waitForRuns = (page, count) =>
  page.waitForFunction((n) => globalThis.runs.length >= n, count);

/** Returns what `read` gives once two frames change nothing about it. */
async function readWhenStill(page, read) {
  let [lastText, text] = ['', JSON.stringify(await read())];
  while (text !== lastText) {
    await twoFrames(page);
    [lastText, text] = [text, JSON.stringify(await read())];
  }
  return JSON.parse(text);
}

async function fitsAllSizes(stage, views) {
  const site = await serveOtherSite(stage.origin, { '/': FRAME_PAGE });
  const page = await visit(stage, site.address, { viewport: { width: 1940, height: 1100 } });
  await page.route('**/images.safetensors', (route) =>
    route.fulfill({ path: join(root, 'tests/golden/recordings/llava.safetensors') }),
  );
  const problems = [];
  for (const [view, shown] of views) {
    const parameters = view === 'attention' ? '&controls=text,step,save,generate' : '';
    await page.evaluate(
      (source) => {
        const frame = document.createElement('iframe');
        frame.src = source;
        document.body.replaceChildren(frame);
      },
      `${stage.origin}/embed.html#view=${view}&shown=${encodeURIComponent(shown)}${parameters}`,
    );
    const frame = await (await page.locator('iframe').elementHandle()).contentFrame();
    await waitUntilDrawn(frame);
    // Measurements with runs of their own take long on a busy machine, and until then there is no picture.
    await settled(frame);
    for (const [width, height] of SIZES) {
      await page
        .locator('iframe')
        .evaluate((element, size) => Object.assign(element, size), { width, height });
      const limits = [PICTURE_MIN, LETTERS_MIN, WAITING_VIEWS];
      // A chart takes its width a moment after its frame. If the figure never fits, the error shows the last state.
      let problem = 'not looked at';
      for (let i = 0; problem && i < MOST_LOOKS; i++) {
        await page.waitForTimeout(i ? 250 : 60);
        problem = await frame.evaluate(layoutProblems, limits);
      }
      if (problem) {
        problems.push(`${view} in ${width} × ${height}: ${problem}`);
        break;
      }
      const repeatedTexts = await frame.evaluate(() => {
        const figure = document.querySelector('.figure').innerText.replace(/\s+/g, ' ');
        const findingParts = [...document.querySelectorAll('[data-finding] > span:not(.unseen)')];
        return findingParts
          .filter((part) => part.checkVisibility())
          .map((part) => part.textContent)
          .filter((text) => figure.includes(text));
      });
      assert.deepEqual(repeatedTexts, [], view);
    }
  }
  site.close();
  assert.deepEqual(problems, []);
  assert.deepEqual(page.troubles, []);
}

async function checkOnOtherSite(stage, name, look) {
  const site = await serveOtherSite(stage.origin);
  try {
    return await look(await visit(stage, `${site.address}/${name}`), site);
  } finally {
    site.close();
  }
}

const formatAttribute = ([name, value]) => ` ${name}="${String(value).replaceAll('&', '&amp;')}"`;
const frameOf = (properties) =>
  `<iframe${Object.entries(properties).map(formatAttribute).join('')}></iframe>`;

/**
 * Returns a page that imitates the theme of MyST: a copy of the widget's file on the site of the book renders into a
 * shadow tree.
 */
const widgetPage = (esm, model) => `<main></main><script type="module">
  const copy = await (await fetch(${JSON.stringify(esm)})).blob();
  const { default: widget } = await import(URL.createObjectURL(copy));
  const el = document.querySelector('main').attachShadow({ mode: 'open' }).appendChild(document.createElement('div'));
  const given = ${JSON.stringify(model)};
  await widget.render({ model: { get: (name) => given[name] }, el });
</script>`;

async function pageOfHost(text) {
  if (text.startsWith(':::')) {
    const [directive] = mystParse(text).children;
    const [{ type, src, title, children, esm, model }] = directive.children;
    if (type === 'anywidget') return widgetPage(esm, model);
    assert.match(children[0].url, /\/cards\/start\.png$/, 'what MyST prints');
    assert.ok((await fetch(children[0].url)).ok, children[0].url);
    return frameOf({ src, title });
  }
  if (text.includes('frameBorder')) {
    const elements = [];
    const jsx = (type, properties) => void elements.push({ type, properties });
    const { default: content } = await evaluate(text, { jsx, jsxs: jsx, Fragment: 'div' });
    content({});
    return frameOf(elements[0].properties);
  }
  // An author pastes a bare address into a field of the host, which makes a frame of it.
  if (/^http\S+$/.test(text)) return frameOf({ src: text, title: 'Sinkscope' });
  return text.replace(/^```.*$/gm, '');
}

const FITTING = {
  ...Object.fromEntries(
    (
      'attention sinks arrows outputs geometry scores threshold length contribution norms ratios channels likeness mass heads ' +
      'effects loss next suffix tasks training logit-parts compression diagonal'
    )
      .split(' ')
      .map((view) => [view, 'softmax,sigmoid']),
  ),
  change: 'softmax~hide_key(0)',
  bias: 'key-bias',
  gate: 'gated',
  router: 'experts',
  cache: 'softmax~evict(window,24)',
  sweep: 'softmax,softmax~evict(window,24)',
  perturbations: 'softmax,softmax~evict(window,24)',
  unmasking: 'diffusion',
  masked: 'diffusion',
  patches: 'recording:images.safetensors',
};
const FRAME_PAGE =
  '<!doctype html><title>A course</title><link rel="icon" href="data:,"><style>iframe { border: 0 }</style>';
/** embed_fit.test.ts covers what the figure leaves out in boxes of all sizes. */
const SIZES = [
  [280, 240],
  [320, 480],
  [480, 360],
  [852, 520],
  [1920, 1080],
];
/** The least size of a picture, as a share of the frame's smaller side, and of letters, in pixels. */
const [PICTURE_MIN, LETTERS_MIN] = [0.65, 11];
/** Selector of views that wait for a click on a button of their own. */
const WAITING_VIEWS = '.view-suffix, .view-tasks, .view-unmasking, .view-masked';
const PARTS = 3;
/** The number of looks at a figure, four a second, after which it counts as one that does not fit. */
const MOST_LOOKS = 240;

/**
 * Runs in a frame: lists the problems of the figure's layout. All texts and controls must be inside, the picture must
 * have its share of the smaller side, and its labels must be legible.
 */
function layoutProblems([leastPicture, leastLetters, notStarted]) {
  const { innerWidth, innerHeight } = globalThis;
  const problems = [];
  const { scrollWidth, scrollHeight } = document.documentElement;
  if (scrollWidth > innerWidth || scrollHeight > innerHeight) problems.push('the page scrolls');
  const pictures =
    '.heatmap, .chart-picture, .arrows > svg, .thumbs, .outputs, .unmask-text, .next, table';
  const visiblePictures = [...document.querySelectorAll(pictures)].filter((picture) =>
    picture.checkVisibility(),
  );
  const sides = visiblePictures.map((picture) => {
    const { width, height } = picture.getBoundingClientRect();
    // A map is square, so both of its sides must have the share.
    const isMap = picture.matches('.view-attention .heatmap');
    return isMap ? Math.min(width, height) : Math.max(width, height);
  });
  const share = Math.max(0, ...sides) / Math.min(innerWidth, innerHeight);
  const isStarted = visiblePictures.length || !document.querySelector(notStarted);
  if (isStarted && share < leastPicture - 0.003)
    problems.push(`the picture has ${share.toFixed(2)}`);
  const scales = [...document.querySelectorAll('.map-head .scale')];
  if (scales.length && !scales.some((scale) => scale.checkVisibility()))
    problems.push('the map has no color scale');
  const parts = 'button, a, input, select, textarea, canvas, svg, p, summary, td';
  for (const part of document.querySelectorAll(parts)) {
    if (!part.checkVisibility() || part.closest('.unseen, .progress')) continue;
    // The reader scrolls to the pictures below the first one, so they may lie outside the frame.
    if (part.closest('.scrolls > .figure') && !visiblePictures[0]?.contains(part)) continue;
    const { left, top, right, bottom, width } = part.getBoundingClientRect();
    const isInside = left > -1 && top > -1 && right < innerWidth + 1 && bottom < innerHeight + 1;
    if (width && !isInside) problems.push(`outside: ${part.localName}.${part.className}`);
  }
  for (const label of document.querySelectorAll(
    '.row-words span, .col-words span, .figure svg text',
  )) {
    if (!label.textContent.trim() || !label.checkVisibility()) continue;
    const scale = label.getScreenCTM?.().a ?? label.currentCSSZoom ?? 1;
    const letters = parseFloat(getComputedStyle(label).fontSize) * scale;
    if (letters < leastLetters - 0.1)
      problems.push(`${letters.toFixed(1)} px: ${label.textContent}`);
  }
  return [...new Set(problems)].slice(0, 4).join('; ');
}

/** A figure is drawn once its stamp states the length of the text, or that the view has texts of its own. */
const waitUntilDrawn = (frame) =>
  frame.waitForFunction(() =>
    /T = \d|prompts of its own/.test(document.querySelector('.stamp')?.textContent ?? ''),
  );

export const embed = {
  async 'the lab in another site’s page starts on request, ends by itself, and leaves no workers'(
    stage,
  ) {
    const settings = 'width:16,length:12,batch:4,steps:30';
    const pages = {
      '/lab.html': `<!doctype html><html lang="en"><title>A course</title><link rel="icon" href="data:,"><script type="module" src="${WRITTEN_ORIGIN}/sink-scope.js"></script>
        <main><h1>A course</h1><sink-scope view="lab" leftrun="${settings}" rightrun="operation:relu,${settings}"></sink-scope></main>`,
    };
    const site = await serveOtherSite(stage.origin, pages);
    try {
      const page = await visit(stage, `${site.address}/lab.html`);
      const trainers = [];
      page.on(
        'request',
        (request) => /lab[.\w]*\.wasm/.test(request.url()) && trainers.push(request.url()),
      );
      const lab = page.locator('sink-scope');
      const train = lab.getByRole('button', { name: 'Train' });
      await lab.locator('.train:enabled').waitFor();
      const workersBefore = page.workers();
      assert.deepEqual(trainers, [], 'nothing is fetched before the reader starts it');
      await train.click();
      await waitForRuns(page, 1);
      const trainingWorkers = page.workers().filter((worker) => !workersBefore.includes(worker));
      assert.ok(trainingWorkers.length >= 2, 'a worker for each model');
      const [{ view, detail }] = await page.evaluate(() => globalThis.runs);
      assert.equal(view, 'lab');
      assert.deepEqual(
        detail.results.map(({ steps }) => steps),
        [30, 30],
      );
      assert.match(detail.says, /gives the first token \d/);
      const sentence = await lab.locator('[data-finding]').textContent();
      assert.equal(sentence.trim(), detail.says);
      const losses = detail.results.map(({ numbers }) =>
        numbers.find(({ name }) => name === 'loss'),
      );
      for (const { shape, data } of losses) {
        assert.deepEqual(shape, [30]);
        assert.ok(Object.values(data).every(Number.isFinite));
      }
      assert.deepEqual(await violations(page), []);
      const ends = trainingWorkers.map((worker) => worker.waitForEvent('close'));
      await lab.evaluate((element) => element.remove());
      await Promise.all(ends);
      assert.deepEqual(page.troubles, []);
    } finally {
      site.close();
    }
  },

  async 'an experiment in another site’s page follows its controls and reports its measurements'(
    stage,
  ) {
    const pages = {
      '/cache.html': `<!doctype html><html lang="en"><title>A course</title><link rel="icon" href="data:,"><script type="module" src="${WRITTEN_ORIGIN}/sink-scope.js"></script>
        <main><h1>A course</h1><sink-scope view="experiment" experiment="streaming" shown="softmax" runs="2"></sink-scope></main>`,
    };
    const site = await serveOtherSite(stage.origin, pages);
    try {
      const page = await visit(stage, `${site.address}/cache.html`);
      await waitForRuns(page, 1);
      const figure = page.locator('sink-scope');
      const [{ detail }] = await page.evaluate(() => globalThis.runs);
      assert.equal(detail.view, 'experiment');
      assert.deepEqual(
        detail.results.map(({ sequences }) => sequences),
        [2, 2, 2],
      );
      const [baseline, window, firstKept] = detail.results.map(
        ({ measured }) => measured.loss_mean,
      );
      assert.ok(baseline < window && firstKept < window, `${[baseline, window, firstKept]}`);
      const finding = figure.locator('[data-finding]');
      assert.equal(await finding.textContent().then((text) => text.trim()), detail.says);
      assert.match(
        detail.says,
        /^Forget old words.* worse.*\. It keeps 24 tokens\. Worse: perplexity rises/,
      );
      // Another cache size gives another sentence with other numbers, which the attribute of the host must hold.
      await figure.getByRole('slider', { name: 'keep last' }).fill('60');
      await waitForRuns(page, 2);
      assert.match(await finding.textContent(), / worse.*\. It keeps 61 tokens/);
      assert.equal(await figure.getAttribute('recentkeys'), '60');
      assert.equal(await figure.locator('h1').count(), 0);
      assert.equal(await page.locator('link[rel=stylesheet], style').count(), 0);
      assert.match(await figure.getByRole('link').getAttribute('href'), /room=purpose/);
      assert.deepEqual(await violations(page), []);
      assert.deepEqual(page.troubles, []);
    } finally {
      site.close();
    }
  },

  async 'ten figures share one engine and one copy of each model'(stage) {
    const figures = ['attention', 'sinks', 'scores', 'norms', 'mass']
      .flatMap((view) => ['softmax', 'sigmoid'].map((shown) => ({ view, shown })))
      .map(
        (attributes) =>
          `<p>A paragraph.</p><sink-scope${Object.entries(attributes).map(formatAttribute).join('')} ` +
          'style="display: block; min-height: 900px; --sinkscope-height: 900px"></sink-scope>',
      );
    const hostPage = `${FRAME_PAGE}<script type="module" src="${stage.origin}/sink-scope.js"></script>${figures.join('')}`;
    const site = await serveOtherSite(stage.origin, { '/': hostPage });
    const page = await visit(stage, 'about:blank');
    const weights = [];
    page.on('request', (request) => {
      if (/\/(softmax|sigmoid)\/(model|packed)\./.test(request.url())) weights.push(request.url());
    });
    await page.addInitScript(() => {
      globalThis.moved = 0;
      new PerformanceObserver((list) => {
        for (const entry of list.getEntries()) globalThis.moved += entry.value;
      }).observe({ type: 'layout-shift', buffered: true });
    });
    await page.goto(site.address);
    for (const figure of await page.locator('sink-scope').all())
      await figure.scrollIntoViewIfNeeded();
    await waitForRuns(page, 10);
    assert.equal(page.workers().length, 1, 'one engine');
    assert.equal(weights.length, 2, `one copy of each model: ${weights.join(' ')}`);
    const shift = await page.evaluate(() => globalThis.moved);
    // The conditions may take a second line when the numbers arrive, but the text of the host must not move.
    assert.ok(shift < 0.05, `layout shift ${shift}`);
    const sheets = await page.evaluate(() =>
      [...document.styleSheets].flatMap(({ href }) => href ?? []),
    );
    assert.deepEqual(sheets, [], 'the host keeps its own styles');
    assert.deepEqual(page.troubles, []);
    site.close();
    return `layout shift ${shift.toFixed(4)}`;
  },

  async 'an element far from the viewport loads nothing'(stage) {
    const page = await visit(stage, `${stage.origin}/examples/plain.html`, {
      viewport: { width: 400, height: 300 },
    });
    await page.evaluate(() => {
      document.querySelector('sink-scope').remove();
      const spacer = document.createElement('div');
      spacer.style.height = '5000px';
      document.body.append(
        spacer,
        Object.assign(document.createElement('sink-scope'), { id: 'far' }),
      );
    });
    await page.waitForTimeout(500);
    const height = await page
      .locator('#far')
      .evaluate((figure) => figure.getBoundingClientRect().height);
    assert.ok(height >= 300, 'its height is kept');
    const count = await page.evaluate(() => globalThis.runs.length);
    await page.locator('#far').scrollIntoViewIfNeeded();
    await waitForRuns(page, count + 1);
  },

  'another site shows the element, and an iframe that has the height it asks for': (stage) =>
    checkOnOtherSite(stage, 'elsewhere.html', async (page, site) => {
      await waitForRuns(page, 1);
      const threads = page.workers().map((worker) => worker.url());
      assert.ok(
        threads.some((url) => url.startsWith(`blob:${site.address}/`)),
        threads.join(),
      );
      await page.locator('iframe').scrollIntoViewIfNeeded();
      const frame = await (await page.locator('iframe').elementHandle()).contentFrame();
      await waitUntilDrawn(frame);
      await page.waitForFunction(() => document.querySelector('iframe').clientHeight > 250);
      // The figure grows with its second model, and its message about that comes a moment later.
      await until(async () => {
        const requestedHeight = await frame.evaluate(() => document.documentElement.scrollHeight);
        const frameHeight = await page.locator('iframe').evaluate((one) => one.clientHeight);
        return Math.abs(requestedHeight - frameHeight) <= 2;
      });
      await page.evaluate(() => {
        const stranger = document.createElement('iframe');
        stranger.id = 'stranger';
        stranger.srcdoc = '<p>no script</p>';
        document.body.append(stranger);
        postMessage({ sinkscope: 'height', height: 1234 }, '*');
      });
      await page.waitForTimeout(200);
      const heights = await page
        .locator('iframe')
        .evaluateAll((all) => all.map((frame) => frame.style.height));
      assert.ok(!heights.includes('1234px'));
    }),

  'a host that lets no script run shows the iframe alone': (stage) =>
    checkOnOtherSite(stage, 'strict.html', async (page) => {
      const frame = await (await page.locator('iframe').elementHandle()).contentFrame();
      await waitUntilDrawn(frame);
      await page.screenshot({ path: `${pictures}/embed-strict.png` });
    }),

  async 'on a page built by Sphinx and MyST, as in Jupyter Book, the figure runs and sets its theme'(
    stage,
  ) {
    const folder = await mkdtemp(join(tmpdir(), 'sinkscope-'));
    try {
      await copyFile(join(root, 'web/examples/book.md'), join(folder, 'index.md'));
      const settings = ['extensions=myst_parser', 'html_theme=basic', 'project=book'];
      const argv = [
        '-m',
        'sphinx',
        '-q',
        '-b',
        'html',
        '-C',
        ...settings.flatMap((setting) => ['-D', setting]),
      ];
      await promisify(execFile)(join(root, '.build/tools/bin/python'), [
        ...argv,
        folder,
        join(folder, 'out'),
      ]);
      const pages = { '/book.html': await readFile(join(folder, 'out/index.html'), 'utf8') };
      const site = await serveOtherSite(stage.origin, pages);
      const page = await visit(stage, `${site.address}/book.html`);
      await waitForRuns(page, 1);
      // A book changes its theme by an attribute of the document.
      await page.addStyleTag({ content: '[data-theme=dark] body { color: #eee }' });
      await page.evaluate(() => (document.documentElement.dataset.theme = 'dark'));
      await page.waitForSelector('sink-scope[data-theme=dark]');
      site.close();
    } finally {
      await rm(folder, { recursive: true });
    }
  },

  'a figure on a slide that is hidden at first is drawn, by iframe and by element': (stage) =>
    checkOnOtherSite(stage, 'slides.html', async (page) => {
      const waitForSlide = (slide) =>
        page.waitForFunction(
          (i) => [...document.querySelectorAll('section')][i].matches('.present'),
          slide,
        );
      await page.waitForSelector('.reveal.ready');
      assert.equal(await page.locator('iframe').getAttribute('src'), null);
      await page.keyboard.press('ArrowRight');
      // The deck of slides unloads the frames of slides that the reader leaves.
      const openSlideFrame = async () => {
        const element = await page.locator('section.present iframe').elementHandle();
        const slideFrame = await element.contentFrame();
        await waitUntilDrawn(slideFrame);
        return slideFrame;
      };
      let frame = await openSlideFrame();
      await page.screenshot({ path: `${pictures}/embed-slide.png` });
      // After a click into the figure the deck still gets the keys; a map that was reached by Tab gets the keys itself.
      await frame.locator('.heatmap').first().click();
      await page.keyboard.press('ArrowLeft');
      await waitForSlide(0);
      await page.keyboard.press('ArrowRight');
      await waitForSlide(1);
      frame = await openSlideFrame();
      await frame.locator('.heatmap').first().focus();
      await page.keyboard.press('ArrowRight');
      await waitForSlide(1);
      await frame.locator('.heatmap').first().blur();
      await page.keyboard.press('ArrowRight');
      await waitForRuns(page, 1);
      await waitForSlide(2);
      const element = page.locator('sink-scope');
      assert.equal(await element.getAttribute('data-theme'), 'dark', 'the host’s theme');
      assert.equal(await element.evaluate((figure) => figure.offsetHeight), 520);
      await element.locator('.fit:not(.scrolls)').waitFor();
      await page.screenshot({ path: `${pictures}/embed-slide-element.png` });
      // The field was hidden while the map was shown; typing into the field moves no slide.
      await element.getByRole('button', { name: 'About this figure' }).click();
      await element.locator('textarea').fill('He sat at the door.');
      await page.keyboard.press('ArrowLeft');
      await page.keyboard.type('n');
      await waitForSlide(2);
      await element.getByRole('button', { name: 'About this figure' }).click();
      await element.locator('.heatmap').first().click();
      await page.keyboard.press('ArrowLeft');
      await waitForSlide(1);
    }),

  async 'on a server without CORS headers the figure falls back to a picture and a link'(stage) {
    const server = createHost({ sentHeaders: {} });
    await new Promise((done) => server.listen(0, '127.0.0.1', done));
    const origin = `http://127.0.0.1:${server.address().port}`;
    try {
      const open = await stage.open('room=explore', { waits: false });
      await open.locator('[data-view="attention"] .how summary').click();
      await open.locator('[data-view="attention"] .code').click();
      const code = await open.locator('.embed-dialog textarea').inputValue();
      const pages = { '/': `${FRAME_PAGE}${code.replaceAll(stage.origin, origin)}` };
      const site = await serveOtherSite(stage.origin, pages);
      const hostPage = await visit(stage, site.address);
      await hostPage.locator('sink-scope[data-missing]').waitFor();
      const figure = hostPage.locator('sink-scope');
      assert.match(await figure.innerText(), /could not load .*Access-Control-Allow-Origin/);
      assert.match(await figure.locator('a').getAttribute('href'), /embed\.html#/);
      await until(async () => (await figure.locator('img').boundingBox()).width > 300);
      site.close();
    } finally {
      server.close();
    }
  },

  async 'an element is as wide as its host lets it be, and as high where the host says so'(stage) {
    const element = (attributes = '') =>
      `<sink-scope shown="softmax,sigmoid" prompt="The Cat sat." ${attributes}></sink-scope>`;
    const within = (style, inside = element()) => `<div style="${style}">${inside}</div>`;
    const narrow = {
      block: element(),
      flex: within('display: flex'),
      column: within('display: flex; flex-direction: column; align-items: flex-start'),
      grid: within('display: grid'),
      table: `<table><tr><td>${element()}</td></tr></table>`,
      float: within('float: left'),
      'inline-block': within('display: inline-block'),
    };
    const high = {
      'style sheet': `<style>sink-scope { height: 400px }</style>${element()}`,
      percentage: within('height: 400px', element('style="height: 100%"')),
      unit: element('width="100%" height="50vh"'),
      pixels: element('height="400"'),
      'flex box': within('display: flex; height: 400px', element('style="flex: 1"')),
    };
    const hosts = { ...narrow, ...high };
    const pages = Object.fromEntries(
      Object.entries(hosts).map(([name, body]) => [
        `/${name}`,
        `${FRAME_PAGE}<script type="module" src="${WRITTEN_ORIGIN}/sink-scope.js"></script>${body}<p id="next" style="clear: both">The text of the host.</p>`,
      ]),
    );
    const site = await serveOtherSite(stage.origin, pages);
    try {
      const look = async (name, width) => {
        const page = await visit(stage, `${site.address}/${name}`, {
          viewport: { width, height: 800 },
        });
        await waitForRuns(page, 1);
        await page.locator('sink-scope .heatmap').nth(1).waitFor({ state: 'attached' });
        await page.locator('sink-scope .col-words span').nth(1).waitFor({ state: 'attached' });
        if (name in high) await page.locator('sink-scope .fit').waitFor();
        await staysWithin(page, width, `${name} at ${width}`);
        const box = await page.locator('sink-scope').boundingBox();
        const next = await page.locator('#next').boundingBox();
        assert.ok(next.y >= box.y + box.height, `${name}: the host's text is below the figure`);
        assert.deepEqual(page.troubles, []);
        await page.context().close();
        return box;
      };
      for (const name of Object.keys(narrow)) {
        const { width } = await look(name, 390);
        assert.ok(width > 360 && width <= 374, `${name}: ${width} px wide`);
      }
      assert.ok((await look('flex', 1280)).width > 1100, 'wide where there is room');
      for (const name of Object.keys(high))
        assert.equal((await look(name, 1000)).height, 400, name);
    } finally {
      site.close();
    }
  },

  async 'a host’s text direction, case and spacing do not reach into the figure'(stage) {
    const element =
      '<sink-scope shown="softmax" prompt="The Cat sat on the mat at noon."></sink-scope>';
    const hosts = {
      '/plain': element,
      '/rtl': `<div dir="rtl">${element}</div>`,
      '/inherited': `<div style="text-transform: uppercase; text-indent: 3em; white-space: pre; letter-spacing: 3px; word-spacing: 9px; text-align: right; word-break: break-all">${element}</div>`,
      // The line of the host is as high as the window is wide.
      '/vertical': `<div style="writing-mode: vertical-rl; margin: 0; width: 984px">${element}</div>`,
    };
    const pages = Object.fromEntries(
      Object.entries(hosts).map(([path, body]) => [
        path,
        `${FRAME_PAGE}<script type="module" src="${WRITTEN_ORIGIN}/sink-scope.js"></script>${body}`,
      ]),
    );
    const site = await serveOtherSite(stage.origin, pages);
    try {
      const looks = [];
      for (const path of Object.keys(hosts)) {
        const page = await visit(stage, site.address + path, {
          viewport: { width: 1000, height: 800 },
        });
        await waitForRuns(page, 1);
        await page.locator('sink-scope .col-words span').first().waitFor();
        const look = () =>
          page.locator('sink-scope').evaluate((figure) => {
            const left = figure.getBoundingClientRect().left;
            const placeOf = (part) => [
              part.innerText,
              Math.round(part.getBoundingClientRect().left - left),
              Math.round(part.getBoundingClientRect().width),
            ];
            const parts = '.col-words span, .row-words span, .stamp, .legend-place, h2';
            return [...figure.shadowRoot.querySelectorAll(parts)].map(placeOf);
          });
        looks.push(await readWhenStill(page, look));
        await page.context().close();
      }
      const [plain, ...others] = looks;
      assert.ok(plain.length > 12);
      for (const [i, other] of others.entries())
        assert.deepEqual(other, plain, Object.keys(hosts)[i + 1]);
    } finally {
      site.close();
    }
  },

  async 'an element directly in a dark shadow tree is dark, and draws again in another document'(
    stage,
  ) {
    const hostPage = `${FRAME_PAGE}<script type="module" src="${WRITTEN_ORIGIN}/sink-scope.js"></script>
      <div id="host"></div><iframe title="Another document" width="800" height="700"></iframe><script>
      document.getElementById('host').attachShadow({ mode: 'open' }).innerHTML =
        '<style>:host { display: block; background: #111; color: #eee }</style><sink-scope shown="softmax"></sink-scope>';
      </script>`;
    const site = await serveOtherSite(stage.origin, { '/': hostPage });
    try {
      const page = await visit(stage, site.address);
      await page.locator('sink-scope[data-live][data-theme=dark]').waitFor();
      const count = await page.evaluate(() => globalThis.runs.length);
      await page.evaluate(() => {
        const figure = document.getElementById('host').shadowRoot.querySelector('sink-scope');
        const { contentDocument } = document.querySelector('iframe');
        globalThis.moved = figure;
        figure.addEventListener('run', () => globalThis.runs.push({}));
        contentDocument.body.append(figure);
      });
      await waitForRuns(page, count + 1);
      const moved = page.frameLocator('iframe').locator('sink-scope[data-live][data-theme=light]');
      await moved.locator('.heatmap').waitFor();
      // With its styles the map is large.
      await until(async () => (await moved.locator('.heatmap').boundingBox()).width > 300);
      assert.deepEqual(page.troubles, []);
    } finally {
      site.close();
    }
  },

  async 'on paper an element shows its whole figure, whatever its box and its picture'(stage) {
    const picture = `<a href="${WRITTEN_ORIGIN}/"><img src="${WRITTEN_ORIGIN}/cards/start.png" width="100%" alt="A map"></a>`;
    const body =
      `<sink-scope shown="softmax,sigmoid" width="600" height="400"></sink-scope>` +
      `<sink-scope shown="softmax" view="norms" width="600" height="400">${picture}</sink-scope><p id="next">The text of the host.</p>`;
    const hostPage = `${FRAME_PAGE}<script type="module" src="${WRITTEN_ORIGIN}/sink-scope.js"></script>${body}`;
    const site = await serveOtherSite(stage.origin, { '/': hostPage });
    try {
      const page = await visit(stage, site.address);
      await waitForRuns(page, 2);
      await page.locator('sink-scope .fit.single').waitFor();
      await page.evaluate(() => dispatchEvent(new Event('beforeprint')));
      await page.emulateMedia({ media: 'print' });
      const [box, pictured] = await page.locator('sink-scope').all();
      const isVisible = (locator) => locator.evaluate((element) => element.checkVisibility());
      for (const part of await box.locator('.cell, .cell-head, .stamp').all())
        assert.ok(await isVisible(part), await part.innerText());
      assert.ok(await isVisible(box.locator('[data-finding]')));
      assert.deepEqual(
        [await isVisible(pictured.locator('.room')), await isVisible(pictured.locator('img'))],
        [true, false],
      );
      const bottoms = await page.evaluate(() =>
        [...document.querySelectorAll('sink-scope')].map(
          (figure) =>
            figure.getBoundingClientRect().bottom -
            figure.shadowRoot.querySelector('.figure-foot').getBoundingClientRect().bottom,
        ),
      );
      for (const bottom of bottoms) assert.ok(bottom >= -1, `${bottom}`);
      await page.emulateMedia({ media: 'screen' });
      await page.evaluate(() => dispatchEvent(new Event('afterprint')));
      await page.locator('sink-scope .fit.single').waitFor();
      assert.equal((await box.boundingBox()).height, 400);
      assert.deepEqual(page.troubles, []);
    } finally {
      site.close();
    }
  },

  async 'iframe and element have their size under a policy that forbids inline styles'(stage) {
    const page = await stage.open('room=explore', { waits: false });
    await page.locator('[data-view="attention"] .how summary').click();
    await page.locator('[data-view="attention"] .code').click();
    const dialog = page.locator('.embed-dialog');
    await dialog.getByLabel('size').selectOption('480 × 360');
    const codeFor = async (label) => {
      const labels = await dialog.getByLabel('for').locator('option').allTextContents();
      const index = labels.findIndex((text) => text.startsWith(label));
      await dialog.getByLabel('for').selectOption(String(index));
      return dialog.locator('textarea').inputValue();
    };
    for (const [label, policy] of [
      ['iframe only', `default-src 'none'; frame-src ${stage.origin}`],
      [
        'HTML element',
        `default-src 'none'; script-src ${stage.origin} blob: 'wasm-unsafe-eval'; connect-src ${stage.origin} blob:; ` +
          `img-src ${stage.origin}; worker-src blob:`,
      ],
    ]) {
      const code = (await codeFor(label)).replace(' loading="lazy"', '');
      const head = `<!doctype html><title>Strict</title><meta http-equiv="Content-Security-Policy" content="${policy}">`;
      const site = await serveOtherSite(stage.origin, { '/': `${head}${code}` });
      const hostPage = await visit(stage, site.address);
      const figure = hostPage.locator('iframe, sink-scope').first();
      if (label === 'HTML element') await waitForRuns(hostPage, 1);
      else await waitUntilDrawn(await (await figure.elementHandle()).contentFrame());
      const size = await figure.evaluate((element) => [element.clientWidth, element.clientHeight]);
      assert.deepEqual(size, [480, 360], label);
      site.close();
    }
  },

  async 'where a system forces its colors, scales and swatches keep those of the pictures'(stage) {
    const lookAt = async (hash, selector, pseudo) => {
      const page = await visit(stage, `${stage.origin}/embed.html#${hash}`, {
        forcedColors: 'active',
      });
      await waitUntilDrawn(page);
      const part = page.locator(selector).first();
      await part.waitFor();
      const background = await part.evaluate((element, name) => {
        const { backgroundImage, backgroundColor } = getComputedStyle(element, name);
        return `${backgroundImage} ${backgroundColor}`;
      }, pseudo);
      await page.context().close();
      return background;
    };
    assert.match(await lookAt('view=attention', '.scale .legend-bar'), /^linear-gradient/);
    assert.match(await lookAt('view=sinks', '.scale .legend-bar'), /^linear-gradient/);
    assert.match(
      await lookAt('view=norms', '[style*="--swatch"]', '::before'),
      /rgb\(176, 48, 90\)/,
    );
  },

  async 'an embed is usable at 320 px'(stage) {
    for (const view of ['attention', 'sinks', 'training', 'unmasking']) {
      const shown = view === 'unmasking' ? '&shown=diffusion' : '';
      const page = await visit(
        stage,
        `${stage.origin}/embed.html#view=${view}${shown}&controls=text,step`,
        {
          viewport: { width: 320, height: 700 },
        },
      );
      await waitUntilDrawn(page);
      await staysWithin(page, 320, view);
      await page.screenshot({ path: `${pictures}/embed-320-${view}.png`, fullPage: true });
      assert.deepEqual(await violations(page), [], view);
      assert.deepEqual(page.troubles, [], view);
      await page.context().close();
    }
  },

  async 'every view is in the test of frame sizes'() {
    const viewNames = readdirSync(join(root, 'web/src/views'))
      .filter((name) => name.endsWith('.ts'))
      .map((name) => readFileSync(join(root, 'web/src/views', name), 'utf8'))
      .flatMap((text) =>
        [...text.matchAll(/: View = \{\s+name: '([\w-]+)'/g)].map(([, name]) => name),
      );
    assert.deepEqual(viewNames.toSorted(), Object.keys(FITTING).toSorted());
  },

  ...Object.fromEntries(
    Array.from({ length: PARTS }, (_, part) => [
      `the picture is the figure in frames of five sizes, part ${part + 1} of ${PARTS} of the views`,
      (stage) =>
        fitsAllSizes(
          stage,
          Object.entries(FITTING).filter((_, i) => i % PARTS === part),
        ),
    ]),
  ),

  async 'a button shows what a small frame hides'(stage) {
    const site = await serveOtherSite(stage.origin, {
      '/': `${FRAME_PAGE.replace('<title>', '<html lang="en"><title>')}<main><h1>A course</h1><iframe width="280" height="240" title="A map" src="${stage.origin}/embed.html#view=attention"></iframe></main>`,
    });
    const page = await visit(stage, site.address);
    const frame = await (await page.locator('iframe').elementHandle()).contentFrame();
    await waitUntilDrawn(frame);
    // A hidden stamp says nothing before the figure has both models and fits its frame.
    await frame.locator('.cell').nth(1).waitFor({ state: 'attached' });
    await frame.locator('.fit .cell.current').waitFor();
    const stamp = frame.locator('.cell.current .stamp');
    await stamp.waitFor({ state: 'hidden' });
    const info = frame.getByRole('button', { name: 'About this figure' });
    await info.click();
    await frame.locator('.stamp').first().waitFor();
    assert.match(await frame.locator('[data-finding]').innerText(), /start token <s>/);
    await info.click();
    await stamp.waitFor({ state: 'hidden' });
    const models = frame.getByRole('group', { name: 'Model' }).getByRole('button');
    const visibility = () =>
      frame.locator('.cell').evaluateAll((all) => all.map((cell) => cell.checkVisibility()));
    assert.deepEqual(await visibility(), [true, false]);
    await models.nth(1).click();
    await frame.locator('.cell').nth(1).waitFor();
    assert.deepEqual(await visibility(), [false, true]);
    assert.deepEqual(await violations(page), []);
    assert.deepEqual(page.troubles, []);
    site.close();
  },

  'a host with our script: the frame has its height and the theme of its page': (stage) =>
    checkOnOtherSite(stage, 'elsewhere.html', async (page) => {
      await page.locator('iframe').scrollIntoViewIfNeeded();
      const frame = await (await page.locator('iframe').elementHandle()).contentFrame();
      await waitUntilDrawn(frame);
      const waitForTheme = (theme) =>
        frame.waitForFunction((name) => document.documentElement.dataset.theme === name, theme);
      await page.evaluate(() => (document.body.style.color = '#eee'));
      await waitForTheme('dark');
      await page.evaluate(() => (document.body.style.color = '#111'));
      await waitForTheme('light');
      assert.equal(await frame.evaluate(() => document.body.classList.contains('fit')), false);
    }),

  'a host’s theme is followed, whatever it is written in and however slowly it changes': (stage) =>
    checkOnOtherSite(stage, 'elsewhere.html', async (page) => {
      await page.locator('sink-scope').first().scrollIntoViewIfNeeded();
      await page.waitForSelector('sink-scope[data-live]');
      const waitForTheme = (theme) =>
        page.waitForSelector(`sink-scope[data-live][data-theme=${theme}]`);
      await waitForTheme('light');
      // A wrapper inside the body has the theme class. Its color has a transition, in the notation of Tailwind.
      await page.evaluate(() => {
        const element = document.querySelector('sink-scope[data-live]');
        const wrapper = document.createElement('div');
        element.before(wrapper);
        wrapper.append(element);
        const style = document.createElement('style');
        style.textContent =
          '.wrapper { transition: color 0.2s, background-color 0.2s; color: oklch(0.21 0.03 260); background: oklch(0.98 0 0) }' +
          '.wrapper.night { color: oklch(0.93 0.01 260); background: oklch(0.2 0.03 260) }' +
          '.wrapper.gray { color: #808080; background: black }';
        document.head.append(style);
        wrapper.className = 'wrapper';
      });
      await waitForTheme('light');
      const setClass = (name) =>
        page.evaluate(
          (className) => (document.querySelector('.wrapper').className = className),
          name,
        );
      await setClass('wrapper night');
      await waitForTheme('dark');
      await setClass('wrapper');
      await waitForTheme('light');
      // The element finds the theme from the color of the letters; it compares gray letters with their background.
      await setClass('wrapper gray');
      await waitForTheme('dark');
      // The page takes another stylesheet, as if a host exchanged the address of its stylesheet.
      await setClass('wrapper');
      await waitForTheme('light');
      await page.evaluate(() => {
        const sheet = document.createElement('style');
        sheet.textContent = '.wrapper { color: white !important; background: black !important }';
        document.head.append(sheet);
      });
      await waitForTheme('dark');
    }),

  async 'the button </> gives code that shows the same figure in another page'(stage) {
    const page = await stage.open('room=explore&shown=softmax&T=16', { waits: false });
    await page.locator('[data-view="attention"] .how summary').click();
    await page.locator('[data-view="attention"] .code').click();
    const dialog = page.locator('.embed-dialog');
    await dialog.locator('iframe').waitFor();
    await waitUntilDrawn(await (await dialog.locator('iframe').elementHandle()).contentFrame());
    assert.deepEqual(await violations(page), []);
    await page.screenshot({ path: `${pictures}/embed-dialog.png` });
    const hosts = dialog.getByLabel('for');
    const kinds = await hosts.locator('option').allTextContents();
    for (const [i, kind] of kinds.entries()) {
      await hosts.selectOption(String(i));
      const text = await dialog.locator('textarea').inputValue();
      const markup = (await pageOfHost(text))
        .replace('data-src', 'src')
        .replace(' loading="lazy"', '');
      const pages = { '/': `<!doctype html><title>A course</title>${markup}` };
      const site = await serveOtherSite(stage.origin, pages);
      const hostPage = await visit(stage, site.address);
      if (!markup.includes('<iframe')) {
        await waitForRuns(hostPage, 1);
        const [{ detail }] = await hostPage.evaluate(() => globalThis.runs);
        assert.equal(detail.results[0].T, 16, kind);
      } else {
        const frame = await (await hostPage.locator('iframe').elementHandle()).contentFrame();
        await waitUntilDrawn(frame);
        assert.match(await frame.locator('.stamp').first().textContent(), /T = 16/, kind);
      }
      await hostPage.context().close();
      site.close();
    }
    return kinds.join(', ');
  },
};
