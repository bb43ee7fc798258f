/** Measures the rate of a download and estimates the remaining time. */

const SMOOTHING_SECONDS = 3;

/**
 * Returns a function from progress in bytes to bytes per second and seconds left, NaN until known,
 * by an exponential mean, which one stall or burst does not distort; `now` is in milliseconds.
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
