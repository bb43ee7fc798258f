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
/** Nonsense: the least rise of the loss above the unchanged text, in nats per token, or the most different words. */
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

/** The words of a question, in which {first} and {second} stand for the first words of the text. */
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
const fill = (words: string, { pieces }: Pick<Recorded, 'pieces'>): string =>
  words.replace('{first}', quoted(pieces[0]!)).replace('{second}', quoted(pieces[1]!));
const percentOf = ({ looks }: Recorded, condition: Condition, t = 0) =>
  `${Math.round(looks[condition][t]!)}%`;
const keptIn = ({ kept }: Recorded, condition: Condition) =>
  (kept as Partial<Record<Condition, readonly number[]>>)[condition];
const wholeWords = (x: number) => Math.round(x).toLocaleString('en');
const SHADED = `Shaded: attention, mean of ${heads} heads`;

export const EXHIBITS: Readonly<Record<State['experiment'], Exhibit>> = {
  streaming: {
    intro: `Long chats outgrow a model’s memory, and old words are dropped. ${model}, a real model, may keep ${budget} tokens here.`,
    cases: { '': ['Forget the first word', 'last', 'first'] },
    presses: [2, 'keep it'],
    headings: { last: 'Forgets {first}', first: 'Keeps {first}', second: 'Keeps {second}' },
    causeOf: (text) =>
      fill(
        `${SHADED}. Softmax must hand out 100%: {first} gets ${percentOf(text, 'first')}, a sink in ${text.sinks.first} heads. ` +
          'Once forgotten, that attention mixes other words into what comes out.',
        text,
      ),
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
      const alike = kept.every((share) => share === 0 || share === 100);
      const shown = kept.filter((share) => share >= 50).length;
      return fill(
        `${SHADED}. ${alike ? 'All heads keep the same tokens' : `Each head keeps its own ${budget}: the ${shown} that at least half of them keep are not struck`}. ` +
          `{first} gets ${percentOf(text, repaired)} on the right, and ${kept[0]}% of the heads keep it.`,
        text,
      );
    },
  },
  quantization: {
    intro: `Rounded numbers, as 3 for 3.1416, save memory. ${model}, a real model, rounds its hidden states here.`,
    cases: { '': ['Round to 8 bits', 'round8', 'exact8', 'Keep {first} exact'] },
    presses: [1, 'keep it exact'],
    headings: {
      round8: 'All words rounded',
      exact8: '{first} exact, others rounded',
    },
    causeOf: (text) =>
      fill(
        `The sink {first} has by far the largest number, a massive activation: steps that reach it are too coarse for all others. ` +
          `Nothing rounded, the model writes: ${quoted(shortened(text.written.all.text, WRITTEN_LENGTH / 2))}`,
        text,
      ),
  },
  fragility: {
    intro: `${model}, a real model, with one change and without.`,
    cases: {
      tag: ['Remove the first word’s tag', 'tag', 'all'],
      channel: ['Zero one channel', 'channel', 'all'],
      weight: ['Zero one weight', 'weight', 'all'],
      repeat: ['Repeat the first word', 'repeat', 'all'],
    },
    headings: {
      all: 'Unchanged',
      tag: 'Without the tag of {first}',
      channel: 'Without its largest channel',
      weight: 'Without one weight',
      repeat: 'Copies of {first}',
    },
    causeOf: (text, [, broken]) => {
      const [control, words] = CONTROLS[broken] ?? [];
      const count = control && nonsenseCount(control);
      const after = count === undefined ? '' : `, nonsense after ${count} of the passages`;
      const told = control
        ? ` ${words}: ${text.sinks[control]} heads have it${after}; here: ${quoted(shortened(text.written[control].text, WRITTEN_LENGTH / 3))}`
        : '';
      return fill(`${SHADED}. The sink is the first word, {first}.${told}`, text);
    },
  },
};

/** The control of each way to break the sink. */
const CONTROLS: Readonly<Partial<Record<Condition, readonly [Condition, words: string]>>> = {
  tag: [
    'otherTag',
    'Its tag is what heads write of it into later words (W_O v₁). Random directions removed',
  ],
  channel: ['otherChannel', 'Another channel zeroed'],
  weight: ['otherWeight', 'Another weight zeroed'],
};

export function titleOf(
  text: Pick<Recorded, 'pieces' | 'sinks'> & { readonly written: Texts },
  experiment: State['experiment'],
  [deed, broken, repaired, repair = '']: Case,
): string {
  const [isBroken, isStill] = [broken, repaired].map((one) => writesNonsense(text.written, one));
  if (experiment === 'fragility') {
    const before = text.sinks[broken] === text.sinks.all ? 'as before' : `not ${text.sinks.all}`;
    const written = isBroken && !isStill ? 'nonsense; ' : '';
    return `${deed}: ${written}${text.sinks[broken]} of ${heads} heads have a sink, ${before}`;
  }
  const title = !isBroken
    ? `${deed}: the model writes on`
    : isStill
      ? `${deed}: nonsense${repair && `, also if you ${repair.toLowerCase()}`}`
      : repair
        ? `${deed}: nonsense. ${repair}: English words`
        : `${deed} and the model writes nonsense`;
  return fill(title, text);
}

/** Returns after how many of the passages a text is nonsense. */
const nonsenseCount = (one: Condition) =>
  wordCounts[one]?.filter((words, i) => isNonsense(losses[one]![i]!, passages.all[i]!, words))
    .length;

/** States it of both cases. */
function passagesWords([, broken, repaired]: Case): string {
  const [left, right] = [broken, repaired].map(nonsenseCount);
  return left === undefined
    ? ''
    : `Nonsense, left: ${left} of ${passages.all.length} passages; right: ${right}`;
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
  const { looks } = text;
  const pieces =
    condition === 'repeat' ? text.pieces.map(() => ` ${text.pieces[0]!}`) : text.pieces;
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
    return html`<tr class=${isExact ? 'exact' : ''}>
      <th scope="row">
        ${press && !t ? wordButton(press, t, pieces[t]!.trim()) : pieces[t]!.trim()}
      </th>
      ${barCell(Math.min(1, size / top), wholeWords(size))}
      <td>→ <strong>${isExact ? 'exact' : wholeWords(Math.round(size / step) * step)}</strong></td>
    </tr>`;
  };
  return html`<table class="bars rounding">
    <caption>
      Largest numbers at layer ${largest.state} of ${recorded.layers}. 8 bits: ${STEPS} steps of
      ${step.toPrecision(3)}
    </caption>
    ${largest.peaks.map(line)}
    <tr>
      <td colspan="3">
        … all but ${quoted(pieces[0]!)}:
        <strong>${Math.floor(10 * largest.zeros[Number(isKept)]!) / 10}%</strong> of the numbers
        become 0
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
      ? `; after ${recorded.passageTokens} tokens of ${passages.all.length} passages of books its means are ${meansOf([broken, repaired, 'all'])}`
      : '';
  const own =
    experiment === 'streaming'
      ? ` With {second} in place of {first} it is ${lossOf('second')}, where only ${middle} in the middle goes ${lossOf('middle')}.`
      : experiment === 'quantization'
        ? ' The numbers are those of the unchanged model, rounded at this layer alone.'
        : '';
  return html`<details class="more">
    <summary>How recorded</summary>
    <p class="hint">
      ${fill(
        `Recorded from ${recorded.file} (sha256 ${recorded.sha256.slice(0, 12)}…) by Sinkscope ${recorded.version}: the likeliest token each time, ${recorded.count} tokens. ` +
          `Loss of what is written, in nats per token, under the unchanged model: ${lossOf(broken)} on the left, ${lossOf(repaired)} on the right, ${lossOf('all')} unchanged${means}. ` +
          `Nonsense: at least ${NONSENSE_RISE} nat more than unchanged, or at most ${STUCK_WORDS} different words. ` +
          `The story was tried first; news text, recipe and cases were chosen before the model read them.${own}`,
        text,
      )}
    </p>
  </details>`;
}

/** Draws the cards of the beginning and the case that the reader chooses, above each experiment. */
export function addForgotten(place: HTMLElement, context: Context, scope: Scope): void {
  const chosenText = signal<Name>('story');
  /** The word that the reader pressed, and the question of it. */
  const pressed = signal<{ experiment?: string; word: number }>({ word: -1 });
  scope.effect(() => {
    const { experiment, policy, perturbation } = context.state.value;
    const { cases, causeOf, headings, intro, presses } = EXHIBITS[experiment];
    const { menu, title } = experiments.find(({ name }) => name === experiment)!;
    const shown = cases[{ cache: policy, fragility: perturbation }[experiment as string] ?? ''];
    const text = recorded.texts[chosenText.value];
    const word = pressed.value.experiment === experiment ? pressed.value.word : -1;
    const press: Press = {
      words: presses?.[0] ?? 0,
      isPressed: (t) => t === word,
      press: (t) => (pressed.value = { experiment, word: t === word ? -1 : t }),
    };
    const isRounded = experiment === 'quantization';
    const hint =
      word >= 0
        ? `Press ${['{first}', '{second}'][word]} to undo. `
        : presses
          ? `Press ${presses[0] > 1 ? '{first} or {second}' : '{first}'} to ${presses[1]}. `
          : '';
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
        <p class="hint">${isLeft ? fill(hint, text) : ''}${writes}</p>
        <p class="text-strip writing" data-written=${one} title=${text.written[one].text}>
          ${shortened(text.written[one].text)}
        </p>
      </div>`;
    render(
      html`<h1>${shown ? titleOf(text, experiment, shown) : title}</h1>
        <p class="opening">
          ${shown ? explainTerms(intro, true) : `Of ${model}, a real model, this is not recorded: the small model below shows it.`}
          <span class="fields">
            ${menu?.(context) ?? nothing}
            ${
              shown
                ? html`${choiceField('text', chosenText.value, NAMES, (one) => (chosenText.value = one as Name))}
                    <span class="hint">${passagesWords(shown)}</span>`
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
                <p class="opening">${explainTerms(causeOf(text, shown), true)}</p>
                ${recordedNote(text, experiment, shown)}`
            : nothing
        }`,
      place,
    );
  });
}
