/** Words that a reader may not know, each explained where it stands: a touch opens a note beside it. */
import { html, nothing, type TemplateResult } from 'lit';

/** As they stand in a sentence, and what they mean. The first that fits is taken. */
const TERMS: readonly (readonly [RegExp, string])[] = [
  [
    /even attention/,
    'What the first token would get if every token looked at all that it sees alike. More than that is a choice.',
  ],
  [
    /heads?/,
    'A layer looks back several times at once, each time in its own way. Each of these ways is a head, with a map of its own.',
  ],
  [
    /layers?/,
    'The model reads in steps, one layer after the other. Each looks back at what the layer before made of the text.',
  ],
  [
    /tokens?/,
    'A piece of text that the model reads at once: a word, a part of one, or a sign. Token 1 is the first of them.',
  ],
  [/“<s>”/, 'The start mark, a token that stands before every text and is no word of it.'],
  [
    /BOS/,
    'Beginning of sequence: the start mark, a token that stands before every text and is no word of it.',
  ],
  [/Sink₁/, 'The share of heads that give token 1 more than ε of their attention (α₁ above ε).'],
  [
    /α₁?/,
    'Alpha: the attention that a token gets in a head, on average over all tokens that see it.',
  ],
  [
    /ε/,
    'Epsilon, the threshold: a head counts as a sink where α₁ is above it. The paper takes 0.3.',
  ],
  [
    /nats?/,
    'What a prediction costs is −ln p of the token that came: 0.1 nat more, and it was given a tenth less probability.',
  ],
  [/bias key/, 'A key that is learned and belongs to no token: attention may go there instead.'],
  [/quer(?:y|ies)/, 'What a token looks back with; on a map, the token whose row it is.'],
  [
    /(?<!arrow )keys?/,
    'What a token offers to those after it; on a map, the token whose column it is. A cache keeps the keys of tokens that were read; a token whose key is dropped is not seen any more.',
  ],
  [/bits?/, 'A number kept in n bits has 2ⁿ steps from its scale’s one end to the other.'],
  [/\bT\b/, 'How many tokens were read, what stands in front of the text included.'],
  [/prompts?/, 'A text that the model is given to read.'],
  [/seed/, 'Where drawn numbers begin: the same seed draws the same ones again.'],
  [
    /temperature/,
    'How freely the next token is drawn: at 0 it is the likeliest one, at 1 as the model’s shares say.',
  ],
  [/top k/, 'The next token is drawn from so many of the likeliest; 0 stands for all.'],
  [/MEASURED/, 'What this model computes of this text, with nothing put in.'],
  [
    /RELAXED/,
    'Sums of products are rounded once and not twice, where the machine can, which is faster: the last digits may be others.',
  ],
  [
    /APPROXIMATE/,
    'Its matrices are multiplied in whole numbers of eight bits, which is faster and not quite what the model computes.',
  ],
  [
    /COUNTERFACTUAL|what-ifs?/,
    'Something is changed in the run that the model was not trained with. What a model does that was trained so, it does not show.',
  ],
  [/values?/, 'What a token brings along where it is looked at.'],
  [
    /hidden states?|residual stream/,
    'The numbers that the model holds of a token between its layers.',
  ],
  [
    /loss/,
    'How badly the next token is predicted, on average: the less, the better. Its unit is the nat.',
  ],
  [/[Ss]oftmax/, 'Makes shares of a row’s scores, which add up to 1 even where nothing is needed.'],
  [/[Ss]igmoid/, 'Weighs each key on its own; a row of such weights need not add up to 1.'],
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
  // Beside the word for those who go through the page by keyboard, too.
  (word.closest('dialog, .room') ?? document.body).append(note);
  note.showPopover();
  const { left, bottom } = word.getBoundingClientRect();
  note.style.left = `${Math.max(8, Math.min(left, innerWidth - note.offsetWidth - 8))}px`;
  note.style.top = `${Math.min(bottom + 4, innerHeight - note.offsetHeight - 8)}px`;
}

/** From one word of a line to the next. */
function move(event: KeyboardEvent): void {
  const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
  const word = event.currentTarget as HTMLElement;
  if (!step) return;
  const all = [...word.parentElement!.querySelectorAll<HTMLElement>('.term')];
  all[all.indexOf(word) + step]?.focus();
  event.preventDefault();
}

/**
 * The same sentence; each word of the table can be opened where it stands first.
 * @param isOneStop all of them are one stop of the tabulator, moved through by the arrow keys
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

/** A control with its label in front. A word that can be opened is no part of a label: a click on it is its own. */
export function field(label: string, control: TemplateResult): TemplateResult {
  return label.search(ANY) < 0
    ? html`<label class="field"><span>${label}</span>${control}</label>`
    : html`<span class="field"><span>${explained(label)}</span>${control}</span>`;
}
