/** Settings that the builds of the page and of the package sinkscope-page share. */
import { resolve } from 'node:path';
import type { BuildOptions, UserConfig } from 'vite';

const root = resolve(import.meta.dirname, '..');

export const SHARED_CONFIG = {
  root,
  base: './',
  publicDir: false,
  resolve: {
    alias: [
      { find: 'sinkscope/internal', replacement: resolve(root, '../wasm/internal.ts') },
      { find: 'sinkscope', replacement: resolve(root, '../wasm/index.ts') },
      // The page uses lit's templates. Its main module would also load its base class of elements, 4 KB compressed.
      { find: /^lit$/, replacement: 'lit/html.js' },
    ],
  },
  worker: { format: 'es' },
} satisfies UserConfig;

type Output = BuildOptions['rollupOptions'];

const ENTRIES = {
  'sink-scope': resolve(root, 'src/embed/element.ts'),
  'sink-widget': resolve(root, 'src/embed/widget.ts'),
};

/** Returns Vite's options for a folder `out`, with further entries `pages` and modules that share files. */
export function buildOptions(out: string, codeSplitting: object, pages: object = {}): BuildOptions {
  return {
    outDir: out,
    emptyOutDir: true,
    target: 'es2022',
    modulePreload: { polyfill: false },
    license: { fileName: 'NOTICES.page.md' },
    rollupOptions: {
      // Silences a warning: the worker imports the cache lazily, but the page imports it at once.
      checks: { ineffectiveDynamicImport: false },
      input: { ...pages, ...ENTRIES },
      preserveEntrySignatures: 'exports-only',
      output: {
        entryFileNames: ({ name }: { name: string }) =>
          name.startsWith('sink-') ? '[name].js' : 'assets/[name]-[hash].js',
        codeSplitting,
      },
    } as Output,
  };
}
