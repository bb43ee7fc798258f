/** The room Training: models at each step of their training, with a slider, maps, and curves of metrics. */
import { html, nothing, render } from 'lit';
import { allows, nameOf, roomHeading, textField, troubleNotes } from '../page/controls';
import {
  hideUntilDrawn,
  requestFrames,
  framesOf,
  shownOf,
  type Context,
  type Scope,
} from '../page/context';
import { Figure } from '../page/figure';
import { attention } from '../views/attention';
import { sinks } from '../views/sinks';
import { training } from '../views/training';
import type { Frame } from '../frame';
import { addElement } from '../page/view';
import { emergence } from '../views/training';
import { explainTerms } from '../page/terms';
import { headsWords, judged, percent, sharedConditions, tooShortWords } from '../words';
import { Walk } from './walk';
import './panes.css';
import './training.css';

/** States whether training creates the sink, for the loaded courses. */
function emergenceSentence(frames: readonly Frame[]): string {
  const steps = frames.flatMap((frame) => emergence(frame) ?? []);
  const forms = steps.filter(({ isNone, from }) => !isNone && from === 0);
  if (!steps.length || forms.length < steps.filter(({ isNone }) => !isNone).length) return '';
  if (!forms.length) return 'No sink appears in these trainings.';
  return 'The sink is not there at first: it appears during training.';
}

export function build(root: HTMLElement, context: Context, scope: Scope): void {
  const head = addElement(root, 'room-head');
  const walk = new Walk(addElement(root, 'walk-place'), context, scope);
  const grid = addElement(root, 'training-grid');
  const middle = addElement(grid, 'middle');
  const inspector = addElement(grid, 'inspector');
  // Conditions that all models share appear once, under the maps.
  let stated: readonly string[] = [];
  const look = { stated: () => stated };
  const map = new Figure(middle, attention, context, scope, { isMain: true, ...look });
  const shared = addElement(middle, 'stamp', 'p');
  const course = new Figure(inspector, training, context, scope);
  const text = addElement(middle, 'question');
  const sinkMap = new Figure(middle, sinks, context, scope, look);
  inspector.addEventListener('choose-step', (event) =>
    walk.go((event as CustomEvent<number>).detail),
  );
  const shown = () => shownOf(context, context.state.value.shown);

  requestFrames(context, scope, () => ({ views: [attention, sinks, training] }));
  hideUntilDrawn(root, scope, shown);

  scope.effect(() => {
    const state = context.state.value;
    void context.theme.value;
    const all = shown();
    const current = framesOf(all.filter(({ isStale }) => !isStale));
    const counts = current.map((frame, i) => {
      const verdict = judged(frame);
      // Begins in lower case, as a clause of the sentence.
      if (!verdict.conclusive) return tooShortWords(verdict, frame.T, frame.eps).slice(0, -1);
      const summary = `${frame.title}: ${headsWords(frame, verdict.sink)}`;
      if (i && judged(current[0]!).conclusive) return summary;
      return `${summary} give the first token more than ${percent(frame.eps, 0)} of their attention`;
    });
    const isFailed = all.some(({ error }) => error);
    const evens = current
      .map(judged)
      .flatMap((one) => (one.conclusive ? percent(one.even, 0) : []));
    const uniformNote = evens.length
      ? `; uniform attention would give it ${[...new Set(evens)].join(' / ')}`
      : '';
    render(
      html`${roomHeading(
        emergenceSentence(current) || 'Training',
        counts.length
          ? `${[...new Set(counts)].join('; ')}${uniformNote}.`
          : isFailed
            ? ''
            : 'Loading the models …',
        context,
      )}
      ${
        allows(state, 'subjects')
          ? html`<div class="subject-list">
              ${all.map((one) => html`<span class="subject">${nameOf(one, context)}</span>`)}
              <button type="button" class="add" @click=${context.pick}>Choose models</button>
            </div>`
          : nothing
      }
      ${troubleNotes(all, context)}`,
      head,
    );
    const common = sharedConditions(framesOf(all));
    stated = [...common, ...framesOf(all).map(({ title }) => title)];
    render(explainTerms(common.join(' · '), true), shared);
    map.update(all);
    sinkMap.update(all);
    course.update(all);
    render(allows(state, 'text') ? textField(context, 2) : nothing, text);
  });
}
