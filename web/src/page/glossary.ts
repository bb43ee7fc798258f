/** The table of terms, which sentences of the page and a page of the course explain. */
interface Term {
  readonly term: string;
  /** Where two terms match in a sentence, the one that comes first in the table counts. */
  readonly pattern: RegExp;
  readonly meaning: string;
}

const termsOf = (rows: readonly (readonly [string, RegExp, string])[]): readonly Term[] =>
  rows.map(([term, pattern, meaning]) => ({ term, pattern, meaning }));

export const PAGE_TERMS = termsOf([
  [
    'uniform attention',
    /[Uu]niform attention|even share/,
    'What the first token would receive if every token attended equally to all tokens it can see. A sink is measured against it.',
  ],
  [
    'attention sink',
    /attention sinks?|(?<!bias )sinks?/,
    'A token that receives far more attention than its content explains, usually the first one. A head counts as having one if that exceeds ε, here 30%.',
  ],
  [
    'dormant head',
    /[Dd]ormant/,
    'A head with a sink that the model does without on this text: with its output set to 0, the loss changes by less than 0.01 nats per token. On another text it may be used.',
  ],
  [
    'L1H3',
    /L\d+H\d+/,
    'Layer and head, both counted from 0, as in transformers and TransformerLens.',
  ],
  [
    'head',
    /[Hh]eads?/,
    'Every layer has several attention heads that run in parallel. Each has its own queries, keys and values, and its own map.',
  ],
  [
    'layer',
    /[Ll]ayers?/,
    'The model applies its layers one after the other. Each adds the output of its heads and its feed-forward part to the residual stream. Layers count from 0.',
  ],
  [
    'start token (BOS)',
    /[Ss]tart token|BOS/,
    'A token that the tokenizer prepends to every text. It carries no meaning. Papers call it BOS (beginning of sequence).',
  ],
  [
    'token',
    /[Tt]okens?/,
    'The unit a model reads: a word, part of a word, or a punctuation mark. Positions count from 0.',
  ],
  [
    'Sink₁',
    /Sink₁/,
    'The share of heads whose α₁ exceeds ε (Gu et al. 2025, section 3.2). The index is the position plus 1, as in the paper.',
  ],
  [
    'α₁',
    /α₁?/,
    'The attention that a token receives in a head, averaged over all queries that can see it. α₁ is that of the first token.',
  ],
  [
    'ε',
    /ε/,
    'The threshold: a head has a sink at the first token where α₁ exceeds ε. The paper uses 0.3.',
  ],
  [
    'nat',
    /nats?/,
    'The unit of the loss, −ln p. A loss that rises by 0.1 nats means a probability that is 10% lower: as if the model chose among 1.1 times as many tokens.',
  ],
  ['bias key', /bias key/, 'A learned key that belongs to no token and can take up attention.'],
  [
    'query',
    /[Qq]uer(?:y|ies)/,
    'The vector a token compares with all keys; in a map, the token of the row.',
  ],
  [
    'KV cache',
    /KV cache/,
    'The keys and values of earlier tokens, kept so that they are not computed again.',
  ],
  [
    'key',
    /(?<!arrow )[Kk]eys?/,
    'The vector that queries are compared with; in a map, the token of the column.',
  ],
  [
    'bit',
    /bits?/,
    'A number stored in n bits takes one of 2ⁿ values between the ends of its scale.',
  ],
  ['T', /\bT\b/, 'The number of tokens that were run, the start token included.'],
  ['prompt', /[Pp]rompts?/, 'A text that the model is run on.'],
  [
    'seed',
    /[Ss]eeds?/,
    'The start of a random number generator: the same seed gives the same numbers.',
  ],
  [
    'temperature',
    /temperature/,
    'Scales the logits before sampling: 0 always takes the most probable token, 1 samples from the model’s probabilities.',
  ],
  ['top k', /top k/, 'Sampling considers only the k most probable tokens; 0 means all of them.'],
  ['MEASURED', /MEASURED/, 'Computed by this model on this text, without any intervention.'],
  [
    'counterfactual',
    /COUNTERFACTUAL|[Cc]ounterfactuals?/,
    'Something was replaced at inference that the model was trained with. A model trained without it may behave differently.',
  ],
  ['value', /[Vv]alues?/, 'The vector that a token contributes when it is attended to.'],
  [
    'residual stream',
    /hidden states?|residual stream/,
    'The vector of a token that every layer reads from and adds to.',
  ],
  [
    'loss',
    /[Ll]oss/,
    'The mean of −ln p over the tokens that came next, in nats. Lower is better.',
  ],
  ['row sum', /[Rr]ow sums?/, 'The sum of the attention weights of one query; 1 under softmax.'],
  ['softmax', /[Ss]oftmax/, 'Turns the scores of a row into weights that sum to 1.'],
  [
    'sigmoid',
    /[Ss]igmoid/,
    'Turns each score into a weight between 0 and 1 on its own; a row may have any sum. The sigmoid model is otherwise trained like the softmax model.',
  ],
]);

const LESSON_TERMS = termsOf([
  [
    'attention',
    /(?<!uniform )[Aa]ttention(?! sink)/,
    'How much a head takes from each token: weights that a head computes from queries and keys, one row for each token.',
  ],
  [
    'score',
    /[Ss]cores?/,
    'The product of a query and a key, divided by the square root of their size. Softmax turns scores into weights.',
  ],
  [
    'weight of attention',
    /(?<!initial )(?<!random )[Ww]eights?(?! decay)/,
    'The number between a query and a key that says how much of the key’s value the head takes. The numbers that training changes are called parameters here.',
  ],
  ['parameter', /[Pp]arameters?/, 'A number of the model that training changes.'],
  [
    'logit',
    /(?<!sink )[Ll]ogits?/,
    'A number for each token of the vocabulary, before softmax turns them into probabilities of the next token.',
  ],
  [
    'sink logit',
    /sink logits?/,
    'A number that a head learns and adds to the sum of softmax, so that attention can go to no token.',
  ],
  ['norm', /(?<!-)[Nn]orms?/, 'The length of a vector: the square root of the sum of its squares.'],
  [
    'ablation',
    /[Aa]blat(?:e[sd]?|ion)/,
    'Setting the output of a head or a value to zero, to see what the model loses.',
  ],
  [
    'eviction',
    /[Ee]vict(?:s|ed|ion)?/,
    'Deleting a key and its value from the KV cache to save memory.',
  ],
  [
    'perplexity',
    /[Pp]erplexity/,
    'e to the loss in nats: a perplexity of 100 means that the model is as unsure as among 100 equally likely tokens.',
  ],
  ['learning rate', /[Ll]earning rate/, 'How far one step of training moves the parameters.'],
  [
    'weight decay',
    /[Ww]eight decay/,
    'A pull of all parameters towards zero at each step of training. It counts per step, times the learning rate.',
  ],
  ['checkpoint', /[Cc]heckpoints?/, 'A copy of the parameters at one step of training.'],
  [
    'rotary positions',
    /rotary positions?|RoPE/,
    'A position encoding that turns queries and keys by an angle that grows with their position.',
  ],
  [
    'massive activation',
    /massive activations?/,
    'A channel of the residual stream whose size at one token is hundreds of times the median.',
  ],
  [
    'value drain',
    /value drains?/,
    'A token that receives much attention and has a small value, so that attention on it writes little.',
  ],
  [
    'gate',
    /[Gg]ates?|[Gg]ated/,
    'A number between 0 and 1, computed from the token, that scales what a head writes.',
  ],
  [
    'interval',
    /95% intervals?|[Ii]ntervals?/,
    'Where the mean over many seeds would be, with 95% confidence, by Student’s t over the seeds that were trained.',
  ],
  [
    'quantization',
    /[Qq]uanti[sz](?:e|ation)/,
    'Storing numbers in few bits: all that share a scale are rounded to its steps.',
  ],
]);

export const TERMS = [...PAGE_TERMS, ...LESSON_TERMS];
