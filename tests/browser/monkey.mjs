/**
 * Checks that random clicks, keys, links and rooms, in an order that a seed gives, cause no error. SINKSCOPE_MONKEY_S
 * is the number of seconds; SINKSCOPE_MONKEY_SEED is the seed of the order.
 */
import assert from 'node:assert/strict';
import { settled } from './stage.mjs';

const SECONDS = Number(process.env.SINKSCOPE_MONKEY_S ?? 30);
const SEED = Number(process.env.SINKSCOPE_MONKEY_SEED ?? 1);
const HASHES = [
  'room=compare&shown=softmax,sigmoid,alibi&input=file',
  'room=compare&shown=softmax,sigmoid&input=random',
  'room=training&shown=softmax@100,sigmoid@100',
  'room=explore&shown=diffusion&view=unmasking',
  'room=explore&shown=experts,gated&view=router',
  'room=start&why=4',
  'room=purpose&experiment=cache&shown=softmax,gated&runs=2&length=40',
  'shown=softmax~relu,softmax@nonsense',
  '',
];

function draws(seed) {
  let a = seed >>> 0;
  return () => {
    a = (Math.imul(a, 1664525) + 1013904223) >>> 0;
    return a / 2 ** 32;
  };
}

export const monkey = {
  async 'half a minute of random actions causes no error'(stage) {
    const page = await stage.open();
    const draw = draws(SEED);
    const end = Date.now() + 1000 * SECONDS;
    let done = 0;
    const clickSomething = () =>
      page.evaluate((share) => {
        const open = document.querySelector('dialog[open]');
        const all = [
          ...(open ?? document).querySelectorAll(
            'button, a[href^="#"], summary, select, input, .heatmap, .chart-picture',
          ),
        ];
        const seen = all.filter(
          (one) =>
            one.checkVisibility() &&
            !one.disabled &&
            one.type !== 'file' &&
            !/Link|Open another|Open a model|Look up|CSV|JSON|SVG|PNG/.test(one.textContent),
        );
        const one = seen[Math.floor(share * seen.length)];
        if (!one) return;
        if (one.localName === 'select') {
          one.selectedIndex = Math.floor(share * 7919) % one.options.length;
          one.dispatchEvent(new Event('change', { bubbles: true }));
        } else if (one.localName === 'input' && /range|number/.test(one.type)) {
          one.value = String(Math.floor(share * 97));
          one.dispatchEvent(
            new Event(one.type === 'range' ? 'input' : 'change', { bubbles: true }),
          );
        } else
          one.dispatchEvent(
            new MouseEvent('click', {
              bubbles: true,
              cancelable: true,
              clientX: 300 + share * 99,
              clientY: 400,
            }),
          );
      }, draw());
    const acts = [
      clickSomething,
      clickSomething,
      clickSomething,
      () =>
        page.evaluate((hash) => (location.hash = hash), HASHES[Math.floor(draw() * HASHES.length)]),
      () =>
        page.keyboard.press(['Tab', 'ArrowDown', 'Escape', 'End', 'Enter'][Math.floor(draw() * 5)]),
      () =>
        page.evaluate(
          (words) => {
            const field = document.querySelector('textarea');
            if (!field) return;
            field.value = words;
            field.dispatchEvent(new Event('input', { bubbles: true }));
          },
          ['', 'a', 'The old man '.repeat(1 + Math.floor(draw() * 9))][Math.floor(draw() * 3)],
        ),
    ];
    while (Date.now() < end) {
      await acts[Math.floor(draw() * acts.length)]();
      await page.waitForTimeout(draw() * 120);
      done++;
      // Enter in the dialog is a request to open the model that is named there.
      const troubles = page.troubles.filter((one) => !one.includes('https://huggingface.co/'));
      assert.deepEqual(troubles, [], `after ${done} acts, seed ${SEED}`);
    }
    for (let i = 0; i < 3; i++) await page.keyboard.press('Escape');
    await page.evaluate(() => (location.hash = '#room=explore&n=1'));
    const picture = page.locator('[data-room="explore"] [data-view="attention"] canvas').first();
    // A stopped run stays stopped until the reader asks again.
    const again = page.getByRole('button', { name: 'Try again' });
    try {
      await picture.or(again).first().waitFor();
      if (await again.isVisible()) await again.click();
      await picture.waitFor();
    } catch (cause) {
      const said = (await page.innerText('body')).replaceAll('\n', ' · ');
      throw new Error(`nothing is drawn at ${page.url()}: ${said}`, { cause });
    }
    await settled(page);
    return `${done} acts, seed ${SEED}`;
  },
};
