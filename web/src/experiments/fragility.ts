/**
 * The experiment Perturbations: a repeated token, one channel, one weight, or the directions of the tag. It shows how
 * small a change moves a sink, and which architectures resist.
 */
import { html } from 'lit';
import { segmented } from '../page/controls';
import { superWeightOf, type Frame } from '../frame';
import { randomGenerator } from '../ask/question';
import type { State } from '../ask/state';
import { channels, peakOf } from '../views/channels';
import { likeness, countLikeFirst, layerOfFirst } from '../views/likeness';
import { perturbations } from '../views/perturbations';
import { givenOf, isUnedited, signed } from '../views/settings';
import type { View } from '../page/view';
import { percent } from '../words';
import type { ExperimentRequest, Experiment, Group, Setting } from './experiment';
import { cost, lossColumns, settingsTable, slider, uneditedOf } from './parts';

/** The ratio of token 1's hidden norm to the others' from which it stands out. */
const LARGE_RATIO = 2;
/** The number of random controls for a tested channel, weight or direction. */
const CONTROLS = 5;
const MEASURES = ['loss_mean', 'sink_ratio', 'hidden_ratio', 'hidden_norm'];

/** Draws distinct indices below n, without `not`; a seed gives the same indices every time. */
function drawOthers(n: number, not: number, seed: number): number[] {
  const draw = randomGenerator(seed);
  const places = new Set<number>();
  for (let tries = 0; tries < 1000 && places.size < Math.min(CONTROLS, n - 1); tries++) {
    const at = Math.floor(draw() * n);
    if (at !== not) places.add(at);
  }
  return [...places];
}

/** Whether the residual stream receives W_O times a head's output unchanged. */
const addsHeads = ({ architecture: { norm_place, branch_norms, gate } }: Frame) =>
  norm_place !== 'post' && !branch_norms && gate !== 'output_element';

function planPerturbation({ state, question }: ExperimentRequest, lead: Frame): Setting[] {
  const { D, F } = lead.architecture;
  const settingOf = (edits: string): Setting => ({ edits, question, measures: MEASURES });
  if (state.perturbation === 'channel') {
    const { channel, layer, token, value } = peakOf(lead);
    // Token 1 is the same in all prompts, so the channel of its hidden state can be set to 0 or to its value in the
    // first.
    const number = `~clamp_channel(${channel},${layer},${token}`;
    const fixed = `${number},to=value,value=${value.toFixed(2)})`;
    // With one prompt the second edit would change nothing.
    const alone = [`${number})`, ...(question.n > 1 ? [fixed] : [])];
    return [
      settingOf(''),
      settingOf(`~clamp_channel(${channel})`),
      ...(token === 0 ? alone.map(settingOf) : []),
      ...drawOthers(D, channel, state.seed).map((one) => settingOf(`~clamp_channel(${one})`)),
    ];
  }
  if (state.perturbation === 'tag') {
    const seeds = Array.from({ length: CONTROLS }, (_, i) => state.seed + i);
    const random = seeds.map((seed) => settingOf(`~project(random,seed=${seed})`));
    const tagSettings = ['~project', '~project(tag,heads)'].map(settingOf);
    return [settingOf(''), ...(addsHeads(lead) ? [...tagSettings, ...random] : [])];
  }
  const candidate = superWeightOf(lead);
  if (!candidate) return [settingOf('')];
  const { layer, row, column } = candidate;
  const at = (r: number, c: number) => settingOf(`~scale_weight(down,${layer},${r},${c},0)`);
  const rows = drawOthers(D, row, state.seed);
  const columns = drawOthers(F, column, state.seed + 1);
  // A narrow feed-forward layer may have fewer columns to draw than rows.
  const pairs = rows.slice(0, columns.length).map((r, i) => at(r, columns[i]!));
  return [settingOf(''), at(row, column), ...pairs];
}

const repeatedOf = ({ question, first }: Frame) =>
  question.again ? `“${first.at(-1)}”` : 'a random word';

/** States how many copies of a word, and of the start token, have a hidden norm as large as a first token's. */
function repeatFinding(groups: readonly Group[]) {
  const results = groups.flatMap(({ title, frames }) => {
    const text = frames.find(({ question }) => question.input !== 'repeat');
    const repeated = frames.filter(({ question }) => question.input === 'repeat');
    // A model without a start token can repeat only a word.
    const comparable = repeated.filter(({ question, first }) => !question.again || first.length);
    if (!text || !repeated.length) return [];
    const layer = layerOfFirst(text);
    const ratio = text.tensors.hidden_ratio!.data[layer]!;
    const counts = comparable.map((frame) => countLikeFirst(frame, layer));
    const sinks = [text, ...comparable].map(
      (frame) =>
        `${percent(frame.tensors.sink_ratio!.data[0]!)} on ${frame === text ? 'text' : repeatedOf(frame)}`,
    );
    return [
      {
        title,
        ratio,
        both: comparable,
        counts,
        own: countLikeFirst(text, layer),
        T: text.T,
        sinks,
      },
    ];
  });
  const [main] = results;
  if (!main) return { heading: 'What if one token repeats?', text: '' };
  const isMany = (i: number) => main.ratio >= LARGE_RATIO && main.counts[i]! > 2 * main.own + 4;
  return {
    heading: isMany(0)
      ? 'Repeated tokens behave like first tokens'
      : isMany(1)
        ? 'Copies of the first token behave like it'
        : 'What if one token repeats?',
    text: results
      .map(({ title, ratio, both, counts, own, T, sinks }) => {
        const copies = both.map(
          (frame, i) => `${counts[i]} of ${frame.T - 1} copies of ${repeatedOf(frame)}`,
        );
        return (
          `${title}: ${
            ratio < LARGE_RATIO
              ? `the first token’s hidden norm is only ${ratio.toFixed(1)}× that of the others, so no copy can stand out`
              : `the first token’s hidden norm is ${ratio.toFixed(1)}× that of the others; the norm is at least half as large for ${copies.join(', ')}, and ${own} of ${T - 1} ordinary tokens`
          }. ` + `Sink₁ ${sinks.join(', ')}.`
        );
      })
      .join(' '),
  };
}

/**
 * States whether removing the tag's directions raises the loss more than removing random ones, and what heads write.
 */
function tagWords({
  own,
  most,
  written,
}: {
  own: number;
  most: number;
  written?: number | undefined;
}) {
  if (own <= 0.02 || own <= 3 * most)
    return 'The sink’s tag does not stand out from random directions';
  if (written === undefined) return 'Later tokens use the directions of the tag';
  return written > own / 2
    ? 'Later tokens use the tag that the sink writes'
    : 'Later tokens use the directions of the tag, but hardly what the sink writes there';
}

/** States how much the perturbation raises the loss, compared with random controls. */
function perturbationFinding(groups: readonly Group[], perturbation: Perturbation) {
  const kind = KINDS[perturbation];
  const results = groups.flatMap(({ title, frames }) => {
    const baseline = uneditedOf(frames);
    const struck = frames.filter((frame) => givenOf(frame, kind));
    const [first, ...rest] = struck;
    if (!baseline || !first) return [];
    const tagCost = cost(frames, (frame) => frame === first)!.mean;
    const costs = (is: (given: NonNullable<ReturnType<typeof givenOf>>) => boolean) =>
      rest
        .filter((frame) => is(givenOf(frame, kind)!))
        .map((frame) => cost(frames, (one) => one === frame)!.mean);
    const isTag = perturbation === 'tag';
    const controlCosts = costs(({ token, direction }) =>
      isTag ? direction === 'random' : token === undefined,
    );
    const [alone] = costs(({ token, to }) => token !== undefined && to !== 'value');
    const [fixed] = costs(({ to }) => to === 'value');
    const [written] = costs(({ from }) => from === 'heads');
    if (!controlCosts.length) return [];
    const sinks = [baseline, first].map(({ tensors }) => percent(tensors.sink_ratio!.data[0]!));
    return [
      {
        title,
        own: tagCost,
        most: Math.max(...controlCosts),
        count: controlCosts.length,
        sinks,
        alone,
        fixed,
        written,
      },
    ];
  });
  const [main] = results;
  const one = perturbation;
  const carries = ({ own, most }: (typeof results)[number]) => own > 0.02 && own > 3 * most;
  const isAlone = groups.length > 0 && groups.every(({ frames }) => frames.every(isUnedited));
  if (!main)
    return {
      heading: `What does one ${one} carry?`,
      text: isAlone && perturbation !== 'channel' ? NO_RESULT[perturbation] : '',
    };
  return {
    heading:
      perturbation === 'tag'
        ? tagWords(main)
        : results.some(carries)
          ? `A single ${one} matters more than random ones${carries(main) ? '' : ' in another model'}`
          : `No single ${one} stands out from random ones here`,
    text: results
      .map(
        ({ title, own, most, count, sinks, alone, fixed, written }) =>
          `${title}: ${WORDS[perturbation]} changes the loss by ${signed(own)} nats, ${CONTROL_WORDS[perturbation](count)} by at most ${signed(most)}` +
          `${alone === undefined ? '' : `; at the first token alone, ${signed(alone)}`}` +
          `${fixed === undefined ? '' : `, or fixed to its value in the first prompt, ${signed(fixed)}`}` +
          `${written === undefined ? '' : `; v₁ out of the output of each head, where the tag is written, by ${signed(written)}`}. Sink₁ ${sinks.join(' → ')}.`,
      )
      .join(' '),
  };
}

type Perturbation = Exclude<State['perturbation'], 'repeat'>;

const KINDS = { channel: 'clamp_channel', weight: 'scale_weight', tag: 'project' } as const;

/** A clause for each perturbation. */
const WORDS: Readonly<Record<Perturbation, string>> = {
  channel: 'zeroing the channel with the largest activation',
  weight: 'zeroing the weight that writes the largest activation',
  tag: 'projecting the first token’s tags, W_O v₁ of each head, out of the residual stream',
};

const zeroedWords = (count: number) => `zeroing one of ${count} random ones`;
/** Returns a clause for the random controls of a perturbation. */
const CONTROL_WORDS: Readonly<Record<Perturbation, (count: number) => string>> = {
  channel: zeroedWords,
  weight: zeroedWords,
  tag: (count) => `as many random directions, drawn ${count} times,`,
};

/** Explains why a perturbation has no result. */
const NO_RESULT = {
  weight: 'None of these models sends all tokens through the same feed-forward layer.',
  tag: 'None of these models adds the output of its heads to the stream as W_O makes it.',
} as const;

const PERTURBATIONS = [
  ['repeat', 'repeat a token'],
  ['channel', 'zero a channel'],
  ['weight', 'zero a weight'],
  ['tag', 'project the tag out'],
] as const;

/** Returns the chart of the chosen perturbation. */
export function viewOf({ perturbation }: State): View {
  return perturbation === 'repeat' ? likeness : perturbations;
}

export const fragility: Experiment = {
  name: 'fragility',
  title: 'Fragility',
  hint: 'one channel, one weight, one token',
  view: likeness,
  viewOf,
  detail: channels,
  look: () => '',
  embeds: ({ perturbation, repeats }) =>
    perturbation === 'repeat' ? { input: 'repeat', T: repeats + 1 } : {},
  isLed: true,
  plan: (asked, lead) => {
    const { state, question } = asked;
    if (state.perturbation !== 'repeat') return lead ? planPerturbation(asked, lead) : [];
    const repeated = { ...question, input: 'repeat' as const, T: state.repeats + 1 };
    const isMarked = question.first !== 'none';
    const all = [
      question,
      repeated,
      ...(isMarked ? [{ ...repeated, again: 'first' as const }] : []),
    ];
    return all.map((one) => ({ edits: '', question: one, measures: MEASURES }));
  },
  lead: 9,
  says: (groups, state) =>
    state.perturbation === 'repeat'
      ? repeatFinding(groups)
      : perturbationFinding(groups, state.perturbation),
  table: (groups, file) =>
    settingsTable(
      groups,
      [
        ...lossColumns,
        { name: 'Sink₁', of: ({ tensors }) => percent(tensors.sink_ratio?.data[0] ?? NaN) },
        {
          name: 'max ‖h₁‖ / ‖h‖',
          of: ({ tensors }) =>
            tensors.hidden_ratio && Math.max(...tensors.hidden_ratio.data).toFixed(1),
        },
      ],
      'Loss and sink by perturbation (number of prompts in brackets)',
      file,
    ),
  controls: (context) => {
    const { state, set } = context;
    const { perturbation, length } = state.value;
    return html`${segmented('Perturbation', PERTURBATIONS, perturbation, (value) => set({ perturbation: value }))}
    ${perturbation === 'repeat' ? slider('repetitions', 'repeats', [1, Math.max(127, length)], context) : ''}`;
  },
  foot: () =>
    html`<div class="reported-note">
      <h2>What makes a model less fragile?</h2>
      <p class="hint">
        The first layers cannot tell a repeated token from the first one: without a start token no
        copy stands out among the others. A fixed start token (BOS), a learned bias key or sink
        logit, a gate, or attention whose rows need not sum to 1 makes a model depend less on one
        token: compare the key-bias, gated and sigmoid models. Channels are another matter: with the
        worst one of 128 zeroed, the loss rises by 0.91 nats in the key-bias model, whose sink is on
        the bias key (Sink∗ 79%), by 0.40 with softmax, 0.22 with sigmoid, 0.13 with a gate and 0.10
        with sink logits (24 passages, T = 64).
      </p>
    </div>`,
};
