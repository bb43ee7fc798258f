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
import { explainTerms } from '../page/terms';
import { cssColor, inkOn, sequential, type Theme } from '../plot/color';
import { percentWorse } from '../views/settings';

const {
  budget,
  count,
  file,
  heads,
  model,
  passages,
  passageTokens,
  passageWords,
  reading,
  sha256,
  version,
} = recorded;

type Name = keyof typeof recorded.texts;
type Recorded = (typeof recorded.texts)[Name];
type Written = Recorded['written'];
/** A condition that cards show. */
type Condition = Exclude<keyof Written, 'middle'>;
type Texts = Readonly<Record<keyof Written, { readonly text: string; readonly loss: number }>>;

const NAMES = (['story', 'news', 'recipe'] as const).map((name) => [name, name] as const);
/** The characters that a card shows of a written text, and the words at each end of the forgotten ones. */
const [WRITTEN_LENGTH, END_WORDS] = [118, 3];
/** A text whose loss is this many nats per token above another's is called nonsense beside it, and one of so few words. */
const [NONSENSE_RISE, STUCK_WORDS] = [1, 5];
/** A card with more tokens than this has smaller letters. */
const FEW_TOKENS = 30;

/** What the texts of the broken case and of the repaired one say: under the unedited model, nonsense is unlikely. */
type Verdict = 'repaired' | 'better' | 'broken' | 'same';

function verdictOf(written: Texts, broken: Condition, repaired: Condition): Verdict {
  const isNonsense = (one: keyof Texts, beside: keyof Texts) =>
    written[one].loss - written[beside].loss >= NONSENSE_RISE ||
    new Set(wordsOf(written[one].text)).size <= STUCK_WORDS;
  const isBroken = isNonsense(repaired, 'all');
  if (isNonsense(broken, repaired)) return isBroken ? 'better' : 'repaired';
  return isBroken ? 'broken' : 'same';
}

/** A case of an exhibit: what is done, its broken condition and its repaired one, and what repairs it. */
type Case = readonly [deed: string, broken: Condition, repaired: Condition, repair?: string];

/** The words of a question, in which {first} and {second} stand for the first words of the text. */
interface Exhibit {
  readonly intro: string;
  /** The label of the choice of cases. */
  readonly label?: string;
  readonly cases: readonly Case[];
  /** How many first words of the broken case the reader presses, and for what: the first one leads to the repaired case. */
  readonly presses?: readonly [count: number, to: string];
  readonly headings: Readonly<Partial<Record<Condition, string>>>;
  /** A sentence about the shading and its cause. */
  readonly causeOf: (text: Recorded, shown: Case) => string;
}

const quoted = (piece: string): string => `“${piece.trim()}”`;
const fill = (words: string, { pieces }: Pick<Recorded, 'pieces'>): string =>
  words.replace('{first}', quoted(pieces[0]!)).replace('{second}', quoted(pieces[1]!));
const percentOf = ({ looks }: Recorded, condition: Condition, t = 0) =>
  `${Math.round(looks[condition][t]!)}%`;
const keptIn = ({ kept }: Recorded, condition: Condition) =>
  (kept as Partial<Record<Condition, readonly number[]>>)[condition];
const numberWords = (x: number) => x.toLocaleString('en', { maximumSignificantDigits: 2 });
const SHADED = `Shaded: attention, mean of ${heads} heads`;

const TITLES: Readonly<Record<Verdict, (deed: string, repair: string) => string>> = {
  repaired: (deed, repair) =>
    repair ? `${deed}: nonsense. ${repair}: English` : `${deed} and the model writes nonsense`,
  better: (deed) => `${deed} and the model’s text gets worse`,
  broken: (deed, repair) => `${deed}: nonsense${repair && `, also if you ${repair.toLowerCase()}`}`,
  same: (deed) => `${deed}: the model writes on`,
};

export const EXHIBITS: Readonly<Record<State['experiment'], Exhibit>> = {
  streaming: {
    intro: `Long chats outgrow a model’s memory, and old words are dropped. ${model}, a real model, may keep ${budget} tokens here.`,
    cases: [['Forget the first word', 'last', 'first']],
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
    label: 'rule on the right',
    cases: [
      ['Keep the last words', 'last', 'h2o', 'Keep the most attended'],
      ['Keep the last words', 'last', 'tova', 'Keep what was attended last'],
      ['Keep the last words', 'last', 'lru', 'Keep the recently used'],
    ],
    headings: {
      last: `The last ${budget} tokens`,
      h2o: `The ${budget} most attended`,
      tova: `The ${budget} attended last`,
      lru: `The ${budget} recently used`,
    },
    causeOf: (text, [, , repaired]) =>
      fill(
        `${SHADED}; struck: forgotten by most. {first} gets ${percentOf(text, repaired)} by this rule, and ${keptIn(text, repaired)![0]}% of the heads keep it.`,
        text,
      ),
  },
  quantization: {
    intro: `Rounded numbers save memory and time. ${model}, a real model, rounds its hidden states here, with one scale per layer.`,
    cases: [['Round to 8 bits', 'round8', 'exact8', 'Keep {first} exact']],
    presses: [1, 'keep it exact'],
    headings: {
      round8: 'All words rounded',
      exact8: '{first} exact, others rounded',
    },
    causeOf: ({ largest, pieces, written }) => {
      const step = largest.size / (2 ** 7 - 1);
      const zeros =
        largest.median < step / 2 ? ', and at least half of that layer’s numbers become 0' : '';
      return (
        `Nothing rounded, it writes: ${quoted(shortened(written.all.text, WRITTEN_LENGTH / 2))} ${quoted(pieces[largest.token]!)} has the largest number, ` +
        `${numberWords(largest.size)}: 8 bits reach it in steps of ${numberWords(step)}${zeros}. ${SHADED}.`
      );
    },
  },
  fragility: {
    intro: `All words stay. ${model}, a real model, is changed in one way.`,
    label: 'change',
    cases: [
      ['Remove the first word’s tag', 'tag', 'all'],
      ['Remove random directions', 'otherTag', 'all'],
      ['Zero one channel', 'channel', 'all'],
      ['Zero another channel', 'otherChannel', 'all'],
      ['Zero one weight', 'weight', 'all'],
      ['Zero another weight', 'otherWeight', 'all'],
    ],
    headings: {
      all: 'Unchanged',
      tag: 'Without the tag of {first}',
      otherTag: 'Without random directions',
      channel: 'Without its largest channel',
      otherChannel: 'Without another channel',
      weight: 'Without one weight',
      otherWeight: 'Without another weight',
    },
    causeOf: (text, [, broken]) =>
      fill(
        `${SHADED}. {first} is a sink in ${text.sinks[broken]} heads, ${text.sinks[broken] === text.sinks.all ? 'as before' : `not ${text.sinks.all}`}.${CONTROLS[broken] ? controlWords(text, CONTROLS[broken]) : ''}`,
        text,
      ),
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

/** Says how many sinks a control leaves, and what it makes of the text. */
function controlWords(
  { sinks, written }: Recorded,
  [control, words]: readonly [Condition, string],
) {
  const kind = verdictOf(written, control, 'all') === 'same' ? 'sentences' : 'nonsense, too';
  return ` ${words}: ${sinks[control]} heads; it writes ${kind}.`;
}

export function titleOf(
  text: Pick<Recorded, 'pieces' | 'sinks'> & { readonly written: Texts },
  [deed, broken, repaired, repair = '']: Case,
): string {
  const verdict = verdictOf(text.written, broken, repaired);
  const [control] = CONTROLS[broken] ?? [];
  // What is written says little where the control writes nonsense, too.
  if (control && verdict === 'repaired' && verdictOf(text.written, control, 'all') !== 'same')
    return `${deed}: ${text.sinks[broken]} of ${heads} heads keep a sink, not ${text.sinks.all}`;
  return fill(TITLES[verdict](deed, repair), text);
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

/** Draws the tokens, shaded by the attention that they get, with struck ones where most heads forgot them. */
function strip(text: Recorded, condition: Condition, theme: Theme, press?: Press) {
  const { pieces, looks } = text;
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
      ? html`<button
          type="button"
          aria-pressed=${press.isPressed(t)}
          style=${style}
          @click=${() => press.press(t)}
        >
          ${content}
        </button> `
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

/** States how the texts were recorded, their losses, and how often forgetting the first word matters. */
function recordedNote(text: Recorded, experiment: State['experiment'], [, broken, repaired]: Case) {
  const lossOf = (name: keyof Written) => text.written[name].loss.toFixed(2);
  const worse = (name: 'last' | 'first') => percentWorse(reading[name] - reading.all);
  const middle = quoted(text.pieces[Math.floor(text.pieces.length / 2)]!);
  const meanOf = (name: keyof typeof passages) => mean(passages[name]).toFixed(2);
  const nonsenseOf = (name: keyof typeof passageWords, beside: keyof typeof passages) =>
    passages[name].filter(
      (loss, i) =>
        loss - passages[beside][i]! >= NONSENSE_RISE || passageWords[name][i]! <= STUCK_WORDS,
    ).length;
  const higher = passages.last.filter((loss, i) => loss > passages.first[i]!).length;
  const own =
    experiment === 'streaming'
      ? ` With {second} in place of {first} it is ${lossOf('second')}, where only ${middle} in the middle goes ${lossOf('middle')}. ` +
        `After ${passageTokens} tokens of ${passages.last.length} passages of books its mean is ${meanOf('last')} with the last ${budget} tokens, ` +
        `${meanOf('first')} with the first kept, ${meanOf('all')} with all; in ${higher} of ${passages.last.length} it is higher without the first. ` +
        `On ${reading.passages} passages of ${reading.tokens} tokens the model predicts ${worse('last')} worse with the last ${budget}, ${worse('first')} with the first kept.`
      : experiment === 'quantization'
        ? ` After ${passageTokens} tokens of ${passages.round8.length} passages of books its mean is ${meanOf('round8')} with all words rounded, ${meanOf('exact8')} with the first exact, ` +
          `${meanOf('all')} unchanged; by the same rule ${nonsenseOf('round8', 'exact8')} of the rounded texts are nonsense, ${nonsenseOf('exact8', 'all')} with the first exact, ${nonsenseOf('all', 'all')} unchanged.`
        : '';
  return html`<details class="more">
    <summary>How recorded</summary>
    <p class="hint">
      ${fill(
        `Recorded from ${file} (sha256 ${sha256.slice(0, 12)}…) by Sinkscope ${version}: the likeliest token each time, ${count} tokens. ` +
          `Loss of what is written, in nats per token, under the unchanged model: ${lossOf(broken)} on the left, ${lossOf(repaired)} on the right, ${lossOf('all')} unchanged. ` +
          `Nonsense: at least ${NONSENSE_RISE} nat more than beside it, or at most ${STUCK_WORDS} different words. ` +
          `The story was tried first; news text, recipe and cases were chosen before the model read them.${own}`,
        text,
      )}
    </p>
  </details>`;
}

/** Draws the cards of the beginning that the reader chooses, above each experiment. */
export function addForgotten(place: HTMLElement, { state, theme }: Context, scope: Scope): void {
  const chosenText = signal<Name>('story');
  /** The chosen case of each question, and the word that the reader pressed. */
  const chosenCase = signal<Partial<Record<State['experiment'], number>>>({});
  const pressed = signal<{ experiment?: string; word: number }>({ word: -1 });
  scope.effect(() => {
    const { experiment } = state.value;
    const { cases, causeOf, headings, intro, label, presses } = EXHIBITS[experiment];
    const shown = cases[chosenCase.value[experiment] ?? 0]!;
    const [, broken, repaired] = shown;
    const text = recorded.texts[chosenText.value];
    const word = pressed.value.experiment === experiment ? pressed.value.word : -1;
    const press: Press = {
      words: presses?.[0] ?? 0,
      isPressed: (t) => t === word,
      press: (t) => (pressed.value = { experiment, word: t === word ? -1 : t }),
    };
    const hint =
      word >= 0
        ? `Press ${['{first}', '{second}'][word]} to undo. `
        : presses
          ? `Press ${presses[0] > 1 ? '{first} or {second}' : '{first}'} to ${presses[1]}. `
          : '';
    const isMended = (one: Condition) =>
      one !== broken && verdictOf(text.written, one, 'all') === 'same';
    const card = (one: Condition, isLeft: boolean) =>
      html`<div class="forgotten-card ${isMended(one) ? 'repaired' : ''}">
        <h2>${fill(headings[one]!, text)}</h2>
        ${strip(text, one, theme.value, isLeft ? press : undefined)}
        <p class="hint">${isLeft ? fill(hint, text) : ''}The model writes:</p>
        <p class="text-strip writing" data-written=${one} title=${text.written[one].text}>
          ${shortened(text.written[one].text)}
        </p>
      </div>`;
    // A choice names what differs.
    const isByRepair = cases.every(([deed]) => deed === shown[0]);
    const nameOf = ([deed, , , repair]: Case) => fill(isByRepair ? repair! : deed, text);
    render(
      html`<h1>${titleOf(text, shown)}</h1>
        <p class="opening">
          ${explainTerms(intro, true)}
          <span class="fields">
            ${
              label
                ? choiceField(
                    label,
                    String(cases.indexOf(shown)),
                    cases.map((one, i) => [String(i), nameOf(one)] as const),
                    (i) => (chosenCase.value = { ...chosenCase.value, [experiment]: Number(i) }),
                  )
                : nothing
            }
            ${choiceField('text', chosenText.value, NAMES, (one) => (chosenText.value = one as Name))}
          </span>
        </p>
        <div class="forgotten-cards">
          ${card(word < 0 ? broken : word ? 'second' : repaired, true)}${card(repaired, false)}
        </div>
        <p class="opening">${explainTerms(causeOf(text, shown), true)}</p>
        ${recordedNote(text, experiment, shown)}
        <p class="eyebrow">Here, live, on a small model</p>`,
      place,
    );
  });
}
