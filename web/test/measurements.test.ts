import { expect, test } from 'vitest';
import { exchangeOf } from '../src/run/measurements';

test('an early token is exchanged for another of the text, never the first one', () => {
  expect(exchangeOf([0, 11, 12, 13, 14, 15, 16, 17], 1)).toEqual({ at: 5, token: 17 });
  expect(exchangeOf([11, 12, 13, 14, 15, 16, 15], 0)).toEqual({ at: 4, token: 16 });
  // A short text: the last but one becomes the last.
  expect(exchangeOf([0, 11, 12, 13], 1)).toEqual({ at: 2, token: 13 });
  expect(exchangeOf([0, 11, 12], 1)).toBeUndefined();
  expect(exchangeOf([0, 7, 7, 7, 7, 7, 7, 7], 1)).toBeUndefined();
  expect(exchangeOf([0], 1)).toBeUndefined();
});
