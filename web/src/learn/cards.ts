/** Shows the meaning of a lesson's terms, which are links to the glossary, as cards on hover, on focus and at a tap. */
const HIDE_DELAY_MS = 150;

/** Adds cards to the terms of a lesson, links whose meaning is in `data-meaning`. */
export function addCards(terms: readonly HTMLAnchorElement[]): void {
  if (!terms.length) return;
  const card = document.createElement('div');
  card.className = 'term-card';
  card.id = 'term-card';
  card.setAttribute('role', 'tooltip');
  card.hidden = true;
  document.body.append(card);
  let shownTerm: HTMLAnchorElement | undefined;
  let timer = 0;

  const hide = () => {
    clearTimeout(timer);
    card.hidden = true;
    shownTerm?.removeAttribute('aria-describedby');
    shownTerm = undefined;
  };
  const show = (term: HTMLAnchorElement) => {
    clearTimeout(timer);
    if (shownTerm === term) return;
    hide();
    shownTerm = term;
    card.textContent = term.dataset.meaning ?? '';
    card.hidden = false;
    term.setAttribute('aria-describedby', card.id);
    const { left, bottom, top } = term.getBoundingClientRect();
    const fitsBelow = bottom + 6 + card.offsetHeight < innerHeight;
    card.style.left = `${Math.max(8, Math.min(left, innerWidth - card.offsetWidth - 8))}px`;
    card.style.top = `${fitsBelow ? bottom + 6 : Math.max(8, top - 6 - card.offsetHeight)}px`;
  };
  const hideSoon = () => {
    clearTimeout(timer);
    timer = window.setTimeout(hide, HIDE_DELAY_MS);
  };

  for (const term of terms) {
    term.addEventListener(
      'pointerenter',
      ({ pointerType }) => pointerType !== 'touch' && show(term),
    );
    term.addEventListener(
      'pointerleave',
      ({ pointerType }) => pointerType !== 'touch' && hideSoon(),
    );
    term.addEventListener('focus', () => show(term));
    term.addEventListener('blur', hideSoon);
    // The first tap shows the card; a second one follows the link, as a click with a mouse does.
    let wasShown = false;
    term.addEventListener('pointerdown', () => (wasShown = shownTerm === term));
    term.addEventListener('click', (event) => {
      if ((event as PointerEvent).pointerType !== 'touch' || wasShown) return;
      event.preventDefault();
      show(term);
    });
  }
  card.addEventListener('pointerenter', () => clearTimeout(timer));
  card.addEventListener('pointerleave', hideSoon);
  addEventListener('scroll', hide, { passive: true });
  addEventListener('keydown', ({ key }) => key === 'Escape' && hide());
}
