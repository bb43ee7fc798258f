/**
 * Measures the peak memory of the page's process while it opens and runs a large model, compared with other engines.
 *
 *     node tests/bench/memory.mjs [gpt2.f32 smollm2.f32 gpt2.q8_0]     after web/serve --build-only
 *     node tests/bench/memory.mjs by-T [MODEL.gguf] [T ...]            of the page only, for texts of T tokens
 *
 * Each engine gets its own Chromium and the same random weights. The whole page opens them by its dialog, from the
 * disk and from a hub whose downloads it keeps; the other engines run on an empty page. The table has the memory of
 * the renderer before the opening, then peaks in MB (VmHWM of /proc/PID/status, reset before each): of opening, which
 * for the page includes a run over 8 tokens, and of runs over 64 and 256 tokens that show maps and default metrics.
 * Some 130 MB of each number are Chromium itself.
 *
 * With by-T, each length gets its own Chromium. The table ends with a linear fit and the largest deviation from it,
 * because the memory of a run should grow with T and not with its square.
 */
import {
  createReadStream,
  existsSync,
  mkdirSync,
  readFileSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { createServer } from 'node:http';
import { basename, extname, join, normalize } from 'node:path';
import {
  CHROMIUM,
  TYPES,
  chromium,
  createHost,
  openFiles,
  root,
  settled,
} from '../browser/stage.mjs';
import { openHub } from '../hub/server.mjs';
import { SHAPES, randomFile } from './peers/gguf.mjs';
import { onnxFile } from './peers/onnx.mjs';
import { bytesOf, forgetPeak, renderers } from './process.mjs';

const folder = join(root, '.build/bench/memory');
const modules = join(root, '.build/bench/node_modules');
const isByT = process.argv[2] === 'by-T';
const files = process.argv.slice(isByT ? 3 : 2);
if (!files.length && !isByT) files.push('gpt2.f32', 'smollm2.f32', 'gpt2.q8_0');
const SMOLLM2 = join(root, 'models/.fetched/SmolLM2-135M-Instruct.Q4_1.gguf');
const HUB = 'sinkscope/quantized';
const MB = 1e6;

/** Returns the path of a file of random weights. The first call writes the file. */
function fileOf(file, kind) {
  mkdirSync(folder, { recursive: true });
  if (extname(file) === '.gguf') return file;
  const path = join(folder, `${file}.${kind}`);
  if (existsSync(path)) return path;
  const [shape, type] = file.split('.');
  const content = randomFile(shape, type);
  const eight = type === 'q8_0';
  writeFileSync(path, kind === 'gguf' ? content : onnxFile(content, shape, type, { eight }));
  return path;
}

async function visit(page, origin) {
  await page.goto(`${origin}/#room=explore&shown=softmax&input=random&T=8`);
  await page.waitForFunction(() => performance.getEntriesByName('first-sink').length > 0);
  await settled(page);
}

async function waitForStamp(page, stampText) {
  await page.waitForFunction(
    (text) => document.querySelector('[data-view="attention"] .stamp')?.textContent.includes(text),
    stampText,
    { timeout: 1_200_000 },
  );
  await settled(page);
}

async function readAgain(page, T) {
  // The address follows the state of the page a moment later.
  await page.waitForFunction(() => !location.hash.includes('=softmax'));
  // The address may lack T: a link omits defaults.
  await page.evaluate((n) => {
    location.hash = `${location.hash.replace(/&T=\d+/, '')}&T=${n}`;
  }, T);
  await waitForStamp(page, `T = ${T}`);
}

const pageFrom = (choose) => async (page, file) => {
  const allowed = [];
  const host = createHost({ allowed });
  await new Promise((done) => host.listen(0, '127.0.0.1', done));
  const steps = await choose(page, file, allowed);
  await visit(page, `http://127.0.0.1:${host.address().port}`);
  return { ...steps, read: (T) => readAgain(page, T), close: () => host.close() };
};

const fromDisk = pageFrom((page, file) => ({
  async open() {
    const path = fileOf(file, 'gguf');
    await openFiles(page, path);
    await waitForStamp(page, basename(path).replace(/\.gguf$/, ''));
  },
}));

const fromHub = pageFrom(async (page, file, allowed) => {
  const hub = await openHub();
  hub.repository(HUB).revisions.main.files[`${file}.gguf`] = readFileSync(fileOf(file, 'gguf'));
  allowed.push(hub.endpoint, hub.cdn);
  const endpoint = JSON.stringify(hub.endpoint);
  await page.addInitScript(`localStorage.setItem('sinkscope.endpoint', ${endpoint})`);
  return {
    async open() {
      await page.getByRole('button', { name: 'Open a model' }).click();
      await page.fill('#open-name', `${HUB}/${file}.gguf`);
      await page.keyboard.press('Enter');
      await page.click('#open .primary');
      await waitForStamp(page, `${file}.gguf`);
    },
  };
});

const folders = {
  '/wllama/': join(modules, '@wllama/wllama/esm'),
  '/ort/': join(modules, 'onnxruntime-web/dist'),
  '/peers/': join(root, 'tests/bench/peers'),
  '/files/': folder,
};

/** Returns a function that runs another engine on an empty page, where `engines.mjs` finds its imports. */
const peerEngine = (maker, kind) => async (page, file) => {
  const path = fileOf(file, kind);
  const server = createServer((request, response) => {
    const requestPath = normalize(new URL(request.url, 'http://x').pathname);
    if (requestPath === '/') {
      response.setHeader('content-type', 'text/html');
      return response.end('<!doctype html><input type="file">');
    }
    const folderPath =
      Object.keys(folders).find((prefix) => requestPath.startsWith(prefix)) ?? '/peers/';
    const file = join(
      folders[folderPath],
      requestPath.startsWith(folderPath) ? requestPath.slice(folderPath.length) : requestPath,
    );
    if (!existsSync(file)) return response.writeHead(404).end();
    const type = { ...TYPES, '.mjs': TYPES['.js'] }[extname(file)];
    response.setHeader('content-type', type ?? 'application/octet-stream');
    response.setHeader('content-length', statSync(file).size);
    createReadStream(file).pipe(response);
  });
  await new Promise((done) => server.listen(0, '127.0.0.1', done));
  await page.goto(`http://127.0.0.1:${server.address().port}/`);
  if (kind === 'gguf') await page.setInputFiles('input', path);
  const { V } = SHAPES[file.split('.')[0]].sizes;
  const read = (T) =>
    page.evaluate(
      async ([n, vocabulary]) => {
        await globalThis.engine.read(Array.from({ length: n }, (_, i) => (i * 7919) % vocabulary));
        await globalThis.engine.top(1);
      },
      [T, V],
    );
  return {
    async open() {
      await page.evaluate(
        async ([name, of, address]) => {
          const makers = await import('/engines.mjs');
          const [shape, type] = of.split('.');
          const peers = await makers[name]({ shape, type, eight: type === 'q8_0' });
          globalThis.engine = peers.open ? peers : Object.values(peers)[0];
          const input = document.querySelector('input').files[0];
          await globalThis.engine.open(input ?? address);
        },
        [maker, file, `/files/${file}.${kind}`],
      );
    },
    read,
    close: () => server.close(),
  };
};

const ENGINES = { 'the page, from disk': fromDisk, 'the page, from a hub': fromHub };
if (existsSync(folders['/ort/']))
  Object.assign(ENGINES, {
    'wllama, from disk': peerEngine('wllama', 'gguf'),
    'onnxruntime-web, maps': peerEngine('onnxruntime', 'onnx'),
  });
else if (!isByT) console.log('without the other engines, which tests/bench/peers/run installs');

async function measure(begin, file, lengths = [64, 256]) {
  const browser = await chromium.launch(CHROMIUM);
  try {
    const page = await (await browser.newContext({ serviceWorkers: 'block' })).newPage();
    const subject = await begin(page, file);
    // Besides the renderer of the page there may be a spare one, which stays small.
    const pids = await renderers();
    const largestOf = async (name) =>
      Math.round(Math.max(...(await Promise.all(pids.map((pid) => bytesOf(pid, name))))) / MB);
    const sizes = [await largestOf('VmRSS')];
    for (const step of [subject.open, ...lengths.map((T) => () => subject.read(T))]) {
      await Promise.all(pids.map(forgetPeak));
      await step();
      sizes.push(await largestOf('VmHWM'));
    }
    subject.close();
    return sizes;
  } finally {
    await browser.close();
  }
}

const printRow = (label, cells) =>
  console.log(label.padEnd(44), ...cells.map((cell) => `${cell}`.padStart(7)));
function lineThrough(points) {
  const mean = (pick) => points.reduce((sum, point) => sum + pick(point), 0) / points.length;
  const [x, y] = [mean(([point]) => point), mean(([, point]) => point)];
  const slope = mean(([a, b]) => (a - x) * (b - y)) / mean(([a]) => (a - x) ** 2);
  const largestError = Math.max(...points.map(([a, b]) => Math.abs(b - y - slope * (a - x))));
  return { slope, start: y - slope * x, largestError };
}

async function tableByT([file = SMOLLM2, ...lengths]) {
  if (!existsSync(file))
    throw new Error(`${file}: expected a model; models/fetch/smollm2 gets one`);
  const tokenCounts = lengths.length ? lengths.map(Number) : [512, 1024, 2048, 4096];
  console.log(`${basename(file)} in the page, MB of the renderer at most (VmHWM)`);
  printRow('T', ['opened', 'run', 'a token, kB']);
  const points = [];
  for (const T of tokenCounts) {
    const [, opened, most] = await measure(fromDisk, file, [T]);
    points.push([T, most]);
    printRow(`${T}`, [opened, most, Math.round((1e3 * (most - opened)) / T)]);
  }
  const { slope, start, largestError } = lineThrough(points);
  const words = `${Math.round(start)} MB and ${Math.round(1e3 * slope)} kB a token`;
  console.log(`the line through them: ${words}, at most ${Math.round(largestError)} MB off`);
}

if (isByT) {
  await tableByT(files);
  process.exit();
}
printRow('MB of the renderer', ['before', 'opened', 'T=64', 'T=256']);
for (const file of files)
  for (const [name, begin] of Object.entries(ENGINES)) {
    const size = Math.round(statSync(fileOf(file, 'gguf')).size / MB);
    const cells = await measure(begin, file).catch(({ message }) => [message.split('\n')[0]]);
    printRow(`${file} (${size} MB), ${name}`, cells);
  }
process.exit();
