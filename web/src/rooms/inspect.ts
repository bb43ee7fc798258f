/** One view beside the map, chosen from a list of tabs. */
import { html, render } from 'lit';
import type { Context, Scope, Shown } from '../page/context';
import { framesOf } from '../page/context';
import { Figure } from '../page/figure';
import { defaults } from '../ask/state';
import type { Frame } from '../frame';
import { fitting, inspectors, viewNamed } from '../views/index';
import { lackWords, part, type View } from '../page/view';

export class Inspector {
  readonly #context: Context;
  readonly #scope: Scope;
  readonly #list: HTMLElement;
  readonly #place: HTMLElement;
  #figure: { readonly figure: Figure; readonly view: View } | undefined;
  #shown: readonly Shown[] = [];
  /** Whether the reader has selected a view here: then it stays, whatever a recording lacks. */
  #isSelected = false;

  constructor(root: HTMLElement, context: Context, scope: Scope) {
    this.#context = context;
    this.#scope = scope;
    this.#list = part(root, 'tabs', 'nav');
    this.#list.setAttribute('aria-label', 'Inspector');
    this.#place = part(root, 'inspector-place');
  }

  /** The selected view, among those that have something to show; of a recording at first one whose fields it has. */
  viewFor(frames: readonly Frame[]): View {
    const some = fitting(inspectors, frames);
    const { view } = this.#context.state.value;
    const chosen = viewNamed(view, some.length ? some : inspectors);
    const recorded = frames.filter((frame) => frame.recording);
    const lacks = (one: View) => recorded.some((frame) => lackWords(one, frame));
    if (this.#isSelected || view !== defaults.view || !lacks(chosen)) return chosen;
    return some.find((one) => !lacks(one)) ?? chosen;
  }

  /** The state may have the name already, while another view stands in for it. */
  #select(view: string): void {
    this.#isSelected = true;
    if (view === this.#context.state.value.view) this.update(this.#shown);
    else this.#context.set({ view });
  }

  update(shown: readonly Shown[]): void {
    this.#shown = shown;
    const frames = framesOf(shown);
    const view = this.viewFor(frames);
    render(
      fitting(inspectors, frames).map(
        ({ name, title, question }) =>
          html`<button
            type="button"
            title=${question}
            aria-pressed=${name === view.name}
            @click=${() => this.#select(name)}
          >
            ${title}
          </button>`,
      ),
      this.#list,
    );
    if (this.#figure?.view !== view) {
      this.#figure?.figure.end();
      this.#figure = { view, figure: new Figure(this.#place, view, this.#context, this.#scope) };
    }
    this.#figure.figure.update(shown);
  }
}
