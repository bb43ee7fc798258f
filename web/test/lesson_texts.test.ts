// @vitest-environment happy-dom
/**
 * Lessons' statements about a figure hold on seven texts that a reader may type. The test runs each figure with an
 * editable text on all of them; of the cases of a sentence, one must hold on each text.
 */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { lessons } from '../ship/lessons';
import { defaults, parseHash } from '../src/ask/state';
import { selectedHead } from '../src/frame';
import { isTrue, namesIn } from '../src/learn/conditions';
import { formattedValue } from '../src/learn/values';
import { views } from '../src/views/index';
import { openPage } from './engine';
import { isBuilt, PATIENCE, UNBUILT } from './fixture';

const TEXTS: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  'the first text': {},
  'one word': { prompt: 'Hello' },
  'no start token': { first: 'none' },
  'one word repeated': { prompt: 'the '.repeat(40).trim() },
  '100 tokens': {
    prompt:
      'Once upon a time there was a king who had three sons, and the youngest was called the fool. ' +
      'He went out into the wood to cut down a tree, and there he met a little old man who asked him for bread. ' +
      'He gave him half of all that he had, and they sat by the water until the sun was gone and the moon came.',
  },
  'nine tokens': { prompt: 'Once upon a time there was a king' },
  'another language': {
    prompt: 'Es war einmal eine alte Frau, die lebte allein in einem Haus am Rand des Waldes.',
  },
};

/** The threshold of the lessons, in percent. */
const EPS = 100 * defaults.eps;

type Page = Awaited<ReturnType<typeof openPage>>;
let page: Page;
beforeAll(async () => {
  if (!isBuilt) return;
  page = await openPage();
}, PATIENCE.timeout);
afterAll(() => page?.close());

const allLessons = lessons();
const figures = allLessons.flatMap(({ figures: lessonFigures, conditionalSentences }) =>
  lessonFigures
    .filter(({ state }) => /\btext\b/.test(state.controls ?? ''))
    .map(({ id, state }) => ({
      id,
      state,
      conditionalSentences: conditionalSentences.filter(({ figure }) => figure === id),
    })),
);

async function readerOn(state: Readonly<Record<string, string>>, text: object) {
  const hash = new URLSearchParams({ ...state, ...text });
  for (const name of ['controls', 'id']) hash.delete(name);
  const { state: linkState, problems } = parseHash(hash.toString());
  expect(problems).toEqual([]);
  const view = views.find(({ name }) => name === linkState.view)!;
  const frames = await page.framesOf(linkState.shown, linkState);
  const results = frames.map((frame) => ({
    ...{ subject: frame.subject, T: frame.T, eps: frame.eps },
    tokens: frame.tokens.map((token) => token.text),
    numbers: view.numbers(frame, selectedHead(frame, linkState)),
  }));
  return (name: string) => formattedValue(name, results);
}

describe('conditional sentences of a lesson', () => {
  it('refer to a figure whose text a reader can change', () => {
    const ids = figures.map(({ id }) => id);
    for (const { conditionalSentences } of allLessons)
      for (const { figure } of conditionalSentences) expect(ids, figure).toContain(figure);
    expect(
      figures.filter(({ conditionalSentences }) => conditionalSentences.length).length,
    ).toBeGreaterThan(5);
  });

  for (const { id, state, conditionalSentences } of figures.filter(
    (figure) => figure.conditionalSentences.length,
  ))
    it(`${id}: exactly one case is true on each of the texts`, PATIENCE, async ({ skip }) => {
      skip(!isBuilt, UNBUILT);
      const groups = [...new Set(conditionalSentences.map(({ group }) => group))];
      for (const [name, text] of Object.entries(TEXTS)) {
        const read = await readerOn(state, text);
        for (const group of groups) {
          const cases = conditionalSentences.filter((sentence) => sentence.group === group);
          const numbers = cases.flatMap(({ condition }) => namesIn(condition));
          const values = Object.fromEntries(numbers.map((name) => [name, read(name)]));
          const trueCases = cases.filter(({ condition }) => isTrue(condition, read));
          expect(
            trueCases.map((trueCase) => trueCase.text),
            `${name}: ${JSON.stringify(values)} of ${cases.map((groupCase) => groupCase.condition).join('; ')}`,
          ).toHaveLength(1);
          // What a sentence says of uniform attention and the threshold is true of the text.
          const exceeds = /uniform attention alone exceeds the threshold/.test(trueCases[0]!.text);
          if (/\btokens\b/.test(trueCases[0]!.condition))
            expect(parseFloat(read('uniform')) > EPS, name).toBe(exceeds);
        }
      }
    });
});

describe('a condition', () => {
  const read = (name: string) =>
    ({ alpha: '93%', uniform: '15%', rise: '−0.20', none: '–' })[name]!;
  it('compares numbers as they are printed', () => {
    expect(isTrue('alpha > 6 uniform', read)).toBe(true);
    expect(isTrue('alpha > 6.2 uniform', read)).toBe(false);
    expect(isTrue('alpha > 50% and rise < 0', read)).toBe(true);
    expect(isTrue('alpha > 50% and rise > 0', read)).toBe(false);
    expect(isTrue('none > 0', read) || isTrue('none < 1', read)).toBe(false);
  });
  it('is rejected if it cannot be read', () => {
    expect(() => isTrue('alpha', read)).toThrow(/two values with < or >/);
    expect(() => isTrue('alpha = 3', read)).toThrow(/two values with < or >/);
    expect(() => isTrue('alpha > -3', read)).toThrow(/expected a number or the name/);
  });
});
