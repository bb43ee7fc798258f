/** Adds up checkpoints beside the page's thread: millions of weights a step would stop whoever scrolls. */
import { openTimeline, SinkscopeError, type ModelFiles, type Timeline } from 'sinkscope';

export interface Ask {
  readonly job: number;
  /** Of the timeline's index. */
  readonly address: string;
  /** Undefined: its weights are not needed any more. */
  readonly step?: number;
  /** It is only fetched. */
  readonly isAhead?: boolean;
  /** The job is given up. */
  readonly isOver?: boolean;
}

export interface Answer {
  readonly job: number;
  /** Bytes that were read, of how many. */
  readonly read?: readonly [number, number];
  readonly files?: ModelFiles;
  readonly error?: Pick<SinkscopeError, 'code' | 'where' | 'text'>;
}

const timelines = new Map<string, Promise<Timeline>>();
const jobs = new Map<number, AbortController>();
const reply = (answer: Answer) => globalThis.postMessage(answer);

async function answer({ address, step, isAhead, job }: Ask, signal: AbortSignal): Promise<void> {
  if (step === undefined) return void (await timelines.get(address))?.forget();
  const timeline = timelines.get(address) ?? openTimeline(new URL(address));
  timelines.set(address, timeline);
  timeline.catch(() => timelines.delete(address));
  if (isAhead) return (await timeline).preload(step, { signal });
  const { config, weights } = await (
    await timeline
  ).open(step, { signal, onProgress: ({ done, total }) => reply({ job, read: [done, total] }) });
  // What is passed on and on is a handle, not six megabytes.
  reply({ job, files: { config, weights: new Blob([weights as BlobPart]) } });
}

addEventListener('message', ({ data }: MessageEvent<Ask>) => {
  if (data.isOver) return jobs.get(data.job)?.abort();
  const job = new AbortController();
  jobs.set(data.job, job);
  answer(data, job.signal)
    .then(() => reply({ job: data.job }))
    .catch((error: unknown) => {
      const { code, where, text } =
        error instanceof SinkscopeError
          ? error
          : { code: 'internal', where: '', text: String(error) };
      reply({ job: data.job, error: { code, where, text } });
    })
    .finally(() => jobs.delete(data.job));
});
