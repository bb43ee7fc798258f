/**
 * Attributes of <sink-scope>: the rows of the page's state, by their names in small letters and as a
 * link writes their values.
 */
import { defaults, parseHash, printHash, table, type Parsed, type State } from '../ask/state';

type Name = keyof State;

const NAMES = new Map((Object.keys(table) as Name[]).map((name) => [name.toLowerCase(), name]));

export const attributeNames: readonly string[] = [...NAMES.keys()];
export const propertyNames: readonly Name[] = [...NAMES.values()];

/** What attributes say, with a sentence for each that cannot be read. */
export function stateOf(element: Element): Parsed {
  const given = new URLSearchParams();
  for (const [attribute, name] of NAMES) {
    const value = element.getAttribute(attribute);
    if (value !== null) given.append(name, value);
  }
  return parseHash(given.toString());
}

/** Writes the attributes whose values differ from the defaults, or from the present ones. */
export function writeAttributes(element: Element, state: State, names: readonly Name[]): void {
  for (const name of names) {
    const attribute = name.toLowerCase();
    const value = printed(state, name);
    if (value === (element.getAttribute(attribute) ?? printed(defaults, name))) continue;
    element.setAttribute(attribute, value);
  }
}

export function printed<N extends Name>(state: State, name: N): string {
  return (table[name] as { print: (value: State[N]) => string }).print(state[name]);
}

/** All that differs from the defaults, as attributes. */
export function attributesOf(state: State): readonly (readonly [string, string])[] {
  return [...new URLSearchParams(printHash(state))].map(([name, value]) => [
    name.toLowerCase(),
    value,
  ]);
}
