/**
 * The opening of “Why it matters”: what a published model wrote with and without the first token in its cache, and how much
 * attention each token in it got, recorded by web/lessons/forgotten.mjs. The reader takes the first token away and puts it
 * back, or keeps the second one instead.
 */
import { signal } from '@preact/signals-core';
import { html, nothing, render } from 'lit';
import recorded from '../../lessons/pictures/forgotten.json';
import { mean } from '../frame';
import type { Context, Scope } from '../page/context';
import { choiceField } from '../page/controls';
import { explainTerms } from '../page/terms';
import { cssColor, inkOn, sequential, type Theme } from '../plot/color';

type Name = keyof typeof recorded.texts;
export type Recorded = (typeof recorded.texts)[Name];
/** What the cache keeps beside the most recent tokens: nothing, the first token or the second one. */
type Kept = keyof Recorded['looks'];

const NAMES = [
  ['story', 'story'],
  ['news', 'news'],
  ['recipe', 'recipe'],
] as const;
/** The characters that a card shows of a written text, and the words at each end of the forgotten ones. */
const [WRITTEN_LENGTH, END_WORDS] = [118, 3];
/** A text whose loss is this many nats per token above another's is called nonsense beside it. */
const NONSENSE_RISE = 1;

const { budget, count, file, model, passageTokens, passages, sha256, version } = recorded;
const wordsOf = (text: string) => text.split(/\s+/).filter(Boolean);

/** Returns the beginning of a written text, to the end of a word. */
const shortened = (text: string): string =>
  text.length > WRITTEN_LENGTH ? `${text.slice(0, text.lastIndexOf(' ', WRITTEN_LENGTH))} …` : text;

/** States what the losses of the texts say: under the model with all tokens, nonsense is unlikely. */
export function headingOf({ written: { last, first, all } }: Pick<Recorded, 'written'>): string {
  const isNonsense = last.loss - first.loss >= NONSENSE_RISE;
  const isRepaired = first.loss - all.loss < NONSENSE_RISE;
  return isNonsense && isRepaired
    ? 'Forget the first word and the model writes nonsense'
    : isNonsense
      ? 'Forget the first word and the model’s text gets worse'
      : 'Forget the first word: the model writes on';
}

/**
 * Draws the tokens in the cache, shaded by the attention that they get, and what the model writes.
 * @param keep lets the reader choose what is kept
 */
function card(text: Recorded, kept: Kept, theme: Theme, keep?: (kept: Kept) => void) {
  const { beginning, first, second, looks, written } = text;
  const isLast = kept === 'last';
  const recent = text.recent.slice(isLast ? 0 : 1);
  const [own = 0, ...others] = isLast ? [0, ...looks.last] : looks[kept];
  const scale = sequential(theme, 1, true);
  const shade = (percent: number) =>
    `background:${cssColor(scale, percent / 100)};color:${inkOn(scale, percent / 100)}`;
  const forgotten = wordsOf(beginning.slice((first + second).length, -recent.join('').length));
  const ends = [...forgotten.slice(0, END_WORDS), '…', ...forgotten.slice(-END_WORDS)].join(' ');
  const word = (name: Kept, piece: string) => {
    const isKept = name === kept;
    const shown = isKept
      ? html`${piece.trim()} <small>${Math.round(own)}%</small>`
      : html`<s>${piece.trim()}</s>`;
    const style = isKept ? shade(own) : nothing;
    return keep
      ? html`<button
          type="button"
          aria-pressed=${isKept}
          style=${style}
          @click=${() => keep(isKept ? 'last' : name)}
        >
          ${shown}
        </button> `
      : html`<span style=${style}>${shown}</span> `;
  };
  const name = { last: '', first: first.trim(), second: second.trim() }[kept];
  return html`<div class="forgotten-card ${kept}">
    <h2>${name ? `Keeps “${name}”` : `Forgets “${first}”`}</h2>
    <p class="text-strip" role="group" aria-label="Tokens in the cache">
      ${word('first', first)}${word('second', second)}<s>${ends}</s>
      ${recent.map((piece, i) => html`<span style=${shade(others[i]!)}>${piece}</span>`)}
    </p>
    <p class="hint">
      ${!keep ? '' : kept === 'last' ? `Press “${first}” or “${second.trim()}” to keep it. ` : `Press “${name}” to forget it. `}The
      model writes:
    </p>
    <p class="text-strip writing" data-written=${kept} title=${written[kept].text}>
      ${shortened(written[kept].text)}
    </p>
  </div>`;
}

/** States how the texts were recorded, and their losses. */
function recordedNote({ first, second, middle, written }: Recorded) {
  const higher = passages.last.filter((loss, i) => loss > passages.first[i]!).length;
  const [last, kept, all] = [passages.last, passages.first, passages.all].map((x) =>
    mean(x).toFixed(2),
  );
  const lossOf = (name: keyof typeof written) => written[name].loss.toFixed(2);
  return html`<details class="more">
    <summary>How recorded</summary>
    <p class="hint">
      ${
        `Recorded from ${file} (sha256 ${sha256.slice(0, 12)}…) by Sinkscope ${version}: the likeliest token each time, ${count} tokens. ` +
        `Loss of what is written, in nats per token, under the model with all tokens: ${lossOf('last')} without “${first}”, ${lossOf('first')} with it, ` +
        `${lossOf('second')} with “${second.trim()}”; ${lossOf('all')} where all tokens stay, ${lossOf('middle')} where only “${middle.trim()}” in the middle goes. ` +
        'The story was tried first; news text and recipe were chosen before the model read them. ' +
        `After ${passageTokens} tokens of ${passages.last.length} passages of books the mean loss is ${last} with the last ${budget} tokens, ` +
        `${kept} with the first kept, ${all} with all; in ${higher} of ${passages.last.length} it is higher without the first.`
      }
    </p>
  </details>`;
}

/** Draws the cards of the beginning that the reader chooses, above the experiment Streaming. */
export function addForgotten(place: HTMLElement, { state, theme }: Context, scope: Scope): void {
  const chosen = signal<Name>('story');
  const kept = signal<Kept>('last');
  scope.effect(() => {
    if (state.value.experiment !== 'streaming') return void render(nothing, place);
    const text = recorded.texts[chosen.value];
    const [sinks, heads] = text.sinks as [number, number];
    render(
      html`<h1>${headingOf(text)}</h1>
        <p class="opening">
          ${explainTerms(`Long chats outgrow a model’s memory, and old words are dropped. ${model}, a real model, may keep ${budget} tokens here.`, true)}
          ${choiceField('text', chosen.value, NAMES, (one) => (chosen.value = one as Name))}
        </p>
        <div class="forgotten-cards">
          ${card(text, kept.value, theme.value, (one) => (kept.value = one))}
          ${card(text, 'first', theme.value)}
        </div>
        <p class="opening">
          ${explainTerms(
            `Shaded: attention, mean of ${heads} heads. Softmax must hand out 100%: “${text.first}” gets ${Math.round(text.looks.first[0]!)}%, a sink in ${sinks} heads. ` +
              'Once forgotten, that attention mixes other words into what comes out.',
            true,
          )}
        </p>
        ${recordedNote(text)}
        <p class="eyebrow">Here, live, on a small model</p>`,
      place,
    );
  });
}
