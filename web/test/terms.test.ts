import { describe, expect, it } from 'vitest';
import { explained } from '../src/terms';

/** What stands in it, words that can be opened in brackets. */
function read(said: string): string {
  const { values } = explained(said) as unknown as { values: [unknown[], string] };
  const [parts, rest] = values;
  const one = (part: unknown) =>
    typeof part === 'string' ? part : `[${(part as { values: unknown[] }).values[0]}]`;
  return parts.map(one).join('') + rest;
}

describe('a sentence with terms', () => {
  it('has each word of the table once, and every other letter as it was', () => {
    expect(read('Layer 2, head 4, the head that gives token 1 most.')).toBe(
      'Layer 2, [head] 4, the head that gives [token] 1 most.',
    );
    expect(read('It gives token 1, “<s>”, 93%; even attention would give it 15%.')).toBe(
      'It gives [token] 1, [“<s>”], 93%; [even attention] would give it 15%.',
    );
    expect(read('ε = 0.3 · T = 26 · BOS first · α₁')).toBe(
      '[ε] = 0.3 · [T] = 26 · [BOS] first · [α₁]',
    );
  });

  it('leaves what it does not know, and words of the text', () => {
    expect(read('A twin has 3 headlines, “head” and “token”; the arrow keys move.')).toBe(
      'A twin has 3 headlines, “head” and “token”; the arrow keys move.',
    );
    expect(read('Its bias key is no token; a key is.')).toBe(
      'Its [bias key] is no [token]; a [key] is.',
    );
  });
});
