/** The rooms with their names in links, each with the texts for previews of links. */
export const ROOMS = [
  {
    name: 'start',
    title: 'Start',
    heading: 'Why do language models stare at the first token?',
    description:
      'Attention sinks, measured in your browser: a softmax model and its sigmoid twin, side by side, on your own text.',
  },
  {
    name: 'explore',
    title: 'Explore',
    heading: 'Explore the attention heads of a language model',
    description:
      'Type a text and see the attention maps, value norms and predictions of every head. Ablate a head or hide a key, and see what changes.',
  },
  {
    name: 'compare',
    title: 'Compare',
    heading: 'Which language models have an attention sink?',
    description:
      'Sinks, losses and row sums of up to six models on the same texts: softmax, sigmoid, softmax1, key biases, gates.',
  },
  {
    name: 'training',
    title: 'Training',
    heading: 'When does an attention sink appear in training?',
    description:
      'Step through the checkpoints of a small language model and see when its heads begin to attend to the first token.',
  },
  {
    name: 'purpose',
    title: 'Why it matters',
    heading: 'Why do attention sinks matter?',
    description:
      'Evict the first token from the KV cache, quantize, zero a single number: how much worse does the model predict?',
  },
  {
    name: 'lab',
    title: 'Lab',
    heading: 'Train a small model and see whether it develops a sink',
    description:
      'Choose the attention operation and the optimizer of two small models, train both in your browser, and compare their sinks.',
  },
  {
    name: 'learn',
    title: 'Learn',
    heading: 'Learn about attention sinks',
    description: 'Each lesson asks one question and answers it with figures that you operate.',
  },
] as const;

export type RoomName = (typeof ROOMS)[number]['name'];
