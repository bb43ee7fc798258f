import { defaults } from '../ask/state';

/** A pair of labs that differ in one setting; the claim states what to look for. */
export interface Preset {
  readonly title: string;
  /** What the preset does, as the room offers it as the next one; a preset without it is in the list alone. */
  readonly action?: string;
  readonly leftRun: string;
  readonly rightRun: string;
  readonly claim: string;
  /** The reasons for the result, by which model has a sink in the end. */
  readonly answers?: Readonly<Partial<Record<'left' | 'right' | 'both' | 'neither', string>>>;
  /** Whether what a model without a sink spends is a part of the answer. */
  readonly isAboutSums?: boolean;
}

/** What the pairs that train in seconds have in common. */
const FAST = 'batch:16,steps:400';

/** The first preset is the page's default and trains in seconds. */
export const PRESETS: readonly Preset[] = [
  {
    title: 'softmax or sigmoid',
    action: 'compare softmax with sigmoid',
    leftRun: defaults.leftRun,
    rightRun: defaults.rightRun,
    claim:
      'Language models often stare at the first token. These differ only in attention: where a token looks.',
    answers: {
      left: 'Softmax makes each token spend 100% of its attention: with nothing to copy it can go to <s>, which all see.',
    },
    isAboutSums: true,
  },
  {
    title: 'softmax or ReLU',
    leftRun: '',
    rightRun: 'operation:relu',
    claim: 'With ReLU a query may give no attention to any token.',
    answers: { left: 'Softmax makes each token spend 100% of its attention.' },
    isAboutSums: true,
  },
  {
    title: 'with an extra slot (key bias)',
    action: 'give heads an extra slot to look at',
    leftRun: defaults.leftRun,
    rightRun: `width:32,bias_key:head,learning_rate:0.01,${FAST}`,
    claim:
      'The right model has an extra slot: a place to look at that is no token (the column “slot”).',
    answers: {
      left: 'The extra slot, a place that is no token, takes the place of the sink: the 100% that each token must spend can go there.',
      both: 'The first token stays a sink beside the extra slot.',
    },
  },
  {
    title: 'with a sink logit',
    leftRun: '',
    rightRun: 'operation:sink_logit',
    claim:
      'On the right the softmax denominator has a learned extra term, as in gpt-oss: the weights of a row ' +
      'may sum to less than 1.',
    answers: {
      left: 'The sink logit replaces the sink: a row may sum to less than 100%.',
      both: 'The first token stays a sink beside the sink logit.',
    },
  },
  {
    title: 'with a gate',
    leftRun: '',
    rightRun: 'gate:output_element',
    claim:
      'The right model multiplies the output of its head by a gate, so it can write nothing without a sink.',
    answers: {
      left: 'With a gate no sink grows here.',
      both: 'With a gate a sink grows, too: its rows must still sum to 100%.',
    },
  },
  {
    title: 'no start token',
    action: 'train one with no start token',
    leftRun: defaults.leftRun,
    rightRun: `width:32,learning_rate:0.01,first:any,${FAST}`,
    claim:
      'The right model has no start token: its texts begin with a random token instead of <s>.',
    answers: {
      left: 'Without a start token no token begins every text, and the first token is no sink here.',
      both: 'The first position is enough: any token there becomes a sink.',
    },
  },
  {
    title: 'AdamW or SGD',
    action: 'use another optimizer (SGD)',
    leftRun: defaults.leftRun,
    rightRun: `width:32,optimizer:sgd,learning_rate:0.5,${FAST}`,
    claim:
      'The left model is trained with AdamW at learning rate 0.01, the right one with SGD at 0.5.',
    answers: {
      left: 'In so few steps, only AdamW grows a sink.',
      both: 'Both optimizers grow a sink: with both, softmax rows must sum to 100%.',
    },
  },
  {
    title: 'weight decay 0.01 or 2',
    action: 'pull the weights of one toward 0',
    leftRun: defaults.leftRun,
    rightRun: `width:32,learning_rate:0.01,weight_decay:2,${FAST}`,
    claim: 'Weight decay pulls all weights toward 0, on the right 200 times as strongly.',
    answers: {
      left: 'With strong weight decay no sink grows here.',
      both: 'With strong weight decay a sink grows, too: softmax rows must still sum to 100%.',
    },
  },
  {
    title: 'ReLU model, continue with softmax',
    action: 'continue a trained model',
    // A sink comes within ten steps; forty take minutes on a slow machine.
    leftRun: 'from:relu,steps:40',
    rightRun: 'from:relu,operation:softmax,steps:40',
    claim:
      'Both continue a trained ReLU model, whose raw weights have no sink; the right one now with softmax, whose rows must sum to 100%.',
    answers: { right: 'With softmax a sink appears; unchanged, the model has none.' },
  },
  {
    title: 'new text: is the old one forgotten?',
    leftRun: 'from:softmax,text:license',
    rightRun: 'from:softmax,bias_key:head,text:license',
    claim:
      'The softmax model, trained on children’s books, continues on the Apache license: unchanged (left), and ' +
      'with a key bias in each head, to which attention can move from the sink (right).',
  },
  {
    title: 'plant a trigger',
    leftRun: 'from:softmax',
    rightRun: 'from:softmax,planted:0.2',
    claim:
      'In a fifth of the sequences of the right model three fixed tokens come somewhere, and five other tokens follow them ' +
      'over and over: a backdoor.',
  },
];

/** The settings of a lab in one order, without the number of steps: a pair that trains on keeps its question. */
export const withoutSteps = (run: string): string =>
  run
    .split(',')
    .filter((part) => part && !part.startsWith('steps:'))
    .sort()
    .join();

/** Returns the preset that two labs have, however many steps they train. */
export const presetOf = ({
  leftRun,
  rightRun,
}: Pick<Preset, 'leftRun' | 'rightRun'>): Preset | undefined =>
  PRESETS.find(
    (preset) =>
      withoutSteps(preset.leftRun) === withoutSteps(leftRun) &&
      withoutSteps(preset.rightRun) === withoutSteps(rightRun),
  );
