/** What stands round the views: the controls, the pickers of models, the sentence over the figures. */
import { render } from 'lit';
import type { Describe } from 'sinkscope';
import {
  chips,
  generateControls,
  linkControls,
  numberControls,
  promptControls,
  shown,
  type Actions,
} from './controls';
import type { Frame } from './frame';
import type { Choice } from './models';
import { hubName, isOfHub } from './open/words';
import { need, say, SIDES, type PerSide } from './panels';
import { sideControls } from './side';
import type { State } from './state';
import type { Pointed } from './views/view';
import { finding } from './words';
import type { Card } from './zoo';

export interface Shell {
  readonly state: State;
  readonly frames: PerSide<Frame>;
  readonly pointed: Pointed;
  readonly describe: Describe | undefined;
  readonly cards: readonly Card[];
  readonly choices: readonly Choice[];
  readonly isGenerating: boolean;
  readonly actions: Actions;
}

/** Where the engine has told no context yet. */
const CONTEXT = 128;

export function drawShell(shell: Shell): void {
  const { state, frames, pointed, actions } = shell;
  const { a, b } = frames;
  const context = Math.min(...[a, b].map((frame) => frame?.architecture.context ?? CONTEXT));
  render(promptControls(state, actions), need('prompt'));
  render(numberControls(state, context, frames, actions), need('numbers'));
  render(chips(a, state, pointed, actions), need('chips'));
  const choices = withNamed(shell.choices, [state.a, state.b]);
  for (const side of SIDES) {
    const { describe, cards } = shell;
    const frame = frames[side];
    render(
      sideControls(side, { state, frame, describe, cards, choices, set: actions.set }),
      need(`side-${side}`),
    );
  }
  render(generateControls(state, frames, shell.isGenerating, actions), need('generate'));
  render(linkControls(state, shell.cards, actions), need('links'));
  for (const name of ['how', 'finding'])
    for (const element of document.querySelectorAll<HTMLElement>(`.${name}, #${name}`))
      element.hidden = !shown(state, name);
  if (a) say(need('finding'), finding(a, b));
  else if (isOfHub(state.a))
    say(need('finding'), `This link shows ${hubName(state.a)}, which is not loaded yet.`);
}

/** A link may name models of the hub that were not opened in this visit. */
function withNamed(choices: readonly Choice[], ids: readonly string[]): readonly Choice[] {
  const known = new Set(choices.map(({ id }) => id));
  const named = [...new Set(ids)].filter((id) => isOfHub(id) && !known.has(id));
  return [...choices, ...named.map((id) => ({ id, title: hubName(id), source: 'hub' as const }))];
}
