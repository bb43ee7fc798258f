/**
 * Reads the names that .github/PROMISES.md promises from the code. tests/wasm/promises.test.mjs checks that the code has
 * all names of names.json. A freeze adds new names to this file:
 *
 *     tests/node tests/frozen/names.mjs --write
 */
import { readFileSync, readdirSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import * as sinkscope from '../../wasm/index.ts';
import { COMMANDS } from '../../wasm/command/options.ts';

const root = fileURLToPath(new URL('../..', import.meta.url));
const read = (path) => readFileSync(join(root, path), 'utf8');
export const FILE = join(root, 'tests/frozen/names.json');

/** Returns the keys of links, which are also attributes in small letters, and the values that two of them accept. */
async function ofPage() {
  const web = join(root, 'web');
  const vite = createRequire(join(web, 'package.json')).resolve('vite');
  const { runnerImport } = await import(pathToFileURL(vite).href);
  const alias = {
    'sinkscope/internal': join(root, 'wasm/internal.ts'),
    sinkscope: join(root, 'wasm/index.ts'),
  };
  const options = { configFile: false, root: web, logLevel: 'error', resolve: { alias } };
  const at = async (path) => (await runnerImport(join(web, path), options)).module;
  const { table } = await at('src/ask/state.ts');
  const { ROOMS } = await at('src/rooms/names.ts');
  const { attributeNames } = await at('src/embed/attributes.ts');
  const element = read('web/src/embed/element.ts');
  const [, added] = /observedAttributes = \[\.\.\.attributeNames, (.*), \.\.\.SIZES\]/.exec(
    element,
  );
  const [, events] = /report\(name: (.*?),/.exec(element);
  const quoted = (text) => [...text.matchAll(/'([\w-]+)'/g)].map(([, name]) => name);
  const files = readdirSync(join(web, 'src/views')).filter((file) => file !== 'index.ts');
  const views = files.flatMap((file) =>
    quoted(/^ {2}name: '[\w-]+',$/m.exec(read(`web/src/views/${file}`))?.[0] ?? ''),
  );
  return {
    links: [
      ...Object.keys(table),
      ...ROOMS.map(({ name }) => `room=${name}`),
      ...views.map((name) => `view=${name}`),
    ],
    element: [
      ...[...attributeNames, ...quoted(added), 'width', 'height'].map(
        (name) => `attribute ${name}`,
      ),
      ...quoted(events).map((name) => `event ${name}`),
    ],
  };
}

/** Returns the exports that the package's README shows. */
function ofPackage() {
  const words = new Set(read('wasm/README.md').match(/\w+/g));
  return Object.keys(sinkscope).filter((name) => words.has(name));
}

/** Returns the commands with their options. The options of `train` include the settings of a recipe. */
const ofCommands = (describe) =>
  Object.entries(COMMANDS).flatMap(([name, { options }]) => [
    name,
    ...Object.keys(options(describe)).map((option) => `${name} --${option}`),
  ]);

/** Returns the path of every key in the conditions of a recording, and which keys are required. */
function ofSchema({ properties = {}, items, required = [] }, path = '') {
  return [
    ...required.map((name) => `${path}${name} is required`),
    ...Object.entries(properties).flatMap(([name, one]) => [
      `${path}${name}`,
      ...ofSchema(one, `${path}${name}.`),
    ]),
    ...(items ? ofSchema(items, `${path}[].`) : []),
  ];
}

export async function promisedNames() {
  const describe = JSON.parse(read('wasm/sinkscope.describe.json'));
  const { links, element } = await ofPage();
  const all = {
    ...{ links, element },
    recording: ofSchema(JSON.parse(read('core/report/recording.schema.json'))),
    'command line': ofCommands(describe),
    'npm package': ofPackage(),
  };
  return Object.fromEntries(
    Object.entries(all).map(([group, names]) => [group, [...new Set(names)].sort()]),
  );
}

if (process.argv[2] === '--write') {
  const names = await promisedNames();
  writeFileSync(FILE, `${JSON.stringify(names, null, 1)}\n`);
  for (const [group, { length }] of Object.entries(names)) console.log(`${group}: ${length} names`);
}
