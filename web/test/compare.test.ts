import { describe, expect, it } from 'vitest';
import type { Operation } from 'sinkscope';
import { linkable } from '../src/address';
import { differenceLine, differencesOf, placeWords, words } from '../src/compare/differs';
import {
  editsOf,
  MOST,
  parsePick,
  parsePicks,
  printPick,
  titleOf,
  toggled,
} from '../src/compare/picks';
import { picksOfSides } from '../src/compare/sides';
import { defaults } from '../src/state';

const operations = [
  { name: 'softmax', label: 'softmax', parameters: [] },
  { name: 'sigmoid', label: 'sigmoid', parameters: [{ name: 'bias' }] },
] as unknown as readonly Operation[];

describe('a pick', () => {
  const picks = {
    softmax: { kind: 'model', id: 'softmax' },
    'hub:a/b@step1000': { kind: 'model', id: 'hub:a/b@step1000' },
    'hub:a/b@refs/pr/1:c-d.gguf': { kind: 'model', id: 'hub:a/b@refs/pr/1:c-d.gguf' },
    'softmax@2000': { kind: 'step', id: 'softmax', step: 2000 },
    'softmax~sigmoid': { kind: 'edit', id: 'softmax', operation: 'sigmoid' },
    'hub:a/b@main~sigmoid=-4.5': {
      kind: 'edit',
      id: 'hub:a/b@main',
      operation: 'sigmoid',
      parameter: -4.5,
    },
  } as const;
  for (const [text, pick] of Object.entries(picks))
    it(`is read and written: ${text}`, () => {
      expect(parsePick(text)).toEqual(pick);
      expect(printPick(pick)).toBe(text);
    });

  for (const text of ['', '../x', 'a b', 'softmax~', 'softmax@', 'softmax@1~relu', 'a~b=1e9', '~x'])
    it(`is not: “${text}”`, () => expect(parsePick(text)).toBeUndefined());

  it('has a title that tells what is done to the model', () => {
    const title = (text: string) => titleOf(parsePick(text)!, 'Twin', operations);
    expect(['t', 't@5000', 't~sigmoid', 't~sigmoid=-2'].map(title)).toEqual([
      'Twin',
      'Twin at step 5,000',
      'Twin + sigmoid',
      'Twin + sigmoid (-2)',
    ]);
  });

  it('runs under its edit alone', () => {
    expect(editsOf(parsePick('t')!, operations)).toEqual([]);
    expect(editsOf(parsePick('t~sigmoid=-2')!, operations)).toEqual([
      { kind: 'operation', operation: 'sigmoid', parameters: { bias: -2 } },
    ]);
  });
});

describe('the picks of a link', () => {
  it('are each one once, at most six, with a sentence for what is left out', () => {
    const texts = ['a', 'a', '../b', 'c', 'd', 'e', 'f', 'g', 'h', 'c'];
    const { picks, problems } = parsePicks(texts);
    expect([...picks.keys()]).toEqual(['a', 'c', 'd', 'e', 'f', 'g']);
    expect(problems).toHaveLength(2);
    expect(problems.join()).toContain('“h” was left out');
  });

  it('grow and shrink, and stop at six', () => {
    expect(toggled(['a'], 'b')).toEqual(['a', 'b']);
    expect(toggled(['a', 'b'], 'a')).toEqual(['b']);
    const full = Array.from({ length: MOST }, (_, i) => `m${i}`);
    expect(toggled(full, 'one-more')).toEqual(full);
  });

  it('begin with what the two sides show', () => {
    const none = () => false;
    expect(picksOfSides(defaults, none)).toEqual(['softmax', 'sigmoid']);
    const swapped = { ...defaults, b: 'softmax', swapB: 'sigmoid', paramB: -2 };
    expect(picksOfSides(swapped, none)).toEqual(['softmax', 'softmax~sigmoid=-2']);
    expect(picksOfSides({ ...defaults, b: '' }, none)).toEqual(['softmax']);
    const early = { ...defaults, step: 400 };
    expect(picksOfSides(early, (id) => id === 'sigmoid')).toEqual(['softmax', 'sigmoid@400']);
  });

  it('hand on nothing that lies on the reader’s disk', () => {
    const own = { ...defaults, corpus: 'file', compare: ['own-1', 'a', 'own-2~relu'] } as const;
    expect(linkable(own)).toMatchObject({ compare: ['a'], corpus: defaults.corpus });
  });
});

describe('what differs', () => {
  const softmax = { L: 6, norm: 'rms', windows: [null, null], attention: { operation: 'softmax' } };
  const sigmoid = {
    ...softmax,
    attention: { operation: 'sigmoid', parameters: { bias: -4.852030277 } },
    new_field: { of_tomorrow: true },
  };

  it('is found at any depth, in fields that no code names', () => {
    expect(differencesOf([softmax, sigmoid])).toEqual({
      alike: 3,
      differences: [
        { path: ['attention', 'operation'], values: ['softmax', 'sigmoid'] },
        { path: ['attention', 'parameters', 'bias'], values: [undefined, '-4.85203'] },
        { path: ['new_field', 'of_tomorrow'], values: [undefined, 'yes'] },
      ],
    });
  });

  it('is a line', () => {
    const wide = { ...softmax, L: 12 };
    expect(differenceLine(differencesOf([softmax, wide, softmax]), { L: 'layers' })).toBe(
      'layers L: 6 | 12 | 6. Alike in the other 3 entries.',
    );
    expect(differenceLine(differencesOf([softmax, softmax]), {})).toMatch(/^Nothing differs/);
  });

  it('reads well', () => {
    expect(words([null, null, 512, 512, null])).toBe('none ×2, 512 ×2, none');
    expect([words(null), words(false), words(1449600), words('gelu_tanh'), words([])]).toEqual([
      'none',
      'no',
      '1,449,600',
      'gelu tanh',
      'none',
    ]);
    expect(placeWords(['rotary', 'theta'], { L: 'layers' })).toBe('rotary theta');
    expect(placeWords(['constructor'], {})).toBe('constructor');
  });
});
