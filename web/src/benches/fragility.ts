/**
 * One token again and again, one channel, one weight: how little it takes to move a sink, and how models
 * are built so that it takes more. It shows a mechanism on the reader's own models.
 */
import { html } from 'lit';
import { segmented } from '../controls';
import type { Frame } from '../frame';
import { draws } from '../question';
import type { State } from '../state';
import { channels, peakOf } from '../views/channels';
import { firsts, firstsIn, layerOfFirst } from '../views/firsts';
import { harms } from '../views/harms';
import { givenOf, isUnedited, signed } from '../views/settings';
import type { View } from '../views/view';
import { percent } from '../words';
import type { Asked, Bench, Group, Setting } from './bench';
import { cost, lossColumns, settingsTable, slider, wholeOf } from './parts';

/** Times the others' hidden norm: below it token 1 is one of many. */
const STANDS_OUT = 2;
/** As many beside the one that is meant. */
const OTHERS = 5;
const MEASURES = ['loss_mean', 'sink_ratio', 'hidden_ratio', 'hidden_norm'];

/** Different places below n, not `not`, the same ones for a seed. */
function others(n: number, not: number, seed: number): number[] {
  const draw = draws(seed);
  const found = new Set<number>();
  for (let tries = 0; tries < 1000 && found.size < Math.min(OTHERS, n - 1); tries++) {
    const at = Math.floor(draw() * n);
    if (at !== not) found.add(at);
  }
  return [...found];
}

/** The weight that writes most into the largest number: a row of `down`, and its strongest input. */
export function superWeight(
  lead: Frame,
): { layer: number; row: number; column: number } | undefined {
  const { ffn_up: up, ffn_gate: gate } = lead.tensors;
  const peak = peakOf(lead);
  const layer = peak.layer - 1;
  if (!up || layer < 0) return undefined;
  const [, T, F] = up.shape as [number, number, number];
  const from = (layer * T + peak.token) * F;
  const { activation } = lead.architecture;
  // What of it passes the activation; of a place among others it need not be exact.
  const passed = (x: number) =>
    activation.startsWith('relu')
      ? Math.max(0, x)
      : x / (1 + Math.exp(-(activation === 'silu' ? 1 : 1.702) * x));
  const size = (f: number) =>
    Math.abs(gate ? passed(gate.data[from + f]!) * up.data[from + f]! : passed(up.data[from + f]!));
  let column = 0;
  for (let f = 1; f < F; f++) if (size(f) > size(column)) column = f;
  return { layer, row: peak.channel, column };
}

function planHarm({ state, question }: Asked, lead: Frame): Setting[] {
  const { D, F } = lead.architecture;
  const with_ = (edits: string): Setting => ({ edits, question, measures: MEASURES });
  if (state.harm === 'channel') {
    const { channel } = peakOf(lead);
    return [
      with_(''),
      with_(`~clamp_channel(${channel})`),
      with_(`~clamp_channel(${channel},to=mean)`),
      ...others(D, channel, state.seed).map((one) => with_(`~clamp_channel(${one})`)),
    ];
  }
  const found = superWeight(lead);
  if (!found) return [with_('')];
  const { layer, row, column } = found;
  const at = (r: number, c: number) => with_(`~scale_weight(down,${layer},${r},${c},0)`);
  const rows = others(D, row, state.seed);
  const columns = others(F, column, state.seed + 1);
  return [with_(''), at(row, column), ...rows.map((r, i) => at(r, columns[i] ?? 0))];
}

const isRepeat = ({ question }: Frame) => question.input === 'repeat';

function sayRepeat(groups: readonly Group[]) {
  const told = groups.flatMap(({ title, frames }) => {
    const text = frames.find((frame) => !isRepeat(frame));
    const repeated = frames.find(isRepeat);
    if (!text || !repeated) return [];
    const layer = layerOfFirst(text);
    const ratio = text.tensors.hidden_ratio!.data[layer]!;
    const n = firstsIn(repeated, layer);
    const own = firstsIn(text, layer);
    const [a, b] = [text, repeated].map(({ tensors }) => percent(tensors.sink_ratio!.data[0]!));
    return [{ title, n, own, T: repeated.T, a, b, ratio }];
  });
  const [main] = told;
  if (!main) return { heading: 'One token, again and again', text: '' };
  return {
    heading:
      main.ratio >= STANDS_OUT && main.n > 2 * main.own + 4
        ? 'Repeated tokens become first tokens'
        : 'One token, again and again',
    text: told
      .map(({ title, n, own, T, a, b, ratio }) =>
        ratio < STANDS_OUT
          ? `${title}: token 1 is ${ratio.toFixed(1)} × as long as the others, so that none is taken for it; Sink₁ goes from ${a} to ${b}.`
          : `${title}: ${n} of ${T - 1} repeated positions have half of token 1’s hidden norm or more (${own} of ordinary text), and Sink₁ goes from ${a} to ${b}.`,
      )
      .join(' '),
  };
}

function sayHarm(groups: readonly Group[], { harm }: State) {
  const kind = harm === 'channel' ? 'clamp_channel' : 'scale_weight';
  const told = groups.flatMap(({ title, frames }) => {
    const whole = wholeOf(frames);
    const struck = frames.filter((frame) => givenOf(frame, kind));
    const [first, ...rest] = struck;
    if (!whole || !first) return [];
    const own = cost(frames, (frame) => frame === first)!.mean;
    const beside = rest
      .filter((frame) => givenOf(frame, kind)!.to !== 'mean')
      .map((frame) => cost(frames, (one) => one === frame)!.mean);
    if (!beside.length) return [];
    const sinks = [whole, first].map(({ tensors }) => percent(tensors.sink_ratio!.data[0]!));
    const mean = rest.find((frame) => givenOf(frame, kind)!.to === 'mean');
    return [
      {
        title,
        own,
        most: Math.max(...beside),
        count: beside.length,
        sinks,
        mean: mean && cost(frames, (one) => one === mean)!.mean,
      },
    ];
  });
  const [main] = told;
  const one = harm === 'channel' ? 'One channel' : 'One weight';
  const carries = ({ own, most }: (typeof told)[number]) => own > 0.02 && own > 3 * most;
  const isAlone = groups.length > 0 && groups.every(({ frames }) => frames.every(isUnedited));
  if (!main)
    return {
      heading: `${one} of many`,
      text:
        isAlone && harm === 'weight' ? 'No model here has one feed-forward for all tokens.' : '',
    };
  return {
    heading: `${one} ${carries(main) ? 'carries much' : told.some(carries) ? 'of many' : 'of many, and no more'}`,
    text: told
      .map(
        ({ title, own, most, count, sinks, mean }) =>
          `${title}: at 0, the ${harm} of the largest number costs ${signed(own)} nats, ${count} drawn ones at most ${signed(most)}` +
          `${mean === undefined ? '' : `; at its mean over the tokens, ${signed(mean)}`}. Sink₁ ${sinks.join(' → ')}.`,
      )
      .join(' '),
  };
}

const HARMS = [
  ['repeat', 'repeat a token'],
  ['channel', 'zero a channel'],
  ['weight', 'zero a weight'],
] as const;

/** The chart follows what is done. */
export function viewOf({ harm }: State): View {
  return harm === 'repeat' ? firsts : harms;
}

export const fragility: Bench = {
  name: 'fragility',
  title: 'Fragility',
  hint: 'one number, one token',
  view: firsts,
  viewOf,
  detail: channels,
  look: () => '',
  isLed: true,
  reads: ({ harm }) => (harm === 'weight' ? ['ffn_up', 'ffn_gate'] : []),
  plan: (asked, lead) => {
    const { state, question } = asked;
    if (state.harm !== 'repeat') return lead ? planHarm(asked, lead) : [];
    const repeated = { ...question, input: 'repeat' as const, T: state.times + 1 };
    return [
      { edits: '', question, measures: MEASURES },
      { edits: '', question: repeated, measures: MEASURES },
    ];
  },
  says: (groups, state) => (state.harm === 'repeat' ? sayRepeat(groups) : sayHarm(groups, state)),
  table: (groups) =>
    settingsTable(
      groups,
      [
        ...lossColumns,
        { name: 'Sink₁', of: ({ tensors }) => percent(tensors.sink_ratio?.data[0] ?? NaN) },
        {
          name: '‖h₁‖ / ‖h‖, most',
          of: ({ tensors }) =>
            tensors.hidden_ratio && Math.max(...tensors.hidden_ratio.data).toFixed(1),
        },
      ],
      'What it does; prompts in brackets',
    ),
  controls: (desk) => {
    const { state, set } = desk;
    const { harm, length } = state.value;
    return html`${segmented('What is done', HARMS, harm, (value) => set({ harm: value }))}
    ${harm === 'repeat' ? slider('times', 'times', [1, Math.max(127, length)], desk) : ''}`;
  },
  foot: () =>
    html`<div class="reported-note">
      <h2>How models defend</h2>
      <p class="hint">
        To the first layers a token that comes again and again looks like the first one, so that
        every copy may become a sink. A start mark that always stands first, a bias key or a sink
        logit of the heads’ own, a gate, and attention that need not sum to 1 leave less to a single
        token, channel or weight: compare the key-bias, gated and sigmoid twins.
      </p>
    </div>`,
};
