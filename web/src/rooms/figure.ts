/** One figure of the table of views: what embed.html shows. Its title, its picture, one link back. */
import { html, render } from 'lit';
import { nameOf, troubles } from '../controls';
import { framesOf, requestOf, shownOf, type Desk, type Scope } from '../desk';
import { Figure } from '../figure';
import { selectedHead } from '../frame';
import { questionOf } from '../question';
import { viewNamed } from '../views/index';
import { part } from '../views/view';

export function build(root: HTMLElement, desk: Desk, scope: Scope): void {
  const view = viewNamed(desk.state.peek().view);
  const head = part(root, 'room-head');
  const figure = new Figure(root, view, desk, scope);
  const foot = part(root, 'figure-foot', 'p');
  const shown = () => shownOf(desk, desk.state.value.shown);

  scope.effect(() => {
    const engine = desk.engine.value;
    const state = desk.state.value;
    engine?.queue.ask({
      subjects: state.shown,
      question: questionOf(state, engine.file.value),
      ...requestOf([view]),
      head: { layer: state.layer, head: state.head },
    });
  });

  scope.effect(() => {
    const state = desk.state.value;
    desk.theme.value;
    const all = shown();
    const frames = framesOf(all);
    render(troubles(all, desk), head);
    figure.update(all);
    render(
      html`<span data-finding
          >${frames.length ? frames.map((frame) => ((view.fits?.(frame) ?? true) ? view.says(frame, selectedHead(frame, state)) : `${frame.title} has nothing of this kind to show.`)).join(' ') : all.map((one) => `${nameOf(one, desk)} is coming …`).join(' ')}</span
        >
        <a href=${desk.link({ room: 'explore' })} target="_blank" rel="noopener"
          >Open in Sinkscope</a
        >`,
      foot,
    );
  });
}
