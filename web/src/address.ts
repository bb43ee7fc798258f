/** The page's address: the state is written into it, read out of it, and handed on as a link. */
import { defaults, printHash, PROMPT_MAX, type State } from './state';
import { views } from './views/index';

/** Browsers refuse addresses that change too often. */
const PAUSE_MS = 120;

/** What the reader opened from the disk is nobody else's to open. */
export function isOfDisk(model: string): boolean {
  return /^own-\d+$/.test(model);
}

/** The state without what another reader has not. */
export function linkable(state: State): State {
  const model = (name: 'a' | 'b') => (isOfDisk(state[name]) ? defaults[name] : state[name]);
  const compare = state.compare.filter((pick) => !isOfDisk(pick.split('~')[0]));
  const corpus = state.corpus === 'file' ? defaults.corpus : state.corpus;
  return { ...state, a: model('a'), b: model('b'), compare, corpus };
}

let writing = 0;

export function writeAddress(state: State): void {
  clearTimeout(writing);
  if (state.prompt.length > PROMPT_MAX) return;
  const write = () => history.replaceState(null, '', `#${printHash(linkable(state))}`);
  writing = window.setTimeout(write, PAUSE_MS);
}

/** A link to this state, or the tag that puts its figure into another page. */
export function textToCopy(what: 'link' | 'embed', state: State): string {
  const hash = printHash(linkable(state));
  const page = new URL(what === 'link' ? './' : 'embed.html', location.href.split('#')[0]);
  const address = `${page.href}#${hash}`;
  if (what === 'link') return address;
  return `<iframe src="${address.replaceAll('"', '%22')}" width="720" height="560" title="Sinkscope"></iframe>`;
}

/**
 * Names in a link that only the tables know.
 * @returns a sentence for each that is not here, and what stands in its place
 */
export function unknownNames(
  state: State,
  isModel: (id: string) => boolean,
  operations: readonly string[],
): { notices: string[]; change: Partial<State> } {
  const notices: string[] = [];
  const change: Record<string, string> = {};
  const check = (name: 'a' | 'b' | 'swapA' | 'swapB' | 'view', isKnown: boolean) => {
    if (isKnown) return;
    notices.push(`The link asks for ${name} = “${state[name]}”, which is not here.`);
    change[name] = name === 'b' ? '' : defaults[name];
  };
  check('a', isModel(state.a));
  check('b', state.b === '' || isModel(state.b));
  check('swapA', state.swapA === '' || operations.includes(state.swapA));
  check('swapB', state.swapB === '' || operations.includes(state.swapB));
  check(
    'view',
    // The sink map with the training view under it.
    state.view === 'training' || views.some(({ name }) => name === state.view),
  );
  return { notices, change: change as Partial<State> };
}
