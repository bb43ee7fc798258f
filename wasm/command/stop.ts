/** Ends a long command as Ctrl-C does, so that it keeps what it has computed. */
import { constants } from 'node:os';

const SIGNALS = ['SIGHUP', 'SIGINT', 'SIGTERM'] as const;

/** The reason of a stop. Its exit status is that of shells: 128 and the number of the signal. */
export class Stop extends Error {
  readonly status: number;

  constructor(signal: (typeof SIGNALS)[number] | 'SIGPIPE') {
    super(signal);
    this.status = 128 + constants.signals[signal];
  }
}

/**
 * Listens for the signals that end a process, once each: a second one ends it at once.
 * @returns a signal, aborted with a `Stop` or with the error of a failed `print`
 */
export function listenForStop(print: (text: string) => Promise<void>) {
  const controller = new AbortController();
  const listeners = SIGNALS.map((name) => {
    const listener = () => controller.abort(new Stop(name));
    process.once(name, listener);
    return [name, listener] as const;
  });
  return {
    signal: controller.signal,
    async print(text: string) {
      await print(text).catch((error) =>
        controller.abort(error.code === 'EPIPE' ? new Stop('SIGPIPE') : error),
      );
    },
    end() {
      for (const [name, listener] of listeners) process.removeListener(name, listener);
    },
  };
}
