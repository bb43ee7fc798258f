/** Attributes of <sink-scope>: the keys of the page's state in lower case, with values as in a link. */
import { idOfAddress } from '../ask/recordings';
import {
  defaults,
  parseHash,
  printHash,
  table,
  unreadableValue,
  type ParsedState,
  type State,
} from '../ask/state';

type Name = keyof State;

const NAMES = new Map((Object.keys(table) as Name[]).map((name) => [name.toLowerCase(), name]));

export const attributeNames: readonly string[] = [...NAMES.keys()];
export const propertyNames: readonly Name[] = [...NAMES.values()];

/** Returns the id of the recording in the attribute `recording`, whose address is relative to the host page. */
export function recordingOf(element: Element): string | undefined {
  const address = element.getAttribute('recording');
  if (!address || !URL.canParse(address, document.baseURI)) return undefined;
  return idOfAddress(new URL(address, document.baseURI));
}

export const SIZES = ['width', 'height'] as const;

export function lengthOf(element: Element, name: (typeof SIZES)[number]): string | undefined {
  const text = element.getAttribute(name)?.trim() ?? '';
  const [, number, unit] = /^(\d+(?:\.\d*)?|\.\d+)([a-z]*|%)$/i.exec(text) ?? [];
  if (!Number(number)) return undefined;
  const length = `${number}${unit || 'px'}`;
  return CSS.supports(name, length) ? length : undefined;
}

/** What sentences about attributes call their place. */
export const SOURCE = 'The element';

/** Parses attributes into a state, with a sentence for each that cannot be read. */
export function stateOf(element: Element): ParsedState {
  const params = new URLSearchParams();
  const recording = recordingOf(element);
  if (recording) params.append('shown', recording);
  for (const [attribute, name] of NAMES) {
    const value = element.getAttribute(attribute);
    if (value !== null && !(recording && name === 'shown')) params.append(name, value);
  }
  const { state, problems } = parseHash(params.toString(), SOURCE);
  const isUnreadable = (name: string) =>
    element.getAttribute(name) !== null &&
    (name === 'recording' ? !recording : !lengthOf(element, name as (typeof SIZES)[number]));
  const unreadable = ['recording', ...SIZES].filter(isUnreadable);
  const sentences = unreadable.map((name) =>
    unreadableValue(name, element.getAttribute(name)!, SOURCE),
  );
  return { state, problems: [...problems, ...sentences] };
}

/** Sets the attributes of `names` to the state's values. An absent attribute stays absent if its default is this value. */
export function writeAttributes(element: Element, state: State, names: readonly Name[]): void {
  for (const name of names) {
    const attribute = name.toLowerCase();
    const value = printValue(state, name);
    if (value === (element.getAttribute(attribute) ?? printValue(defaults, name))) continue;
    element.setAttribute(attribute, value);
  }
}

function printValue<N extends Name>(state: State, name: N): string {
  return (table[name] as { print: (value: State[N]) => string }).print(state[name]);
}

/** Returns attributes for all values that differ from the defaults, and for the keys `always`. */
export function attributesOf(
  state: State,
  always: readonly Name[],
): readonly (readonly [string, string])[] {
  const params = [...new URLSearchParams(printHash(state, always))];
  return params.map(([name, value]) => [name.toLowerCase(), value]);
}
