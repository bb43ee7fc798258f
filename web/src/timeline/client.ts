/** Requests checkpoints from worker.ts. If no worker can start, the checkpoints are decoded in the page's thread. */
import { SinkscopeError, type ModelFiles, type Options, type Timeline } from 'sinkscope';
import type { Answer, Ask } from './worker';

interface Job {
  readonly hear: (answer: Answer) => void;
}

const jobs = new Map<number, Job>();
let last = 0;
let worker: Worker | undefined;
let isRefused = false;

function start(): Worker | undefined {
  if (worker || isRefused) return worker;
  try {
    worker = new Worker(new URL('./worker.ts', import.meta.url), { type: 'module' });
  } catch {
    // Notes that no worker can start, as on pages of other sites.
    isRefused = true;
    return undefined;
  }
  worker.onmessage = ({ data }: MessageEvent<Answer>) => jobs.get(data.job)?.hear(data);
  worker.onerror = ({ message }) => {
    const error = { code: 'lost', where: 'timeline', text: message || 'its worker ended' };
    worker = undefined;
    for (const [job, { hear }] of jobs) hear({ job, error });
  };
  return worker;
}

function ask(
  inWorker: Worker,
  asked: Omit<Ask, 'job'>,
  { signal, onProgress }: Options,
): Promise<ModelFiles | undefined> {
  const job = ++last;
  let files: ModelFiles | undefined;
  return new Promise<ModelFiles | undefined>((resolve, reject) => {
    signal?.throwIfAborted();
    const stop = () => {
      inWorker.postMessage({ job, ...asked, isOver: true } satisfies Ask);
      reject(signal!.reason as Error);
    };
    signal?.addEventListener('abort', stop);
    jobs.set(job, {
      hear({ read, error, ...answer }) {
        if (read) return onProgress?.({ stage: 'read', done: read[0], total: read[1] });
        if (answer.files) return void (files = answer.files);
        signal?.removeEventListener('abort', stop);
        if (error) reject(new SinkscopeError(error.code, error.where, error.text));
        else resolve(files);
      },
    });
    inWorker.postMessage({ job, ...asked } satisfies Ask);
  }).finally(() => jobs.delete(job));
}

/** Returns a timeline whose checkpoints a worker decodes. */
export function inWorker(timeline: Timeline, at: URL): Timeline {
  const address = at.href;
  const via = <Made>(there: (inWorker: Worker) => Made, here: () => Made) => {
    const worker = start();
    return worker ? there(worker) : here();
  };
  return {
    ...timeline,
    open: (step, options = {}) =>
      via(
        async (found) => (await ask(found, { address, step }, options))!,
        () => timeline.open(step, options),
      ),
    preload: (step, options = {}) =>
      via(
        async (found) => void (await ask(found, { address, step, isAhead: true }, options)),
        () => timeline.preload(step, options),
      ),
    forget: () =>
      via(
        (found) => void ask(found, { address }, {}),
        () => timeline.forget(),
      ),
  };
}
