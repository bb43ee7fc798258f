/** Measures the processor time of this process and, on Linux, of the processes that it has started. */
import { readFile, readdir, writeFile } from 'node:fs/promises';

const read = (path) => readFile(path, 'utf8').catch(() => '');

async function isOurs(pid) {
  for (let ancestor = Number(pid); ancestor > 1;) {
    if (ancestor === process.pid) return true;
    ancestor = Number((await read(`/proc/${ancestor}/stat`)).split(') ')[1]?.split(' ')[1] ?? 0);
  }
  return false;
}

/** Returns the milliseconds of processor time, of all threads, since an earlier process.cpuUsage(). */
export function usedSince(before) {
  const { user, system } = process.cpuUsage(before);
  return (user + system) / 1000;
}

/**
 * Returns a number of bytes of a process: RssAnon is its own memory, VmRSS also contains shared memory and mapped files,
 * VmHWM is the peak of VmRSS.
 * @param {number | string} pid
 * @param {'RssAnon' | 'VmRSS' | 'VmHWM'} name
 */
export async function bytesOf(pid, name) {
  const status = await read(`/proc/${pid}/status`);
  return 1024 * Number(status.match(new RegExp(`${name}:\\s+(\\d+)`))?.[1] ?? 0);
}

/** Lists the renderer processes: each has the threads and workers of one page and of no other. */
export async function renderers() {
  const pids = (await readdir('/proc')).filter((name) => /^\d+$/.test(name));
  const lines = await Promise.all(pids.map((pid) => read(`/proc/${pid}/cmdline`)));
  const rendererIds = pids.filter((_, i) => lines[i].includes('--type=renderer'));
  const areOurs = await Promise.all(rendererIds.map(isOurs));
  return rendererIds.filter((_, i) => areOurs[i]);
}

export const forgetPeak = (pid) => writeFile(`/proc/${pid}/clear_refs`, '5');
