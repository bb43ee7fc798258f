/**
 * A shell runs the commands that the page copies: the command line receives the exact words, and measures the same
 * tokens.
 */
import { spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, describe, expect, it } from 'vitest';
import { openTokenizer, type Describe } from 'sinkscope';
import type { Card } from '../src/ask/zoo';
import { commandOf as labCommandOf, readSettings, tablesOf } from '../src/lab/settings';
import { PRESETS } from '../src/lab/presets';
import { commandOf } from '../src/page/command';
import { frameOf, isBuilt, UNBUILT } from './fixture';

const root = fileURLToPath(new URL('../../', import.meta.url));
const zoo = join(root, 'models/zoo');
const bin = mkdtempSync(join(tmpdir(), 'sinkscope-commands-'));
afterAll(() => rmSync(bin, { recursive: true }));

/** Puts a command on the shell's path that prints its words, and those in $MORE, each with a zero behind it. */
writeFileSync(join(bin, 'sinkscope'), `#!/bin/sh\nexec printf '%s\\0' "$@" $MORE\n`, {
  mode: 0o755,
});
process.chdir(root);
const { runCli } = (await import(join(root, 'tests/wasm/helper.mjs'))) as {
  runCli(...words: string[]): Promise<{ stdout: string; stderr: string }>;
};

const env = { ...process.env, PATH: `${bin}:${process.env.PATH}` };
/** Runs the words that a shell reads from a line in this process, which starts no Node.js for it; cli.test.mjs starts the program. */
const runInShell = (line: string, more = '') => {
  const shell = spawnSync('sh', ['-c', line], { env: { ...env, MORE: more }, encoding: 'utf8' });
  return runCli(...shell.stdout.split('\0').slice(0, -1));
};

const tokenizer = openTokenizer(readFileSync(join(zoo, 'softmax/tokenizer.json'), 'utf8'));
const idsOf = (prompt: string) => tokenizer.encode(prompt).map(({ id }) => id);

function copiedCommand(prompt: string) {
  const ids = idsOf(prompt);
  const frame = frameOf({ ids: [ids], T: ids.length } as never);
  return commandOf({ ...frame, question: { ...frame.question, prompt } } as never)!;
}

const HOSTILE = [
  ['a dash', '-The king'],
  ['an option', '--json'],
  ['an option with a value', '--tokens=3'],
  ['two dashes', '--'],
  ['one dash', '-'],
  ['quotes', `it's "so" 'said'`],
  ['a substitution', '$(touch broken) `touch broken` $HOME ${HOME}'],
  ['an end of the command', "'; touch broken; '"],
  ['line breaks', 'one\ntwo\n\n-three'],
  ['a carriage return and a tab', 'a\r\n\tb'],
  ['an escape', '\x1b[201~; touch broken\n \x9b'],
  ['other scripts', 'häßlich 😀 日本語 עברית\u202e'],
  ['white space', '  two  spaces  '],
  ['signs of the shell', '* ? ~ # & | < > ! \\ \\n %s =ls'],
  ['an equals sign', '=ls'],
  ['nothing', ''],
] as const;

it('a copied command joins held-out passages where a prompt needs several', () => {
  const joinOptionOf = (T: number) => {
    const question = { ...frameOf().question, input: 'heldout', T };
    return /--join \d+/.exec(commandOf(frameOf({ question } as never))!)?.[0];
  };
  expect([64, 150, 151, 400].map(joinOptionOf)).toEqual([
    undefined,
    undefined,
    '--join 2',
    '--join 3',
  ]);
});

describe.skipIf(!isBuilt)(`a copied command (${UNBUILT})`, () => {
  it.for(HOSTILE)(
    'gives the tokens of a prompt with %s',
    { timeout: 120_000 },
    async ([, prompt]) => {
      const line = copiedCommand(prompt);
      // A pasted command contains no control character that the terminal would act on.
      expect(line).not.toMatch(/[\0-\x09\x0b-\x1f\x7f-\x9f]/);
      const { stdout, stderr } = await runInShell(line, '--per-prompt --json');
      expect(stdout, stderr).toMatch(/^\{/);
      const { byPrompt } = JSON.parse(stdout) as { byPrompt: { ids: number[] }[] };
      expect(byPrompt.map(({ ids }) => ids)).toEqual([idsOf(prompt)]);
      expect(() => readFileSync(join(root, 'broken'))).toThrow('ENOENT');
    },
  );

  it('names a file that begins with a dash as a path', async () => {
    const { question } = frameOf();
    const file = { name: '-mine.txt', splitting: 'lines' };
    const line = commandOf(
      frameOf({ question: { ...question, input: 'file' } } as never),
      file as never,
    )!;
    const { stderr } = await runInShell(line);
    expect(stderr).toMatch(/--text-file: \.\/-mine\.txt: expected a file of text/);
    const recording = commandOf(
      frameOf({ recording: {}, model: { id: 'recording:-a b.safetensors' } } as never),
    )!;
    expect((await runInShell(recording)).stderr).toMatch(
      /^sinkscope: \.\/-a b\.safetensors: expected a file/,
    );
  });

  it('of a lab has only options that the command line accepts', { timeout: 120_000 }, async () => {
    const tables = JSON.parse((await runInShell('sinkscope describe --json')).stdout) as Describe;
    const description = JSON.parse(
      readFileSync(join(root, 'wasm/sinkscope.describe.json'), 'utf8'),
    ) as Describe;
    const cards = JSON.parse(readFileSync(join(zoo, 'index.json'), 'utf8')) as Card[];
    const rows = tablesOf({ ...tables, training: description.training } as Describe, cards);
    const presets = PRESETS.flatMap(({ leftRun, rightRun }) => [leftRun, rightRun]);
    const links = [...presets, '', 'first:any', 'from:softmax,at:1000,text:own,first:fixed'];
    for (const link of new Set(links)) {
      const line = labCommandOf(readSettings(link, rows).settings, rows);
      // The command line refuses the last option, so it has accepted all words before it.
      const { stderr } = await runInShell(line, '--every 0');
      expect(stderr, line).toMatch(/^sinkscope: --every: expected .*\n$/);
    }
  });
});
