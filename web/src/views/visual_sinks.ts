/** Draws which patches of an image are visual sinks: tokens whose state is large in the channels of the first token. */
import type { Frame, Head } from '../frame';
import { sequential } from '../plot/color';
import { quantity } from '../save/numbers';
import {
  capitalize,
  firstPromptWords,
  formatPercent,
  formatValue,
  headWords,
  modelName,
  stateWords,
} from '../words';
import type { View } from '../page/view';
import { attentionOnTokens, createPatchesDraw, largestState, sumAt, tokensOfKind } from './patches';

/** A patch is a visual sink from this sink dimension value on, as in the paper. */
const VISUAL_SINK = 20;

/** Returns the values of the patches in the layer where one is largest; `state` 0 is the input of the first layer. */
export function visualSinks(frame: Frame) {
  const { numbers, ...found } = largestState(frame, frame.image?.sinkValue?.data);
  const sinks = Array.from(numbers.keys()).filter((i) => numbers[i]! >= VISUAL_SINK);
  return { ...found, values: numbers, sinks };
}

function says(frame: Frame, at: Head): string {
  const { state, values, largest, sinks } = visualSinks(frame);
  if (!values.length) return '';
  const opening = `${capitalize(stateWords(state))} of ${modelName(frame)}${firstPromptWords(frame)},`;
  if (!sinks.length)
    return `${opening} no patch is a visual sink: the largest value is ${formatValue(largest, 1)}, below ${VISUAL_SINK}. In no other layer is it larger.`;
  const weights = attentionOnTokens(frame, at, -1);
  const places = tokensOfKind(frame, 'i');
  const [received, all] = [sinks.map((i) => places[i]!), places].map((tokens) =>
    sumAt(weights, tokens),
  );
  const count = `${sinks.length} of ${values.length} patches ${sinks.length > 1 ? 'are visual sinks' : 'is a visual sink'}`;
  const share = Number.isFinite(received! / all!)
    ? ` ${capitalize(headWords(frame.head ?? at, frame))} gives ${sinks.length > 1 ? 'them' : 'it'} ${formatPercent(received! / all!)} of what all patches receive (sums of αₖ).`
    : '';
  return `${opening} ${count} (outlined): the value is ${VISUAL_SINK} or more, at most ${formatValue(largest, 1)}.${share}`;
}

export const visualSinksView: View = {
  name: 'visual-sinks',
  title: 'Visual sinks',
  question: 'Which patches of the image are sinks of the language model?',
  how:
    'In a vision-language model some patches that carry little of the image receive much attention. Their hidden states are large in the ' +
    'same channels as that of the first token. The number of a patch is the largest size of its state in the two channels that are largest ' +
    `in the first token’s, over the root mean square of the state; from ${VISUAL_SINK} on it is a visual sink (outlined). Shown is the ` +
    'layer where a patch has the largest number. The paper has two channels for each model; here they are those of the layer.',
  formula: 'φ(x) = max |x[d]| / √(mean x²) over the two channels d',
  source: 'Kang et al., ICLR 2025 (arXiv 2503.03321)',
  reads: [],
  headReads: ['alpha'],
  fits: ({ image }) => Boolean(image?.rows && image.sinkValue),
  numbers: (frame) => {
    const { rows = 0, cols = 0 } = frame.image ?? {};
    return [
      quantity('sink_value', ['row', 'col'], {
        shape: [rows, cols],
        data: visualSinks(frame).values,
      }),
    ];
  },
  says,
  draw: createPatchesDraw((frame, { state, theme, at }) => {
    const { values: data, sinks, largest } = visualSinks(frame);
    const scale = sequential(theme, Math.max(largest, VISUAL_SINK));
    return {
      ...{ data, scale, outlined: sinks, query: state.query },
      sentence: says(frame, at),
      ends: ['φ 0', formatValue(scale.high, 1)],
      describe: (i) => `φ = ${formatValue(data[i]!, 2)}`,
    };
  }),
};
