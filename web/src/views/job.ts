/** What a view's button starts and stops, one at a time; the view is drawn when that changes. */
import type { Reach } from '../page/view';

export function createJob(root: HTMLElement, { fail }: Pick<Reach, 'fail'>, draw: () => void) {
  let job: AbortController | undefined;
  const stop = () => {
    job?.abort();
    job = undefined;
    delete root.dataset.busy;
  };
  return {
    isRunning: () => job !== undefined,
    stop,
    /** Stops what runs, or else begins `run`, which is told by the signal to end. */
    toggle: async (run: (signal: AbortSignal) => Promise<void>) => {
      if (job) {
        stop();
        return draw();
      }
      const own = (job = new AbortController());
      root.dataset.busy = '';
      try {
        await run(own.signal);
      } catch (error) {
        if (!own.signal.aborted) fail(error);
      }
      if (job !== own) return;
      stop();
      draw();
    },
  };
}
