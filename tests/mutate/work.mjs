// What the rooms of the mutation stage share: programs, and a list that is worked through by two.
import { execFile } from 'node:child_process';

/**
 * Runs a program; the promise is of whether it ended well. `seconds` bounds the processor time of each of its
 * processes: a loop without an end is noticed, and other work on the machine is not taken for one.
 * @param {string} program @param {string[]} args
 * @param {{ cwd?: string, input?: string, seconds?: number, env?: NodeJS.ProcessEnv, isQuiet?: boolean }} [options]
 * @returns {Promise<boolean>}
 */
export const run = (program, args, { cwd, input, seconds, env, isQuiet } = {}) =>
  new Promise((done) => {
    const bounded = [
      '-c',
      `ulimit -t ${seconds ?? 'unlimited'} && exec "$0" "$@"`,
      program,
      ...args,
    ];
    // What waits for something that never comes takes no processor time.
    const timeout = (seconds ?? 0) * 10_000;
    const options = { cwd, env, timeout, killSignal: 'SIGKILL', maxBuffer: 1 << 28 };
    const child = execFile('/bin/sh', bounded, /** @type {any} */ (options), (error, _, said) => {
      if (error && !isQuiet) console.error(said);
      done(!error);
    });
    child.stdin?.on('error', () => {}); // of a program that read no further; it fails
    child.stdin?.end(input);
  });

/** Works through a list, two at a time. @template T @param {readonly T[]} list @param {(item: T) => Promise<void>} work */
export async function each(list, work) {
  const rest = [...list];
  const worker = async () => {
    for (let item = rest.shift(); item !== undefined; item = rest.shift()) await work(item);
  };
  await Promise.all([worker(), worker()]);
}
