/** Words that a reader may not know, each explained where it stands: a touch opens a note beside it. */
import { html, type TemplateResult } from 'lit';

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
  [
    /keys?/,
    'What a token offers to those after it. A cache keeps the keys of tokens that were read; a token whose key is dropped is not seen any more.',
  ],
  [/bits?/, 'A number kept in n bits has 2ⁿ steps from its scale’s one end to the other.'],
  [/\bT\b/, 'How many tokens were read, what stands in front of the text included.'],
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
  word.closest('.room')!.append(note);
  note.showPopover();
  const { left, bottom } = word.getBoundingClientRect();
  note.style.left = `${Math.max(8, Math.min(left, innerWidth - note.offsetWidth - 8))}px`;
  note.style.top = `${Math.min(bottom + 4, innerHeight - note.offsetHeight - 8)}px`;
}

/** The same sentence; each word of the table can be opened where it stands first. */
export function explained(said: string): TemplateResult {
  const parts: unknown[] = [];
  const seen = new Set<string>();
  let from = 0;
  for (const match of said.matchAll(ANY)) {
    const meaning = TERMS[match.slice(1).findIndex((group) => group !== undefined)]![1];
    if (seen.has(meaning)) continue;
    seen.add(meaning);
    const word = html`<button
      type="button"
      class="term"
      @click=${(event: Event) => open(event, meaning)}
      .textContent=${match[0]}
    ></button>`;
    parts.push(said.slice(from, match.index), word);
    from = match.index + match[0].length;
  }
  return html`${parts}${said.slice(from)}`;
}
