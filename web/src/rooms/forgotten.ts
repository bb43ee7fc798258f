/**
 * The opening of each question of “Why it matters”: what a published model wrote in the broken case and in the repaired one,
 * side by side, and how much attention each token got, recorded by web/lessons/forgotten.mjs. In some questions the reader
 * tries to repair the broken case by pressing a word.
 */
import { signal } from '@preact/signals-core';
import { html, nothing, render } from 'lit';
import recorded from '../../lessons/pictures/forgotten.json';
import type { State } from '../ask/state';
import { mean } from '../frame';
import type { Context, Scope } from '../page/context';
import { choiceField } from '../page/controls';
import { barCell } from '../page/tables';
import { experiments } from '../experiments/index';
import { policyWords } from '../views/settings';
import { explainTerms } from '../page/terms';
import { cssColor, inkOn, sequential, type Theme } from '../plot/color';
import { drawScale } from '../plot/legend';

const { budget, eps, heads, model, passages } = recorded;

type Name = keyof typeof recorded.texts;
type Recorded = (typeof recorded.texts)[Name];
type Written = Recorded['written'];
/** A condition that cards show: its attention is recorded. */
type Condition = keyof Recorded['looks'];
type Lists = Partial<Record<keyof Written, readonly number[]>>;
type Texts = Readonly<Record<keyof Written, { readonly text: string; readonly loss: number }>>;

const NAMES = (['story', 'news', 'recipe'] as const).map((name) => [name, name] as const);
/** The characters that a card shows of a written text, and the words at each end of the forgotten ones. */
const [WRITTEN_LENGTH, END_WORDS] = [104, 3];
/** The characters that the line below the cards shows of the unchanged text. */
const UNCHANGED_LENGTH = 80;
/** The first words whose rounding a card shows. */
const ROUNDED_WORDS = 4;
/** Nonsense: a text whose loss rises by at least this many nats per token, or with at most this many different words. */
const [NONSENSE_RISE, STUCK_WORDS] = [1, 5];
/** A text repeats itself where a card shows the same words this often in a row. */
const REPEATS = 3;
/** The steps of 8 bits on either side of 0. */
const STEPS = 2 ** 7 - 1;
/** A card with more tokens than this has smaller letters. */
const FEW_TOKENS = 30;

const losses: Lists = passages;
const wordCounts: Lists = recorded.passageWords;

/** Whether a text is nonsense: under the unedited model it is far less likely than the text written unchanged. */
const isNonsense = (loss: number, unchanged: number, words: number) =>
  loss - unchanged >= NONSENSE_RISE || words <= STUCK_WORDS;
const writesNonsense = (written: Texts, one: Condition) =>
  isNonsense(written[one].loss, written.all.loss, new Set(wordsOf(written[one].text)).size);

/** Whether words follow each other again and again in what a card shows of a text. */
export function repeatsItself(text: string): boolean {
  const words = wordsOf(shortened(text).replace(/[^\p{L}\p{N}\s]/gu, ''));
  const isRun = (start: number, size: number) =>
    start + REPEATS * size <= words.length &&
    words
      .slice(start + size, start + REPEATS * size)
      .every((word, i) => word === words[start + (i % size)]);
  return words.some((_, start) => words.some((__, i) => isRun(start, i + 1)));
}

/** A case of an exhibit: what is done, its broken condition and its repaired one, and a title where only the first is nonsense. */
type Case = readonly [deed: string, broken: Condition, repaired: Condition, title?: string];

/** The words of a question, where {first} and {second} are the first words of the text, {D} is the width of the model, {keeps} what the rule keeps. */
interface Exhibit {
  /** What is done. */
  readonly intro: string;
  /** The cases by the choice of the experiment's menu; '' without a menu. */
  readonly cases: Readonly<Record<string, Case>>;
  /** The word of the broken case that the reader can press, which condition it leads to, and what asks for it. */
  readonly presses?: readonly [word: number, condition: Condition, words: string];
  readonly headings: Readonly<Partial<Record<Condition, string>>>;
  /** Why it ruins the text, above the picture. */
  readonly causeOf: (text: Recorded, shown: Case) => string;
}

const quoted = (piece: string): string => `“${piece.trim()}”`;
/** {state} and {peak} are the layer and channel of the largest activation, {next} the channel of its token's next largest. */
const fill = (words: string, { pieces, largest }: Pick<Recorded, 'pieces' | 'largest'>): string =>
  words
    .replaceAll('{first}', quoted(pieces[0]!))
    .replace('{second}', quoted(pieces[1]!))
    .replace('{D}', String(largest.D))
    .replaceAll('{state}', String(largest.state))
    .replace('{peak}', String(largest.channel))
    .replace('{next}', String(largest.next))
    .replace('{T}', String(pieces.length));
const LAST_WORDS = 'Keep the last words';
const percentOf = ({ looks }: Recorded, condition: Condition, t = 0) =>
  `${Math.round(looks[condition][t]!)}%`;
const keptIn = ({ kept }: Recorded, condition: Condition) =>
  (kept as Partial<Record<Condition, readonly number[]>>)[condition];
const wholeWords = (x: number) => Math.round(x).toLocaleString('en');
const NUMBERS = `${model}, a real model, turns each word into {D} numbers.`;
/** States what the first word gets of the unchanged model, and what once old words are gone. */
function sinkWords(text: Recorded, repaired: Condition): string {
  const [unchanged, kept] = [percentOf(text, 'all'), percentOf(text, repaired)];
  const then = unchanged === kept ? '' : ` (${kept} among ${budget} tokens)`;
  return `Softmax makes each word spend 100% of attention: ${unchanged} rests on {first}, a sink${then}. Without it other words count more.`;
}

export const EXHIBITS: Readonly<Record<State['experiment'], Exhibit>> = {
  streaming: {
    intro: `Long chats outgrow memory. Here ${model}, a real model, keeps ${budget} of {T} tokens.`,
    cases: { '': ['Forget the first word', 'last', 'first'] },
    presses: [1, 'second', 'Would keeping {second} do? Press it'],
    headings: { last: 'Forgets {first}', first: 'Keeps {first}', second: 'Keeps {second}' },
    causeOf: (text) => sinkWords(text, 'first'),
  },
  cache: {
    intro: `The memory of ${model}, a real model, holds ${budget} of {T} tokens. This rule keeps {keeps}.`,
    cases: {
      h2o: [
        LAST_WORDS,
        'last',
        'h2o',
        'Keep the most attended words: the first stays and the model writes on',
      ],
      first: [LAST_WORDS, 'last', 'first', 'Keep the first word, too, and the model writes on'],
      tova: [
        LAST_WORDS,
        'last',
        'tova',
        'Keep what the last word attends to: the first stays and the model writes on',
      ],
      lru: [
        LAST_WORDS,
        'last',
        'lru',
        'Keep the recently attended words: the first stays and the model writes on',
      ],
    },
    headings: {
      last: `The last ${budget} tokens`,
      first: `The first token and the last ${budget - 1}`,
      h2o: `The ${budget} most attended`,
      tova: `The ${budget} that the last word attends to`,
      lru: `The ${budget} recently attended`,
    },
    causeOf: (text, [, , repaired]) => sinkWords(text, repaired),
  },
  quantization: {
    intro: `${NUMBERS} After layer {state} of ${recorded.layers} they are rounded to 8 bits, to save memory.`,
    cases: {
      '': [
        'Round the first word, too',
        'round8',
        'exact8',
        'One huge number ruins the rounding of all others',
      ],
    },
    presses: [0, 'exact8', 'Press {first} to keep it exact'],
    headings: { round8: 'All words rounded', exact8: 'All words but {first} rounded' },
    causeOf: () =>
      `8 bits give ${STEPS} steps above 0 and ${STEPS} below. {first}, the most attended word (a sink), has a huge number: steps get too coarse for all others.`,
  },
  fragility: {
    intro: `${NUMBERS} Here one of those of {first} is set to 0, after every layer.`,
    cases: { '': ['Erase one number of the first word', 'firstWord', 'nextNumber'] },
    headings: {
      firstWord: 'The largest number of {first} erased',
      nextNumber: 'Its next largest number erased',
    },
    causeOf: (text) =>
      'Heads recognize {first}, the most attended word (a sink), by its largest number. ' +
      `Without it {first} gets ${percentOf(text, 'firstWord')} of attention; unchanged ${percentOf(text, 'all')}.`,
  },
};

export function titleOf(
  text: Pick<Recorded, 'pieces' | 'largest'> & { readonly written: Texts },
  [deed, broken, repaired, title]: Case,
): string {
  const conditions = [broken, repaired];
  const [isBroken, isStill] = conditions.map((one) => writesNonsense(text.written, one));
  const [repeats, repeatsStill] = conditions.map((one) => repeatsItself(text.written[one].text));
  if (!isBroken && repeats)
    return `${deed}: the model repeats itself${repeatsStill ? ' in both cases' : ''}`;
  if (!isBroken) return `${deed}: the model writes on`;
  if (isStill) return `${deed}: nonsense in both cases`;
  const share = nonsenseCount(broken)! / passages.all.length;
  const often = share === 1 ? '' : share > 1 / 2 ? 'usually ' : 'sometimes ';
  return title ?? `${deed} and the model ${often}writes nonsense`;
}

/** Returns after how many of the passages a text is nonsense. */
const nonsenseCount = (one: keyof Written) =>
  wordCounts[one]?.filter((words, i) => isNonsense(losses[one]![i]!, passages.all[i]!, words))
    .length;

/** States it of a condition. */
function passagesWords(one: Condition): string {
  const count = nonsenseCount(one);
  if (count === undefined) return '';
  return `Nonsense after ${count} of ${passages.all.length} other texts`;
}

const wordsOf = (text: string) => text.split(/\s+/).filter(Boolean);

/** Returns the beginning of a written text, to the end of a word if it has one. */
function shortened(text: string, length = WRITTEN_LENGTH): string {
  if (!text.trim()) return `(${text.length} spaces)`;
  if (text.length <= length) return text;
  const end = text.lastIndexOf(' ', length);
  return `${text.slice(0, end > length / 2 ? end : length)} …`;
}

/** Shortens a long stretch of forgotten words. */
function endsOf(text: string): string {
  const words = wordsOf(text);
  if (words.length <= 2 * END_WORDS) return words.join(' ');
  return [...words.slice(0, END_WORDS), '…', ...words.slice(-END_WORDS)].join(' ');
}

interface Press {
  /** The word that can be pressed. */
  readonly word: number;
  readonly isPressed: boolean;
  readonly press: () => void;
}

const wordButton = ({ isPressed, press }: Press, content: unknown, style: unknown = nothing) =>
  html`<button type="button" aria-pressed=${isPressed} style=${style} @click=${press}>
    ${content}
  </button>`;

/** Draws the tokens, shaded by the attention that they get, with struck ones where most heads forgot them. */
function strip(text: Recorded, condition: Condition, theme: Theme, press?: Press) {
  const { looks, pieces } = text;
  const kept = keptIn(text, condition);
  const isKept = (t: number) => (kept?.[t] ?? 100) >= 50;
  const scale = sequential(theme, 1, true);
  const shade = (t: number) => {
    const share = looks[condition][t]! / 100;
    return `background:${cssColor(scale, share)};color:${inkOn(scale, share)}`;
  };
  const alone = 1 + (press?.word ?? 0);
  const word = (t: number) => {
    const piece = pieces[t]!.trim();
    const isNamed = isKept(t) && (t === 0 || t === press?.word);
    const percent = html` <small>${percentOf(text, condition, t)}</small>`;
    const content = isKept(t)
      ? html`${piece}${isNamed ? percent : nothing}`
      : html`<s>${piece}</s>`;
    const style = isKept(t) ? shade(t) : nothing;
    return press && t === press.word
      ? html`${wordButton(press, content, style)} `
      : html`<span style=${style}>${content}</span> `;
  };
  const runs: number[][] = [];
  for (let t = alone; t < pieces.length; t++)
    if (!isKept(t) && runs.length && !isKept(runs.at(-1)![0]!)) runs.at(-1)!.push(t);
    else runs.push([t]);
  return html`<p
    class="text-strip ${pieces.filter((_, t) => isKept(t)).length > FEW_TOKENS ? 'long' : ''}"
    role="group"
    aria-label="Tokens"
  >
    ${pieces.slice(0, alone).map((_, t) => word(t))}${runs.map((run) =>
      isKept(run[0]!)
        ? html`<span style=${shade(run[0]!)}>${pieces[run[0]!]}</span>`
        : html` <s>${endsOf(run.map((t) => pieces[t]).join(''))}</s> `,
    )}
  </p>`;
}

/** Draws numbers as bars of one scale that ends at `top`; the bar of a larger number is broken. */
const numberCell = (size: number, top: number, words: unknown) =>
  size > top
    ? html`<td class="bar broken" style="--share: 1">${words}</td>`
    : barCell(size / top, words);

/** Draws the largest number of each of the first words, exact and rounded: on both cards with one scale. */
function rounding({ pieces, largest }: Recorded, condition: Condition, press?: Press) {
  const { rest, size: huge } = largest;
  const peaks = largest.peaks.slice(0, ROUNDED_WORDS);
  const isKept = condition !== 'round8';
  const step = (isKept ? rest : huge) / STEPS;
  const roundTo = (size: number, own: number) => Math.round(size / own) * own;
  const top = Math.max(rest, ...peaks.slice(1).map((size) => roundTo(size, huge / STEPS))) / 0.6;
  const lost = peaks.find((size, t) => t && !roundTo(size, huge / STEPS));
  const lostTo = lost && wholeWords(roundTo(lost, step));
  const fate = lostTo === wholeWords(lost ?? 0) ? 'stays' : 'becomes';
  const line = (size: number, t: number) => {
    const isExact = isKept && t === 0;
    const rounded = isExact ? size : roundTo(size, step);
    return html`<tr>
      <th scope="row">${press && !t ? wordButton(press, pieces[t]!.trim()) : pieces[t]!.trim()}</th>
      <td>${wholeWords(size)} →</td>
      ${numberCell(rounded, top, html`<strong class=${rounded ? '' : 'lost'}>${wholeWords(rounded)}</strong>${isExact ? ' (exact)' : ''}`)}
    </tr>`;
  };
  return html`<table class="bars rounding">
    <caption>
      ${wholeWords(step * STEPS)} / ${STEPS} steps ≈ ${step.toPrecision(isKept ? 2 : 3)} a
      step${lost ? `, so ${wholeWords(lost)} ${fate} ${lostTo}` : ''}
    </caption>
    <tr>
      <td></td>
      <th scope="col">largest number</th>
      <th scope="col">after rounding</th>
    </tr>
    ${peaks.map(line)}
    <tr>
      <td colspan="3">
        <strong>${Math.floor(10 * largest.zeros[Number(isKept)]!) / 10}%</strong> of the other
        words’ numbers become 0
      </td>
    </tr>
  </table>`;
}

/** Draws the number of the first word that a card erases: on both cards with one scale. */
function erasing({ largest: { channel, erased, next } }: Recorded, condition: Condition) {
  const isLargest = condition === 'firstWord';
  const size = erased[isLargest ? 0 : 1]!;
  return html`<table class="bars rounding">
    <tr>
      <th scope="row">number ${isLargest ? channel : next}</th>
      <td>${wholeWords(size)}</td>
      ${barCell(size / erased[0]!, '')}
      <td>→ <strong class="lost">0</strong></td>
    </tr>
  </table>`;
}

/** States how the texts were recorded, and their losses. */
function recordedNote(text: Recorded, experiment: State['experiment'], [, broken, repaired]: Case) {
  const lossOf = (name: keyof Written) => text.written[name].loss.toFixed(2);
  const middle = quoted(text.pieces[Math.floor(text.pieces.length / 2)]!);
  const meansOf = (names: readonly Condition[]) =>
    names.map((name) => mean(losses[name]!).toFixed(2)).join(', ');
  const means =
    losses[broken] && losses[repaired]
      ? `; after ${recorded.passageTokens} tokens of the ${passages.all.length} other texts, passages of books, its means are ${meansOf([broken, repaired, 'all'])}`
      : '';
  const { sinks } = text;
  const own: Partial<Record<State['experiment'], string>> = {
    streaming: ` On the right {first} gets over ${100 * eps}% on average in ${sinks.first} heads. With {second} in place of {first} it is ${lossOf('second')}, where only ${middle} in the middle goes ${lossOf('middle')}.`,
    cache: ` On the right {first} stays in ${keptIn(text, repaired)?.[0]}% of the heads.`,
    quantization:
      ` Such a huge number is called a massive activation. Numbers are shown without their signs: there are as many steps below 0. Rounded after layer {state} to 6 bits, ${nonsenseCount('round6')} of the other texts are nonsense, ${nonsenseCount('exact6')} with the first word exact; ` +
      `to 4 bits ${nonsenseCount('round4')} and ${nonsenseCount('exact4')}; to 8 bits after every layer ${nonsenseCount('roundAll')} and ${nonsenseCount('exactAll')}; unchanged ${nonsenseCount('all')}. ` +
      'Rounding after one layer was chosen after rounding after every layer had been tried.',
    fragility:
      ` The largest number is called a massive activation. The numbers are those after layer {state} of ${recorded.layers} of the unchanged model, {peak} and {next} of those of {first}. A head has a sink if {first} gets over ${100 * eps}% on average. ` +
      `Both cases were chosen after the number had been erased in all words. It matters in other words, too: erased in all words, ${sinks.channel} heads have a sink and ${nonsenseCount('channel')} of the other texts are nonsense; in all but {first} ${sinks.otherWords} and ${nonsenseCount('otherWords')}. That half the width away, erased in all words: ${sinks.otherChannel} and ${nonsenseCount('otherChannel')}.` +
      ` Other ways to break the sink, which ${sinks.all} heads of the unchanged model have: without the tag of {first}, what heads write of it into later words (W_O v₁), ` +
      `${sinks.tag} have it, and ${nonsenseCount('tag')} of the other texts are nonsense; without random directions ${sinks.otherTag} and ${nonsenseCount('otherTag')}; ` +
      `with one weight zeroed ${sinks.weight} and ${nonsenseCount('weight')}; on copies of {first} ${sinks.repeat}.`,
  };
  return html`<details class="more">
    <summary>How recorded</summary>
    <p class="hint">
      ${fill(
        `Recorded from ${recorded.file} (sha256 ${recorded.sha256.slice(0, 12)}…) by Sinkscope ${recorded.version}: the likeliest token each time, ${recorded.count} tokens. ` +
          `Loss of what is written, in nats per token, under the unchanged model: ${lossOf(broken)} on the left, ${lossOf(repaired)} on the right, ${lossOf('all')} unchanged${means}. Unchanged it writes: ${quoted(shortened(text.written.all.text))} ` +
          `Nonsense: at least ${NONSENSE_RISE} nat more than unchanged, or at most ${STUCK_WORDS} different words, unchanged, too. Repeats itself: the same words ${REPEATS} times in a row on a card. ` +
          `Attention is that of the last word, a mean over ${heads} heads. The story was tried first; news text and recipe were chosen before the model read them.${own[experiment] ?? ''}`,
        text,
      )}
    </p>
  </details>`;
}

/** Says what shades the tokens, and which heads forgot a struck one; without shades what the model continues. */
function legendWords(text: Recorded, [, , repaired]: Case): string {
  if (repaired === 'exact8')
    return `The model continues “… ${wordsOf(text.beginning)
      .slice(-2 * END_WORDS)
      .join(' ')}”.`;
  const kept = keptIn(text, repaired);
  const isOne = kept?.every((share) => share === 0 || share === 100);
  const struck = kept ? `; struck: forgotten${isOne ? '' : ' by most heads'}` : '';
  return `attention from ${quoted(text.pieces.at(-1)!)}${struck}`;
}

/** Asks to press a word, or says how to undo it; '' where none can be pressed. */
const pressWords = ([word, , words]: NonNullable<Exhibit['presses']>, isPressed: boolean) =>
  isPressed ? `Press ${['{first}', '{second}'][word]} to undo` : words;

interface Card {
  readonly title: string;
  readonly isRepaired: boolean;
  /** What the reader can press; '' if nothing. */
  readonly says: string;
  readonly picture: unknown;
  /** What else is counted, after the texts of nonsense. */
  readonly more: string;
}

/** Draws what the model reads and writes under a condition. */
const drawCard = (
  text: Recorded,
  one: Condition,
  { title, isRepaired, says, picture, more }: Card,
) =>
  html`<div class="forgotten-card ${isRepaired ? 'repaired' : ''}">
    <div class="card-head">
      <h2>${title}</h2>
      ${says ? html`<p>${says}</p>` : nothing}
    </div>
    ${picture}
    <p class="hint">It writes:</p>
    <p class="text-strip writing" data-written=${one} title=${text.written[one].text}>
      ${shortened(text.written[one].text)}
    </p>
    <p class="hint">${passagesWords(one)}${more}</p>
  </div>`;

/** Draws the cards of the beginning and the case that the reader chooses, above each experiment. */
export function addForgotten(place: HTMLElement, context: Context, scope: Scope): void {
  const chosenText = signal<Name>('story');
  /** The question whose word the reader pressed; '' for none. */
  const pressed = signal('');
  const scale = document.createElement('span');
  scope.effect(() => {
    const { experiment, policy } = context.state.value;
    const { cases, causeOf, headings, intro, presses } = EXHIBITS[experiment];
    const { menu } = experiments.find(({ name }) => name === experiment)!;
    // A rule that is not recorded is measured below; the cards keep the first one.
    const shown = cases[experiment === 'cache' ? policy : ''] ?? Object.values(cases)[0]!;
    const text = recorded.texts[chosenText.value];
    const isPressed = pressed.value === experiment;
    const press: Press | undefined = presses && {
      ...{ word: presses[0], isPressed },
      press: () => (pressed.value = isPressed ? '' : experiment),
    };
    const isRounded = experiment === 'quantization';
    const isErased = experiment === 'fragility';
    drawScale(scale, sequential(context.theme.value, 1, true));
    const card = (one: Condition, isLeft: boolean) => {
      const isRepaired = one !== shown[1] && !writesNonsense(text.written, one);
      const says = presses && isLeft ? fill(pressWords(presses, isPressed), text) : '';
      const picture = isRounded
        ? rounding(text, one, isLeft ? press : undefined)
        : html`${isErased ? erasing(text, one) : nothing}
          ${strip(text, one, context.theme.value, isLeft ? press : undefined)}`;
      const more = isErased
        ? `; ${text.sinks[one]} of ${heads} heads have a sink`
        : isRounded || !(one in wordCounts)
          ? ''
          : ` (unchanged: ${nonsenseCount('all')})`;
      const cardTitle = fill(headings[one]!, text);
      return drawCard(text, one, { title: cardTitle, isRepaired, says, picture, more });
    };
    render(
      html`<h1>${titleOf(text, shown)}</h1>
        <p class="opening">
          ${explainTerms(fill(intro.replace('{keeps}', policyWords(shown[2])[1]), text), true)}
        </p>
        <p class="opening cause">${explainTerms(fill(causeOf(text, shown), text), true)}</p>
        <div class="fields">
          ${menu?.(context, Object.keys(cases)) ?? nothing}
          ${choiceField(
            'recorded text',
            chosenText.value,
            NAMES,
            (one) => (chosenText.value = one as Name),
          )}
          <span class="map-legend"
            >${isRounded ? nothing : scale}
            <span class="hint">${legendWords(text, shown)}</span></span
          >
        </div>
        <div class="forgotten-cards">
          ${card(isPressed && presses ? presses[1] : shown[1], true)} ${card(shown[2], false)}
        </div>
        ${
          isRounded || isErased
            ? html`<p class="hint">
                Unchanged:
                ${isErased ? `${text.sinks.all} heads have a sink, n` : 'N'}${passagesWords('all').slice(1)};
                the model writes ${quoted(shortened(text.written.all.text, UNCHANGED_LENGTH))}
              </p>`
            : nothing
        }
        ${recordedNote(text, experiment, shown)}`,
      place,
    );
  });
}
