/** What a key gives beside what it gets: attention that is parked on a short value moves nothing. */
import { alphaOfKey, ofHead, type Frame, type Head } from '../frame';
import { sequential } from '../plot/color';
import { quantity } from '../save/numbers';
import { capital, headWords, percent, quote } from '../words';
import { drawHeads } from './head_map';
import type { View } from './view';

/** What it gets of the attention, gives of what the head mixes, and of what the head adds to the stream. */
const READS = ['alpha', 'contribution_at', 'contribution_out_at'] as const;

const sharesOf = (frame: Frame, at: Head) => READS.map((name) => ofHead(frame.tensors[name]!, at));

function sentence(frame: Frame, at: Head): string {
  const [gets, mixed, added] = sharesOf(frame, at).map((all) => percent(all[0]!, 0));
  return (
    `${capital(headWords(at))}: the first token, ${quote(frame, 0)}, gets ${gets} of the attention, is ${mixed} of what ` +
    `the head mixes, and ${added} of what it adds to the stream.`
  );
}

export const gives: View = {
  name: 'gives',
  title: 'What a key gives',
  question: 'Does what is looked at also move something?',
  how:
    'A key’s share of what a head mixes is its attention times the length of its value, over the sum of all ' +
    'keys; of what the head adds to the residual stream, the same behind the head’s output matrix. A cell is ' +
    'a head, its colour what the first token gives to the stream. Below, the chosen head, key by key: where the first token ' +
    'gets much and gives little, attention is parked.',
  formula: 'mean over t ≥ k of A[t, k] ‖W_O v_k‖ / Σⱼ A[t, j] ‖W_O v_j‖',
  source: 'Kobayashi et al. 2020 (norms of what attention moves); Guo et al. 2024 (value drains)',
  reads: ['contribution_out_at', 'contribution_at', 'alpha'],
  numbers: ({ tensors }) =>
    READS.map((name) => quantity(name, ['layer', 'head', 'key'], tensors[name]!)),
  says: sentence,
  draw: drawHeads(sentence, (frame, { at, theme }) => {
    const [gets, mixed, added] = sharesOf(frame, at);
    const said = sentence(frame, at);
    return {
      heads: {
        data: alphaOfKey(frame, 0, 'contribution_out_at'),
        scale: sequential(theme),
        symbol: 'given by the first token',
        label: `What the first token gives in every head of ${frame.title}. ${said}`,
      },
      along: {
        kind: 'lines',
        xLabel: 'key k',
        yLabel: 'share',
        reach: [0, 1],
        label: `What each key gets and gives, ${headWords(at)} of ${frame.title}. ${said}`,
        series: [
          { name: 'gets', color: '--sink', values: gets! },
          { name: 'gives to the mixture', color: '--ink-3', values: mixed!, dash: '3,3' },
          { name: 'gives to the stream', color: '--query', values: added! },
        ],
      },
    };
  }),
};
