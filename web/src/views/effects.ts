/** Draws how much the loss changes when a head is ablated, and classifies the heads. */
import { render } from 'lit';
import { labelHead } from 'sinkscope/internal';
import {
  firstTokenWeights,
  usesRawWeights,
  headAt,
  largestMagnitude,
  mean,
  predictsNext,
  type Frame,
  type Head,
} from '../frame';
import { diverging } from '../plot/color';
import { quantity } from '../save/numbers';
import {
  capitalize,
  firstName,
  headWords,
  formatPercent,
  shareWords,
  textsWords,
  tooShortNote,
  verdictOf,
} from '../words';
import { createHeadMap } from './head_map';
import { formatLossChange } from './settings';
import { linesTable } from '../page/tables';
import { addElement, setText, type View } from '../page/view';

/** The labels of heads in saved numbers, as `effects.how` defines them. */
const LABELS = ['active', 'no-op', 'parked', 'broadcast'] as const;

/**
 * Labels each head. As everywhere on the page, a head has a sink if its attention on the first token exceeds ε. In a text
 * too short to distinguish sinks from uniform attention no head counts as one.
 */
function labeledHeads(frame: Frame) {
  const { tensors, architecture, eps } = frame;
  const { H } = architecture;
  const weights = firstTokenWeights(frame);
  const { conclusive } = verdictOf(frame);
  return Array.from(tensors.effect!.data, (effect, i) => {
    const share = weights[i]!;
    const judgedShare = conclusive ? share : 0;
    const contribution = tensors.contribution!.data[i]!;
    const { label: name, dormant } = labelHead({ eps, share: judgedShare, contribution, effect });
    const label: (typeof LABELS)[number] = name === 'no-op' && !dormant ? 'parked' : name;
    return { ...headAt(i, H), effect, share, label, dormant };
  });
}

type LabeledHead = ReturnType<typeof labeledHeads>[number];

const TITLES = {
  dormant: 'sink, dormant',
  used: 'sink, changes the loss',
  none: 'no sink',
} as const;
const kindOf = ({ label, dormant }: LabeledHead): keyof typeof TITLES =>
  dormant ? 'dormant' : label === 'active' ? 'none' : 'used';
const kindWords = (head: LabeledHead) =>
  ({
    dormant: 'is dormant',
    used: `has a sink, and the model predicts ${head.effect > 0 ? 'worse' : 'better'} without it`,
    none: 'has no sink',
  })[kindOf(head)];

/** Returns the dormant heads: they have a sink, and ablating one of them hardly changes the loss. */
export const dormantHeads = (frame: Frame): readonly Head[] =>
  labeledHeads(frame).filter(({ dormant }) => dormant);

export const sinkCount = (frame: Frame): number =>
  labeledHeads(frame).filter((head) => kindOf(head) !== 'none').length;

function dormantWords(heads: readonly LabeledHead[], frame: Frame): string {
  const shortNote = tooShortNote(frame);
  if (shortNote) return shortNote;
  return `${heads.filter(({ dormant }) => dormant).length} of ${heads.length} heads are dormant on ${textsWords(frame)}: each has a sink, and the model predicts as well without it.`;
}

function changeWords(heads: readonly LabeledHead[], frame: Frame, { layer, head }: Head): string {
  const selectedHead = heads[layer * frame.architecture.H + head]!;
  const kindClause = verdictOf(frame).conclusive ? `${kindWords(selectedHead)}: it ` : '';
  const largestHead = heads.reduce((a, b) => (Math.abs(b.effect) > Math.abs(a.effect) ? b : a));
  return (
    `${capitalize(headWords(selectedHead, frame))} ${kindClause}gives ${firstName(frame)} ${usesRawWeights(frame) ? 'a mean weight of ' : ''}${formatPercent(selectedHead.share, 0)}${usesRawWeights(frame) ? '' : ` ${shareWords(frame)}`}, and ` +
    `ablating it changes the loss by ${formatLossChange(selectedHead.effect)}. Ablating ${headWords(largestHead, frame)} changes the loss most, by ` +
    `${formatLossChange(largestHead.effect)} nats per token.` +
    (heads.some(({ effect }) => effect < 0)
      ? ' In blue cells the model predicts better without the head.'
      : '')
  );
}

function sentence(frame: Frame, at: Head): string {
  const heads = labeledHeads(frame);
  return `${dormantWords(heads, frame)} ${changeWords(heads, frame, at)}`;
}

export const effects: View = {
  name: 'effects',
  title: 'Head ablation',
  question: 'Which heads matter?',
  how:
    'Each cell is a head; its color shows how much the loss changes when the output of that head is set to 0. A head ' +
    'has a sink if more than ε of its attention goes to the first token. Frames mark dormant heads: those with a sink ' +
    'whose ablation changes the loss by less than 0.01 nats. On another text they may be used. Saved numbers call a head ' +
    'without a sink active, and one with a sink broadcast if the first token’s value makes up half or more of its ' +
    'output, else no-op if it is dormant, else parked.',
  formula: 'effect = loss with the head ablated − loss',
  source: 'Guo et al. 2024 (dormant heads); arXiv 2606.08105 (no-op and broadcast)',
  reads: ['effect', 'first_share', 'contribution'],
  fits: predictsNext,
  numbers: (frame) => {
    const { tensors, architecture } = frame;
    const { L, H } = architecture;
    const { conclusive } = verdictOf(frame);
    const labels = labeledHeads(frame).map(({ label }) =>
      conclusive ? LABELS.indexOf(label) + 1 : NaN,
    );
    const labelNames = LABELS.map((name, i) => `${i + 1} ${name}`).join(', ');
    const label = { shape: [L, H], data: Float32Array.from(labels) };
    const numbers = ['effect', 'first_share', 'contribution'].map((name) =>
      quantity(name, ['layer', 'head'], tensors[name]!),
    );
    return [...numbers, quantity(`label (${labelNames})`, ['layer', 'head'], label)];
  },
  says: sentence,
  draw(root, api) {
    const captionElement = addElement(root, 'caption', 'p');
    const drawMap = createHeadMap(root, api);
    const table = addElement(root, 'table-place');
    table.tabIndex = 0;
    table.setAttribute('role', 'region');
    table.setAttribute('aria-label', 'Heads by kind');
    return (frame, options) => {
      const heads = labeledHeads(frame);
      const isCounted = verdictOf(frame).conclusive;
      const selectedWords = changeWords(heads, frame, options.at);
      const caption = `${dormantWords(heads, frame)} ${selectedWords}`;
      const maximum = largestMagnitude(
        options.frames.map(({ tensors }) => tensors.effect?.data ?? []),
        0.01,
      );
      // The room's answer already states the dormant heads.
      setText(captionElement, options.isAnswered && isCounted ? selectedWords : caption);
      drawMap(frame, options, {
        data: frame.tensors.effect!.data,
        scale: diverging(options.theme, maximum),
        symbol: 'loss change',
        print: formatLossChange,
        label: `Change of the loss with each head ablated, ${frame.title}. ${caption}`,
        outlined: {
          cells: heads
            .filter((head) => head.dormant)
            .map(({ layer, head }) => ({ row: layer, col: head })),
          name: 'dormant: a sink, and ablating the head changes the loss by less than 0.01',
        },
        more: ({ row, col }) =>
          isCounted ? `, ${TITLES[kindOf(heads[row * frame.architecture.H + col]!)]}` : '',
      });
      table.hidden = !isCounted;
      const attentionTitle = `attention on ${firstName(frame)}, mean`;
      const columns = ['kind', 'heads', attentionTitle, 'loss change with one ablated, mean'];
      const lines = Object.entries(TITLES).map(([kind, title]) => {
        const members = heads.filter((head) => kindOf(head) === kind);
        const share = formatPercent(mean(members.map((head) => head.share)), 0);
        const change = formatLossChange(mean(members.map(({ effect }) => effect)));
        return { title, cells: [members.length, share, change] };
      });
      render(linesTable('metrics settings', '', columns, lines), table);
    };
  },
};
