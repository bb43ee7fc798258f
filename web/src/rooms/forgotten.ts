/**
 * The opening of each question of “Why it matters”: what a published model wrote in the broken case and in the repaired one,
 * side by side, and how much attention each token got, recorded by web/lessons/forgotten.mjs. In some questions the reader
 * repairs the broken case by pressing the first word.
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
import { explainTerms } from '../page/terms';
import { cssColor, inkOn, sequential, type Theme } from '../plot/color';
import { drawScale } from '../plot/legend';

const { budget, heads, model, passages } = recorded;

type Name = keyof typeof recorded.texts;
type Recorded = (typeof recorded.texts)[Name];
type Written = Recorded['written'];
/** A condition that cards show. */
type Condition = Exclude<keyof Written, 'middle'>;
type Lists = Partial<Record<Condition, readonly number[]>>;
type Texts = Readonly<Record<keyof Written, { readonly text: string; readonly loss: number }>>;

const NAMES = (['story', 'news', 'recipe'] as const).map((name) => [name, name] as const);
/** The characters that a card shows of a written text, and the words at each end of the forgotten ones. */
const [WRITTEN_LENGTH, END_WORDS] = [118, 3];
/** Nonsense: a text whose loss rises by at least this many nats per token, or with at most this many different words. */
const [NONSENSE_RISE, STUCK_WORDS] = [1, 5];
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

/** A case of an exhibit: what is done, its broken condition and its repaired one, and what repairs it. */
type Case = readonly [deed: string, broken: Condition, repaired: Condition, repair?: string];

/** The words of a question, where {first} and {second} are the first words of the text, {D} is the width of the model. */
interface Exhibit {
  readonly intro: string;
  /** The cases by the choice of the experiment's menu; '' without a menu. */
  readonly cases: Readonly<Record<string, Case>>;
  /** How many first words of the broken case the reader presses, and for what: the first one leads to the repaired case. */
  readonly presses?: readonly [count: number, to: string];
  readonly headings: Readonly<Partial<Record<Condition, string>>>;
  /** A sentence about the picture and its cause. */
  readonly causeOf: (text: Recorded, shown: Case) => string;
}

const quoted = (piece: string): string => `“${piece.trim()}”`;
/** {peak} is the channel of the largest activation, {control} the one half the width away, whose zeroing is recorded, too. */
const fill = (words: string, { pieces, largest }: Pick<Recorded, 'pieces' | 'largest'>): string =>
  words
    .replaceAll('{first}', quoted(pieces[0]!))
    .replace('{second}', quoted(pieces[1]!))
    .replace('{D}', String(largest.D))
    .replace('{peak}', String(largest.channel))
    .replace('{control}', String((largest.channel + largest.D / 2) % largest.D));
const percentOf = ({ looks }: Recorded, condition: Condition, t = 0) =>
  `${Math.round(looks[condition][t]!)}%`;
const keptIn = ({ kept }: Recorded, condition: Condition) =>
  (kept as Partial<Record<Condition, readonly number[]>>)[condition];
const wholeWords = (x: number) => Math.round(x).toLocaleString('en');
const NUMBERS = `${model}, a real model, turns each word into {D} numbers (its hidden state).`;

export const EXHIBITS: Readonly<Record<State['experiment'], Exhibit>> = {
  streaming: {
    intro: `Long chats outgrow a model’s memory: old words are dropped. ${model}, a real model, keeps ${budget} tokens here.`,
    cases: { '': ['Forget the first word', 'last', 'first'] },
    presses: [2, 'keep it'],
    headings: { last: 'Forgets {first}', first: 'Keeps {first}', second: 'Keeps {second}' },
    causeOf: (text) =>
      `Softmax must hand out 100%: {first} gets ${percentOf(text, 'first')}, a sink in ${text.sinks.first} of ${heads} heads. ` +
      'Once forgotten, that attention mixes in other words.',
  },
  cache: {
    intro: `The memory of ${model}, a real model, holds ${budget} tokens here. A rule decides which of them stay.`,
    cases: {
      h2o: ['Keep the last words', 'last', 'h2o', 'Keep the most attended'],
      first: ['Keep the last words', 'last', 'first', 'Keep the first word, too'],
      tova: ['Keep the last words', 'last', 'tova', 'Keep what was attended last'],
      lru: ['Keep the last words', 'last', 'lru', 'Keep the recently used'],
    },
    headings: {
      last: `The last ${budget} tokens`,
      first: `The first token and the last ${budget - 1}`,
      h2o: `The ${budget} most attended`,
      tova: `The ${budget} attended last`,
      lru: `The ${budget} recently used`,
    },
    causeOf: (text, [, , repaired]) => {
      const kept = keptIn(text, repaired)!;
      const isOne = kept.every((share) => share === 0 || share === 100);
      return (
        `On the right ${kept[0]}% of the heads keep {first}, which gets ${percentOf(text, repaired)} of the attention; ` +
        `once forgotten, that attention mixes in other words. Struck: forgotten by ${isOne ? 'all' : 'most'} heads.`
      );
    },
  },
  quantization: {
    intro: `${NUMBERS} Rounded, as 3 for 3.1416, they take less memory.`,
    cases: { '': ['Round the first word, too,', 'round8', 'exact8'] },
    presses: [1, 'keep it exact'],
    headings: { round8: 'All words rounded', exact8: 'All but {first} rounded' },
    causeOf: () =>
      `8 bits have ${STEPS} equal steps up to the largest number. The sink {first} holds it, a massive activation: ` +
      'the steps become too coarse for all other words.',
  },
  fragility: {
    intro: `${NUMBERS} Here one of them is 0 in all words.`,
    cases: { '': ['Erase the sink’s large number', 'channel', 'otherChannel'] },
    headings: { channel: 'The large number erased', otherChannel: 'Another number erased' },
    causeOf: (text) =>
      `Heads recognize the sink {first} by its number {peak}: ${wholeWords(text.largest.size)}, a massive activation; no other word has one over ${Math.ceil(text.largest.rest)}. ` +
      `Without it ${text.sinks.channel} of ${heads} heads have a sink, not ${text.sinks.otherChannel}: {first} gets ${percentOf(text, 'channel')}, not ${percentOf(text, 'otherChannel')}. ` +
      'Softmax must hand out 100%, so the rest mixes in other words.',
  },
};

export function titleOf(
  text: Pick<Recorded, 'pieces' | 'largest'> & { readonly written: Texts },
  [deed, broken, repaired, repair = '']: Case,
): string {
  const [isBroken, isStill] = [broken, repaired].map((one) => writesNonsense(text.written, one));
  if (isBroken && !isStill && !repair) {
    const [count, other] = [broken, repaired].map(nonsenseCount);
    const outcome = other
      ? `${count} of ${passages.all.length} texts become nonsense, not ${other}`
      : 'the model writes nonsense';
    return fill(`${deed} and ${outcome}`, text);
  }
  const writes = !isBroken
    ? 'the model writes on'
    : isStill
      ? 'nonsense in both cases'
      : `nonsense. ${repair}: the model writes on`;
  return fill(`${deed.replace(/,$/, '')}: ${writes}`, text);
}

/** Returns after how many of the passages a text is nonsense. */
const nonsenseCount = (one: Condition) =>
  wordCounts[one]?.filter((words, i) => isNonsense(losses[one]![i]!, passages.all[i]!, words))
    .length;

/** States it below a text. */
function passagesWords(one: Condition): string {
  const count = nonsenseCount(one);
  return count === undefined ? '' : `${count} of ${passages.all.length} other texts: nonsense`;
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
  /** How many first words can be pressed. */
  readonly words: number;
  readonly isPressed: (t: number) => boolean;
  readonly press: (t: number) => void;
}

const wordButton = (
  { isPressed, press }: Press,
  t: number,
  content: unknown,
  style: unknown = nothing,
) =>
  html`<button type="button" aria-pressed=${isPressed(t)} style=${style} @click=${() => press(t)}>
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
  const alone = Math.max(1, press?.words ?? 0);
  const word = (t: number) => {
    const piece = pieces[t]!.trim();
    const isNamed = isKept(t) && (t === 0 || press?.isPressed(t));
    const percent = html` <small>${percentOf(text, condition, t)}</small>`;
    const content = isKept(t)
      ? html`${piece}${isNamed ? percent : nothing}`
      : html`<s>${piece}</s>`;
    const style = isKept(t) ? shade(t) : nothing;
    return press && t < press.words
      ? html`${wordButton(press, t, content, style)} `
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

/** Draws the largest number of each of the first words, exact and rounded. */
function rounding({ pieces, largest }: Recorded, condition: Condition, press?: Press) {
  const isKept = condition !== 'round8';
  const top = isKept ? largest.rest : largest.size;
  const step = top / STEPS;
  const line = (size: number, t: number) => {
    const isExact = isKept && t === 0;
    return html`<tr>
      <th scope="row">
        ${press && !t ? wordButton(press, t, pieces[t]!.trim()) : pieces[t]!.trim()}
      </th>
      ${barCell(isExact ? 0 : size / top, wholeWords(size))}
      <td>→ <strong>${isExact ? 'exact' : wholeWords(Math.round(size / step) * step)}</strong></td>
    </tr>`;
  };
  return html`<table class="bars rounding">
    <caption>
      Each word’s largest number, rounded to steps of ${step.toPrecision(3)}
    </caption>
    ${largest.peaks.map(line)}
    <tr>
      <td colspan="3">
        <strong>${Math.floor(10 * largest.zeros[Number(isKept)]!) / 10}%</strong> of all other
        numbers become 0
      </td>
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
    streaming: ` With {second} in place of {first} it is ${lossOf('second')}, where only ${middle} in the middle goes ${lossOf('middle')}.`,
    quantization: ` The numbers are those of the unchanged model, rounded at layer ${text.largest.state} of ${recorded.layers} alone.`,
    fragility:
      ' The other number is number {control}.' +
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
          `Nonsense: at least ${NONSENSE_RISE} nat more than unchanged, or at most ${STUCK_WORDS} different words. ` +
          `The story was tried first; news text, recipe and cases were chosen before the model read them.${own[experiment] ?? ''}`,
        text,
      )}
    </p>
  </details>`;
}

/** Says what pressing a first word does; '' where none can be pressed. */
function pressWords(presses: Exhibit['presses'], word: number): string {
  if (word >= 0) return `Press ${['{first}', '{second}'][word]} to undo. `;
  if (!presses) return '';
  const [count, purpose] = presses;
  return `Press ${count > 1 ? '{first} or {second}' : '{first}'} to ${purpose}. `;
}

/** Draws the cards of the beginning and the case that the reader chooses, above each experiment. */
export function addForgotten(place: HTMLElement, context: Context, scope: Scope): void {
  const chosenText = signal<Name>('story');
  /** The word that the reader pressed, and the question of it. */
  const pressed = signal<{ experiment?: string; word: number }>({ word: -1 });
  const scale = document.createElement('span');
  scope.effect(() => {
    const { experiment, policy } = context.state.value;
    const { cases, causeOf, headings, intro, presses } = EXHIBITS[experiment];
    const { menu, title } = experiments.find(({ name }) => name === experiment)!;
    const shown = cases[experiment === 'cache' ? policy : ''];
    const text = recorded.texts[chosenText.value];
    const word = pressed.value.experiment === experiment ? pressed.value.word : -1;
    const press: Press = {
      words: presses?.[0] ?? 0,
      isPressed: (t) => t === word,
      press: (t) => (pressed.value = { experiment, word: t === word ? -1 : t }),
    };
    const isRounded = experiment === 'quantization';
    drawScale(scale, sequential(context.theme.value, 1, true));
    const isGood = (one: Condition) => one !== shown![1] && !writesNonsense(text.written, one);
    const writes = isRounded
      ? `After “… ${wordsOf(text.beginning).slice(-END_WORDS).join(' ')}” the model writes:`
      : 'The model writes:';
    const card = (one: Condition, isLeft: boolean) =>
      html`<div class="forgotten-card ${isGood(one) ? 'repaired' : ''}">
        <h2>${fill(headings[one]!, text)}</h2>
        ${
          isRounded
            ? rounding(text, one, isLeft ? press : undefined)
            : strip(text, one, context.theme.value, isLeft ? press : undefined)
        }
        <p class="hint">${isLeft ? fill(pressWords(presses, word), text) : ''}${writes}</p>
        <p class="text-strip writing" data-written=${one} title=${text.written[one].text}>
          ${shortened(text.written[one].text)}
        </p>
        <p class="hint">${passagesWords(one)}</p>
      </div>`;
    render(
      html`<h1>${shown ? titleOf(text, shown) : title}</h1>
        <p class="opening">
          ${shown ? explainTerms(fill(intro, text), true) : `Of ${model}, a real model, this is not recorded: the small model below shows it.`}
          <span class="fields">
            ${menu?.(context) ?? nothing}
            ${
              shown
                ? choiceField(
                    'text',
                    chosenText.value,
                    NAMES,
                    (one) => (chosenText.value = one as Name),
                  )
                : nothing
            }
            ${
              shown && !isRounded
                ? html`<span class="map-legend"
                    >${scale}<span class="hint">attention, mean of ${heads} heads</span></span
                  >`
                : nothing
            }
          </span>
        </p>
        ${
          shown
            ? html`<div class="forgotten-cards">
                  ${card(word < 0 ? shown[1] : word ? 'second' : shown[2], true)}
                  ${card(shown[2], false)}
                </div>
                <p class="opening">${explainTerms(fill(causeOf(text, shown), text), true)}</p>
                ${recordedNote(text, experiment, shown)}`
            : nothing
        }`,
      place,
    );
  });
}
