/** Sentences on how a tokenizer read a text, where a reader would not expect it. */
import { checkList } from '../abi/arguments.ts';
import type { Token } from './types.ts';

/** Says that a text repeats a start token, or that characters have no token of their own. */
export function tokenNotes(
  tokens: readonly Pick<Token, 'id' | 'text' | 'start' | 'end' | 'special'>[],
): string[] {
  checkList(tokens, 'object', 'tokens');
  const notes = [];
  const firstOfText = tokens.findIndex(({ special }) => !special);
  const [added, typed] = [tokens[firstOfText - 1], tokens[firstOfText]];
  if (added && typed && added.id === typed.id)
    notes.push(
      `The text begins with ${typed.text}, which the tokenizer adds by itself: the model reads it twice.`,
    );
  // The tokens of one character share its place in the text.
  const isPart = ({ text, start, end }: (typeof tokens)[number], t: number) =>
    start < end &&
    // The first byte of a character whose others were cut off stands alone.
    (text === '\ufffd' ||
      [tokens[t - 1], tokens[t + 1]].some((other) => other?.start === start && other.end === end));
  const parts = tokens.filter(isPart).length;
  if (parts > 0)
    notes.push(
      `${parts} of ${tokens.length} tokens are bytes of characters that the tokenizer has no token for.`,
    );
  return notes;
}
