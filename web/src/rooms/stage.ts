/** Draws the picture of the selected question, and the further pictures below it. */
import { framesOf, type Context, type Scope, type SubjectEntry } from '../page/context';
import { Figure, type FigureLook } from '../page/figure';
import { defaults } from '../ask/state';
import type { Frame } from '../frame';
import { ALL_QUESTIONS, choiceOf, tabsOf, type Choice } from '../views/index';
import { lackWords, type View } from '../page/view';

/**
 * Returns functions that choose the views to show, select another view, and draw the chosen ones in `place`.
 * @param mainLook options of the first picture
 * @param otherLook options of the pictures below it
 */
export function createStage(
  place: HTMLElement,
  context: Context,
  scope: Scope,
  mainLook: FigureLook,
  otherLook = mainLook,
) {
  const figures = new Map<string, Figure>();
  let lastEntries: readonly SubjectEntry[] = [];
  /** Once the reader has selected a view the room keeps it, even if a recording lacks the view's fields. */
  let isViewSelected = false;

  /** Returns the selected tab and its views. Before a selection, for recordings: a tab whose fields they have. */
  function choiceFor(frames: readonly Frame[]): Choice {
    const { view } = context.state.value;
    const choice = choiceOf(view, frames);
    const recordedFrames = frames.filter((frame) => frame.recording);
    const isLacking = (view: View) => recordedFrames.some((frame) => lackWords(view, frame));
    if (isViewSelected || view !== defaults.view || !isLacking(choice.views[0]!)) return choice;
    const substitute = ALL_QUESTIONS.flatMap((question) => tabsOf(question, frames))
      .flatMap((tab) => tab.views)
      .find(
        (candidate) => !isLacking(candidate) && (!candidate.fits || frames.some(candidate.fits)),
      );
    return substitute ? choiceOf(substitute.name, frames) : choice;
  }

  /** Selects a view. The state may already have its name while another view is shown instead. */
  function select(view: string): void {
    isViewSelected = true;
    if (view === context.state.value.view) update(lastEntries);
    else context.set({ view });
  }

  function update(entries: readonly SubjectEntry[], viewsElsewhere: readonly View[] = []): void {
    lastEntries = entries;
    const { views } = choiceFor(framesOf(entries));
    const shownViews = views.filter((view, i) => !i || !viewsElsewhere.includes(view));
    // A view that moves to the first place gets another figure, since it then looks different.
    const keys = shownViews.map(({ name }, i) => (i ? name : `main ${name}`));
    for (const [key, figure] of figures) {
      if (keys.includes(key)) continue;
      figure.end();
      figures.delete(key);
    }
    shownViews.forEach((view, i) => {
      const look = { ...(i ? otherLook : mainLook), isMain: !i };
      const figure = figures.get(keys[i]!) ?? new Figure(place, view, context, scope, look);
      figures.set(keys[i]!, figure);
      // A figure that is in its place stays, since moving it would take the focus from its controls.
      const nextFigure = place.children[i] ?? null;
      if (nextFigure !== figure.root) place.insertBefore(figure.root, nextFigure);
      figure.update(entries);
    });
  }

  return { choiceFor, select, update };
}
