/** The glossary: terms of a sentence become buttons that open a definition beside them. */
import { html, nothing, type TemplateResult } from 'lit';

/** A term as it is written in a sentence, and its definition. Of two that match, the first one is taken. */
const TERMS: readonly (readonly [RegExp, string])[] = [
  [
    /[Uu]niform attention/,
    'What the first token would receive if every token attended equally to all tokens it can see. A sink is measured against it.',
  ],
  [
    /attention sinks?|(?<!bias )sinks?/,
    'A token that receives far more attention than its content explains, usually the first one.',
  ],
  [/L\d+H\d+/, 'Layer and head, both counted from 0, as in transformers and TransformerLens.'],
  [
    /[Hh]eads?/,
    'Every layer has several attention heads that run in parallel. Each has its own queries, keys and values, and its own map.',
  ],
  [
    /[Ll]ayers?/,
    'The model applies its layers one after the other. Each adds the output of its heads and its feed-forward part to the residual stream. Layers count from 0.',
  ],
  [
    /[Ss]tart token|BOS/,
    'Beginning of sequence (BOS): a token that the tokenizer puts before every text. It carries no meaning.',
  ],
  [
    /[Tt]okens?/,
    'The unit a model reads: a word, a part of a word, or a sign. Positions count from 0.',
  ],
  [
    /Sink₁/,
    'The share of heads whose α₁ exceeds ε (Gu et al. 2025, section 3.2). The index is the position plus 1, as in the paper.',
  ],
  [
    /α₁?/,
    'The attention that a token receives in a head, averaged over all queries that can see it. α₁ is that of the first token.',
  ],
  [
    /ε/,
    'The threshold: a head has a sink at the first token where α₁ exceeds ε. The paper uses 0.3.',
  ],
  [
    /nats?/,
    'The unit of the loss, −ln p. A loss that rises by 0.1 nats means a probability that is 10% lower.',
  ],
  [/bias key/, 'A learned key that belongs to no token and can take up attention.'],
  [
    /[Qq]uer(?:y|ies)/,
    'The vector a token compares with all keys; in a map, the token of the row.',
  ],
  [/KV cache/, 'The keys and values of earlier tokens, kept so that they are not computed again.'],
  [
    /(?<!arrow )[Kk]eys?/,
    'The vector that queries are compared with; in a map, the token of the column.',
  ],
  [/bits?/, 'A number stored in n bits takes one of 2ⁿ values between the ends of its scale.'],
  [/\bT\b/, 'The number of tokens that were run, the start token included.'],
  [/[Pp]rompts?/, 'A text that the model is run on.'],
  [/[Ss]eeds?/, 'The start of a random number generator: the same seed gives the same numbers.'],
  [
    /temperature/,
    'Scales the logits before sampling: 0 always takes the most probable token, 1 samples from the model’s probabilities.',
  ],
  [/top k/, 'Sampling considers only the k most probable tokens; 0 means all of them.'],
  [/MEASURED/, 'Computed by this model on this text, without any intervention.'],
  [
    /RELAXED/,
    'Computed with fused multiply-add where the machine has it: faster, and the last digits may differ.',
  ],
  [
    /APPROXIMATE/,
    'Computed with 8-bit integer matrix products: faster, and not exactly what the model computes.',
  ],
  [
    /COUNTERFACTUAL|[Cc]ounterfactuals?/,
    'Something was replaced at inference that the model was trained with. A model trained without it may behave differently.',
  ],
  [/[Vv]alues?/, 'The vector that a token contributes when it is attended to.'],
  [
    /hidden states?|residual stream/,
    'The vector of a token that every layer reads from and adds to.',
  ],
  [/[Ll]oss/, 'The mean of −ln p over the tokens that came next, in nats. Lower is better.'],
  [/[Rr]ow sums?/, 'The sum of the attention weights of one query; 1 under softmax.'],
  [/[Ss]oftmax/, 'Turns the scores of a row into weights that sum to 1.'],
  [
    /[Ss]igmoid/,
    'Turns each score into a weight between 0 and 1 on its own; a row may have any sum.',
  ],
];
const ANY = new RegExp(
  `(?<![\\w“])(?:${TERMS.map(([word]) => `(${word.source})`).join('|')})(?![\\w”₁])`,
  'gu',
);

let note: HTMLElement | undefined;

function open(event: Event, meaning: string): void {
  const word = event.currentTarget as HTMLElement;
  note ??= Object.assign(document.createElement('div'), { className: 'note', popover: 'auto' });
  note.textContent = meaning;
  note.setAttribute('role', 'status');
  // In the document the note follows the word, for readers who use a keyboard.
  (word.closest('dialog, .room') ?? document.body).append(note);
  note.showPopover();
  const { left, bottom } = word.getBoundingClientRect();
  note.style.left = `${Math.max(8, Math.min(left, innerWidth - note.offsetWidth - 8))}px`;
  note.style.top = `${Math.min(bottom + 4, innerHeight - note.offsetHeight - 8)}px`;
}

/** Moves the focus between the terms of a line. */
function move(event: KeyboardEvent): void {
  const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
  const word = event.currentTarget as HTMLElement;
  if (!step) return;
  const all = [...word.parentElement!.querySelectorAll<HTMLElement>('.term')];
  all[all.indexOf(word) + step]?.focus();
  event.preventDefault();
}

/**
 * The same sentence, in which the first occurrence of each term is a button.
 * @param isOneStop all terms are one tab stop, and the arrow keys move between them
 */
export function explained(said: string, isOneStop = false): TemplateResult {
  const parts: unknown[] = [];
  const seen = new Set<string>();
  let from = 0;
  for (const match of said.matchAll(ANY)) {
    const meaning = TERMS[match.slice(1).findIndex((group) => group !== undefined)]![1];
    if (seen.has(meaning)) continue;
    const isStop = !isOneStop || !seen.size;
    seen.add(meaning);
    const word = html`<button
      type="button"
      class="term"
      .textContent=${match[0]}
      tabindex=${isStop ? 0 : -1}
      @click=${(event: Event) => open(event, meaning)}
      @keydown=${isOneStop ? move : nothing}
    ></button>`;
    parts.push(said.slice(from, match.index), word);
    from = match.index + match[0].length;
  }
  return html`${parts}${said.slice(from)}`;
}

/** A control with its label. A label that contains a term is no <label>: a click on the term must not reach the control. */
export function field(label: string, control: TemplateResult): TemplateResult {
  return label.search(ANY) < 0
    ? html`<label class="field"><span>${label}</span>${control}</label>`
    : html`<span class="field"><span>${explained(label)}</span>${control}</span>`;
}
