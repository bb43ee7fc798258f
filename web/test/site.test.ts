import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterEach, expect, it } from 'vitest';
import { writeSite } from '../ship/site.ts';

let site = '';
afterEach(() => rmSync(site, { recursive: true, force: true }));

const pageHtml = (title: string) =>
  `<!doctype html><html><head><meta charset="utf-8"><title>${title}</title></head><body></body></html>`;

function createSite(...folders: readonly string[]): string {
  site = mkdtempSync(join(tmpdir(), 'sinkscope-'));
  for (const folder of folders) addVersion(folder);
  return site;
}

function addVersion(folder: string): void {
  const files = {
    'index.html': pageHtml(folder),
    'learn/one/index.html': pageHtml(`${folder}: one`),
    'assets/frame-1.html': pageHtml('no address of a reader'),
    'sink-scope.js': 'export {};',
    'sink-widget.js': `// ${folder}`,
    _headers: '/*\n  X-Content-Type-Options: nosniff\n/assets/*\n  Cache-Control: immutable\n',
  };
  for (const [path, text] of Object.entries(files)) {
    const file = join(site, folder, path);
    mkdirSync(dirname(file), { recursive: true });
    writeFileSync(file, text);
  }
}

const read = (path: string) => readFileSync(join(site, path), 'utf8');

it.each([
  [['0.9.0', '0.10.0', 'next'], '0.10.0'],
  [['0.10.0', '0.9.9'], '0.10.0'],
  [['1.0.0-rc.2', '1.0.0-rc.10'], '1.0.0-rc.10'],
  [['1.0.0', '1.1.0-rc.1', 'next'], '1.0.0'],
  [['next'], 'next'],
])('of %j, latest/ leads to %s', (folders, newest) => {
  expect(writeSite(createSite(...folders)).newestFolder).toBe(newest);
  expect(JSON.parse(read('versions.json')).latest).toBe(newest);
});

it('every page of the newest release has an address at the root and below latest/', () => {
  writeSite(createSite('0.1.0', '0.2.0'));
  expect(read('index.html')).toContain('data-to="./0.2.0/index.html"');
  expect(read('index.html')).toContain('<title>0.2.0</title>');
  expect(read('latest/index.html')).toContain('data-to="../0.2.0/index.html"');
  const lesson = read('latest/learn/one/index.html');
  expect(lesson).toContain('data-to="../../../0.2.0/learn/one/index.html"');
  expect(lesson).toContain('src="../../goes.js"');
  expect(read('sink-scope.js')).toBe("import './0.2.0/sink-scope.js';\n");
  expect(read('latest/sink-scope.js')).toBe("import '../0.2.0/sink-scope.js';\n");
  expect(read('latest/sink-widget.js')).toBe('// 0.2.0');
  expect(() => read('latest/assets/frame-1.html')).toThrow();
});

it('a new release changes nothing in the folders of older ones, and takes latest/', () => {
  writeSite(createSite('0.1.0'));
  const htmlBefore = read('0.1.0/index.html');
  addVersion('0.2.0');
  writeSite(site);
  expect(read('0.1.0/index.html')).toBe(htmlBefore);
  expect(read('latest/index.html')).toContain('0.2.0/index.html');
  // The folders that writeSite has made are not taken for releases.
  expect(writeSite(site).versions).toEqual(['0.1.0', '0.2.0']);
});

it('each header is sent once, since a host combines all matching rules', () => {
  writeSite(createSite('0.1.0', '0.2.0'));
  const rules = read('_headers');
  expect(rules).toContain('/0.1.0/*\n  X-Content-Type-Options');
  expect(rules).toContain('/0.2.0/assets/*\n');
  expect(rules).not.toMatch(/^\/(\*|assets)/m);
});

it('a folder that is not named by a version is refused', () => {
  expect(() => writeSite(createSite('drafts'))).toThrow(/expected folders named by a version/);
});
