/** Verdicts on the reader's guesses, stored in this browser, and their counts. */
type Verdict = 'right' | 'near' | 'wrong';

export interface Judged {
  readonly verdict: Verdict;
  readonly said: string;
}

/** Parts of the range of possible guesses within which a guess is right, and near. */
const RIGHT = 0.03;
const NEAR = 0.15;

export interface Range {
  readonly min: number;
  readonly max: number;
  readonly unit: string;
}

export function judgeNumber(guess: number, answer: number, { min, max, unit }: Range): Judged {
  const off = guess - answer;
  const share = Math.abs(off) / (max - min);
  const points = unit === '%' ? ' points' : unit;
  const size = Number(Math.abs(off).toFixed(2));
  if (share <= RIGHT) return { verdict: 'right', said: `Right: it is ${answer}${unit}.` };
  const where = off > 0 ? 'too high' : 'too low';
  const by = `${size}${points} ${where}; it is ${answer}${unit}.`;
  return share <= NEAR
    ? { verdict: 'near', said: `Near: ${by}` }
    : { verdict: 'wrong', said: `Wrong: ${by}` };
}

export const judgeChoice = (guess: string, answer: string): Judged =>
  guess === answer
    ? { verdict: 'right', said: 'Right.' }
    : { verdict: 'wrong', said: `Wrong: the answer is “${answer}”.` };

/** A stored guess for a lesson's question; questions count from 0. */
export interface Guess {
  readonly lesson: string;
  readonly question: number;
  readonly guess: string;
  readonly verdict: Verdict;
}

const KEY = 'sinkscope:guesses';
const isGuess = (one: unknown): one is Guess => {
  const { lesson, question, guess, verdict } = Object(one) as Record<string, unknown>;
  return (
    typeof lesson === 'string' &&
    typeof question === 'number' &&
    typeof guess === 'string' &&
    ['right', 'near', 'wrong'].includes(verdict as string)
  );
};

export function readGuesses(): readonly Guess[] {
  try {
    const kept: unknown = JSON.parse(localStorage.getItem(KEY) ?? '[]');
    return Array.isArray(kept) ? kept.filter(isGuess) : [];
  } catch {
    // Storage may be forbidden, or hold what another program wrote.
    return [];
  }
}

export function keepGuess(guess: Guess): void {
  const others = readGuesses().filter(
    ({ lesson, question }) => lesson !== guess.lesson || question !== guess.question,
  );
  try {
    localStorage.setItem(KEY, JSON.stringify([...others, guess]));
  } catch {
    // A guess is judged without storage.
  }
}

/** The guesses of a lesson, and of all lessons, in words. */
export function countWords(guesses: readonly Guess[], lesson: string): string {
  const words = (of: readonly Guess[]) =>
    (['right', 'near', 'wrong'] as const)
      .map((verdict) => `${of.filter((one) => one.verdict === verdict).length} ${verdict}`)
      .join(', ');
  const own = guesses.filter((one) => one.lesson === lesson);
  if (!own.length) return '';
  const all = own.length < guesses.length ? ` In all lessons so far: ${words(guesses)}.` : '';
  return `Your predictions in this lesson: ${words(own)}.${all}`;
}
