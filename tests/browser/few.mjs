/**
 * Checks how few things are in view at a time: the controls and the words that are in view when a room is opened, at
 * 1280x800. The numbers here may be lowered and never raised.
 */
import assert from 'node:assert/strict';
import { goTo, settled } from './stage.mjs';

/** The largest numbers of [controls, words of the room] in view, by room. */
const MAX_COUNTS = {
  start: [16, 97],
  explore: [35, 160],
  compare: [26, 115],
  training: [18, 90],
  purpose: [19, 100],
  lab: [16, 75],
};

/**
 * Counts what is in view: the controls, without glossary words and cells of maps (the grid of all
 * heads is one tab stop), and the room's words outside maps, charts and the reader's own text. A number is no word.
 */
function count() {
  const isInView = (element) => {
    const { width, height, top, bottom, left, right } = element.getBoundingClientRect();
    return (
      width > 1 &&
      height > 1 &&
      top < innerHeight &&
      bottom > 0 &&
      left < innerWidth &&
      right > 0 &&
      // What is clipped away is for screen readers.
      getComputedStyle(element).clipPath === 'none' &&
      element.checkVisibility({ visibilityProperty: true, opacityProperty: true })
    );
  };
  const controlSelector = 'a[href], button, input, select, textarea, summary';
  const controls = [...document.querySelectorAll(controlSelector)].filter(
    (element) => !element.matches('.term') && isInView(element),
  );
  const pictureSelector = '.map-inner, .thumbs, svg, .chips, .text-strip, option, script, style';
  const walker = document.createTreeWalker(document.querySelector('main'), NodeFilter.SHOW_TEXT);
  let words = 0;
  for (let node = walker.nextNode(); node; node = walker.nextNode())
    if (!node.parentElement.closest(pictureSelector) && isInView(node.parentElement))
      words += node.data.match(/\S*\p{L}\S*/gu)?.length ?? 0;
  return [controls.length, words];
}

export const few = {
  async 'every room shows few controls and words at a time'(stage) {
    const counts = {};
    const page = await stage.open();
    await page.setViewportSize({ width: 1280, height: 800 });
    for (const room of Object.keys(MAX_COUNTS)) {
      await goTo(page, `room=${room}`);
      // The first picture of the room may be inside a folded section, so only visible ones count.
      // The lab says that it loads until both models are there.
      const picture = room === 'lab' ? '.lab-guess button:enabled' : 'canvas';
      await page.waitForSelector(`.room-${room} ${picture} >> visible=true`);
      await settled(page);
      counts[room] = await page.evaluate(count);
    }
    for (const [room, [controls, words]] of Object.entries(MAX_COUNTS)) {
      assert.ok(counts[room][0] <= controls, `${counts[room][0]} controls in ${room}`);
      assert.ok(counts[room][1] <= words, `${counts[room][1]} words in ${room}`);
    }
    return JSON.stringify(counts);
  },

  async 'the button is on Start’s first screen, whatever its text and the notes about it'(stage) {
    const texts = {
      '': '',
      'a text of bytes': '注意力机制为什么总是看第一个词？',
      'a text of bytes that is cut': 'لماذا تنظر النماذج إلى الكلمة الأولى؟',
      'a text with a later sink, without a start token': '注意力机制为什么总是看第一个词？',
      'the default text, without a start token': '',
      'a text of two lines': 'The old man sat at the door and looked over the water. '.repeat(3),
    };
    const bottoms = [];
    for (const [name, text] of Object.entries(texts)) {
      const without = name.includes('without') ? '&first=none' : '';
      const head = name.includes('later') ? '&layer=1&head=0' : '';
      const page = await stage.open(
        `${text && `prompt=${encodeURIComponent(text)}`}${without}${head}`,
      );
      await page.setViewportSize({ width: 1280, height: 800 });
      await settled(page);
      assert.equal(await page.locator('[data-no-start]').count(), without ? 1 : 0, name);
      const bottom = await page
        .locator('.start-ask button')
        .evaluate((button) => button.getBoundingClientRect().bottom);
      assert.ok(bottom <= 800, `${bottom} with ${name}`);
      bottoms.push(Math.round(bottom));
      await page.close();
    }
    return bottoms.join(', ');
  },
};
