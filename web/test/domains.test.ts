import { describe, expect, it } from 'vitest';
import type { Tokenizer } from 'sinkscope';
import { promptsOf, questionOf } from '../src/ask/question';
import { defaults, type State } from '../src/ask/state';
import { domains, groupsIn } from '../src/views/domains';
import type { Frame } from '../src/frame';

/** Encodes each word as its length; a text begins with id 0 on request. */
const tokenizer = {
  ...{ size: 50, bos: 0, special: [0], specials: [{ id: 0, text: '<s>', kind: 'bos' }] },
  encode: (text: string, { special = 'none' }: { special?: unknown } = {}) => [
    ...(Array.isArray(special) ? [{ id: 0, text: '<s>', special: true }] : []),
    ...text
      .split(' ')
      .filter(Boolean)
      .map((word) => ({ id: word.length + 1, text: word, special: false })),
  ],
  piece: (id: number) => String(id),
  close: () => {},
} as unknown as Tokenizer;
const ask = (change: Partial<State>, texts: string[] = []) =>
  promptsOf(tokenizer, questionOf({ ...defaults, first: 'bos', ...change }), 99, texts);

describe('prompts with labels', () => {
  const lines = ['prose\tone two three four', 'code\tx = 1', 'prose\tfive six seven'];

  it('are all as long as the shortest text, also for a text in the link', async () => {
    const expected = { groups: ['prose', 'prose', 'code'] };
    const { ids, groups } = await ask({ input: 'text', prompt: lines.join('\n') });
    expect({ groups }).toEqual(expected);
    expect(ids).toEqual([
      [0, 4, 4, 6],
      [0, 5, 4, 6],
      [0, 2, 2, 2],
    ]);
    const file = await ask({ input: 'file', n: 10 }, lines);
    expect(file).toMatchObject({ ids, ...expected });
    expect((await ask({ input: 'file', n: 2 }, lines)).groups).toEqual(['prose', 'code']);
    expect((await ask({ input: 'file', n: 3 }, lines)).groups).toEqual(['prose', 'code']);
    expect((await ask({ input: 'file', n: 1 }, lines)).groups).toEqual(['prose', 'code']);
  });

  it('have no groups if a line has no label', async () => {
    const prompt = 'prose\tone two\nthree four';
    expect((await ask({ input: 'text', prompt })).groups).toBeUndefined();
  });
});

describe('the sink by label', () => {
  const frame = {
    groups: ['prose', 'code', 'prose', 'code', 'prose'],
    operation: { normalizes: true, proxy: 'weights' },
    perPrompt: { sink_ratio: [0.5, 0.25, 0.7, 0.25, 0.6] },
  } as unknown as Frame;

  it('has the mean and the deviation of each label, computed by hand', () => {
    const [prose, code] = groupsIn(frame);
    expect(prose).toMatchObject({ label: 'prose', values: [0.5, 0.7, 0.6] });
    expect(prose!.mean).toBeCloseTo(0.6, 12);
    expect(prose!.deviation).toBeCloseTo(0.1, 12);
    expect(code).toMatchObject({ mean: 0.25, deviation: 0 });
    expect(domains.says(frame, { layer: 0, head: 0 })).toMatch(
      /largest for “prose” \(60\.0% ± 10\.0%, 3 prompts\) and smallest for “code” \(25\.0% ± 0\.0%, 2 prompts\)/,
    );
    const { operation } = frame;
    const singlePrompts = {
      ...{ operation, groups: ['prose', 'code'] },
      perPrompt: { sink_ratio: [0.5, 0.25] },
    };
    expect(
      domains.says(singlePrompts as unknown as Frame, { layer: 0, head: 0 }),
    ).toMatchSnapshot();
    expect(domains.fits!({} as Frame)).toBe(false);
    const evenFrame = {
      ...frame,
      perPrompt: { sink_ratio: frame.groups!.map(() => 0.5) },
    } as Frame;
    expect(domains.says(evenFrame, { layer: 0, head: 0 })).toMatchSnapshot();
  });
});
