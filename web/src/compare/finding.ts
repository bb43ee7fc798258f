/** The sentence over the comparison: who has most sink, who has least, and how sure that is. */
import { mean } from '../frame';
import { isOfShares, type Column } from '../study/study';
import { percent } from '../words';

function sinkOf({ perPrompt }: Column): number {
  return mean(perPrompt.sink_1);
}

function nameOf({ title, class: kind }: Column): string {
  return kind === 'counterfactual' ? `${title} (a what-if)` : title;
}

function setting({ sequences }: Column): string {
  return sequences === 1 ? 'On one prompt, a first look' : `Over ${sequences} prompts`;
}

/** What takes attention that is then on no token. */
function biasNote(column: Column): string {
  const share = mean(column.perPrompt.sink_bias);
  if (!Number.isFinite(share)) return '';
  return ` The bias key of ${nameOf(column)}, which is no token, takes as much in ${percent(share)} of its heads.`;
}

/** @param columns of one question; there is nothing to say of fewer than two */
export function finding(columns: readonly Column[]): string {
  if (columns.length < 2) return '';
  const order = [...columns].sort((a, b) => sinkOf(b) - sinkOf(a));
  const [most, least] = [order[0], order[order.length - 1]];
  const counts = new Set(columns.map(({ sequences }) => sequences));
  const where = counts.size === 1 ? setting(most) : 'Over their prompts';
  const eps = percent(most.eps, 0);
  const shares = !columns.some(isOfShares)
    ? ''
    : ' Where rows need not sum to 1 (*), a share says nothing of how much it carries: see the row mass.';
  const note = columns.map(biasNote).join('') + shares;
  if (sinkOf(most) === sinkOf(least))
    return `${where}, ${percent(sinkOf(most))} of the heads of each give token 1 more than ${eps}.${note}`;
  const none = columns.filter((one) => sinkOf(one) === sinkOf(least));
  const who = none.length > 1 ? `${none.length} of the others have` : `${nameOf(least)} has`;
  return (
    `${where}, ${nameOf(most)} has most sink: ${percent(sinkOf(most))} of its heads give token 1 ` +
    `more than ${eps} of their attention; ${who} least, ${percent(sinkOf(least))}.${note}`
  );
}
