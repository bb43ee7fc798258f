/** Asks the reader for a guess before the answer opens. Without JavaScript the answer is a plain <details>. */
import { html, render } from 'lit';
import { judgeChoice, judgeNumber, keepGuess, readGuesses, type Judgment } from './verdict';

/** Adds the field for a guess to a question of a lesson; returns a function that judges it by new numbers. */
export function askForGuess(
  section: HTMLElement,
  lesson: string,
  question: number,
  onGuess: () => void,
): () => void {
  const answer = section.querySelector('details')!;
  const heading = section.querySelector('.predict-question')!;
  const { choices, min = '0', max = '100', unit = '' } = section.dataset;
  const form = document.createElement('form');
  const verdictLine = document.createElement('p');
  verdictLine.className = 'predict-guess';
  verdictLine.hidden = true;
  answer.hidden = true;
  heading.id ||= `question-${question}`;
  form.setAttribute('aria-labelledby', heading.id);
  const storedGuess = readGuesses().find(
    (guess) => guess.lesson === lesson && guess.question === question,
  );
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
              @input=${showValue}
            />
            <output>${middle}${unit}</output></label
          >
          <button>Check</button>`,
    form,
  );
  function showValue(event: Event): void {
    const range = event.target as HTMLInputElement;
    range.nextElementSibling!.textContent = `${range.value}${unit}`;
  }
  /** Judges a guess. A number is compared with the first one in the answer, which may depend on the reader's text. */
  function judge(guess: string): Judgment {
    if (choices) return judgeChoice(guess, section.dataset.answer ?? '');
    const rightAnswer = answer.querySelector('[data-answers]')!.textContent.replace('−', '-');
    const range = { min: Number(min), max: Number(max), unit };
    return judgeNumber(Number(guess), parseFloat(rightAnswer), range);
  }
  let shownGuess: string | undefined;
  function showAnswer(guess: string): void {
    shownGuess = guess;
    const { sentence } = judge(guess);
    verdictLine.textContent = `Your guess: ${guess}${choices ? '' : unit}. ${sentence}`;
    if (!form.hidden) answer.open = true;
    form.hidden = true;
    verdictLine.hidden = answer.hidden = false;
  }
  form.addEventListener('submit', (event) => {
    event.preventDefault();
    const guess = String(new FormData(form).get('guess'));
    keepGuess({ lesson, question, guess, verdict: judge(guess).verdict });
    showAnswer(guess);
    onGuess();
    answer.querySelector('summary')!.focus();
  });
  answer.before(form, verdictLine);
  if (storedGuess) showAnswer(storedGuess.guess);
  return () => {
    if (shownGuess !== undefined) showAnswer(shownGuess);
  };
}
