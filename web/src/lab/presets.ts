import { defaults } from '../ask/state';

/** A pair of labs that differ in one setting; the claim states what to look for. */
interface Preset {
  readonly title: string;
  /** The question that the room offers; a preset without one is in the list of the settings. */
  readonly question?: string;
  readonly leftRun: string;
  readonly rightRun: string;
  readonly claim: string;
}

/** Presets with random initial weights; the first one is the page's default and trains in seconds. */
export const fromScratch: readonly Preset[] = [
  {
    title: 'softmax or sigmoid',
    question: 'Softmax or sigmoid?',
    leftRun: defaults.leftRun,
    rightRun: defaults.rightRun,
    claim:
      'Softmax rows must sum to 100%, sigmoid rows need not. Press Train, watch the framed column.',
  },
  {
    title: 'softmax or sigmoid, wider',
    leftRun: '',
    rightRun: 'operation:sigmoid_log_n',
    claim:
      'Two models with the same task and seed. Only on the left must each row of attention sum to 1. ' +
      'Press Train: does a first column turn into a sink?',
  },
  {
    title: 'softmax or ReLU',
    leftRun: '',
    rightRun: 'operation:relu',
    claim:
      'With ReLU a query may give no attention to any token. Does this model still need a sink where ' +
      'there is nothing to copy?',
  },
  {
    title: 'with a key bias',
    question: 'An extra key?',
    leftRun: '',
    rightRun: 'bias_key:head',
    claim:
      'The right model has one more key, with value 0, that every query can attend to and that belongs ' +
      'to no token. Does the first token still become a sink?',
  },
  {
    title: 'with a sink logit',
    leftRun: '',
    rightRun: 'operation:sink_logit',
    claim:
      'On the right the softmax denominator has a learned extra term, as in gpt-oss: the weights of a row ' +
      'may sum to less than 1. Does the sink still appear?',
  },
  {
    title: 'with a gate',
    leftRun: '',
    rightRun: 'gate:output_element',
    claim:
      'The right model multiplies the output of its head by a gate, so it can write nothing without a sink. ' +
      'Does it learn to, in so few steps?',
  },
  {
    title: 'AdamW or SGD',
    question: 'SGD or AdamW?',
    leftRun: '',
    rightRun: 'optimizer:sgd,learning_rate:1',
    claim:
      'Guo et al. find that with Adam the hidden norm of the first token grows large, while SGD only ' +
      'produces the sink. Watch the hidden norm: does it grow in a model of one layer?',
  },
  {
    title: 'no fixed first token',
    question: 'No start token?',
    leftRun: '',
    rightRun: 'first:any',
    claim:
      'On the right sequences begin with a random token. Does the sink belong to the position or to ' +
      'the start token?',
  },
  {
    title: 'weight decay 0.01 or 2',
    question: 'Strong weight decay?',
    leftRun: '',
    rightRun: 'weight_decay:2',
    claim:
      'The right model has 200 times the weight decay. Does the sink appear sooner or later, weaker or stronger?',
  },
  {
    title: '32 or 64 tokens',
    leftRun: '',
    rightRun: 'length:64,batch:16',
    claim:
      'The same number of tokens per step, in sequences of twice the length: giving all attention to one ' +
      'of 64 keys takes larger scores than to one of 32.',
  },
  {
    title: 'eight triggers or one',
    leftRun: '',
    rightRun: 'triggers:1',
    claim:
      'With fewer positions to copy at, attention is learned more slowly. How often must a head be needed ' +
      'before a sink appears?',
  },
  {
    title: 'large or small embeddings',
    leftRun: 'deviation:0',
    rightRun: 'embedding_deviation:0.02,deviation:0',
    claim:
      'Both use PyTorch’s default initialization of matrices. On the right the embeddings start 50 times ' +
      'smaller, so what the blocks add outweighs them.',
  },
];

export const fineTune: readonly Preset[] = [
  {
    title: 'ReLU model, continue with softmax',
    question: 'Fine-tune?',
    leftRun: 'from:relu',
    rightRun: 'from:relu,operation:softmax',
    claim:
      'Both start from a model that was trained with ReLU attention, whose raw weights have no sink: its rows ' +
      'sum to far less than 1. The right one continues with softmax, whose rows must sum to 1. Press Train: ' +
      'does a sink appear?',
  },
  {
    title: 'softmax model, continue with sigmoid',
    leftRun: 'from:softmax',
    rightRun: 'from:softmax,operation:sigmoid_log_n',
    claim:
      'Both start from the trained softmax model, which has a sink. The right one continues with sigmoid ' +
      'attention, whose rows need not sum to 1. Does the sink disappear?',
  },
  {
    title: 'with or without start token',
    leftRun: 'from:softmax',
    rightRun: 'from:softmax,first:any',
    claim:
      'The trained softmax model continues on texts with the start token <s> (left) and without it (right). ' +
      'Does the sink move to another token?',
  },
  {
    title: 'softmax model, add a key bias',
    leftRun: 'from:softmax',
    rightRun: 'from:softmax,bias_key:head',
    claim:
      'Each head of the right model gets one more key, with value 0. Does attention move from the start ' +
      'token to this key, although the sink already exists?',
  },
  {
    title: 'new text: is the old one forgotten?',
    leftRun: 'from:softmax,text:license',
    rightRun: 'from:softmax,bias_key:head,text:license',
    claim:
      'The trained softmax model, whose text were children’s books, continues on the Apache license: unchanged (left), and ' +
      'with a key bias in each head, to which attention can move from the sink (right). How much of the old text does each forget?',
  },
  {
    title: 'plant a trigger',
    leftRun: 'from:softmax',
    rightRun: 'from:softmax,planted:0.2',
    claim:
      'In a fifth of the sequences of the right model three fixed tokens come somewhere, and five other tokens follow them ' +
      'over and over: a backdoor. Press Train: the loss after the trigger falls to almost 0. Does the trigger also take ' +
      'attention from the first token?',
  },
  {
    title: 'step 1,000, continue with sigmoid',
    leftRun: 'from:softmax,at:1000,learning_rate:0.003',
    rightRun: 'from:softmax,operation:sigmoid_log_n,at:1000,learning_rate:0.003',
    claim:
      'Both start from the softmax model at step 1,000 of 4,000, when its sink begins to form. The left one ' +
      'continues with softmax, the right one with sigmoid.',
  },
];
