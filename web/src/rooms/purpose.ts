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
}
