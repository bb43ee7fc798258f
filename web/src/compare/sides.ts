/** From the two sides to a comparison. */
import type { State } from '../state';
import { parsePick, printPick, type Pick } from './picks';

/**
 * The picks that show what the two sides show.
 * @param hasSteps whether checkpoints of a model are kept
 */
export function picksOfSides(state: State, hasSteps: (id: string) => boolean): readonly string[] {
  const pickOf = (id: string, operation: string, value: number): Pick => {
    const given = Number.isFinite(value) ? { parameter: value } : {};
    if (operation) return { kind: 'edit', id, operation, ...given };
    if (state.step >= 0 && hasSteps(id)) return { kind: 'step', id, step: state.step };
    return { kind: 'model', id };
  };
  const picks = [
    pickOf(state.a, state.swapA, state.paramA),
    ...(state.b ? [pickOf(state.b, state.swapB, state.paramB)] : []),
  ];
  return [...new Set(picks.map(printPick).filter(parsePick))];
}
