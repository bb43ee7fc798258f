import { beforeEach, describe, expect, it } from 'vitest';
import type { Frame } from '../src/frame';
import type { DrawOptions } from '../src/page/view';
import { createJobDraw, type Job } from '../src/views/job';
import { turn } from './fixture';

const frame = () => ({ tokens: [] }) as unknown as Frame;
const options = (goal: string) =>
  ({ state: { goal, suffix: 3, seed: 1 } }) as unknown as DrawOptions;

describe('a job of a view', () => {
  let results: WeakMap<Frame['tokens'], string>;
  let root: { dataset: { busy?: string } };
  let drawnResults: (string | undefined)[];
  let failures: unknown[];
  let job: Job;
  let show: (frame: Frame, options: DrawOptions) => void;
  /** The last run: its signal, the function that reports a result, and the function that ends it. */
  let signal: AbortSignal;
  let report: (result: string) => void;
  let end: () => void;
  let fails: (error: Error) => void;

  beforeEach(() => {
    [results, root, drawnResults, failures] = [new WeakMap(), { dataset: {} }, [], []];
    const api = { fail: (error: unknown) => void failures.push(error) };
    show = createJobDraw(root as unknown as HTMLElement, api, {
      results,
      settings: ['goal', 'suffix'],
      run: (_, __, runSignal, onResult) => {
        [signal, report] = [runSignal, onResult];
        return new Promise<void>((resolve, reject) => ([end, fails] = [resolve, reject]));
      },
      draw: (drawnFrame, _, drawnJob) => {
        job = drawnJob;
        drawnResults.push(results.get(drawnFrame.tokens));
      },
    });
  });

  it('draws each intermediate result and the final one', async () => {
    show(frame(), options('loss'));
    job.toggle();
    expect([job.isRunning(), root.dataset.busy]).toEqual([true, '']);
    report('half');
    report('whole');
    end();
    await turn();
    expect(drawnResults).toEqual([undefined, undefined, 'half', 'whole', 'whole']);
    expect([job.isRunning(), root.dataset.busy]).toEqual([false, undefined]);
  });

  it('begins without the previous result, and keeps its latest result when it is stopped', async () => {
    const firstFrame = frame();
    results.set(firstFrame.tokens, 'old');
    show(firstFrame, options('loss'));
    job.toggle();
    report('new');
    job.toggle();
    report('too late');
    fails(new Error('aborted'));
    await turn();
    expect(signal.aborted).toBe(true);
    expect(drawnResults).toEqual(['old', undefined, 'new', 'new']);
    expect(failures).toEqual([]);
  });

  it('is stopped when other tokens are shown, with their own result, or when a setting changes, without one', () => {
    const [frameA, frameB] = [frame(), frame()];
    results.set(frameB.tokens, 'of the other');
    show(frameA, options('loss'));
    job.toggle();
    show(frameA, options('loss'));
    expect(signal.aborted).toBe(false);
    show(frameB, options('loss'));
    expect(signal.aborted).toBe(true);
    expect(drawnResults.at(-1)).toBe('of the other');
    job.toggle();
    report('results again');
    show(frameB, options('steal'));
    expect(signal.aborted).toBe(true);
    expect(drawnResults.at(-1)).toBeUndefined();
  });

  it('reports an error, and can begin again', async () => {
    show(frame(), options('loss'));
    job.toggle();
    fails(new Error('lost'));
    await turn();
    expect(failures).toEqual([new Error('lost')]);
    expect(job.isRunning()).toBe(false);
    job.toggle();
    expect(job.isRunning()).toBe(true);
  });
});
