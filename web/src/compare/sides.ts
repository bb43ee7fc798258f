/** From the two sides to a comparison. */
import type { State } from '../state';
import { parsePick, printPick } from './picks';

/** The picks that show what the two sides show. */
export function picksOfSides(state: State): readonly string[] {
  const side = (id: string, swap: string, value: number) => {
    const given = Number.isFinite(value) ? { parameter: value } : {};
    return swap
      ? printPick({ kind: 'edit', id, operation: swap, ...given })
      : printPick({ kind: 'model', id });
  };
  const texts = [
    side(state.a, state.swapA, state.paramA),
    ...(state.b ? [side(state.b, state.swapB, state.paramB)] : []),
  ];
  return [...new Set(texts.filter(parsePick))];
}
