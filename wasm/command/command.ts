/** Runs the command line, which gives scripts what the page shows. */
import { SinkscopeError } from '../abi/errors.ts';
import { createEngine } from '../load/engine.ts';
import { tablesText, readTables, readVersion } from './describe.ts';
import {
  measureAblation,
  ablationText,
  mapCsv,
  measureMap,
  mapText,
  withText,
  generateText,
} from './loaded.ts';
import { measureModelOrRecording, type MeasureResult } from './measure.ts';
import { readArguments, refuse, usage, withDefaults, type GivenOptions } from './options.ts';
import { oneLine, escapeControls } from './output.ts';
import { compare, differencesText, recordModel } from './recording.ts';
import { promptsText, toCsv } from './sheet.ts';
import { searchModel, suffixText } from './suffix.ts';
import { cutNotes, summaryText } from './summary.ts';
import { runTasks, tasksText } from './tasks.ts';
import { codeOf } from './text_file.ts';
import { train } from './train.ts';
import { unmaskModel, unmaskText } from './unmask.ts';
import { parseOptional, parsePositive, type CommandInput, type Values } from './values.ts';
import type { Engine } from '../load/types.ts';
import type { Cut } from '../study/types.ts';

type Runner = (
  engine: Engine,
  input: CommandInput,
) => Promise<{ result: object; text: () => string; csv?: () => string }>;

/** Runs a command on a text that is cut into sequences of T tokens, and says below what the cut did not give. */
const makeCutRunner = <Result extends { readonly cut?: Cut; readonly T: number }>(
  compute: (engine: Engine, input: CommandInput) => Promise<Result>,
  toText: (result: Result) => string,
): Runner =>
  makeRunner(compute, (result) =>
    [toText(result), ...cutNotes(result).map((note) => `${note}\n`)].join(''),
  );

const makeRunner =
  <Result extends object>(
    compute: (engine: Engine, input: CommandInput) => Promise<Result>,
    toText: (result: Result) => string,
  ): Runner =>
  async (engine, input) => {
    const result = await compute(engine, input);
    return { result, text: () => toText(result) };
  };

const RUNNERS: Record<string, Runner> = {
  measure: async (engine, input) =>
    printableResult(await measureModelOrRecording(engine, input), engine),
  map: async (engine, input) => {
    const result = await withText(measureMap)(engine, input);
    return { result, text: () => mapText(result), csv: () => mapCsv(result, engine.describe) };
  },
  ablate: makeRunner(withText(measureAblation), ablationText),
  generate: makeRunner(
    withText(generateText),
    ({ text, written }) => `${escapeControls(text + written)}\n`,
  ),
  record: async (engine, input) => printableResult(await recordModel(engine, input), engine),
  compare: makeRunner(compare, (result) => differencesText(result, result.tolerance)),
  suffix: makeCutRunner(searchModel, suffixText),
  tasks: makeCutRunner(runTasks, tasksText),
  unmask: makeCutRunner(unmaskModel, unmaskText),
  describe: makeRunner((engine) => engine.explain(), tablesText),
};

function printableResult(result: MeasureResult, { describe }: Engine) {
  return {
    result,
    text: () => summaryText(result, describe) + promptsText(result, describe),
    csv: () => toCsv(result, describe),
  };
}

async function main(args: string[], print: (text: string) => Promise<void>) {
  if (args[0] === '--version') return print(`${await readVersion()}\n`);
  const describe = await readTables();
  if (args.length === 0 || /^(--help|help( help| --help)?$)/.test(args.join(' ')))
    return print(usage(describe));
  const words = args[0] === 'help' ? [args[1], '--help'] : args;
  const { command, givenOptions, names } = readArguments(words, describe);
  if (givenOptions.help) return print(usage(describe, command));
  refuse(givenOptions, givenOptions.json ? ['csv'] : [], 'one of --json and --csv');
  if (command !== 'train') refuseUnusedOptions(command, givenOptions);
  const values = withDefaults(command, givenOptions, describe) as unknown as Values;
  const engine = await createEngine({
    lab: command === 'train',
    workers: parseOptional(parsePositive, values.workers, '--workers'),
  });
  let formatOutput: () => string;
  try {
    if (command === 'train') return await train(engine, givenOptions, print);
    const given = { values, givenOptions, names, args };
    const { result, text, csv } = await RUNNERS[command](engine, given);
    const measured_by = `Sinkscope ${engine.describe.version}`;
    const document = command === 'describe' ? result : { measured_by, ...result };
    formatOutput = values.json
      ? () => `${JSON.stringify(document)}\n`
      : (values.csv && csv) || text;
  } finally {
    await engine.close();
  }
  // The engine is closed before this call: the JSON of a long text takes megabytes of memory.
  await print(formatOutput());
}

/** Refuses options about a text where there is none, or where another makes them meaningless. */
function refuseUnusedOptions(command: string, givenOptions: GivenOptions) {
  if (givenOptions['text-file'] === undefined)
    refuse(givenOptions, ['lines', 'join'], 'needs --text-file');
  if (!givenOptions.lines) refuse(givenOptions, ['join'], 'needs --lines');
  // `tasks` reads --special with --ids too: it adds special tokens to the prompts it makes.
  const cutOptions = ['tokens', 'sequences', ...(command === 'tasks' ? [] : ['special'])];
  if (givenOptions.ids)
    refuse(givenOptions, cutOptions, 'needs a text: --ids has the tokens of each sequence');
}

/** Writes to the standard output; the promise rejects with EPIPE if its reader has closed the pipe. */
function printText(text: string): Promise<void> {
  return new Promise((resolve, reject) =>
    process.stdout.write(escapeControls(text), (error) => {
      if (!error) return resolve();
      const code = codeOf(error);
      const expected = 'expected a place that can be written to';
      const writeError = new SinkscopeError(
        'write',
        'standard output',
        `${expected}, found ${code}`,
      );
      reject(code === 'EPIPE' ? error : writeError);
    }),
  );
}

/** Runs the command line; an error sets the exit code, a closed pipe ends it without a message. */
export async function runCommand(args: string[]) {
  // A failed write rejects the promise of `printText`. A message that standard error refuses is lost.
  for (const stream of [process.stdout, process.stderr]) stream.on('error', () => {});
  try {
    await main(args, printText);
  } catch (error) {
    if (codeOf(error) === 'EPIPE') return process.exit();
    const text = error instanceof SinkscopeError ? error.message : String(error);
    process.stderr.write(`sinkscope: ${oneLine(text)}\n`);
    process.exitCode = 1;
    // A pending write to a file system that does not answer would keep the process alive.
    if (error instanceof SinkscopeError && error.code === 'write') process.exit();
  }
}
