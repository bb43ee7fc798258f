/**
 * The table of terms. Sentences of the page explain the terms that occur in them, and the course has a page of all
 * terms.
 */
interface Term {
  readonly term: string;
  /** Where two terms match in a sentence, the one that comes first in the table counts. */
  readonly pattern: RegExp;
  readonly meaning: string;
}

export const PAGE_TERMS: readonly Term[] = [
  {
    term: 'uniform attention',
    pattern: /[Uu]niform attention|even share/,
    meaning:
      'What the first token would receive if every token attended equally to all tokens it can see. A sink is measured against it.',
  },
  {
    term: 'attention sink',
    pattern: /attention sinks?|(?<!bias )sinks?/,
    meaning:
      'A token that receives far more attention than its content explains, usually the first one. A head counts as having one if that exceeds ε, here 30%.',
  },
  {
    term: 'dormant head',
    pattern: /[Dd]ormant/,
    meaning:
      'A head with a sink that the model does without on this text: with its output set to 0, the loss changes by less than 0.01 nats per token. On another text it may be used.',
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
      'A token that the tokenizer prepends to every text. It carries no meaning. Papers call it BOS (beginning of sequence).',
  },
  {
    term: 'token',
    pattern: /[Tt]okens?/,
    meaning:
      'The unit a model reads: a word, part of a word, or a punctuation mark. Positions count from 0.',
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
      'The unit of the loss, −ln p. A loss that rises by 0.1 nats means a probability that is 10% lower: as if the model chose among 1.1 times as many tokens.',
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
    meaning:
      'Turns each score into a weight between 0 and 1 on its own; a row may have any sum. The sigmoid model is otherwise trained like the softmax model.',
  },
];

/** Terms that only lessons explain. */
const LESSON_TERMS: readonly Term[] = [
  {
    term: 'attention',
    pattern: /(?<!uniform )[Aa]ttention(?! sink)/,
    meaning:
      'How much a head takes from each token: weights that a head computes from queries and keys, one row for each token.',
  },
  {
    term: 'score',
    pattern: /[Ss]cores?/,
    meaning:
      'The product of a query and a key, divided by the square root of their size. Softmax turns scores into weights.',
  },
  {
    term: 'weight of attention',
    pattern: /(?<!initial )(?<!random )[Ww]eights?(?! decay)/,
    meaning:
      'The number between a query and a key that says how much of the key’s value the head takes. The numbers that training changes are called parameters here.',
  },
  {
    term: 'parameter',
    pattern: /[Pp]arameters?/,
    meaning: 'A number of the model that training changes.',
  },
  {
    term: 'logit',
    pattern: /(?<!sink )[Ll]ogits?/,
    meaning:
      'A number for each token of the vocabulary, before softmax turns them into probabilities of the next token.',
  },
  {
    term: 'sink logit',
    pattern: /sink logits?/,
    meaning:
      'A number that a head learns and adds to the sum of softmax, so that attention can go to no token.',
  },
  {
    term: 'norm',
    pattern: /(?<!-)[Nn]orms?/,
    meaning: 'The length of a vector: the square root of the sum of its squares.',
  },
  {
    term: 'ablation',
    pattern: /[Aa]blat(?:e[sd]?|ion)/,
    meaning: 'Setting the output of a head or a value to zero, to see what the model loses.',
  },
  {
    term: 'eviction',
    pattern: /[Ee]vict(?:s|ed|ion)?/,
    meaning: 'Deleting a key and its value from the KV cache to save memory.',
  },
  {
    term: 'perplexity',
    pattern: /[Pp]erplexity/,
    meaning:
      'e to the loss in nats: a perplexity of 100 means that the model is as unsure as among 100 equally likely tokens.',
  },
  {
    term: 'learning rate',
    pattern: /[Ll]earning rate/,
    meaning: 'How far one step of training moves the parameters.',
  },
  {
    term: 'weight decay',
    pattern: /[Ww]eight decay/,
    meaning:
      'A pull of all parameters towards zero at each step of training. It counts per step, times the learning rate.',
  },
  {
    term: 'checkpoint',
    pattern: /[Cc]heckpoints?/,
    meaning: 'A copy of the parameters at one step of training.',
  },
  {
    term: 'rotary positions',
    pattern: /rotary positions?|RoPE/,
    meaning:
      'A position encoding that turns queries and keys by an angle that grows with their position.',
  },
  {
    term: 'massive activation',
    pattern: /massive activations?/,
    meaning:
      'A channel of the residual stream whose size at one token is hundreds of times the median.',
  },
  {
    term: 'value drain',
    pattern: /value drains?/,
    meaning:
      'A token that receives much attention and has a small value, so that attention on it writes little.',
  },
  {
    term: 'gate',
    pattern: /[Gg]ates?|[Gg]ated/,
    meaning: 'A number between 0 and 1, computed from the token, that scales what a head writes.',
  },
  {
    term: 'interval',
    pattern: /95% intervals?|[Ii]ntervals?/,
    meaning:
      'Where the mean over many seeds would be, with 95% confidence, by Student’s t over the seeds that were trained.',
  },
  {
    term: 'quantization',
    pattern: /[Qq]uanti[sz](?:e|ation)/,
    meaning: 'Storing numbers in few bits: all that share a scale are rounded to its steps.',
  },
];

export const TERMS = [...PAGE_TERMS, ...LESSON_TERMS];
