/** Keeps the reader's guesses about pairs of labs in the browser, as the trainings are kept. */
import { withoutSteps } from './presets';
import { OUTCOMES, type Outcome, type Runs } from './words';

const keyOf = (runs: Runs) =>
  `sinkscope:guess ${withoutSteps(runs.leftRun)} ${withoutSteps(runs.rightRun)}`;

/** Returns the guess about a pair, however many steps it trains; undefined without one. */
export function guessOf(runs: Runs): Outcome | undefined {
  try {
    return OUTCOMES.find((outcome) => outcome === localStorage.getItem(keyOf(runs)));
  } catch {
    // The browser stores nothing.
    return undefined;
  }
}

/** Stores a guess about a pair; forgets it if there is none. */
export function keepGuess(runs: Runs, guess: Outcome | undefined): void {
  if (guess === guessOf(runs)) return;
  try {
    localStorage.setItem(keyOf(runs), guess ?? '');
  } catch {
    // Then the training goes without a guess.
  }
}
