// Tests the table of commands: its help, its refusals, and that output cannot control a terminal.
import { mkdtempSync, readFileSync, rmSync, statSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { after, test } from 'node:test';
import assert from 'node:assert/strict';
import { expectExists } from '../../wasm/command/open.ts';
import { shellCommand } from '../../wasm/command/recording.ts';
import { COMMANDS, readArguments, usage, withDefaults } from '../../wasm/command/options.ts';
import { oneLine, escapeControls } from '../../wasm/command/output.ts';
import { openTokenizer } from '../../wasm/index.ts';
import { headerOf, withHeader } from '../safetensors.mjs';
import { binaries, runCli, softmax } from './helper.mjs';

const model = fileURLToPath(softmax);
const describe = JSON.parse(readFileSync(new URL('sinkscope.describe.json', binaries), 'utf8'));
const folder = mkdtempSync(join(tmpdir(), 'sinkscope-options-'));
after(() => rmSync(folder, { recursive: true }));

const commands = Object.keys(COMMANDS);
const optionsOf = (command) => COMMANDS[command].options(describe);
const wantedNames = (command) => COMMANDS[command].names.map((_, i) => `name${i}`);

test('a name is checked in time that grows with its length', { timeout: 240_000 }, async () => {
  // A check in quadratic time would take half an hour for this length.
  const count = 400_000;
  for (const piece of ['a', '/', '@', ':', 'a/', 'a@', '.gguf', 'a/b:'])
    for (const end of ['', '.gguf', '/x.gguf', '@x', ':x.gguf'])
      await assert.rejects(expectExists(piece.repeat(count) + end), { code: 'read' }, piece + end);
});

test('the help of every command describes each of its options', async () => {
  const argLists = [['--help'], [], ...commands.map((command) => [command, '--help'])];
  for (const args of argLists) {
    const { status, stdout, stderr } = await runCli(...args);
    assert.deepEqual([status, stderr], [0, ''], args.join(' '));
    assert.doesNotMatch(stdout, /undefined|NaN|null|\[object|\(\)/, args.join(' '));
    const [command] = args;
    if (command === '--help' || !command) continue;
    assert.equal(stdout, usage(describe, command));
    for (const [name, { meaning }] of Object.entries(optionsOf(command))) {
      assert.match(stdout, new RegExp(`^  --${name}( |$)`, 'm'));
      assert.ok(meaning.length > 5, `${command} --${name}`);
    }
  }
  assert.equal((await runCli('help', 'map')).stdout, usage(describe, 'map'));
  assert.equal((await runCli('help')).stdout, usage(describe));
  const { stderr } = await runCli('help', 'nothing');
  assert.match(stderr, /^sinkscope: command: expected one of measure, .*, got "nothing"\n$/);
  const { stdout } = await runCli('measure', '--help');
  for (const { name, meaning } of describe.edits)
    assert.ok(stdout.includes(`      ${name}: `) && stdout.includes(meaning), name);
});

test('help texts have lines of at most 108 characters, each filled with whole words', () => {
  let wrappedCount = 0;
  for (const command of commands) {
    const lines = usage(describe, command).split('\n');
    lines.forEach((line, i) => {
      if (!/^ {28}\S/.test(line)) return;
      const before = lines[i - 1];
      assert.ok(line.length <= 108 && before.length <= 108, before);
      const [word] = line.trim().split(' ');
      // A name that is wider than its column has a line of its own.
      const isName = /^ {2}--\S+ \S{19,}$/.test(before);
      assert.ok(isName || before.length + 1 + word.length > 108, before);
      wrappedCount++;
    });
  }
  assert.ok(wrappedCount > 50, `${wrappedCount}`);
});

test('each command accepts its own options and rejects those of other commands by name', () => {
  const allNames = new Set(commands.flatMap((command) => Object.keys(optionsOf(command))));
  let refusedCount = 0;
  for (const command of commands) {
    const options = optionsOf(command);
    const names = wantedNames(command);
    for (const name of allNames) {
      const isFlag = commands.some(
        (command) => optionsOf(command)[name] && !optionsOf(command)[name].value,
      );
      // A default is one of the words, or in the range, that an option may have.
      const value = options[name]?.default ?? '7';
      const args = [command, ...names, `--${name}`, ...(isFlag ? [] : [value])];
      if (options[name]) {
        const { givenOptions: parsedOptions } = readArguments(args, describe);
        assert.deepEqual(parsedOptions, {
          [name]: isFlag ? true : options[name].repeats ? [value] : value,
        });
        continue;
      }
      const owners = commands.filter((command) => optionsOf(command)[name]);
      const message = RegExp(`^--${name}: ${command} has no .*; ${owners.join(', ')} ha(s|ve) it$`);
      assert.throws(() => readArguments(args, describe), { code: 'argument', message });
      refusedCount++;
    }
  }
  assert.ok(refusedCount > 100, `${refusedCount}`);
});

test('unknown options, missing values, extra values and extra names are rejected', () => {
  for (const [args, message] of [
    [
      ['measure', 'm', '--depth'],
      /^--depth: measure has no such option; "sinkscope measure --help"/,
    ],
    [['measure', 'm', '-t'], /^-t: measure has no such option/],
    [['measure', 'm', '--toString'], /^--toString: measure has no such option; "sinkscope/],
    [['measure', 'm', '--json=1'], /^--json: expected no value, got "1"$/],
    [['measure', 'm', '--text'], /^--text: expected a value, TEXT, found none$/],
    [
      ['measure', 'm', '--text', '--json'],
      /^--text: .*, after "=" if it begins with "--", got "--json"$/,
    ],
    [['measure'], /^MODEL: expected one model, found none$/],
    [['measure', 'm', 'n'], /^MODEL: expected one model, got 2$/],
    [['compare', 'm'], /^A B: expected two recordings, or a recording and a model, got 1$/],
    [['describe', 'm'], /^describe: expected options only, got 1$/],
    [['--json', 'describe'], /^command: expected one of measure, .*, got "--json"$/],
    [[''], /^command: expected one of measure, .*, got ""$/],
  ])
    assert.throws(() => readArguments(args, describe), { message }, args.join(' '));
});

test('a value is taken verbatim, even with a leading dash; of repeated options the last one counts', () => {
  for (const text of ['-The', '- x', '-', '', '$(x)', '`x`', "it's", 'ä\n😀', '-1', '=x']) {
    assert.equal(readArguments(['measure', 'm', '--text', text], describe).givenOptions.text, text);
    assert.equal(
      readArguments(['measure', 'm', `--text=${text}`], describe).givenOptions.text,
      text,
    );
  }
  for (const text of ['--', '--text', '--The'])
    assert.equal(
      readArguments(['measure', 'm', `--text=${text}`], describe).givenOptions.text,
      text,
    );
  const { givenOptions: parsedOptions, names } = readArguments(
    ['measure', '--tokens', '3', '--tokens', '4', '--ids', '1', '--ids', '2', '--', '-m'],
    describe,
  );
  assert.deepEqual([parsedOptions, names], [{ tokens: '4', ids: ['1', '2'] }, ['-m']]);
  const { tokens, sequences, eps } = withDefaults('measure', parsedOptions, describe);
  assert.deepEqual([tokens, sequences, eps], ['4', '100', String(describe.defaults.eps)]);
});

test('an option that another option makes ineffective is rejected', async () => {
  const recording = join(folder, 'r.safetensors');
  const text = join(folder, 'text.txt');
  writeFileSync(text, 'Once upon a time there was a king. '.repeat(20));
  const size = ['--text-file', text, '--tokens', '12', '--sequences', '2'];
  assert.equal((await runCli('record', model, ...size, '--out', recording)).status, 0);
  const isRecording =
    /needs a model, and .*r\.safetensors is a recording, which prints what it holds/;
  for (const [args, message] of [
    [['measure', model, '--text', 'a', '--lines'], /--lines: needs --text-file/],
    [['measure', model, ...size, '--join', '2'], /--join: needs --lines/],
    [['measure', model, '--ids', '0,1', '--tokens', '2'], /--tokens: needs a text/],
    [['measure', model, '--ids', '0,1', '--special', 'bos'], /--special: needs a text/],
    [['measure', model, ...size, '--json', '--csv'], /--csv: one of --json and --csv/],
    [
      ['measure', model, ...size, '--per-prompt', '--eps', '.1,.2'],
      /--per-prompt: expected one --eps/,
    ],
    [['measure', recording, '--edit', 'silence(layer=0,head=0)'], isRecording],
    [['measure', recording, '--per-prompt'], isRecording],
    [['measure', recording, ...size], isRecording],
    [['compare', recording, recording, '--edit', 'park'], /--edit: needs a model, and both are/],
    ...['map', 'tasks'].map((command) => [
      [command, recording, '--text', 'a'],
      /r\.safetensors: expected a model, found a recording, which "sinkscope measure" reads/,
    ]),
    [['measure', join(folder, 'no.safetensors')], /no\.safetensors: expected a file or a folder/],
    [
      ['measure', 'models/none/here'],
      /models\/none\/here: expected a file or a folder, found none/,
    ],
    [['measure', './none'], /\.\/none: expected a file or a folder, found none/],
    [['compare', recording, './none'], /\.\/none: expected a file or a folder, found none/],
    [['train', '--from', model, '--begin', 'x'], /--begin: --from has it already/],
    [['train', '--recipe', 'x', '--tokenizer', 'x'], /--tokenizer: is part of --recipe/],
    [['train', '--config', 'x', '--layers', '2'], /--layers: --config has it already/],
    [['train', '--held', '2'], /--held: needs --held-file/],
  ]) {
    const { status, stdout, stderr } = await runCli(...args);
    assert.deepEqual([status, stdout], [1, ''], args.join(' '));
    assert.match(stderr, message);
    assert.equal(stderr.trimEnd().split('\n').length, 1, stderr);
  }
});

test('values per prompt have the reported means, with ids', async () => {
  const lines = join(folder, 'prompts.txt');
  const words = ['Once upon a time there was a king', 'The license grants a patent to each of you'];
  writeFileSync(lines, words.flatMap((text) => [text, `So ${text}`]).join('\n'));
  const args = ['measure', model, '--text-file', lines, '--lines', '--tokens', '8', '--per-prompt'];
  const { byPrompt, metrics } = JSON.parse((await runCli(...args, '--json')).stdout);
  assert.equal(byPrompt.length, 4);
  const tokenizer = openTokenizer(readFileSync(new URL('tokenizer.json', softmax), 'utf8'));
  assert.deepEqual(
    byPrompt[2].ids,
    tokenizer
      .encode(words[1])
      .map(({ id }) => id)
      .slice(0, 8),
  );
  for (const [name, { shape, mean }] of Object.entries(metrics))
    mean.forEach((value, i) => {
      assert.deepEqual(byPrompt[0].metrics[name].shape, shape);
      const sum = byPrompt.reduce((total, entry) => total + entry.metrics[name].values[i], 0);
      if (value !== null)
        assert.ok(Math.abs(sum / 4 - value) <= 1e-9 * Math.max(1, Math.abs(value)), name);
    });
});

test('control characters from files are printed as escapes, and JSON keeps the original values', async () => {
  const hostileText = '\x1b]0;x\x07\x9b31m\u202e\u2028\ufeff\r\n\tloss 0\x7f';
  assert.equal(escapeControls('a\tb\nä😀\u00a0'), 'a\tb\nä😀\u00a0');
  assert.equal(
    escapeControls(hostileText),
    '\\u001b]0;x\\u0007\\u009b31m\\u202e\\u2028\\ufeff\\u000d\n\tloss 0\\u007f',
  );
  assert.equal(oneLine('a\n\tb'), 'a\\u000a\\u0009b');
  assert.equal(JSON.parse(escapeControls(JSON.stringify(hostileText))), hostileText);
  const recording = join(folder, 'own.safetensors');
  const size = ['--ids', '0,5,9,7,3,8,2,6,4,11,12,13'];
  assert.equal((await runCli('record', model, ...size, '--out', recording)).status, 0);
  const bytes = readFileSync(recording);
  const { header } = headerOf(bytes);
  const conditions = JSON.parse(header.__metadata__.sinkscope);
  conditions.model.id = hostileText;
  conditions.first.token = hostileText;
  conditions.edits = [{ kind: hostileText, label: hostileText }];
  header.__metadata__.sinkscope = JSON.stringify(conditions);
  const changed = join(folder, 'changed.safetensors');
  writeFileSync(changed, withHeader(bytes, header));
  const controls = /[\0-\x08\x0b-\x1f\x7f-\x9f\u202e\u2028\ufeff]/;
  const [plain, text, json2, csv, other] = await Promise.all([
    runCli('measure', recording),
    runCli('measure', changed),
    runCli('measure', changed, '--json'),
    runCli('measure', changed, '--csv'),
    runCli('compare', recording, changed),
  ]);
  for (const { stdout, stderr } of [text, json2, csv, other])
    assert.doesNotMatch(stdout + stderr, controls);
  assert.ok(text.stdout.startsWith('\\u001b]0;x\\u0007'), text.stdout + text.stderr);
  assert.equal(text.stdout.split('\n').length, plain.stdout.split('\n').length);
  assert.equal(JSON.parse(json2.stdout).model, hostileText);
  const error = await runCli('measure', `./${hostileText}`, '--text', 'a');
  assert.doesNotMatch(error.stderr, controls);
  assert.equal(error.stderr.trimEnd().split('\n').length, 1);
});

test('a recording replaces only a regular file, which is checked before measuring', async () => {
  const link = join(folder, 'link.safetensors');
  const keptFile = join(folder, 'kept');
  writeFileSync(keptFile, 'kept');
  symlinkSync(keptFile, link);
  for (const [out, kind] of [
    ['/dev/null', 'a device or a pipe'],
    [link, 'a link'],
    [folder, 'a folder'],
  ]) {
    // The output is checked first: the model does not exist, so a request for it would fail.
    const args = ['record', 'no-owner/nothing', '--ids', '0,1', '--out', out];
    const { status, stderr } = await runCli(...args, '--endpoint', 'http://127.0.0.1:9');
    assert.equal(status, 1);
    assert.match(stderr, RegExp(`--out: ${out}: expected .*, found ${kind}\n`));
  }
  assert.equal(readFileSync(keptFile, 'utf8'), 'kept');
  assert.ok(statSync('/dev/null').isCharacterDevice());
});

test('a recording stores its command in shell syntax, without paths of this machine', (t) => {
  t.assert.snapshot(
    shellCommand(['record', '/a/b/m', "--text=it's", '--out=/c/d.safetensors', '$x', '', '=a']),
  );
});
