/** Student's t, without imports, so that the build reads this file, too. */
const COVERAGE = 0.95;

/** Returns the probability that |t| is at most √ν tan θ (Abramowitz and Stegun 1964, 26.7.3 and 26.7.4). */
function probabilityWithin(theta: number, degrees: number): number {
  const isOdd = degrees % 2 === 1;
  const cosine = Math.cos(theta);
  let term = isOdd ? cosine : 1;
  let sum = degrees > 1 ? term : 0;
  for (let k = isOdd ? 3 : 2; k <= degrees - 2; k += 2) sum += term *= ((k - 1) / k) * cosine ** 2;
  return isOdd ? (2 / Math.PI) * (theta + Math.sin(theta) * sum) : Math.sin(theta) * sum;
}

/**
 * Returns the 97.5th percentile of Student's t.
 * @param degrees the degrees of freedom ν, a whole number from 1 on
 */
export function studentT(degrees: number): number {
  let [low, high] = [0, Math.PI / 2];
  // Ends when no floating-point number is inside the interval.
  for (;;) {
    const middle = (low + high) / 2;
    if (middle === low || middle === high) return Math.sqrt(degrees) * Math.tan(low);
    if (probabilityWithin(middle, degrees) < COVERAGE) low = middle;
    else high = middle;
  }
}
