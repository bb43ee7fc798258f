// Tests how edits are drawn, ordered and counted as covered.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, relative } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { coverageOf, hasRun, ranOf } from './coverage.mjs';
import { draw, slips } from './draw.mjs';
import { KINDS, slipsOfKinds } from './kinds.mjs';
import { distance, nearestFirst } from './imports.mjs';
import mutants from './mutants.mjs';
import { roomNames } from './rooms.mjs';

process.chdir(fileURLToPath(new URL('../..', import.meta.url)));

const text = [
  '// a < b && true',
  'import { one } from "./1.js";',
  'const sum = a < b && c + 1; /* 2 - 1 */',
  "say('x == y', `${a} - 3`);",
  '',
].join('\n');

test('code is edited, but not comments, imports and quoted words', () => {
  const foundSlips = slips('some.js', text);
  assert.deepEqual(foundSlips.map(({ from }) => from.trim()).sort(), [
    '&&',
    '+',
    '1',
    '<',
    text.split('\n')[3],
  ]);
  for (const { at, from } of foundSlips) assert.equal(text.slice(at, at + from.length), from);
});

test('an edit changes one line, and the same seed draws the same edits', () => {
  const texts = new Map([['some.js', text]]);
  const edits = draw(texts, 99, 7);
  assert.equal(edits.length, slips('some.js', text).length);
  for (const { text: editedText, line, before, after } of edits) {
    const differing = editedText
      .split('\n')
      .flatMap((line, i) => (line === text.split('\n')[i] ? [] : [i + 1]));
    assert.deepEqual(differing, [line]);
    assert.notEqual(before, after);
  }
  assert.deepEqual(draw(texts, 3, 7), draw(texts, 3, 7));
  assert.notDeepEqual(draw(texts, 5, 7), draw(texts, 5, 8));
});

test('the comparison in a maximum or minimum is not edited, but one in another conditional is', () => {
  const signs = (/** @type {string} */ line) => slips('a.c', line).map(({ from }) => from.trim());
  assert.deepEqual(signs('int m = a.x > b ? a.x : b;'), []);
  assert.deepEqual(signs('int m = a <= b ? b : a;'), []);
  assert.deepEqual(signs('int m = a > b ? a : c;'), ['>']);
  assert.deepEqual(signs('int m = a > b ? a : b[0];'), ['>', '0']);
  assert.deepEqual(signs('x[j] = x[j] > 0.0f ? x[j] : 0.0f;'), []);
  assert.deepEqual(signs('x[j] = x[j] > 0.0f ? x[i] : 0.0f;'), ['>']);
  assert.deepEqual(signs('n = K - d < DIMS ? K - d : DIMS;'), ['-', '-']);
  assert.deepEqual(signs('SS_ASSERT(a == 1);\nb = 2;'), ['2']);
  assert.deepEqual(signs('char place[48], list[200];\nint a[3];'), ['3']);
  assert.deepEqual(signs('{"U8", 1, -1}; return -1;'), ['1']);
});

test('in TypeScript, expressions in template strings are edited, but not types, pixel positions and timeouts', () => {
  /** @param {string} line */
  const originalsOf = (line) => slips('a.ts', line).map(({ from }) => from);
  assert.deepEqual(originalsOf('say(`a - 1 ${b ? `c + 2 ${d - 3}` : "e"}`);').slice(1), ['-', '3']);
  assert.deepEqual(originalsOf('const a: { b: true; c: 2 } | false = d as 4;'), []);
  assert.deepEqual(originalsOf('interface A { b: true }\ntype B = 1 | false;'), []);
  assert.deepEqual(originalsOf('const a = /1 + 2/, b = { 3: c, d: 4 };'), ['4']);
  assert.deepEqual(
    originalsOf('const a = svg`<rect x=${b + 2} width="${c * 3}" data-n=${d + 4}>`;'),
    ['*', '+', '4'],
  );
  assert.deepEqual(originalsOf('if (!a) pen.fillRect(b - 1, c * d, 2, 3);').slice(1), [
    'pen.fillRect(b - 1, c * d, 2, 3);',
    '*',
  ]);
  assert.deepEqual(originalsOf('const a = { b: -1, height: 3 + c, d: 4 }, { e = -1 } = f(-1);'), [
    '4',
    '1',
  ]);
  assert.deepEqual(originalsOf('const a = () => { return -1; }, b = c ?? -1, d = e.at(-1);'), [
    '1',
  ]);
  assert.deepEqual(originalsOf('const LATE_MS = 9;\nconst a = setTimeout(b, 1000);'), []);
  assert.deepEqual(originalsOf('const a = b > c ? b : c;'), []);
  assert.deepEqual(originalsOf('const a = "b" + `c ${d}` + "e";'), []);
  assert.deepEqual(originalsOf('const a = "b" + c + "e";'), ['+', '+']);
});

test('tests that import a file are nearer to it than those that reach it through others', () => {
  assert.equal(distance('tests/mutate/draw.test.mjs', 'tests/mutate/draw.mjs'), 1);
  assert.equal(distance('web/test/frame.test.ts', 'web/src/frame.ts'), 1);
  assert.equal(distance('web/test/frame.test.ts', 'web/src/ask/arithmetic.ts'), 2);
  assert.equal(distance('web/test/tables.test.ts', 'web/src/views/gate.ts'), 1);
  assert.equal(distance('tests/mutate/draw.test.mjs', 'web/src/frame.ts'), Infinity);
  // The package's index re-exports the name, so the distance leads to the file that defines the name.
  const ownDistance = distance('tests/wasm/measure.test.mjs', 'wasm/study/judge.ts');
  const otherDistance = distance('tests/wasm/measure.test.mjs', 'wasm/engine/worker.ts');
  assert.ok(ownDistance < otherDistance && ownDistance <= 2, `${ownDistance}, ${otherDistance}`);
  // Python imports relatively, as in `from ..reference.model import forward`, or by the package's name.
  assert.equal(distance('tests/python/test_runs.py', 'models/train/train.py'), 1);
  assert.equal(distance('tests/python/test_runs.py', 'models/reference/model.py'), 2);
  assert.equal(
    distance('tests/record/test_layers.py', 'models/record/src/sinkscope/attention.py'),
    1,
  );
  assert.equal(distance('tests/python/test_runs.py', 'models/reference/edits.py'), Infinity);
  const order = nearestFirst(
    ['web/test/context.test.ts', 'web/test/frame.test.ts'],
    'web/src/frame.ts',
  );
  assert.equal(order[0], 'web/test/frame.test.ts');
});

test('comments of C and Python are recognized', () => {
  assert.deepEqual(
    slips('a.py', '"""x + 1"""\ny = 2 + z  # 3\n')
      .map(({ from }) => from.trim())
      .sort(),
    ['+', '2'],
  );
  // Users do not notice flushing, frozen dataclasses, or a program's own description.
  assert.deepEqual(
    slips('a.py', '@dataclass(frozen=True)\nprint(1, flush=True)\nParser(description=doc[0])\n')
      .map(({ from }) => from)
      .sort(),
    ['1'],
  );
  assert.deepEqual(
    slips('a.c', '#define A 1\nint x = 2; // 3\n')
      .map(({ from }) => from)
      .sort(),
    ['2'],
  );
});

test('coverage of a test includes the processes and workers that it starts', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'coverage-'));
  const file = 'tests/mutate/draw.mjs';
  const program = `import { Worker } from 'node:worker_threads';
    import { numbers } from './tests/mutate/draw.mjs';
    numbers(1)();
    new Worker("import('./tests/mutate/draw.mjs').then(({ slips }) => slips('a.py', '1'))", { eval: true });`;
  execFileSync(process.execPath, ['--input-type=module', '--eval', program], {
    env: { ...process.env, NODE_V8_COVERAGE: folder },
  });
  const ran = ranOf(folder, [file])[file];
  rmSync(folder, { recursive: true });
  const text = readFileSync(file, 'utf8');
  const places = ['Math.imul(x', 'SLIPS.flatMap', 'createSourceFile(', 'Array.from({ length'];
  assert.deepEqual(
    places.map((code) => hasRun(ran, text.indexOf(code))),
    [true, true, false, false],
  );
  assert.equal(hasRun(undefined, 0), false);
});

test('coverage is cached until its test changes; after a source file changes, all of its code counts as run', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'coverage-'));
  const [testFile, file] = ['a.test.mjs', 'a.js'].map((name) => relative('.', join(folder, name)));
  writeFileSync(testFile, 'test();');
  writeFileSync(file, 'f(); g();');
  let runs = 0;
  /** @param {string} _ @param {NodeJS.ProcessEnv} env */
  const passes = async (_, { NODE_V8_COVERAGE: to = '' }) => {
    const ranges = [
      { startOffset: 0, endOffset: 9, count: 1 },
      { startOffset: 5, endOffset: 9, count: 0 },
    ];
    const url = pathToFileURL(file).href;
    writeFileSync(
      join(to, `${++runs}.json`),
      JSON.stringify({ result: [{ url, functions: [{ ranges }] }] }),
    );
    return true;
  };
  const ran = async () =>
    (await coverageOf(join(folder, 'kept'), [testFile], [file], passes)).get(testFile)?.ran[file];
  assert.deepEqual([await ran(), await ran(), runs], [[[0, 5]], [[0, 5]], 1]);
  writeFileSync(file, 'f(); h();');
  assert.deepEqual([hasRun(await ran(), 7), runs], [true, 1]);
  writeFileSync(testFile, 'test(2);');
  assert.deepEqual([await ran(), runs], [[[0, 5]], 2]);
  rmSync(folder, { recursive: true });
});

test('each kind of edit finds the TypeScript that it applies to', () => {
  /** @param {string} kind @param {string} code */
  const slipPairs = (kind, code) =>
    slipsOfKinds('a.ts', code, [kind]).map(({ from, to }) => [from, to]);
  assert.deepEqual(slipPairs('key', 'const key = `${a} ${b}`, name = `${a} ${b}`;'), [
    ['`${a} ${b}`', '` ${b}`'],
  ]);
  assert.deepEqual(
    slipPairs('key', 'if (a.model === b && c) d(); if (e || f !== g) h(); if (i && j) k();'),
    [
      ['a.model === b && c', 'c'],
      ['e || f !== g', 'e'],
    ],
  );
  assert.deepEqual(
    slipPairs(
      'release',
      'void run.close().catch(f); await a.end(); clearTimeout(late); b.say(); c.finally(d);',
    ).map(([from]) => from),
    ['void run.close().catch(f);', 'await a.end();', 'clearTimeout(late);', 'c.finally(d)'],
  );
  assert.deepEqual(slipPairs('round', 'a = Math.floor(b) + Math.max(c);'), [
    ['Math.floor', 'Math.ceil'],
  ]);
  assert.deepEqual(
    slipPairs('border', 'a = b < c ? b : c; if (b <= T) d(a < 1e-9, performance.now() > e);'),
    [['b <= T', 'b < T']],
  );
  // The comparison b > 0 is not edited, because b is not near 0 when its sign is taken.
  assert.deepEqual(slipPairs('border', 'a = Math.abs(b) < C ? 0 : b > 0 ? 1 : -1;'), [
    ['Math.abs(b) < C', 'Math.abs(b) <= C'],
  ]);
  assert.deepEqual(slipPairs('border', 'a = Math.abs(c) < C ? 0 : b > 0 ? 1 : -1;'), [
    ['Math.abs(c) < C', 'Math.abs(c) <= C'],
    ['b > 0', 'b >= 0'],
  ]);
  assert.deepEqual(slipPairs('first', 'a = x[at] + (first + i) - b.from;'), [
    ['x[at] + (first + i) - b.from', 'x[at] + (first + i)'],
    ['x[at]', 'x[0]'],
    ['first + i', 'i'],
  ]);
  assert.deepEqual(slipPairs('percent', 'a = 100 * b + c / 1000 + 10 * d;'), [
    ['100 * b', 'b'],
    ['c / 1000', 'c'],
  ]);
  assert.deepEqual(slipPairs('default', 'f(({ a = 1, b = c }) => d ?? true);'), [
    ['1', '2'],
    ['true', 'false'],
  ]);
});

test('each kind of edit finds the C and Python that it applies to, and draws alternate between kinds', () => {
  /** @param {string} file @param {string} kind @param {string} code */
  const slipPairs = (file, kind, code) =>
    slipsOfKinds(file, code, [kind]).map(({ from, to }) => [from.trim(), to.trim()]);
  assert.deepEqual(slipPairs('a.c', 'key', 'if (a->T == T && b) c(); /* d && e == f */'), [
    ['a->T == T &&', ''],
  ]);
  assert.deepEqual(slipPairs('a.py', 'key', 'if a and b.name != name:'), [
    ['and b.name != name', ''],
  ]);
  assert.deepEqual(slipPairs('a.py', 'release', 'x = 1\nfile.close()\n'), [
    ['file.close()', 'pass'],
  ]);
  assert.deepEqual(
    slipPairs('a.py', 'round', 'n = total // x.shape[0] + arch.H // arch.G  # a // b'),
    [['total // x.shape[0]', '-(-total // x.shape[0])']],
  );
  assert.deepEqual(slipPairs('a.py', 'round', 'n = math.floor(x) + y.ceil()'), [
    ['math.floor', 'math.ceil'],
    ['ceil(', 'floor('],
  ]);
  // A rounding up becomes a rounding down, not another form of rounding up.
  assert.deepEqual(slipPairs('a.py', 'round', 'n = -(-len(texts) // self.block) - 1'), [
    ['-(-len(texts) // self.block)', '(len(texts) // self.block)'],
  ]);
  assert.deepEqual(slipPairs('a.py', 'first', 'a = x[..., at] + i - self.first'), [
    ['- self.first', ''],
    ['at', '0'],
  ]);
  assert.deepEqual(slipPairs('a.py', 'border', 'if a < 1e-5 or b > 2.5e-3 or c >= e:'), [
    ['>=', '>'],
  ]);
  assert.deepEqual(slipPairs('a.c', 'border', 'if (a <= 1e-6 * b || c < 1) d();'), [['<', '<=']]);
  assert.deepEqual(slipPairs('a.py', 'percent', 'a = 100 * b'), [['100 *', '']]);
  assert.deepEqual(
    slipPairs('a.py', 'default', 'def f(a: int = 3) -> int:\n    return b.get("x", 7)'),
    [
      ['7', '8'],
      ['3', '4'],
    ],
  );
  const text = 'if (a < b) x.close();\nif (c < d && e < f) g();\n';
  const edits = draw(new Map([['a.js', text]]), 9, 3, (file, fileText) =>
    slipsOfKinds(file, fileText, KINDS),
  );
  assert.equal(edits.length, 4);
  assert.deepEqual(
    new Set(edits.slice(0, 2).map(({ kind }) => kind)),
    new Set(['release', 'border']),
  );
});

test('the code of each listed mutant occurs once in its file', () => {
  for (const [name, path, code] of mutants) {
    const file = roomNames.some((room) => path.startsWith(`${room}/`)) ? path : join('core', path);
    const occurrences = readFileSync(file, 'utf8').split(code).length - 1;
    assert.equal(occurrences, 1, `${name}: its code occurs ${occurrences} times in ${file}`);
  }
});
