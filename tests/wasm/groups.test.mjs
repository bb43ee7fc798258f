/** Checks that the command line measures the texts of each label separately. */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { groupsOf } from '../../wasm/internal.ts';

const root = new URL('../../', import.meta.url);
const cli = fileURLToPath(new URL('wasm/cli.js', root));
const softmax = fileURLToPath(new URL('models/zoo/softmax', root));
const folder = mkdtempSync(join(tmpdir(), 'sinkscope-groups-'));
after(() => rmSync(folder, { recursive: true }));

const run = (...args) => promisify(execFile)(process.execPath, [cli, 'measure', softmax, ...args]);
const writeLines = (name, lines) => {
  const path = join(folder, name);
  writeFileSync(path, lines.join('\n'));
  return path;
};

const passages = JSON.parse(readFileSync(new URL('models/zoo/heldout.json', root), 'utf8'))
  .slice(0, 5)
  .map((text) => text.replace(/\s+/g, ' '));
const prose = passages.slice(0, 3);
const repeated = ['the the ', 'and and '].map((text) => text.repeat(60));

test('texts are grouped by their labels, in order; all or none of them have one', () => {
  assert.deepEqual(groupsOf(['a\tone', 'b\ttwo\tthree', 'a\tfour']), [
    { label: 'a', texts: ['one', 'four'] },
    { label: 'b', texts: ['two\tthree'] },
  ]);
  const unlabeledTexts = [
    ['a\tone', 'two'],
    ['a\tone', 'a\ttwo'],
    ['\tone', 'b\ttwo'],
    ['a\t', 'b\ttwo'],
    [],
  ];
  for (const texts of unlabeledTexts) assert.equal(groupsOf(texts), undefined);
  assert.equal(groupsOf([`${'a'.repeat(61)}\tone`, 'b\ttwo']), undefined);
  assert.equal(groupsOf(['__proto__\tone', 'constructor\ttwo'])?.length, 2);
});

test('--label measures each label like its texts alone', async () => {
  const labeled = [
    ...prose.map((text) => `prose\t${text}`),
    ...repeated.map((text) => `repeated\t${text}`),
  ];
  const args = ['--tokens', '32', '--json'];
  const path = writeLines('labeled.tsv', labeled);
  const result = JSON.parse((await run('--text-file', path, '--label', ...args)).stdout);
  assert.equal(result.sequences, 5);
  const counts = result.byLabel.map(({ label, sequences }) => [label, sequences]);
  assert.deepEqual(counts, [
    ['prose', 3],
    ['repeated', 2],
  ]);
  for (const [i, texts] of [prose, repeated].entries()) {
    const groupFile = writeLines(`alone-${i}.txt`, texts);
    const groupResult = JSON.parse(
      (await run('--text-file', groupFile, '--lines', ...args)).stdout,
    );
    assert.deepEqual(result.byLabel[i].metrics, groupResult.metrics);
  }
  const { stdout } = await run('--text-file', path, '--label', '--tokens', '32');
  const [mean] = result.byLabel[0].metrics.sink_ratio.mean;
  assert.ok(stdout.includes(`  prose: ${(100 * mean).toFixed(1)}% ± `), stdout);
  const twoSequences = JSON.parse(
    (await run('--text-file', path, '--label', '--sequences', '2', ...args)).stdout,
  );
  assert.deepEqual(
    twoSequences.byLabel.map(({ sequences }) => sequences),
    [1, 1],
  );
});

test('a file without labels, and a label without a long text, are rejected with what was expected', async () => {
  const plainFile = writeLines('plain.txt', passages);
  await assert.rejects(run('--text-file', plainFile, '--label'), ({ stderr }) =>
    /plain\.txt.*expected a label, a tab and a text/s.test(stderr),
  );
  const shortFile = writeLines('short.tsv', [`prose\t${prose[0]}`, 'code\tx = 1']);
  await assert.rejects(run('--text-file', shortFile, '--label', '--tokens', '32'), ({ stderr }) =>
    /label “code”.*expected a text of at least 31 tokens/s.test(stderr),
  );
});
