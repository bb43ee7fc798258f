// @vitest-environment happy-dom
import { beforeEach, describe, expect, it } from 'vitest';
import { countWords, judgeChoice, judgeNumber, keepGuess, readGuesses } from '../src/learn/verdict';

const shareScale = { min: 0, max: 100, unit: '%' };
beforeEach(() => localStorage.clear());

describe('a guess', () => {
  it('is right, near, or wrong by an amount', () => {
    expect([judgeNumber(62, 63, shareScale), judgeNumber(53, 63, shareScale)]).toMatchSnapshot();
    expect(judgeNumber(95, 63, shareScale)).toMatchSnapshot();
    expect(judgeNumber(3, 15, { min: 0, max: 24, unit: '' }).sentence).toMatchSnapshot();
    expect(judgeChoice('One third', 'One third').verdict).toBe('right');
    expect(judgeChoice('Almost nothing', 'One third').sentence).toMatchSnapshot();
  });

  it('is stored and counted; a later guess replaces an earlier one for the same question', () => {
    const guess = { lesson: 'a', question: 0, guess: '3' };
    expect(countWords(readGuesses(), 'a')).toBe('');
    keepGuess({ ...guess, verdict: 'wrong' });
    keepGuess({ ...guess, verdict: 'near' });
    expect(countWords(readGuesses(), 'a')).toMatchSnapshot();
    keepGuess({ ...guess, question: 1, verdict: 'right' });
    expect(countWords(readGuesses(), 'a')).toMatchSnapshot();
    keepGuess({ ...guess, question: 1, verdict: 'wrong' });
    keepGuess({ ...guess, lesson: 'b', verdict: 'right' });
    expect(countWords(readGuesses(), 'a')).toMatchSnapshot();
  });

  it('ignores data of another program', () => {
    for (const storedText of ['{', '{}', '[1,{"lesson":"a"}]', 'null']) {
      localStorage.setItem('sinkscope:guesses', storedText);
      expect(readGuesses(), storedText).toEqual([]);
    }
    const guess = { lesson: 'a', question: 0, guess: '3', verdict: 'near' };
    const brokenGuesses = Object.keys(guess).map((name) => ({ ...guess, [name]: null }));
    localStorage.setItem('sinkscope:guesses', JSON.stringify([...brokenGuesses, guess]));
    expect(readGuesses()).toEqual([guess]);
  });
});
