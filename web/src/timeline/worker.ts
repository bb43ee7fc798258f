/** Decodes checkpoints in a worker: millions of weights per step would block the page's scrolling. */
import { openTimeline, SinkscopeError, type ModelFiles, type Timeline } from 'sinkscope';
import { cachedPromise } from '../ask/cached';

export interface WorkerRequest {
  readonly job: number;
  readonly address: string;
  /** The step to decode; undefined frees the weights of the timeline. */
  readonly step?: number;
  readonly isAhead?: boolean;
  readonly isCanceled?: boolean;
}

export interface Answer {
  readonly job: number;
  /** Bytes read so far, and in all. */
  readonly bytesRead?: readonly [number, number];
  readonly files?: ModelFiles;
  readonly error?: Pick<SinkscopeError, 'code' | 'where' | 'text'>;
}

const timelines = new Map<string, Promise<Timeline>>();
const controllers = new Map<number, AbortController>();
const reply = (answer: Answer) => globalThis.postMessage(answer);

async function answer(
  { address, step, isAhead, job }: WorkerRequest,
  signal: AbortSignal,
): Promise<void> {
  if (step === undefined) return void (await timelines.get(address))?.forget();
  const timeline = cachedPromise(timelines, address, () => openTimeline(new URL(address)));
  if (isAhead) return (await timeline).preload(step, { signal });
  const { config, weights } = await (
    await timeline
  ).open(step, {
    signal,
    onProgress: ({ done, total }) => reply({ job, bytesRead: [done, total] }),
  });
  // A Blob is passed as a handle, which saves copying six megabytes.
  reply({ job, files: { config, weights: new Blob([weights as BlobPart]) } });
}

addEventListener('message', ({ data }: MessageEvent<WorkerRequest>) => {
  if (data.isCanceled) return controllers.get(data.job)?.abort();
  const controller = new AbortController();
  controllers.set(data.job, controller);
  answer(data, controller.signal)
    .then(() => reply({ job: data.job }))
    .catch((error: unknown) => {
      const { code, where, text } =
        error instanceof SinkscopeError
          ? error
          : { code: 'internal', where: '', text: String(error) };
      reply({ job: data.job, error: { code, where, text } });
    })
    .finally(() => controllers.delete(data.job));
});
