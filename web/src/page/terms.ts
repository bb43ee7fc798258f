/** Makes terms of a sentence buttons that open their definition. */
import { html, nothing, type TemplateResult } from 'lit';
import { TERMS } from './glossary';

const OF_PAGE = TERMS.filter(({ isOfCourse }) => !isOfCourse);
const ANY = new RegExp(
  `(?<![\\w“])(?:${OF_PAGE.map(({ pattern }) => `(${pattern.source})`).join('|')})(?![\\w”₁])`,
  'gu',
);

let note: HTMLElement | undefined;

function open(event: Event, meaning: string): void {
  const word = event.currentTarget as HTMLElement;
  note ??= Object.assign(document.createElement('div'), { className: 'note', popover: 'auto' });
  note.textContent = meaning;
  note.setAttribute('role', 'status');
  // Adds the note after the word in the document, for readers who use a keyboard.
  (word.closest('dialog, .room') ?? document.body).append(note);
  note.showPopover();
  const { left, bottom } = word.getBoundingClientRect();
  note.style.left = `${Math.max(8, Math.min(left, innerWidth - note.offsetWidth - 8))}px`;
  note.style.top = `${Math.min(bottom + 4, innerHeight - note.offsetHeight - 8)}px`;
}

/** Moves the focus between the terms of a line by arrow keys. */
function move(event: KeyboardEvent): void {
  const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
  const word = event.currentTarget as HTMLElement;
  if (!step) return;
  const terms = [...word.parentElement!.querySelectorAll<HTMLElement>('.term')];
  terms[terms.indexOf(word) + step]?.focus();
  event.preventDefault();
}

/**
 * Returns the sentence with the first occurrence of each term as a button.
 * @param isOneStop whether all terms are one tab stop, with arrow keys that move between them
 */
export function explained(said: string, isOneStop = false): TemplateResult {
  const parts: unknown[] = [];
  const explainedTerms = new Set<string>();
  let from = 0;
  for (const match of said.matchAll(ANY)) {
    const { meaning } = OF_PAGE[match.slice(1).findIndex((group) => group !== undefined)]!;
    if (explainedTerms.has(meaning)) continue;
    const isStop = !isOneStop || !explainedTerms.size;
    explainedTerms.add(meaning);
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

/**
 * Returns a control with its label, which is no <label> if it contains a term: a click there must not reach the
 * control.
 */
export function field(label: string, control: TemplateResult): TemplateResult {
  return label.search(ANY) < 0
    ? html`<label class="field"><span>${label}</span>${control}</label>`
    : html`<span class="field"><span>${explained(label)}</span>${control}</span>`;
}
