/** Turns the terms in a sentence into buttons that open their definitions. */
import { html, nothing, type TemplateResult } from 'lit';
import { PAGE_TERMS } from './glossary';

const ANY_TERM = new RegExp(
  `(?<![\\w“])(?:${PAGE_TERMS.map(({ pattern }) => `(${pattern.source})`).join('|')})(?![\\w”₁])`,
  'gu',
);

let note: HTMLElement | undefined;
/** Whether the reader pressed the word, so that its definition stays when the pointer leaves. */
let isPinned = false;

function openDefinition(event: Event, meaning: string): void {
  const word = event.currentTarget as HTMLElement;
  isPinned = event.type === 'click';
  note ??= Object.assign(document.createElement('div'), { className: 'note', popover: 'auto' });
  note.textContent = meaning;
  note.setAttribute('role', 'status');
  // The note follows the word in the document, for readers who use a keyboard.
  (word.closest('dialog, .room') ?? document.body).append(note);
  note.showPopover();
  const { left, top, bottom } = word.getBoundingClientRect();
  // What a word speaks of is mostly below it, so the note is above where it has room.
  const above = top - note.offsetHeight - 4;
  note.style.left = `${Math.max(8, Math.min(left, innerWidth - note.offsetWidth - 8))}px`;
  note.style.top = `${above >= 8 ? above : Math.min(bottom + 4, innerHeight - note.offsetHeight - 8)}px`;
}

/** Makes a word a button that opens its definition. */
export const explainWord = (
  word: string,
  meaning: string,
  [tabindex, onKey]: readonly [0 | -1, unknown] = [0, nothing],
): TemplateResult =>
  html`<button
    type="button"
    class="term"
    .textContent=${word}
    tabindex=${tabindex}
    @click=${(event: Event) => openDefinition(event, meaning)}
    @mouseenter=${(event: Event) => openDefinition(event, meaning)}
    @mouseleave=${leaveWord}
    @keydown=${onKey}
  ></button>`;

function leaveWord(): void {
  if (!isPinned) note?.hidePopover();
}

function moveFocus(event: KeyboardEvent): void {
  const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
  const word = event.currentTarget as HTMLElement;
  if (!step) return;
  const terms = [...word.parentElement!.querySelectorAll<HTMLElement>('.term')];
  terms[terms.indexOf(word) + step]?.focus();
  event.preventDefault();
}

/** Makes the first occurrence of each term a button; with `isOneStop` arrow keys move among them. */
export function explainTerms(sentence: string, isOneStop = false): TemplateResult {
  const parts: unknown[] = [];
  const explainedTerms = new Set<string>();
  let partStart = 0;
  for (const match of sentence.matchAll(ANY_TERM)) {
    const { meaning } = PAGE_TERMS[match.slice(1).findIndex((group) => group !== undefined)]!;
    if (explainedTerms.has(meaning)) continue;
    const tabindex = isOneStop && explainedTerms.size ? -1 : 0;
    explainedTerms.add(meaning);
    const word = explainWord(match[0], meaning, [tabindex, isOneStop ? moveFocus : nothing]);
    parts.push(sentence.slice(partStart, match.index), word);
    partStart = match.index + match[0].length;
  }
  return html`${parts}${sentence.slice(partStart)}`;
}

/** A label that contains a term is not a <label>, since a click on the term would also reach the control. */
export function field(label: string, control: TemplateResult): TemplateResult {
  return label.search(ANY_TERM) < 0
    ? html`<label class="field"><span>${label}</span>${control}</label>`
    : html`<span class="field"><span>${explainTerms(label)}</span>${control}</span>`;
}
