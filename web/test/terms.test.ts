import { describe, expect, it } from 'vitest';
import { explainTerms } from '../src/page/terms';

function renderedText(sentence: string): string {
  const { values } = explainTerms(sentence) as unknown as { values: [unknown[], string] };
  const [parts, rest] = values;
  const partText = (part: unknown) =>
    typeof part === 'string' ? part : `[${(part as { values: unknown[] }).values[0]}]`;
  return parts.map(partText).join('') + rest;
}

describe('a sentence with terms', () => {
  it('marks each word of the table once, and leaves all other letters unchanged', () => {
    expect(
      renderedText('Head L1H3 gives the start token “<s>” 93%; the mean over all 24 heads is 52%.'),
    ).toMatchSnapshot();
    expect(
      renderedText('Uniform attention would give it 15%; heads with a sink: 13 of 24.'),
    ).toMatchSnapshot();
    expect(renderedText('ε = 0.3 · T = 26 · starts with <s> (start token) · α₁')).toMatchSnapshot();
  });

  it('has a tab stop at each word, or at the first one alone', () => {
    const tabIndices = (isOneStop?: boolean) => {
      const { values } = explainTerms('A head and a token', isOneStop) as unknown as {
        values: [unknown[], string];
      };
      return values[0].flatMap((part) =>
        typeof part === 'string' ? [] : [(part as { values: unknown[] }).values[1]],
      );
    };
    expect([tabIndices(), tabIndices(true)]).toEqual([
      [0, 0],
      [0, -1],
    ]);
  });

  it('ignores unknown words, and words of the text', () => {
    expect(
      renderedText('Sinkscope has 3 headlines, “head” and “token”; the arrow keys move.'),
    ).toMatchSnapshot();
    expect(renderedText('Its bias key is not a token; a key is.')).toMatchSnapshot();
  });
});
