/** Runs the command line, which gives scripts what the page shows. */
import { SinkscopeError } from '../abi/errors.ts';
import { createEngine } from '../engine/client.ts';
import { tables, tablesBeside, version } from './describe.ts';
import { ablation, ablationText, mapCsv, mapOf, mapText, withText, written } from './loaded.ts';
import { measureNamed } from './measure.ts';
import { readArguments, refuse, usage, withDefaults } from './options.ts';
import { oneLine, visible } from './output.ts';
import { compare, differencesText, recordModel } from './recording.ts';
import { promptsText, toCsv } from './sheet.ts';
import { searchModel, suffixText } from './suffix.ts';
import { summary } from './summary.ts';
import { doTasks, tasksText } from './tasks.ts';
import { train } from './train.ts';
import { unmaskModel, unmaskText } from './unmask.ts';
import { positiveInteger } from './values.ts';
import type { Engine, EngineOptions } from '../engine/types.ts';
import type { Found } from './measure.ts';
import type { Given } from './options.ts';
import type { Asked, Values } from './values.ts';

/** Computes the result of each command, and how the command prints it. */
const RUN: Record<
  string,
  (
    engine: Engine,
    asked: Asked,
  ) => Promise<{ result: object; text: () => string; csv?: () => string }>
> = {
  measure: async (engine, asked) => printed(await measureNamed(engine, asked), engine),
  map: async (engine, asked) => {
    const result = await withText(engine, asked, mapOf);
    return { result, text: () => mapText(result), csv: () => mapCsv(result, engine.describe) };
  },
  ablate: async (engine, asked) => {
    const result = await withText(engine, asked, ablation);
    return { result, text: () => ablationText(result) };
  },
  generate: async (engine, asked) => {
    const result = await withText(engine, asked, written);
    return { result, text: () => `${visible(result.text + result.written)}\n` };
  },
  record: async (engine, asked) => printed(await recordModel(engine, asked), engine),
  compare: async (engine, asked) => {
    const result = await compare(engine, asked);
    if (result.differences.length > 0) process.exitCode = 1;
    return { result, text: () => differencesText(result, result.tolerance) };
  },
  suffix: async (engine, { names: [name], values }) => {
    const result = await searchModel(engine, name, values);
    return { result, text: () => suffixText(result) };
  },
  tasks: async (engine, { names: [name], values }) => {
    const result = await doTasks(engine, name, values);
    return { result, text: () => tasksText(result) };
  },
  unmask: async (engine, { names: [name], values }) => {
    const result = await unmaskModel(engine, name, values);
    return { result, text: () => unmaskText(result) };
  },
  describe: async (engine) => {
    const result = await engine.explain();
    return { result, text: () => tables(result) };
  },
};

function printed(result: Found, { describe }: Engine) {
  return {
    result,
    text: () => summary(result, describe) + promptsText(result, describe),
    csv: () => toCsv(result, describe),
  };
}

async function main(args: string[], print: (text: string) => void) {
  if (args[0] === '--version') return print(`${await version()}\n`);
  const describe = await tablesBeside();
  if (args.length === 0 || args[0] === '--help') return print(usage(describe));
  const { command, given, names } = readArguments(args, describe);
  if (given.help) return print(usage(describe, command));
  refuse(given, given.json ? ['csv'] : [], 'one of --json and --csv');
  if (command !== 'train') refuseUnread(command, given);
  const values = withDefaults(command, given, describe) as unknown as Values;
  // The core checks the name of the kernels.
  const kernels = values.kernels as EngineOptions['kernels'];
  const { workers } = values;
  const engine = await createEngine({
    kernels,
    ...(command === 'train' ? { lab: true } : {}),
    ...(workers === undefined ? {} : { workers: positiveInteger(workers, '--workers') }),
  });
  let form: () => string;
  try {
    if (command === 'train') return await train(engine, given, print);
    const { result, text, csv } = await RUN[command](engine, { values, given, names, args });
    const measured_by = `Sinkscope ${engine.describe.version}`;
    // The tables have the version as a field of their own.
    const document = command === 'describe' ? result : { measured_by, ...result };
    form = values.json ? () => `${JSON.stringify(document)}\n` : (values.csv && csv) || text;
  } finally {
    await engine.close();
  }
  // The numbers of a long text make megabytes of JSON; the engine's memory is free by now.
  print(form());
}

/** Refuses options about a text when another option replaces the text or makes them meaningless. */
function refuseUnread(command: string, given: Given) {
  if (given['text-file'] === undefined)
    refuse(given, ['lines', 'label', 'join'], 'needs --text-file');
  if (!given.lines) refuse(given, ['join'], 'needs --lines');
  // The tasks use the special tokens whatever text is measured.
  const cutOptions = ['tokens', 'sequences', ...(command === 'tasks' ? [] : ['special'])];
  if (given.ids) refuse(given, cutOptions, 'needs a text: --ids has the tokens of each sequence');
}

/**
 * Runs the command line; errors are printed and set the exit code. When the reader closes the pipe,
 * the command stops without a message.
 */
export async function runCommand(args: string[]) {
  for (const stream of [process.stdout, process.stderr])
    stream.on('error', (error: NodeJS.ErrnoException) => {
      if (error.code !== 'EPIPE') throw error;
      process.exit();
    });
  try {
    await main(args, (text) => process.stdout.write(visible(text)));
  } catch (error) {
    const text = error instanceof SinkscopeError ? error.message : String(error);
    process.stderr.write(`sinkscope: ${oneLine(text)}\n`);
    process.exitCode = 1;
    // A hanging write would keep the process alive.
    if (error instanceof SinkscopeError && error.code === 'write') process.exit();
  }
}
