/** The plain answers of Explore: each appears when its condition holds, and has no symbols. */
import { describe, expect, it } from 'vitest';
import { answerOf, firstTokenClause, dormantWords } from '../src/answers';
import { defaults } from '../src/ask/state';
import type { Frame } from '../src/frame';
import { choiceOf, QUESTIONS } from '../src/views';
import { frameOf, tensor } from './fixture';

const at = { layer: 1, head: 0 };
const answer = (view: string, change: Partial<Frame> = {}, tensors: Frame['tensors'] = {}) => {
  const frame = frameOf(change, tensors);
  return answerOf(choiceOf(view, [frame]), frame, at, defaults);
};
const headOf = (name: string, values: number[]) => ({
  head: { ...at, tensors: { [name]: tensor([3, 3], values) } },
});
/**
 * Returns the share of heads with a sink at each key. The text has 12 tokens, so that enough queries see the second
 * key.
 */
function sinksOf(...shares: number[]) {
  const sink_ratio = tensor([12], [...shares, ...Array(12 - shares.length).fill(0)]);
  const alpha_uniform = tensor([12], Array(12).fill(0.25));
  return { T: 12, tensors: { sink_ratio, sink_ratio_raw: sink_ratio, alpha_uniform } };
}

describe('the answer', () => {
  it('gives the shares of all heads and of other tokens', () => {
    const answerOfShares = (view: string, ...shares: number[]) => {
      const { T, tensors } = sinksOf(...shares);
      return answer(view, { T }, tensors);
    };
    expect([answerOfShares('sinks', 0.6), answerOfShares('heads', 0.5)]).toMatchSnapshot();
    expect(answerOfShares('sinks', 0)).toMatchSnapshot();
    expect(answerOfShares('scores', 0.6)).toMatchSnapshot();
    expect(answerOfShares('scores', 0.6, 0.1)).toMatchSnapshot();
    expect(answerOfShares('scores', 0)).toBe('No token is a sink.');
    // Where rows need not sum to 1, a share without the raw weight is no sink.
    const { T, tensors } = sinksOf(0.6, 0.1);
    const sink_ratio_raw = tensor([12], Array(12).fill(0));
    const sigmoid = { T, operation: { ...frameOf().operation, normalizes: false } };
    expect(answer('scores', sigmoid, { ...tensors, sink_ratio_raw })).toBe('No token is a sink.');
    const shortText = { alpha_uniform: tensor([3], [0.5, 0, 0]) };
    expect(answer('sinks', {}, shortText)).toMatchSnapshot();
    expect(answer('scores', {}, shortText)).toMatchSnapshot();
  });

  it('says whether a row must spend all of its attention on tokens', () => {
    const { architecture, operation } = frameOf();
    expect(answer('mass')).toMatchSnapshot();
    expect(
      answer('mass', { architecture: { ...architecture, bias_key: 'head' } as never }),
    ).toMatchSnapshot();
    expect(answer('mass', { operation: { ...operation, normalizes: false } })).toMatchSnapshot();
  });

  it('explains why the first key wins with the numbers of the arrows', () => {
    const answerOfCosines = (first: number, others: number) => {
      const { head } = headOf('qk_cos', [0, NaN, NaN, first, others, NaN, first, others, 0]);
      const key_norm = tensor([2, 2, 3], Array(12).fill(1));
      return answer('geometry', {
        head: { ...head, tensors: { ...head.tensors, key_norm } },
      } as never);
    };
    expect(answerOfCosines(0.6, -0.5)).toMatchSnapshot();
    expect(answerOfCosines(-0.2, 0.3)).toMatchSnapshot();
    expect(answer('geometry')).toMatchSnapshot();
  });

  it('says how much a head writes, not only where it attends', () => {
    const answerOfShares = (gets: number, writes: number) => {
      const uniformOver = (x: number) => tensor([2, 2, 3], Array(12).fill(x));
      return answer(
        'contribution',
        {},
        { alpha: uniformOver(gets), contribution_out_at: uniformOver(writes) },
      );
    };
    expect(answerOfShares(0.9, 0.1)).toMatchSnapshot();
    expect(answerOfShares(0.9, 0.6)).toMatchSnapshot();
    expect(answerOfShares(0.4, 0.3)).toMatchSnapshot();
    expect(answerOfShares(0.1, 0.6)).toMatchSnapshot();
    expect(answerOfShares(0.1, 0.1)).toMatchSnapshot();
    // Exactly half, exactly a quarter and exactly ε do not exceed these bounds.
    expect(answerOfShares(0.5, 0.5)).toMatchSnapshot();
    expect(answerOfShares(0.9, 0.25)).toMatchSnapshot();
    const atEps = { alpha: tensor([2, 2, 3], Array(12).fill(0.25)) };
    const writes = (x: number) => ({ contribution_out_at: tensor([2, 2, 3], Array(12).fill(x)) });
    expect(answer('contribution', { eps: 0.25 }, { ...atEps, ...writes(0.125) })).toMatchSnapshot();
    expect(answer('contribution', { eps: 0.25 }, { ...atEps, ...writes(0.75) })).toMatchSnapshot();
  });

  it('covers vectors, next tokens, halves of the text and bias keys', () => {
    const answerOfNorms = (hidden: number, value: number) =>
      answer(
        'norms',
        {},
        {
          hidden_norm: tensor([2, 3], [hidden, 1, 1, 1, 1, 1]),
          value_norm: tensor([1, 2, 3], [value, 1, 1, value, 1, 1]),
        },
      );
    expect(answerOfNorms(9, 0.2)).toMatchSnapshot();
    expect(answerOfNorms(1, 1)).toMatchSnapshot();
    // A recording may count another token as the first.
    const secondIsFirst = {
      hidden_norm: tensor([1, 3], [1, 9, 1]),
      value_norm: tensor([1, 1, 3], [1, 0.2, 1]),
    };
    expect(
      answer('norms', { firstAt: { key: 1, isCommon: true } }, secondIsFirst),
    ).toMatchSnapshot();
    // “About as large” is at most a quarter more or a fifth less.
    expect(answerOfNorms(1.25, 1.25)).toMatchSnapshot();
    expect(answerOfNorms(1.375, 1.375)).toMatchSnapshot();
    const fifthLess = {
      hidden_norm: tensor([1, 3], [4, 5, 5]),
      value_norm: tensor([1, 1, 3], [4, 5, 5]),
    };
    expect(answer('norms', {}, fifthLess)).toMatchSnapshot();
    expect(answer('next', { next: [{ text: ' sea', probability: 0.5 }] })).toMatchSnapshot();
    const answerOfHalves = (first: number, second: number) =>
      answer(
        'loss',
        {},
        { loss_at: tensor([9], [NaN, ...Array(4).fill(first), ...Array(4).fill(second)]) },
      );
    expect(answerOfHalves(3, 2)).toMatchSnapshot();
    expect(answerOfHalves(2, 3)).toMatchSnapshot();
    expect(answerOfHalves(2, 2.05)).toMatchSnapshot();
    const architecture = { ...frameOf().architecture, bias_key: {} } as never;
    const answerOfBias = (share: number) =>
      answer('bias', { architecture }, { sink_ratio_bias: tensor([1], [share]) });
    expect(answerOfBias(0.6)).toMatch(/^In most heads, much/);
    expect(answerOfBias(0.2)).toMatch(/^In some heads/);
    expect(answerOfBias(0)).toMatch(/^In no heads/);
    expect(answerOfBias(0.5)).toMatch(/^In some heads/);
  });

  it('says whether the text is predicted worse, better or about equally well', () => {
    const answerOfEffect = (rise: number) =>
      answer('effects', {}, { effect: tensor([2, 2], [9, 9, rise, 9]) });
    expect(answerOfEffect(0.02)).toMatchSnapshot();
    expect(answerOfEffect(-0.02)).toMatchSnapshot();
    expect(answerOfEffect(0.009)).toMatchSnapshot();
    expect(answerOfEffect(0)).toMatch(/about as well/);
    expect(answerOfEffect(Infinity)).toBe('Which heads matter?');
    const loss = (x: number) => ({ loss_at: tensor([3], [NaN, x, x]) });
    const edits = [{ kind: 'silence' }] as never;
    const answerOfChange = (x: number, sequences = 1) =>
      answer('change', { edits, sequences, base: frameOf({}, loss(2)) } as never, loss(x));
    expect(answerOfChange(3)).toMatchSnapshot();
    // The losses of another text are not compared, also if it has as many tokens.
    const tokens = frameOf().tokens.map((token, t) => (t ? { ...token, id: token.id + 1 } : token));
    for (const otherTokens of [tokens, frameOf().tokens.slice(0, 2)]) {
      const base = frameOf({ tokens: otherTokens }, loss(2));
      expect(answer('change', { edits, base } as never, loss(3))).not.toMatch(/With this/);
    }
    expect(answerOfChange(1, 4)).toMatchSnapshot();
    expect(answer('change')).toMatchSnapshot();
    // Before any edit, the answer gives the result of hiding the first token, once it is measured.
    const answerOfHiding = (rise: number) =>
      answerOf(choiceOf('change', [frameOf()]), frameOf(), at, defaults, rise);
    expect(answerOfHiding(0.3)).toMatchSnapshot();
    expect(answerOfHiding(0.009)).toMatchSnapshot();
    expect(answerOfHiding(NaN)).toMatchSnapshot();
  });

  it('says that the first token matters even if ablating the one head changes little', () => {
    const answerOfEffects = (rise: number, hidden?: number) => {
      const frame = frameOf({}, { effect: tensor([2, 2], [9, 9, rise, 9]) });
      return answerOf(choiceOf('effects', [frame]), frame, at, defaults, hidden);
    };
    expect(answerOfEffects(0.009, 0.01)).toMatchSnapshot();
    expect(answerOfEffects(-0.009, 0.3)).toMatchSnapshot();
    for (const [rise, hidden] of [[0.009, 0.009], [0.02, 0.3], [0], [0, NaN]] as [
      number,
      number?,
    ][])
      expect(answerOfEffects(rise, hidden)).toMatch(/^Without this one head/);
  });

  it('says what ablating all dormant heads does', () => {
    const wordsOf = (dormant: number, sinks: number, rise: number | undefined) =>
      dormantWords({ dormant, sinks }, rise);
    expect(wordsOf(9, 15, undefined)).toMatchSnapshot();
    expect(wordsOf(9, 9, 0.004)).toMatchSnapshot();
    expect(wordsOf(2, 3, -0.25)).toMatch(/Without all 2 at once: −0\.250\.$/);
    expect(wordsOf(2, 3, NaN)).toBe('');
  });

  it('has no symbols; a picture without an answer shows its question', () => {
    expect(answer('compression')).toMatchSnapshot();
    for (const { tabs } of QUESTIONS)
      for (const view of tabs.flatMap((one) => one.views)) {
        const text = answer(view.name);
        expect(text.length).toBeGreaterThan(10);
        if (text !== view.question) expect(text).not.toMatch(/[αε‖₁=]/u);
      }
  });

  it('names the first token, and explains it if it is a special token', () => {
    expect(firstTokenClause(frameOf())).toMatchSnapshot();
    const plainTokens = frameOf().tokens.map((one) => ({ ...one, special: false }));
    expect(firstTokenClause(frameOf({ tokens: plainTokens }))).toBe('the first token is “<s>”');
    const firstAt = { key: 0, isCommon: false };
    expect(firstTokenClause(frameOf({ tokens: plainTokens, firstAt }))).toMatchSnapshot();
  });
});
