/** Measures the rate of a download and estimates the remaining time. */

const SMOOTHING_SECONDS = 3;

/**
 * Returns a function that takes the progress in bytes and returns the rate in bytes per second and
 * the remaining seconds, both NaN until known. The rate is an exponential mean, so that one stall
 * or burst does not distort it.
 * @param now returns the time in milliseconds
 */
export function createMeter(
  now: () => number = () => performance.now(),
): (done: number, total: number) => { rate: number; remaining: number } {
  let lastTime = now();
  let bytes = 0;
  let rate = NaN;
  return (done, total) => {
    const time = now();
    const elapsed = (time - lastTime) / 1000;
    if (elapsed > 0 && done > bytes) {
      const currentRate = (done - bytes) / elapsed;
      const weight = Number.isNaN(rate) ? 1 : 1 - Math.exp(-elapsed / SMOOTHING_SECONDS);
      rate = weight === 1 ? currentRate : rate + weight * (currentRate - rate);
      lastTime = time;
      bytes = done;
    }
    return { rate, remaining: (total - done) / rate };
  };
}
