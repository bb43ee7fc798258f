import type { UnmaskStep } from 'sinkscope';
import { describe, expect, it } from 'vitest';
import {
  alphaMap,
  addMasks,
  MASK_SIGN,
  countMoves,
  positionWords,
  positionStates,
  quantities,
  sentence,
  type Course,
} from '../src/views/unmasking_course';
import type { Frame } from '../src/frame';

const tokenizer = { piece: (id: number) => `w${id}` };
const MASK = 9;

function frameOfTexts(texts: readonly string[], context = 8): Frame {
  return {
    architecture: { context, mask: { kind: 'bidirectional' } },
    maskToken: MASK,
    tokens: texts.map((text, id) => ({ id, text, start: 0, end: 0, special: false })),
  } as unknown as Frame;
}

/** Returns a step that fills these positions, and whose strongest column is at `place`. */
function createStep(
  tokens: number[],
  place: number,
  filled: readonly [number, number][],
): UnmaskStep {
  const data = Float32Array.from(tokens, (_, t) => (t === place ? 0.5 : 0.125));
  return {
    tokens,
    filled: filled.map(([at, probability]) => ({ place: at, token: tokens[at]!, probability })),
    alpha: { shape: [tokens.length], data },
    sink: { place, alpha: 0.5 },
    without: null,
  };
}

/**
 * Returns a course over “a b” and two masked positions: the second of them is filled first, and then draws the
 * attention.
 */
function createCourse(places: readonly [number, number] = [0, 3]): Course {
  const frame = frameOfTexts(['a', 'b']);
  const steps = [
    createStep([0, 1, MASK, 5], places[0], [[3, 0.75]]),
    createStep([0, 1, 6, 5], places[1], [[2, 0.5]]),
  ];
  return { frame, tokens: addMasks(frame, 2), count: 2, steps };
}

describe('adding masks', () => {
  it('appends them to the text', () => {
    const texts = addMasks(frameOfTexts(['a', 'b']), 2).map(({ text }) => text);
    expect(texts).toEqual(['a', 'b', MASK_SIGN, MASK_SIGN]);
  });

  it('shortens a text that leaves no room for masks, and keeps at least one token', () => {
    const longFrame = frameOfTexts(['a', 'b', 'c', 'd', 'e', 'f', 'g', 'h']);
    expect(addMasks(longFrame, 3).map(({ id }) => id)).toEqual([0, 1, 2, 3, 4, MASK, MASK, MASK]);
    expect(addMasks(longFrame, 99).map(({ id }) => id)).toEqual([0, ...Array(7).fill(MASK)]);
  });

  it('keeps [SEP] at the end, and the text between [CLS] and the masks', () => {
    const { tokens, ...rest } = frameOfTexts(['[CLS]', 'a', 'b', '[SEP]']);
    const markedTokens = tokens.map((token, i) => ({ ...token, special: i === 0 || i === 3 }));
    const idsWithMasks = (count: number) =>
      addMasks({ ...rest, tokens: markedTokens } as Frame, count).map(({ id }) => id);
    expect(idsWithMasks(2)).toEqual([0, 1, 2, MASK, MASK, 3]);
    expect(idsWithMasks(5)).toEqual([0, 1, ...Array(5).fill(MASK), 3]);
    expect(idsWithMasks(99)).toEqual([0, ...Array(6).fill(MASK), 3]);
  });
});

describe('a finished unmasking', () => {
  it('counts how often the strongest column moves', () => {
    expect(countMoves(createCourse().steps)).toBe(1);
    expect(countMoves(createCourse([2, 2]).steps)).toBe(0);
    const [a, b] = createCourse().steps as [UnmaskStep, UnmaskStep];
    expect(countMoves([a, b, a, a, b])).toBe(3);
    expect(countMoves([])).toBe(0);
  });

  it('names positions as in the run', () => {
    expect(sentence(createCourse(), tokenizer)).toMatchSnapshot();
    expect(sentence({ ...createCourse(), without: 'strongest' }, tokenizer)).toMatchSnapshot();
    expect(sentence({ ...createCourse(), without: 'random' }, tokenizer)).toMatchSnapshot();
    expect(sentence(createCourse([2, 2]), tokenizer)).toMatchSnapshot();
  });

  it('names a position by its token before the step', () => {
    const course = createCourse();
    expect(positionWords(course, 0, 3, tokenizer)).toBe('position 3 (masked)');
    expect(positionWords(course, 1, 3, tokenizer)).toBe('position 3 “w5”');
    expect(positionWords(course, 1, 2, tokenizer)).toBe('position 2 (masked)');
  });

  it('shows the state of each position after a step', () => {
    const kindsAfter = (s: number) =>
      positionStates(createCourse(), s, tokenizer).map(({ kind }) => kind);
    expect(kindsAfter(0)).toEqual(['kept', 'kept', 'hidden', 'now']);
    expect(kindsAfter(1)).toEqual(['kept', 'kept', 'now', 'filled']);
    const states = positionStates(createCourse(), 0, tokenizer);
    expect(states.map(({ text }) => text)).toEqual(['a', 'b', MASK_SIGN, 'w5']);
    expect(states.map(({ isSink }) => isSink)).toEqual([true, false, false, false]);
    expect(states[3]!.title).toMatchSnapshot();
  });

  it('has no numbers for steps that have not run', () => {
    const halfCourse = { ...createCourse(), steps: createCourse().steps.slice(0, 1) };
    expect([...alphaMap(halfCourse)]).toEqual([0.5, 0.125, 0.125, 0.125, NaN, NaN, NaN, NaN]);
  });

  it('is saved with each filled token and its step', () => {
    const savedQuantities = quantities(createCourse(), tokenizer);
    const dataOf = (name: string) => [
      ...(savedQuantities.find((quantity) => quantity.name === name)!.data as number[]),
    ];
    expect(dataOf('strongest_place')).toEqual([0, 3]);
    expect(dataOf('filled_in_step')).toEqual([NaN, NaN, 2, 1]);
    expect(dataOf('probability')).toEqual([NaN, NaN, 0.5, 0.75]);
    expect(savedQuantities[0]).toMatchObject({ shape: [2, 4], labels: ['a', 'b', 'w6', 'w5'] });
  });
});
