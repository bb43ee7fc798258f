/**
 * Ends a command at a given moment: `node --import this-file` with the moment as JSON in SINKSCOPE_END. A moment is a
 * signal at the n-th call that changes files, or a disk that is full after a number of bytes. `SINKSCOPE_COUNTS` names a file for the
 * numbers of calls and bytes of an undisturbed command, from which a test draws moments.
 */
import fs from 'node:fs';
import { syncBuiltinESMExports } from 'node:module';
import { isMainThread } from 'node:worker_threads';

const {
  signal,
  call = Infinity,
  phase,
  bytes = Infinity,
} = JSON.parse(process.env.SINKSCOPE_END ?? '{}');
let calls = 0;
let written = 0;

const end = () => process.kill(process.pid, signal);

function interrupt(name) {
  const original = fs.promises[name];
  fs.promises[name] = async (...args) => {
    const isMoment = calls++ === call;
    if (isMoment && phase === 'before') end();
    const size = name === 'writeFile' ? args[1].length : 0;
    if (isMoment && phase === 'middle') {
      // Only this signal leaves half of a file: the others end the command later, or let it go on.
      if (size && signal === 'SIGKILL') await original(args[0], args[1].slice(0, size / 2));
      end();
    }
    // Like a full disk, takes the bytes that still fit, and none from then on.
    const room = bytes - written;
    written += size;
    if (size > room) {
      await original(args[0], args[1].slice(0, Math.max(0, room)));
      throw Object.assign(new Error('no space left on device'), { code: 'ENOSPC' });
    }
    const result = await original(...args);
    if (isMoment && phase === 'after') end();
    return result;
  };
}

if (isMainThread) {
  for (const name of ['mkdir', 'rename', 'rm', 'rmdir', 'writeFile']) interrupt(name);
  syncBuiltinESMExports();
  const { SINKSCOPE_COUNTS: countsFile } = process.env;
  if (countsFile)
    process.on('exit', () =>
      fs.writeFileSync(countsFile, JSON.stringify({ calls, bytes: written })),
    );
}
