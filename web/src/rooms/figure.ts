/** One view as a figure, for embed.html: its title, its picture, a link to the page; or the lab. */
import { html, nothing, render } from 'lit';
import { generateControls, nameOf, questionControls, textField, troubles } from '../page/controls';
import { asks, framesOf, shownOf, type Context, type Scope } from '../page/context';
import { Figure } from '../page/figure';
import type { CONTROLS } from '../ask/state';
import { selectedHead } from '../frame';
import { LAB, viewNamed } from '../views/index';
import { isRead, part } from '../page/view';
import { Walk } from './walk';

export function build(root: HTMLElement, context: Context, scope: Scope): void {
  if (context.state.peek().view === LAB) return void buildLab(root, context, scope);
  const view = viewNamed(context.state.peek().view);
  const head = part(root, 'room-head');
  const asked = part(root, 'figure-controls');
  const figure = new Figure(root, view, context, scope, { isEmbed: true });
  const foot = part(root, 'figure-foot', 'p');
  const walk =
    context.state.peek().controls.includes('step') && new Walk(part(root, ''), context, scope);
  root.addEventListener(
    'choose-step',
    (event) => walk && walk.go((event as CustomEvent<number>).detail),
  );
  // Parts that a host may style.
  figure.root.part.add('figure');
  figure.root.querySelector('h2')?.part.add('title');
  foot.part.add('caption');
  const has = (name: (typeof CONTROLS)[number]) => context.state.value.controls.includes(name);
  const shown = () => shownOf(context, context.state.value.shown);
  let said: readonly string[] = [];

  asks(context, scope, () => ({ views: [view] }));

  scope.effect(() => {
    const state = context.state.value;
    void context.theme.value;
    const all = shown();
    const frames = framesOf(all);
    render(troubles(all, context), head);
    render(
      html`${has('question') ? questionControls(context, frames) : has('text') ? textField(context, 2) : nothing}
      ${has('generate') ? generateControls(context, frames) : nothing}`,
      asked,
    );
    figure.update(all);
    const coming = all.map((one) => `Loading ${nameOf(one, context)} …`);
    const says = all.flatMap(({ frame }, i) => {
      if (!frame) return [];
      if (!(view.fits?.(frame) ?? true)) return `This view does not apply to ${frame.title}.`;
      const { describe } = context.engine.value!.models;
      return isRead(view, frame, describe)
        ? view.says(frame, selectedHead(frame, state))
        : coming[i]!;
    });
    said = says;
    render(
      html`<span data-finding>${(says.length ? says : coming).join(' ')}</span>
        <a href=${context.link({ room: 'explore' })} target="_blank" rel="noopener" part="link"
          >Open in Sinkscope</a
        >`,
      foot,
    );
    showOnce();
  });

  /** Some views print the sentence themselves, and a view of several settings one for all of them. */
  function showOnce(): void {
    const printed = figure.root.textContent!;
    const own = view.isGroup ? said.slice(0, 1).map((one) => one.replace(/\.$/, '')) : said;
    const isPrinted = own.length > 0 && own.every((one) => printed.includes(one));
    foot.querySelector('[data-finding]')?.classList.toggle('unseen', isPrinted);
  }
  // A figure is drawn when it comes into sight, which may be later than its sentence.
  const watcher = new MutationObserver(showOnce);
  watcher.observe(figure.root, { childList: true, characterData: true, subtree: true });
  scope.onEnd(() => watcher.disconnect());
}

/** The lab's code is fetched by figures that show it. */
async function buildLab(root: HTMLElement, context: Context, scope: Scope): Promise<void> {
  let isOver = false;
  scope.onEnd(() => (isOver = true));
  try {
    const lab = await import('../lab/embedded');
    if (isOver) return;
    lab.build(root, context, scope);
    root.dispatchEvent(new CustomEvent('built', { bubbles: true }));
  } catch (error) {
    context.fail(error);
  }
}
