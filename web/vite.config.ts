import { cpSync, existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { defineConfig, type Plugin } from 'vite';
import { buildOptions, SHARED_CONFIG } from './ship/build.ts';
import { previews } from './ship/cards.ts';
import { home, source } from './ship/home.ts';
import { course, isCoursePage } from './ship/lessons.ts';
import { writeNotices } from './ship/notices.ts';
import { buildServiceWorker } from './ship/offline.ts';
import { testedClaims } from './ship/facts.ts';
import { filesOf, Part, seedsByModel } from './ship/parts.ts';
import { fallbackPage } from './ship/plain.ts';
import { ISOLATION, policy } from './ship/policy.ts';
import type { Card, Measurement } from './src/ask/zoo.ts';

const root = import.meta.dirname;
/** The folder of the built page; a test may build its own page in another one. */
const out = resolve(root, process.env.SINKSCOPE_PAGE ?? '../.build/page');
const binaries = resolve(root, '../.build/wasm');
const models = resolve(root, process.env.SINKSCOPE_ZOO ?? '../models/zoo');
const zoo = new Part('zoo', models);
const recordingsFolder = resolve(root, process.env.SINKSCOPE_RECORDINGS ?? '../models/recordings');
const isRecording = (file: string) => file.endsWith('.safetensors');
const shipped = existsSync(recordingsFolder) ? filesOf(recordingsFolder).filter(isRecording) : [];
const recordings = shipped.length
  ? new Part('recordings', recordingsFolder, isRecording)
  : undefined;
const cards = JSON.parse(readFileSync(zoo.sourceOf('index.json'), 'utf8')) as Card[];
const packedModels = cards.filter(({ packed }) => packed);
const tokenizers = new Set(packedModels.map(({ tokenizer }) => `${tokenizer}/tokenizer.json`));
/**
 * Files that the page's main thread fetches first, so that the browser preloads them. The worker's files are left out:
 * a preload does not serve a worker.
 */
const PRELOADED = ['index.json', ...tokenizers];
/** Precached by the service worker: the first screen's files, and the texts and figures of a comparison. */
const PRECACHED = [
  ...PRELOADED,
  'heldout.json',
  'reported.json',
  ...packedModels.map(({ id, packed }) => `${id}/${packed!.file}`),
];

const READ_MEASUREMENTS = Object.keys({
  sink_1: true,
  sink_bias: true,
  sink_1_raw: true,
  value_ratio: true,
  loss: true,
  eps: true,
  T: true,
  sequences: true,
} satisfies Record<Measurement, true>);

interface ShippedCard {
  readonly license: string;
  readonly exact: object;
  readonly measured: Readonly<Record<string, unknown>>;
}

function withoutUnreadFields(cards: readonly ShippedCard[]) {
  return cards.map(({ license: _, exact: __, measured, ...card }) => ({
    ...card,
    measured: Object.fromEntries(
      READ_MEASUREMENTS.flatMap((name) => (name in measured ? [[name, measured[name]]] : [])),
    ),
  }));
}

function ship(): Plugin {
  let engine: Part | undefined;
  return {
    name: 'ship',
    config() {
      // Unit tests may run before the engine is compiled; those that need its binaries find them by themselves.
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
          SEEDS: JSON.stringify(seedsByModel(zoo.files)),
          CLAIMS: JSON.stringify(testedClaims()),
          SOURCE: JSON.stringify(source),
          HOME: JSON.stringify(''),
        },
      };
    },
    transformIndexHtml: (_, { path }) => [
      // Lessons preload nothing, since a reader sees text before the first figure.
      ...(isCoursePage(path) ? [] : PRELOADED).map((name) => ({
        tag: 'link',
        attrs: { rel: 'preload', as: 'fetch', crossorigin: '', href: zoo.path + name },
        injectTo: 'head' as const,
      })),
    ],
    async closeBundle() {
      cpSync(resolve(root, 'examples'), `${out}/examples`, { recursive: true });
      engine!.copyTo(out);
      zoo.copyTo(out);
      // Every first visit fetches some of these files; a quarter to a half of their size is indentation.
      // The page does not read a model's license or the measurements before rounding.
      for (const name of zoo.files.filter((one) => one.endsWith('.json'))) {
        const content = JSON.parse(readFileSync(zoo.sourceOf(name), 'utf8'));
        const shippedContent = name === 'index.json' ? withoutUnreadFields(content) : content;
        writeFileSync(join(out, zoo.path, name), JSON.stringify(shippedContent));
      }
      recordings?.copyTo(out);
      const precached = PRECACHED.map((name) => zoo.path + name);
      await buildServiceWorker(out, zoo.path, precached);
      writeNotices(out, ['NOTICES.page.md', 'NOTICES.sw.md'], resolve(binaries, 'NOTICES.md'));
    },
  };
}

export default defineConfig({
  ...SHARED_CONFIG,
  preview: { headers: ISOLATION },
  build: buildOptions(
    out,
    {
      // Puts all code of the first screen into one file instead of a dozen.
      // Names modules that later screens share: the bundler would otherwise make a file of them and one of its runtime.
      groups: [
        {
          name: 'first',
          test: /(src\/(rooms\/start|run\/(queue|models)|ask\/zoo|page\/(trust|elapsed))|wasm\/(engine\/client|load\/engine))\.[jt]s$/,
        },
        // Keeps the page's styles apart from the code of the first screen, which figures on other sites load as well.
        {
          name: 'style',
          priority: 1,
          test: /src\/(page\/(base|page|controls|figure|print)|plot\/(heatmap|chart)|views\/views|rooms\/start)\.css$/,
        },
      ],
    },
    { index: resolve(root, 'index.html'), embed: resolve(root, 'embed.html') },
  ),
  plugins: [course(), policy(), previews(home), fallbackPage(), ship()],
  // The limits are long for busy machines; no test waits for a limit to pass.
  test: {
    include: ['test/*.test.ts'],
    setupFiles: ['test/timers.ts'],
    // A test fails where its reviewed sentences lack one; `npm --prefix web test -- -u` writes them again.
    update: 'none',
    testTimeout: 60_000,
    expect: { poll: { timeout: 30_000 } },
  },
} as never);
