import type { SuffixResult } from 'sinkscope';
import { describe, expect, it } from 'vitest';
import { sentence, type Search } from '../src/views/suffix';

const result: SuffixResult = {
  suffix: [5, 6],
  score: 4.622,
  start: 3.96,
  path: [{ suffix: [5, 6], score: 4.622 }],
  evaluated: 1281,
  none: 3.428,
  random: { mean: 4.006, low: 3.767, high: 4.22, best: 4.374 },
  shuffled: 4.485,
  others: null,
};

describe('the sentence about a suffix search', () => {
  it('compares the suffix with random ones, and with the best of equally many', () => {
    const lossSearch: Search = {
      goal: 'loss',
      scores: [3.96, 4.622],
      found: result,
      text: ' was dear',
    };
    expect(sentence(lossSearch)).toMatchSnapshot();
  });

  it('shows weights as shares, whatever the sign of the score', () => {
    const randomScores = { mean: -0.391, low: -0.4, high: -0.38, best: -0.37 };
    const awayResult = {
      ...result,
      none: -0.405,
      score: -0.354,
      random: randomScores,
      shuffled: -0.358,
    };
    const words = sentence({ goal: 'away', scores: [], found: awayResult, text: 'x' });
    expect(words).toContain('attention from 40.5% to 35.4%');
    expect(words).toMatchSnapshot();
    const stealResult = {
      ...result,
      none: null,
      score: 0.08,
      random: { ...result.random, mean: 0.036, best: 0.075 },
    };
    const stealWords = sentence({ goal: 'steal', scores: [], found: stealResult, text: 'x' });
    expect(stealWords).toMatchSnapshot();
  });

  it('is empty before the search has ended', () => {
    expect(sentence({ goal: 'loss', scores: [1, 2] })).toBe('');
  });
});
