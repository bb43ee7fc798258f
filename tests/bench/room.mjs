/**
 * Measures how soon the experiments of “Why it matters” show something: the seconds from the click that enters the
 * room, with the two models of the first screen open, to the first sentence with numbers, and until all is measured. Then
 * the large sweep: 8 budgets, 6 policies, 20 prompts of 128 tokens, of one model. Needs an otherwise
 * idle machine; the minimum of three visits is printed.
 *
 *     npm --prefix web run build && node tests/bench/room.mjs
 */
import { openStage } from '../browser/stage.mjs';

const stage = await openStage();

/**
 * Runs in the page. Clicks a button that starts an experiment; returns the seconds until its sentence has a number
 * (`first`) and until it is finished (`whole`).
 */
const watchRoom = (page, selector) =>
  page.evaluate(async (selector) => {
    const startTime = performance.now();
    const seconds = () => (performance.now() - startTime) / 1000;
    document.querySelector(selector).click();
    let first;
    for (;;) {
      await new Promise((done) => requestAnimationFrame(done));
      const finding =
        document.querySelector('.experiments') && document.querySelector('[data-finding]');
      if (!finding || !/\d/.test(finding.textContent)) continue;
      first ??= seconds();
      if (document.body.dataset.busy === undefined) return { first, whole: seconds() };
    }
  }, selector);

const SETTINGS = [
  ['streaming', 'experiment=streaming'],
  ['cache', 'experiment=cache'],
  ['quantization', 'experiment=quantization'],
  ['quantization of weights', 'experiment=quantization&quantized=weights'],
  ['fragility: a token', 'experiment=fragility'],
  ['fragility: a channel', 'experiment=fragility&perturbation=channel'],
  ['fragility: a weight', 'experiment=fragility&perturbation=weight'],
  ['cache: the large sweep', 'experiment=cache&sweep=all&shown=softmax&length=128&runs=20'],
];
console.log('| bench | first numbers, s | all, s |\n|---|---|---|');
for (const [name, hash] of SETTINGS) {
  const visits = [];
  for (let visit = 0; visit < (hash.includes('sweep') ? 1 : 3); visit++) {
    const page = await stage.open(hash);
    visits.push(await watchRoom(page, 'nav a[href*="room=purpose"]'));
    await page.context().close();
  }
  const leastOf = (pick) => Math.min(...visits.map(pick)).toFixed(2);
  console.log(`| ${name} | ${leastOf(({ first }) => first)} | ${leastOf(({ whole }) => whole)} |`);
}
await stage.close();
