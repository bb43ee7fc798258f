import { cpSync, existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { defineConfig, type Plugin } from 'vite';
import { buildInto, SHARED } from './ship/build.ts';
import { shareable } from './ship/cards.ts';
import { home, source } from './ship/home.ts';
import { course, isLesson } from './ship/lessons.ts';
import { writeNotices } from './ship/notices.ts';
import { buildServiceWorker } from './ship/offline.ts';
import { filesOf, Part, seedsAmong } from './ship/parts.ts';
import { plain } from './ship/plain.ts';
import { APART, policy } from './ship/policy.ts';

const root = import.meta.dirname;
/** A test may build its own page in another folder. */
const out = resolve(root, process.env.SINKSCOPE_PAGE ?? '../.build/page');
const binaries = resolve(root, '../.build/wasm');
const models = resolve(root, process.env.SINKSCOPE_ZOO ?? '../models/zoo');
const zoo = new Part('zoo', models);
/** Recordings of real models, each fetched on request. */
const recorded = resolve(root, process.env.SINKSCOPE_RECORDINGS ?? '../models/recordings');
const isRecording = (file: string) => file.endsWith('.safetensors');
const shipped = existsSync(recorded) ? filesOf(recorded).filter(isRecording) : [];
const recordings = shipped.length ? new Part('recordings', recorded, isRecording) : undefined;
/**
 * Files that the page's own thread fetches first, so that the browser preloads them. The worker's files are left out: a
 * preload does not serve a worker.
 */
interface Listed {
  readonly id: string;
  readonly tokenizer: string;
  readonly preview?: { readonly file: string };
}
const first = (JSON.parse(readFileSync(zoo.file('index.json'), 'utf8')) as Listed[]).filter(
  ({ preview }) => preview,
);
const tokenizers = new Set(first.map(({ tokenizer }) => `${tokenizer}/tokenizer.json`));
const PRELOADED = ['index.json', ...tokenizers];
/**
 * Files of the zoo that the service worker precaches: those of the first screen, and the texts and figures of a
 * comparison.
 */
const KEPT = [
  ...PRELOADED,
  'heldout.json',
  'reported.json',
  ...first.map(({ id, preview }) => `${id}/${preview!.file}`),
];

function withoutUnread(cards: readonly { readonly license: string; readonly exact: object }[]) {
  return cards.map(({ license: _, exact: __, ...card }) => card);
}

function ship(): Plugin {
  let engine: Part | undefined;
  return {
    name: 'ship',
    config() {
      // Unit tests run without a compiler; those that need the binaries find them by themselves.
      if (!process.env.VITEST)
        engine = new Part('engine', binaries, (file) =>
          /^sinkscope[.\w]*\.(wasm|json)$/.test(file),
        );
      return {
        define: {
          ENGINE: JSON.stringify(engine?.path ?? ''),
          ZOO: JSON.stringify(zoo.path),
          RECORDINGS: JSON.stringify(recordings?.path ?? 'recordings/'),
          SHIPPED: JSON.stringify(shipped),
          SEEDS: JSON.stringify(seedsAmong(zoo.files)),
          SOURCE: JSON.stringify(source),
          HOME: JSON.stringify(''),
          PLATES: JSON.stringify(home !== ''),
        },
      };
    },
    transformIndexHtml: (_, { path }) => [
      // A lesson is read before its first figure is seen.
      ...(isLesson(path) ? [] : PRELOADED).map((name) => ({
        tag: 'link',
        attrs: { rel: 'preload', as: 'fetch', crossorigin: '', href: zoo.path + name },
        injectTo: 'head' as const,
      })),
    ],
    async closeBundle() {
      cpSync(resolve(root, 'examples'), `${out}/examples`, { recursive: true });
      engine!.copyTo(out);
      zoo.copyTo(out);
      // Every first visit fetches these; a third of the list and half of a tokenizer are the space that readers need,
      // and of a model the page reads neither the license nor the measurements before rounding.
      for (const name of PRELOADED) {
        const read = JSON.parse(readFileSync(zoo.file(name), 'utf8'));
        const shown = name === 'index.json' ? withoutUnread(read) : read;
        writeFileSync(join(out, zoo.path, name), JSON.stringify(shown));
      }
      recordings?.copyTo(out);
      const kept = KEPT.map((name) => zoo.path + name);
      await buildServiceWorker(out, zoo.path, kept);
      writeNotices(out, ['NOTICES.page.md', 'NOTICES.sw.md'], resolve(binaries, 'NOTICES.md'));
    },
  };
}

export default defineConfig({
  ...SHARED,
  preview: { headers: APART },
  build: buildInto(
    out,
    {
      // What the first screen is made of comes as one file, not as a dozen. What it shares with a
      // later one, as the cache is, would be a file of its own and make the bundler's runtime another.
      groups: [
        {
          name: 'first',
          test: /(src\/(rooms\/start|run\/queue|ask\/zoo|page\/trust)|wasm\/(engine\/client|loading\/cache))\.[jt]s$/,
        },
        // A host's page shares that code, and must not load the page's styles with it.
        {
          name: 'style',
          priority: 1,
          test: /src\/(page\/(base|page|controls|figure|print)|plot\/(heatmap|chart|rose)|views\/views|rooms\/start)\.css$/,
        },
      ],
    },
    { index: resolve(root, 'index.html'), embed: resolve(root, 'embed.html') },
  ),
  plugins: [course(), policy(), shareable(home), plain(), ship()],
  // A busy machine takes its time; no test waits for a limit to pass.
  test: {
    include: ['test/*.test.ts'],
    testTimeout: 60_000,
    expect: { poll: { timeout: 30_000 } },
  },
} as never);
