/** Pairs of labs that differ in one thing; the claim says what to look for. */
export interface Preset {
  readonly title: string;
  readonly left: string;
  readonly right: string;
  readonly claim: string;
}

/** The page's own beginning stands first. */
export const presets: readonly Preset[] = [
  {
    title: 'softmax or sigmoid',
    left: '',
    right: 'operation:sigmoid_log_n',
    claim:
      'Two models, the same task from the same seed; only the left one has rows that must sum to 1. ' +
      'Press Train: within ten seconds a column comes on the left map, and none on the right.',
  },
  {
    title: 'softmax or ReLU',
    left: '',
    right: 'operation:relu',
    claim:
      'ReLU may look at nothing at all. Where there is nothing to copy, does its model need a place to ' +
      'park its attention?',
  },
  {
    title: 'with a key bias',
    left: '',
    right: 'bias_key:head',
    claim:
      'The right model has one more key, without a value, that every query sees: a place to park that is ' +
      'not a token. Does the first token keep its column?',
  },
  {
    title: 'with a sink logit',
    left: '',
    right: 'operation:sink_logit',
    claim:
      'The right softmax has a learned number in its denominator, as in gpt-oss: a row of weights may sum ' +
      'to less than 1.',
  },
  {
    title: 'with a gate',
    left: '',
    right: 'gate:output_element',
    claim:
      'The right model multiplies what its head found by a gate, and can be silent without a sink. Does ' +
      'it learn to, in so few steps?',
  },
  {
    title: 'AdamW or SGD',
    left: '',
    right: 'optimiser:sgd,learning_rate:1',
    claim:
      'Guo et al. find that Adam makes the hidden state of the first token a peak, and SGD the sink ' +
      'alone. See hidden norm: does one layer have such a peak at all?',
  },
  {
    title: 'no fixed first token',
    left: '',
    right: 'first:any',
    claim:
      'On the right every sequence begins with any of the tokens. The place is the same; is it the place ' +
      'or the token that becomes a sink?',
  },
  {
    title: 'weight decay 0.01 or 2',
    left: '',
    right: 'weight_decay:2',
    claim: 'Two hundred times the weight decay. Does the sink come sooner, later, or stronger?',
  },
  {
    title: '32 or 64 tokens',
    left: '',
    right: 'length:64,batch:16',
    claim:
      'The same number of tokens a step, in sequences of twice the length: to give all to one of 64 keys ' +
      'takes larger scores than of 32.',
  },
  {
    title: 'eight triggers or one',
    left: '',
    right: 'triggers:1',
    claim:
      'The fewer positions have anything to copy, the less is learnt of attention. How much must a head ' +
      'be needed before it parks?',
  },
  {
    title: 'token vectors large or small',
    left: 'deviation:0',
    right: 'deviation:0,embedding_deviation:0.02',
    claim:
      'Both begin with matrices as PyTorch draws them; on the right the token vectors begin fifty times ' +
      'smaller, and what the blocks add outweighs them.',
  },
];
