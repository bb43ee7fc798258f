// @vitest-environment happy-dom
/** A lesson has one text, which goes from figure to figure, to other rooms, and back. */
import { beforeEach, describe, expect, it } from 'vitest';
import { lessons } from '../ship/lessons';
import { followsText, shareText } from '../src/learn/one_text';
import { rememberedText } from '../src/page/my_text';
import { turn } from './fixture';

const TEXTS = [
  'Hello',
  'the '.repeat(12).trim(),
  '注意力机制为什么总是看第一个词？',
  'def f(x):\n    return x ** 2',
  '🌊🐚 the tide came back',
  'Es war einmal eine alte Frau, die lebte allein.',
];

beforeEach(() => {
  document.body.replaceChildren();
  sessionStorage.clear();
});

/** Returns elements with the attributes of a lesson's figures. */
const elementsOf = (figures: ReturnType<typeof lessons>[number]['figures']) =>
  figures.map(({ state }) => {
    const element = document.createElement('div');
    for (const [name, value] of Object.entries(state))
      if (value !== undefined) element.setAttribute(name, String(value));
    document.body.append(element);
    return element;
  });

describe.each(lessons().map((lesson) => [lesson.slug, lesson] as const))('%s', (_, { figures }) => {
  it('shows a text in every figure of the lesson’s text, and in no other', async () => {
    const elements = elementsOf(figures);
    const followers = elements.filter(followsText);
    const others = elements.filter((element) => !followers.includes(element));
    const promptsOf = (some: readonly Element[]) => some.map((one) => one.getAttribute('prompt'));
    const before = promptsOf(others);
    shareText(elements);
    const changeable = followers.filter((element) =>
      element.getAttribute('controls')?.includes('text'),
    );
    for (const [i, text] of TEXTS.entries()) {
      changeable[i % changeable.length]?.setAttribute('prompt', text);
      await turn();
      if (!changeable.length) continue;
      expect(promptsOf(followers)).toEqual(followers.map(() => text));
      expect(rememberedText()).toBe(text);
    }
    expect(promptsOf(others)).toEqual(before);
  });
});

describe('the text of another room', () => {
  it('is offered above the first figure that can be changed, and then goes to all', async () => {
    sessionStorage.setItem('sinkscope:text', TEXTS[2]!);
    const elements = elementsOf(lessons()[0]!.figures);
    shareText(elements);
    const [button] = document.querySelectorAll('button');
    expect(button!.textContent).toMatchSnapshot();
    button!.click();
    await turn();
    for (const element of elements.filter(followsText))
      expect(element.getAttribute('prompt')).toBe(TEXTS[2]);
    expect(document.querySelector('button')).toBe(null);
  });

  it('is not offered where the reader has typed none', () => {
    shareText(elementsOf(lessons()[0]!.figures));
    expect(document.querySelector('button')).toBe(null);
  });
});
