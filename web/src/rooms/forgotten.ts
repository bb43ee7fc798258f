/**
 * The opening of “Why it matters”: what a published model wrote with and without the first token in its cache, recorded by
 * web/lessons/forgotten.mjs, and what it wrote with other tokens in the cache.
 */
import { signal } from '@preact/signals-core';
import { html, nothing, render } from 'lit';
import recorded from '../../lessons/pictures/forgotten.json';
import { mean } from '../frame';
import type { Context, Scope } from '../page/context';
import { segmentedControl } from '../page/controls';
import { linesTable } from '../page/tables';
import { tableRegion } from '../page/room_controls';
import { explainTerms } from '../page/terms';

type Name = keyof typeof recorded.texts;
export type Recorded = (typeof recorded.texts)[Name];

const NAMES = { story: 'story', news: 'news text', recipe: 'recipe' } as const;
/** The words that a card shows of a written text, and at each end of the forgotten words. */
const [WRITTEN_WORDS, END_WORDS] = [25, 3];
/** A text whose loss is this many nats per token above another's is called nonsense beside it. */
const NONSENSE_RISE = 1;

const { budget, count, eps, file, model, passageTokens, passages, sha256, version } = recorded;
const wordsOf = (text: string) => text.split(/\s+/).filter(Boolean);

/** Returns the first words of a written text. */
function shortened(text: string, count = WRITTEN_WORDS): string {
  const words = wordsOf(text);
  return `${words.slice(0, count).join(' ')}${words.length > count ? ' …' : ''}`;
}

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

function card(text: Recorded, name: 'last' | 'first') {
  const { beginning, before, first, written } = text;
  const isLast = name === 'last';
  const end = before[isLast ? 0 : 1]!;
  const forgotten = wordsOf(beginning.slice(first.length, end));
  const ends = [...forgotten.slice(0, END_WORDS), '…', ...forgotten.slice(-END_WORDS)].join(' ');
  return html`<div class="forgotten-card ${name}">
    <h2>
      ${isLast ? `Forgets “${first}”: keeps the last ${budget} tokens` : `Keeps “${first}” and the last ${budget - 1} tokens`}
    </h2>
    <p class="text-strip">
      <span class=${isLast ? 'first gone' : 'first'}>${first}</span>
      <s>${ends}</s>${beginning.slice(end)}
    </p>
    <p class="hint">it writes</p>
    <p class="text-strip writing" data-written=${name}>${shortened(written[name].text)}</p>
  </div>`;
}

/** Lists the texts with all kept words, and how they were recorded. */
function allTexts({ first, second, middle, written }: Recorded) {
  const rows = [
    ['last', `the last ${budget} tokens`],
    ['first', `“${first}” and the last ${budget - 1}`],
    ['second', `“${second.trim()}”, the second word, and the last ${budget - 1}`],
    ['middle', `all but “${middle.trim()}”, a word in the middle`],
    ['all', 'all tokens'],
  ] as const;
  const higher = `${passages.last.filter((loss, i) => loss > passages.first[i]!).length} of ${passages.last.length}`;
  const caption =
    `Recorded from ${file} (sha256 ${sha256.slice(0, 12)}…) by Sinkscope ${version}: the likeliest token each time, ${count} tokens. ` +
    'Loss: nats per token of what was written, under the model with all tokens. The story was tried first; news text and recipe were ' +
    `chosen before the model read them. After ${passageTokens} tokens of ${passages.last.length} passages of books the mean loss is ` +
    `${mean(passages.last).toFixed(2)} with the last ${budget} tokens, ${mean(passages.first).toFixed(2)} with the first kept, ${mean(passages.all).toFixed(2)} with all; in ${higher} it is higher without the first.`;
  const lines = rows.map(([name, title]) => ({
    title,
    cells: [html`<div class="written">${written[name].text}</div>`, written[name].loss.toFixed(2)],
  }));
  return html`<details class="more">
    <summary>All texts</summary>
    ${tableRegion('What the model writes', linesTable('without', '', ['The cache keeps', 'The model writes', 'Loss'], lines))}
    <p class="hint">${caption}</p>
  </details>`;
}

/** Draws the two texts after the beginning that the reader chooses, above the experiment Streaming. */
export function addForgotten(place: HTMLElement, { state }: Context, scope: Scope): void {
  const chosen = signal<Name>('story');
  scope.effect(() => {
    if (state.value.experiment !== 'streaming') return void render(nothing, place);
    const name = chosen.value;
    const text = recorded.texts[name];
    const [sinks, heads] = text.sinks as [number, number];
    const names = Object.keys(NAMES) as Name[];
    render(
      html`<h1>${headingOf(text)}</h1>
        <p class="opening">
          ${explainTerms(`${model}, a real model, continues a ${NAMES[name]}. Its cache holds ${budget} tokens.`)}
        </p>
        <div class="forgotten-cards">${card(text, 'last')} ${card(text, 'first')}</div>
        <p class="forgotten-second">
          <strong>“${text.second.trim()}” kept instead:</strong>
          <span class="text-strip">${shortened(text.written.second.text, 15)}</span>
        </p>
        <p class="opening">
          ${explainTerms(
            `Softmax must hand out 100% in every row: ${sinks} of ${heads} heads give “${text.first}” over ${100 * eps}% on average, a sink. ` +
              'Once forgotten, that attention mixes other words into what comes out.',
            true,
          )}
        </p>
        <div class="forgotten-foot">
          ${segmentedControl(
            'Beginning',
            names.map((one) => [one, NAMES[one]] as const),
            name,
            (one) => (chosen.value = one),
            true,
          )}
          ${allTexts(text)}
        </div>
        <p class="eyebrow">Here, live, on a small model</p>`,
      place,
    );
  });
}
