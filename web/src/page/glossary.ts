/**
 * The table of terms. Sentences of the page explain the terms that occur in them, and the course has a page
 * of all.
 */
interface Term {
  readonly term: string;
  /** The term as sentences write it. Of two that match, the first one is taken. */
  readonly pattern: RegExp;
  readonly meaning: string;
}

export const TERMS: readonly Term[] = [
  {
    term: 'uniform attention',
    pattern: /[Uu]niform attention/,
    meaning:
      'What the first token would receive if every token attended equally to all tokens it can see. A sink is measured against it.',
  },
  {
    term: 'attention sink',
    pattern: /attention sinks?|(?<!bias )sinks?/,
    meaning:
      'A token that receives far more attention than its content explains, usually the first one.',
  },
  {
    term: 'L1H3',
    pattern: /L\d+H\d+/,
    meaning: 'Layer and head, both counted from 0, as in transformers and TransformerLens.',
  },
  {
    term: 'head',
    pattern: /[Hh]eads?/,
    meaning:
      'Every layer has several attention heads that run in parallel. Each has its own queries, keys and values, and its own map.',
  },
  {
    term: 'layer',
    pattern: /[Ll]ayers?/,
    meaning:
      'The model applies its layers one after the other. Each adds the output of its heads and its feed-forward part to the residual stream. Layers count from 0.',
  },
  {
    term: 'start token (BOS)',
    pattern: /[Ss]tart token|BOS/,
    meaning:
      'Beginning of sequence (BOS): a token that the tokenizer puts before every text. It carries no meaning.',
  },
  {
    term: 'token',
    pattern: /[Tt]okens?/,
    meaning: 'The unit a model reads: a word, a part of a word, or a sign. Positions count from 0.',
  },
  {
    term: 'Sink₁',
    pattern: /Sink₁/,
    meaning:
      'The share of heads whose α₁ exceeds ε (Gu et al. 2025, section 3.2). The index is the position plus 1, as in the paper.',
  },
  {
    term: 'α₁',
    pattern: /α₁?/,
    meaning:
      'The attention that a token receives in a head, averaged over all queries that can see it. α₁ is that of the first token.',
  },
  {
    term: 'ε',
    pattern: /ε/,
    meaning:
      'The threshold: a head has a sink at the first token where α₁ exceeds ε. The paper uses 0.3.',
  },
  {
    term: 'nat',
    pattern: /nats?/,
    meaning:
      'The unit of the loss, −ln p. A loss that rises by 0.1 nats means a probability that is 10% lower.',
  },
  {
    term: 'bias key',
    pattern: /bias key/,
    meaning: 'A learned key that belongs to no token and can take up attention.',
  },
  {
    term: 'query',
    pattern: /[Qq]uer(?:y|ies)/,
    meaning: 'The vector a token compares with all keys; in a map, the token of the row.',
  },
  {
    term: 'KV cache',
    pattern: /KV cache/,
    meaning: 'The keys and values of earlier tokens, kept so that they are not computed again.',
  },
  {
    term: 'key',
    pattern: /(?<!arrow )[Kk]eys?/,
    meaning: 'The vector that queries are compared with; in a map, the token of the column.',
  },
  {
    term: 'bit',
    pattern: /bits?/,
    meaning: 'A number stored in n bits takes one of 2ⁿ values between the ends of its scale.',
  },
  {
    term: 'T',
    pattern: /\bT\b/,
    meaning: 'The number of tokens that were run, the start token included.',
  },
  {
    term: 'prompt',
    pattern: /[Pp]rompts?/,
    meaning: 'A text that the model is run on.',
  },
  {
    term: 'seed',
    pattern: /[Ss]eeds?/,
    meaning: 'The start of a random number generator: the same seed gives the same numbers.',
  },
  {
    term: 'temperature',
    pattern: /temperature/,
    meaning:
      'Scales the logits before sampling: 0 always takes the most probable token, 1 samples from the model’s probabilities.',
  },
  {
    term: 'top k',
    pattern: /top k/,
    meaning: 'Sampling considers only the k most probable tokens; 0 means all of them.',
  },
  {
    term: 'MEASURED',
    pattern: /MEASURED/,
    meaning: 'Computed by this model on this text, without any intervention.',
  },
  {
    term: 'RELAXED',
    pattern: /RELAXED/,
    meaning:
      'Computed with fused multiply-add where the machine has it: faster, and the last digits may differ.',
  },
  {
    term: 'APPROXIMATE',
    pattern: /APPROXIMATE/,
    meaning:
      'Computed with 8-bit integer matrix products: faster, and not exactly what the model computes.',
  },
  {
    term: 'counterfactual',
    pattern: /COUNTERFACTUAL|[Cc]ounterfactuals?/,
    meaning:
      'Something was replaced at inference that the model was trained with. A model trained without it may behave differently.',
  },
  {
    term: 'value',
    pattern: /[Vv]alues?/,
    meaning: 'The vector that a token contributes when it is attended to.',
  },
  {
    term: 'residual stream',
    pattern: /hidden states?|residual stream/,
    meaning: 'The vector of a token that every layer reads from and adds to.',
  },
  {
    term: 'loss',
    pattern: /[Ll]oss/,
    meaning: 'The mean of −ln p over the tokens that came next, in nats. Lower is better.',
  },
  {
    term: 'row sum',
    pattern: /[Rr]ow sums?/,
    meaning: 'The sum of the attention weights of one query; 1 under softmax.',
  },
  {
    term: 'softmax',
    pattern: /[Ss]oftmax/,
    meaning: 'Turns the scores of a row into weights that sum to 1.',
  },
  {
    term: 'sigmoid',
    pattern: /[Ss]igmoid/,
    meaning: 'Turns each score into a weight between 0 and 1 on its own; a row may have any sum.',
  },
];
