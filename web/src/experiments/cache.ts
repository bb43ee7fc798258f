/** The experiment Cache: the loss by the number of kept keys, for each eviction policy. */
import { html } from 'lit';
import { choicesOf } from '../ask/subject';
import type { Context } from '../page/context';
import { choiceField } from '../page/controls';
import { mean, withoutNaN, type Frame } from '../frame';
import {
  costOf,
  editFields,
  percentWorse,
  SMALL_CHANGE,
  policyName,
  policyWords,
  worseWords,
} from '../views/settings';
import { sweep } from '../views/sweep';
import { formatPercent } from '../words';
import type { Experiment } from './experiment';
import {
  baselineOf,
  checkbox,
  choicesIn,
  bridgeWords,
  scaleWords,
  firstTokensWords,
  HOW_MUCH_WORSE,
  SINK_MEASURES,
  settingLine,
  slider,
} from './parts';

const DEFAULT_SWEEP = {
  policies: ['window', 'first', 'lru', 'h2o', 'tova'],
  budgets: [8, 24, 64],
};
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

const DEFAULT_HEADING = 'Which tokens should the cache keep?';

/** Returns a menu of rules. */
function ruleField(label: string, chosen: string, names: readonly string[], context: Context) {
  const labels = new Map(choicesIn(context, 'evict', 'policy', chosen));
  const choices = names.map((name) => [name, policyWords(name, labels.get(name))[0]] as const);
  return choiceField(label, chosen, choices, (policy) => context.set({ policy }));
}

const keptShare = ({ tensors }: Frame): number => mean(tensors.keeps_first?.data ?? []);

const hitShare = ({ tensors }: Frame): string | undefined =>
  tensors.cache_hits && formatPercent(mean(withoutNaN(tensors.cache_hits.data)), 0);

export const cache: Experiment = {
  name: 'cache',
  title: 'Which words stay?',
  chartQuestion: HOW_MUCH_WORSE,
  view: sweep,
  pairOf: ({ state: { policy, budget }, question }) => [
    editOf('window', budget, question.T),
    editOf(policy, budget, question.T),
  ],
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
    // A full sweep compares with the baseline, which takes a quarter longer, only on request.
    const isCompared = state.sweep === 'some' || state.measure === 'kl';
    const measures = ['loss_mean', 'keeps_first', ...(isCompared ? ['kl_mean', 'cache_hits'] : [])];
    const editList = budgetList
      .filter((size) => size < question.T)
      .flatMap((size) =>
        policyList
          .filter((policy) => policy !== 'first' || size > 1)
          .map((policy) => editOf(policy, size, question.T)),
      );
    return ['', ...editList].map((edits) => ({
      ...{ edits, question },
      measures: edits ? measures : [...measures, ...SINK_MEASURES],
    }));
  },
  leadCount: 6,
  says: (groups, { budget }) => {
    const results = groups.flatMap(({ title, frames }) => {
      const baseline = baselineOf(frames);
      const matches = frames.filter((frame) => editFields(frame, 'evict')?.budget === budget);
      if (!baseline || matches.length < 2) return [];
      const costs = matches
        .map((frame) => ({ frame, cost: costOf(frame, baseline).mean }))
        .sort((a, b) => a.cost - b.cost);
      return [{ title, baseline, costs, best: costs[0]!, worst: costs.at(-1)! }];
    });
    const [mainResult] = results;
    if (!mainResult) return { heading: DEFAULT_HEADING, text: '' };
    const { title, baseline, costs, best, worst } = mainResult;
    // States a result only if all policies that keep the first token in most heads lose less than the others.
    const keepsFirst = costs.map(({ frame }) => keptShare(frame) >= 0.5);
    const count = keepsFirst.filter(Boolean).length;
    const keepersAreBest =
      0 < count && count < keepsFirst.length && keepsFirst.lastIndexOf(true) < count;
    const first = firstTokensWords(1, baseline);
    const others = count === costs.length - 1 ? 'the other' : 'the others at least';
    const [kept, dropped] = [costs[count - 1], costs[count]];
    return {
      heading: keepersAreBest
        ? `Rules that keep ${first}: at most ${worseWords(kept!.cost)}; ${others} ${percentWorse(dropped!.cost)}`
        : worseWords(best.cost) === worseWords(worst.cost)
          ? `Each rule: ${worseWords(best.cost)}`
          : `The best rule: ${worseWords(best.cost)}; the worst: ${worseWords(worst.cost)}`,
      bridge: bridgeWords(baseline, title, keepersAreBest && dropped!.cost > 2 * SMALL_CHANGE),
      text:
        `It keeps ${budget} token${budget === 1 ? '' : 's'} by one of ${costs.length} rules: ` +
        `${keepersAreBest ? `${count} keep ${first} in most heads` : `the best is “${policyName(best.frame)}”, the worst “${policyName(worst.frame)}”`}. ` +
        scaleWords(baseline),
      lines: costs
        .map(({ frame }) => policyName(frame))
        .map((label) =>
          settingLine(
            `“${label}”`,
            (frame) => policyName(frame) === label && editFields(frame, 'evict')?.budget === budget,
          ),
        ),
    };
  },
  caption: 'Loss by eviction policy',
  columnsOf: () => [
    { name: 'KL, nats', valueOfFrame: ({ tensors }) => tensors.kl_mean?.data[0]?.toFixed(4) },
    { name: 'hits: used tokens still kept', valueOfFrame: hitShare },
    {
      name: 'heads that keep the first token',
      valueOfFrame: (frame) => formatPercent(keptShare(frame), 0),
    },
  ],
  menu: (context, recorded) => {
    const { policy } = context.state.value;
    const shown = recorded.includes(policy) ? policy : recorded[0]!;
    return ruleField('rule', shown, recorded, context);
  },
  controls: (context) => {
    const { state, set } = context;
    const { policy, length, sweep: sweepSize, measure } = state.value;
    const names = choicesIn(context, 'evict', 'policy', policy).map(([name]) => name);
    // The maps show the rule beside that of the last tokens.
    const shown = names.filter((name) => name === policy || name !== 'window');
    const main = html`${ruleField('any rule', policy, shown, context)}
    ${slider('tokens kept', 'budget', [1, Math.max(8, Math.min(128, length))], context)}`;
    const more = html`${
      sweepSize === 'all'
        ? checkbox('also KL to the baseline', measure === 'kl', (isOn) =>
            set({ measure: isOn ? 'kl' : 'loss' }),
          )
        : ''
    }
    ${checkbox('all policies and budgets', sweepSize === 'all', (isOn) =>
      set(isOn ? { sweep: 'all' } : { sweep: 'some' }),
    )}`;
    return [main, more];
  },
  reported: () =>
    'Large models do nearly as well with a fifth of the tokens, half of them the most attended (OPT, LLaMA, GPT-NeoX; Zhang et al. 2023)',
};
