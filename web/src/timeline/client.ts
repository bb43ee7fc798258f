/** Requests checkpoints from worker.ts. If no worker can start, the checkpoints are decoded in the page's thread. */
import { SinkscopeError, type ModelFiles, type Options, type Timeline } from 'sinkscope';
import type { Answer, WorkerRequest } from './worker';

/** The pending jobs, each with the function that gets its answers. */
const answerHandlers = new Map<number, (answer: Answer) => void>();
let lastJob = 0;
let worker: Worker | undefined;
let isUnavailable = false;

function startWorker(): Worker | undefined {
  if (worker || isUnavailable) return worker;
  try {
    worker = new Worker(new URL('./worker.ts', import.meta.url), { type: 'module' });
  } catch {
    // Pages of other sites, for example, cannot start the worker.
    isUnavailable = true;
    return undefined;
  }
  worker.onmessage = ({ data }: MessageEvent<Answer>) => answerHandlers.get(data.job)?.(data);
  worker.onerror = ({ message }) => {
    const error = { code: 'lost', where: 'timeline', text: message || 'its worker ended' };
    worker = undefined;
    for (const [job, onAnswer] of answerHandlers) onAnswer({ job, error });
  };
  return worker;
}

function requestWorker(
  target: Worker,
  request: Omit<WorkerRequest, 'job'>,
  { signal, onProgress }: Options,
): Promise<ModelFiles | undefined> {
  const job = ++lastJob;
  let files: ModelFiles | undefined;
  return new Promise<ModelFiles | undefined>((resolve, reject) => {
    signal?.throwIfAborted();
    const cancel = () => {
      target.postMessage({ job, ...request, isCanceled: true } satisfies WorkerRequest);
      reject(signal!.reason as Error);
    };
    signal?.addEventListener('abort', cancel);
    answerHandlers.set(job, ({ bytesRead, error, ...answer }) => {
      if (bytesRead)
        return onProgress?.({ stage: 'read', done: bytesRead[0], total: bytesRead[1] });
      if (answer.files) return void (files = answer.files);
      signal?.removeEventListener('abort', cancel);
      if (error) reject(new SinkscopeError(error.code, error.where, error.text));
      else resolve(files);
    });
    target.postMessage({ job, ...request } satisfies WorkerRequest);
  }).finally(() => answerHandlers.delete(job));
}

export function decodeInWorker(timeline: Timeline, url: URL): Timeline {
  const address = url.href;
  const request = (details: Pick<WorkerRequest, 'step' | 'isAhead'>, options: Options) => {
    const worker = startWorker();
    return worker && requestWorker(worker, { address, ...details }, options);
  };
  return {
    ...timeline,
    open: async (step, options = {}) =>
      (await request({ step }, options)) ?? timeline.open(step, options),
    preload: async (step, options = {}) =>
      void (await (request({ step, isAhead: true }, options) ?? timeline.preload(step, options))),
    forget: () => void (request({}, {}) ?? timeline.forget()),
  };
}
