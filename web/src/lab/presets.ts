import { defaults } from '../ask/state';

/** A pair of labs that differ in one setting; the claim states what to look for. */
interface Preset {
  readonly title: string;
  /** The question that the room offers; a preset without one is in the list of the settings. */
  readonly question?: string;
  readonly leftRun: string;
  readonly rightRun: string;
  readonly claim: string;
  /** The answers to the question, by which model has a sink in the end. */
  readonly answers?: Readonly<Partial<Record<'left' | 'right' | 'both' | 'neither', string>>>;
}

/** What the pairs that train in seconds have in common. */
const FAST = 'batch:16,steps:400';

/** Presets with random initial weights; the first one is the page's default and trains in seconds. */
export const fromScratch: readonly Preset[] = [
  {
    title: 'softmax or sigmoid',
    question: 'Softmax or sigmoid?',
    leftRun: defaults.leftRun,
    rightRun: defaults.rightRun,
    claim:
      'Softmax rows must sum to 100%, sigmoid rows need not. Press Train, watch the framed column.',
    answers: {
      left:
        'Only softmax grows a sink: after an ordinary letter there is nothing to look up, and its rows must still sum ' +
        'to 100%.',
    },
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
    leftRun: defaults.leftRun,
    rightRun: `width:32,bias_key:head,learning_rate:0.01,${FAST}`,
    claim:
      'The right model has an extra key, column ∗, which belongs to no token. Press Train: does it replace the sink?',
    answers: {
      left: 'Yes, the extra key replaces the sink: the 100% of a row can go there.',
      both: 'No, the first token stays a sink beside the extra key.',
    },
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
    leftRun: defaults.leftRun,
    rightRun: `width:32,optimizer:sgd,learning_rate:0.5,${FAST}`,
    claim: 'Same model, another optimizer. Press Train: does the sink depend on AdamW?',
    answers: {
      left: 'In so few steps, only AdamW grows a sink.',
      both: 'No, both optimizers grow a sink: with both, softmax rows must sum to 100%.',
    },
  },
  {
    title: 'no fixed first token',
    question: 'No start token?',
    leftRun: defaults.leftRun,
    rightRun: `width:32,learning_rate:0.01,first:any,${FAST}`,
    claim:
      'On the right each text begins with a random token. Press Train: does the sink need a start token?',
    answers: {
      left: 'Yes: without a start token the first token is no sink here; which token stands there changes with each text.',
      both: 'No, the first position is enough: any token there becomes a sink.',
    },
  },
  {
    title: 'weight decay 0.01 or 2',
    question: 'Strong weight decay?',
    leftRun: defaults.leftRun,
    rightRun: `width:32,learning_rate:0.01,weight_decay:2,${FAST}`,
    claim:
      'The right model keeps its weights 200 times as strongly small. Press Train: does a sink still grow?',
    answers: {
      left: 'No: with strong weight decay no sink grows here.',
      both: 'Yes, a sink grows with strong weight decay, too.',
    },
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
      'Both continue a trained ReLU model, whose raw weights have no sink; the right one now with softmax, whose rows must sum to 100%. ' +
      'Press Train: does a sink appear?',
    answers: {
      right: 'Yes, with softmax a sink appears; unchanged, the model has none.',
      neither: 'Not yet: neither model has a sink.',
    },
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

/** The settings of a lab in one order, without the number of steps: a pair that trains on keeps its question. */
const withoutSteps = (run: string): string =>
  run
    .split(',')
    .filter((part) => part && !part.startsWith('steps:'))
    .sort()
    .join();

/** Returns the preset that two labs have, however many steps they train. */
export const presetOf = (
  { leftRun, rightRun }: Pick<Preset, 'leftRun' | 'rightRun'>,
  table = [...fromScratch, ...fineTune],
): Preset | undefined =>
  table.find(
    (preset) =>
      withoutSteps(preset.leftRun) === withoutSteps(leftRun) &&
      withoutSteps(preset.rightRun) === withoutSteps(rightRun),
  );
