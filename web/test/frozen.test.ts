// @vitest-environment happy-dom
/**
 * Every link, snippet, recording and command that a release froze still gives its numbers, which are in
 * tests/frozen/VERSION. Frozen files are never edited; tests/frozen/freeze adds the set of a release.
 */
import { execFile } from 'node:child_process';
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { cards } from '../ship/cards';
import { lessons, pages } from '../ship/lessons';
import { parseHash, type ParsedState } from '../src/ask/state';
import { stateOf } from '../src/embed/attributes';
import { snippets } from '../src/embed/snippets';
import { selectedHead } from '../src/frame';
import { nullForNaN } from '../src/save/number_files';
import { viewNamed } from '../src/views/index';
import { bytesOf, openPage, stubScreen } from './engine';
import { isBuilt, PATIENCE, UNBUILT } from './fixture';
import {
  changes,
  COMMANDS,
  EMBEDDED,
  HOME,
  isCounted,
  LINKS,
  showsOf,
  type Frozen,
  type FrozenLesson,
  type Shows,
} from './frozen';

const root = join(import.meta.dirname, '../..');
const FOLDER = 'tests/frozen';
const nextRelease = process.env.SINKSCOPE_FREEZE;

let page: Awaited<ReturnType<typeof openPage>>;
beforeAll(async () => {
  stubScreen();
  if (isBuilt) page = await openPage();
}, PATIENCE.timeout);
afterAll(() => page?.close());

/** Returns the numbers of the figure that a link or an element's attributes describe. */
async function figureOf({ state, problems }: ParsedState, recording?: string): Promise<Shows> {
  expect(problems, 'what of it is not understood').toEqual([]);
  const view = viewNamed(state.view);
  expect(view.name).toBe(state.view);
  const shown = recording ? [recording] : state.shown;
  const frames = await page.framesOf(shown, state, [view]);
  const numbers = frames.map((frame, i) => [
    recording ? 'recording' : state.shown[i]!,
    {
      ...{ T: frame.T, eps: frame.eps, sequences: frame.sequences },
      tokens: frame.tokens.map(({ id }) => id),
      ...Object.fromEntries(
        view
          .numbers(frame, selectedHead(frame, state))
          .map(({ name, data }) => [name, nullForNaN(data)]),
      ),
    },
  ]);
  return showsOf(Object.fromEntries(numbers));
}

/** Paths below the page's address that every release keeps. */
const FILES = ['sink-scope.js', 'sink-widget.js', 'embed.html', ...cards().map((one) => one.page)];

function expectIsKept(path: string): void {
  const isPicture = path.startsWith('cards/') && existsSync(join(root, 'web', path));
  if (!isPicture) expect(FILES).toContain(path);
}

function openLink(address: string): Promise<Shows> {
  const [path, hash = ''] = address.split('#');
  expectIsKept(path!);
  return figureOf(parseHash(hash));
}

/** Opens pasted code as a host does: an element with its attributes, or a frame with its address. */
function openSnippet(code: string): Promise<Shows> {
  for (const [, path] of code.matchAll(RegExp(`${HOME}([\\w./-]+\\w)`, 'g'))) expectIsKept(path!);
  const place = document.createElement('div');
  place.innerHTML = code.replaceAll('<script', '<x-script');
  const element = place.querySelector('sink-scope');
  if (element) return figureOf(stateOf(element));
  const [widget] = /^\{[^]*^\}/m.exec(code) ?? [];
  if (widget) {
    const element = document.createElement('x-figure');
    const { attributes } = JSON.parse(widget) as { attributes: Record<string, string> };
    for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
    return figureOf(stateOf(element));
  }
  const [, hash = ''] = /embed\.html#([^"\s]+)/.exec(code) ?? [];
  return figureOf(parseHash(hash.replaceAll('&amp;', '&')));
}

const hashOf = (state: Readonly<Record<string, string>>) => {
  const element = document.createElement('x-figure');
  for (const [name, value] of Object.entries(state)) element.setAttribute(name, value);
  return stateOf(element);
};

const idsOfCourse = () =>
  (course ??= new Map(
    Object.entries(pages()).map(([address, html]) => [
      address,
      [...html.matchAll(/ id="([^"]+)"/g)].map(([, id]) => id!).sort(),
    ]),
  ));
let course: Map<string, string[]> | undefined;

async function openRecording(path: string): Promise<Shows> {
  const id = await page.openRecording('frozen', bytesOf(path));
  return figureOf(parseHash('view=sinks'), id);
}

/** Runs the commands of a release in one process, which opens what they share once. */
async function runCommands(commands: readonly (readonly string[])[], folder: string) {
  const words = commands.map((given) => given.map((one) => one.replace(/^\.\//, `${folder}/`)));
  const program = ['tests/browser/run_commands.mjs', JSON.stringify(words)];
  const { stdout } = await promisify(execFile)(process.execPath, program, {
    ...{ cwd: root, maxBuffer: 2 ** 26 },
  });
  return (JSON.parse(stdout) as object[]).map(showsOf);
}

const setOf = (release: string): Frozen =>
  JSON.parse(readFileSync(join(root, FOLDER, release, 'set.json'), 'utf8')) as Frozen;

const lessonsOf = (release: string): readonly FrozenLesson[] =>
  JSON.parse(readFileSync(join(root, FOLDER, release, 'lessons.json'), 'utf8')) as FrozenLesson[];

const releases = readdirSync(join(root, FOLDER), { withFileTypes: true })
  .filter((entry) => entry.isDirectory() && entry.name !== nextRelease)
  .map(({ name }) => name);

describe.each(releases)('release %s', (release) => {
  const set = setOf(release);
  const folder = `${FOLDER}/${release}`;
  const testNumbers = (name: string, oldNumbers: Shows, readNow: () => Promise<Shows>) =>
    it(name, PATIENCE, async ({ skip }) => {
      skip(!isBuilt, UNBUILT);
      expect(Object.keys(oldNumbers).length).toBeGreaterThan(3);
      expect(changes(oldNumbers, await readNow())).toEqual([]);
    });

  it('has twenty links, ten snippets and three recordings', () => {
    const { links, snippets: codes, recordings, commands } = set;
    expect([links, codes, recordings].map(({ length }) => length)).toEqual([20, 10, 3]);
    expect(commands.length).toBeGreaterThan(2);
  });
  for (const { address, shows } of set.links) testNumbers(address, shows, () => openLink(address));
  for (const { host, code, shows } of set.snippets)
    testNumbers(host, shows, () => openSnippet(code));
  for (const { file, shows } of set.recordings)
    testNumbers(file, shows, () => openRecording(`${folder}/${file}`));
  let running: Promise<Shows[]> | undefined;
  const outputs = () =>
    (running ??= runCommands(
      set.commands.map(({ given }) => given),
      folder,
    ));
  set.commands.forEach(({ given, shows }, i) =>
    testNumbers(given.join(' '), shows, async () => (await outputs())[i]!),
  );

  describe.each(lessonsOf(release))('$address', ({ address, ids, links, figures }) => {
    it('is a page with the anchors to which links point', () => {
      const currentIds = idsOfCourse().get(address);
      expect(currentIds, 'the page').toBeDefined();
      expect(ids.filter((id) => !currentIds!.includes(id))).toEqual([]);
    });
    it('links to states that the page can read', () => {
      for (const link of links) expect(parseHash(link).problems, link).toEqual([]);
      for (const { state } of figures) expect(hashOf(state).problems).toEqual([]);
    });
    figures.forEach(({ state, shows }, i) => {
      if (shows)
        testNumbers(`figure ${i + 1}, ${state.view}`, shows, () => figureOf(hashOf(state)));
    });
  });
});

async function freezeLessons(release: string): Promise<void> {
  const all = lessons();
  const frozenLessons: FrozenLesson[] = [];
  for (const [address, ids] of idsOfCourse()) {
    const { links = [], figures = [] } =
      all.find(({ slug }) => address.includes(`/${slug}/`)) ?? {};
    const frozenFigures = [];
    for (const { state } of figures)
      frozenFigures.push({
        state,
        ...(isCounted(state) ? { shows: await figureOf(hashOf(state)) } : {}),
      });
    frozenLessons.push({ address, ids, links, figures: frozenFigures });
  }
  writeFileSync(join(root, FOLDER, release, 'lessons.json'), JSON.stringify(frozenLessons));
}

if (nextRelease)
  it(`freezes release ${nextRelease}`, { timeout: 300_000 }, async () => {
    const folder = `${FOLDER}/${nextRelease}`;
    const { state } = parseHash(EMBEDDED);
    const codesByHost = snippets.map(
      ({ label, make }) => [label, make(state, new URL(HOME))] as const,
    );
    const files = readdirSync(join(root, folder)).filter((file) => file.endsWith('.safetensors'));
    const links = [];
    for (const address of LINKS) links.push({ address, shows: await openLink(address) });
    const codes = [];
    for (const [host, code] of codesByHost)
      codes.push({ host, code, shows: await openSnippet(code) });
    const recordings = [];
    for (const file of files)
      recordings.push({ file, shows: await openRecording(`${folder}/${file}`) });
    const outputs = await runCommands(COMMANDS, folder);
    const commands = COMMANDS.map((given, i) => ({ given, shows: outputs[i]! }));
    const set: Frozen = { links, snippets: codes, recordings, commands };
    writeFileSync(join(root, folder, 'set.json'), JSON.stringify(set));
    await freezeLessons(nextRelease);
  });

describe('a change of a frozen number', () => {
  const values = Float32Array.from({ length: 200 }, (_, i) => Math.sin(i) / (1 + i));
  const shows = (data: ArrayLike<number>) => showsOf({ alpha: nullForNaN(data), T: 26 });
  const changesAfter = (edit: (all: Float32Array) => void) => {
    const changedValues = values.slice();
    edit(changedValues);
    return changes(shows(values), shows(changedValues));
  };

  it('is detected in the third digit of one value, and ignored in the last bit of all', () => {
    const bits = new Uint32Array(values.slice().buffer).map((one) => one + 1);
    expect(changesAfter((all) => all.set(new Float32Array(bits.buffer)))).toEqual([]);
    expect(changesAfter((all) => (all[1]! *= 1.001))[0]).toMatch(/^alpha: mean .* is now/);
  });

  it('is detected if two values change places, or if one becomes undefined', () => {
    expect(changesAfter((all) => ([all[3], all[90]] = [all[90]!, all[3]!]))[0]).toMatch(
      /sum by place/,
    );
    expect(changesAfter((all) => (all[7] = NaN))[0]).toMatch(/undefined 0 is now 1/);
  });

  it('is a missing number or another condition, but not a new number', () => {
    const oldNumbers = shows(values);
    expect(changes(oldNumbers, { T: oldNumbers.T! })[0]).toMatch(/^alpha is gone/);
    expect(changes(oldNumbers, { ...oldNumbers, beta: [1, 0, 1, 1, 1, 1] })).toEqual([]);
    const newNumbers = { ...oldNumbers, ...showsOf({ T: 27 }) };
    expect(changes(oldNumbers, newNumbers)[0]).toMatch(/^T: .*26 is now 27/);
  });
});
