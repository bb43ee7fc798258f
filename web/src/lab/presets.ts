/** Pairs of labs that differ in one thing; the claim says what to look for. */
export interface Preset {
  readonly title: string;
  readonly left: string;
  readonly right: string;
  readonly claim: string;
}

/** The page's own beginning stands first. */
export const anew: readonly Preset[] = [
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

/** Trained models that go on. */
export const onward: readonly Preset[] = [
  {
    title: 'ReLU, or softmax from here',
    left: 'from:relu',
    right: 'from:relu,operation:softmax',
    claim:
      'Both begin with a model that was trained with ReLU attention and has no sink. The right one goes on ' +
      'with softmax, whose rows must sum to 1. Press Train: does a sink come?',
  },
  {
    title: 'softmax or sigmoid from here',
    left: 'from:softmax',
    right: 'from:softmax,operation:sigmoid_log_n',
    claim:
      'Both begin with the trained softmax twin, sink and all. The right one goes on with sigmoid attention, ' +
      'whose rows need not sum to 1: does it give up its sink?',
  },
  {
    title: 'with or without the start mark',
    left: 'from:softmax',
    right: 'from:softmax,first:any',
    claim:
      'The trained softmax twin, with <s> in front of every text and without. The sink is where the mark is: ' +
      'does another token take its place?',
  },
  {
    title: 'a key bias is put in',
    left: 'from:softmax',
    right: 'from:softmax,bias_key:head',
    claim:
      'Each head of the right model is given one more key without a value. Does attention leave the start ' +
      'mark for it, once the sink is there?',
  },
  {
    title: 'a quarter of the way, then sigmoid',
    left: 'from:softmax,at:1000,learning_rate:0.003',
    right: 'from:softmax,at:1000,learning_rate:0.003,operation:sigmoid_log_n',
    claim:
      'The softmax twin after 1,000 of 4,000 steps, when its sink begins. It goes on as it was, and with ' +
      'sigmoid attention.',
  },
];
