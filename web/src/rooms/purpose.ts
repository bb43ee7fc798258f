/** Why it matters: the room of the experiments. The first one opens with recorded texts. */
import './panes.css';
import './tables.css';
import './purpose.css';
import './without_first.css';
import { build as buildBench } from '../experiments/bench';
import type { Context, Scope } from '../page/context';
import { addForgotten } from './forgotten';

export function build(root: HTMLElement, context: Context, scope: Scope): void {
  buildBench(root, context, scope);
  const place = document.createElement('div');
  place.className = 'recorded-opening';
  root.querySelector('.rail')!.after(place);
  addForgotten(place, context, scope);
  // The progress is that of the small models: it shows beside them alone, not above the recorded texts.
  const watcher = new IntersectionObserver(
    ([entry]) => root.classList.toggle('live-seen', entry!.isIntersecting),
    { rootMargin: '0px 0px -200px' },
  );
  watcher.observe(root.querySelector('.middle')!);
  scope.onEnd(() => watcher.disconnect());
}
