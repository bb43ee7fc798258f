/** How fast bytes come, and how long the rest will take. */

/** Over how many seconds the rate is smoothed. */
const SECONDS = 3;

/**
 * A function that takes how much is done, and returns what is known of the rest. The rate is
 * an exponential mean, so that one stall or one burst does not throw it about.
 * @param {() => number} [now] in milliseconds
 * @returns {(done: number, total: number) => { rate: number, remaining: number }} bytes a second and
 *   seconds; NaN until they are known
 */
export function createMeter(now = () => performance.now()) {
  let before = now();
  let bytes = 0;
  let rate = NaN;
  return (done, total) => {
    const time = now();
    const passed = (time - before) / 1000;
    if (passed > 0 && done > bytes) {
      const current = (done - bytes) / passed;
      const weight = Number.isNaN(rate) ? 1 : 1 - Math.exp(-passed / SECONDS);
      rate = weight === 1 ? current : rate + weight * (current - rate);
      before = time;
      bytes = done;
    }
    return { rate, remaining: (total - done) / rate };
  };
}
