/** The room Training: models at each step of their training, with a slider, maps, and curves of metrics. */
import { html, nothing, render } from 'lit';
import { allows, nameOf, roomHeading, textField, troubleNotes } from '../page/controls';
import {
  hideUntilDrawn,
  requestFrames,
  framesOf,
  entriesOf,
  type Context,
  type Scope,
} from '../page/context';
import { Figure } from '../page/figure';
import { attention } from '../views/attention';
import { sinks } from '../views/sinks';
import { training } from '../views/training';
import type { Frame } from '../frame';
import { addElement } from '../page/view';
import { emergenceOf } from '../views/training';
import { explainTerms } from '../page/terms';
import { headsWords, verdictOf, formatPercent, sharedConditions, tooShortNote } from '../words';
import { addTrainingSlider } from './walk';
import './panes.css';
import './training.css';

function emergenceSentence(frames: readonly Frame[]): string {
  const emergences = frames.flatMap((frame) => emergenceOf(frame) ?? []);
  const sinkEmergences = emergences.filter(({ isNone }) => !isNone);
  if (!emergences.length || sinkEmergences.some(({ from }) => from !== 0)) return '';
  return sinkEmergences.length
    ? 'The sink is not there at first: it appears during training.'
    : 'No sink appears in these training runs.';
}

export function build(root: HTMLElement, context: Context, scope: Scope): void {
  const headingPlace = addElement(root, 'room-head');
  const goToStep = addTrainingSlider(addElement(root, 'walk-place'), context, scope);
  const grid = addElement(root, 'training-grid');
  const mapsPlace = addElement(grid, 'middle');
  const curvesPlace = addElement(grid, 'inspector');
  // Conditions that all models share are printed once, under the maps.
  let statedConditions: readonly string[] = [];
  const figureLook = { roomConditions: () => statedConditions };
  const mapFigure = new Figure(mapsPlace, attention, context, scope, {
    isMain: true,
    ...figureLook,
  });
  const conditionsPlace = addElement(mapsPlace, 'stamp', 'p');
  const curvesFigure = new Figure(curvesPlace, training, context, scope);
  const textPlace = addElement(mapsPlace, 'question');
  const sinkMap = new Figure(mapsPlace, sinks, context, scope, figureLook);
  curvesPlace.addEventListener('choose-step', (event) =>
    goToStep((event as CustomEvent<number>).detail),
  );
  const currentEntries = () => entriesOf(context, context.state.value.shown);

  requestFrames(context, scope, () => ({ views: [attention, sinks, training] }));
  hideUntilDrawn(root, scope, currentEntries);

  scope.effect(() => {
    const state = context.state.value;
    void context.theme.value;
    const entries = currentEntries();
    const freshFrames = framesOf(entries.filter(({ isStale }) => !isStale));
    const verdicts = freshFrames.map((frame) => verdictOf(frame));
    const sinkSentences = freshFrames.map((frame, i) => {
      const verdict = verdicts[i]!;
      // The clauses are joined to one sentence, so this one gets no period.
      if (!verdict.conclusive) return tooShortNote(frame).slice(0, -1);
      const summary = `${frame.title}: ${headsWords(frame, verdict.sink)}`;
      if (i && verdicts[0]!.conclusive) return summary;
      return `${summary} give the first token more than ${formatPercent(frame.eps, 0)} of their attention`;
    });
    const hasError = entries.some(({ error }) => error);
    const uniformShareTexts = verdicts.flatMap((verdict) =>
      verdict.conclusive ? formatPercent(verdict.even, 0) : [],
    );
    const uniformNote = uniformShareTexts.length
      ? `; uniform attention would give it ${[...new Set(uniformShareTexts)].join(' / ')}`
      : '';
    render(
      html`${roomHeading(
        emergenceSentence(freshFrames) || 'Training',
        sinkSentences.length
          ? `${[...new Set(sinkSentences)].join('; ')}${uniformNote}.`
          : hasError
            ? ''
            : 'Loading the models …',
        context,
      )}
      ${
        allows(state, 'subjects')
          ? html`<div class="subject-list">
              ${entries.map((entry) => html`<span class="subject">${nameOf(entry, context)}</span>`)}
              <button type="button" class="add" @click=${context.pickModels}>Choose models</button>
            </div>`
          : nothing
      }
      ${troubleNotes(entries, context)}`,
      headingPlace,
    );
    const conditions = sharedConditions(framesOf(entries));
    statedConditions = [...conditions, ...framesOf(entries).map(({ title }) => title)];
    render(explainTerms(conditions.join(' · '), true), conditionsPlace);
    mapFigure.update(entries);
    sinkMap.update(entries);
    curvesFigure.update(entries);
    render(allows(state, 'text') ? textField(context, 2) : nothing, textPlace);
  });
}
