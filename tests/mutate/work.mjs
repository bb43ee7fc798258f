// Runs programs, and works through lists two items at a time, for the mutation stage.
import { spawn } from 'node:child_process';

/** Process groups that are running. @type {Set<number>} */
const groups = new Set();
/**
 * Ends a process group: a program and all that it has started.
 * @param {number | undefined} group
 */
const end = (group) => {
  try {
    process.kill(-Number(group), 'SIGKILL');
  } catch {
    // An error means that the group has already ended.
  }
};
process.on('exit', () => groups.forEach(end));
for (const signal of ['SIGINT', 'SIGTERM']) process.on(signal, () => process.exit(1));

/**
 * Runs a program; resolves to true if it ended with status 0. `seconds` bounds the processor time
 * of each of its processes, which ends infinite loops without blaming other load on the machine. If
 * its output matches `failure`, it is ended at once.
 * @param {string} program @param {string[]} args
 * @param {{ cwd?: string, input?: string, seconds?: number, env?: NodeJS.ProcessEnv, isQuiet?: boolean, failure?: RegExp }} [options]
 * @returns {Promise<boolean>}
 */
export const run = (program, args, { cwd, input, seconds, env, isQuiet, failure } = {}) =>
  new Promise((done) => {
    const boundedCommand = [
      '-c',
      `ulimit -t ${seconds ?? 'unlimited'} && exec "$0" "$@"`,
      program,
      ...args,
    ];
    const child = spawn('/bin/sh', boundedCommand, { cwd, env, detached: true });
    const group = Number(child.pid);
    groups.add(group);
    // A process that waits forever uses no processor time, so wall time has a limit as well.
    const timer = seconds && setTimeout(end, 10_000 * seconds, group);
    let output = '';
    child.stderr.setEncoding('utf8').on('data', (text) => (output += text));
    child.stdout.setEncoding('utf8').on('data', (text) => failure?.test(text) && end(group));
    child.on('close', (status) => {
      clearTimeout(timer);
      groups.delete(group);
      if (status && !isQuiet) console.error(output);
      done(status === 0);
    });
    child.stdin.on('error', () => {}); // the program may stop reading; then its exit status reports it
    child.stdin.end(input);
  });

/**
 * Works through a list, two at a time.
 * @template T @param {readonly T[]} list @param {(item: T) => Promise<void>} work
 */
export async function each(list, work) {
  const remaining = [...list];
  const worker = async () => {
    for (let item = remaining.shift(); item !== undefined; item = remaining.shift())
      await work(item);
  };
  await Promise.all([worker(), worker()]);
}
