import { cpSync } from 'node:fs';
import { resolve } from 'node:path';
import { defineConfig, type Plugin } from 'vite';
import { writeNotices } from './ship/notices.ts';
import { buildServiceWorker } from './ship/offline.ts';
import { Part } from './ship/parts.ts';
import { plain } from './ship/plain.ts';
import { policy } from './ship/policy.ts';

const root = import.meta.dirname;
/** Beside the page that somebody may be looking at, a test may build its own. */
const out = resolve(root, process.env.SINKSCOPE_PAGE ?? '../.build/page');
const binaries = resolve(root, '../.build/wasm');
const zoo = new Part('zoo', resolve(root, process.env.SINKSCOPE_ZOO ?? '../models/zoo'));

/**
 * What the page's own thread fetches first; the browser may begin at once. What the worker fetches
 * is left out: a preload would not be its.
 */
const FIRST = ['softmax', 'sigmoid'];
const PRELOADED = ['tokenizer.json', 'tokenizer_config.json'];
/** Of these the service worker keeps what the first screen and a comparison read. */
const KEPT = [...PRELOADED, 'config.json', 'model.safetensors'];
const ofFirst = (names: readonly string[]) => [
  `${zoo.path}index.json`,
  ...FIRST.flatMap((model) => names.map((name) => `${zoo.path}${model}/${name}`)),
];

function ship(): Plugin {
  let engine: Part;
  return {
    name: 'ship',
    config() {
      engine = new Part('engine', binaries, (file) => /^sinkscope[.\w]*\.wasm$/.test(file));
      return { define: { ENGINE: JSON.stringify(engine.path), ZOO: JSON.stringify(zoo.path) } };
    },
    transformIndexHtml: () =>
      [`${zoo.path}index.json`, ...PRELOADED.map((name) => `${zoo.path}softmax/${name}`)].map(
        (href) => ({
          tag: 'link',
          attrs: { rel: 'preload', as: 'fetch', crossorigin: '', href },
          injectTo: 'head' as const,
        }),
      ),
    async closeBundle() {
      cpSync(resolve(root, 'examples'), `${out}/examples`, { recursive: true });
      engine.copyTo(out);
      zoo.copyTo(out);
      const kept = [`${zoo.path}heldout.json`, ...ofFirst(KEPT)];
      await buildServiceWorker(out, zoo.path, kept);
      writeNotices(out, ['NOTICES.page.md', 'NOTICES.sw.md'], resolve(binaries, 'NOTICES.md'));
    },
  };
}

export default defineConfig({
  root,
  base: './',
  publicDir: false,
  resolve: { alias: { sinkscope: resolve(root, '../wasm/index.js') } },
  worker: { format: 'es' },
  build: {
    outDir: out,
    emptyOutDir: true,
    target: 'es2022',
    modulePreload: { polyfill: false },
    license: { fileName: 'NOTICES.page.md' },
    rollupOptions: {
      input: {
        index: resolve(root, 'index.html'),
        embed: resolve(root, 'embed.html'),
        'sink-scope': resolve(root, 'src/embed/element.ts'),
      },
      output: {
        entryFileNames: ({ name }: { name: string }) =>
          name === 'sink-scope' ? 'sink-scope.js' : 'assets/[name]-[hash].js',
      },
    },
  },
  plugins: [policy(), plain(), ship()],
  test: { include: ['test/*.test.ts'] },
} as never);
