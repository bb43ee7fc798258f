// Tests of tests/run, on stages made for this: the order of stages, the counts, the allowed skips; and that builds wait.
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import {
  chmodSync,
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  readdirSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import test from 'node:test';
import { fileURLToPath } from 'node:url';
import { countsOf, listedFor, testsOf } from './results.mjs';

const root = fileURLToPath(new URL('../', import.meta.url));
const README = `# tests

## Skips

| stage | reason | why |
|---|---|---|
| \`a\` | \`no such file\` | it is large |

## Next

| \`a\` | \`of another table\` | no |
`;

const run = (command, args, options = {}) =>
  new Promise((done) =>
    execFile(command, args, options, (error, stdout, stderr) =>
      done({ status: error ? error.code : 0, output: stdout + stderr }),
    ),
  );

function folderWith(t, stages) {
  const folder = mkdtempSync(join(tmpdir(), 'sinkscope-'));
  t.after(() => rmSync(folder, { recursive: true }));
  mkdirSync(join(folder, 'tests'));
  for (const name of ['run', 'tools', 'results.mjs'])
    copyFileSync(join(root, 'tests', name), join(folder, 'tests', name));
  chmodSync(join(folder, 'tests/run'), 0o755);
  writeFileSync(join(folder, 'tests/README.md'), README);
  writeFileSync(
    join(folder, 'tests/stages'),
    `nightly=''\ntimed=''\ndeclare -A after=()\n${stages}`,
  );
  return folder;
}

async function runWith(t, stages, ...stageNames) {
  const { status, output } = await run(join(folderWith(t, stages), 'tests/run'), stageNames);
  return { status, output, last: output.trimEnd().split('\n').at(-1) };
}

const xml = (passed, failed = 0, reasons = []) =>
  `<testsuites><testsuite name="it">${'<testcase name="a > b"/>'.repeat(passed)}${'<testcase name="c"><failure message="no"/></testcase>'.repeat(failed)}${reasons
    .map((reason) => `<testcase name="d"><skipped message="${reason}"/></testcase>`)
    .join('')}</testsuite></testsuites>`;
const writes = (...counts) => `echo '${xml(...counts)}' >"$SINKSCOPE_REPORTS/a.xml"`;

test('counts are added over stages, and the last line is their sum', async (t) => {
  const stages = `stages='a b c'
a() { ${writes(3)}; echo '9 passed, 9 failed'; }
b() { ${writes(2, 1)}; return 1; }
c() { :; }`;
  const allStages = await runWith(t, stages);
  assert.equal(allStages.last, '6 passed, 1 failed');
  assert.equal(allStages.status, 1);
  const oneStage = await runWith(t, stages, 'a');
  assert.equal(oneStage.last, '3 passed, 0 failed');
  assert.equal(oneStage.status, 0);
});

test('the last lines repeat what failed, in whichever stage, with its reason', async (t) => {
  const { output } = await runWith(
    t,
    `stages='setup a b c'
after=([b]=a [c]=b)
setup() { :; }
a() { ${writes(1, 2)}; return 1; }
b() { ${writes(1, 0, ['no key'])}; }
c() { seq 100; echo 'error: no file'; return 3; }`,
  );
  const end = output.slice(output.lastIndexOf('\n-- c: '));
  assert.match(
    end,
    /^\n-- c: .*\n(failed, a: c\n {4}no\n){2}skipped, .* b: d: no key\nfailed, c: exit status 3\n82\n/,
  );
  assert.match(end, /\n100\nerror: no file\nTotal time: \d+ s\n3 passed, 4 failed\n$/);
});

test('a stage passes by its exit status, and an unknown stage is rejected', async (t) => {
  const crashedStage = await runWith(t, `stages=a\na() { ${writes(5)}; return 3; }`);
  assert.equal(crashedStage.last, '5 passed, 1 failed');
  const silentStage = await runWith(t, `stages=a\na() { return 3; }`);
  assert.equal(silentStage.last, '0 passed, 1 failed');
  const otherStage = await runWith(t, `stages=a\na() { :; }`, 'b');
  assert.equal(otherStage.status, 2);
});

test('a report that is cut off or has no test fails its stage, and reports of an earlier run do not count', async (t) => {
  for (const report of ['<testsuites>', xml(0)]) {
    const { last } = await runWith(
      t,
      `stages=a\na() { echo '${report}' >"$SINKSCOPE_REPORTS/a.xml"; }`,
    );
    assert.equal(last, '0 passed, 1 failed');
  }
  const folder = folderWith(t, `stages=a\na() { [ -e ran ] || { touch ran; ${writes(7)}; }; }`);
  for (const last of ['7 passed, 0 failed', '1 passed, 0 failed'])
    assert.match((await run(join(folder, 'tests/run'), [])).output, RegExp(`${last}\n$`));
});

test('two stages run side by side after their dependencies, without mixing their outputs', async (t) => {
  // Each of the first two stages waits until the other has begun.
  const meet = (stage, otherStage) =>
    `touch ${stage}; until [ -e ${otherStage} ]; do sleep 0.01; done; echo ${stage} and ${otherStage}`;
  const { last, output } = await runWith(
    t,
    `stages='setup c a b d'
after=([c]='a b' [d]=a)
setup() { mkdir setup; }
a() { cd setup || return; ${meet('a', 'b')}; echo end of a; }
b() { cd setup || return; ${meet('b', 'a')}; echo end of b; touch ended; }
c() { [ -e setup/ended ]; }
d() { [ -e setup/a ]; }`,
  );
  assert.equal(last, '5 passed, 0 failed', output);
  for (const [name, other] of ['ab', 'ba'])
    assert.match(
      output,
      RegExp(`== ${name}\n${name} and ${other}\nend of ${name}\n-- ${name}: 1 passed`),
    );
});

test('the stage `wasm` builds every native program that tests of the package run', () => {
  const targets = /^wasm\(\) \{.*?--target ([a-z ]+)$/ms.exec(
    readFileSync(join(root, 'tests/stages'), 'utf8'),
  )[1];
  const names = readdirSync(join(root, 'tests/wasm'))
    .filter((name) => name.endsWith('.mjs'))
    .flatMap((name) => [
      ...readFileSync(join(root, 'tests/wasm', name), 'utf8').matchAll(
        /\.build\/native\/([a-z]+)/g,
      ),
    ])
    .map(([, name]) => name);
  assert.ok(names.length > 2);
  for (const name of names) assert.ok(targets.split(' ').includes(name), name);
});

test('two builds of the page at once wait for each other', async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'sinkscope-'));
  t.after(() => rmSync(folder, { recursive: true }));
  // Each tool writes its words into one file, at its beginning and, later, at its end.
  const program = '#!/bin/sh\necho "$(basename $0) $*" >>log; sleep 0.2; echo end >>log\n';
  for (const name of ['tests/setup', 'bin/cmake', 'bin/npm', 'tests/tools', 'web/serve']) {
    mkdirSync(dirname(join(folder, name)), { recursive: true });
    const copied = name === 'web/serve' ? readFileSync(join(root, name)) : program;
    writeFileSync(join(folder, name), name === 'tests/tools' ? '' : copied, { mode: 0o755 });
  }
  const env = { ...process.env, PATH: `${folder}/bin:${process.env.PATH}` };
  const build = () => run(join(folder, 'web/serve'), ['--build-only'], { env });
  for (const { status, output } of await Promise.all([build(), build()]))
    assert.equal(status, 0, output);
  const steps = `setup native wasm page
cmake -B .build/native
cmake --build .build/native --target wasm
npm --prefix web run build
`;
  const once = steps.replaceAll('\n', '\nend\n');
  assert.equal(readFileSync(join(folder, 'log'), 'utf8'), once + once);
});

test('a skip counts as failed where the table does not list its reason for that stage', async (t) => {
  const stages = `stages='a b'
a() { ${writes(1, 0, ['no such file'])}; }
b() { ${writes(1, 0, ['no such file'])}; }`;
  assert.equal((await runWith(t, stages, 'a')).last, '1 passed, 0 failed');
  const otherRun = await runWith(t, stages, 'b');
  assert.equal(otherRun.last, '1 passed, 1 failed');
  assert.equal(otherRun.status, 1);
  assert.match(otherRun.output, /skipped, .* list it for b: d: no such file/);
});

test('the reports of node:test, pytest and our own runners are read', async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'sinkscope-'));
  t.after(() => rmSync(folder, { recursive: true }));
  const js = join(folder, 'a.test.mjs');
  const py = join(folder, 'test_a.py');
  const pathIn = (name) => join(folder, name);
  writeFileSync(
    js,
    `import test, { describe, it } from 'node:test';
test('a', { skip: 'of node' }, () => {});
describe('b', () => { it('c', () => { throw new Error('<testcase name=none/>'); }); });
test('d > e', () => {});
test('later', { todo: true }, () => {});`,
  );
  writeFileSync(
    py,
    `import pytest
def test_a(): pytest.skip("of $pytest <1>")
def test_b(): assert not "<testcase name='none'/>"
def test_c(): pass
@pytest.mark.xfail(reason="later")
def test_d(): assert False`,
  );
  const env = { ...process.env, NODE_TEST_CONTEXT: undefined };
  const junit = ['--test-reporter=junit', `--test-reporter-destination=${pathIn('node.xml')}`];
  await run(process.execPath, ['--test', '--test-force-exit', ...junit, js], { env });
  const pytest = [
    '-m',
    'pytest',
    '-q',
    '-p',
    'no:cacheprovider',
    '--junit-xml',
    pathIn('pytest.xml'),
  ];
  await run('python3', [...pytest, py]);
  const tests = (file) => testsOf(readFileSync(pathIn(file), 'utf8'));
  assert.deepEqual(tests('node.xml'), [
    { name: 'a', skip: 'of node' },
    { name: 'c', failure: '<testcase name=none/>' },
    { name: 'd > e' },
    { name: 'later', skip: 'true' },
  ]);
  assert.deepEqual(tests('pytest.xml'), [
    { name: 'test_a', skip: 'of $pytest <1>' },
    { name: 'test_b', failure: `assert not "<testcase name='none'/>"` },
    { name: 'test_c' },
    { name: 'test_d', skip: 'later' },
  ]);
});

test('a skipped test of ctest, which gives no reason, is reported by its name', () => {
  const report =
    '<testsuite name="x" tests="1"><testcase name="races" status="notrun"><skipped message="SKIP_REGULAR_EXPRESSION_MATCHED"/><system-out>no</system-out></testcase></testsuite>';
  assert.equal(countsOf([report], 0, ['races']).failed, 0);
  assert.equal(countsOf([report], 0, []).failed, 1);
});

test('no test of the stage python is skipped for a missing package, since all packages are pinned', async () => {
  const { output } = await run('git', ['grep', '-l', 'importorskip', 'tests/python'], {
    cwd: root,
  });
  assert.equal(output, '');
});

test('a skip is allowed only by its exact reason, listed in the section Skips of the README', () => {
  assert.deepEqual(listedFor(README, 'a'), ['no such file']);
  assert.deepEqual(listedFor(README, 'b'), []);
  assert.equal(countsOf([xml(0, 0, ['no such file there'])], 0, ['no such file']).failed, 1);
});

test('each reason in the table of skips is given by a test of its stage', async () => {
  const readme = readFileSync(join(root, 'tests/README.md'), 'utf8');
  const stages = readFileSync(join(root, 'tests/stages'), 'utf8');
  const folders = {
    native: ['CMakeLists.txt'],
    package: ['tests/wasm'],
    python: ['tests/python'],
    record: ['tests/record'],
    newest: ['tests/record'],
    web: ['web/test'],
  };
  for (const stage of [...stages.matchAll(/^(\w+)\(\) /gm)].map(([, name]) => name))
    for (const reason of listedFor(readme, stage)) {
      // Vitest gives no reason, but the test's name behind those of its groups.
      const written = stage === 'web' ? reason.split(' > ').at(-1) : reason;
      const { output } = await run('grep', ['-rlF', written, ...folders[stage]], { cwd: root });
      assert.notEqual(output, '', `${stage}: ${reason}`);
    }
});

test('each small edit of tests/mutate finds its code once, and names a test that exists', () => {
  const rows = readFileSync(join(root, 'tests/mutate/edits.jsonl'), 'utf8').trim().split('\n');
  for (const row of rows) {
    const { file, code, test } = JSON.parse(row);
    const count = readFileSync(join(root, file), 'utf8').split(code).length - 1;
    assert.equal(count, 1, `${file}: ${code}`);
    assert.ok(existsSync(join(root, test)), test);
  }
});
