/** Draws the gate of every head, a factor from 0 to 1 on the head's output or on its values. */
import { mean, ofHead } from '../frame';
import { sequential } from '../plot/color';
import { quantity } from '../save/numbers';
import {
  capitalize,
  firstPromptWords,
  headWords,
  formatValue,
  modelName,
  firstName,
} from '../words';
import { createHeadsDraw } from './head_map';
import type { View } from '../page/view';

export const gate: View = {
  name: 'gate',
  title: 'Gate',
  question: 'Can a head be silent without a sink?',
  how:
    'A gate is a sigmoid of a token’s hidden state that multiplies the output of a head, or ' +
    'its value. Each cell is a head; its color is the mean gate. Near 0 the head writes almost nothing and ' +
    'does not need a sink for that. Below: the gate of the selected head at each token of the first prompt.',
  source: 'Qiu et al., 2025 (gated attention)',
  reads: ['gate_mean', 'gate'],
  fits: ({ architecture }) => architecture.gate !== null,
  numbers: ({ tensors }) => [
    quantity('gate_mean', ['layer', 'head'], tensors.gate_mean!),
    quantity('gate', ['layer', 'head', 'token'], tensors.gate!),
  ],
  says: (frame, at) => {
    const { tensors, T, sequences } = frame;
    const gates = ofHead(tensors.gate!, at);
    const { data } = tensors.gate_mean!;
    const othersWords = T > 1 ? `, ${formatValue(mean(gates, 1))} at the others` : '';
    return (
      `Mean gate over all heads${sequences > 1 ? ` and ${sequences} prompts` : ''}: ${formatValue(mean(data))}, from ${formatValue(Math.min(...data))} to ` +
      `${formatValue(Math.max(...data))}. ${capitalize(headWords(at, frame))}${firstPromptWords(frame)}: ${formatValue(gates[0]!)} at ${firstName(frame)}${othersWords}.`
    );
  },
  draw: createHeadsDraw(
    (frame, at) => gate.says(frame, at),
    (frame, { at, theme }) => ({
      heads: {
        data: frame.tensors.gate_mean!.data,
        scale: sequential(theme),
        symbol: 'gate',
        label: `Mean of the gate in every head of ${modelName(frame)}.`,
      },
      tokenChart: {
        kind: 'lines',
        xLabel: `token t${firstPromptWords(frame)}`,
        yLabel: 'gate',
        domain: [0, 1],
        label: `Gate by token${firstPromptWords(frame)}, ${headWords(at, frame)} of ${modelName(frame)}`,
        series: [{ name: 'gate', color: '--query', values: ofHead(frame.tensors.gate!, at) }],
      },
    }),
  ),
};
