// @vitest-environment happy-dom
/** Through training: the curves of the models that have checkpoints, of visited ones, and of long runs over seeds. */
import { effect } from '@preact/signals-core';
import { beforeEach, describe, expect, it, vi } from 'vitest';
import { answerOf, emergenceWords } from '../src/answers';
import { defaults } from '../src/ask/state';
import type { Frame } from '../src/frame';
import { OTHER_RUNS } from '../src/timeline/seeds';
import { emergenceOf, loadCourses, training } from '../src/views/training';
import { choiceOf } from '../src/views';
import { drawView } from './drawn';
import { frameOf, tensor, turn } from './fixture';

vi.mock('../src/plot/heatmap', async () => (await import('./drawn')).plots.heatmap);
vi.mock('../src/plot/chart', async () => (await import('./drawn')).plots.chart);

const logs: Record<string, number[]> = {
  ...{ softmax: [10, 30], lost: [], few: [2, 10, 9.9], none: [2, 9.9], one: [50] },
};
const fetchedLogs: string[] = [];
vi.mock('../src/timeline/seeds', async (load) => ({
  ...(await load<object>()),
  seedRuns: async (id: string) => {
    fetchedLogs.push(id);
    // Endless requests end here, so that a test can count them.
    if (fetchedLogs.length > 20) return new Promise(() => {});
    if (id === 'lost') throw new Error('no network');
    return (logs[id] ?? []).map((sink, i) => ({
      seed: i + 1,
      training: { steps: 16_000 },
      sink_tokens: [1],
      points: [0, 8000].map((step) => ({ step, 'sink_0.3': step ? sink : 0 })),
    }));
  },
}));

const timelineWithSink = (sink: number) => ({
  seed: 3,
  checkpoints: [
    { step: 0, measured: { sink_1: 0, loss: 5, alpha_max: 0.1 } },
    { step: 40, measured: { sink_1: sink, loss: 3.5, alpha_max: 0.9 } },
  ],
  log: [
    { step: 0, sink_1: 0, held_out_loss: 5 },
    { step: 20, sink_1: sink / 2, held_out_loss: 4 },
    { step: 40, sink_1: sink, held_out_loss: 3.5 },
  ],
});
const courses = { softmax: timelineWithSink(60), sigmoid: timelineWithSink(2) } as Record<
  string,
  object
>;
const timelines = async () => ({
  cards: Object.keys(courses).map((id) => ({ id, title: `The ${id} model` })),
  get: async (id: string) => courses[id],
});
const frameAt = (id: string, change: object = {}): Frame =>
  frameOf({
    ...{ subject: id, title: id },
    model: { id, title: id, source: id.startsWith('hub:') ? 'hub' : 'zoo' },
    ...change,
  } as never);

let fail: ReturnType<typeof vi.fn>;
beforeEach(() => (fail = vi.fn()));
async function drawTraining(frames: Frame[], options: object = {}) {
  const view = drawView(training, frames[0]!, { frames, api: { timelines, fail }, ...options });
  await turn();
  return { ...view, chart: () => view.charts()[0]! };
}
const seriesOf = (chart: { series: readonly { name: string }[] }, part: string) =>
  chart.series.find(({ name }) => name.includes(part)) as unknown as Record<string, unknown>;

describe('the emergence of the sink', () => {
  it('is the step at which the sink reaches half of its final value', async () => {
    const fewSinks = { ...courses };
    // One model has too small a sink, one just enough; the sink of a third is larger before the training.
    Object.assign(courses, {
      few: timelineWithSink(9.9),
      enough: timelineWithSink(10),
      half: timelineWithSink(50),
    });
    const falling = timelineWithSink(12);
    falling.log[0]!.sink_1 = 20;
    Object.assign(courses, { falls: falling });
    const earlySink = timelineWithSink(60);
    earlySink.log[0]!.sink_1 = 40;
    Object.assign(courses, { early: earlySink });
    await drawTraining([frameAt('softmax')]);
    for (const id of Object.keys(courses)) if (!(id in fewSinks)) delete courses[id];
    expect(emergenceOf(frameAt('softmax'))).toEqual({
      ...{ isNone: false, step: 20, from: 0, last: 60, maximum: 60 },
    });
    expect(emergenceOf(frameAt('softmax@20'))).toMatchObject({ last: 60 });
    expect(emergenceOf(frameAt('few'))).toMatchObject({ isNone: true });
    expect(emergenceOf(frameAt('enough'))).toMatchObject({ isNone: false });
    expect(emergenceOf(frameAt('early'))).toMatchObject({ isNone: false, step: 0, from: 40 });
    expect(emergenceOf(frameAt('another'))).toBeUndefined();
    const answerFor = (id: string) =>
      answerOf(choiceOf('training', [frameAt(id)]), frameAt(id), { layer: 0, head: 0 }, defaults);
    expect(['softmax', 'few', 'early', 'enough', 'half', 'falls'].map(answerFor)).toMatchSnapshot();
    const wordsFor = (id: string) => emergenceWords(frameAt(id));
    expect(['softmax', 'few', 'early', 'falls', 'another'].map(wordsFor)).toMatchSnapshot();
  });
});

describe('the curves of training', () => {
  it('are built once for the room and its chart, and again if one was missing', async () => {
    const calls: string[] = [];
    const read = await timelines();
    const counted = { ...read, get: async (id: string) => (calls.push(id), read.get(id)) };
    const load = () => loadCourses((async () => counted) as never, () => {});
    await load();
    await load();
    expect(calls).toEqual(['softmax', 'sigmoid']);
    const broken = { ...counted, get: async (id: string) => Promise.reject(calls.push(id)) };
    for (let i = 0; i < 2; i++) await loadCourses((async () => broken) as never, () => {});
    expect(calls).toHaveLength(6);
  });

  it('show the shown models', async () => {
    const { chart, root } = await drawTraining([frameAt('sigmoid@20')]);
    expect(chart().series.map(({ name }) => name)).toEqual(['The sigmoid model']);
    expect(seriesOf(chart(), 'sigmoid')).toMatchObject({
      places: [0, 20, 40],
      values: [0, 1, 2],
      color: '--run-2',
      dash: '5,3',
    });
    expect(chart()).toMatchObject({
      steps: true,
      cursor: 20,
      domain: [0, 60],
      yLabel: 'heads with a sink, mean of 20 passages, %',
    });
    expect(chart()).not.toHaveProperty('log');
    const steps: number[] = [];
    root.addEventListener('choose-step', (event) => steps.push((event as CustomEvent).detail));
    chart().onChoose!(7);
    chart().onChoose!(-3);
    expect(steps).toEqual([7, 0]);
  });

  it('show the selected quantity with its unit and scale', async () => {
    const ratioView = await drawTraining([frameAt('sigmoid')], { curve: 'hidden_ratio' });
    expect(ratioView.chart()).toMatchObject({ log: true, domain: [0.7, 10], cursor: 40 });
    expect(ratioView.chart().yLabel).toMatch(/, ×$/);
    const lossView = await drawTraining(
      [
        frameAt('sigmoid', {
          model: { id: 'sigmoid@10', title: '', source: 'zoo', step: { of: 70 } },
        }),
      ],
      { curve: 'loss' },
    );
    expect([seriesOf(lossView.chart(), 'sigmoid').values, lossView.chart().cursor]).toEqual([
      [5, 4, 3.5],
      10,
    ]);
    const lastFrame = frameAt('other', {
      model: { id: 'other', title: 'Other', source: 'zoo', step: { of: 70 } },
    });
    expect((await drawTraining([lastFrame])).chart().cursor).toBe(70);
  });

  it('have a thin line for each further run, which a sentence counts', async () => {
    const { chart, text } = await drawTraining([frameAt('softmax'), frameAt('lost')]);
    expect(chart().series.map(({ name, values, faint }) => [name, values, faint])).toEqual([
      ['', [0, 10], true],
      ['', [0, 30], true],
      ['The softmax model', [0, 30, 60], undefined],
    ]);
    expect(chart().series[0]).toMatchObject({ color: '--run-1', places: [0, 8000] });
    expect(chart().series[0]).not.toHaveProperty('dash');
    expect(text('.caption')).toContain(OTHER_RUNS);
    const captionOf = async (id: string) => (await drawTraining([frameAt(id)])).text('.caption');
    const captions = [text('.caption'), await captionOf('few'), await captionOf('none')];
    expect([...captions, await captionOf('one')]).toMatchSnapshot();
    expect(training.how.includes(OTHER_RUNS)).toBe(true);
    expect(training.says(frameAt('softmax'), { layer: 0, head: 0 })).toContain(OTHER_RUNS);
    // A run whose logs are still loading is not called the only seed.
    const waitingText = training.says(frameAt('sigmoid'), { layer: 0, head: 0 });
    expect(waitingText).toMatchSnapshot();
    expect(waitingText).not.toContain('One seed');
  });

  it('fetch long runs once, and again only after a failure', async () => {
    fetchedLogs.length = 0;
    await Promise.all([drawTraining([frameAt('gated')]), drawTraining([frameAt('gated')])]);
    await drawTraining([frameAt('gated')]);
    await drawTraining([frameAt('lost')]);
    await drawTraining([frameAt('lost')]);
    expect(fetchedLogs).toEqual(['gated', 'lost', 'lost']);
  });

  it('show the visited checkpoints of a hub model, separately for each text', async () => {
    const hubFrame = (step: string, share: number, change: object = {}) => ({
      ...frameAt(`hub:EleutherAI/pythia-14m@step${step}`, change),
      tensors: { ...frameOf().tensors, sink_ratio: tensor([3], [share, 0, 0]) },
    });
    const firstView = await drawTraining([hubFrame('1000', 0.25)]);
    expect(seriesOf(firstView.chart(), 'pythia')).toMatchObject({
      name: 'EleutherAI/pythia-14m, visited steps',
      places: [1000],
      values: [25],
      color: '--run-3',
    });
    expect(firstView.chart().cursor).toBe(1000);
    const secondView = await drawTraining([hubFrame('512', 0.5)]);
    expect(seriesOf(secondView.chart(), 'pythia')).toMatchObject({
      places: [512, 1000],
      values: [50, 25],
    });
    // A run that includes generated text does not measure the prompt; other quantities of a checkpoint are unknown.
    const generatedView = await drawTraining([hubFrame('2', 1, { generated: 3 })]);
    expect(seriesOf(generatedView.chart(), 'pythia')).toMatchObject({ places: [512, 1000] });
    expect(
      seriesOf((await drawTraining([hubFrame('2', 1)], { curve: 'loss' })).chart(), 'pythia'),
    ).toBeUndefined();
    const dedupedFrame = {
      ...hubFrame('8', 1),
      ...frameAt('hub:EleutherAI/pythia-14m-deduped@step8'),
    };
    expect(seriesOf((await drawTraining([dedupedFrame])).chart(), 'deduped')).toMatchObject({
      places: [8],
    });
    const otherQuestion = { question: { ...frameOf().question, prompt: 'Another.' } };
    expect(
      seriesOf((await drawTraining([hubFrame('4', 1, otherQuestion)])).chart(), 'pythia'),
    ).toMatchObject({
      places: [4],
    });
  });
});

describe('the view of training', () => {
  const at = { layer: 0, head: 0 };
  beforeEach(async () => void (await drawTraining([frameAt('sigmoid'), frameAt('softmax')])));

  it('names the checkpoint of the weights, the last one for trained weights', () => {
    expect(training.says(frameAt('sigmoid@0'), at)).toMatch(
      /^The sigmoid model, seed 3, at step 0: .* \(exact weights, 100 held-out sequences, T = 64, ε = 0\.3, start token first\)\./,
    );
    expect(training.says(frameAt('sigmoid'), at)).toMatch(/at step 40: .*Sink₁ 2\.0%/);
    expect(training.says(frameAt('other'), at)).toBe('');
  });

  it('saves the curve, its checkpoints and the spread over seeds as numbers', () => {
    const numbersOf = (id: string) => training.numbers(frameAt(id), at);
    const quantityOf = (id: string, name: string) =>
      numbersOf(id).find((quantity) => quantity.name === name);
    expect(quantityOf('sigmoid', 'sink_1')).toMatchObject({
      axes: ['step'],
      shape: [3],
      data: [0, 1, 2],
      places: [0, 20, 40],
    });
    expect(quantityOf('sigmoid', 'sink_1_at_checkpoints')).toMatchObject({
      data: [0, 2],
      places: [0, 40],
    });
    expect(quantityOf('softmax', 'sink_1_over_seeds_high')).toMatchObject({
      data: [0, 30],
      places: [0, 8000],
    });
    expect(quantityOf('sigmoid', 'sink_1_over_seeds_high')).toBeUndefined();
    expect(numbersOf('other')).toEqual([]);
  });

  it('does not fetch failed logs again when the sentence about them is stated again', async () => {
    vi.resetModules();
    const { training: freshTraining } = await import('../src/views/training');
    const frame = frameAt('lost');
    fetchedLogs.length = 0;
    const options = { frames: [frame], api: { timelines, fail } };
    const view = drawView(freshTraining, frame, options);
    const endEffect = effect(() => view.draw(frame, options));
    for (let i = 0; i < 5; i++) await turn();
    endEffect();
    // One for the first draw and one for the courses, which redraw.
    expect(fetchedLogs.length).toBeLessThanOrEqual(2);
  });

  it('is pending until its curves and the logs of its seeds are loaded or known to be missing', async () => {
    const rejectLog = () => Promise.reject(new Error('no network'));
    for (const [read, id] of [
      [timelines, 'softmax'],
      [rejectLog, 'lost'],
    ] as const) {
      vi.resetModules();
      const { training: freshTraining } = await import('../src/views/training');
      const frame = frameAt(id);
      const pendingStates = [freshTraining.isPending!(frame)];
      drawView(freshTraining, frame, { frames: [frame], api: { timelines: read, fail } });
      pendingStates.push(freshTraining.isPending!(frame));
      await turn();
      expect([...pendingStates, freshTraining.isPending!(frame)]).toEqual([true, true, false]);
    }
  });

  it('is not of the stored bits', () => {
    const { model } = training.conditions!(
      frameAt('softmax@20', { model: { id: 'softmax@20', source: 'zoo', bits: 2.3 } }),
      defaults,
    );
    expect(model).toEqual({ id: 'softmax@20', source: 'zoo' });
  });

  it('says why the checkpoints are missing', async () => {
    const reason = new Error('no network');
    await drawTraining([frameAt('sigmoid')], {
      api: { timelines: () => Promise.reject(reason), fail },
    });
    expect(fail).toHaveBeenCalledWith(reason);
  });
});
