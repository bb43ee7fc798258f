/** Draws the picture of the selected question, and the further pictures below it. */
import { framesOf, type Context, type Scope, type Shown } from '../page/context';
import { Figure, type FigureLook } from '../page/figure';
import { defaults } from '../ask/state';
import type { Frame } from '../frame';
import { ALL_QUESTIONS, choiceOf, tabsOf, type Choice } from '../views/index';
import { lackWords, type View } from '../page/view';

export class Stage {
  readonly #context: Context;
  readonly #scope: Scope;
  readonly #place: HTMLElement;
  readonly #main: FigureLook;
  readonly #others: FigureLook;
  readonly #figures = new Map<View, { readonly figure: Figure; readonly isMain: boolean }>();
  #shown: readonly Shown[] = [];
  /** Once the reader has selected a view the room keeps it, even if a recording lacks the view's fields. */
  #isSelected = false;

  /**
   * @param main options of the picture on the stage
   * @param others options of the pictures below it
   */
  constructor(
    place: HTMLElement,
    context: Context,
    scope: Scope,
    main: FigureLook,
    others: FigureLook,
  ) {
    this.#place = place;
    this.#context = context;
    this.#scope = scope;
    this.#main = main;
    this.#others = others;
  }

  /** Returns the selected tab and its views. Before a selection, for recordings: a tab whose fields they have. */
  choiceFor(frames: readonly Frame[]): Choice {
    const { view } = this.#context.state.value;
    const choice = choiceOf(view, frames);
    const recordedFrames = frames.filter((frame) => frame.recording);
    const isLacking = (one: View) => recordedFrames.some((frame) => lackWords(one, frame));
    if (this.#isSelected || view !== defaults.view || !isLacking(choice.views[0]!)) return choice;
    const candidates = ALL_QUESTIONS.flatMap((question) => tabsOf(question, frames)).flatMap(
      (tab) => tab.views,
    );
    const substitute = candidates.find(
      (one) => !isLacking(one) && (!one.fits || frames.some(one.fits)),
    );
    return substitute ? choiceOf(substitute.name, frames) : choice;
  }

  /** Selects a view. The state may already have its name while another view is shown instead. */
  readonly select = (view: string): void => {
    this.#isSelected = true;
    if (view === this.#context.state.value.view) this.update(this.#shown);
    else this.#context.set({ view });
  };

  update(shown: readonly Shown[], viewsElsewhere: readonly View[] = []): void {
    this.#shown = shown;
    const { views } = this.choiceFor(framesOf(shown));
    const shownViews = views.filter((view, i) => !i || !viewsElsewhere.includes(view));
    for (const [view, { figure, isMain }] of this.#figures) {
      if (shownViews.includes(view) && isMain === (view === shownViews[0])) continue;
      figure.end();
      this.#figures.delete(view);
    }
    shownViews.forEach((view, i) => {
      const isMain = i === 0;
      const { figure } = this.#figures.get(view) ?? {
        figure: new Figure(this.#place, view, this.#context, this.#scope, {
          ...(isMain ? this.#main : this.#others),
          isMain,
        }),
      };
      this.#figures.set(view, { figure, isMain });
      // A figure that is in its place stays, since moving it would take the focus from its controls.
      const nextFigure = this.#place.children[i] ?? null;
      if (nextFigure !== figure.root) this.#place.insertBefore(figure.root, nextFigure);
      figure.update(shown);
    });
  }
}
