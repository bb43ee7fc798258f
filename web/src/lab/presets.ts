/** Pairs of labs that each prove something; the claim is of the numbers that the pair shows. */
export interface Preset {
  readonly title: string;
  readonly left: string;
  readonly right: string;
  readonly claim: string;
}

export const presets: readonly Preset[] = [
  {
    title: 'softmax or sigmoid',
    left: '',
    right: 'operation:sigmoid_log_n',
    claim:
      'Two models, the same task from the same seed; only one has softmax. Press Train: within ten ' +
      'seconds a column comes on the left map, and none on the right.',
  },
];
