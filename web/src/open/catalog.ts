/** Models on the hub to open. Notes say how they are built or what a paper reports; this page measured no number. */

interface Suggestion {
  readonly id: string;
  /** Approximate; the plan has the exact size. */
  readonly megabytes: number;
  /** The start token that the tokenizer itself prepends; absent if it prepends none. */
  readonly bos?: string;
  readonly note: string;
}

export const suggestions: readonly Suggestion[] = [
  {
    id: 'EleutherAI/pythia-14m',
    megabytes: 53,
    note: 'The smallest model of Gu et al., who report sinks even here; 154 checkpoints show them emerge.',
  },
  {
    id: 'EleutherAI/pythia-31m',
    megabytes: 86,
    note: 'Reported: larger Pythia models have stronger sinks. 154 checkpoints.',
  },
  {
    id: 'EleutherAI/pythia-70m',
    megabytes: 166,
    note: 'Six layers of eight heads, twice as wide as 31m. 154 checkpoints.',
  },
  {
    id: 'EleutherAI/pythia-160m',
    megabytes: 375,
    note: 'As many layers and heads as GPT-2, with rotary instead of learned positions. 154 checkpoints.',
  },
  {
    id: 'openai-community/gpt2',
    megabytes: 548,
    note: 'Learned positions. Reported for GPT2-XL: the sink stays at the first token if one token is repeated.',
  },
  {
    id: 'HuggingFaceTB/SmolLM2-135M',
    megabytes: 269,
    note: 'Nine query heads share three key heads in 30 layers.',
  },
  {
    id: 'HuggingFaceTB/SmolLM2-360M',
    megabytes: 724,
    note: 'Fifteen query heads share five key heads in 32 layers.',
  },
  {
    id: 'facebook/opt-125m',
    megabytes: 251,
    bos: '</s>',
    note: 'The first token is </s>. Reported: a stronger sink than Pythia of the same size.',
  },
  {
    id: 'roneneldan/TinyStories-1M',
    megabytes: 49,
    note: 'Heads of width 4; every other layer attends to 256 tokens only; scores are not scaled.',
  },
  {
    id: 'roneneldan/TinyStories-8M',
    megabytes: 112,
    note: 'The same with 256 channels and heads of width 16.',
  },
  {
    id: 'roneneldan/TinyStories-33M',
    megabytes: 291,
    note: 'Four layers, heads of width 48.',
  },
  {
    id: 'Qwen/Qwen2.5-0.5B',
    megabytes: 988,
    note: 'Queries and keys have trained biases; 14 query heads share two key heads.',
  },
  {
    id: 'Qwen/Qwen3-0.6B',
    megabytes: 1503,
    note: 'Keys are normalized, so only their directions matter: compare cosine and product.',
  },
  {
    id: 'google/gemma-3-270m',
    megabytes: 540,
    bos: '<bos>',
    note: 'Needs an access token of an account that accepted the license. Reported for Gemma 7B: without a start token its scores collapse.',
  },
];
