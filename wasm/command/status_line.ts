/** Shows on a terminal what a command does, and for how many seconds; a pipe gets nothing. */
import type { Progress } from '../abi/types.ts';

const CLEAR_LINE = '\r\x1b[K';

export function createStatusLine(
  stream: { isTTY?: boolean; write(text: string): unknown } = process.stderr,
) {
  let phase = '';
  let count = '';
  let seconds = 0;
  const draw = () => {
    const text = [phase, count, seconds > 0 ? `${seconds} s` : ''].filter(Boolean).join(', ');
    stream.write(`${CLEAR_LINE}${text}`);
  };
  const tick = () => {
    seconds++;
    draw();
  };
  // The line does not keep the process alive.
  const timer = stream.isTTY ? setInterval(tick, 1000).unref() : undefined;
  return {
    show(newPhase: string, newCount: string = '') {
      if (newPhase !== phase) seconds = 0;
      [phase, count] = [newPhase, newCount];
      if (timer) draw();
    },
    end() {
      if (timer) stream.write(CLEAR_LINE);
      clearInterval(timer);
    },
  };
}

const megabytes = (bytes: number) => (bytes / 1e6).toFixed(1);

/** Returns phase and count of a model that opens; the bytes may be on the disk or on a server. */
export function openingPhase({ stage, done, total }: Progress): [string, string?] {
  if (stage !== 'read') return ['checking the weights'];
  const totalText = Number.isNaN(total) ? '' : ` of ${megabytes(total)}`;
  return ['reading the weights', `${megabytes(done)}${totalText} MB`];
}
