/** The sentences of Compare, and the claims that it states. */
import { readFileSync } from 'node:fs';
import type { Describe } from 'sinkscope';
import { describe, expect, it } from 'vitest';
import { testedClaims } from '../ship/facts';
import { defaults } from '../src/ask/state';
import type { Frame } from '../src/frame';
import {
  CHAPTERS,
  chapterOf,
  claimAbout,
  effectWords,
  pairOf,
  phraseOf,
  quoteOf,
  sidesOf,
  verdictWords,
} from '../src/rooms/chapters';
import {
  cardSumWords,
  chapterCounts,
  chapterHeading,
  countTitle,
  differsSentence,
  headingOf,
  nearWords,
  obstacleOf,
  rangeWords,
  premiseWords,
  rawWords,
  topicsOf,
  unboundedWords,
  wayOf,
} from '../src/rooms/compared';
import { labelOf, ownEnd } from '../src/views/attention';
import { differencesOf } from '../src/rooms/differs';
import { lossWords, runsWords } from '../src/rooms/model_list';
import { modelsOfZoo } from '../ship/facts';
import { falseAnswer } from './claim_table';
import { frameOf, isBuilt, tensor } from './fixture';

const frameWith = (share: number, change: Partial<Frame> = {}) =>
  frameOf(change, { sink_ratio: tensor([3], [share, 0, 0]) });

describe('the heading', () => {
  const headingFor = (shares: readonly number[], phrases: readonly (string | undefined)[] = []) =>
    headingOf(
      shares.map((share) => frameWith(share)),
      phrases,
    );

  it('counts the heads of up to three models, and the models if they are more', () => {
    expect(headingFor([0.5, 0], ['softmax', 'sigmoid'])).toMatchSnapshot();
    expect(headingFor([0, 0.25], ['no start token', undefined])).toMatchSnapshot();
    expect(headingFor([0.5, 0, 0.25], ['a', 'b', 'c'])).toMatch(/, with b none, with c 1 of 4\.$/);
    expect(headingFor([0.5, 0, 0.25, 0])).toMatchSnapshot();
    expect(headingFor([0.5, 0.5, 0.25, 1])).toMatchSnapshot();
    expect(headingFor([0, 0])).toMatchSnapshot();
    expect(headingFor([0.5])).toBe('What makes a sink?');
  });

  it('is a question where heads are not counted or compared, and a sentence says why', () => {
    const short = frameOf({}, { alpha_uniform: tensor([3], [0.5, 0.2, 0.3]) });
    const tokens = frameOf().tokens.map((token) => ({ ...token, text: `${token.text}!` }));
    const generated = frameWith(0.5, { generated: 1, tokens });
    for (const [frame, words] of [
      [short, /^Heads are not counted: in a text of 3/],
      [frameWith(NaN), /^Which heads have a sink is not recorded for the softmax model\.$/],
      [generated, /^These models read different texts/],
    ] as const) {
      expect(headingOf([frameWith(0.5), frame], [])).toBe('What makes a sink?');
      expect(obstacleOf([frameWith(0.5), frame])).toMatch(words);
    }
    expect(obstacleOf([frameWith(0.5), frameWith(0)])).toBe('');
  });
});

const PLACES = ['at a', 'at b'] as const;

/** A model with a key bias that so many of its heads give over ε. */
const withSlot = (share: number, slots: number) =>
  frameOf(
    { architecture: { ...frameOf().architecture, bias_key: 'head' } as never },
    { sink_ratio: tensor([3], [share, 0, 0]), sink_ratio_bias: tensor([1], [slots]) },
  );

describe('the answer of a chapter', () => {
  /** A side of models with these shares of heads with a sink, and at an extra slot where there is one. */
  const side = (shares: readonly number[], slots: readonly number[] = []) => ({
    where: '',
    counts: shares.map((share) => 4 * share),
    slots: shares.map((_, i) => 4 * (slots[i] ?? NaN)),
    items: shares.map((share, i) =>
      slots[i] === undefined ? frameWith(share) : withSlot(share, slots[i]),
    ),
  });
  const answer = (sides: ReturnType<typeof side>[]) => {
    const heading = chapterHeading(sides, PLACES);
    return [heading, chapterCounts(sides, PLACES)] as const;
  };

  it('says where the sinks are, and is true of any counts', () => {
    // A linear congruential generator: the same sides in every run.
    let seed = 1;
    const draw = (below: number) =>
      Math.floor((below * (seed = (1103515245 * seed + 12345) % 2 ** 31)) / 2 ** 31);
    const drawShares = (count: number) => {
      const below = 1 + draw(5);
      return Array.from({ length: count }, () => draw(below) / 4);
    };
    const kinds = new Set<string>();
    for (let i = 0; i < 4000; i++) {
      const [own, others] = [drawShares(1 + draw(4)), drawShares(1 + draw(4))];
      const sides = [side(own), side(others, drawShares(draw(3) && draw(1 + others.length)))];
      expect(falseAnswer(...answer(sides), sides, 4)).toEqual([]);
      kinds.add(answer(sides)[0]);
    }
    expect([...kinds].sort()).toEqual([
      'Give heads an extra slot and the sink moves there',
      'No head of these models has a sink on this text',
      'On this text, only some models form sinks',
      'Sinks form at a and at b',
      'Sinks form mostly at a',
      'Sinks form mostly at b',
      'Sinks form only at a',
      'Sinks form only at b',
    ]);
    // An oracle that finds nothing would hold, too.
    const sides = [side([0.5]), side([0.25], [0.25])];
    const [heading, lead] = answer(sides);
    expect([heading, lead]).toEqual([
      'Sinks form mostly at a',
      'At a, 2 of 4 heads have a sink (over 30% on <s>, the start token); at b, 1.',
    ]);
    for (const wrong of [
      ['Sinks form only at a', lead],
      ['Sinks form mostly at b', lead],
      ['Sinks form at a and at b', lead],
      ['Give heads an extra slot and the sink moves there', lead],
      ['No head of these models has a sink on this text', lead],
      ['On this text, only some models form sinks', lead],
      [
        heading,
        'At a, 2 of 4 heads have a sink (over 30% on <s>, the start token); with an extra slot ∗, 1: 1 give over 30% to ∗ instead.',
      ],
      [heading, 'At a, 1 of 4 heads has a sink (over 30% on <s>, the start token); at b, 1.'],
      [heading, 'At a, 2 of 4 heads have a sink (over 30% on <s>, the start token); at b, none.'],
    ] as const)
      expect(falseAnswer(wrong[0], wrong[1], sides, 4), wrong.join()).toHaveLength(1);
  });

  it('says that the sink has moved where heads give an extra slot as much', () => {
    expect(
      [
        [side([0.75]), side([0, 0.25], [0.75, undefined!])],
        [side([0.75]), side([0, 0, 0.25], [0.75, 0.5, undefined!])],
        [side([0.75]), side([0.25], [0.5])],
        [side([0.75]), side([0.5], [0.5])],
      ].map(answer),
    ).toMatchSnapshot();
  });

  it('counts the heads of one model, and the range of more; with the totals where they differ', () => {
    const other = frameWith(0.25, { architecture: { ...frameOf().architecture, H: 8 } });
    const many = frameWith(0.25, { sequences: 10 });
    expect(
      [
        [frameWith(0.25)],
        [frameWith(0.5), frameWith(0)],
        [frameWith(0.5), frameWith(0), frameWith(0.25)],
        [frameWith(0.5), frameWith(0.5), frameWith(0.5)],
        [frameWith(0.25), other],
        [many, many],
      ].map((frames) => rangeWords(frames)),
    ).toEqual(['1 of 4', '0 to 2 of 4', '0 to 2 of 4', '2 of 4', '1 of 4 to 4 of 16', '25% of 4']);
    const sides = [side([0.25]), { ...side([]), items: [other] }];
    expect(answer(sides)).toEqual([
      'Sinks form at a and at b',
      'At a, 1 of 4 heads has a sink (over 30% on <s>, the start token); at b, 4 of 16.',
    ]);
    expect(chapterHeading([side([0.5]), side([NaN])], PLACES)).toBe('');
  });

  it('is about the members of each chapter, which opens with one of each side', () => {
    for (const chapter of CHAPTERS) {
      const [first, second] = sidesOf(chapter, chapter.members);
      expect(pairOf(chapter)).toEqual([first!.items[0]![0], second!.items[0]![0]]);
      expect([...first!.items, ...second!.items]).toEqual(chapter.members);
      expect(chapter.question).toMatch(/^[A-Z].*\?$/);
      for (const place of [...chapter.places, ...(chapter.shortPlaces ?? [])])
        expect(place).toMatch(/^(?:with|where) |^without$/);
    }
  });
});

describe('what stands beside the answer', () => {
  const noStart = { tokens: frameOf().tokens.map((token) => ({ ...token, special: false })) };

  it('names the first token and the threshold of the texts', () => {
    const premise = 'It goes to {first}.';
    expect(
      [[], [frameOf()], [frameOf({ eps: 0.2 }), frameOf(noStart)]].map((frames) => [
        countTitle(frames),
        premiseWords(premise, frames),
      ]),
    ).toMatchSnapshot();
  });

  it('is what rows sum to, or an extra slot, which the heads of the cards say', () => {
    const softmax = frameWith(0.5);
    const withOperation = (name: string, normalizes: boolean) =>
      frameOf({
        operation: { ...softmax.operation, name, normalizes } as never,
      });
    const others = [
      withOperation('sigmoid', false),
      withOperation('sigmoid_norm', true),
      withSlot(0, 0.75),
      softmax,
    ];
    expect(others.map((frame) => wayOf([softmax, frame]))).toEqual(['sum', 'sum', 'slot', '']);
    // Not between models without softmax, nor between three.
    expect(wayOf([others[0]!, others[1]!])).toBe('');
    expect(wayOf([softmax, others[0]!, others[1]!])).toBe('');
    expect(others.slice(0, 2).map((frame) => cardSumWords(frame, 0.125))).toEqual([
      'mean row sum: 13%',
      '',
    ]);
    expect(cardSumWords(softmax, NaN)).toBe('');
  });
});

describe('what the heading counts', () => {
  const rest = frameWith(0.5);
  const weights = (rowSum: number) => {
    return frameOf(
      {
        operation: { ...rest.operation, name: 'elu1', normalizes: false } as never,
        perPrompt: { row_mass_summary: [rowSum] },
      },
      {
        sink_ratio: tensor([3], [0.75, 0, 0]),
        sink_ratio_raw: tensor([3], [0.5, 0, 0]),
      },
    );
  };

  it('is the extra slot where it has the sink, and raw weights where rows sum to more than 100%', () => {
    const sentences = [weights(15), weights(0.4), withSlot(0, 0.75), withSlot(0, 0)].map(
      (frame) => [headingOf([rest, frame], ['softmax', 'b']), rawWords([rest, frame])],
    );
    expect(sentences).toMatchSnapshot();
    // The list says so of the first model alone, by the mean over all of its heads.
    expect([weights(15), weights(2), weights(0.4), rest].map(unboundedWords)).toEqual([
      'rows exceed 100%, so 30% is little',
      'rows exceed 100%',
      '',
      '',
    ]);
  });
});

describe('nearly equal models on two sides of the threshold', () => {
  const frameWithHeads = (...alphas: readonly number[]) => {
    const alpha = tensor(
      [2, 2, 3],
      alphas.flatMap((first) => [first, 0, 0]),
    );
    const share = alphas.filter((first) => first > 0.3).length / alphas.length;
    return frameOf({}, { alpha, sink_ratio: tensor([3], [share, 0, 0]) });
  };
  const sentences = (...frames: readonly Frame[]) => [
    headingOf(frames, ['a', 'b', 'c']),
    nearWords(frames),
  ];

  it('are not called opposite; models that are far apart, or on one side, are counted', () => {
    const [over, under, far] = [
      frameWithHeads(0.31, 0.1, 0.2, 0),
      frameWithHeads(0.27, 0.25, 0.2, 0),
      frameWithHeads(0.1, 0.1, 0, 0),
    ];
    expect(sentences(over, under)).toEqual([
      'With a and with b the strongest heads are nearly equal: 31% and 27% on <s>.',
      'Over 30% a head counts as a sink: 1 of 4 and none. ',
    ]);
    for (const frames of [
      [over, far],
      [under, far],
      [over, over],
      [over, under, far],
    ])
      expect(nearWords(frames)).toBe('');
    expect(headingOf([over, far], ['a', 'b'])).toMatch(/1 of 4 heads have a sink .*, with b none/);
  });
});

describe('the label inside a map', () => {
  const at = { layer: 0, head: 0 };
  /** A map of some tokens whose rows spread `sum` evenly, but for `first` of it on the first token. */
  const labelFor = (first: number, sum: number, change: Partial<Frame> = {}, T = 9) => {
    const att = Float32Array.from({ length: T * T }, (_, i) => {
      const [t, k] = [Math.floor(i / T), i % T];
      if (k > t) return 0;
      return k && t ? (sum * (1 - first)) / t : t ? sum * first : sum;
    });
    const tokens = Array.from({ length: T }, () => frameOf().tokens[1]!);
    const head = { ...at, tensors: { att: tensor([T, T], att) } };
    const alpha = tensor([2, 2, T], new Float32Array(4 * T).fill(first));
    const alpha_uniform = tensor([T], new Float32Array(T).fill(0.2));
    const frame = frameOf({ T, tokens, head, ...change } as never, {
      alpha,
      alpha_uniform,
      alpha_raw: alpha,
    });
    return [false, true].map((isShort) => labelOf(frame, at, defaults, isShort)!.text);
  };
  const ownOperation = { operation: { ...frameOf().operation, normalizes: false } } as never;

  it('says what the first column is, and what rows sum to where they need not sum to 100%', () => {
    expect([
      labelFor(0.9, 1),
      labelFor(0.2, 1),
      labelFor(0.25, 1, {}, 40),
      labelFor(0.2, 0.5, ownOperation),
      labelFor(0.5, 0.02, ownOperation),
      labelFor(0.1, 15.4, ownOperation),
    ]).toMatchSnapshot();
  });
});

describe('the color scale of a map', () => {
  it('ends at 100%, or at the largest weight where rows sum to far more', () => {
    const ends = [
      [1, NaN, 0.2, 0.8],
      [1, NaN, 0.8, 0.6],
      [0.9, NaN, 0.9, 0.9],
      [0.5, NaN, 2.5, 0.6],
    ].map((cells) => ownEnd(cells, 2));
    expect(ends).toEqual([undefined, undefined, undefined, 2.5]);
    expect(ownEnd([0.9, 0.9, 0.9, 0.9], 2)).toBe(1);
  });
});

describe('what differs', () => {
  const differs = (a: object, b: object) =>
    differsSentence(topicsOf(differencesOf([a, b]).differences, { D: 'width' }));
  const base = { parameters: 1, attention: { operation: 'softmax', parameters: {} }, gate: null };

  it('is said in words, each cause once', () => {
    const sigmoid = { operation: 'sigmoid', parameters: { bias: -4.85 } };
    expect(differs(base, { ...base, attention: sigmoid, parameters: 2 })).toMatchSnapshot();
    const heads = { H: 4, K: 32, training: { steps: 4000 } };
    expect(differs(heads, { H: 8, K: 16, training: { steps: 2000 } })).toMatchSnapshot();
    expect(differs({ D: 8 }, { D: 16 })).toBe('Only width D differs.');
    expect(differs(base, base)).toMatchSnapshot();
    const many = { D: 1, H: 1, gate: 'a', training: { front: ['a'] } };
    const others = { D: 2, H: 2, gate: 'b', training: { front: [] } };
    expect(differs(many, others)).toMatchSnapshot();
  });
});

describe('chapters and claims', () => {
  const claims = testedClaims();

  it.skipIf(!isBuilt)('say in few words which attention rules must sum to 100%', () => {
    const file = `${import.meta.dirname}/../../wasm/sinkscope.describe.json`;
    const { operations } = JSON.parse(readFileSync(file, 'utf8')) as Pick<Describe, 'operations'>;
    const [rules] = CHAPTERS;
    rules!.members.forEach(([id, , what], i) => {
      const { operation } = modelsOfZoo().find((card) => card.id === id)!;
      const { normalizes } = operations.find(({ name }) => name === operation)!;
      expect([id, /100%/.test(what), i < rules!.count]).toEqual([id, normalizes, normalizes]);
    });
    for (const { members } of CHAPTERS)
      for (const [, , what] of members) expect(what.split(' ').length).toBeLessThanOrEqual(6);
  });

  it('change one thing of a model of the zoo, and are found by what is shown', () => {
    const cards = modelsOfZoo();
    for (const chapter of CHAPTERS) {
      const { title, members } = chapter;
      const baseline = members[0]![0];
      expect([title, members.length > 2]).toEqual([title, true]);
      for (const [id] of members) expect(cards.map((card) => card.id)).toContain(id);
      const pair = pairOf(chapter);
      expect(cards.find(({ id }) => id === pair[1])!.baseline).toBe(baseline);
      expect(chapterOf(pair)!.title).toBe(title);
    }
    expect(chapterOf(['softmax', 'softmax@40'])).toBeUndefined();
    expect(phraseOf(chapterOf(['softmax', 'alibi']), 'softmax')).toBe('softmax (rotary)');
    // All are trained for as many steps as their baseline.
    for (const { members } of CHAPTERS) {
      const steps = members.map(([id]) => cards.find((card) => card.id === id)!.training!.steps);
      expect(new Set(steps).size).toBe(1);
    }
    expect(phraseOf(undefined, 'softmax')).toBeUndefined();
  });

  it('have the claim that their link shows, or else one about a contrast', () => {
    expect(claimAbout(['softmax', 'sigmoid'], claims)).toMatchObject({
      claim: 'Sigmoid attention without normalization has no sink.',
      verdict: 'agrees',
    });
    expect(claimAbout(['softmax', 'sigmoid', 'elu1'], claims)!.recipe).toBe('sigmoid');
    expect(claimAbout(['short', 'no-bos'], claims)!.claim).toMatch(/^Without a fixed first token/);
    for (const shown of [
      ['softmax'],
      ['softmax', 'softmax@40'],
      ['softmax', 'sigmoid~hide_key(0)'],
    ])
      expect(claimAbout(shown, claims)).toBeUndefined();
  });

  it('state the verdict of models/claims.json with its interval, and what the interval is of', () => {
    const base = { claim: 'A gate weakens.', source: 'Q', recipe: 'gated', seen: [], runs: 3 };
    const effect = [-0.108, -0.15, 0.067] as const;
    const claim = { ...base, effect, verdict: 'differs', against: 'softmax' };
    const verdicts = ['agrees', 'differs', 'undecided', 'depends on the outcome'];
    expect(verdicts.map((verdict) => verdictWords({ ...claim, verdict }))).toMatchSnapshot();
    const own = { ...claim, against: null, effect: [-0.015, -0.02, -0.01] as const };
    const more = { ...own, effect: [0.05, 0.01, 0.1] as const };
    expect([claim, own, more].map(effectWords)).toMatchSnapshot();
    // A claim is quoted beside the models of its link alone, and only where the runs agree.
    const agreed = { ...claim, verdict: 'agrees', seen: ['softmax', 'gated'] };
    expect([
      quoteOf(agreed, ['softmax', 'gated']),
      quoteOf(agreed, ['softmax', 'relu']),
      quoteOf(claim, ['softmax', 'relu']),
      quoteOf({ ...claim, verdict: 'undecided' }, []),
    ]).toEqual([
      '3 training runs with gates agree with Q: “A gate weakens.”',
      '',
      '3 training runs with gates disagree with Q: “A gate weakens.”',
      '',
    ]);
    expect(effectWords({ ...claim, against: 'no-bos' })).toMatch(/ than with no start token\.$/);
    expect(claims.every(({ effect: [mean, low, high] }) => low <= mean && mean <= high)).toBe(true);
  });
});

describe('what is said of the trained runs of a model', () => {
  it('is how well it predicts, beside the first of its chapter', () => {
    const card = (loss: number, front = ['<s>']) =>
      ({ id: String(loss), measured: { loss }, training: { front } }) as never;
    const first = card(3.4);
    const others = [3.405, 3.5, 3.3, 7, NaN].map((loss) => card(loss));
    expect([first, ...others, card(3.5, [])].map((one) => lossWords(one, first))).toMatchSnapshot();
    expect(lossWords(undefined, first)).toBe('');
  });

  it('is the share of heads with a sink of each of several runs, and which of them have few', () => {
    const run = (sink_1: number) => ({ sink_1, loss: 3 });
    const card = (first: number, ...others: readonly number[]) =>
      ({ measured: run(first), further_seeds: others.map(run) }) as never;
    expect(
      [card(60), card(60.3, 63, 20.4), card(60, 50), card(0.4, 0, 0.2), undefined].map((one) =>
        runsWords(one, 'softmax', 24),
      ),
    ).toMatchSnapshot();
  });
});
