/** Explore, in one screen: the map of all heads, the selected head's attention map, one inspector. */
import { html, nothing, render } from 'lit';
import {
  addButton,
  allows,
  chips,
  generateControls,
  lightsChips,
  nameOf,
  opening,
  questionControls,
  troubles,
} from '../page/controls';
import {
  appearsWhole,
  asks,
  framesOf,
  shownOf,
  type Context,
  type Scope,
  type Shown,
} from '../page/context';
import { Figure } from '../page/figure';
import { selectedHead } from '../frame';
import { handControls } from '../page/hand';
import { attention } from '../views/attention';
import { change } from '../views/change';
import { sinks } from '../views/sinks';
import { part } from '../page/view';
import { finding, headWords, capital } from '../words';
import { about } from './about';
import { Inspector } from './inspect';
import './panes.css';
import './tables.css';
import './explore.css';

export function build(root: HTMLElement, context: Context, scope: Scope): void {
  const rail = part(root, 'rail');
  const middle = part(root, 'middle');
  const side = part(root, 'inspector');
  // The keyboard goes as the eye does: left to right, and on a phone the map first.
  const isWide = matchMedia('(width >= 820px)');
  const arrange = () => (isWide.matches ? middle.before(rail) : middle.after(rail));
  arrange();
  isWide.addEventListener('change', arrange);
  scope.onEnd(() => isWide.removeEventListener('change', arrange));
  const subjects = part(rail, 'subjects');
  const sinkMap = new Figure(rail, sinks, context, scope);
  const question = part(rail, 'question');
  const head = part(middle, 'room-head');
  const words = part(middle, 'words');
  const map = new Figure(middle, attention, context, scope, { isMain: true });
  const hand = part(middle, '');
  const changed = new Figure(middle, change, context, scope);
  const inspector = new Inspector(side, context, scope);

  /** The selected subject. */
  const subject = () => {
    const { shown, at } = context.state.value;
    return shown[Math.min(at, shown.length - 1)]!;
  };
  const shown = (): Shown[] => shownOf(context, [subject()]);

  asks(context, scope, () => ({
    subjects: [subject()],
    views: [attention, sinks, change, inspector.viewFor(framesOf(shown()))],
    more: ['massive', 'massive_at'],
  }));
  appearsWhole(root, scope, shown);

  scope.effect(() => {
    const state = context.state.value;
    void context.theme.value;
    const all = shown();
    const frames = framesOf(all);
    const [frame] = frames;
    const at = frame && selectedHead(frame, state);
    render(
      allows(state, 'subjects')
        ? html`<div class="subject-list" role="group" aria-label="Model">
              ${state.shown.map(
                (one, i) =>
                  html`<button
                    type="button"
                    aria-pressed=${one === subject()}
                    @click=${() => context.set({ at: i, layer: -1, head: -1 })}
                  >
                    ${nameOf(shownOf(context, [one])[0]!, context)}
                  </button>`,
              )}
              ${addButton(false, context)}
            </div>
            ${frame ? about(frame, context) : nothing}`
        : nothing,
      subjects,
    );
    render(
      html`${opening(
        at ? capital(headWords(at, frame)) : 'Explore',
        frame && at
          ? finding(frame, at)
          : all[0]!.error
            ? ''
            : `Loading ${nameOf(all[0]!, context)} …`,
        context,
      )}
      ${troubles(all, context)}`,
      head,
    );
    render(frame ? chips(frame, context) : nothing, words);
    sinkMap.update(all);
    map.update(all);
    render(frame && !frame.recording ? handControls(context, frame) : nothing, hand);
    changed.root.hidden = !frame?.edits.length;
    changed.update(all);
    inspector.update(all);
    render(
      html`${questionControls(context, frames)} ${generateControls(context, frames)}`,
      question,
    );
  });

  lightsChips(words, context, scope, shown);
}
