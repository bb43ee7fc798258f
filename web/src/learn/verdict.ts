/** Judges the reader's guesses, stores the verdicts in this browser, and counts them. */
type Verdict = 'right' | 'near' | 'wrong';

export type Judgment = { readonly verdict: Verdict; readonly sentence: string };

/** A guess is right or near up to these errors, as shares of the range of guesses. */
const RIGHT_ERROR = 0.03;
const NEAR_ERROR = 0.15;

export function judgeNumber(
  guess: number,
  answer: number,
  { min, max, unit }: { readonly min: number; readonly max: number; readonly unit: string },
): Judgment {
  const error = guess - answer;
  const errorShare = Math.abs(error) / (max - min);
  const unitWords = unit === '%' ? ' points' : unit;
  const size = Number(Math.abs(error).toFixed(2));
  if (errorShare <= RIGHT_ERROR)
    return { verdict: 'right', sentence: `Right: it is ${answer}${unit}.` };
  const direction = error > 0 ? 'too high' : 'too low';
  const correction = `${size}${unitWords} ${direction}; it is ${answer}${unit}.`;
  return errorShare <= NEAR_ERROR
    ? { verdict: 'near', sentence: `Near: ${correction}` }
    : { verdict: 'wrong', sentence: `Wrong: ${correction}` };
}

export const judgeChoice = (guess: string, answer: string): Judgment =>
  guess === answer
    ? { verdict: 'right', sentence: 'Right.' }
    : { verdict: 'wrong', sentence: `Wrong: the answer is “${answer}”.` };

/** A stored guess; `question` is the index of the question in its lesson. */
interface Guess {
  readonly lesson: string;
  readonly question: number;
  readonly guess: string;
  readonly verdict: Verdict;
}

const STORAGE_KEY = 'sinkscope:guesses';
const isGuess = (stored: unknown): stored is Guess => {
  const { lesson, question, guess, verdict } = Object(stored) as Record<string, unknown>;
  return (
    typeof lesson === 'string' &&
    typeof question === 'number' &&
    typeof guess === 'string' &&
    ['right', 'near', 'wrong'].includes(verdict as string)
  );
};

export function readGuesses(): readonly Guess[] {
  try {
    const storedGuesses: unknown = JSON.parse(localStorage.getItem(STORAGE_KEY) ?? '[]');
    return Array.isArray(storedGuesses) ? storedGuesses.filter(isGuess) : [];
  } catch {
    // The browser may forbid storage, or another program may have written the value.
    return [];
  }
}

export function keepGuess(guess: Guess): void {
  const otherGuesses = readGuesses().filter(
    ({ lesson, question }) => lesson !== guess.lesson || question !== guess.question,
  );
  try {
    localStorage.setItem(STORAGE_KEY, JSON.stringify([...otherGuesses, guess]));
  } catch {
    // If the browser stores nothing, the guess is judged but not counted.
  }
}

export function countWords(guesses: readonly Guess[], lesson: string): string {
  const verdictCounts = (counted: readonly Guess[]) =>
    (['right', 'near', 'wrong'] as const)
      .map((verdict) => `${counted.filter((guess) => guess.verdict === verdict).length} ${verdict}`)
      .join(', ');
  const lessonGuesses = guesses.filter((guess) => guess.lesson === lesson);
  if (!lessonGuesses.length) return '';
  const totalNote =
    lessonGuesses.length < guesses.length
      ? ` In all lessons so far: ${verdictCounts(guesses)}.`
      : '';
  return `Your predictions in this lesson: ${verdictCounts(lessonGuesses)}.${totalNote}`;
}
