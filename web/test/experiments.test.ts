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
      experiment.controls(context as unknown as Context),
      settingsTable(experiment, groups, undefined),
    ],
    root,
  );
  const rowText = (one: Element): string =>
    one.tagName === 'TR'
      ? [...one.children].map(rowText).filter(Boolean).join(' ')
      : one.textContent!.replace(/\s+/g, ' ').trim();
  return {
    set,
    texts: (selector: string) => [...root.querySelectorAll(selector)].map(rowText),
    ranges: [...root.querySelectorAll<HTMLInputElement>('input[type=range]')].map(
      (input) => `${input.getAttribute('aria-label')} ${input.min}..${input.max}: ${input.value}`,
    ),
    checks: [...root.querySelectorAll<HTMLInputElement>('input[type=checkbox]')],
    options: [...root.querySelectorAll('option')].map((element) => element.textContent),
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
    isOpen: root.querySelector('details')!.open,
  };
}

describe('the streaming experiment', () => {
  const window = { kind: 'evict', policy: 'window', budget: 2 };
  const first = { kind: 'evict', policy: 'first', budget: 2, first: 1 };
  const says = (groups: Group[], change: Partial<State> = {}) =>
    streaming.says(groups, stateOf(change));

  it('measures a cache without the first keys, one with them, and one that is recomputed', () => {
    expect(planOf(streaming)).toMatchObject({
      edits: ['', '~evict(window,24)', '~evict(first,24,1)'],
      measures: ['loss_at,loss_mean'],
      pair: ['~evict(window,24)', '~evict(first,24,1)'],
    });
    const withoutFirst = planOf(streaming, { firstKeys: 0, recentKeys: 9, positions: 'cache' });
    expect(withoutFirst).toMatchObject({
      edits: ['', '~evict(window,9,positions=cache)'],
      pair: ['~evict(window,9,positions=cache)', '~evict(window,9,positions=cache)'],
    });
    const recomputed = planOf(streaming, { recompute: 'yes' });
    expect(recomputed.questions.map((one) => one.window)).toEqual([
      undefined,
      undefined,
      undefined,
      24,
    ]);
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
    expect(says([lossGroup(3, 2.25)], state)).toMatchSnapshot();
    expect(says([lossGroup(5, 2.25)], state).text).toMatchSnapshot();
    // Nothing is said of the rows of a model whose rows need not sum to 100%.
    const { frames, ...group } = lossGroup(3, 2.25, 'S');
    const operation = { ...frames[0]!.operation, normalizes: false };
    const sigmoid = { ...group, frames: frames.map((frame) => ({ ...frame, operation })) };
    expect(says([sigmoid], state).text).not.toContain('share');
    expect(says([lossGroup(3, 1.75)], { firstKeys: 4, recentKeys: 1 }).text).toMatch(
      /^Drop the first 4 tokens to save memory: predictions get worse \(red\)\. Keep them: nearly as good as with all \(blue\)\.$/,
    );
    expect(says([lossGroup(3, 2)], state).text).toMatch(
      /Keep that one token: nearly as good as with all/,
    );
    const groups = [lossGroup(3, 2.5), lossGroup(1.5, 1.75, 'B'), lossGroup(2.5, undefined, 'C')];
    const finding = says(groups, state);
    expect(finding).toMatchSnapshot();
    expect(notesOf(finding, groups)).toEqual([
      'B loses less: last 2 (no first) −0.500, not +1.000 nats.',
      'C loses about as much: last 2 (no first) +0.500 and +1.000 nats.',
    ]);
    // Of two changes that are both small none is said to be more.
    const small = [lossGroup(2.001, 2.0005), lossGroup(2.009, 2.0005, 'B')];
    expect(notesOf(says(small, state), small)).toEqual([
      'B loses about as much: last 2 (no first) +0.009 and +0.001 nats.',
    ]);
    expect(says([lossGroup(2.04, 2)], state).heading).toMatchSnapshot();
    expect(says([lossGroup(3, 2.96)], state).heading).toMatchSnapshot();
    expect(says([lossGroup(3)], state).heading).toMatch(/^A model that forgets/);
    expect(says([lossGroup(2.06, 2)], state).heading).toMatch(/^A model can forget old words, but/);
    expect(says([], state)).toMatchSnapshot();
    expect(says([groupOf('A', settingFrame(2))], state).text).toBe('');
    const fittingGroup = groupOf('A', settingFrame(2), settingFrame(2, { ...window, budget: 3 }));
    expect(says([fittingGroup], { firstKeys: 1, recentKeys: 2 })).toMatchSnapshot();
    const memory = { bytes: { held: 2e6, all: 5e6 } };
    const memoryGroup = groupOf(
      'A',
      settingFrame(2),
      settingFrame(3, window),
      settingFrame(2.25, first, memory),
    );
    expect(says([memoryGroup], state).text).toMatch(
      / Besides the weights, the run needs 2\.0 MB of memory; keeping every key would need 5\.0 MB\.$/,
    );
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
    expect(says([farGroup(3, 2.5)], { firstKeys: 1, recentKeys: 1 })).toMatchSnapshot();
    expect(says([farGroup(3)], { firstKeys: 2, recentKeys: 1 })).toMatchObject({
      heading: 'What happens when the first token leaves the cache?',
      text: expect.stringMatching(/A: 3\.000 nats per token\.$/),
    });
    expect(says([farGroup(3, 2.96)]).heading).toMatchSnapshot();
    // 8 tokens are 2.7 times the context of 3 tokens.
    const shorterGroup = groupOf('A', settingFrame(2), settingFrame(3, window, { T: 8 }));
    expect(says([shorterGroup]).text).toMatch(/^8 tokens, 3 times the context of A/);
    expect(says([farGroup(3, 2.9)], { firstKeys: 3 }).text).toMatch(/keeps the first 3 tokens\.$/);
  });

  it('has a table row for each setting, and controls limited by the text', () => {
    const groups = [
      groupOf('A', settingFrame(2), settingFrame(3, window), settingFrame(2.5, first)),
    ];
    const { texts, ranges, checks, enter, turn, isOpen } = draw(streaming, {}, groups);
    expect(texts('tbody tr')).toEqual([
      'A baseline 2.000 (2) – >_',
      'last 2 (no first) 3.000 (2) +1.000 ± 0.000 >_',
      'first 1 + last 1 2.500 (2) +0.500 ± 0.000 >_',
    ]);
    expect([texts('summary')[0], isOpen, texts('thead th').length]).toEqual([
      'All numbers (3)',
      false,
      5,
    ]);
    expect(ranges).toEqual(['keep first 0..8: 1', 'keep last 1..120: 23']);
    expect(checks.map((one) => one.checked)).toEqual([false, false]);
    expect(enter('[aria-label="keep first"]', '3')).toEqual({ firstKeys: 3 });
    expect(enter('select', 'cache', 'change')).toEqual({ positions: 'cache' });
    expect(turn(0)).toEqual({ recompute: 'yes' });
    expect(turn(1)).toEqual({ length: 4000, runs: 1, positions: 'cache' });
    const farRoom = draw(streaming, { length: 4000, firstKeys: 9, recompute: 'yes' });
    expect(farRoom.checks.map((one) => one.checked)).toEqual([true, true]);
    expect(farRoom.ranges).toEqual(['keep first 0..9: 9', 'keep last 1..2048: 23']);
    expect([farRoom.turn(0), farRoom.turn(1)]).toEqual([
      { recompute: 'no' },
      { length: 120, runs: 8, positions: 'text' },
    ]);
    expect(draw(streaming, { length: 3, recentKeys: 1 }).ranges[1]).toBe('keep last 1..8: 1');
    const longSetting = settingFrame(3, window, { bytes: { held: 2e6, all: 5e6 } });
    expect(draw(streaming, {}, [groupOf('A', longSetting)]).texts('tbody tr')).toEqual([
      'A last 2 (no first) 3.000 (2) – 3 2.0 MB >_',
    ]);
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
    const { edits, measures, pair } = planOf(cache);
    expect(edits.slice(0, 6)).toEqual([
      ...['', '~evict(window,24)', '~evict(first,24,1)', '~evict(lru,24)', '~evict(h2o,24)'],
      '~evict(tova,24)',
    ]);
    const budgets = edits.slice(1).map((edit) => Number(/,(\d+)/.exec(edit)![1]));
    expect([...new Set(budgets)]).toEqual([24, 8, 64]);
    expect([edits.length, measures, pair]).toEqual([
      16,
      ['loss_mean,keeps_first,kl_mean,cache_hits'],
      ['~evict(window,24)', '~evict(h2o,24)'],
    ]);
    expect(planOf(cache, { budget: 1 }, undefined, 24).edits).toEqual([
      ...['', '~evict(window,1)', '~evict(lru,1)', '~evict(h2o,1)', '~evict(tova,1)'],
      ...['~evict(window,8)', '~evict(first,8,1)', '~evict(lru,8)', '~evict(h2o,8)'],
      '~evict(tova,8)',
    ]);
    const snapkvPlan = planOf(cache, { policy: 'snapkv', budget: 20 }, undefined, 41);
    expect(snapkvPlan.pair[1]).toBe('~evict(snapkv,20,prompt=20,queries=16)');
    expect(snapkvPlan.edits).toContain('~evict(snapkv,8,prompt=20,queries=8)');
    expect(planOf(cache, { policy: 'snapkv', budget: 99 }, undefined, 9).pair[1]).toBe(
      '~evict(snapkv,99,prompt=4,queries=4)',
    );
    const fullPlan = planOf(cache, { sweep: 'all', policy: 'unknown' });
    expect(fullPlan.edits.filter((edit) => edit.startsWith('~evict(h2o'))).toEqual(
      [24, 4, 8, 12, 16, 32, 48, 64].map((budget) => `~evict(h2o,${budget})`),
    );
    expect([fullPlan.edits.length, fullPlan.measures]).toEqual([
      1 + 5 * 8,
      ['loss_mean,keeps_first'],
    ]);
    expect(fullPlan.edits.some((one) => /snapkv|random|unknown/.test(one))).toBe(false);
    expect(planOf(cache, { sweep: 'all', measure: 'kl' }).measures).toEqual([
      'loss_mean,keeps_first,kl_mean,cache_hits',
    ]);
  });

  it('names the policies with the smallest and the largest loss, and those that keep the first token', () => {
    const says = (...frames: Frame[]) => cache.says([groupOf('A', ...frames)], stateOf());
    expect(
      says(
        settingFrame(2),
        evictedFrame('window', 3, 0),
        evictedFrame('h2o', 2.25, 1),
        evictedFrame('tova', 2.5, 1),
        evictedFrame('x', 9, 0, 8),
      ),
    ).toMatchSnapshot();
    const closeLosses = [evictedFrame('window', 3, 0.5), evictedFrame('h2o', 2.25, 0.75)];
    expect(says(settingFrame(2), ...closeLosses).heading).toMatchSnapshot();
    // In the first case the best cache keeps the first token in few heads; in the second a cache that keeps it has a
    // higher loss than one that does not.
    for (const others of [
      [evictedFrame('h2o', 2.25, 0.29), evictedFrame('window', 3, 0)],
      [evictedFrame('h2o', 2.25, 1), evictedFrame('window', 2.5, 0), evictedFrame('tova', 3, 1)],
    ])
      expect(says(settingFrame(2), ...others).heading).toMatchSnapshot();
    expect(says(settingFrame(2), evictedFrame('window', 3, 0)).text).toBe('');
    expect(says(...closeLosses).text).toBe('');
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
    const { texts, ranges, checks, turn, options, enter } = draw(cache, {}, groups);
    expect(texts('tbody tr')[1]).toBe('H2O, 24 keys 3.000 (2) +1.000 ± 0.000 0.1250 75% 50% >_');
    expect([ranges, checks.length, options.slice(0, 2)]).toEqual([
      ['keys kept 1..120: 24'],
      1,
      ['WINDOW', 'FIRST'],
    ]);
    expect([turn(0), enter('select', 'tova', 'change')]).toEqual([
      { sweep: 'all' },
      { policy: 'tova' },
    ]);
    const allSizes = draw(cache, { sweep: 'all', length: 500 });
    expect([allSizes.turn(0), allSizes.turn(1), allSizes.ranges]).toEqual([
      ...[{ measure: 'kl' }, { sweep: 'some' }, ['keys kept 1..128: 24']],
    ]);
    expect(draw(cache, { sweep: 'all', measure: 'kl' }).turn(0)).toEqual({ measure: 'loss' });
    expect(draw(cache, { length: 4, budget: 2 }).ranges).toEqual(['keys kept 1..8: 2']);
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
    const { edits, measures } = planOf(quantization);
    expect(edits.slice(0, 4)).toEqual([
      ...[
        '',
        '~quantize(hidden,6,tensor)',
        '~quantize(hidden,6,tensor,first=1)',
        '~quantize(hidden,8,tensor)',
      ],
    ]);
    expect([edits.length, measures]).toEqual([
      11,
      ['loss_mean,sink_ratio,sink_ratio_raw,quantize_error,hidden_change,kl_mean'],
    ]);
    expect([...new Set(edits.slice(1).map((edit) => Number(/,(\d),/.exec(edit)![1])))]).toEqual([
      6, 8, 4, 3, 2,
    ]);
    expect(planOf(quantization, { sweep: 'all' }).edits).toHaveLength(1 + 3 * 5 * 2);
    // Weights belong to no token, so the plan has no exact first tokens.
    const weights = planOf(quantization, { quantized: 'weights', granularity: 'token', bits: 5 });
    expect(weights.edits).toEqual([
      '',
      ...[5, 8, 6, 4, 3, 2].map((bits) => `~quantize(weights,${bits},tensor)`),
    ]);
    expect(weights.measures[0]).toContain('weight_error');
    expect(planOf(quantization, { quantized: 'weights', sweep: 'all' }).edits).toHaveLength(
      1 + 2 * 5,
    );
    expect(planOf(quantization, { exactTokens: 4 }).edits[2]).toBe(
      '~quantize(hidden,6,tensor,first=4)',
    );
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
      'A loses about as much: 6 bits +1.000 and +1.000 nats.',
    ]);
    // An error that hardly falls says nothing of the first token's numbers.
    expect(says({}, roundedFrame(3, 0, 0.2), roundedFrame(2.25, 1, 0.125)).text).not.toContain(
      'largest',
    );
    expect(
      says({ exactTokens: 3 }, roundedFrame(3, 0, 0.5), roundedFrame(2.5, 3, 0.125)),
    ).toMatchObject({
      heading: 'Numbers cannot be rounded to 6 bits',
      text: expect.stringMatching(/; with the first 3 tokens kept exact, by \+0\.500/),
    });
    expect(says({}, roundedFrame(2.019, 0, 0), roundedFrame(2, 1, 0)).heading).toBe(
      'Numbers can be rounded to 6 bits',
    );
    expect(says({}, roundedFrame(2.021, 0, 0), roundedFrame(2, 1, 0)).heading).toMatchSnapshot();
    expect(says({}, roundedFrame(3, 0, 0.5)).text).toBe('');
    expect(says({ bits: 4 }, roundedFrame(3, 0, 0.5), roundedFrame(2, 1, 0)).text).toBe('');
    const weights = { quantized: 'weights', granularity: 'channel' } as const;
    expect(
      says(weights, roundedFrame(3, 0, 0.5, { what: 'weights', by: 'channel' })),
    ).toMatchSnapshot();
  });

  it('has errors and sinks in its table, and controls for what is rounded', () => {
    const row = roundedFrame(3, 1, 0.5);
    const tensors = { ...row.tensors, hidden_change: tensor([2], [0.25, 0.5]) };
    const { texts, ranges, options, turn, enter } = draw(quantization, {}, [
      groupOf('A', settingFrame(2), { ...row, tensors }),
    ]);
    expect(texts('tbody tr')).toMatchSnapshot();
    expect(ranges).toEqual(['bits 2..8: 6', 'first tokens exact 1..8: 1']);
    expect(options).toEqual(['hidden states', 'weights', 'one scale', 'per token', 'per channel']);
    expect([turn(0), enter('select', 'weights', 'change')]).toEqual([
      { sweep: 'all' },
      { quantized: 'weights' },
    ]);
    const weights = draw(quantization, {
      quantized: 'weights',
      granularity: 'token',
      sweep: 'all',
    });
    expect([weights.ranges, weights.options.slice(2), weights.turn(0)]).toMatchSnapshot();
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
    const repeat = planOf(fragility, { repeats: 9 });
    expect(
      repeat.questions.map(({ input, T, repeatedToken }) => [input, T, repeatedToken]),
    ).toEqual([
      ...[
        ['text', 120, undefined],
        ['repeat', 10, undefined],
        ['repeat', 10, 'first'],
      ],
    ]);
    expect(planOf(fragility, { first: 'none' }).questions).toHaveLength(2);
    expect(repeat.measures).toEqual([
      'loss_mean,sink_ratio,sink_ratio_raw,hidden_ratio,hidden_norm',
    ]);
    expect(planOf(fragility, { perturbation: 'channel' }).edits).toEqual([]);
    expect(planOf(fragility, { perturbation: 'channel' }).pair).toEqual(['', '']);
    expect(planOf(fragility, { perturbation: 'channel' }, leadFrame()).pair).toEqual([
      ...['~clamp_channel(2)', ''],
    ]);
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
    const channel = planOf(fragility, { perturbation: 'channel' }, leadFrame()).edits;
    expect(channel.slice(0, 3)).toEqual(['', '~clamp_channel(2)', '~clamp_channel(2,1,0)']);
    const rest = channel.slice(3);
    expect([rest.length, new Set(rest).size, rest.includes('~clamp_channel(2)')]).toEqual([
      5,
      5,
      false,
    ]);
    expect(planOf(fragility, { perturbation: 'channel' }, leadFrame()).edits).toEqual(channel);
    expect(planOf(fragility, { perturbation: 'channel', seed: 9 }, leadFrame()).edits).not.toEqual(
      channel,
    );
    const several = planOf(fragility, { perturbation: 'channel' }, leadFrame(), 120, 2).edits;
    expect(several[3]).toBe('~clamp_channel(2,1,0,to=value,value=-8.00)');
    const weight = planOf(fragility, { perturbation: 'weight' }, leadFrame()).edits;
    expect(weight.slice(0, 2)).toEqual(['', '~scale_weight(down,0,3,5,0)']);
    expect([weight.length, new Set(weight).size]).toEqual([7, 7]);
    expect(planOf(fragility, { perturbation: 'tag', seed: 3 }, leadFrame()).edits).toEqual([
      ...['', '~project', '~project(tag,heads)'],
      ...[3, 4, 5, 6, 7].map((seed) => `~project(random,seed=${seed})`),
    ]);
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
    const narrowFrame = leadFrame({ architecture: { ...frameOf().architecture, D: 8, F: 16 } });
    expect(
      planOf(
        fragility,
        { perturbation: 'channel' },
        { ...narrowFrame, architecture: { ...narrowFrame.architecture, D: 4 } },
      ).edits,
    ).toHaveLength(6);
    expect([
      fragility.viewOf!(stateOf()),
      fragility.viewOf!(stateOf({ perturbation: 'weight' })),
    ]).toEqual([likeness, perturbations]);
    expect([
      fragility.embedStateOf!(stateOf({ repeats: 4 })),
      fragility.embedStateOf!(stateOf({ perturbation: 'weight' })),
    ]).toEqual([{ input: 'repeat', T: 5 }, {}]);
  });

  it('says how many copies have the norm of a first token', () => {
    const T = 20;
    const textFrame = (ratio: number) =>
      settingFrame(
        2,
        undefined,
        { T },
        {
          hidden_ratio: tensor([2], [1, ratio]),
          hidden_norm: tensor(
            [2, T],
            [...new Float32Array(T).fill(1), 8, 4, ...new Float32Array(T - 2).fill(1)],
          ),
          sink_ratio: tensor([1], [0.5]),
        },
      );
    const copiesFrame = (count: number, repeatedToken?: 'first', first = ['<s>']) =>
      settingFrame(
        2,
        undefined,
        { T, first, question: { ...frameOf().question, input: 'repeat', repeatedToken } },
        {
          hidden_norm: tensor(
            [2, T],
            [
              ...new Float32Array(T).fill(1),
              8,
              ...Array.from({ length: T - 1 }, (_, t) => (t < count ? 8 : 1)),
            ],
          ),
          sink_ratio: tensor([1], [0.25]),
        },
      );
    const says = (...frames: Frame[]) => fragility.says([groupOf('A', ...frames)], stateOf());
    const frames = [textFrame(4), copiesFrame(7), copiesFrame(9, 'first')];
    const finding = says(...frames);
    expect(finding).toMatchSnapshot();
    expect(notesOf(finding, [groupOf('A', ...frames)])).toEqual([
      'A, heads with a sink: on text 50.0%; on a random word, repeated 25.0%; on “<s>”, repeated 25.0%.',
    ]);
    expect(says(textFrame(4), copiesFrame(6), copiesFrame(7, 'first')).heading).toMatchSnapshot();
    expect(says(textFrame(4), copiesFrame(6), copiesFrame(6, 'first')).heading).toMatchSnapshot();
    expect(says(textFrame(1.5), copiesFrame(19))).toMatchObject({
      heading: 'What if one token repeats?',
      text: expect.stringContaining('1.5 times as long as the others’: no copy can stand out.'),
    });
    expect(says(textFrame(2), copiesFrame(19))).toMatchObject({
      heading: 'Copies of any token: they behave like the first',
      text: expect.stringContaining('2.0 times as long as the others’. At least half as long'),
    });
    // Without a start token there is none to repeat.
    expect(says(textFrame(4), copiesFrame(7), copiesFrame(9, 'first', [])).text).not.toContain(
      '9 of 19',
    );
    expect([says(textFrame(4)).text, says(copiesFrame(3)).text]).toEqual(['', '']);
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
    expect(says({}, settingFrame(2), clampFrame(2.75), clampFrame(2.25)).heading).toMatchSnapshot();
    expect(says({}, settingFrame(2), clampFrame(2.77), clampFrame(2.25)).heading).toMatch(
      /^One channel does much more/,
    );
    expect(says({}, settingFrame(2), clampFrame(2.019), clampFrame(2)).heading).toMatch(
      /^This channel does not do much more/,
    );
    const secondModel = fragility.says(
      [
        groupOf('A', settingFrame(2), clampFrame(2), clampFrame(2)),
        groupOf('B', settingFrame(2), clampFrame(4), clampFrame(2)),
      ],
      stateOf({ perturbation: 'channel' }),
    );
    expect(secondModel.heading).toMatch(/^This channel does not do much more/);
    expect(says({}, settingFrame(2), clampFrame(4))).toMatchSnapshot();
    expect(says({ perturbation: 'weight' }, settingFrame(2))).toMatchSnapshot();
    expect(fragility.says([], stateOf({ perturbation: 'weight' })).text).toBe('');
  });

  it('says whether later tokens need the tag, and how much of it the heads write', () => {
    const projectFrame = (loss: number, more: object = {}) =>
      settingFrame(loss, { kind: 'project', ...more });
    const randomFrame = (loss: number, seed: number) =>
      projectFrame(loss, { direction: 'random', seed });
    const says = (stream: number, heads: number) =>
      fragility.says(
        [
          groupOf(
            'A',
            ...[settingFrame(2), projectFrame(stream), projectFrame(heads, { from: 'heads' })],
            ...[randomFrame(2.125, 1), randomFrame(2.25, 2)],
          ),
        ],
        stateOf({ perturbation: 'tag' }),
      );
    expect(says(3, 2.03125)).toMatchSnapshot();
    expect(says(3, 2.75).heading).toMatchSnapshot();
    expect(
      fragility.says(
        [
          groupOf(
            'A',
            settingFrame(2),
            projectFrame(3),
            randomFrame(2.125, 1),
            randomFrame(2.25, 2),
          ),
        ],
        stateOf({ perturbation: 'tag' }),
      ).heading,
    ).toMatchSnapshot();
    // The heading changes at half of the stream's loss, at three times chance (0.25 here), and at 0.02 nats.
    expect(says(3, 2.5).heading).toMatchSnapshot();
    expect(says(3, 2.5625).heading).toMatchSnapshot();
    expect(says(2.8125, 2).heading).toMatchSnapshot();
    const smallEffect = (stream: number, chance: number) =>
      fragility.says(
        [
          groupOf(
            'A',
            ...[settingFrame(2), projectFrame(stream), projectFrame(2, { from: 'heads' })],
            ...[randomFrame(chance, 1), randomFrame(chance, 2)],
          ),
        ],
        stateOf({ perturbation: 'tag' }),
      ).heading;
    expect(smallEffect(2.015625, 2)).toMatchSnapshot();
    expect(smallEffect(2.03125, 2)).toMatchSnapshot();
    expect(smallEffect(2.03125, 1.5)).toMatchSnapshot();
    expect(says(2.75, 2.75).heading).toMatchSnapshot();
    expect(
      fragility.says([groupOf('A', settingFrame(2))], stateOf({ perturbation: 'tag' })).text,
    ).toMatchSnapshot();
  });

  it('lists norms in its table, and counts of copies if a token is repeated', () => {
    const ratio = { hidden_ratio: tensor([2], [1, 4.25]) };
    const { texts, ranges, enter } = draw(fragility, {}, [
      groupOf('A', settingFrame(2, undefined, {}, ratio)),
    ]);
    expect(texts('tbody tr')).toEqual(['A baseline 2.000 (2) – 50.0% 4.3 >_']);
    expect(ranges).toEqual(['repetitions 1..127: 100']);
    expect(enter('input', '7')).toEqual({ repeats: 7 });
    expect(draw(fragility, { length: 300 }).ranges).toEqual(['repetitions 1..300: 100']);
    const channel = draw(fragility, { perturbation: 'channel' });
    expect([channel.ranges, channel.texts('[aria-pressed=true]')]).toEqual([
      [],
      ['zero a channel'],
    ]);
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
    expect(commandOfFrame({ question: question({ first: 'bos' }) })).toMatchSnapshot();
    expect(commandOfFrame({ question: question({ prompt: "it's" }) })).toContain(
      `--text 'it'\\''s' --tokens`,
    );
    const edits = [
      { kind: 'evict', policy: 'window', budget: 8, first: undefined },
      { kind: 'operation', operation: 'sigmoid', parameters: { bias: -4 } },
    ];
    expect(commandOfFrame({ edits, bytes: { held: 1, all: 2 }, eps: 0.5 })).toMatch(
      /--edit 'evict\(policy=window,budget=8\)' --edit 'operation\(operation=sigmoid,bias=-4\)' --eps 0\.5 --streaming$/,
    );
    const model = { id: 'x', title: 'X' };
    const step = { step: 40 };
    expect(
      commandOfFrame({ model: { ...model, source: 'zoo', step }, subject: 'softmax@41' }),
    ).toMatch(/^models\/zoo\/softmax@40 /);
    expect(
      commandOfFrame({ model: { ...model, source: 'hub' }, subject: 'hub:a/b@r~silence(0,0)' }),
    ).toMatch(/^a\/b@r /);
    expect(
      commandOfFrame({ model: { ...model, source: 'disk' }, subject: 'disk:0123456789abcdef/a' }),
    ).toMatch(/^FOLDER /);
  });

  it('names the file of the prompts or their ids, and is absent if it cannot', () => {
    const heldout = (T: number) =>
      commandOfFrame({ question: question({ input: 'heldout', T }), sequences: 9 });
    expect(heldout(64)).toMatchSnapshot();
    expect(heldout(301)).toMatchSnapshot();
    const fileQuestion = question({ input: 'file' });
    expect(
      commandOfFrame({ question: fileQuestion }, { name: 'my file', splitting: 'lines' }),
    ).toMatchSnapshot();
    expect(commandOfFrame({ question: fileQuestion }, { name: 'a', splitting: 'whole' })).toContain(
      '--text-file a --tokens',
    );
    expect(commandOfFrame({ question: fileQuestion })).toContain('--text-file FILE --tokens');
    expect(
      commandOfFrame({ question: fileQuestion }, { name: 'a', splitting: 'blocks' }),
    ).toBeUndefined();
    const randomQuestion = question({ input: 'random', first: 'bos' });
    expect(commandOfFrame({ question: randomQuestion })).toBe(
      'models/zoo/softmax --ids 0,1 --eps 0.3',
    );
    expect(commandOfFrame({ question: question({}), generated: 2 })).toContain('--ids 0,1');
    const ids = Array.from({ length: 11 }, (_, i) => [i]);
    expect(commandOfFrame({ question: randomQuestion, ids, sequences: 11 })).toBeUndefined();
    expect(
      commandOfFrame({ question: randomQuestion, ids: ids.slice(0, 10), sequences: 10 }),
    ).toContain('--ids 9');
    expect(commandOfFrame({ question: question({ window: 8 }) })).toBeUndefined();
    expect(
      commandOf(frameOf({ recording: {}, model: { id: 'recording:my run.safetensors' } } as never)),
    ).toMatchSnapshot();
  });
});
