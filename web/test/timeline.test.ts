import { readFileSync } from 'node:fs';
import { afterEach, describe, expect, it, vi } from 'vitest';
import type { Timeline } from 'sinkscope';
import {
  coursesOf,
  checkpointPointsOf,
  lineOf,
  QUANTITIES,
  styleOf,
  valueWords,
  type Course,
} from '../src/timeline/course';
import type { Timelines } from '../src/timeline/timelines';
import type { Answer, WorkerRequest } from '../src/timeline/worker';
import { subjectsAtStep } from '../src/rooms/walk';
import type { Models } from '../src/run/models';
import {
  LOG_SEQUENCES,
  MEASURING_CONDITIONS,
  nearestStep,
  splitStep,
  stepWords,
} from '../src/ask/steps';

const quantityNamed = (name: string) => QUANTITIES.find((quantity) => quantity.name === name)!;

function createCourse(change: Partial<Timeline> = {}, title = 'Small, =1+1'): Course {
  const timeline = {
    recipe: 'small',
    seed: 3,
    parameters: 19,
    checkpoints: [
      { step: 0, bytes: 5, measured: { sink_1: 0, value_ratio: 1 }, stored: { sink_1: 0 } },
      { step: 40, bytes: 9, measured: { sink_1: 60, value_ratio: 0.4 }, stored: { sink_1: 62 } },
    ],
    log: [
      { step: 0, sink_1: 0, value_ratio: 1 },
      { step: 10, sink_1: 5 },
      { step: 40, sink_1: 59 },
    ],
    preload: () => Promise.resolve(),
    open: () => Promise.reject(new Error('not opened here')),
    forget: () => {},
    ...change,
  } satisfies Timeline;
  return { id: 'small', title, style: styleOf(0), timeline };
}

describe('a step of a model', () => {
  it('has an id that can be parsed, and that no other model has', () => {
    expect(splitStep('softmax@1400')).toEqual({ id: 'softmax', step: 1400 });
    for (const text of [
      'softmax',
      'hub:owner/name@step1000',
      'hub:a/b@12',
      'softmax@',
      'x@-1',
      `${'x'.repeat(65)}@1`,
    ])
      expect(splitStep(text), text).toBeUndefined();
  });

  it('is the nearest stored step', () => {
    const steps = [0, 10, 100, 4000];
    expect([0, 1, 9, 31, 33, 1e9].map((step) => nearestStep(steps, step))).toEqual([
      0, 0, 10, 10, 100, 4000,
    ]);
    expect(nearestStep([1, 3, 15], 7)).toBe(3);
  });

  it('is named together with the number of steps of the run', () => {
    expect(stepWords(1400, 4000)).toBe('step 1,400 of 4,000');
  });

  it('applies to every shown model that has it, and the last stop is the trained weights', () => {
    const cards = [
      { id: 'softmax', timeline: true },
      { id: 'sigmoid', timeline: true },
      { id: 'alibi' },
    ];
    const models = { zoo: { cards } } as unknown as Models;
    const shown = ['softmax', 'sigmoid@10~mask(1,2)', 'alibi'];
    expect(subjectsAtStep(models, shown, 400, 4000)).toMatchSnapshot();
    expect(subjectsAtStep(models, shown, 4000, 4000)).toMatchSnapshot();
    expect(subjectsAtStep(models, ['hub:EleutherAI/pythia-14m'], 500, 143000)).toMatchSnapshot();
  });
});

describe('the curve of a run', () => {
  it('follows the log, with marks at stored steps', () => {
    const valuesOf = (points: readonly { value: number }[]) => points.map(({ value }) => value);
    expect(valuesOf(lineOf(createCourse(), quantityNamed('sink_1')))).toEqual([0, 5, 59]);
    expect(valuesOf(checkpointPointsOf(createCourse(), quantityNamed('sink_1')))).toEqual([0, 60]);
  });

  it('follows its checkpoints where the log ends early or is empty', () => {
    expect(lineOf(createCourse(), quantityNamed('value_ratio')).map(({ step }) => step)).toEqual([
      0, 40,
    ]);
    expect(lineOf(createCourse(), quantityNamed('row_mass'))).toEqual([]);
    // Neither the number of lines nor the last line alone makes a log complete.
    const logAt = (...steps: number[]) => ({ log: steps.map((step) => ({ step, sink_1: 7 })) });
    for (const kept of [logAt(0, 10, 20), logAt(40)])
      expect(lineOf(createCourse(kept), quantityNamed('sink_1')).map(({ value }) => value)).toEqual(
        [0, 60],
      );
  });

  it('follows the log also if it has no more steps than the checkpoints', () => {
    const log = { log: [0, 40].map((step) => ({ step, sink_1: 7 })) };
    expect(lineOf(createCourse(log), quantityNamed('sink_1')).map(({ value }) => value)).toEqual([
      7, 7,
    ]);
  });

  it('has one of six distinct styles', () => {
    const styles = Array.from({ length: 6 }, (_, i) => styleOf(i));
    for (const part of ['color', 'dash'] as const)
      expect(new Set(styles.map((look) => look[part])).size, part).toBe(6);
  });

  it('has bounds and a least range for each quantity', () => {
    expect(
      QUANTITIES.map(({ name, possibleRange, domain = [], digits }) => [
        name,
        ...possibleRange,
        ...domain,
        digits,
      ]),
    ).toEqual([
      ['loss', 0, Infinity, 2],
      ['sink_1', 0, 100, 0, 60, 1],
      ['alpha_max', 0, 1, 0, 1, 2],
      ['hidden_ratio', 0, Infinity, 0.7, 10, 2],
      ['value_ratio', 0, Infinity, 0.3, 3, 2],
      ['row_mass', 0, Infinity, 0, 1, 2],
    ]);
    expect(QUANTITIES.filter(({ isLog }) => isLog).map(({ name }) => name)).toMatchSnapshot();
    expect([0, 6, 7].map((i) => styleOf(i))).toEqual([0, 0, 1].map((i) => styleOf(i)));
  });

  it('is drawn even if that of another run cannot be loaded', async () => {
    const timelines = {
      cards: [
        { id: 'a', title: 'A' },
        { id: 'b', title: 'B' },
      ],
      get: async (id: string) => {
        if (id === 'a') throw new Error('no such file');
        return createCourse().timeline;
      },
    } as unknown as Timelines;
    expect(await coursesOf(timelines)).toMatchObject([{ id: 'b', title: 'B', style: styleOf(1) }]);
  });

  it('shows a dash for an unknown value, and small shares without exponents', () => {
    expect(valueWords(undefined, quantityNamed('loss'))).toBe('–');
    expect(valueWords(0.04, quantityNamed('sink_1'))).toBe('0.0%');
    expect(valueWords(10.6, quantityNamed('hidden_ratio'))).toBe('10.60 ×');
    expect(valueWords(3.14159, quantityNamed('loss'))).toBe('3.14');
  });
});

describe('a timeline that a worker decodes', () => {
  class FakeWorker {
    readonly requests: WorkerRequest[] = [];
    onmessage = (_: { readonly data: Answer }) => {};
    onerror = (_: { readonly message: string }) => {};
    constructor() {
      workers.push(this);
    }
    postMessage(request: WorkerRequest) {
      this.requests.push(request);
    }
  }
  const workers: FakeWorker[] = [];
  afterEach(() => void vi.unstubAllGlobals());

  async function decoded(): Promise<Timeline> {
    workers.length = 0;
    vi.stubGlobal('Worker', FakeWorker);
    vi.resetModules();
    const { decodeInWorker } = await import('../src/timeline/client');
    const { timeline } = createCourse();
    return decodeInWorker(timeline as Timeline, new URL('https://page.test/index.json'));
  }

  it('hears nothing more of a checkpoint that is stopped, and asks for none that is stopped before', async () => {
    const timeline = await decoded();
    const controller = new AbortController();
    const options = { signal: controller.signal, onProgress: vi.fn() };
    const opening = timeline.open(40, options);
    const [{ requests, onmessage }] = workers as [FakeWorker];
    const { job } = requests[0]!;
    onmessage({ data: { job, bytesRead: [1, 2] } });
    controller.abort();
    await expect(opening).rejects.toBe(options.signal.reason);
    onmessage({ data: { job, bytesRead: [2, 2] } });
    expect(options.onProgress.mock.calls).toEqual([[{ stage: 'read', done: 1, total: 2 }]]);
    await expect(timeline.open(40, options)).rejects.toBe(options.signal.reason);
    expect(requests.map(({ isCanceled }) => isCanceled)).toEqual([undefined, true]);
  });

  it('has another worker after a failure, and stops nothing that has ended', async () => {
    const timeline = await decoded();
    const opening = timeline.open(40);
    workers[0]!.onerror({ message: '' });
    await expect(opening).rejects.toMatchObject({ code: 'lost' });
    const controller = new AbortController();
    const openingAgain = timeline.open(40, { signal: controller.signal });
    const { requests, onmessage } = workers[1]!;
    const { job } = requests[0]!;
    const files = { config: '', weights: new Blob() };
    onmessage({ data: { job, files } });
    onmessage({ data: { job } });
    expect(await openingAgain).toBe(files);
    controller.abort();
    expect(requests).toHaveLength(1);
  });
});

describe('the description of how checkpoints are measured', () => {
  const readSource = (name: string) => readFileSync(`../models/train/${name}.py`, 'utf8');
  it('agrees with the scripts that measure them', () => {
    expect(readSource('train')).toContain(
      `PROBE_SEQUENCES, PROBE_T = ${LOG_SEQUENCES}, ${MEASURING_CONDITIONS.T}\n`,
    );
    const { sequences, T } = MEASURING_CONDITIONS;
    expect(readSource('measure')).toContain(`SEQUENCES, T = ${sequences}, ${T}\n`);
  });
});
