// @vitest-environment happy-dom
/** The steps of the story on Start, over frames with known numbers: their sentences, requests and actions. */
import { signal } from '@preact/signals-core';
import { render } from 'lit';
import { beforeEach, describe, expect, it, vi } from 'vitest';
import { defaults, type State } from '../src/ask/state';
import type { Frame } from '../src/frame';
import { entriesOf } from '../src/page/context';
import {
  checkpointAnswer,
  contrastWords,
  ownLossWords,
  createStory,
  sharesNote,
} from '../src/rooms/story';
import { DeletionTrial } from '../src/rooms/without_first';
import { answerOf, arrows, compareKeys } from '../src/views/arrows';
import {
  groupWords,
  outputWords,
  outputs,
  outputNormsOf,
  type OutputNorms,
} from '../src/views/outputs';
import { drawStrips, row, rowAnswer, workOutRow } from '../src/rooms/worked_row';
import { chartsIn, drawView } from './drawn';
import { mean } from './said';
import { PATIENCE, frameOf, tensor, turn } from './fixture';
import { pageOf, roomOf } from './page';
import { shows, showsNow, showsPage } from './picture';

const buildLab = vi.hoisted(() => vi.fn());
vi.mock('../src/lab/embedded', () => ({ build: buildLab }));
vi.mock('../src/plot/chart', async () => (await import('./drawn')).plots.chart);
vi.mock('../src/page/figure', () => ({
  Figure: class {
    root = document.createElement('section');
    update() {}
  },
}));

const at = { layer: 1, head: 0 };
/** Returns the cosines of three queries with the first, the second and the third key, as far as they see them. */
const cosines = (first: number, second: number, third: number) =>
  tensor([3, 3], [first, 0, 0, first, second, 0, first, second, third]);
const withKeys = (cos = cosines(0.5, -0.25, -0.75), norms: number[] = [1, 4, 4]) =>
  frameOf(
    {
      head: {
        ...at,
        tensors: {
          qk_cos: cos,
          key_norm: tensor([2, 2, 3], [9, 9, 9, 9, 9, 9, ...norms, 9, 9, 9]),
          att: tensor([3, 3], [1, 0, 0, 0.9, 0.1, 0, 0.8, 0.1, 0.1]),
        },
      },
    } as never,
    // Means over the prompts, which belong to no cosine of the first prompt.
    { key_norm: tensor([2, 2, 3], Array(12).fill(7)) },
  );

describe('queries and keys as arrows', () => {
  it('compare the first key with the others, and claim no more', () => {
    const answerTo = (...parameters: Parameters<typeof withKeys>) =>
      answerOf(compareKeys(withKeys(...parameters), at)!);
    expect(compareKeys(withKeys(), at)).toEqual({
      ...{ rowCount: 2, winCount: 2, alignedCount: 2, alignedWinCount: 2 },
      ...{ firstCosine: 0.5, normRatio: 0.25 },
      otherCosine: expect.closeTo(-0.4167, 4),
    });
    // As in cos_gap, the first token's own query counts in the mean.
    const ownCosine = tensor([3, 3], [-0.4, 0, 0, 0.5, -0.25, 0, 0.5, -0.25, -0.75]);
    expect(compareKeys(withKeys(ownCosine), at)).toMatchObject({
      firstCosine: expect.closeTo(0.2, 6),
      otherCosine: expect.closeTo(-0.4167, 4),
    });
    for (const parameters of [
      [],
      [cosines(0.5, 0.2, 0.2)],
      [cosines(0.5, 0.1, 0.2), [4, 4, 4]],
      [cosines(0.5, 0.6, 0.7), [8, 1, 1]],
      [cosines(0.5, 0.4, 0.9), [1, 1, 1]],
    ] as Parameters<typeof withKeys>[])
      expect(answerTo(...parameters)).toMatchSnapshot();
    // The answer changes at a quarter and at three quarters of the rows, and at right angles.
    const answerAt = (change: object) =>
      answerOf({
        rowCount: 8,
        winCount: 6,
        alignedCount: 6,
        alignedWinCount: 6,
        firstCosine: 0.5,
        otherCosine: -0.5,
        normRatio: 1,
        ...change,
      });
    const changes = [
      {},
      { winCount: 5 },
      { winCount: 2 },
      { winCount: 0 },
      { firstCosine: 0 },
      { otherCosine: 0 },
    ];
    expect(changes.map(answerAt)).toMatchSnapshot();
    // With all keys of one length the first key would still win some of its rows, or a quarter of them at most.
    const reasonAt = (winCount: number, alignedWinCount: number) =>
      answerAt({ winCount, alignedCount: 5, alignedWinCount });
    expect([reasonAt(6, 5), reasonAt(8, 3), reasonAt(8, 2)]).toMatchSnapshot();
    // Both queries are best aligned with the first key, which is too short to win.
    expect(compareKeys(withKeys(cosines(0.5, 0.4, 0.3), [1, 4, 4]), at)).toMatchObject({
      ...{ winCount: 0, alignedCount: 2, alignedWinCount: 0 },
    });
    // A first key that only equals another key does not win, nor is it better aligned.
    expect(compareKeys(withKeys(cosines(0.5, 0.5, 0.5), [1, 1, 1]), at)).toMatchObject({
      ...{ rowCount: 2, winCount: 0, alignedCount: 0 },
    });
    const saysShort = (cos: Parameters<typeof withKeys>[0], norm: number) =>
      arrows.says(withKeys(cos, [norm, 5, 5]), at).includes('It wins although it is short');
    // The caption does not say “although it is short” if the mean cosine with the first key, or with the others, is 0.
    expect([
      saysShort(cosines(0.5, -0.5, -0.5), 1),
      saysShort(cosines(0.5, -0.5, -0.5), 4),
      saysShort(cosines(0, -0.5, -0.5), 1),
      saysShort(cosines(0.5, 0, 0), 1),
    ]).toEqual([true, false, false, false]);
    expect(arrows.says(withKeys(cosines(0, -0.5, -0.5)), at)).toContain('key is 0 on average');
    // In a recording another key may count as the first.
    const laterFirst = {
      ...withKeys(cosines(0.5, -0.25, 0.75)),
      firstAt: { key: 1, isCommon: true },
    };
    expect(compareKeys(laterFirst as unknown as Frame, at)).toMatchObject({
      ...{ rowCount: 1, winCount: 0, firstCosine: -0.25, otherCosine: 0.625, normRatio: 4 / 2.5 },
    });
    expect(compareKeys({ ...withKeys(), T: 1 } as Frame, at)).toBeUndefined();
    // Two heads of a layer share the keys, and so their norms.
    const { head, ...plain } = withKeys();
    const groupedFrame = {
      ...plain,
      head: {
        ...{ ...head!, head: 1 },
        tensors: { ...head!.tensors, key_norm: tensor([2, 1, 3], [9, 9, 9, 1, 2, 2]) },
      },
      architecture: { ...plain.architecture, G: 1 },
    } as unknown as Frame;
    expect(compareKeys(groupedFrame, { layer: 1, head: 1 })!.normRatio).toBe(0.5);
    expect(arrows.says(frameOf(), at)).toBe('');
    expect(arrows.says({ ...withKeys(), sequences: 8 }, at)).toMatchSnapshot();
  });

  it('show each key at its angle and length, for the selected query', () => {
    const view = drawView(arrows, withKeys());
    showsNow(view, arrows, withKeys());
    for (const [cos, norm] of [
      [withKeys(), 9],
      [withKeys(cosines(0.9, 0.25, 0.9)), undefined],
    ] as const) {
      const data = norm && Float32Array.from({ length: 12 }, (_, i) => (i % 3 ? 1 : norm));
      const key_norm = data ? tensor([2, 2, 3], [...data]) : cos.head!.tensors.key_norm!;
      const head = { ...cos.head!, tensors: { ...cos.head!.tensors, key_norm } };
      const otherFrame = { ...cos, head } as Frame;
      expect(arrows.says(otherFrame, at)).not.toMatch(/although/);
    }
    const tipOf = (kind: string, nth = 0) =>
      /L([-\d.]+),([-\d.]+)M/
        .exec(view.all(`path.${kind}`)[nth]!.getAttribute('d')!)!
        .slice(1)
        .map(Number);
    // The query of token 1 sees two keys. The longest key is drawn as long as the query's arrow.
    expect(view.all('path.other')).toHaveLength(1);
    const [radius] = tipOf('query') as [number];
    const [x, y] = tipOf('first') as [number, number];
    expect(x).toBeCloseTo(radius * 0.25 * 0.5, 3);
    expect(-y).toBeCloseTo(radius * 0.25 * Math.sqrt(0.75), 3);
    expect(tipOf('other')[0]).toBeCloseTo(-0.25 * radius, 3);
    expect(Number(view.all('circle.first')[0]!.getAttribute('cx'))).toBeCloseTo(310 + x, 3);
    const input = view.all('input')[0] as HTMLInputElement;
    input.value = '2';
    input.dispatchEvent(new Event('input'));
    expect(view.set).toHaveBeenLastCalledWith({ query: 2 });
    view.draw(withKeys(), { query: 2 });
    showsNow(view);
    expect(tipOf('other', 1)[0]).toBeCloseTo(-0.75 * radius, 3);
    // In a shorter text, which lacks the selected token, the last one is drawn.
    view.draw({ ...withKeys(), T: 2, tokens: withKeys().tokens.slice(0, 2) } as Frame, {
      query: 2,
    });
    showsNow(view);
    expect(drawView(arrows, withKeys(), { isPlain: true }).all('.caption')[0]!.hidden).toBe(true);
  });
});

/**
 * Returns a frame with these norms of the four heads’ outputs for tokens 1 and 2; outputs for the first token do not
 * count.
 */
const frameOfOutputs = (...norms: readonly number[]) =>
  frameOf(
    {},
    {
      head_out: tensor(
        [2, 2, 3, 2],
        norms.flatMap((n) => [9, 9, 0.6 * n, 0.8 * n, n, 0]),
      ),
    },
  );

describe('what each head writes', () => {
  it('is the norm of the head’s output, compared with the other heads', () => {
    const frame = frameOfOutputs(2, 1, 0.5, 4.5);
    const outputNorms = outputNormsOf(frame, at);
    expect([...outputNorms.norms].map((n) => Number(n.toFixed(4)))).toEqual([2, 1, 0.5, 4.5]);
    // Heads L0H1 and L1H0 give <s> more than 30%; 0.3 itself is not more.
    expect(outputNorms).toMatchObject({
      selectedNorm: 0.5,
      othersMean: 2.5,
      sinkMean: 0.75,
      noSinkMean: 3.25,
      sinkCount: 2,
    });
    expect(outputs.says(frame, at)).toMatchSnapshot();
    const wordsFor = (selectedNorm: number) =>
      outputWords(outputNormsOf(frameOfOutputs(2, 2, selectedNorm, 2), at), frame);
    expect([0.9, 1, 1.5, 2].map(wordsFor)).toMatchSnapshot();
    expect(outputs.says({ ...frame, T: 1 } as Frame, at)).toBe('');
    expect(outputs.says({ ...frame, eps: 0.95 } as Frame, at)).toMatch(/other heads 2\.50\.$/);
  });

  it('compares the first prompt’s outputs with its weights, never with the means over several prompts', () => {
    const frame = { ...frameOfOutputs(2, 1, 0.5, 4.5), sequences: 2 } as Frame;
    const withTensors = (more: Frame['tensors'], change: object = {}) =>
      ({ ...frame, ...change, tensors: { ...frame.tensors, ...more } }) as Frame;
    // On average two heads have a sink; in the first prompt only the head L1H1.
    const rows = tensor([2, 4], [0.1, 0.1, 0.1, 0.9, 0.1, 0.9, 0.9, 0.1]);
    const known = withTensors({ first_alphas: rows });
    expect(outputs.says(known, at)).toMatchSnapshot();
    expect(Array.from(outputs.numbers(known, at)[1]!.data, (x) => Number(x!.toFixed(4)))).toEqual([
      ...[0.1, 0.1, 0.1, 0.9],
    ]);
    // Where rows need not sum to 1 the weight counts; of weights with signs, which cancel in a mean, the share of sizes.
    const third = tensor([2, 4], [0, 0, 0.9, 0, 0, 0, 0.9, 0]);
    const operation = { ...frame.operation, normalizes: false };
    const raw = withTensors({ first_raw_alphas: third }, { operation });
    const signed = withTensors(
      { first_alphas: third, first_raw_alphas: tensor([2, 4], Array(8).fill(0)) },
      { operation: { ...operation, proxy: 'share_abs' } },
    );
    for (const each of [raw, signed])
      expect(outputNormsOf(each, at)).toMatchObject({ sinkCount: 1, sinkMean: 0.5 });
    // The maps of a recording give them, too.
    const maps = [0.2, 0.2, 0.2, 0.4].flatMap((x) => [1, 0, 0, x, 1 - x, 0, 0, 0.5, 0.5]);
    const mapped = withTensors({ att: tensor([2, 2, 3, 3], maps) });
    expect(outputNormsOf(mapped, at)).toMatchObject({ sinkCount: 4 });
    expect(outputNormsOf({ ...mapped, eps: 0.45 } as Frame, at)).toMatchObject({ sinkCount: 1 });
    // Without them no head counts as one with a sink.
    expect(outputs.says(frame, at)).toMatch(/ that of the other heads 2\.50\.$/);
    expect(outputs.numbers(frame, at).map(({ name }) => name)).toEqual(['output_norm']);
    const unknown = drawView(outputs, frame).all('button')[1]!;
    expect([unknown.className, unknown.title]).toEqual(['output', 'L0H1 writes 1.00']);
  });

  it('is drawn as a bar on the grid of heads, which selects a head', () => {
    const view = drawView(outputs, frameOfOutputs(2, 1, 0.5, 4));
    shows(outputs, frameOfOutputs(2, 1, 0.5, 4));
    view.all('button')[3]!.click();
    expect(view.set).toHaveBeenCalledExactlyOnceWith({ layer: 1, head: 1 });
  });
});

const STEPS = 6;
const createCard = (id: string, loss: number, sink_1 = 50) => ({
  id,
  title: id,
  seed: 1,
  timeline: true,
  measured: { sink_1, sink_1_raw: sink_1, loss },
});

/**
 * Returns a frame with values of three tokens, two numbers each. Head L1H0 attends to the first token, whose value is
 * short.
 */
const withRow = (change: Partial<Frame> = {}, scores: readonly number[] = [3, 1, -1]) => {
  const powers = scores.map(Math.exp);
  const softmaxWeights = powers.map((power) => power / powers.reduce((a, b) => a + b));
  const values = [0.03, 0.04, 3, 4, 0, 5];
  return {
    ...withKeys(),
    head: {
      ...at,
      tensors: {
        ...withKeys().head!.tensors,
        att: tensor([3, 3], [1, 0, 0, 0.9, 0.1, 0, ...softmaxWeights]),
        scores: tensor([3, 3], [0, 0, 0, Math.log(9), 0, 0, ...scores]),
      },
    },
    tensors: {
      ...withKeys().tensors,
      v: tensor(
        [2, 2, 3, 2],
        [...Array<number>(12).fill(7), ...values, ...Array<number>(6).fill(7)],
      ),
    },
    ...change,
  } as unknown as Frame;
};

describe('the worked row', () => {
  it('is the row of the selected query, with the values of the head’s group', () => {
    // The row in the middle is shown if none is selected, or if the first row is, which sees no other token.
    expect([workOutRow(withRow(), -1)!.query, workOutRow(withRow(), 0)!.query]).toEqual([1, 1]);
    expect(workOutRow(withRow(), 1)!.topEntries).toHaveLength(2);
    expect(workOutRow(withRow({ pooled: 2 }), 2)).toBeUndefined();
    expect(workOutRow(withKeys(), 2)).toBeUndefined();
    const sharedFrame = withRow({ architecture: { ...withRow().architecture, G: 1 } } as never);
    const v = tensor([2, 1, 3, 2], [...Array<number>(6).fill(7), 0, 1, 0, 1, 0, 1]);
    const groupedFrame = { ...sharedFrame, tensors: { ...sharedFrame.tensors, v } } as Frame;
    expect(workOutRow(groupedFrame, 2)!.topEntries.map(({ value }) => value)).toEqual([1, 1, 1]);
  });

  it('lists the first token and the three largest others, and sums up the rest', () => {
    const frameOfLength = (T: number) => {
      const cells = Array.from({ length: T * T }, (_, i) => (i % T === 0 ? 0.5 : 0.01 * (i % T)));
      return {
        ...withRow(),
        T,
        tokens: Array.from({ length: T }, (_, i) => ({ ...withRow().tokens[1]!, text: `t${i}` })),
        head: {
          ...at,
          tensors: { att: tensor([T, T], cells), scores: tensor([T, T], cells) },
        },
        tensors: { ...withRow().tensors, v: tensor([2, 2, T, 1], Array<number>(4 * T).fill(2)) },
      } as unknown as Frame;
    };
    const keysOfLines = (T: number) => {
      const { topEntries, otherEntries } = workOutRow(frameOfLength(T), T - 1)!;
      return [topEntries, otherEntries].map((entries) => entries.map(({ key }) => key));
    };
    expect(keysOfLines(5)).toEqual([[0, 4, 3, 2, 1], []]);
    expect(keysOfLines(6)).toEqual([
      [0, 5, 4, 3],
      [2, 1],
    ]);
    expect(workOutRow(frameOfLength(6), 5)!.othersOutput).toBeCloseTo(0.06, 5);
    shows(row, frameOfLength(6), { query: 5 });
  });

  it('states only conclusions that its numbers support', () => {
    const answerWith = (scores: number[], change: Partial<Frame> = {}) =>
      rowAnswer(workOutRow(withRow(change, scores), 2)!, withRow(change, scores));
    const longValues = { ...withRow().tensors, v: tensor([2, 2, 3, 2], Array<number>(24).fill(1)) };
    expect([
      ...[
        [3, 1, -1],
        [0.1, 0, 0],
        [0, 0, 1],
        [0, 0, 0],
        [-5, 0, 0],
      ].map((scores) => answerWith(scores)),
      answerWith([3, 1, -1], { tensors: longValues }),
    ]).toMatchSnapshot();
    expect(row.says(withKeys(), at)).toBe('');
  });
});

const withSigmoid = (frame: Frame) =>
  ({
    ...frame,
    subject: 'sigmoid',
    model: { ...frame.model, id: 'sigmoid' },
    operation: { name: 'sigmoid', label: 'sigmoid', normalizes: false, proxy: 'weights' },
  }) as unknown as Frame;

describe('the strips of a row', () => {
  it('show each part at its weight, and what the head writes with it and without the first token', () => {
    const root = document.createElement('div');
    const shows = (frames: readonly Frame[]) => {
      render(drawStrips(frames, 2), root);
      return [...root.querySelectorAll('tr')]
        .slice(1)
        .map((line) => [
          line.querySelector('th')!.textContent!.replace(/\s+/g, ' ').trim(),
          ...[...line.querySelectorAll('i')].map((part) =>
            part.style.getPropertyValue('--share').slice(0, 5),
          ),
          ...[...line.querySelectorAll('td')].map((cell) =>
            cell.textContent!.replace(/\s+/g, ' ').trim(),
          ),
        ]);
    };
    const small = withSigmoid(withRow());
    const att = tensor([3, 3], [0, 0, 0, 0, 0, 0, 0.01, 0.3, 0.1]);
    const sigmoid = {
      ...small,
      head: { ...at, tensors: { ...small.head!.tensors, att } },
    } as Frame;
    expect(shows([withRow(), sigmoid])).toMatchSnapshot();
    // A row that sums to more than 100% is cut at the end of the frame.
    const large = { ...sigmoid.head!.tensors, att: tensor([3, 3], [0, 0, 0, 0, 0, 0, 1, 2, 1]) };
    expect(shows([{ ...sigmoid, head: { ...at, tensors: large } } as Frame])).toMatchSnapshot();
  });
});

describe('the story', () => {
  beforeEach(() => buildLab.mockClear());

  function renderStory(
    step: number,
    frames: readonly Frame[],
    {
      losses,
      cards = [createCard('softmax', 3.41), createCard('sigmoid', 3.489)],
      ...change
    }: Partial<State> & { losses?: readonly number[]; cards?: readonly object[] } = {},
  ) {
    const studyEntry = ({ subject }: { subject: string }) => {
      const value = subject.includes('hide_key(1)')
        ? losses?.[3]
        : subject.includes('hide_key') && losses?.[2] !== undefined
          ? losses[2]
          : losses?.[subject.includes('~') ? 1 : 0];
      return value === undefined
        ? undefined
        : { frame: frameOf({}, { loss_mean: tensor([1], [value]) }) };
    };
    const timeline = (last: number) => {
      const log = [0, 1000, 4000].map((step) => ({
        ...{ step, sink_1: step === 4000 ? last : 0 },
        row_mass: last > 10 ? 1 : 0.15,
      }));
      return { log, checkpoints: log.map(({ step, sink_1 }) => ({ step, measured: { sink_1 } })) };
    };
    const timelines = async () => ({
      cards: ['softmax', 'gated', 'sigmoid'].map((id) => ({ id, title: `${id} model` })),
      get: async (id: string) => timeline(id === 'softmax' ? 60 : 4),
      steps: async () => [0, 1000, 4000],
      preload: async () => {},
    });
    const page = pageOf({ shown: ['softmax', 'sigmoid'], ...change }, frames, {
      models: { zoo: { cards }, timelines },
      queue: { studyEntry },
    });
    const reachedSteps = signal<ReadonlySet<number>>(new Set());
    const isAhead = signal(false);
    let needsOf!: ReturnType<typeof createStory>;
    const room = roomOf((root, context, scope) => {
      const places = Array.from({ length: STEPS }, () => {
        const section = root.appendChild(document.createElement('section'));
        section.append(document.createElement('h2'), document.createElement('div'));
        section.firstElementChild!.className = 'step-title';
        return section.lastElementChild as HTMLElement;
      });
      const takeawaysPlace = root.appendChild(document.createElement('footer'));
      const currentEntries = () => entriesOf(context, context.state.value.shown.slice(0, 2));
      needsOf = createStory(
        places,
        takeawaysPlace,
        { reachedSteps, isAhead },
        {
          context,
          scope,
          currentEntries,
        },
      );
      if (step) reachedSteps.value = new Set([step - 1]);
      else isAhead.value = true;
    }, page);
    return { ...room, needs: () => needsOf(frames[0], page.state.value) };
  }
  it('draws all steps but the lab ahead, without further runs and checkpoints', async () => {
    const { all, needs } = renderStory(0, [withKeys()]);
    await turn();
    expect(all('.answer').length).toBeGreaterThanOrEqual(4);
    expect(all('[data-recorded-texts], .step-maps')).toHaveLength(2);
    expect(needs()).toMatchObject({ subjects: ['softmax'], studies: [] });
    expect(buildLab).not.toHaveBeenCalled();
  });

  it('creates and requests nothing for a step that the reader has not reached', async () => {
    const { all, needs } = renderStory(3, [withKeys()]);
    await turn();
    expect(all('div:has(> .step-words)')).toHaveLength(0);
    expect(all('[data-recorded-texts]')).toHaveLength(1);
    expect(needs()).toMatchObject({ views: [], subjects: [], heads: {} });
    expect(needs().studies.map(({ subject }) => subject)).toEqual([
      'softmax',
      'softmax~hide_key(0)',
      'softmax~hide_key(1)',
    ]);
    expect(buildLab).not.toHaveBeenCalled();
  });

  it('step 1: counts the heads with a sink, and describes the selected one', async () => {
    const longFrame = (ratio: number, later: number) =>
      ({
        ...withKeys(),
        T: 30,
        tensors: {
          ...withKeys().tensors,
          alpha_uniform: tensor([30], Array(30).fill(0.1)),
          sink_ratio: tensor([30], [ratio, ...Array(29).fill(0)]),
          sink_ratio_raw: tensor([30], [ratio, ...Array(29).fill(0)]),
          // In L1H1 the third token gets as much as `later` says.
          alpha: tensor(
            [2, 2, 30],
            [0.4, 0.4, 0.9, 0.1].flatMap((first, i) => [
              first,
              0,
              i > 2 ? later : 0,
              ...Array(27).fill(0),
            ]),
          ),
        },
      }) as Frame;
    const showsStep = async (ratio: number, sequences = 1, later = 0) => {
      const { all, needs } = renderStory(1, [{ ...longFrame(ratio, later), sequences } as Frame]);
      await turn();
      showsPage(...all('.answer, .step-words'));
      expect(needs().views.map(({ name }) => name)).toEqual(['heads']);
    };
    for (const ratio of [0.75, 0.5, 0.25, 0]) await showsStep(ratio);
    for (const ratio of [0.6, 0]) await showsStep(ratio, 5);
    // A later token that is the sink of a head without one at the first token is named, in one prompt.
    for (const later of [0.25, 0.5]) await showsStep(0.25, 1, later);
    await showsStep(0, 5, 0.5);
  });

  it('step 3: removes generated texts only if the model or the question changes', async () => {
    const stop = vi.spyOn(DeletionTrial.prototype, 'stop');
    const { know } = renderStory(3, [withKeys()]);
    await turn();
    const countStops = (change: Partial<Frame>) => {
      stop.mockClear();
      know({ softmax: { frame: { ...withKeys(), ...change } as Frame } });
      return stop.mock.calls.length;
    };
    const question = { ...withKeys().question, prompt: 'Another text' };
    expect(
      [{}, { question }, { question, eps: 0.5 }, { subject: 'gated' }].map(countStops),
    ).toEqual([...[0, 1, 0, 1]]);
  });

  it('step 3: shows the recorded texts, and generates from the reader’s text on request', async () => {
    const { text, button, all } = renderStory(3, [withKeys()]);
    await turn();
    expect(text('.answer')).toMatchSnapshot();
    expect(button('Try it with the small model on your text').disabled).toBe(false);
    const recordingFrame = {
      ...withKeys(),
      recording: { model: { id: 'a/b' } },
    } as unknown as Frame;
    const recordingStory = renderStory(3, [recordingFrame]);
    await turn();
    expect(recordingStory.all('.links button')).toHaveLength(0);
    expect(recordingStory.text('.links')).toMatchSnapshot();
    expect(all('.links a').length).toBe(
      SHIPPED.includes('smollm2-135m-instruct.safetensors') ? 1 : 0,
    );
  });

  it('step 3: compares hiding the first token with hiding the second, in each model', async () => {
    const showsLosses = async (frames: Frame[], ...losses: number[]) => {
      const { all } = renderStory(3, frames, { losses });
      await turn();
      showsPage(...all('.costs'));
    };
    // The losses are those of the text, with another edit, with the first token hidden, and with the second one hidden.
    await showsLosses([withKeys(), withSigmoid(withKeys())], 2, NaN, 2.3, 2.05);
    // Where no head has a sink, no attention had gone there.
    const noSinks = {
      ...withKeys().tensors,
      sink_ratio: tensor([3], [0, 0, 0]),
      sink_ratio_raw: tensor([3], [0, 0, 0]),
    };
    await showsLosses([{ ...withKeys(), tensors: noSinks } as Frame], 2, NaN, 2.3, 2.05);
    for (const losses of [
      // Both changes are written as +0.05: one word for both.
      [2, NaN, 2.0512, 2.0488],
      [2, NaN, 1.9, 2.1],
      [2, NaN, 2.3, 2.25],
      [2, NaN, 2.3, NaN],
      [],
      [2, NaN, NaN, NaN],
    ])
      await showsLosses([withKeys()], ...losses);
  });

  it('step 3: of any two losses, a sentence claims no difference that a reader would not call one', () => {
    const steps = [-5, -0.06, -0.03, -0.01, 0, 0.01, 0.04, 0.06, 0.1, 0.29, 2];
    const cases = [0.5, 3.65, 23.8].flatMap((loss) =>
      steps.flatMap((first) => steps.map((second) => ({ loss, first, second }))),
    );
    for (const { loss, first, second } of cases) {
      const hasSinks = first > second;
      const losses = { name: 'the model', hasSinks, loss };
      const changed = { withoutFirst: loss + first, withoutSecond: loss + second };
      const words = contrastWords({ ...losses, ...changed });
      const least = Math.max(0.05, 0.0101 * (loss + Math.max(0, first, second)));
      const claims: readonly (readonly [RegExp, boolean])[] = [
        [/makes hardly any difference/, Math.abs(first) <= least],
        [/one of the first two tokens/, Math.abs(second) <= least],
        [/predicts this text better/, first < -0.05],
        [/costs|makes the prediction worse/, first > 0.05],
        [/makes it better/, second < -0.05],
        [/hardly does/, Math.abs(second) <= least],
        [/more than/, first > second],
        [/less than/, second - first > 0.05],
        [/about as much/, Math.abs(first - second) <= least && second > 0.05],
        [/since/, hasSinks],
      ];
      const found = claims.filter(([pattern]) => pattern.test(words));
      expect(found.length, words).toBeGreaterThan(0);
      for (const [, isTrue] of found)
        expect(isTrue, `${words} ${loss} ${first} ${second}`).toBe(true);
    }
  });

  it('step 2: works out one row of each model, and folds the arrows', async () => {
    const { text, needs, all, state } = renderStory(2, [withRow(), withSigmoid(withRow())]);
    await turn();
    showsPage(...all('.answer, .step-words'));
    expect(text('section:nth-of-type(2) .step-title')).toMatchSnapshot();
    expect(needs().views.map(({ name }) => name)).toEqual(['row', 'arrows']);
    // The row that the first screen reads.
    expect(text('.query-range')).toBe('Row of token 1: “a”');
    const input = all('.query-range input')[0] as HTMLInputElement;
    input.value = '2';
    input.dispatchEvent(new Event('input'));
    expect([state.value.query, text('.query-range')]).toEqual([2, 'Row of token 2: “=1,"x"↵”']);
    const singleToken = renderStory(2, [{ ...withKeys(), T: 1 } as Frame]);
    await turn();
    expect(singleToken.text('.answer')).toMatchSnapshot();
  });

  it('step 4: describes what heads with a sink write, and says that some write much', () => {
    const wordsFor = (sinks: readonly number[], others: readonly number[]) =>
      groupWords({
        ...{ sinkMean: mean(sinks), noSinkMean: mean(others) },
        ...{ sinkCount: sinks.length, noSinkCount: others.length },
        muchCount: sinks.filter((norm) => norm > mean(others)).length,
        littleCount: others.filter((norm) => norm < mean(sinks)).length,
      } as OutputNorms);
    expect([
      wordsFor([0.1, 0.1, 0.7], [0.6, 0.6]),
      wordsFor([0.3, 0.3], [0.6, 0.6]),
      wordsFor([0.3], [0.1, 0.2, 1.5]),
      wordsFor([0.7, 0.8], [0.6]),
      // The numbers that are printed are equal.
      wordsFor([0.598], [0.601]),
    ]).toMatchSnapshot();
    expect([wordsFor([], [1]), wordsFor([1], [])]).toEqual(['', '']);
  });

  it('step 4: states what the head writes, what the sink is good for, and whether the model needs it', async () => {
    const outputTensors = frameOfOutputs(2, 1, 0.5, 4.5).tensors;
    const createFrame = () =>
      ({ ...withKeys(), tensors: { ...withKeys().tensors, ...outputTensors } }) as Frame;
    type Rest = Parameters<typeof renderStory> extends [number, ...infer Rest] ? Rest : never;
    const wordsOf = async (...parameters: Rest) => {
      const story = renderStory(4, ...parameters);
      await turn();
      return [...story.texts('.late :is(tr, p)'), ...story.texts('.step-words > p').slice(1)];
    };
    const V = 4096;
    const ownFrame: Frame = {
      ...createFrame(),
      architecture: { ...createFrame().architecture, V },
    };
    expect(
      await wordsOf([ownFrame, withSigmoid(ownFrame)], { losses: [2, 2.25] }),
    ).toMatchSnapshot();
    const lossWords = async (...losses: number[]) =>
      (await wordsOf([ownFrame], { losses })).slice(0, -1).join(' | ');
    for (const losses of [[], [2.5, 2], [0, 0.0023], [0, 1e-9], [0, NaN], [2, 2.001], [2, 2.2]])
      expect(await lossWords(...losses)).toMatchSnapshot();
    const chance = Math.log(V);
    const guess = `A blind guess among the 4,096 tokens of the vocabulary would have a loss of ${chance.toFixed(2)}`;
    const wordsAt = async (loss: number) => {
      const tensors = { ...ownFrame.tensors, loss_mean: tensor([1], [loss]) };
      return (await wordsOf([{ ...ownFrame, tensors }], { losses: [loss, loss] })).join(' | ');
    };
    expect(await wordsAt(chance + 0.01)).toContain(guess);
    expect(await wordsAt(chance - 0.01)).not.toContain(guess);
    const several = { ...ownFrame, sequences: 5 } as Frame;
    const story = renderStory(4, [several], { losses: [2, 2.001, 1.5] });
    await turn();
    showsPage(...story.all('.answer, .step-words'));
    const { needs } = renderStory(4, [ownFrame]);
    await turn();
    expect(needs().views).toEqual([outputs]);
    expect(needs().studies.map(({ subject }) => subject)).toEqual([
      'softmax',
      'softmax~silence(1,0)',
    ]);
  });

  it('step 5: claims of the two maps only whether each has a sink', () => {
    const frameWith = (share: number, step?: number) =>
      frameOf(
        {
          model: { ...frameOf().model, step: step === undefined ? step : { step, of: 4000 } },
        } as never,
        { alpha: tensor([2, 2, 3], Array(12).fill(share)) },
      );
    const answerTo = (...[now, step, later]: readonly [number, number | undefined, number]) =>
      checkpointAnswer(frameWith(now, step), frameWith(later), at);
    const short = {
      ...frameWith(0.9),
      tensors: { ...frameWith(0.9).tensors, alpha_uniform: tensor([3], [0.5, 0.5, 0.5]) },
    };
    expect([
      answerTo(0.1, 0, 0.9),
      answerTo(0.1, 1000, 0.9),
      answerTo(0.8, 1000, 0.9),
      answerTo(0.8, 1000, 0.2),
      answerTo(0.1, 0, 0.2),
      answerTo(0.9, undefined, 0.9),
      answerTo(0.2, undefined, 0.2),
      checkpointAnswer(frameWith(0.9, 0), short as Frame, at),
      checkpointAnswer(frameWith(0.9), frameWith(0.9), at, frameWith(0.1, 0)),
      checkpointAnswer(frameWith(0.9), frameWith(0.9), at, frameWith(0.8, 0)),
    ]).toMatchSnapshot();
  });

  it('step 5: says of no checkpoint on the first screen that it learned the sink', async () => {
    const step = { step: 0, of: 4000 };
    const checkpoint = { ...withKeys(), subject: 'softmax@0' } as Frame;
    const { know, state, text } = renderStory(5, [withKeys(), withSigmoid(withKeys())]);
    await turn();
    await turn();
    state.value = { ...state.value, shown: ['softmax@0'] };
    know([
      withKeys(),
      { ...checkpoint, model: { ...checkpoint.model, id: 'softmax@0', step } } as never,
    ]);
    expect(text('.step-words p')).toMatchSnapshot();
  });

  it('step 5: plays the training of the shown model, and leaves the first screen unchanged', async () => {
    const { root, state, know, texts, text, needs, click, entries } = renderStory(5, [
      withKeys(),
      withSigmoid(withKeys()),
    ]);
    await turn();
    await turn();
    // The story reads the trained model’s head at every step, even if another head is stronger there.
    expect(needs()).toMatchObject({ subjects: ['softmax@0'], heads: { 'softmax@0': at } });
    expect(state.value.shown).toEqual(['softmax', 'sigmoid']);
    const checkpointFrame = {
      ...withKeys(),
      subject: 'softmax@0',
      model: { id: 'softmax@0', title: 'Softmax model', step: { step: 0, of: 4000 } },
      head: { ...at, tensors: { att: tensor([3, 3], [0.2, 0, 0, 0.2, 0.8, 0, 0.2, 0.4, 0.4]) } },
    } as unknown as Frame;
    know([...[...entries.value.values()].map(({ frame }) => frame!), checkpointFrame]);
    expect(texts('.step-words p').slice(0, 2)).toMatchSnapshot();
    const shownFrames = [...entries.value.values()].map(({ frame }) => frame!);
    know(shownFrames.map((frame) => ({ ...frame, sequences: 5 })));
    expect(texts('.step-words p')[1]).toMatchSnapshot();
    know(shownFrames);
    expect(text('.range')).toMatch(/step 0 of 4,000/);
    const [curve] = chartsIn(root);
    expect(curve).toMatchObject({ cursor: 0, percent: true, steps: true });
    expect(
      curve!.series.map(({ name, color, values }) => [name, color, ...Array.from(values)]),
    ).toEqual([
      ['softmax model', '--run-1', 0, 0, 0.6],
      ['sigmoid model', '--run-3', 0, 0, 0.04],
    ]);
    click('Next checkpoint');
    expect(needs().subjects).toEqual(['softmax@1000']);
    expect(texts('.step-words p')[1]).toMatch(/^Step 0/);
    state.value = { ...state.value, shown: ['gated', 'sigmoid'] };
    expect(needs().subjects).toEqual(['gated']);
  });

  it('step 5: compares seeds, also those of the twin if it has several', async () => {
    const cardOfSeeds = (id: string, sinks: readonly number[]) => ({
      ...createCard(id, 3.4),
      further_seeds: sinks.map((sink_1, i) => ({ seed: i + 2, sink_1 })),
    });
    const seedSentence = async (sinks: readonly number[], twinSinks: readonly number[]) => {
      const cards = [cardOfSeeds('softmax', sinks), cardOfSeeds('sigmoid', twinSinks)];
      const frames = [withKeys(), withSigmoid(withKeys())];
      const { know, text, entries } = renderStory(5, frames, { cards });
      await turn();
      await turn();
      const checkpointFrame = {
        ...withKeys(),
        subject: 'softmax@0',
        model: { id: 'softmax@0', title: 'Softmax model', step: { step: 0, of: 4000 } },
      } as unknown as Frame;
      know([...[...entries.value.values()].map(({ frame }) => frame!), checkpointFrame]);
      return text('.chart + p');
    };
    expect([await seedSentence([60], []), await seedSentence([60], [12.5])]).toMatchSnapshot();
    expect(await seedSentence([], [12.5])).toBe('Over 20 other passages.');
  });

  it('step 5: says of bumps by shares of the row what counts by weight', async () => {
    const noteOf = async (card: object) => {
      const measured = { loss: 3.4, sink_1: 0.38, ...card };
      const cards = [createCard('softmax', 3.4), { ...createCard('sigmoid', 3.4), measured }];
      const { context } = renderStory(5, [withKeys()], { cards });
      const courses = ['softmax', 'sigmoid'].map((id) => ({
        ...{ id, title: `${id === 'softmax' ? 'Softmax' : 'Sigmoid'} model`, style: { color: '' } },
        timeline: {
          checkpoints: [],
          log: [
            { step: 0, sink_1: 0, row_mass: id === 'softmax' ? 1 : 0.25 },
            { step: 9, sink_1: 5, row_mass: id === 'softmax' ? 1 : 0.15 },
          ],
        },
      }));
      return sharesNote(courses as never, context);
    };
    expect([await noteOf({ sink_1_raw: 0 }), await noteOf({ sink_1_raw: 0.2 })]).toMatchSnapshot();
    // Where both measures agree there is nothing to say, and without a measurement nothing is known.
    expect([await noteOf({ sink_1_raw: 0.38 }), await noteOf({})]).toEqual(['', '']);
  });

  it('step 6: embeds the lab with a preset that takes seconds', async () => {
    const { text, all } = renderStory(6, [withKeys()]);
    await vi.waitFor(() => expect(buildLab).toHaveBeenCalledOnce(), PATIENCE);
    const [place, context] = buildLab.mock.lastCall!;
    expect(place.className).toBe('step-lab');
    expect(context.state.value).toMatchObject({
      leftRun: expect.stringContaining('steps:400'),
      controls: [],
    });
    expect(context.state.value.rightRun).toMatch(/^operation:sigmoid_log_n/);
    expect([text('.answer'), text('.answer + p')]).toMatchSnapshot();
    expect(all('.links a')[0]!.getAttribute('href')).toContain('"room":"lab"');
  });

  it('ends with a summary, which compares the losses of twins', () => {
    const takeawaysOf = (frames: readonly Frame[], cards?: readonly object[]) => {
      const { text, texts } = renderStory(3, frames, cards ? { cards } : {});
      return [text('footer .answer'), ...texts('footer dd')];
    };
    const twins = [withKeys(), withSigmoid(withKeys())];
    expect(
      takeawaysOf(twins, [createCard('softmax', 3.411), createCard('sigmoid', 3.489, 0.42)]),
    ).toMatchSnapshot();
    expect(
      takeawaysOf(twins, [createCard('softmax', 3), createCard('sigmoid', 2.9, 0)])[3],
    ).toMatch(/^Yes\. .* predicts these passages better .* 10% lower\. /);
    // A model that is not a twin, and models without a card, are not compared.
    expect(
      takeawaysOf([withKeys(), { ...withSigmoid(withKeys()), model: { id: 'b' } } as never]),
    ).toHaveLength(3);
    expect(takeawaysOf([withKeys()])).toHaveLength(3);
    expect(takeawaysOf(twins, [])).toHaveLength(3);
  });

  it('says of the reader’s text whether the verdict over the passages holds there, and whether both models only guess', () => {
    const wordsOf = (loss: number, twinLoss: number) => {
      const [frame, twin] = [loss, twinLoss].map((one) => ({
        ...withKeys(),
        architecture: { ...withKeys().architecture, V: 1024 },
        tensors: { ...withKeys().tensors, loss_mean: tensor([1], [one]) },
      })) as unknown as [Frame, Frame];
      return ownLossWords([frame, twin], 'worse than');
    };
    expect(wordsOf(24.42, 20.09)).toBe(
      ' But it predicts your text better than that model: its loss there is 20.09 against 24.42; both do worse than a blind guess (6.93).',
    );
    expect(wordsOf(3.1, 3.3)).toBe(' Your text, too: its loss there is 3.30 against 3.10.');
    expect(wordsOf(6.9, 7.2)).not.toContain('blind');
    expect(wordsOf(3.1, 3.12)).toContain('your text about as well as that model');
    expect(wordsOf(NaN, 3)).toBe('');
  });

  it('ends with links to the first lesson and to every other room', () => {
    const { all } = renderStory(3, [withKeys()], { ...defaults, shown: ['softmax@40'] });
    showsPage(...all('footer .button, footer li a'));
  });
});
