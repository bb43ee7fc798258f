/** Finds names in a link that no table has, for which views show their defaults. */
import type { Describe } from 'sinkscope';
import { defaults, type State } from '../ask/state';
import { choicesOf } from '../ask/subject';
import { QUANTITIES } from '../timeline/course';
import { isWholeRoom, views } from '../views/index';
import { MEASURES } from '../views/sweep';
import { tableOf } from './metrics';

type NameKey =
  'view' | 'curve' | 'columns' | 'policy' | 'positions' | 'quantized' | 'granularity' | 'measure';

const includes = (rows: readonly { readonly name: string }[], name: string) =>
  rows.some((row) => row.name === name);

const hasChoice =
  (edit: string, parameter: string) =>
  (name: string, describe: Describe): boolean =>
    choicesOf(describe, edit, parameter).some(([choice]) => choice === name);

const IS_KNOWN: Readonly<Record<NameKey, (name: string, describe: Describe) => boolean>> = {
  view: (name) => isWholeRoom(name) || includes(views, name),
  curve: (name) => includes(QUANTITIES, name),
  columns: (name, describe) => includes(tableOf(describe), name),
  policy: hasChoice('evict', 'policy'),
  positions: hasChoice('evict', 'positions'),
  quantized: hasChoice('quantize', 'what'),
  granularity: hasChoice('quantize', 'by'),
  measure: (name) => includes(MEASURES, name),
};

/** Returns the keys of the state whose names no table has, each with the first such name. */
export function unknownNames(
  state: State,
  describe: Describe,
): readonly (readonly [key: NameKey, name: string])[] {
  return (Object.keys(IS_KNOWN) as NameKey[]).flatMap((key) => {
    const names = state[key] === defaults[key] ? [] : [state[key]].flat();
    const unknown = names.find((name) => !IS_KNOWN[key](name, describe));
    return unknown === undefined ? [] : [[key, unknown] as const];
  });
}
