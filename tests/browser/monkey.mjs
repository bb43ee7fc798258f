/**
 * Checks that random clicks, keys, links and rooms, in an order that a seed gives, cause no error. SINKSCOPE_MONKEY_ACTS
 * is their number; SINKSCOPE_MONKEY_SEED is the seed of the order.
 */
import assert from 'node:assert/strict';
import { settled } from './stage.mjs';

const ACTS = Number(process.env.SINKSCOPE_MONKEY_ACTS ?? 200);
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

function createRandom(seed) {
  let a = seed >>> 0;
  return () => {
    a = (Math.imul(a, 1664525) + 1013904223) >>> 0;
    return a / 2 ** 32;
  };
}

export const monkey = {
  async 'two hundred random actions cause no error'(stage) {
    const page = await stage.open();
    const draw = createRandom(SEED);
    const clickSomething = () =>
      page.evaluate((share) => {
        const open = document.querySelector('dialog[open]');
        const candidates = [
          ...(open ?? document).querySelectorAll(
            'button, a[href^="#"], summary, select, input, .heatmap, .chart-picture',
          ),
        ];
        const usable = candidates.filter(
          (element) =>
            element.checkVisibility() &&
            !element.disabled &&
            element.type !== 'file' &&
            !/Link|Open another|Open a model|Look up|CSV|JSON|SVG|PNG/.test(element.textContent),
        );
        const element = usable[Math.floor(share * usable.length)];
        if (!element) return;
        if (element.localName === 'select') {
          element.selectedIndex = Math.floor(share * 7919) % element.options.length;
          element.dispatchEvent(new Event('change', { bubbles: true }));
        } else if (element.localName === 'input' && /range|number/.test(element.type)) {
          element.value = String(Math.floor(share * 97));
          element.dispatchEvent(
            new Event(element.type === 'range' ? 'input' : 'change', { bubbles: true }),
          );
        } else
          element.dispatchEvent(
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
    for (let actCount = 1; actCount <= ACTS; actCount++) {
      await acts[Math.floor(draw() * acts.length)]();
      await page.waitForTimeout(draw() * 120);
      // Enter in the dialog is a request to open the model that is named there.
      const troubles = page.troubles.filter((text) => !text.includes('https://huggingface.co/'));
      assert.deepEqual(troubles, [], `after ${actCount} acts, seed ${SEED}`);
    }
    for (let i = 0; i < 3; i++) await page.keyboard.press('Escape');
    await page.evaluate(() => (location.hash = '#room=explore&n=1'));
    const picture = page.locator('[data-room="explore"] [data-view="attention"] canvas').first();
    // A stopped run stays stopped until the reader asks again.
    const retryButton = page.getByRole('button', { name: 'Try again' });
    try {
      await picture.or(retryButton).first().waitFor();
      if (await retryButton.isVisible()) await retryButton.click();
      await picture.waitFor();
    } catch (cause) {
      const bodyText = (await page.innerText('body')).replaceAll('\n', ' · ');
      throw new Error(`nothing is drawn at ${page.url()}: ${bodyText}`, { cause });
    }
    await settled(page);
    return `seed ${SEED}`;
  },
};
