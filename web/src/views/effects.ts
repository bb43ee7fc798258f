/** Draws the effect of ablating each head on the loss, and the head's role. */
import { html, render } from 'lit';
import { labelHead, type HeadLabel } from 'sinkscope';
import { headAt, isBidirectional, largest, mean, type Frame, type Head } from '../frame';
import { diverging } from '../plot/color';
import { quantity } from '../save/numbers';
import { capital, headWords, percent } from '../words';
import { createHeadMap } from './head_map';
import { signed } from './settings';
import { addElement, setText, type View } from '../page/view';

/**
 * The labels of heads in saved numbers. A head with a sink is a no-op only if the model predicts as well without it.
 */
const LABELS = ['active', 'no-op', 'parked', 'broadcast'] as const;
type Label = (typeof LABELS)[number];

interface Judged extends Head, Pick<HeadLabel, 'dormant'> {
  readonly label: Label;
  readonly effect: number;
  readonly share: number;
}

/** Returns every head of the model, in the order of the tensors. */
function judgedHeads({ tensors, architecture: { H }, eps }: Frame): Judged[] {
  return Array.from(tensors.effect!.data, (effect, i) => {
    const share = tensors.first_share!.data[i]!;
    const contribution = tensors.contribution!.data[i]!;
    const { label: name, dormant } = labelHead({ eps, share, contribution, effect });
    const label = name === 'no-op' && !dormant ? 'parked' : name;
    return { ...headAt(i, H), effect, share, label, dormant };
  });
}

/** The three kinds that the page distinguishes, in the order of the table. */
const KINDS = ['dormant', 'used', 'none'] as const;
type Kind = (typeof KINDS)[number];
const kindOf = ({ label, dormant }: Judged): Kind =>
  dormant ? 'dormant' : label === 'active' ? 'none' : 'used';

const TITLES = {
  dormant: 'sink, dormant',
  used: 'sink, changes the loss',
  none: 'no sink',
} as const satisfies Record<Kind, string>;
const called = (head: Judged) =>
  ({
    dormant: 'is dormant',
    used: `has a sink, and the model predicts ${head.effect > 0 ? 'worse' : 'better'} without it`,
    none: 'has no sink',
  })[kindOf(head)];

/** Returns the heads with a sink whose ablation, one at a time, hardly changes the loss. */
export const dormantHeads = (frame: Frame): readonly Head[] =>
  judgedHeads(frame).filter(({ dormant }) => dormant);

const dormantWords = (all: readonly Judged[]): string =>
  `${all.filter(({ dormant }) => dormant).length} of ${all.length} heads are dormant on this text: each has a sink, and ` +
  'the model predicts as well without it.';

/** States the effect of ablating the selected head, and the head with the largest effect. */
function changeWords(all: readonly Judged[], frame: Frame, { layer, head }: Head): string {
  const selected = all[layer * frame.architecture.H + head]!;
  const largest = all.reduce((a, b) => (Math.abs(b.effect) > Math.abs(a.effect) ? b : a));
  return (
    `${capital(headWords(selected))} ${called(selected)}: it gives the first token ${percent(selected.share, 0)} of its attention, and ` +
    `ablating it changes the loss by ${signed(selected.effect)}. Ablating ${headWords(largest)} changes the loss most, by ` +
    `${signed(largest.effect)} nats per token.`
  );
}

function sentence(frame: Frame, at: Head): string {
  const heads = judgedHeads(frame);
  return `${dormantWords(heads)} ${changeWords(heads, frame, at)}`;
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
  fits: (frame) => !isBidirectional(frame),
  numbers: (frame) => {
    const { tensors, architecture } = frame;
    const { L, H } = architecture;
    const labels = judgedHeads(frame).map(({ label }) => LABELS.indexOf(label) + 1);
    return [
      quantity('effect', ['layer', 'head'], tensors.effect!),
      quantity('first_share', ['layer', 'head'], tensors.first_share!),
      quantity('contribution', ['layer', 'head'], tensors.contribution!),
      quantity(
        `label (${LABELS.map((name, i) => `${i + 1} ${name}`).join(', ')})`,
        ['layer', 'head'],
        {
          shape: [L, H],
          data: Float32Array.from(labels),
        },
      ),
    ];
  },
  says: sentence,
  draw(root, api) {
    const words = addElement(root, 'caption', 'p');
    const draw = createHeadMap(root, api);
    const table = addElement(root, 'table-place');
    table.tabIndex = 0;
    table.setAttribute('role', 'region');
    table.setAttribute('aria-label', 'Heads by kind');
    return (frame, options) => {
      const heads = judgedHeads(frame);
      const change = changeWords(heads, frame, options.at);
      const caption = `${dormantWords(heads)} ${change}`;
      const size = largest(
        options.frames.map(({ tensors }) => tensors.effect?.data ?? []),
        0.01,
      );
      // The room's answer already states the dormant heads.
      setText(words, options.isAnswered ? change : caption);
      draw(frame, options, {
        data: frame.tensors.effect!.data,
        scale: diverging(options.theme, size),
        symbol: 'loss change',
        print: signed,
        label: `Change of the loss with each head ablated, ${frame.title}. ${caption}`,
        outlined: {
          cells: heads
            .filter((one) => one.dormant)
            .map(({ layer, head }) => ({ row: layer, col: head })),
          name: 'dormant: a sink, and the model does as well without the head',
        },
        more: ({ row, col }) => `, ${TITLES[kindOf(heads[row * frame.architecture.H + col]!)]}`,
      });
      render(
        html`<table class="metrics settings">
          <thead>
            <tr>
              <th scope="col">kind</th>
              <th scope="col">heads</th>
              <th scope="col">attention on first token, mean</th>
              <th scope="col">loss change with one ablated, mean</th>
            </tr>
          </thead>
          <tbody>
            ${KINDS.map((kind) => {
              const ofKind = heads.filter((one) => kindOf(one) === kind);
              return html`<tr>
                <th scope="row">${TITLES[kind]}</th>
                <td>${ofKind.length}</td>
                <td>${percent(mean(ofKind.map(({ share }) => share)), 0)}</td>
                <td>${signed(mean(ofKind.map(({ effect }) => effect)))}</td>
              </tr>`;
            })}
          </tbody>
        </table>`,
        table,
      );
    };
  },
};
