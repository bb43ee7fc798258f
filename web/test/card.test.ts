import { describe, expect, it } from 'vitest';
import { linesOf } from '../src/save/card';

const upTo = (most: number) => (line: string) => line.length <= most;

describe('the picture to share', () => {
  it('breaks a sentence between words, and none is lost', () => {
    const text = 'The old man sat at the door and looked over the water.';
    const lines = linesOf(text, 9, upTo(20));
    expect(lines.every((line) => line.length <= 20)).toBe(true);
    expect(lines.join(' ')).toBe(text);
  });

  it('breaks a text without spaces, and one that is too long ends in an ellipsis', () => {
    expect(linesOf('字'.repeat(36), 9, upTo(12))).toEqual(Array(3).fill('字'.repeat(12)));
    const lines = linesOf('word '.repeat(100), 2, upTo(15));
    expect(lines).toEqual(['word word word', 'word word word…']);
    expect(linesOf('one two three four five', 3, upTo(5))).toEqual(['one', 'two', 'three…']);
    expect(linesOf('  one\n two  ', 1, upTo(9))).toEqual(['one two']);
    expect(linesOf('', 1, upTo(9))).toEqual([]);
  });
});
