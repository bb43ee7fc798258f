/** What the other controls do: the mean over sequences, the stop button, the theme. */
import assert from 'node:assert/strict';
import { chips, settled, text } from './stage.mjs';

const button = '#generate button';
const ground = (page) => page.evaluate(() => getComputedStyle(document.body).backgroundColor);

async function themed(page, theme) {
  await page.locator('#links select').selectOption(theme);
  await page.waitForFunction(
    (name) => new URLSearchParams(location.hash.slice(1)).get('theme') === name,
    theme,
  );
  assert.equal(await page.getAttribute('html', 'data-theme'), theme);
  return ground(page);
}

export const controls = {
  async 'several sequences are averaged, and every figure says whether it is'(stage) {
    const page = await stage.open('b=&T=16');
    const field = page.locator('label', { hasText: 'sequences' }).locator('input').first();
    await field.fill('5');
    await field.press('Enter');
    await page.waitForFunction(() =>
      /mean of 5 sequences/.test(document.querySelector('#sinks .side-a .conditions').textContent),
    );
    await settled(page);
    const stamp = (view) => text(page, `#${view} .side-a .stamp`);
    for (const view of ['scores', 'mass', 'next'])
      assert.match(await stamp(view), /T = 16 .* mean of 5 sequences/);
    for (const view of ['attention', 'heads', 'geometry', 'norms'])
      assert.match(await stamp(view), /T = 16 .* 1 sequence · /);
    assert.match(await text(page, '#next .side-a .conditions'), /the first of them is continued/);
    await page.waitForFunction(() => /n=5/.test(location.hash));
    assert.deepEqual(page.troubles, []);
  },

  async 'generation can be stopped, and what was made stays'(stage) {
    const page = await stage.open('T=20&b=');
    await page.click(button);
    // Stopped from inside the page, at the first token: a click from here may come after the last.
    await page.evaluate(
      (name) =>
        new Promise((done) => {
          const look = () => {
            if (!document.querySelector('.chip.made')) return void requestAnimationFrame(look);
            document.querySelector(name).click();
            done();
          };
          look();
        }),
      button,
    );
    await page.waitForFunction(
      (name) => /Generate/.test(document.querySelector(name).textContent),
      button,
    );
    await settled(page);
    const made = await page.locator('.chip.made').count();
    assert.ok(made >= 1 && made < 16, `${made} tokens were made`);
    assert.equal((await chips(page)).length, 20 + made);
    assert.match(
      await text(page, '#next .side-a .conditions'),
      new RegExp(`${made} of the tokens`),
    );
    assert.deepEqual(page.troubles, []);
    return `after ${made} of 16 tokens`;
  },

  async 'the theme is chosen against the system’s, and stands in the link'(stage) {
    const page = await stage.open('', { scheme: 'dark' });
    const system = await ground(page);
    const light = await themed(page, 'light');
    assert.notEqual(light, system);
    assert.equal(await themed(page, 'dark'), system);
    const other = await stage.open('theme=light', { scheme: 'dark' });
    assert.equal(await ground(other), light);
  },

  async 'both sides open at the same head, whichever is ready first'(stage) {
    // The two sides race: pages that open side by side let either win.
    for (let i = 0; i < 4; i++) {
      const options = { file: 'embed.html' };
      const pages = await Promise.all([1, 2].map(() => stage.open('view=geometry', options)));
      for (const page of pages) {
        const said = await page.locator('#geometry .subtitle').allTextContents();
        const [a, b] = said.map((one) => one.split(' · ')[0]);
        assert.match(a, /^layer \d+, head \d+$/);
        assert.equal(b, a);
      }
      await stage.clear();
    }
  },
};
