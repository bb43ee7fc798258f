/** Predict, then look: the answer opens once the reader has guessed. Without JavaScript it is a <details>. */
import { html, nothing, render } from 'lit';

export function asksFirst(section: HTMLElement): void {
  const answer = section.querySelector('details')!;
  const question = section.querySelector('.predict-question')!;
  const { choices, min = '0', max = '100', unit = '' } = section.dataset;
  const form = document.createElement('form');
  const guessed = document.createElement('p');
  guessed.className = 'predict-guess';
  guessed.hidden = true;
  answer.hidden = true;
  question.id ||= `question-${[...document.querySelectorAll('.predict')].indexOf(section)}`;
  form.setAttribute('aria-labelledby', question.id);
  const middle = Math.round((Number(min) + Number(max)) / 2);
  render(
    choices
      ? html`${choices
            .split('|')
            .map(
              (choice) =>
                html`<label
                  ><input type="radio" name="guess" value=${choice} required /> ${choice}</label
                > `,
            )} <button>Check</button>`
      : html`<label
            ><span class="unseen">Your guess, from ${min} to ${max}</span
            ><input
              type="range"
              name="guess"
              min=${min}
              max=${max}
              value=${middle}
              @input=${shows}
            />
            <output>${middle}${unit}</output></label
          >
          <button>Check</button>${nothing}`,
    form,
  );
  function shows(event: Event): void {
    const range = event.target as HTMLInputElement;
    range.nextElementSibling!.textContent = `${range.value}${unit}`;
  }
  form.addEventListener('submit', (event) => {
    event.preventDefault();
    const guess = String(new FormData(form).get('guess'));
    guessed.textContent = `Your guess: ${guess}${choices ? '' : unit}.`;
    form.hidden = true;
    guessed.hidden = answer.hidden = false;
    answer.open = true;
    answer.querySelector('summary')!.focus();
  });
  answer.before(form, guessed);
}
