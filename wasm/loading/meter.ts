/** Measures the rate of a download and estimates the remaining time. */

/** Time constant of the smoothing, in seconds. */
const SECONDS = 3;

/**
 * Returns a function that takes the progress and returns rate and remaining time. The rate is an
 * exponential mean, so that one stall or burst does not distort it.
 * @param now in milliseconds
 * @returns bytes per second
 * and seconds; NaN until known
 */
export function createMeter(
  now: () => number = () => performance.now(),
): (done: number, total: number) => { rate: number; remaining: number } {
  let before = now();
  let bytes = 0;
  let rate = NaN;
  return (done, total) => {
    const time = now();
    const elapsed = (time - before) / 1000;
    if (elapsed > 0 && done > bytes) {
      const current = (done - bytes) / elapsed;
      const weight = Number.isNaN(rate) ? 1 : 1 - Math.exp(-elapsed / SECONDS);
      rate = weight === 1 ? current : rate + weight * (current - rate);
      before = time;
      bytes = done;
    }
    return { rate, remaining: (total - done) / rate };
  };
}
