// @vitest-environment happy-dom
/** Over several prompts a frame has means of some numbers and others of the first prompt only: sentences say which. */
import { describe, expect, it, vi } from 'vitest';
import { answerOf } from '../src/answers';
import { headingOf } from '../src/rooms/compared';
import { defaults } from '../src/ask/state';
import type { Frame } from '../src/frame';
import { numbersOf, sequencesOf } from '../src/page/view';
import { choiceOf, viewNamed } from '../src/views/index';
import { drawView } from './drawn';
import { frameOf, tensor } from './fixture';

vi.mock('../src/plot/heatmap', async () => (await import('./drawn')).plots.heatmap);
vi.mock('../src/plot/chart', async () => (await import('./drawn')).plots.chart);

const at = { layer: 1, head: 0 };
/** Prompts that begin alike and then differ. */
const ids = [
  [0, 5, 6],
  [0, 6, 5],
  [0, 7, 8],
];
/** Returns a frame over three prompts. */
const meansOf = (
  means: Frame['tensors'],
  { ofFirst = {}, ...change }: Partial<Frame> & { readonly ofFirst?: Frame['tensors'] } = {},
): Frame =>
  frameOf(
    {
      ...{ sequences: 3, ids },
      spread: Object.fromEntries(
        ['alpha', 'sink_ratio', ...Object.keys(means)].map((name) => [name, new Float32Array()]),
      ),
      ...change,
    },
    { ...means, ...ofFirst },
  );
const says = (name: string, frame: Frame) => viewNamed(name).says(frame, at, defaults);

describe('over several prompts', () => {
  it('the bias key’s chart has row sums of the prompt whose weights it shows, or none', () => {
    const att_bias = tensor([2, 2, 3], [0, 0, 0, 0, 0, 0, 0.75, 0.5, 0.25, 0, 0, 0]);
    const bias = (change: Partial<Frame> = {}) =>
      drawView(
        viewNamed('bias'),
        meansOf(
          {
            sink_ratio_bias: tensor([1], [0.25]),
            alpha_bias: tensor([2, 2], [0.5, 0.25, 0.75, 0]),
            row_mass: tensor([2, 2, 3], Array(12).fill(0.125)),
          },
          { ofFirst: { att_bias }, ...change },
        ),
      );
    expect(bias().lines()).toEqual([
      ['bias key', 0.75, 0.5, 0.25],
      ['all tokens', 0.25, 0.5, 0.75],
    ]);
    expect([bias().charts()[0]!.xLabel, bias().text('.caption')]).toMatchSnapshot();
    const { operation } = frameOf();
    expect(bias({ operation: { ...operation, normalizes: false } }).lines()).toEqual([
      ['bias key', 0.75, 0.5, 0.25],
    ]);
  });

  it('the mean gate is distinguished from the gates of the first prompt', () => {
    const gate = tensor([2, 2, 3], [0, 0, 0, 0, 0, 0, 1, 0.25, 0.5, 0, 0, 0]);
    const frame = meansOf(
      { gate_mean: tensor([2, 2], [0.5, 0.25, 0.125, 0.125]) },
      { ofFirst: { gate } },
    );
    expect(says('gate', frame)).toMatchSnapshot();
    expect(drawView(viewNamed('gate'), frame).charts()[0]).toMatchObject({
      xLabel: 'token t on the first prompt',
      label: 'Gate by token on the first prompt, head L1H0 of the softmax model',
    });
  });

  it('the router’s sentence has the first prompt’s α₁, or none', () => {
    const router = tensor([2, 3, 2], [1, 0, 0, 1, 0, 1, 1, 0, 0, 1, 0, 1]);
    const architecture = { ...frameOf().architecture, E: 2 };
    const routed = (ofFirst: Frame['tensors']) =>
      says('router', meansOf({}, { architecture, ofFirst: { router, ...ofFirst } }));
    const first_alphas = tensor([2, 4], [0.1, 0.2, 0.25, 0.1, 0.75, 0.75, 0.75, 0.75]);
    expect(routed({ first_alphas })).toMatchSnapshot();
    expect(routed({})).toMatch(/use the same\.$/);
  });

  it('the cache’s sentence counts the heads that its map shows, and gives the mean beside it', () => {
    const evicted = Array.from({ length: 12 }, (_, i) => (i === 3 ? 2 : NaN));
    const frame = meansOf(
      { keeps_first: tensor([2, 2], [0.5, 0.25, 0.25, 0]) },
      {
        ofFirst: { evicted: tensor([2, 2, 3], evicted) },
        edits: [{ kind: 'evict', policy: 'window', budget: 2 }],
        labels: ['evict'],
        choices: [{ policy: 'window' }],
      },
    );
    expect(says('cache', frame)).toMatchSnapshot();
  });

  it('row sums and the curve below them are means', () => {
    const frame = meansOf({
      row_mass: tensor([2, 2, 3], Array(12).fill(0.5)),
      alpha_raw: tensor([2, 2, 3], Array(12).fill(0.125)),
    });
    expect(says('mass', frame)).toMatchSnapshot();
    expect(viewNamed('mass').how).not.toContain('first prompt');
  });

  it('an answer about the first prompt says so, above sentences about means', () => {
    const tensors = {
      att: tensor([3, 3], [1, NaN, NaN, 0.9, 0.1, NaN, 0.9, 0.05, 0.05]),
      qk_cos: tensor([3, 3], [0, NaN, NaN, 0.6, -0.5, NaN, 0.6, -0.5, 0]),
      key_norm: tensor([2, 2, 3], Array(12).fill(1)),
    };
    const next = [{ text: ' sea', probability: 0.5 }];
    const head_out = tensor([2, 2, 3, 1], [...Array(7).fill(1), 0.1, 0.1, ...Array(3).fill(1)]);
    const answer = (view: string, sequences: number) => {
      const frame = meansOf(
        {},
        { head: { ...at, tensors }, next, sequences, ofFirst: { head_out } },
      );
      return answerOf(choiceOf(view, [frame]), frame, at, defaults);
    };
    const firstPromptAnswers = [
      ['attention', 'almost every token attends to <s>.'],
      [
        'arrows',
        'every later token’s query points towards the first key and, on average, away from the others.',
      ],
      ['next', 'the model’s first guess for the next token is “sea”.'],
    ] as const;
    for (const [view, words] of firstPromptAnswers) {
      expect(answer(view, 3)).toBe(`On the first prompt, ${words}`);
      expect(answer(view, 1)).toBe(words.charAt(0).toUpperCase() + words.slice(1));
    }
    expect([3, 1].map((sequences) => answer('outputs', sequences))).toMatchSnapshot();
    const shortTexts = meansOf({ alpha_uniform: tensor([3], [0.5, 0, 0]) });
    expect(answerOf(choiceOf('sinks', [shortTexts]), shortTexts, at, defaults)).toMatchSnapshot();
  });

  it('the number of a map of blocks is called a mean, without a token of one prompt', () => {
    const map = (change: Partial<Frame> = {}) =>
      says('attention', meansOf({}, { pooled: 2, ...change }));
    expect(map()).toMatchSnapshot();
    const differing = ids.map((prompt, i) => [i, ...prompt.slice(1)]);
    expect([map({ ids: differing }), map({ sequences: 1 })]).toMatchSnapshot();
    const operation = { ...frameOf().operation, normalizes: false };
    const alpha_raw = tensor([2, 2, 3], [0, 0, 0, 0.6, 0, 0, 0.4, 0, 0, 0, 0, 0]);
    expect(map({ operation, ofFirst: { alpha_raw } } as never)).toMatchSnapshot();
  });

  it('findings are about these texts', () => {
    const heads = (x: number) => tensor([2, 2], Array(4).fill(x));
    const frame = meansOf({ effect: heads(0), first_share: heads(0.9), contribution: heads(0.1) });
    expect(says('effects', frame)).toMatchSnapshot();
    const weak = meansOf({ sink_ratio: tensor([3], [0, 0, 0]) });
    expect(headingOf([weak, weak], [])).toMatchSnapshot();
  });

  it('each saved quantity has its own number of prompts', () => {
    const zeros = (...shape: number[]) =>
      tensor(shape, Array(shape.reduce((a, b) => a * b, 1)).fill(0));
    const countsOf = (name: string, frame: Frame) => {
      const view = viewNamed(name);
      const sequences = sequencesOf(view, frame, defaults);
      const numbers = numbersOf(view, frame, { at, state: defaults, sequences });
      return [sequences, ...numbers.map((quantity) => `${quantity.name} ${quantity.sequences}`)];
    };
    const gates = meansOf({ gate_mean: zeros(2, 2) }, { ofFirst: { gate: zeros(2, 2, 3) } });
    expect(countsOf('gate', gates)).toEqual([3, 'gate_mean undefined', 'gate 1']);
    expect(countsOf('gate', { ...gates, sequences: 1 })).toMatchSnapshot();
    const ofFirst = { evicted: zeros(2, 2, 3) };
    expect(countsOf('cache', meansOf({ keeps_first: zeros(2, 2) }, { ofFirst }))).toMatchSnapshot();
    const next = [{ text: ' sea', probability: 0.5 }];
    expect(countsOf('next', meansOf({ loss_mean: zeros(1) }, { next }))).toEqual([
      ...[3, 'probability 1'],
    ]);
    const head = { ...at, tensors: { att: zeros(3, 3) } };
    const base = meansOf({ loss_at: zeros(3) }, { head });
    const edits = [{ kind: 'hide_key', key: 0 }] as never;
    expect(countsOf('change', { ...base, edits, labels: ['hide'], base })).toMatchSnapshot();
  });
});
