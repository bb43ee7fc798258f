// @vitest-environment happy-dom
/** The room Why it matters: settings, sentences, table and controls of each experiment. */
import { signal } from '@preact/signals-core';
import { render } from 'lit';
import { describe, expect, it, vi } from 'vitest';
import type { Describe } from 'sinkscope';
import { questionOf } from '../src/ask/question';
import { defaults, type State } from '../src/ask/state';
import { cache } from '../src/experiments/cache';
import type { Experiment, Finding, Group } from '../src/experiments/experiment';
import { fragility } from '../src/experiments/fragility';
import { othersNote, settingsTable } from '../src/experiments/parts';
import { quantization } from '../src/experiments/quantization';
import { streaming } from '../src/experiments/streaming';
import type { Frame } from '../src/frame';
import type { Context } from '../src/page/context';
import { commandOf } from '../src/page/command';
import { likeness } from '../src/views/likeness';
import { perturbations } from '../src/views/perturbations';
import { frameOf, tensor } from './fixture';
import { showsPage } from './picture';

const POLICIES = ['window', 'first', 'h2o', 'tova', 'lru', 'snapkv', 'random'];
const describe_ = {
  operations: [],
  edits: [
    {
      name: 'evict',
      parameters: [
        { name: 'policy', choices: POLICIES, labels: POLICIES.map((one) => one.toUpperCase()) },
        { name: 'positions', choices: ['text', 'cache'], labels: ['in the text', 'in the cache'] },
      ],
    },
    {
      name: 'quantize',
      parameters: [
        { name: 'what', choices: ['hidden', 'weights'], labels: ['hidden states', 'weights'] },
        {
          name: 'by',
          choices: ['tensor', 'token', 'channel'],
          labels: ['one scale', 'per token', 'per channel'],
        },
      ],
    },
  ],
} as unknown as Describe;
const stateOf = (change: Partial<State> = {}): State => ({ ...defaults, ...change });

function planOf(experiment: Experiment, change: Partial<State> = {}, lead?: Frame, T = 120, n = 1) {
  const state = stateOf(change);
  const question = { ...questionOf(state), T, n };
  const all = experiment.plan({ state, describe: describe_, question }, lead);
  return {
    edits: all.map(({ edits }) => edits),
    measures: [...new Set(all.map(({ measures }) => measures.join()))],
    questions: all.map((one) => one.question),
    pair: experiment.pairOf({ state, describe: describe_, question }, lead),
  };
}

/** Compares an experiment's plan with the snapshot: a line for each setting, then what it measures and the map's pair. */
function showsPlan(...parameters: Parameters<typeof planOf>) {
  const { edits, measures, questions, pair } = planOf(...parameters);
  const settings = edits.map((edit, i) => {
    const { input, T, repeatedToken, window } = questions[i]!;
    return [`${input} ${T}`, repeatedToken, window && `window ${window}`, edit]
      .filter(Boolean)
      .join(' ');
  });
  expect([...settings, ...measures, `pair ${pair.join(' | ')}`].join('\n')).toMatchSnapshot();
}

function settingFrame(
  loss: number,
  edit?: object,
  change: object = {},
  tensors: Frame['tensors'] = {},
): Frame {
  const { policy, what, by } = (edit ?? {}) as Record<string, string>;
  const labels = {
    policy: policy?.toUpperCase(),
    what: what && 'hidden states',
    by: by && 'one scale',
  };
  return frameOf(
    {
      ...(edit ? { edits: [edit], labels: ['x'], choices: [labels] } : {}),
      perPrompt: { loss_mean: [loss, loss] },
      architecture: { ...frameOf().architecture, V: 100 },
      ...change,
    } as never,
    { loss_at: tensor([3], [NaN, loss, loss]), loss_mean: tensor([1], [loss]), ...tensors },
  );
}
const groupOf = (title: string, ...frames: Frame[]): Group => ({ base: title, title, frames });

/** Returns what the page states of the other models, or of all. */
function notesOf(finding: Finding, groups: readonly Group[]): string[] {
  const root = document.createElement('div');
  render(othersNote(finding, groups), root);
  return [...root.querySelectorAll('p')].map((note) => note.textContent!);
}

function draw(experiment: Experiment, change: Partial<State> = {}, groups: Group[] = []) {
  const set = vi.fn();
  const context = {
    state: signal(stateOf(change)),
    set,
    engine: signal({ models: { describe: describe_ } }),
  };
  const root = document.createElement('div');
  document.body.replaceChildren(root);
  render(
    [
      experiment.menu?.(context as unknown as Context, ['h2o', 'first']),
      experiment.controls(context as unknown as Context),
      settingsTable(experiment, groups, undefined),
    ],
    root,
  );
  return {
    set,
    root,
    ranges: [...root.querySelectorAll<HTMLInputElement>('input[type=range]')].map(
      (input) => `${input.getAttribute('aria-label')} ${input.min}..${input.max}: ${input.value}`,
    ),
    enter: (selector: string, value: string, event = 'input') => {
      const field = root.querySelector<HTMLInputElement>(selector)!;
      field.value = value;
      field.dispatchEvent(new Event(event));
      return set.mock.lastCall![0];
    },
    turn: (i: number) => {
      root.querySelectorAll<HTMLInputElement>('input[type=checkbox]')[i]!.click();
      return set.mock.lastCall![0];
    },
  };
}

describe('the streaming experiment', () => {
  const window = { kind: 'evict', policy: 'window', budget: 2 };
  const first = { kind: 'evict', policy: 'first', budget: 2, first: 1 };
  const says = (groups: Group[], change: Partial<State> = {}) =>
    streaming.says(groups, stateOf(change));

  it('measures a cache without the first keys, one with them, and one that is recomputed', () => {
    showsPlan(streaming);
    showsPlan(streaming, { firstKeys: 0, recentKeys: 9, positions: 'cache' });
    showsPlan(streaming, { recompute: 'yes' });
  });

  it('says what evicting the first token costs, and what keeping it recovers', () => {
    const state = { firstKeys: 1, recentKeys: 1 };
    const lossGroup = (own: number, kept?: number, title = 'A') =>
      groupOf(
        title,
        settingFrame(2),
        settingFrame(own, window),
        ...(kept === undefined ? [] : [settingFrame(kept, first)]),
      );
    const fitting = groupOf('A', settingFrame(2), settingFrame(2, { ...window, budget: 3 }));
    const keptFrame = settingFrame(2.25, first, { bytes: { held: 2e6, all: 5e6 } });
    const memory = groupOf('A', settingFrame(2), settingFrame(3, window), keptFrame);
    // Nothing is said of the rows of a model whose rows need not sum to 100%.
    const operation = { ...frameOf().operation, normalizes: false };
    const { frames, ...group } = lossGroup(3, 2.25, 'S');
    const sigmoid = { ...group, frames: frames.map((frame) => ({ ...frame, operation })) };
    const three = [lossGroup(3, 2.5), lossGroup(1.5, 1.75, 'B'), lossGroup(2.5, undefined, 'C')];
    const cases: [Group[], Partial<State>?][] = [
      ...[[lossGroup(3, 2.25)], [lossGroup(5, 2.25)], [sigmoid], [lossGroup(3, 2)], three].map(
        (groups): [Group[]] => [groups],
      ),
      [[lossGroup(3, 1.75)], { firstKeys: 4, recentKeys: 1 }],
      [[fitting], { firstKeys: 1, recentKeys: 2 }],
      // What a heading says changes at 0.05 nats.
      [[lossGroup(2.04, 2)]],
      [[lossGroup(2.06, 2)]],
      [[lossGroup(3, 2.96)]],
      [[lossGroup(3)]],
      [[]],
      [[groupOf('A', settingFrame(2))]],
      [[memory]],
    ];
    for (const [groups, change = state] of cases) expect(says(groups, change)).toMatchSnapshot();
    expect(notesOf(says(three, state), three)).toMatchSnapshot();
    // A model without a sink is compared unharmed, too, if both predict the same tokens.
    const sinkless = (V: number) => {
      const architecture = { ...frameOf().architecture, V };
      const tensors = { sink_ratio: tensor([1], [0]), sink_ratio_raw: tensor([1], [0]) };
      const [window_, first_] = [settingFrame(2.25, window), settingFrame(2.125, first)];
      return groupOf(
        'C',
        settingFrame(2.0625, undefined, { architecture }, tensors),
        window_,
        first_,
      );
    };
    for (const V of [100, 99]) {
      const two = [lossGroup(3, 2.25), sinkless(V)];
      expect(notesOf(says(two, state), two)).toMatchSnapshot();
    }
    // Of two changes that are both small none is said to be more.
    const small = [lossGroup(2.001, 2.0005), lossGroup(2.009, 2.0005, 'B')];
    expect(notesOf(says(small, state), small)).toMatchSnapshot();
  });

  it('compares caches for texts longer than the context', () => {
    const farText = { T: 12 };
    const farGroup = (own: number, kept?: number) =>
      groupOf(
        'A',
        settingFrame(2),
        settingFrame(own, window, farText),
        ...(kept === undefined ? [] : [settingFrame(kept, first, farText)]),
      );
    for (const [group, change] of [
      [farGroup(3, 2.5), { firstKeys: 1, recentKeys: 1 }],
      [farGroup(3), { firstKeys: 2, recentKeys: 1 }],
      [farGroup(3, 2.96), {}],
      // 8 tokens are 2.7 times the context of 3 tokens.
      [groupOf('A', settingFrame(2), settingFrame(3, window, { T: 8 })), {}],
      [farGroup(3, 2.9), { firstKeys: 3 }],
    ] as const)
      expect(says([group], change)).toMatchSnapshot();
  });

  it('has a table row for each setting, and controls limited by the text', () => {
    const groups = [
      groupOf('A', settingFrame(2), settingFrame(3, window), settingFrame(2.5, first)),
    ];
    const { root, enter, turn } = draw(streaming, {}, groups);
    showsPage(root);
    expect(enter('[aria-label="keep first"]', '3')).toEqual({ firstKeys: 3 });
    expect(enter('select', 'cache', 'change')).toEqual({ positions: 'cache' });
    expect(turn(0)).toEqual({ recompute: 'yes' });
    expect(turn(1)).toEqual({ length: 4000, runs: 1, positions: 'cache' });
    const farRoom = draw(streaming, { length: 4000, firstKeys: 9, recompute: 'yes' });
    showsPage(farRoom.root);
    expect([farRoom.turn(0), farRoom.turn(1)]).toEqual([
      { recompute: 'no' },
      { length: 120, runs: 8, positions: 'text' },
    ]);
    expect(draw(streaming, { length: 3, recentKeys: 1 }).ranges[1]).toBe('keep last 1..8: 1');
    const longSetting = settingFrame(3, window, { bytes: { held: 2e6, all: 5e6 } });
    showsPage(draw(streaming, {}, [groupOf('A', longSetting)]).root);
  });
});

describe('the cache experiment', () => {
  const evictedFrame = (policy: string, loss: number, first: number, budget = 24) =>
    settingFrame(
      loss,
      { kind: 'evict', policy, budget },
      {},
      { keeps_first: tensor([2], [first, first]) },
    );

  it('measures the chosen size first, and only the policies that can use it', () => {
    showsPlan(cache);
    showsPlan(cache, { budget: 1 }, undefined, 24);
    showsPlan(cache, { policy: 'snapkv', budget: 20 }, undefined, 41);
    showsPlan(cache, { policy: 'snapkv', budget: 99 }, undefined, 9);
    showsPlan(cache, { sweep: 'all', policy: 'unknown' });
    expect(planOf(cache, { sweep: 'all', measure: 'kl' }).measures).toEqual(planOf(cache).measures);
  });

  it('names the policies with the smallest and the largest loss, and those that keep the first token', () => {
    const says = (...frames: Frame[]) => cache.says([groupOf('A', ...frames)], stateOf());
    const [window, h2o] = [evictedFrame('window', 3, 0), evictedFrame('h2o', 2.25, 1)];
    const close = [evictedFrame('window', 3, 0.5), evictedFrame('h2o', 2.25, 0.75)];
    for (const frames of [
      ...[[window, h2o, evictedFrame('tova', 2.5, 1), evictedFrame('x', 9, 0, 8)], close, [window]],
      // In the first case the best cache keeps the first token in few heads; in the second a cache that keeps it has a
      // higher loss than one that does not.
      [evictedFrame('h2o', 2.25, 0.29), window],
      [h2o, evictedFrame('window', 2.5, 0), evictedFrame('tova', 3, 1)],
    ])
      expect(says(settingFrame(2), ...frames)).toMatchSnapshot();
    expect(says(...close).text).toBe('');
  });

  it('lists KL, hits and the share of heads that keep the first token, and charts KL once all is measured', () => {
    const row = evictedFrame('h2o', 3, 0.5);
    const groups = [
      groupOf('A', settingFrame(2), {
        ...row,
        tensors: {
          ...row.tensors,
          kl_mean: tensor([1], [0.125]),
          cache_hits: tensor([3], [0.5, NaN, 1]),
        },
      }),
    ];
    const { root, turn, enter } = draw(cache, {}, groups);
    showsPage(root);
    expect([turn(0), enter('[aria-label="any rule"]', 'tova', 'change')]).toEqual([
      { sweep: 'all' },
      { policy: 'tova' },
    ]);
    const allSizes = draw(cache, { sweep: 'all', length: 500 });
    expect([allSizes.turn(0), allSizes.turn(1), allSizes.ranges]).toEqual([
      ...[{ measure: 'kl' }, { sweep: 'some' }, ['tokens kept 1..128: 24']],
    ]);
    expect(draw(cache, { sweep: 'all', measure: 'kl' }).turn(0)).toEqual({ measure: 'loss' });
    expect(draw(cache, { length: 4, budget: 2 }).ranges).toEqual(['tokens kept 1..8: 2']);
  });
});

describe('the quantization experiment', () => {
  const roundedFrame = (
    loss: number,
    first: number | undefined,
    error: number,
    more: object = {},
  ) =>
    settingFrame(
      loss,
      { kind: 'quantize', what: 'hidden', bits: 6, by: 'tensor', first, ...more },
      {},
      {
        quantize_error: tensor([1], [error]),
      },
    );

  it('measures the chosen bits first, with the first tokens rounded and exact', () => {
    showsPlan(quantization);
    showsPlan(quantization, { sweep: 'all' });
    // Weights belong to no token, so the plan has no exact first tokens.
    showsPlan(quantization, { quantized: 'weights', granularity: 'token', bits: 5 });
    showsPlan(quantization, { quantized: 'weights', sweep: 'all' });
    showsPlan(quantization, { exactTokens: 4 });
  });

  it('says what rounding costs, and what an exact first token recovers', () => {
    const says = (change: Partial<State>, ...frames: Frame[]) =>
      quantization.says([groupOf('A', settingFrame(2), ...frames)], stateOf(change));
    const frames = [roundedFrame(3, undefined, 0.5), roundedFrame(2.25, 1, 0.125)];
    const finding = says({}, ...frames);
    expect(finding).toMatchSnapshot();
    const group = groupOf('A', settingFrame(2), ...frames);
    expect(notesOf(finding, [group])).toEqual([]);
    expect(notesOf(finding, [group, group])).toEqual([
      'A loses about as much: 6 bits both 172% worse.',
    ]);
    const weights = { quantized: 'weights', granularity: 'channel' } as const;
    for (const [change, ...rounded] of [
      // An error that hardly falls says nothing of the first token's numbers.
      [{}, roundedFrame(3, 0, 0.2), roundedFrame(2.25, 1, 0.125)],
      [{ exactTokens: 3 }, roundedFrame(3, 0, 0.5), roundedFrame(2.5, 3, 0.125)],
      // A loss above the baseline by less than 0.02 nats is none.
      [{}, roundedFrame(2.019, 0, 0), roundedFrame(2, 1, 0)],
      [{}, roundedFrame(2.021, 0, 0), roundedFrame(2, 1, 0)],
      [{}, roundedFrame(3, 0, 0.5)],
      [{ bits: 4 }, roundedFrame(3, 0, 0.5), roundedFrame(2, 1, 0)],
      [weights, roundedFrame(3, 0, 0.5, { what: 'weights', by: 'channel' })],
    ] as [Partial<State>, ...Frame[]][])
      expect(says(change, ...rounded)).toMatchSnapshot();
  });

  it('has errors and sinks in its table, and controls for what is rounded', () => {
    const row = roundedFrame(3, 1, 0.5);
    const tensors = { ...row.tensors, hidden_change: tensor([2], [0.25, 0.5]) };
    const { root, turn, enter } = draw(quantization, {}, [
      groupOf('A', settingFrame(2), { ...row, tensors }),
    ]);
    showsPage(root);
    expect([turn(0), enter('select', 'weights', 'change')]).toEqual([
      { sweep: 'all' },
      { quantized: 'weights' },
    ]);
    showsPage(
      draw(quantization, { quantized: 'weights', granularity: 'token', sweep: 'all' }).root,
    );
  });
});

describe('the fragility experiment', () => {
  const hidden = new Float32Array(3 * 3 * 8).fill(0.5);
  hidden[24 + 2] = -8;
  const leadFrame = (change: object = {}) =>
    frameOf({ architecture: { ...frameOf().architecture, F: 16 }, ...change } as never, {
      hidden: tensor([3, 3, 8], hidden),
      massive: tensor([3, 4], [1, 0, 0, 1, 8, 0, 0, 0.5, 2, 0, 0, 1]),
      super_weight: tensor([2, 6], [3, 5, 0, 0.5, 4, 8, 1, 6, 2, -0.5, 4, -2]),
    });

  it('repeats a word and the start token, or changes one channel or weight and five others', () => {
    showsPlan(fragility, { repeats: 9 });
    showsPlan(fragility, { first: 'none' });
    showsPlan(fragility, { perturbation: 'channel' });
    // The map of repeated tokens is of the start token, if there is one.
    const mapQuestion = (change: Partial<State>) => {
      const state = stateOf(change);
      return fragility.mapQuestionOf!({ state, describe: describe_, question: questionOf(state) });
    };
    expect(mapQuestion({ repeats: 9 })).toMatchObject({
      ...{ input: 'repeat', T: 10, repeatedToken: 'first' },
    });
    for (const change of [{ first: 'none' }, { perturbation: 'tag' }] as const)
      expect(mapQuestion(change).input).toBe('text');
    const channelEdits = (change: object = {}, frame = leadFrame(), n = 1) =>
      planOf(fragility, { perturbation: 'channel', ...change }, frame, 120, n).edits;
    const channel = channelEdits();
    expect(channel.slice(0, 3)).toEqual(['', '~clamp_channel(2)', '~clamp_channel(2,1,0)']);
    const rest = channel.slice(3);
    expect([rest.length, new Set(rest).size, rest.includes('~clamp_channel(2)')]).toEqual([
      5,
      5,
      false,
    ]);
    expect(channelEdits()).toEqual(channel);
    expect(channelEdits({ seed: 9 })).not.toEqual(channel);
    expect(channelEdits({}, leadFrame(), 2)[3]).toBe('~clamp_channel(2,1,0,to=value,value=-8.00)');
    const weight = planOf(fragility, { perturbation: 'weight' }, leadFrame()).edits;
    expect(weight.slice(0, 2)).toEqual(['', '~scale_weight(down,0,3,5,0)']);
    expect([weight.length, new Set(weight).size]).toEqual([7, 7]);
    showsPlan(fragility, { perturbation: 'channel' }, leadFrame());
    showsPlan(fragility, { perturbation: 'tag', seed: 3 }, leadFrame());
    // If a norm or a gate changes a head's output, its tag is not a direction of the stream.
    for (const turned of [
      { norm_place: 'post' },
      { branch_norms: true },
      { gate: 'output_element' },
    ])
      expect(
        planOf(
          fragility,
          { perturbation: 'tag' },
          leadFrame({ architecture: { ...frameOf().architecture, ...turned } }),
        ).edits,
      ).toEqual(['']);
    for (const one of weight.slice(2)) expect(one).toMatch(/^~scale_weight\(down,0,[0-7],\d+,0\)$/);
    // Of three columns two are left for control weights.
    const thinFrame = leadFrame({ architecture: { ...frameOf().architecture, D: 8, F: 3 } });
    const fewEdits = planOf(fragility, { perturbation: 'weight' }, thinFrame).edits;
    expect([fewEdits.length, new Set(fewEdits).size]).toEqual([4, 4]);
    const noSuperWeight = {
      ...leadFrame(),
      tensors: {
        ...leadFrame().tensors,
        super_weight: tensor([2, 6], new Float32Array(12).fill(NaN)),
      },
    };
    expect(planOf(fragility, { perturbation: 'weight' }, noSuperWeight).edits).toEqual(['']);
    // A narrow stream has fewer other channels for controls.
    const narrowFrame = leadFrame({ architecture: { ...frameOf().architecture, D: 4, F: 16 } });
    expect(channelEdits({}, narrowFrame)).toHaveLength(6);
    expect([
      fragility.viewOf!(stateOf()),
      fragility.viewOf!(stateOf({ perturbation: 'weight' })),
    ]).toEqual([likeness, perturbations]);
    expect([
      fragility.embedStateOf!(stateOf({ repeats: 4 })),
      fragility.embedStateOf!(stateOf({ perturbation: 'weight' })),
    ]).toEqual([{ input: 'repeat', T: 5 }, {}]);
  });

  it('says how many heads have a sink on copies of the start token and of a word', () => {
    const frameWith = (share: number, change: object = {}) =>
      settingFrame(2, undefined, { T: 20, ...change }, { sink_ratio: tensor([1], [share]) });
    const copiesFrame = (share: number, repeatedToken?: 'first', first = ['<s>']) =>
      frameWith(share, {
        first,
        question: { ...frameOf().question, input: 'repeat', repeatedToken },
      });
    const says = (...frames: Frame[]) => fragility.says([groupOf('A', ...frames)], stateOf());
    const frames = [frameWith(0.5), copiesFrame(0.375), copiesFrame(0.125, 'first')];
    const finding = says(...frames);
    expect(finding).toMatchSnapshot();
    const group = groupOf('A', ...frames);
    expect(notesOf(finding, [group])).toEqual([]);
    expect(notesOf(finding, [group, group])).toEqual([
      'A, heads with a sink: on text 50.0%; on copies of a word 37.5%; on copies of <s> 12.5%.',
    ]);
    // Half of the sinks is no fall.
    expect(says(frameWith(0.5), copiesFrame(0), copiesFrame(0.25, 'first')).heading).toBe(
      '19 copies of <s>: heads with a sink go from 50% to 25%',
    );
    // Without a start token there is none to repeat.
    expect(says(frameWith(0.5), copiesFrame(0), copiesFrame(0, 'first', [])).heading).toBe(
      '19 copies of a word: heads with a sink fall from 50% to 0%',
    );
    expect([says(frameWith(0.5)).text, says(copiesFrame(0)).text]).toEqual(['', '']);
  });

  it('compares one channel or weight with random ones', () => {
    const clampFrame = (loss: number, more: object = {}) =>
      settingFrame(loss, { kind: 'clamp_channel', channel: 1, ...more });
    const says = (change: Partial<State>, ...frames: Frame[]) =>
      fragility.says([groupOf('A', ...frames)], stateOf({ perturbation: 'channel', ...change }));
    const frames = [
      settingFrame(2),
      clampFrame(4),
      clampFrame(2.5, { token: 0 }),
      clampFrame(2.75, { token: 0, to: 'value' }),
      clampFrame(2.125),
      clampFrame(1.5),
    ];
    const finding = says({}, ...frames);
    expect(finding).toMatchSnapshot();
    expect(
      notesOf(
        finding,
        [frames, frames].map((all) => groupOf('A', ...all)),
      ),
    ).toMatchSnapshot();
    for (const [effect, random] of [
      [2.75, 2.25],
      [2.77, 2.25],
      [2.019, 2],
    ] as const)
      expect(says({}, settingFrame(2), clampFrame(effect), clampFrame(random))).toMatchSnapshot();
    const secondModel = fragility.says(
      [
        groupOf('A', settingFrame(2), clampFrame(2), clampFrame(2)),
        groupOf('B', settingFrame(2), clampFrame(4), clampFrame(2)),
      ],
      stateOf({ perturbation: 'channel' }),
    );
    expect(secondModel.heading).toBe('One channel: 0% worse; random ones: at most 0% worse');
    expect(says({}, settingFrame(2), clampFrame(4))).toMatchSnapshot();
    expect(says({ perturbation: 'weight' }, settingFrame(2))).toMatchSnapshot();
    expect(fragility.says([], stateOf({ perturbation: 'weight' })).text).toBe('');
  });

  it('says whether later tokens need the directions of the tag', () => {
    const projectFrame = (loss: number, more: object = {}) =>
      settingFrame(loss, { kind: 'project', ...more });
    const randomFrame = (loss: number, seed: number) =>
      projectFrame(loss, { direction: 'random', seed });
    const says = (stream: number, chances = [2.125, 2.25]) =>
      fragility.says(
        [
          groupOf(
            'A',
            ...[settingFrame(2), projectFrame(stream)],
            ...chances.map((chance, i) => randomFrame(chance, i + 1)),
          ),
        ],
        stateOf({ perturbation: 'tag' }),
      );
    expect(says(3)).toMatchSnapshot();
    // The heading changes at three times chance (0.25 here), and at 0.02 nats.
    for (const stream of [2.8125, 2.75]) expect(says(stream).heading).toMatchSnapshot();
    for (const [stream, chance] of [
      [2.015625, 2],
      [2.03125, 2],
      [2.03125, 1.5],
    ] as const)
      expect(says(stream, [chance, chance]).heading).toMatchSnapshot();
    const unmeasured = fragility.says(
      [groupOf('A', settingFrame(2))],
      stateOf({ perturbation: 'tag' }),
    );
    expect(unmeasured.text).toMatchSnapshot();
    // A model that predicts worse than a blind guess among its 100 tokens can only get better.
    const better = fragility.says(
      [groupOf('A', settingFrame(6), projectFrame(5), randomFrame(5.5, 1))],
      stateOf({ perturbation: 'tag' }),
    );
    expect(better.text).toMatch(/63% better.*over the whole text\.$/);
    // What the recorded texts erase comes first, and breaks this sink or leaves it.
    const erase = { kind: 'clamp_channel', channel: 1, token: 0 };
    const frames = [settingFrame(2), projectFrame(3), randomFrame(2, 1), settingFrame(2, erase)];
    const state = stateOf({ perturbation: 'tag' });
    expect(fragility.says([groupOf('A', ...frames)], state).text).toMatchSnapshot();
  });

  it('lists norms in its table, and counts of copies if a token is repeated', () => {
    const ratio = { hidden_ratio: tensor([2], [1, 4.25]) };
    const { root, enter } = draw(fragility, {}, [
      groupOf('A', settingFrame(2, undefined, {}, ratio)),
    ]);
    showsPage(root);
    expect(enter('input', '7')).toEqual({ repeats: 7 });
    expect(draw(fragility, { length: 300 }).ranges).toEqual(['repetitions 2..300: 100']);
    showsPage(draw(fragility, { perturbation: 'channel' }).root);
  });
});

describe('the command for an experiment', () => {
  const question = (change: object) => ({
    ...frameOf().question,
    prompt: 'It’s "a" test',
    ...change,
  });
  const commandOfFrame = (change: object = {}, file?: object) =>
    commandOf(frameOf({ ids: [[0, 1]], ...change } as never), file as never)?.replace(
      /^sinkscope measure /,
      '',
    );

  it('names the model, the prompts and the edits', () => {
    const edits = [
      { kind: 'evict', policy: 'window', budget: 8, first: undefined },
      { kind: 'operation', operation: 'sigmoid', parameters: { bias: -4 } },
    ];
    const modelFrom = (source: string, more = {}) => ({ id: 'x', title: 'X', source, ...more });
    expect(
      [
        { question: question({ first: 'bos' }) },
        { question: question({ prompt: "it's" }) },
        { edits, bytes: { held: 1, all: 2 }, eps: 0.5 },
        { model: modelFrom('zoo', { step: { step: 40 } }), subject: 'softmax@41' },
        { model: modelFrom('hub'), subject: 'hub:a/b@r~silence(0,0)' },
        { model: modelFrom('disk'), subject: 'disk:0123456789abcdef/a' },
      ].map((change) => commandOfFrame(change)),
    ).toMatchSnapshot();
  });

  it('names the file of the prompts or their ids, and is absent if it cannot', () => {
    const ofInput = (input: string, change: object = {}, file?: object) =>
      commandOfFrame({ question: question({ input, first: 'bos' }), ...change }, file);
    const heldout = (T: number) => ({ question: question({ input: 'heldout', T }), sequences: 9 });
    const ids = Array.from({ length: 11 }, (_, i) => [i]);
    expect({
      heldout: [64, 301].map((T) => commandOfFrame(heldout(T))),
      file: [
        { name: 'my file', splitting: 'lines' },
        { name: 'a', splitting: 'whole' },
        undefined,
      ].map((file) => ofInput('file', {}, file)),
      ids: [ofInput('random'), ofInput('random', { ids: ids.slice(0, 10), sequences: 10 })],
      generated: commandOfFrame({ question: question({}), generated: 2 }),
    }).toMatchSnapshot();
    expect([
      ofInput('file', {}, { name: 'a', splitting: 'blocks' }),
      ofInput('random', { ids, sequences: 11 }),
      commandOfFrame({ question: question({ window: 8 }) }),
    ]).toEqual([undefined, undefined, undefined]);
    expect(
      commandOf(frameOf({ recording: {}, model: { id: 'recording:my run.safetensors' } } as never)),
    ).toMatchSnapshot();
  });
});
