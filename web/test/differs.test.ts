import { describe, expect, it } from 'vitest';
import { differencesOf, pathWords, valueWords } from '../src/rooms/differs';

describe('differences of configs', () => {
  const softmax = { L: 6, norm: 'rms', windows: [null, null], attention: { operation: 'softmax' } };
  const sigmoid = {
    ...softmax,
    attention: { operation: 'sigmoid', parameters: { bias: -4.852030277 } },
    new_field: { of_tomorrow: true },
  };

  it('are found at any depth, in keys that the code does not know', () => {
    expect(differencesOf([softmax, sigmoid])).toMatchSnapshot();
  });

  it('are written as prose', () => {
    expect(valueWords([null, null, 512, 512, null])).toBe('none ×2, 512 ×2, none');
    expect(valueWords([{ G: 2, K: 8 }, ...[1, 2].map(() => ({ G: 1, K: 14 }))])).toMatchSnapshot();
    expect([
      valueWords(null),
      valueWords(false),
      valueWords(1449600),
      valueWords('gelu_tanh'),
      valueWords([]),
    ]).toEqual(['none', 'no', '1,449,600', 'gelu tanh', 'none']);
    expect(pathWords(['rotary', 'theta'], { L: 'layers' })).toBe('rotary theta');
    expect(pathWords(['constructor'], {})).toBe('constructor');
  });
});
