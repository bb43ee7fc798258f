/** The experiment Cache: the loss by the number of kept keys, for each eviction policy. */
import { html } from 'lit';
import { choicesOf } from '../ask/subject';
import { choiceField } from '../page/controls';
import { mean, type Frame } from '../frame';
import { cache as cacheView } from '../views/cache';
import { costOf, editFields, choiceLabels, formatLossChange } from '../views/settings';
import { sweep } from '../views/sweep';
import { formatPercent } from '../words';
import type { Experiment } from './experiment';
import { checkbox, choicesIn, slider, baselineOf } from './parts';

const DEFAULT_SWEEP = { policies: ['window', 'first', 'h2o', 'tova'], budgets: [8, 24, 64] };
/** Policies that a full sweep leaves out: one evicts only once, the other at random. */
const UNSWEPT_POLICIES = ['snapkv', 'random'];
const BUDGETS = [4, 8, 12, 16, 24, 32, 48, 64];

/**
 * Returns the edit of a policy. SnapKV evicts once, at the end of a prompt, which is here the first half of the text.
 */
function editOf(policy: string, budget: number, T: number): string {
  if (policy === 'first') return `~evict(first,${budget},1)`;
  if (policy !== 'snapkv') return `~evict(${policy},${budget})`;
  const promptLength = Math.floor(T / 2);
  return `~evict(snapkv,${budget},prompt=${promptLength},queries=${Math.min(16, budget, promptLength)})`;
}

const keptShare = ({ tensors }: Frame): number => mean(tensors.keeps_first?.data ?? []);

export const cache: Experiment = {
  name: 'cache',
  title: 'Which words must stay?',
  view: sweep,
  detail: cacheView,
  editsOf: ({ state: { policy, budget }, question }) => editOf(policy, budget, question.T),
  plan: ({ state, question, describe }) => {
    const policyNames = choicesOf(describe, 'evict', 'policy').map(([name]) => name);
    const { policies, budgets } =
      state.sweep === 'all'
        ? {
            policies: policyNames.filter((name) => !UNSWEPT_POLICIES.includes(name)),
            budgets: BUDGETS,
          }
        : DEFAULT_SWEEP;
    const knownPolicy = policyNames.filter((name) => name === state.policy);
    const policyList = [...new Set([...policies, ...knownPolicy])];
    const budgetList = [...new Set([state.budget, ...budgets])];
    // A full sweep measures the KL divergence, which takes a quarter longer, only on request.
    const hasKl = state.sweep === 'some' || state.measure === 'kl';
    const measures = ['loss_mean', 'keeps_first', ...(hasKl ? ['kl_mean'] : [])];
    const editList = budgetList
      .filter((size) => size < question.T)
      .flatMap((size) =>
        policyList
          .filter((policy) => policy !== 'first' || size > 1)
          .map((policy) => editOf(policy, size, question.T)),
      );
    return ['', ...editList].map((edits) => ({ edits, question, measures }));
  },
  leadCount: 5,
  says: (groups, { budget }) => {
    const results = groups.flatMap(({ title, frames }) => {
      const baseline = baselineOf(frames);
      const matches = frames.filter((frame) => editFields(frame, 'evict')?.budget === budget);
      if (!baseline || matches.length < 2) return [];
      const costs = matches
        .map((frame) => ({ frame, cost: costOf(frame, baseline).mean }))
        .sort((a, b) => a.cost - b.cost);
      return [{ title, costs, best: costs[0]!, worst: costs.at(-1)!, T: baseline.T }];
    });
    if (!results.length) return { heading: 'Which keys should the cache keep?', text: '' };
    const policyLabel = (frame: Frame) => choiceLabels(frame, 'evict').policy;
    const [mainResult] = results;
    const sentences = results.map(
      ({ title, best, worst }) =>
        `${title}: the loss is lowest when the cache keeps ${policyLabel(best.frame)} (${formatLossChange(best.cost)} nats; the first token stays ` +
        `in ${formatPercent(keptShare(best.frame), 0)} of the heads), and highest when it keeps ${policyLabel(worst.frame)} ` +
        `(${formatLossChange(worst.cost)}; ${formatPercent(keptShare(worst.frame), 0)}).`,
    );
    // States a result only if all policies that keep the first token in most heads lose less than the others.
    const keepsFirst = mainResult!.costs.map(({ frame }) => keptShare(frame) >= 0.5);
    const count = keepsFirst.filter(Boolean).length;
    const keepersAreBest =
      0 < count && count < keepsFirst.length && keepsFirst.lastIndexOf(true) < count;
    return {
      heading: keepersAreBest
        ? 'Policies that keep the first token lose least'
        : 'Which keys should the cache keep?',
      text: `KV cache of ${budget} keys, ${mainResult!.T} tokens. ${sentences.join(' ')}`,
    };
  },
  caption: 'Loss by eviction policy',
  columnsOf: () => [
    { name: 'KL, nats', valueOfFrame: ({ tensors }) => tensors.kl_mean?.data[0]?.toFixed(4) },
    {
      name: 'heads that keep the first token',
      valueOfFrame: (frame) => formatPercent(keptShare(frame), 0),
    },
  ],
  controls: (context) => {
    const { state, set } = context;
    const { policy, length, sweep: sweepSize, measure } = state.value;
    return html`${choiceField(
      'policy shown',
      policy,
      choicesIn(context, 'evict', 'policy', policy),
      (value) => set({ policy: value }),
    )}
    ${slider('keys kept', 'budget', [1, Math.max(8, Math.min(128, length))], context)}
    ${
      sweepSize === 'all'
        ? checkbox('also KL to the baseline', measure === 'kl', (isOn) =>
            set({ measure: isOn ? 'kl' : 'loss' }),
          )
        : ''
    }
    ${checkbox('all policies and budgets', sweepSize === 'all', (isOn) =>
      set(isOn ? { sweep: 'all' } : { sweep: 'some' }),
    )}`;
  },
};
