import { cpSync, mkdirSync } from 'node:fs';
import { resolve } from 'node:path';
import { defineConfig } from 'vite';

const root = import.meta.dirname;
/** Beside the page that somebody may be looking at, a test may build its own. */
const out = resolve(root, process.env.SINKSCOPE_PAGE ?? '../.build/page');

/**
 * What the page's own thread fetches first; the browser may begin at once. What the worker fetches
 * is left out: a preload would not be its.
 */
const FIRST = [
  'zoo/index.json',
  ...['tokenizer.json', 'tokenizer_config.json'].flatMap((name) => [
    `zoo/softmax/${name}`,
    `zoo/sigmoid/${name}`,
  ]),
];

/** The engine's binaries and the zoo lie beside the page as they are. */
function ship() {
  return {
    name: 'ship',
    transformIndexHtml: () =>
      FIRST.map((href) => ({
        tag: 'link',
        attrs: { rel: 'preload', as: 'fetch', crossorigin: '', href },
        injectTo: 'head' as const,
      })),
    closeBundle() {
      mkdirSync(`${out}/engine`, { recursive: true });
      for (const name of ['sinkscope.wasm', 'sinkscope.simd.wasm'])
        cpSync(resolve(root, '../.build/wasm', name), `${out}/engine/${name}`);
      cpSync(resolve(root, '../models/zoo'), `${out}/zoo`, { recursive: true });
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
    rollupOptions: {
      input: { index: resolve(root, 'index.html'), embed: resolve(root, 'embed.html') },
    },
  },
  plugins: [ship()],
  test: { include: ['test/*.test.ts'] },
} as never);
