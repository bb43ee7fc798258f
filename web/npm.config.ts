/**
 * The npm package `sinkscope-page`: <sink-scope> with its engine, six models and the pictures of the course, which one
 * script tag loads from any site that serves npm's packages. It holds no page: figures link to the one at HOME.
 *
 *     SINKSCOPE_HOME=https://example.org/1.0.0/ npm --prefix web run package        writes .build/sinkscope-page-1.0.0.tgz
 */
import { cpSync, readFileSync, writeFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import { defineConfig, type Plugin } from 'vite';
import { buildOptions, SHARED_CONFIG } from './ship/build.ts';
import { home, source } from './ship/home.ts';
import { writeNotices } from './ship/notices.ts';
import { Part, seedsByModel } from './ship/parts.ts';

const root = import.meta.dirname;
const out = resolve(root, process.env.SINKSCOPE_PACKAGE ?? '../.build/sinkscope-page');
const binaries = resolve(root, '../.build/wasm');
const { version, license } = JSON.parse(readFileSync(resolve(root, 'package.json'), 'utf8'));

const zooModule = pathToFileURL(resolve(root, '../wasm/loading/zoo.ts')).href;
const { ZOO_NAMES } = (await import(zooModule)) as { readonly ZOO_NAMES: readonly string[] };

const zooFolder = resolve(root, '../models/zoo');
interface Listed {
  readonly id: string;
}
const cards = (JSON.parse(readFileSync(`${zooFolder}/index.json`, 'utf8')) as Listed[]).filter(
  ({ id }) => ZOO_NAMES.includes(id),
);

/** Ships the whole folder of each model, which the package `sinkscope` opens by its name, except checkpoints. */
function isShipped(file: string): boolean {
  const [id = '', name] = file.split('/');
  return ZOO_NAMES.includes(id) && name !== 'timeline';
}
/** The zoo's address needs no hash of its contents, since the package's address has a version. */
const zoo = new Part('zoo', zooFolder, (file) => !file.includes('/') || isShipped(file), 'zoo/');
/** Engines with threads are left out: a figure on another site has no threads and no large model. */
const engine = new Part('engine', binaries, (file) =>
  /^sinkscope\.((lab\.)?wasm|describe\.json)$/.test(file),
);

const README = `# sinkscope-page

Figures of attention sinks, computed in the reader's browser, by one script tag:

    <script type="module" src="https://cdn.jsdelivr.net/npm/sinkscope-page@${version}/sink-scope.js"></script>
    <sink-scope view="attention" shown="softmax"></sink-scope>

Any site that serves the files of npm packages will do, such as https://unpkg.com/sinkscope-page@${version}/sink-scope.js.
Name the version: a figure then always shows the same numbers.

The same files run in programs, such as notebooks:

    import { load } from 'https://cdn.jsdelivr.net/npm/sinkscope-page@${version}/sink-load.js';
    const model = await load('softmax'); // or a model of Hugging Face: 'owner/name'
    const { sink, map } = await model.measure('The old man sat at the door.');

Models: ${ZOO_NAMES.join(', ')}. Pictures of the course's figures lie in \`pictures\`. Views, attributes, and all other models:
${home}
`;

function ship(): Plugin {
  return {
    name: 'ship',
    config: () => ({
      define: {
        ENGINE: JSON.stringify(engine.path),
        ZOO: JSON.stringify(zoo.path),
        RECORDINGS: JSON.stringify('recordings/'),
        SHIPPED: '[]',
        SEEDS: JSON.stringify(seedsByModel(zoo.files)),
        SOURCE: JSON.stringify(''),
        LESSONS: '[]',
        HOME: JSON.stringify(home),
      },
    }),
    closeBundle() {
      if (!home) throw new Error('SINKSCOPE_HOME: expected the address of the page, found none');
      engine.copyTo(out);
      zoo.copyTo(out);
      const listed = cards.map((card) => ({ ...card, timeline: false }));
      writeFileSync(`${out}/${zoo.path}index.json`, JSON.stringify(listed));
      cpSync(resolve(root, 'lessons/pictures'), `${out}/pictures`, {
        recursive: true,
        filter: (file) => !file.endsWith('.json'),
      });
      writeNotices(out, ['NOTICES.page.md'], resolve(binaries, 'NOTICES.md'));
      const manifest = {
        ...{ name: 'sinkscope-page', version, license, type: 'module' },
        description:
          'Figures of attention sinks, computed in the reader’s browser, by one script tag.',
        keywords: ['attention', 'attention sink', 'language model', 'web component'],
        author: 'The Sinkscope authors',
        homepage: home,
        // npm's provenance compares this with the repository whose workflow publishes.
        ...(source && { repository: { type: 'git', url: `git+${source}.git`, directory: 'web' } }),
        exports: { '.': './sink-scope.js', './*': './*' },
      };
      writeFileSync(`${out}/package.json`, `${JSON.stringify(manifest, null, 2)}\n`);
      writeFileSync(`${out}/README.md`, README);
    },
  };
}

export default defineConfig({
  ...SHARED_CONFIG,
  build: buildOptions(
    out,
    {
      // This module computes the package's address from its own, so it must be in the same folder as the others.
      groups: [{ name: 'base', test: /src\/base\.ts$/ }],
    },
    { 'sink-load': resolve(root, 'src/embed/load.ts') },
  ),
  plugins: [ship()],
} as never);
