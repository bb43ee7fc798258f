// The rules of tests/run, on stages made for this: what comes after what, what counts, which skips are allowed.
import assert from 'node:assert/strict';
import { execFile, spawn } from 'node:child_process';
import {
  chmodSync,
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import test from 'node:test';
import { fileURLToPath } from 'node:url';
import { listedFor, skipsOf, unlisted } from './skips.mjs';

const root = fileURLToPath(new URL('../', import.meta.url));
const README = `# tests

## Skips

| stage | reason | why |
|---|---|---|
| \`a\` | \`no such file\` | it is large |

## Next

| \`a\` | \`of another table\` | no |
`;

/** Runs a program whatever it exits with; what it prints and its exit status. */
const run = (command, args, options = {}) =>
  new Promise((done) =>
    execFile(command, args, options, (error, stdout, stderr) =>
      done({ status: error ? error.code : 0, output: stdout + stderr }),
    ),
  );

/** tests/run in a folder of its own with these stages. */
function folderWith(t, stages) {
  const folder = mkdtempSync(join(tmpdir(), 'sinkscope-'));
  t.after(() => rmSync(folder, { recursive: true }));
  mkdirSync(join(folder, 'tests'));
  for (const name of ['run', 'tools', 'skips.mjs'])
    copyFileSync(join(root, 'tests', name), join(folder, 'tests', name));
  chmodSync(join(folder, 'tests/run'), 0o755);
  writeFileSync(join(folder, 'tests/README.md'), README);
  writeFileSync(
    join(folder, 'tests/stages'),
    `nightly=''\ntimed=''\ndeclare -A after=()\n${stages}`,
  );
  return folder;
}

/** What tests/run says of these stages. */
async function runWith(t, stages, ...chosen) {
  const { status, output } = await run(join(folderWith(t, stages), 'tests/run'), chosen);
  return { status, output, last: output.trimEnd().split('\n').at(-1) };
}

test('counts are added over stages, and the last line is their sum', async (t) => {
  const stages = `stages='a b c'
a() { echo '3 passed, 0 failed'; }
b() { echo 'ℹ pass 2'; echo 'ℹ fail 1'; return 1; }
c() { :; }`;
  const all = await runWith(t, stages);
  assert.equal(all.last, '6 passed, 1 failed');
  assert.equal(all.status, 1);
  const one = await runWith(t, stages, 'a');
  assert.equal(one.last, '3 passed, 0 failed');
  assert.equal(one.status, 0);
});

test('a stage that fails without a count is one failure, and a stage that does not exist is refused', async (t) => {
  const crashed = await runWith(t, `stages=a\na() { echo '5 passed, 0 failed'; return 3; }`);
  assert.equal(crashed.last, '5 passed, 1 failed');
  const other = await runWith(t, `stages=a\na() { :; }`, 'b');
  assert.equal(other.status, 2);
});

test('two stages run side by side, each after what it needs, and their output is not mixed', async (t) => {
  // Each of the first two waits until the other has begun.
  const meet = (own, other) =>
    `touch ${own}; until [ -e ${other} ]; do sleep 0.01; done; echo '1 passed, 0 failed'`;
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
  for (const name of ['a', 'b'])
    assert.match(
      output,
      RegExp(`== ${name}\n1 passed, 0 failed\nend of ${name}\n-- ${name}: 1 passed`),
    );
});

/** Waits for what a function gives, for at most ten seconds. */
async function until(of) {
  for (let i = 0; i < 1000; i++) {
    const found = of();
    if (found) return found;
    await new Promise((done) => setTimeout(done, 10));
  }
  return undefined;
}

const isRunning = (pid) => {
  try {
    return !/^State:\s+Z/m.test(readFileSync(`/proc/${pid}/status`, 'utf8'));
  } catch {
    return false;
  }
};

/** Starts a program, ends it by a signal once the file holds the number of a process, and says whether that one has ended. */
async function endsWith(t, signal, file, command, args = [], options = {}) {
  const child = spawn(command, args, { ...options, stdio: 'ignore' });
  const pid = await until(() => existsSync(file) && Number(readFileSync(file, 'utf8')));
  assert.ok(pid, 'nothing has begun');
  t.after(() => isRunning(pid) && process.kill(pid, 'SIGKILL'));
  child.kill(signal);
  return until(() => !isRunning(pid));
}

for (const signal of ['SIGINT', 'SIGTERM'])
  test(`what a stage has started ends when tests/run is ended by ${signal}`, async (t) => {
    const folder = folderWith(t, `stages=a\na() { sleep 100 & echo $! >started; wait; }`);
    const ended = await endsWith(t, signal, join(folder, 'started'), join(folder, 'tests/run'));
    assert.ok(ended, 'it runs on');
  });

for (const signal of ['SIGINT', 'SIGTERM', 'SIGKILL'])
  test(`what runs on the bare machine ends when tests/bare is ended by ${signal}`, async (t) => {
    const folder = mkdtempSync(join(tmpdir(), 'sinkscope-'));
    t.after(() => rmSync(folder, { recursive: true }));
    mkdirSync(join(folder, 'tests'));
    copyFileSync(join(root, 'tests/bare'), join(folder, 'tests/bare'));
    // Programs that only root may run. All processes of a namespace end with the one that has made it, unshare.
    const programs = {
      id: 'echo 0',
      debootstrap: ':',
      git: ':',
      unshare: 'echo $$ >../started; exec sleep 100',
    };
    mkdirSync(join(folder, 'bin'));
    mkdirSync(join(folder, 'machine/root/sinkscope'), { recursive: true });
    for (const [name, script] of Object.entries(programs))
      writeFileSync(join(folder, 'bin', name), `#!/bin/bash\n${script.replace('..', folder)}\n`, {
        mode: 0o755,
      });
    const env = { ...process.env, PATH: `${join(folder, 'bin')}:${process.env.PATH}` };
    const args = ['--keep', join(folder, 'machine'), 'run'];
    const file = join(folder, 'started');
    const ended = await endsWith(t, signal, file, join(folder, 'tests/bare'), args, { env });
    assert.ok(ended, 'it runs on');
  });

test('a skip counts as failed where the table does not list its reason for that stage', async (t) => {
  const skips = (reason) => `echo '﹣ it (0.1ms) # ${reason}'; echo 'ℹ pass 1'; echo 'ℹ skipped 1'`;
  const stages = `stages='a b'
a() { ${skips('no such file')}; }
b() { ${skips('no such file')}; }`;
  assert.equal((await runWith(t, stages, 'a')).last, '1 passed, 0 failed');
  const other = await runWith(t, stages, 'b');
  assert.equal(other.last, '1 passed, 1 failed');
  assert.equal(other.status, 1);
  assert.match(other.output, /skipped, .* list it for b: no such file/);
});

const LOGS = {
  'node:test': [
    '﹣ b (0.3ms) # why not\n  ﹣ c (1.1ms) # SKIP\n✔ e (0.1ms) # TODO\nℹ skipped 2\nℹ todo 1',
    ['why not', '', ''],
  ],
  TAP: ['ok 1 - a\nok 2 - b # SKIP why: not\n# skipped 1', ['why: not']],
  pytest: [
    'SKIPPED [2] tests/a.py:8: torch: none\nXFAIL tests/a.py::test_b - later\n= 1 passed, 2 skipped, 1 xfailed in 0.50s =',
    ['torch: none', 'torch: none', 'later'],
  ],
  'pytest -q': [
    'SKIPPED [1] tests/a.py: no reason\n1 failed, 3 passed, 1 skipped in 61.25s (0:01:01)',
    ['no reason'],
  ],
  vitest: [' ↓ it waits\n      Tests  3 passed | 2 skipped | 1 todo (6)', ['', '', '']],
  Playwright: ['  -  1 it waits\n  1 skipped\n  3 passed (2s)', ['']],
  ctest: [
    '7: 3 passed, 0 failed\nThe following tests did not run:\n\t  7 - races (Skipped)',
    ['races'],
  ],
  ours: ['skip embed: no host\n5 passed, 0 failed, 1 skipped', ['no host']],
  none: [
    '# skipped 0\nℹ skipped 0\n3 passed, 0 failed\n      Tests  3 passed (3)\n9 passed in 0.1s\nit skipped 4 tokens',
    [],
  ],
};
for (const [runner, [log, expected]] of Object.entries(LOGS))
  test(`${runner}: skipped tests are found with their reasons`, () => {
    assert.deepEqual(skipsOf(log), expected);
  });

test('the reasons of a real run of node:test and pytest are found', async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'sinkscope-'));
  t.after(() => rmSync(folder, { recursive: true }));
  const js = join(folder, 'a.test.mjs');
  writeFileSync(
    js,
    `import test from 'node:test';\ntest('a', { skip: 'of node' }, () => {});\ntest('b', () => {});`,
  );
  const py = join(folder, 'test_a.py');
  writeFileSync(py, `import pytest\ndef test_a(): pytest.skip("of pytest")\ndef test_b(): pass\n`);
  const env = { ...process.env, NODE_TEST_CONTEXT: undefined };
  const node = await run(process.execPath, ['--test', '--test-reporter=spec', js], { env });
  assert.deepEqual(skipsOf(node.output), ['of node'], node.output);
  const pytest = await run('python3', ['-m', 'pytest', '-q', '-rsx', '-p', 'no:cacheprovider', py]);
  assert.deepEqual(skipsOf(pytest.output), ['of pytest'], pytest.output);
});

test('no test of the stage python skips itself for want of a package: all are pinned', async () => {
  const { output } = await run('git', ['grep', '-l', 'importorskip', 'tests/python'], {
    cwd: root,
  });
  assert.equal(output, '');
});

test('only the section of skips is read, and a reason must be equal', () => {
  assert.deepEqual(listedFor(README, 'a'), ['no such file']);
  assert.deepEqual(listedFor(README, 'b'), []);
  assert.deepEqual(unlisted(README, 'a', 'skip x: no such file there'), ['no such file there']);
});

test('each listed reason is one that a test of its stage gives', async () => {
  const readme = readFileSync(join(root, 'tests/README.md'), 'utf8');
  const stages = readFileSync(join(root, 'tests/stages'), 'utf8');
  const folders = {
    native: ['CMakeLists.txt'],
    package: ['tests/wasm'],
    python: ['tests/python'],
    record: ['tests/record'],
    newest: ['tests/record'],
  };
  for (const stage of [...stages.matchAll(/^(\w+)\(\) /gm)].map(([, name]) => name))
    for (const reason of listedFor(readme, stage)) {
      const { output } = await run('grep', ['-rlF', reason, ...folders[stage]], { cwd: root });
      assert.notEqual(output, '', `${stage}: ${reason}`);
    }
});
